"""The pieces of supervision that a whole process shows by chance only."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpckit.injob.process import spawn
from hpckit.injob.supervise import drain
from hpckit.injob.tee import RankLog, Tee


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
