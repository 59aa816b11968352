"""Where a sampler's blocks go: to a file of this node first, and a thread copies what is new.

Nothing here waits for the job folder's file system: the thread alone touches it, and a process
that ends leaves the thread behind. Both files are only appended to. That of this node has no name,
so that nothing stays of a sampler that was killed; at the end what was not copied is given one.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time

from hpckit.account.sample_format import (
    HEADER_BYTES,
    MAGIC,
    Block,
    BlockHeader,
    encode_block,
    read_blocks,
)
from hpckit.sampler.cgroups_and_node import NETWORK, file_system_of
from hpckit.sampler.job_processes import read_bytes

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from hpckit.account.sample_format import Moment

    class Store(Protocol):
        """What has bytes to be copied."""

        def next_bytes(self) -> bytes:
            """What comes next, empty when there is nothing."""

        def copied(self, count: int) -> None:
            """So many bytes are safe."""


SYNC_S = 15.0
"""Between two times that the job folder's disks are waited for; the kernel writes by itself."""
_SLICE_S = 0.1
_TAIL_BYTES = 4 * 1024**2
_HAS_NO_SYNC = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
"""What a file system says that has no fdatasync(2)."""

_IS_LINK = "a symbolic link, which is not followed, or behind a loop of them"


class Copier:
    """Appends what a store holds to `target`, below `root`, whose missing folders it makes.

    Its thread alone touches the job folder, so that one that hangs stops nobody else.
    """

    def __init__(self, root: str, target: str, store: Store, say: Callable[[str], None]) -> None:
        """Start the thread."""
        self.store = store
        self.reached: str | None = None
        """The file that has what was copied, at the end by the name that it has then."""
        self.is_lost = False
        """Whether something that was copied may be nowhere: removed, cut, or refused by a sync."""
        self.is_unsynced = False
        """Whether `finish` waited in vain, with nothing left to copy, for the disks to answer."""
        self.is_unwritten = False
        """Whether `finish` waited in vain, with something left to copy."""
        self._path = f"{root}/{target}"
        self._root = root
        self._say = say
        self._work = threading.Condition()
        self._has_work = False
        self._is_idle = False
        self._ending = False
        self._sequence: int | None = None
        self._known = threading.Event()
        self._anew = False
        self._size: int | None = None
        self._fd: int | None = None
        self._synced_s = 0.0
        self._said = False
        self._said_lost = False
        self._thread = threading.Thread(target=self._run, name="hpckit-copier", daemon=True)
        self._thread.start()

    def next_sequence(self, limit_s: float) -> int | None:
        """The number after the last whole block of an earlier sampler, as far as known in time."""
        self._known.wait(limit_s)
        return self._sequence

    def began_anew(self) -> bool:
        """Whether the target was removed or cut since this was last asked."""
        anew, self._anew = self._anew, False
        return anew

    def wake(self) -> None:
        """There is something to copy."""
        with self._work:
            self._wake()

    def _wake(self) -> None:
        self._has_work = True
        self._is_idle = False
        self._work.notify_all()

    def finish(self, limit_s: float, is_hurried: Callable[[], bool] = lambda: False) -> bool:
        """Wait until all is copied, at most so long or until `is_hurried`; whether it is."""
        with self._work:
            self._ending = True
            self._wake()
            until = time.monotonic() + limit_s
            while not self._is_idle and not is_hurried():
                left = until - time.monotonic()
                if left <= 0:
                    break
                self._work.wait(min(left, _SLICE_S))
            is_late = not self._is_idle
        is_copied = not self._has_rest()
        self.is_unsynced = is_late and is_copied
        self.is_unwritten = is_late and not is_copied
        return is_copied

    def _run(self) -> None:
        self._sequence = self._first_look()
        self._known.set()
        while True:
            with self._work:
                while not self._has_work:
                    self._work.wait()
                self._has_work = False
            self._try_to_copy()
            with self._work:
                if not self._has_work:
                    self._is_idle = True
                    self._work.notify_all()
                if self._ending and self._is_idle:
                    return

    def _first_look(self) -> int:
        try:
            with open(self._path, "rb", buffering=0, opener=_without_waiting) as file:
                return _sequence_after(file.fileno())
        except OSError:
            return 0

    def _try_to_copy(self) -> None:
        """Copy, or say once why not; the next flush tries again."""
        try:
            self._copy()
        except OSError as error:
            # What is open may be of a file system that was mounted anew.
            self._let_go()
            if not self._has_rest():
                self._say_lost(error)
            elif not self._said:
                self._said = True
                is_link = error.errno == errno.ELOOP
                why = _IS_LINK if is_link else error.strerror or str(error)
                until = "" if self._ending else " until it works"
                self._say(f"{self._path}: {why}; samples stay on this node{until}")
        else:
            self._said = False

    def _has_rest(self) -> bool:
        """Whether something waits; also where this node's own disk does not give it."""
        try:
            return bool(self.store.next_bytes())
        except OSError:
            return True

    def _copy(self) -> None:
        # Asked before what there is: an end that comes later has a turn of its own.
        ending = self._ending
        data = self.store.next_bytes()
        if data:
            fd = self._ours()
            while data:
                count = os.write(fd, data)
                self.reached = self._path
                self._size = (self._size or 0) + count
                self.store.copied(count)
                data = self.store.next_bytes()
        is_due = ending or time.monotonic() - self._synced_s >= SYNC_S
        if self._fd is not None and ending:
            self.reached = self._place(self._fd)
        if self._fd is not None and is_due and self.reached is not None:
            self._sync(self._fd)
        if ending:
            self._let_go()

    def _sync(self, fd: int) -> None:
        self._synced_s = time.monotonic()
        try:
            os.fdatasync(fd)
        except OSError as error:
            if error.errno not in _HAS_NO_SYNC:
                self._say_lost(error)

    def _ours(self) -> int:
        """The file, open since the last time unless somebody removed it."""
        fd = self._fd
        if fd is not None and self._look(fd) is None:
            self._let_go()
            self._size, self._anew, fd = None, True, None
        if fd is None:
            fd = self._fd = self._open()
        found = os.fstat(fd)
        if self._is_cut(found):
            self._anew = True
        self._size = found.st_size
        return fd

    def _look(self, fd: int) -> os.stat_result | None:
        """What the open file is, None where somebody removed it."""
        found = os.fstat(fd)
        # An NFS client gives such a name to what is removed while it is open.
        if found.st_nlink and not os.path.basename(_name(fd)).startswith(".nfs"):
            return found
        self.reached = None
        self._say_gone("removed")
        return None

    def _is_cut(self, found: os.stat_result) -> bool:
        is_file = stat.S_ISREG(found.st_mode)
        if not is_file or self._size is None or found.st_size >= self._size:
            return False
        self._say_gone("cut")
        return True

    def _say_gone(self, how: str) -> None:
        self.is_lost = True
        self._say(f"{self._path}: somebody {how} it; what it had is lost")

    def _place(self, fd: int) -> str | None:
        """Where the file is by now, None where it was removed."""
        found = self._look(fd)
        if found is None:
            return None
        if self._is_cut(found) and not found.st_size:
            return None
        try:
            if os.path.samestat(os.stat(self._path), found):
                return self._path
        except OSError:
            pass  # it is not there, or its folder is not
        place = _name(fd)
        self._say(f"{self._path}: somebody moved it; it is {place or 'not known where'}")
        return place or None

    def _let_go(self) -> None:
        fd, self._fd = self._fd, None
        if fd is None:
            return
        try:
            os.close(fd)
        except OSError as error:
            self._say_lost(error)

    def _say_lost(self, error: OSError) -> None:
        """On NFS it is a sync or a close that tells that a write before it failed."""
        self.is_lost = True
        if not self._said_lost:
            self._said_lost = True
            self._say(f"{self._path}: {error.strerror or error}; the last samples may be lost")

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(self._path, flags, 0o600)
        except FileNotFoundError:
            # A job folder that was removed stays so; what lies in it is made.
            os.stat(self._root)
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            return os.open(self._path, flags, 0o600)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _name(fd: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""


def _sequence_after(fd: int) -> int:
    """The number after that of the last whole block near the end of a file, 0 if none is."""
    size = os.fstat(fd).st_size
    begin = max(size - _TAIL_BYTES, 0)
    tail = os.pread(fd, size - begin, begin)
    at = len(tail)
    while (at := tail.rfind(MAGIC, 0, at)) >= 0:
        block = next(iter(read_blocks(tail[at:])), None)
        if isinstance(block, Block):
            return (block.header.sequence + 1) & 0xFFFFFFFF
        if at < HEADER_BYTES:
            break
    return 0


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
        own = local_root or os.environ.get("TMPDIR") or "/tmp"  # noqa: S108  a node's own folder
        self._store = LocalStore((own, "/tmp"), most_local_bytes, say)  # noqa: S108
        self.copier = Copier(root, target, self._store, say)
        """What has arrived, once this is closed."""
        self._pending: list[tuple[int, int, Moment, bytes]] = []
        self._sequence: int | None = None
        self._dropped = False

    @property
    def is_lost(self) -> bool:
        """Whether something that was put is, or after `close` may be, nowhere any more."""
        return self._dropped or self.copier.is_lost or self.copier.is_unsynced

    def put(self, kind: int, record_bytes: int, moment: Moment, payload: bytes) -> None:
        """Take a block; it is written with the next `flush`."""
        self._pending.append((kind, record_bytes, moment, payload))

    def wants_meta(self) -> bool:
        """Whether the target was begun anew, by someone who removed it."""
        return self.copier.began_anew()

    def flush(self) -> None:
        """Write what was put on this node, and wake the thread that copies it."""
        if not self._pending:
            return
        if self._sequence is None:
            # The numbers go on after those of a sampler before this one, if its file can be read.
            self._sequence = self.copier.next_sequence(_FIRST_WAIT_S) or 0
        blocks = []
        for kind, record_bytes, moment, payload in self._pending:
            header = BlockHeader(kind, record_bytes, 0, self._sequence, *moment)
            blocks.append(encode_block(header, payload))
            self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        self._pending.clear()
        why = self._store.append(b"".join(blocks))
        if why is not None and not self._dropped:
            self._dropped = True
            self._say(f"{why}: samples are lost until the job folder takes them again")
        self.copier.wake()

    def close(self, limit_s: float, is_hurried: Callable[[], bool] = lambda: False) -> str | None:
        """Wait for the copy, at most so long; the file on this node with the rest, if there is one.

        It waits no longer as soon as `is_hurried`, which is asked several times a second.
        A rest that finds no room is lost, which is said; nothing else is, as saying may hang.
        """
        if self.copier.finish(limit_s, is_hurried):
            return None
        try:
            return self._store.keep()
        except OSError as error:
            self._dropped = True
            why = error.strerror or str(error)
            self._say(f"{why}: the samples that the job folder does not have are lost")
            return None


def _network_of(mounts: bytes, folder: str) -> str | None:
    """The type of a folder's file system where another machine serves it."""
    kind = file_system_of(mounts, folder)
    if kind not in NETWORK:
        # Where this hangs the guard ends it.
        kind = file_system_of(mounts, os.path.realpath(folder))
    return kind if kind in NETWORK else None


class LocalStore:
    """What waits on this node: a file without a name, or memory where there is none.

    One thread appends, another reads.
    """

    def __init__(self, roots: Sequence[str], most_bytes: int, say: Callable[[str], None]) -> None:
        """Begin in the first folder that takes a file and is this node's own."""
        self._most = most_bytes
        self._say = say
        self._lock = threading.Lock()
        self._held = bytearray()
        self._end = 0
        self._copied = 0
        self._root, self._fd = self._opened(roots)

    def _opened(self, roots: Sequence[str]) -> tuple[str, int | None]:
        mounts = read_bytes("/proc/self/mountinfo", _MOUNTS_BYTES)
        why = ""
        for root in dict.fromkeys(roots):
            server = _network_of(mounts, root)
            if server is not None:
                why += f"; {root}: {server}, which may hang"
                continue
            try:
                return root, _nameless_file(root)
            except OSError as error:
                why += f"; {root}: {error.strerror}"
        self._say(f"samples are held in memory{why}")
        return "", None

    def append(self, data: bytes) -> str | None:
        """Take whole blocks; why not, if they were not taken."""
        failure = None
        with self._lock:
            if self._fd is not None:
                if self._end + len(data) > self._most:
                    return "the file on this node is as large as it may be"
                failure = self._failure(self._fd, data)
                if failure is None:
                    return None
            is_full = len(self._held) + len(data) > MOST_HELD_BYTES
            self._held += b"" if is_full else data
        if failure is not None:
            self._say(f"{self._root}: {failure}; samples are held in memory")
        return "no room on this node, and none in memory" if is_full else None

    def _failure(self, fd: int, data: bytes) -> str | None:
        """Write to the file, which gives way to memory where that fails; why it did."""
        try:
            _write_at(fd, data, self._end)
        except OSError as error:
            self._held += self._rest(fd, MOST_HELD_BYTES)
            self._fd = None
            os.close(fd)
            return error.strerror or str(error)
        self._end += len(data)
        return None

    def next_bytes(self) -> bytes:
        """What comes next to be copied, empty when all was."""
        with self._lock:
            if self._fd is None:
                return bytes(self._held[:_COPY_BYTES])
            return self._rest(self._fd, _COPY_BYTES)

    def copied(self, count: int) -> None:
        """So many bytes more need not be kept."""
        with self._lock:
            if self._fd is None:
                del self._held[:count]
                return
            self._copied += count
            if self._copied == self._end and self._end >= REWIND_BYTES:
                os.ftruncate(self._fd, 0)
                self._copied = self._end = 0

    def keep(self) -> str | None:
        """Write what was not copied to a file with a name, and give that.

        Raises OSError, also for what is held in memory, of which nothing can be kept.
        """
        with self._lock:
            if self._fd is None:
                if self._held:
                    raise OSError(errno.ENOSPC, "no room on this node")
                return None
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

    def _rest(self, fd: int, most: int) -> bytes:
        return os.pread(fd, min(self._end - self._copied, most), self._copied)


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


def _write_at(fd: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        count = os.pwrite(fd, view, at)
        view, at = view[count:], at + count
