"""The command `hpckit` itself: its help, its exit codes, its errors."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from hpckit.cli.main import ALIASES, COMMANDS, cli
from tests.begun import begun, interrupted
from tests.conftest import RunHpckit
from tests.fakes.cli_jobs import call, config_home, started_job, write_site


def terms(text: str) -> set[str]:
    """The words of a sentence that carry its meaning, without endings."""
    found = {word[:5] for word in re.findall(r"[a-z]{3,}", text.lower())}
    return found - {"the", "and", "its", "job"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_loads_and_means_what_help_says(name: str) -> None:
    """Its line in `hpckit --help` and its own help are about one thing, each option has help."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.name == name
    assert terms(COMMANDS[name]) & terms(command.get_short_help_str(200))
    assert call(name, "-h").stdout.startswith(f"Usage: cli {name}")
    options = [one for one in command.params if isinstance(one, click.Option)]
    assert [one.name for one in options if not one.help and not one.hidden] == []


def test_help_lists_every_command() -> None:
    """`hpckit --help` lists each command with its line, and the exit codes."""
    text = call("--help").stdout
    for name, line in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(line)}$", text, re.MULTILINE)
    assert "130 interrupted" in text


@pytest.mark.parametrize(
    ("typed", "meant"), [("stauts", "hpckit status"), ("xyzzy", "hpckit --help"), *ALIASES.items()]
)
def test_an_unknown_command_names_the_one_that_was_meant(typed: str, meant: str) -> None:
    """A misspelled command or one of another tool is a usage error that names ours."""
    result = call(typed)
    assert result.exit_code == 2
    assert f"there is no command '{typed}'; did you mean `{meant}`?" in result.stderr


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(name: str) -> None:
    """The completion script of each shell asks hpckit itself."""
    assert "_HPCKIT_COMPLETE" in call("completion", name).stdout


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("status",), 1, "no job has been submitted yet"),
        (("status", "--nonsense"), 2, "has no --nonsense"),
        (("render", "gone.toml"), 3, "gone.toml: cannot be read: No such file or directory"),
        (("render", "--site", "dokcer", "--", "true"), 3, "did you mean 'docker'?"),
        (("submit", "--local", "--nodes", "2", "--", "true"), 5, "have 1 node, need 2 nodes"),
        (("render", "--template", "gone.j2", "--", "true"), 6, "no such template"),
    ],
)
def test_each_kind_of_error_has_its_exit_code(
    run_hpckit: RunHpckit, args: tuple[str, ...], code: int, said: str
) -> None:
    """The exit code is the error's own; stderr says why, and stdout says nothing."""
    ran = run_hpckit(*args)
    assert (ran.returncode, ran.stdout) == (code, "")
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_scheduler_that_is_missing_is_the_worlds_fault(
    run_hpckit: RunHpckit, tmp_path: Path
) -> None:
    """Without sbatch a submission to Slurm exits 7, names it, and leaves nothing behind."""
    site = write_site(config_home() / "site_configs", "mine", "")
    with site.open("a") as file:
        file.write(f'submitter = "slurm"\njob_root = "{tmp_path}/jobs"\n')
    env = {"PATH": str(tmp_path)}
    ran = run_hpckit("submit", "--site", "mine", "--", "true", env=env)
    assert (ran.returncode, ran.stdout) == (7, "")
    assert "sbatch was not found" in ran.stderr
    assert not (tmp_path / "jobs").exists()
    assert json.loads(run_hpckit("jobs", "--json").stdout)["jobs"] == []


def test_json_promises_a_document_for_an_error_too(run_hpckit: RunHpckit) -> None:
    """With --json an error is `hpckit.error/1` on stdout, and the same words on stderr."""
    ran = run_hpckit("status", "--json")
    assert json.loads(ran.stdout) == {
        "schema": "hpckit.error/1",
        "error": "no job has been submitted yet",
        "hint": "hpckit submit JOB; hpckit jobs --rebuild finds jobs by their folders",
        "exit_code": 1,
    }
    assert ran.stderr.startswith("error  no job has been submitted yet\n  fix: hpckit submit JOB; ")


def test_json_after_the_dashes_is_the_jobs_own(run_hpckit: RunHpckit) -> None:
    """A --json of the job's command promises nothing."""
    ran = run_hpckit("submit", "--local", "--nodes", "2", "--", "tool", "--json")
    assert (ran.returncode, ran.stdout) == (5, "")


def test_an_error_hides_nothing(run_hpckit: RunHpckit) -> None:
    """Control characters in what was typed are shown as escapes, not sent to the terminal."""
    ran = run_hpckit("render", "--site", "a\x1b[2Jb", "--", "true")
    assert ran.returncode == 3
    assert "\x1b" not in ran.stderr


@pytest.mark.parametrize("args", [("--help",), ("render", "--", "true"), ("sites", "list")])
def test_output_that_cannot_be_written_is_the_worlds_fault(args: tuple[str, ...]) -> None:
    """On a full disk the exit code is 7 and the cause is said once, without a traceback."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "hpckit", *args],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 7
    assert done.stderr == ("error  the output could not be written: No space left on device\n")


def in_shell(line: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """What a shell does with `hpckit` in a line."""
    line = line.replace("hpckit", f"{sys.executable} -m hpckit")
    return subprocess.run(["bash", "-c", line], env={**os.environ, **env}, capture_output=True,
                          timeout=60, check=False)  # fmt: skip


def test_a_job_that_nobody_could_be_told_of_is_named() -> None:
    """`submit >/dev/full` says on stderr which job was started."""
    done = in_shell("hpckit submit --local -- true >/dev/full")
    assert done.returncode == 7
    assert re.search(rb"job L[0-9a-f]{8} was submitted; the output could not be", done.stderr)


@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_fault(closed: str) -> None:
    """Nor is a file that is opened later taken for it."""
    assert in_shell(f"hpckit render -- true {closed}").returncode == 0


def test_a_terminal_without_unicode_gets_plain_characters() -> None:
    """Trees and arrows in a Latin-1 locale, as of an old login."""
    example = Path(__file__).resolve().parents[3] / "examples" / "dgx-h100.json"
    done = in_shell(f"hpckit inspect {example}", PYTHONIOENCODING="iso-8859-1", PYTHONUTF8="0")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"+--" in done.stdout or b"+-" in done.stdout


@pytest.mark.parametrize("words", ["render", "render --json", "init -o -"])
def test_what_is_a_file_is_utf_8_on_any_terminal(words: str) -> None:
    """A script, a document and a job file have the same bytes in a Latin-1 locale."""
    line = f"hpckit {words} --comment '訓練→é' -- ./a"
    printed = [in_shell(line, PYTHONIOENCODING=name).stdout for name in ("iso-8859-1", "utf-8")]
    assert printed[0] == printed[1]
    assert "訓練→é" in printed[0].decode()


def test_a_named_pipe_is_no_job_file(tmp_path: Path) -> None:
    """It is refused at once: nobody may ever write to it."""
    os.mkfifo(tmp_path / "job.toml")
    done = in_shell(f"hpckit render {tmp_path}/job.toml")
    assert done.returncode == 3
    assert b"is a named pipe" in done.stderr


def test_a_reader_that_has_gone_ends_it_quietly() -> None:
    """`hpckit render | head -c 0` is ended by SIGPIPE and says nothing."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "hpckit", "render", "--", "true"],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")


def test_a_bug_says_that_it_is_one() -> None:
    """What nobody foresaw, here a broken library, is exit 70 with a traceback to report."""
    code = (
        "import sys; sys.modules['hpckit.script.render'] = None\n"
        "sys.argv = ['hpckit', 'render', '--', 'true']\n"
        "from hpckit.cli.main import main; main()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 70
    assert "Traceback" in ran.stderr
    assert "this is a bug in hpckit" in ran.stderr


def test_a_callers_library_breaks_nothing(run_hpckit_process: RunHpckit, tmp_path: Path) -> None:
    """What PYTHONPATH holds for the job comes behind hpckit's own libraries."""
    for name in ("jinja2", "click", "numpy", "msgspec"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('foreign library')\n")
    ran = run_hpckit_process("render", "--", "true", env={"PYTHONPATH": str(tmp_path)})
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(("color", "red"), [("never", ""), ("always", "\x1b[31m")])
def test_an_error_has_the_colour_that_is_asked_for(
    run_hpckit: RunHpckit, color: str, red: str
) -> None:
    """--color says it of errors too, over the environment."""
    ran = run_hpckit("--color", color, "status", "nosuch", env={"FORCE_COLOR": "1"})
    assert ran.stderr.startswith(f"{red}error")


def test_an_interrupt_is_130_and_says_what_goes_on() -> None:
    """Ctrl-C while following a log exits 130 and names how to go on."""
    job = started_job("true")
    (job.folder / "logs" / "job.log").write_text("begun\n")
    (job.folder / "submitted.json").unlink()  # it is still being submitted, by this process
    following = begun("logs", "-f", job.job_id)
    assert following.stdout is not None
    assert following.stdout.readline() == b"begun\n"
    said = interrupted(following)
    assert following.returncode == 130
    assert said.strip() == f"interrupted · the job goes on: hpckit logs -f {job.job_id}"


@pytest.mark.parametrize("no_color", ["", "1"])
def test_no_color_is_respected(run_hpckit: RunHpckit, no_color: str) -> None:
    """Where no terminal reads, nothing is coloured, with NO_COLOR or without."""
    ran = run_hpckit("sites", "list", env={"NO_COLOR": no_color})
    assert "\x1b" not in ran.stdout + ran.stderr


def code_and_words(code: str) -> tuple[int, bytes]:
    """The exit code of a program, and what it says on stderr."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    return done.returncode, done.stderr


def test_ctrl_c_while_it_is_loaded_is_an_interrupt() -> None:
    """Before the command line is there Ctrl-C ends hpckit with 130, and without a traceback."""
    code = (
        "import sys\n"
        "class Pressed:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'hpckit.cli.main': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Pressed())\n"
        "from hpckit.__main__ import main\n"
        "main()\n"
    )
    assert code_and_words(code) == (130, b"")


def test_ctrl_c_after_the_last_line_is_too_late() -> None:
    """While Python puts its things away the command is done: its code stands, nothing is said."""
    code = (
        "import atexit, os, signal, sys\n"
        "def late():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    os.write(2, b'late')\n"
        "atexit.register(late)\n"
        "sys.argv[1:] = ['--version']\n"
        "from hpckit.__main__ import main\n"
        "main()\n"
    )
    assert code_and_words(code) == (0, b"late")


@pytest.mark.parametrize(
    "also",
    ["", "threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()\n",
     "sys.setprofile(lambda *_: None)\n"],
)  # fmt: skip
def test_the_end_loses_nothing(also: str) -> None:
    """What was printed into a pipe arrives, that of a thread too, and the code is the command's."""
    code = (
        "import sys, threading, time\n"
        "sys.argv[1:] = ['show', 'nosuch']\n"
        "from hpckit.__main__ import main\n"
        f"print('printed')\n{also}"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 1
    assert done.stdout.split() == [b"printed", *([b"thread"] if "Thread" in also else [])]


def test_alone_it_is_one_screen_of_beginnings(run_hpckit: RunHpckit) -> None:
    """It names every command, and fits 80 columns and 24 lines."""
    done = run_hpckit()
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    assert set(COMMANDS) <= set(done.stdout.split())
