"""Where a sampler's blocks go: to a file of this node first, and a thread copies what is new.

Nothing here waits for the job folder's file system: the thread alone touches it, and a process
that ends leaves the thread behind. Both files are only appended to. That of this node has no name,
so that nothing stays of a sampler that was killed; at the end what was not copied is given one.
"""

from __future__ import annotations

import errno
import os
import threading
import time

from hpckit.adapters.job_processes import read_whole
from hpckit.adapters.sample_copier import Copier
from hpckit.model.samples import BlockHeader, encode_block
from hpckit.parse.mountinfo import NETWORK, file_system_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hpckit.model.samples import Moment

MOST_LOCAL_BYTES = 64 * 1024**2
"""What waits to be copied; /tmp may be memory that the job needs."""
MOST_HELD_BYTES = 4 * 1024**2
"""The same where this node has no room for a file."""
REWIND_BYTES = 1024**2
"""A local file that was copied whole is begun anew from this size on."""
_COPY_BYTES = 256 * 1024
_FIRST_WAIT_S = 0.5
_MOUNTS_BYTES = 1024**2


class SampleSpool:
    """One run's blocks on their way to `target`; its folders are made below `root`."""

    def __init__(
        self,
        root: str,
        target: str,
        *,
        say: Callable[[str], None],
        local_root: str | None = None,
        most_local_bytes: int = MOST_LOCAL_BYTES,
    ) -> None:
        """Begin; nothing is written or asked of `root` by the caller's thread."""
        self._say = say
        self._store: LocalFile | HeldBytes = _local_store(local_root, most_local_bytes, say)
        self._copier = Copier(root, target, self._store, say)
        self._pending: list[tuple[int, int, Moment, bytes]] = []
        self._sequence: int | None = None
        self._dropped = False

    @property
    def reached(self) -> str | None:
        """After `close`, the file that has what was copied, None where none has."""
        return self._copier.reached

    @property
    def is_lost(self) -> bool:
        """Whether something that was put is, or after `close` may be, nowhere any more."""
        return self._dropped or self._copier.is_lost or self.is_unsynced

    @property
    def is_unsynced(self) -> bool:
        """After `close`, whether all is written but the time passed before it was synced."""
        return self._copier.is_unsynced

    @property
    def is_unwritten(self) -> bool:
        """After `close`, whether the time passed before all was written."""
        return self._copier.is_unwritten

    def put(self, kind: int, record_bytes: int, moment: Moment, payload: bytes) -> None:
        """Take a block; it is written with the next `flush`."""
        self._pending.append((kind, record_bytes, moment, payload))

    def wants_meta(self) -> bool:
        """Whether the target was begun anew, by someone who removed it."""
        return self._copier.began_anew()

    def flush(self) -> None:
        """Write what was put on this node, and wake the thread that copies it."""
        if not self._pending:
            return
        if self._sequence is None:
            # The numbers go on after those of a sampler before this one, if its file can be read.
            self._sequence = self._copier.next_sequence(_FIRST_WAIT_S) or 0
        blocks = []
        for kind, record_bytes, moment, payload in self._pending:
            header = BlockHeader(kind, record_bytes, 0, self._sequence, *moment)
            blocks.append(encode_block(header, payload))
            self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        self._pending.clear()
        self._append(b"".join(blocks))
        self._copier.wake()

    def _append(self, data: bytes) -> None:
        why = self._store.append(data)
        if why is not None and not self._dropped:
            self._dropped = True
            self._say(f"{why}: samples are lost until the job folder takes them again")

    def close(self, limit_s: float, is_hurried: Callable[[], bool] = lambda: False) -> str | None:
        """Wait for the copy, at most so long; the file on this node with the rest, if there is one.

        It waits no longer as soon as `is_hurried`, which is asked several times a second.
        A rest that finds no room is lost, which is said; nothing else is, as saying may hang.
        """
        if self._copier.finish(limit_s, is_hurried):
            return None
        try:
            return self._store.keep()
        except OSError as error:
            self._dropped = True
            why = error.strerror or str(error)
            self._say(f"{why}: the samples that the job folder does not have are lost")
            return None


def _local_store(
    local_root: str | None, most_bytes: int, say: Callable[[str], None]
) -> LocalFile | HeldBytes:
    root = local_root or os.environ.get("TMPDIR") or "/tmp"  # noqa: S108  a node's own folder
    mounts = read_whole("/proc/self/mountinfo", _MOUNTS_BYTES)
    why = ""
    for folder in dict.fromkeys((root, "/tmp")):  # noqa: S108
        server = _network_of(mounts, folder)
        if server is not None:
            why += f"; {folder}: {server}, which may hang"
            continue
        try:
            return LocalFile(folder, most_bytes, say)
        except OSError as error:
            why += f"; {folder}: {error.strerror}"
    say(f"samples are held in memory{why}")
    return HeldBytes(MOST_HELD_BYTES)


def _network_of(mounts: bytes, folder: str) -> str | None:
    """The type of a folder's file system where another machine serves it."""
    kind = file_system_of(mounts, folder)
    if kind not in NETWORK:
        # Where this hangs the guard ends it.
        kind = file_system_of(mounts, os.path.realpath(folder))
    return kind if kind in NETWORK else None


class LocalFile:
    """A file without a name, and memory once that fails; one thread appends, another reads."""

    FULL = "the file on this node is as large as it may be"

    def __init__(self, root: str, most_bytes: int, say: Callable[[str], None]) -> None:
        """Begin in a folder. Raises OSError."""
        self._root = root
        self._most = most_bytes
        self._say = say
        self._fd = _nameless_file(root)
        self._held: HeldBytes | None = None
        self._lock = threading.Lock()
        self._end = 0
        self._copied = 0

    def append(self, data: bytes) -> str | None:
        """Take whole blocks; why not, if they were not taken."""
        with self._lock:
            if self._held is not None:
                return self._held.append(data)
            if self._end + len(data) > self._most:
                return self.FULL
            try:
                _write_at(self._fd, data, self._end)
            except OSError as error:
                why = error.strerror or str(error)
            else:
                self._end += len(data)
                return None
            self._held = HeldBytes(MOST_HELD_BYTES, self._rest(MOST_HELD_BYTES))
            os.close(self._fd)
        self._say(f"{self._root}: {why}; samples are held in memory")
        return self._held.append(data)

    def next_bytes(self) -> bytes:
        """What comes next to be copied, empty when all was."""
        with self._lock:
            return self._held.next_bytes() if self._held else self._rest(_COPY_BYTES)

    def copied(self, count: int) -> None:
        """So many bytes more need not be kept."""
        with self._lock:
            if self._held is not None:
                self._held.copied(count)
                return
            self._copied += count
            if self._copied == self._end and self._end >= REWIND_BYTES:
                os.ftruncate(self._fd, 0)
                self._copied = self._end = 0

    def file_bytes(self) -> int:
        """How large the file is."""
        with self._lock:
            return 0 if self._held is not None else os.fstat(self._fd).st_size

    def keep(self) -> str | None:
        """Write what was not copied to a file with a name, and give that. Raises OSError."""
        with self._lock:
            if self._held is not None:
                return self._held.keep()
            path = _new_name(self._root)
            fd = os.open(path, _NEW_FILE, 0o600)
            try:
                at = 0
                while data := os.pread(self._fd, _COPY_BYTES, self._copied + at):
                    _write_at(fd, data, at)
                    at += len(data)
            except OSError:
                os.unlink(path)
                raise
            finally:
                os.close(fd)
            return path

    def _rest(self, most: int) -> bytes:
        return os.pread(self._fd, min(self._end - self._copied, most), self._copied)


_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def _new_name(root: str) -> str:
    # With O_EXCL a name that somebody else took is refused.
    return f"{root}/hpckit-samples-{os.getuid()}-{os.getpid()}-{time.time_ns():x}.samples"


def _nameless_file(root: str) -> int:
    # O_TMPFILE would do it at once, but not on every file system.
    path = _new_name(root)
    fd = os.open(path, _NEW_FILE, 0o600)
    os.unlink(path)
    return fd


class HeldBytes:
    """Memory in place of a file."""

    def __init__(self, most_bytes: int, first: bytes = b"") -> None:
        self._most = most_bytes
        self._data = bytearray(first)
        self._lock = threading.Lock()

    def append(self, data: bytes) -> str | None:
        """Take whole blocks; why not, if they are too much."""
        with self._lock:
            if len(self._data) + len(data) > self._most:
                return "no room on this node, and none in memory"
            self._data += data
        return None

    def next_bytes(self) -> bytes:
        """What comes next to be copied, empty when all was."""
        with self._lock:
            return bytes(self._data[:_COPY_BYTES])

    def copied(self, count: int) -> None:
        """So many bytes more need not be kept."""
        with self._lock:
            del self._data[:count]

    def file_bytes(self) -> int:
        """There is no file."""
        return 0

    def keep(self) -> str | None:
        """Nothing of it can be kept. Raises OSError where there is something."""
        with self._lock:
            if self._data:
                raise OSError(errno.ENOSPC, "no room on this node")
        return None


def _write_at(fd: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        count = os.pwrite(fd, view, at)
        view, at = view[count:], at + count
