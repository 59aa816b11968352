"""The ledger of a rank, kept by the archive as a launcher starts it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., "subprocess.Popen[bytes]"]
Run = Callable[..., "subprocess.CompletedProcess[bytes]"]
SLURM = ("rank", "--from", "slurm", "--")


@pytest.fixture
def ledger_env(rank_env: dict[str, str]) -> dict[str, str]:
    """Rank 3 of 4, which is to keep a ledger; it sees no GPU."""
    return {**rank_env, "HPCKIT_LEDGER": "1", "CUDA_VISIBLE_DEVICES": ""}


def ledger(job_folder: Path, folder: str = "restart-0") -> Path:
    """The file of that rank."""
    return job_folder / "account" / folder / "rank-3.ledger"


def records(path: Path) -> list[dict[str, Any]]:
    """The lines of a ledger."""
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def test_a_rank_without_the_variable_keeps_none(
    run: Run, rank_env: dict[str, str], job_folder: Path
) -> None:
    """The job folder alone asks for a log, not for a ledger."""
    assert run(*SLURM, "true", env=rank_env).returncode == 0
    assert not (job_folder / "account").exists()


def test_the_first_line_says_who_the_rank_is(
    run: Run, ledger_env: dict[str, str], job_folder: Path
) -> None:
    """Its numbers, node, boot and job, by which its samples are found."""
    run(*SLURM, "true", env={**ledger_env, "SLURM_JOB_ID": "77", "SLURMD_NODENAME": "n9"})
    start = records(ledger(job_folder))[0]
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    assert start | {"schema": "hpckit.ledger/1", "record": "start"} == start
    assert [start[key] for key in ("rank", "local_rank", "world_size")] == [3, 1, 4]
    assert [start[key] for key in ("node", "boot_id", "job_id")] == ["n9", boot_id, "77"]
    assert (start["claim"], start["gpus"], start["visible"]) == ("none", [], "")


def test_both_ends_have_the_three_clocks(
    run: Run, ledger_env: dict[str, str], job_folder: Path
) -> None:
    """Each end is a moment of this machine, and the command lies between them.

    Both name the process, which says which of several starts in the file is an end's own. Files
    have 0600 and folders 0700.
    """
    before_ns = time.monotonic_ns()
    run(*SLURM, "sleep", "0.1", env=ledger_env)
    path = ledger(job_folder)
    start, end = both = records(path)
    moments = [before_ns, *(one["at"]["monotonic_ns"] for one in both), time.monotonic_ns()]
    assert moments == sorted(moments)
    assert moments[2] - moments[1] >= 1e8
    for one in both:
        assert abs(one["at"]["realtime_ns"] - time.time_ns()) < 60e9
        assert one["at"]["boottime_ns"] >= one["at"]["monotonic_ns"]
    assert start["pid"] == end["pid"] > 0
    modes = [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent, path.parent.parent)]
    assert modes == [0o600, 0o700, 0o700]


@pytest.mark.parametrize(
    ("script", "codes"),
    [
        ("exit 0", (0, 0)),
        ("exit 9", (9, 9)),
        ("kill -TERM $$", (-15, 143)),
    ],
)
def test_the_exit_code_is_noted_and_unchanged(
    run: Run, ledger_env: dict[str, str], job_folder: Path, script: str, codes: tuple[int, int]
) -> None:
    """Also that of a command that dies of a signal."""
    done = run(*SLURM, "sh", "-c", script, env=ledger_env)
    assert (done.returncode, records(ledger(job_folder))[-1]["exit_code"]) == codes


@pytest.mark.parametrize(("command", "code"), [("/nowhere/at-all", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_be_started_has_an_end(
    run: Run, ledger_env: dict[str, str], job_folder: Path, command: str, code: int
) -> None:
    """Its code is noted as it is returned, and it used nothing."""
    assert run(*SLURM, command, env=ledger_env).returncode == code
    end = records(ledger(job_folder))[-1]
    assert (end["exit_code"], end["cpu_user_s"], end["read_bytes"]) == (code, None, None)


def test_the_last_line_has_what_the_command_and_its_children_used(
    run: Run, ledger_env: dict[str, str], job_folder: Path
) -> None:
    """CPU seconds, the largest process, and every byte that was read and written."""
    work = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; head -c 3000000 /dev/zero >$OUT"
    out = str(job_folder / "out")
    run(*SLURM, "sh", "-c", f"sh -c '{work}'; true", env={**ledger_env, "OUT": out})
    end = records(ledger(job_folder))[-1]
    assert end["cpu_user_s"] + end["cpu_system_s"] > 0
    assert end["max_rss_bytes"] > 500_000
    assert end["read_chars_bytes"] >= 3_000_000
    assert end["write_chars_bytes"] >= 3_000_000


def test_a_killed_rank_leaves_its_first_line(
    start: Start, ledger_env: dict[str, str], job_folder: Path
) -> None:
    """What SIGKILL took cannot write an end: the start alone says that it was killed."""
    with start(*SLURM, "sh", "-c", "echo up; sleep 20", env=ledger_env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.kill()
    assert [one["record"] for one in records(ledger(job_folder))] == ["start"]


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"SLURM_RESTART_COUNT": "2"}, "restart-2"),
        ({"SLURM_ARRAY_TASK_ID": "5"}, "array-5/restart-0"),
        ({"SLURM_ARRAY_TASK_ID": "5", "SLURM_RESTART_COUNT": "1"}, "array-5/restart-1"),
    ],
)
def test_each_incarnation_has_its_own_file(
    run: Run, ledger_env: dict[str, str], job_folder: Path, variables: dict[str, str], folder: str
) -> None:
    """A requeued job, or a task of an array, writes into a folder of its own."""
    run(*SLURM, "true", env={**ledger_env, **variables})
    assert len(records(ledger(job_folder, folder))) == 2


def test_a_worker_that_is_started_again_adds_to_its_file(
    run: Run, ledger_env: dict[str, str], job_folder: Path
) -> None:
    """Torchrun's own restarts are further pairs of lines."""
    for code in ("1", "0"):
        run(*SLURM, "sh", "-c", f"exit {code}", env=ledger_env)
    assert [one.get("exit_code") for one in records(ledger(job_folder))] == [None, 1, None, 0]


def test_a_folder_that_cannot_be_made_is_one_warning(
    run: Run, ledger_env: dict[str, str], job_folder: Path
) -> None:
    """The command runs all the same, and its code is its own."""
    (job_folder / "account").write_text("in the way")
    done = run(*SLURM, "sh", "-c", "echo out; exit 4", env=ledger_env)
    assert (done.returncode, done.stdout) == (4, b"out\n")
    where = b"account/restart-0/rank-3.ledger"
    assert done.stderr == b"hpckit: no ledger, " + where + b" cannot be written: Not a directory\n"


def test_a_full_disk_is_one_warning(run: Run, ledger_env: dict[str, str], job_folder: Path) -> None:
    """A line that does not fit ends the ledger, not the job, which has it open no longer."""
    path = ledger(job_folder)
    path.parent.mkdir(parents=True)
    path.symlink_to("/dev/full")
    out = job_folder / "descriptors"
    script = "readlink /proc/$PPID/fd/* >$OUT; exit 4"
    done = run(*SLURM, "sh", "-c", script, env={**ledger_env, "OUT": str(out)})
    assert done.returncode == 4
    assert done.stderr.count(b"\n") == 1
    assert done.stderr.endswith(b"No space left on device\n")
    assert "/dev/full" not in out.read_text(encoding="utf-8").splitlines()


def test_an_end_that_cannot_be_written_does_not_hold_the_rank(
    start: Start, ledger_env: dict[str, str], job_folder: Path
) -> None:
    """A file system that hangs costs the end a second, and the exit code stays."""
    path = ledger(job_folder)
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    gate = job_folder / "gate"
    wait = f"echo up; while [ ! -e {gate} ]; do sleep 0.02; done; exit 5"
    with start(*SLURM, "sh", "-c", wait, env=ledger_env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        _fill(path)
        begun_s = time.monotonic()
        gate.touch()
        assert process.wait(30) == 5
        assert 0.9 < time.monotonic() - begun_s < 20
    os.close(reader)


def test_a_signal_that_comes_before_the_command_reaches_it(
    start: Start, ledger_env: dict[str, str], job_folder: Path, tmp_path: Path
) -> None:
    """Also where slurmstepd signals every process of the step, of which the command was none."""
    path = ledger(job_folder)
    path.parent.mkdir(parents=True)
    os.mkfifo(path)  # no one reads: the ledger's begin waits
    shell = tmp_path / "slurmstepd"
    shutil.copy("/bin/bash", shell)
    via = [str(shell), "-c", '"$@" & echo $!; wait $!; exit $?', "sh"]
    with start(*SLURM, "sleep", "20", via=via, env=ledger_env) as process:
        assert process.stdout is not None
        entry = int(process.stdout.readline())
        while not _catches(entry, signal.SIGTERM):
            time.sleep(0.01)
        os.kill(entry, signal.SIGTERM)
        reader = os.open(path, os.O_RDONLY)
        assert process.wait(10) == 128 + signal.SIGTERM
    os.close(reader)


def _catches(pid: int, number: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    caught = int(status.partition("SigCgt:")[2].split(maxsplit=1)[0], 16)
    return bool(caught >> (number - 1) & 1)


def _fill(fifo: Path) -> None:
    """Leave no room in a pipe, so that whoever writes to it waits."""
    writer = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    for size in (4096, 1):
        try:
            while True:
                os.write(writer, b"x" * size)
        except BlockingIOError:
            continue
    os.close(writer)
