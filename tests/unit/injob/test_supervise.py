"""The pieces of supervision that a whole process shows by chance only."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hpckit.injob.supervise import RankLog, Tee, drain, slurmstepd_signals_all, spawn

Start = Callable[..., "subprocess.Popen[bytes]"]


@contextmanager
def descriptors(*fds: int) -> Iterator[None]:
    """Close the descriptors at the end."""
    try:
        yield
    finally:
        for fd in fds:
            os.close(fd)


def test_a_target_that_takes_no_more_for_now_keeps_what_waits(tmp_path: Path) -> None:
    """A write that would block leaves the bytes for the next time."""
    source, source_end = os.pipe()
    target, target_end = os.pipe()
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    os.set_blocking(target_end, False)
    with descriptors(source, source_end, target, target_end, log):
        capacity = os.write(target_end, bytes(1 << 20))
        tee = Tee(source, target_end, RankLog(log))
        os.write(source_end, b"waiting")
        assert tee.read() == len(b"waiting")
        tee.write()
        assert tee.target() == target_end
        assert len(os.read(target, capacity)) == capacity
        tee.write()
        assert tee.target() is None
        assert os.read(target, 100) == b"waiting"


def test_draining_has_an_end(tmp_path: Path) -> None:
    """A source that never runs dry is left after what the largest pipe holds."""
    source = os.open("/dev/zero", os.O_RDONLY)
    target = os.open(os.devnull, os.O_WRONLY)
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    wake, wake_end = os.pipe()
    with descriptors(source, target, log, wake, wake_end):
        drain(Tee(source, target, RankLog(log)), wake)
    assert (tmp_path / "log").stat().st_size == 1 << 20


def test_a_command_starts_with_an_empty_mask() -> None:
    """What this thread blocks, the command does not."""
    out, out_end = os.pipe()
    with descriptors(out, out_end):
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
        try:
            pid = spawn(["grep", "SigBlk", "/proc/self/status"], {}, out_end, out_end)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        assert os.waitpid(pid, 0)[1] == 0
        assert int(os.read(out, 100).split()[1], 16) == 0


SIGNALS_ITS_PARENT = """
import os, signal, time
seen = []
signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
os.kill(os.getppid(), signal.SIGUSR1)
time.sleep(0.5)
print(len(seen))
"""


@pytest.mark.parametrize(("parent", "count"), [("slurmstepd", b"0\n"), ("launcher", b"1\n")])
def test_what_slurmstepd_signals_itself_is_not_forwarded(
    start: Start, tmp_path: Path, parent: str, count: bytes
) -> None:
    """Where slurmstepd reaches every process of a step, a signal to the entry is not passed on."""
    (tmp_path / "logs").mkdir()
    shell = tmp_path / parent
    shutil.copy("/bin/bash", shell)
    words = ("rank", "--from", "slurm", "--", sys.executable, "-I", "-S", "-c", SIGNALS_ITS_PARENT)
    env = {"SLURM_PROCID": "0", "HPCKIT_JOB_FOLDER": str(tmp_path)}
    with start(*words, via=[str(shell), "-c", '"$@"; exit $?', "sh"], env=env) as process:
        assert process.communicate(timeout=30)[0] == count


def test_a_step_in_a_control_group_is_forwarded_to(tmp_path: Path) -> None:
    """With proctrack/cgroup only the entry is signalled, and the command needs its signals."""
    for name in (str(os.getppid()), "self"):
        (tmp_path / name).mkdir()
    (tmp_path / str(os.getppid()) / "comm").write_text("slurmstepd\n")
    group = tmp_path / "self" / "cgroup"
    group.write_text("0::/user.slice\n")
    assert slurmstepd_signals_all(str(tmp_path))
    group.write_text("0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n")
    assert not slurmstepd_signals_all(str(tmp_path))
