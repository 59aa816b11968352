"""Where a sampler's blocks go: to a file of this node first, and a thread copies what is new.

Nothing here waits for the job folder's file system: the thread alone touches it, and a process
that ends leaves the thread behind. Both files are only appended to.
"""

from __future__ import annotations

import os
import threading
import time

from hpckit.adapters.sample_copier import Copier
from hpckit.model.samples import BlockHeader, encode_block

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from hpckit.sample_ports import Moment

MOST_LOCAL_BYTES = 64 * 1024**2
"""What waits to be copied; /tmp may be memory that the job needs."""
MOST_HELD_BYTES = 4 * 1024**2
"""The same where this node has no room for a file."""
REWIND_BYTES = 1024**2
"""A local file that was copied whole is begun anew from this size on."""
_COPY_BYTES = 256 * 1024
_FIRST_WAIT_S = 0.5


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
    def local_path(self) -> str | None:
        """The file on this node, None where there is none."""
        return self._store.path

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
        if why is not None and isinstance(self._store, LocalFile) and why != LocalFile.FULL:
            self._say(f"sampler: {self._store.path}: {why}; samples are held in memory")
            held = HeldBytes(MOST_HELD_BYTES, self._store.rest())
            self._store = held
            self._copier.store = held
            why = held.append(data)
        if why is not None and not self._dropped:
            self._dropped = True
            self._say(f"sampler: {why}: samples are lost until the job folder takes them again")

    def close(self, limit_s: float) -> str | None:
        """Wait for the copy, at most so long; the local file that holds the rest, if one does."""
        if self._copier.finish(limit_s):
            self._store.remove()
            return None
        return self._store.path


def _local_store(
    local_root: str | None, most_bytes: int, say: Callable[[str], None]
) -> LocalFile | HeldBytes:
    root = local_root or os.environ.get("TMPDIR") or "/tmp"  # noqa: S108  a node's own folder
    why = ""
    for folder in dict.fromkeys((root, "/tmp")):  # noqa: S108
        # mkdir refuses a name that somebody else took, so the folder is this process's own.
        name = f"{folder}/hpckit-samples-{os.getuid()}-{os.getpid()}-{time.time_ns():x}"
        try:
            os.mkdir(name, mode=0o700)
            return LocalFile(name, most_bytes)
        except OSError as error:
            why += f"; {folder}: {error.strerror}"
    say(f"sampler: samples are held in memory{why}")
    return HeldBytes(MOST_HELD_BYTES)


class LocalFile:
    """A file in a folder of its own, 0700; one thread appends, another reads."""

    FULL = "the file on this node is as large as it may be"

    def __init__(self, folder: str, most_bytes: int) -> None:
        self._folder = folder
        self._most = most_bytes
        self.path: str | None = f"{folder}/node.samples"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._fd = os.open(f"{folder}/node.samples", flags, 0o600)
        self._lock = threading.Lock()
        self._end = 0
        self._copied = 0

    def append(self, data: bytes) -> str | None:
        """Write whole blocks; why not, if they were not written."""
        with self._lock:
            if self._end + len(data) > self._most:
                return self.FULL
            try:
                _write_at(self._fd, data, self._end)
            except OSError as error:
                return error.strerror or str(error)
            self._end += len(data)
        return None

    def next_bytes(self) -> bytes:
        """What comes next to be copied, empty when all was."""
        with self._lock:
            return os.pread(self._fd, min(self._end - self._copied, _COPY_BYTES), self._copied)

    def copied(self, count: int) -> None:
        """So many bytes more need not be kept."""
        with self._lock:
            self._copied += count
            if self._copied == self._end and self._end >= REWIND_BYTES:
                os.ftruncate(self._fd, 0)
                self._copied = self._end = 0

    def rest(self) -> bytes:
        """What was not copied yet."""
        with self._lock:
            count = min(self._end - self._copied, MOST_HELD_BYTES)
            return os.pread(self._fd, count, self._copied)

    def remove(self) -> None:
        """Remove file and folder."""
        try:
            os.unlink(f"{self._folder}/node.samples")
            os.rmdir(self._folder)
        except OSError:
            return


class HeldBytes:
    """Memory in place of a file."""

    path: str | None = None

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

    def remove(self) -> None:
        """There is nothing to remove."""


def _write_at(fd: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        count = os.pwrite(fd, view, at)
        view, at = view[count:], at + count
