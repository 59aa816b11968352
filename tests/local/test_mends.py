"""What once went wrong with jobs on this machine, against the real thing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.conftest import RunHpckit
from tests.fakes.local_job import kill_job, processes_of, says, supervisor_of, until

JOB = 'schema = "hpckit.job/1"\nname = "n"\ncommand = ["true"]\n'


def submitted(run_hpckit: RunHpckit, *args: str, env: dict[str, str] | None = None) -> Path:
    """The folder of a job that was submitted, ended where `--wait` is among `args`."""
    ran = run_hpckit("submit", "--local", "--json", *args, env=env)
    assert ran.stdout, ran.stderr
    return Path(json.loads(ran.stdout)["folder"])


@pytest.mark.parametrize("table", ["tune.env", "environment.set"])
def test_a_variable_that_bash_would_run_is_refused(
    run_hpckit: RunHpckit, tmp_path: Path, table: str
) -> None:
    """Names that bash evaluates, and Slurm's and hpckit's own, exit 3, and nothing was run."""
    for name in ("SLURM_JOB_ID", "HPCKIT_PYTHON", "RANDOM", "BASH_ENV"):
        value = f"a[$(touch {tmp_path}/ran)]"
        ran = run_hpckit("submit", "--local", "--wait", "--set", f"{table}.{name}={value}", "-",
                         input=JOB)  # fmt: skip
        assert ran.returncode == 3, ran.stderr
        assert name in ran.stderr
    assert not (tmp_path / "ran").exists()
    root = Path(os.environ["XDG_STATE_HOME"]) / "hpckit" / "jobs"
    assert not root.exists() or not list(root.iterdir())


def test_shell_options_of_the_submitter_stay_behind(run_hpckit: RunHpckit) -> None:
    """SHELLOPTS=noexec in the submitting shell is held back, and the job's script runs."""
    env = {"SHELLOPTS": "noexec", "BASHOPTS": "extdebug", "POSIXLY_CORRECT": "1"}
    folder = submitted(run_hpckit, "--wait", "--", "sh", "-c", "echo ran", env=env)
    assert (folder / "logs" / "rank-0.log").read_text() == "ran\n"
    held_back = json.loads((folder / "submitted.json").read_text())["held_back"]
    assert set(env) <= set(held_back)


def test_an_empty_id_cancels_nothing(run_hpckit: RunHpckit) -> None:
    """`hpckit cancel ''`, as of an unset variable, exits 1 and the only job runs on."""
    folder = submitted(run_hpckit, "--", "sleep", "600")
    try:
        ran = run_hpckit("cancel", "")
        assert (ran.returncode, "invalid job ID" in ran.stderr) == (1, True)
        assert json.loads(run_hpckit("status", "--json").stdout)["state"] == "RUNNING"
    finally:
        kill_job(folder)


def test_a_stopped_supervisor_can_be_cancelled(run_hpckit: RunHpckit) -> None:
    """A supervisor stopped by SIGSTOP is woken by cancel, and ends the job."""
    folder = submitted(run_hpckit, "--", "sh", "-c", "echo begun; exec sleep 600")
    try:
        says(folder, b"begun")
        supervisor = supervisor_of(folder)
        supervisor.suspend()
        until(lambda: supervisor.status() == psutil.STATUS_STOPPED)
        ran = run_hpckit("cancel", json.loads((folder / "intent.json").read_text())["job_id"])
        assert ran.returncode == 0, ran.stderr
        assert "CANCELLED" in ran.stdout
        until(lambda: processes_of(folder) == [])
    finally:
        kill_job(folder)


@pytest.mark.parametrize(
    "line",
    [
        f"x = {'[' * 20_000}{']' * 20_000}",
        f"[parallel]\ndata = {'9' * 5000}",
        f"[resources]\nnodes = {'9' * 4000}",
        f"[resources]\nnodes = 0x{'f' * 5000}",
        "[slurm]\nextra = { a = 18446744073709551616 }",
        f"{'.'.join('a' * 5000)} = 1",
    ],
)
def test_an_absurd_job_file_is_refused(run_hpckit: RunHpckit, line: str) -> None:
    """Deep nesting and numbers without end are exit 3 and a few words, no traceback."""
    ran = run_hpckit("render", "-", input=JOB + line)
    assert ran.returncode == 3, ran.stderr
    assert "Traceback" not in ran.stderr
    assert len(ran.stderr) < 2000


@pytest.mark.parametrize("args", [("render", "--", "true"), ("submit", "--local", "--", "true")])
def test_a_folder_that_was_removed_is_no_bug(args: tuple[str, ...], tmp_path: Path) -> None:
    """In a folder that was removed, a command that needs one exits 7 and says so."""
    gone = tmp_path / "gone"
    gone.mkdir()
    script = 'rmdir "$PWD" && exec "$@"'
    # Not -m: Python itself cannot find a module from a folder that is not there.
    entry = "from hpckit.cli.main import main; main()"
    done = subprocess.run(
        ["bash", "-c", script, "bash", sys.executable, "-c", entry, *args],
        cwd=gone,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 7, done.stderr
    assert "the current folder no longer exists" in done.stderr


@pytest.mark.parametrize("number", [1, 100])
def test_an_interrupt_while_a_class_is_made_is_one(number: int) -> None:
    """Ctrl-C while modules are loaded exits 130: CPython 3.11 wraps what __set_name__ raises."""
    code = (
        "import dataclasses, itertools, signal\n"
        f"real, calls = dataclasses.Field.__set_name__, itertools.count({1 - number})\n"
        "def named(self, owner, name):\n"
        "    next(calls) or signal.raise_signal(signal.SIGINT)\n"
        "    return real(self, owner, name)\n"
        "dataclasses.Field.__set_name__ = named\n"
        "from hpckit.__main__ import main; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "render", "--", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert "Traceback" not in done.stderr


def test_a_closed_stdin_holds_no_job() -> None:
    """`hpckit render - <&-` exits 3 and says what is closed."""
    done = subprocess.run(
        ["bash", "-c", 'exec "$@" <&-', "bash", sys.executable, "-m", "hpckit", "render", "-"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "standard input: is closed" in done.stderr


def test_a_full_disk_hides_no_job(tmp_path: Path) -> None:
    """A job that fills the disk of its folder has its outcome told, and `jobs` still lists it.

    What cannot be submitted for want of space says so.
    """
    full = tmp_path / "full"
    full.mkdir()
    said = """mount -t tmpfs -o size=8m none "$1" || exit 99
        hpckit="$2 -m hpckit" XDG_STATE_HOME=$1
        export XDG_STATE_HOME
        $hpckit submit --local --wait --quiet -- sh -c "cat /dev/zero >$1/fill; exit 3"
        $hpckit jobs; $hpckit status; $hpckit submit --local -- true 2>&1; :"""
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", said, "sh", str(full)]
    ran = subprocess.run(
        [*command, sys.executable], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    if ran.returncode == 99 or "unshare" in ran.stderr:
        pytest.skip(f"no mount namespace here: {ran.stderr}")
    assert re.search(r"sh +local .* FAILED +3", ran.stdout), ran
    assert "exit code 3" in ran.stdout
    assert f"No space left on device\n  fix: free space or quota there: df -h {full}" in ran.stdout
