from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from hpckit.core.errors import AdapterError, ToolMissing, ToolTimeout
from hpckit.core.process import ListeningRunner, ProcessRunner, in_processes
from tests.fakes.local_job import until


def test_the_callers_job_is_not_passed_on() -> None:
    """LC_ALL is C, TZ is UTC; of Slurm's and PMI's variables only SLURM_CONF is left."""
    runner = ProcessRunner(
        {
            "PATH": os.environ["PATH"],
            "LC_ALL": "de_DE.UTF-8",
            "TZ": "Europe/Berlin",
            "SLURM_CONF": "/etc/slurm.conf",
            "SLURM_JOB_ID": "1",
            "SBATCH_PARTITION": "p",
            "SRUN_DEBUG": "3",
            "SQUEUE_STATES": "PD",
            "SCANCEL_INTERACTIVE": "1",
            "PMI_RANK": "0",
            "PMIX_ID": "0",
            "PMI2_X": "0",
            "HOME": "/root",
        }
    )
    assert seen_by(runner) == {
        "PATH": os.environ["PATH"],
        "LC_ALL": "C",
        "TZ": "UTC",
        "SLURM_BITSTR_LEN": "0",
        "SLURM_CONF": "/etc/slurm.conf",
        "HOME": "/root",
    }


def seen_by(runner: ProcessRunner, environment: dict[str, str] | None = None) -> dict[str, str]:
    """The environment that a command finds."""
    printed = runner.run(["env", "-0"], 10, environment).stdout
    return dict(item.split("=", 1) for item in printed.split("\0") if item)


def test_a_given_environment_is_used_as_it_is() -> None:
    """Nothing is added to or taken from an environment that is handed over, Slurm's included."""
    given = {"PATH": os.environ["PATH"], "SBATCH_ACCOUNT": "a", "SLURM_JOB_ID": "1", "TZ": "Asia/X"}
    assert seen_by(ProcessRunner({"HOME": "/root"}), given) == given


RUNNER_WITH_A_SLEEP = """
import sys
from hpckit.core.process import ProcessRunner
ProcessRunner().run(["sh", "-c", 'echo $$ > "$1"; exec sleep 60', "sh", sys.argv[1]], 50)
"""


def test_a_command_does_not_outlive_its_runner(tmp_path: Path) -> None:
    """SIGKILL of the process that runs a command ends the command within a second."""
    noted = tmp_path / "pid"
    argv = [sys.executable, "-c", RUNNER_WITH_A_SLEEP, str(noted)]
    with subprocess.Popen(argv) as runner:
        until(lambda: noted.exists() and noted.read_text().endswith("\n"))
        pid = int(noted.read_text())
        until(lambda: psutil.Process(pid).name() == "sleep")
        runner.kill()
    until(lambda: not is_alive(pid), 1.0)


def test_wrong_bytes_are_replaced() -> None:
    """Output that is no UTF-8 is decoded with the replacement character."""
    assert ProcessRunner().run(["printf", r"\351t\303\251"], 10).stdout == "\ufffdt\u00e9"


def test_words_are_no_shell() -> None:
    """An argument is one argument, whatever is in it."""
    word = "a b; $(echo c) `d` * ' \" \n"
    assert ProcessRunner().run(["printf", "%s", word], 10).stdout == word


def test_a_large_output_comes_back_whole() -> None:
    """Ten megabytes on both streams do not block."""
    done = ProcessRunner().run(
        ["sh", "-c", "head -c 10000000 /dev/zero; head -c 10000000 /dev/zero >&2"], 60
    )
    assert (len(done.stdout), len(done.stderr)) == (10_000_000, 10_000_000)


def test_a_signal_is_counted_as_in_a_shell() -> None:
    """A command that SIGTERM ended has the code 143."""
    assert ProcessRunner().run(["sh", "-c", "kill -TERM $$"], 10).returncode == 143


def test_a_daemon_does_not_hold_up_the_answer() -> None:
    """A process that was left behind and keeps the output open is not waited for."""
    begun_s = time.monotonic()
    done = ProcessRunner().run(["sh", "-c", "sleep 60 & echo $!"], 90)
    psutil.Process(int(done.stdout)).kill()
    assert time.monotonic() - begun_s < 30


def test_a_timeout_ends_the_whole_group(tmp_path: Path) -> None:
    """What the command started ends with it, also when it ignores TERM."""
    noted = tmp_path / "pids"
    script = f"trap '' TERM; sleep 60 & echo $! $$ > {noted}; wait"
    with pytest.raises(ToolTimeout):
        ProcessRunner().run(["sh", "-c", script], 0.5)
    pids = [int(word) for word in noted.read_text().split()]
    assert len(pids) == 2
    until(lambda: not any(is_alive(pid) for pid in pids))


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_file_that_is_not_executable_says_so(tmp_path: Path) -> None:
    """A program without the permission raises ToolMissing with the reason and a hint."""
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    with pytest.raises(ToolMissing, match="Permission denied") as caught:
        ProcessRunner().run([str(tmp_path / "tool")], 10)
    assert "permissions" in str(caught.value.hint)


def test_a_file_of_another_machine_says_so(tmp_path: Path) -> None:
    """A program that the system cannot run raises AdapterError with the system's words."""
    tool = tmp_path / "tool"
    tool.write_bytes(b"\x7fELF nonsense")
    tool.chmod(0o755)
    with pytest.raises(AdapterError, match="Exec format error"):
        ProcessRunner().run([str(tool)], 10)


ENDING_WELL = "trap 'echo given back >&2; exit 0' TERM; echo started; while :; do sleep 0.05; done"
DEAF = "trap '' TERM; echo started; while :; do sleep 0.05; done"
KILLED = """
import os, signal, sys
from hpckit.core.process import ListeningRunner
script = "trap 'touch $0; exit' TERM; echo started; while :; do sleep 0.05; done"
die = lambda line: os.kill(os.getpid(), signal.SIGKILL)
ListeningRunner().listen([("sh", "-c", script, sys.argv[1])], 60, die)
"""


def test_a_command_that_is_given_up_is_asked_to_end() -> None:
    """Srun gives its allocation back when it gets SIGTERM, and cannot when it is killed."""
    (ended,) = ListeningRunner().listen([("sh", "-c", ENDING_WELL)], 1, lambda _: None)
    assert ended.is_late
    assert ended.stderr == "given back\n"


def test_a_command_that_does_not_end_is_killed() -> None:
    """One that ignores SIGTERM is waited for no longer than a moment."""
    begun_s = time.monotonic()
    (ended,) = ListeningRunner().listen([("sh", "-c", DEAF)], 1, lambda _: None)
    assert ended.is_late
    assert time.monotonic() - begun_s < 10


def test_a_command_is_asked_to_end_when_hpckit_is_killed(tmp_path: Path) -> None:
    """Also kill -9 leaves no srun that holds or waits for an allocation."""
    mark = tmp_path / "given-back"
    done = subprocess.run([sys.executable, "-c", KILLED, mark], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    end_s = time.monotonic() + 20
    while not mark.exists():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def test_results_come_in_the_order_of_what_was_given() -> None:
    """However many processes there are, the first result is that of the first."""
    assert list(in_processes(abs, list(range(-20, 0)))) == list(range(20, 0, -1))


def test_one_alone_needs_no_other_process() -> None:
    """A function that no other process could be sent is called here."""
    assert list(in_processes(lambda number: number + 1, [1])) == [2]


def test_nothing_gives_nothing() -> None:
    """No work is no error."""
    assert list(in_processes(abs, [])) == []


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU has no other process")
def test_a_process_that_was_killed_is_said() -> None:
    """The kernel may do that for want of memory: an answer of the world outside, and no bug."""
    with pytest.raises(AdapterError, match="was killed before it finished") as caught:
        list(in_processes(signal.raise_signal, [signal.SIGKILL, signal.SIGKILL]))
    assert "memory" in (caught.value.hint or "")


def test_an_error_comes_out() -> None:
    """What a process raises is raised here."""
    with pytest.raises(ValueError, match="invalid literal"):
        list(in_processes(int, ["1", "x", "3"]))


def test_a_python_without_pidfd_runs_commands_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was built for an old kernel has not the function."""
    monkeypatch.delattr(os, "pidfd_open")
    assert ProcessRunner().run(["sh", "-c", "exit 3"], 10.0).returncode == 3
    with pytest.raises(ToolTimeout):
        ProcessRunner().run(["sleep", "60"], 0.05)


def test_what_was_begun_runs_once_and_side_by_side(tmp_path: Path) -> None:
    """Each waits for what the other has written, which one after the other would never come."""
    log = tmp_path / "log"
    scripts = [
        f"echo {own} >> {log}; touch {tmp_path}/{own}; "
        f"until [ -e {tmp_path}/{other} ]; do sleep 0.01; done; echo {own}"
        for own, other in ("ab", "ba")
    ]
    runner = ProcessRunner()
    with runner.begun(*(["sh", "-c", script] for script in scripts)):
        said = [runner.run(["sh", "-c", script], 20.0).stdout for script in scripts]
    assert said == ["a\n", "b\n"]
    assert sorted(log.read_text().split()) == ["a", "b"]


def test_what_was_begun_and_not_asked_for_ends_with_the_block(tmp_path: Path) -> None:
    """Also what it has started; no file stays open, and the next question is a new one."""
    mark, runner = tmp_path / "pid", ProcessRunner()
    command = ["sh", "-c", f"sleep 60 & echo $! > {mark}.new; mv {mark}.new {mark}; wait"]
    before = list(Path("/proc/self/fd").iterdir())
    with runner.begun(command, command):
        until(mark.exists)
    child = int(mark.read_text())
    until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == "zombie")
    assert list(Path("/proc/self/fd").iterdir()) == before
    with pytest.raises(ToolTimeout):
        runner.run(command, 0.05)


def test_an_environment_is_taken_as_it_is_whatever_was_begun() -> None:
    """A command in another environment is another question."""
    runner = ProcessRunner()
    with runner.begun(["/usr/bin/env"]):
        assert runner.run(["/usr/bin/env"], 10.0, {}).stdout == ""
        assert "PATH" in runner.run(["/usr/bin/env"], 10.0).stdout
