"""A sampler's blocks on their way to the job folder."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hpckit.account.sample_format import EVENTS, Block, Damage, Moment, read_blocks
from hpckit.sampler.spool import SampleSpool

TARGET = "account/restart-0/node-n1.samples"
MOMENT = Moment(1, 2, 3)
SPOOL = """
import os, sys, threading, time
from hpckit.sampler import spool as module
module.SYNC_S = 0.0
spool = module.SampleSpool(sys.argv[1], sys.argv[2], say=print, local_root=sys.argv[1])
def write():
    spool.put(4, 1, (1, 2, 3), b"a")
    spool.flush()
"""
SLOW_DISK_S = 120.0
"""What fdatasync(2) may take on a disk that others are busy with."""


class Place:
    """A job folder and a node's folder."""

    def __init__(self, root: Path) -> None:
        self.job = root / "job"
        self.local = root / "local"
        self.job.mkdir()
        self.local.mkdir()
        self.said: list[str] = []
        self.target = self.job / TARGET

    def spool(self, **options: int) -> SampleSpool:
        """A sampler's way there."""
        return SampleSpool(
            str(self.job), TARGET, say=self.said.append, local_root=str(self.local), **options
        )

    def opened(self) -> SampleSpool:
        """A sampler whose first block is in the job folder."""
        spool = self.spool()
        write(spool, "a")
        until(lambda: self.target.exists() and self.sequences() == [0])
        return spool

    def script(self, code: str, *words: str) -> list[str]:
        """The lines of a process of its own that samples to a file system that fails."""
        argv = [sys.executable, "-c", f"{SPOOL}{code}", str(self.job), TARGET, *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.splitlines()

    def found(self) -> list[Block | Damage]:
        """What the file in the job folder holds."""
        return list(read_blocks(self.target.read_bytes()))

    def sequences(self) -> list[int]:
        """The numbers of its whole blocks."""
        return [block.header.sequence for block in self.found() if isinstance(block, Block)]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A job folder."""
    return Place(tmp_path)


def write(spool: SampleSpool, *texts: str) -> None:
    """Flush each text as a block of its own."""
    for text in texts:
        spool.put(EVENTS, 1, MOMENT, text.encode())
        spool.flush()


def until(is_true: Callable[[], bool], limit_s: float = SLOW_DISK_S) -> None:
    """Wait for what another thread does."""
    end = time.monotonic() + limit_s
    while not is_true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


def test_blocks_reach_the_job_folder_in_order(place: Place) -> None:
    """What was flushed is there at once, numbered from 0, and nothing is left on the node."""
    spool = place.opened()
    write(spool, "b", "c")
    assert spool.close(SLOW_DISK_S) is None
    blocks = [block for block in place.found() if isinstance(block, Block)]
    assert [bytes(block.payload) for block in blocks] == [b"a", b"b", b"c"]
    assert place.sequences() == [0, 1, 2]
    assert (spool.reached, spool.is_lost) == (str(place.target), False)
    assert list(place.local.iterdir()) == []


@pytest.mark.parametrize("cut", [1, 10, 30, 44])
def test_torn_tail_is_left_and_resynchronized(place: Place, cut: int) -> None:
    """After a block that was cut short the next one can be read, and the hole is seen."""
    spool = place.spool()
    write(spool, "a", "b" * 40)
    spool.close(SLOW_DISK_S)
    os.truncate(place.target, place.target.stat().st_size - cut)
    spool = place.spool()
    write(spool, "c")
    spool.close(SLOW_DISK_S)
    assert place.sequences() == [0, 1]
    assert sum(isinstance(one, Damage) for one in place.found()) == 1


@pytest.fixture
def hanging(place: Place) -> Iterator[Place]:
    """A job folder whose file can be opened by nobody: opening a FIFO waits for a reader."""
    place.target.parent.mkdir(parents=True)
    os.mkfifo(place.target)
    yield place
    # The thread that waits gets its reader and an end.
    os.close(os.open(place.target, os.O_RDONLY | os.O_NONBLOCK))


def test_hanging_folder_blocks_neither_flush_nor_end(hanging: Place) -> None:
    """Flushes return at once, the end after the time it was given, and the node keeps the rest."""
    spool = hanging.spool()
    begun = time.monotonic()
    write(spool, *(f"block {number}" for number in range(50)))
    # Whoever is in a hurry gets the rest on this node at once.
    kept = spool.close(1e6, lambda: True)
    assert time.monotonic() - begun < 60
    assert kept is not None
    assert len(list(read_blocks(Path(kept).read_bytes()))) == 50
    assert stat.S_IMODE(Path(kept).stat().st_mode) == 0o600
    assert [str(path) for path in hanging.local.iterdir()] == [kept]
    assert spool.reached is None
    assert spool.is_unwritten
    assert hanging.said == []


def test_what_waits_does_not_grow_without_limit(hanging: Place) -> None:
    """Blocks that find no room are lost, which is said once, and their numbers are a hole."""
    spool = hanging.spool(most_bytes=1000)
    write(spool, *("x" * 300 for _ in range(20)))
    kept = spool.close(0.1)
    assert kept is not None
    assert spool.is_lost
    assert Path(kept).stat().st_size <= 1000
    assert len([line for line in hanging.said if "lost" in line]) == 1


@pytest.mark.parametrize("comes_back", [False, True])
def test_removed_job_folder_is_not_made_again(place: Place, *, comes_back: bool) -> None:
    """That it is gone is said once; what waits is copied when it is back, or kept on the node."""
    spool = place.spool()
    away = place.job.with_name("moved")
    place.job.rename(away)
    write(spool, "a", "b")
    until(lambda: bool(place.said))
    if comes_back:
        away.rename(place.job)
    write(spool, "c")
    kept = spool.close(SLOW_DISK_S)
    assert (kept is None) is comes_back
    assert len([line for line in place.said if "stay on this node" in line]) == 1
    assert place.job.exists() is comes_back
    assert not comes_back or place.sequences() == [0, 1, 2]


def test_file_of_the_job_folder_stays_open(place: Place) -> None:
    """It is opened once, as each opening is work of a server that all nodes share."""
    spool = place.opened()
    place.target.chmod(0o400)
    aside = place.target.with_name("aside")
    place.target.rename(aside)
    write(spool, "b")
    assert spool.close(SLOW_DISK_S) is None
    place.target = aside
    assert place.sequences() == [0, 1]


def test_removed_file_is_begun_anew(place: Place) -> None:
    """The loop is told once, so that it says META again."""
    spool = place.opened()
    assert not spool.wants_meta()
    place.target.unlink()
    write(spool, "b")
    until(spool.wants_meta)
    assert not spool.wants_meta()
    spool.close(SLOW_DISK_S)


def test_file_that_cannot_be_synced_is_written_and_nothing_is_said(place: Place) -> None:
    """A pipe refuses fdatasync with EINVAL, as some file systems do: all of it has arrived."""
    place.target.parent.mkdir(parents=True)
    os.mkfifo(place.target)
    reader = os.open(place.target, os.O_RDONLY | os.O_NONBLOCK)
    spool = place.spool()
    write(spool, "a", "b")
    assert spool.close(SLOW_DISK_S) is None
    assert len(list(read_blocks(os.read(reader, 4096)))) == 2
    os.close(reader)
    assert place.said == []


def test_write_that_a_sync_tells_to_have_failed_is_said_once(place: Place) -> None:
    """What NFS took and a full quota then refused is lost, and not said to wait on this node."""
    code = """
def fdatasync(fd):
    raise OSError(122, "Disk quota exceeded")
os.fdatasync = fdatasync
for _ in range(3):
    write()
print(spool.close(120), spool.is_lost)
"""
    said = f"{place.target}: Disk quota exceeded; the last samples may be lost"
    assert place.script(code) == [said, "None True"]


def test_rest_is_kept_in_tmp_where_tmpdir_takes_none(hanging: Place) -> None:
    """A TMPDIR that is not there is passed over."""
    spool = SampleSpool(
        str(hanging.job), TARGET, say=hanging.said.append, local_root="/proc/nowhere"
    )
    write(spool, "a", "b")
    kept = spool.close(0)
    assert kept is not None
    assert kept.startswith("/tmp/hpckit-samples-")
    assert len(list(read_blocks(Path(kept).read_bytes()))) == 2
    Path(kept).unlink()


def test_folder_that_takes_nothing_has_nothing(place: Place) -> None:
    """No file of the job folder is said to have what stays on this node; nothing is lost.

    ENOSPC, which /dev/full gives at each write, is said once.
    """
    place.target.parent.mkdir(parents=True)
    place.target.symlink_to("/dev/full")
    for root, target, why in (
        (str(place.job), TARGET, "a symbolic link (not followed)"),
        ("/dev", "full", "No space left"),
    ):
        place.said.clear()
        spool = SampleSpool(root, target, say=place.said.append, local_root=str(place.local))
        write(spool, "a", "b", "c")
        kept = spool.close(SLOW_DISK_S)
        assert kept is not None
        assert len(list(read_blocks(Path(kept).read_bytes()))) == 3
        assert (spool.reached, spool.is_lost) == (None, False)
        assert [why in line for line in place.said] == [True]


def test_file_that_is_moved_is_said_by_its_name(place: Place) -> None:
    """All of it is in the file that was opened, wherever that is by now."""
    spool = place.opened()
    place.target.rename(place.target.with_name("aside"))
    assert spool.close(SLOW_DISK_S) is None
    assert spool.reached == str(place.target.with_name("aside"))
    assert not spool.is_lost


@pytest.mark.parametrize("how", ["removed", "hidden", "cut"])
def test_what_went_with_a_file_is_lost(place: Place, how: str) -> None:
    """A file that somebody removed or emptied after all was copied has nothing, as is said.

    What is removed while it is open has a name `.nfs…` on an NFS client until it is closed.
    """
    spool = place.opened()
    if how == "removed":
        place.target.unlink()
    elif how == "hidden":
        place.target.rename(place.target.with_name(".nfs000000000012345600000001"))
    else:
        os.truncate(place.target, 0)
    assert spool.close(SLOW_DISK_S) is None
    assert (spool.reached, spool.is_lost) == (None, True)
    how = {"hidden": "removed", "cut": "truncated"}.get(how, how)
    assert place.said == [f"{place.target}: somebody {how} it; its samples are lost"]


def test_sync_that_is_slow_leaves_no_rest(place: Place) -> None:
    """What was written is in the job folder, but its disks have not answered, and that is known."""
    code = """
syncing = threading.Event()
def fdatasync(fd):
    syncing.set()
    threading.Event().wait()
os.fdatasync = fdatasync
write()
syncing.wait()
print(spool.close(0.1), spool.reached, spool.is_lost, flush=True)
os._exit(0)
"""
    assert place.script(code) == [f"None {place.target} True"]
    assert place.sequences() == [0]
