"""Where a sampler's blocks go: into memory first, and a thread copies what is new.

Nothing here waits for the job folder's file system: the thread alone touches it, and a process
that ends leaves the thread behind. The file is only appended to. What was not copied at the end is
kept in a file of this node.
"""

from __future__ import annotations

import contextlib
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
from hpckit.core.files_in_job import make_folders

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable

    from hpckit.account.sample_format import Moment


MOST_HELD_BYTES = 16 * 1024**2
"""What waits to be copied: hours of a sampler at 1 Hz. It is memory that the job might need."""
SYNC_S = 15.0
"""Between two times that the job folder's disks are waited for; the kernel writes by itself."""
_COPY_BYTES = 256 * 1024
_HAS_NO_SYNC = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
"""What a file system says that has no fdatasync(2)."""

_IS_LINK = "a symbolic link (not followed), or behind a loop of them"
_KEEP_S, _KEEP_LAST_S = 1.0, 2.0
"""How long a folder of this node may take to keep the rest, and the last: TMPDIR may hang too."""


class SampleSpool:
    """One run's blocks, appended to `target` below `root`, whose missing folders are made.

    The thread alone touches the job folder, so that one that hangs stops nobody else.
    """

    def __init__(
        self,
        root: str,
        target: str,
        *,
        say: Callable[[str], None],
        local_root: str | None = None,
        most_bytes: int = MOST_HELD_BYTES,
    ) -> None:
        """Start the thread; nothing is written or asked of `root` by the caller's."""
        self.reached: str | None = None
        """The file that has what was copied, at the end by the name that it has then."""
        self.is_unsynced = False
        """Whether `close` waited in vain, with nothing left to copy, for the disks to answer."""
        self.is_unwritten = False
        """Whether `close` waited in vain, with something left to copy."""
        self._path = f"{root}/{target}"
        self._root = root
        self._say = say
        self._most_bytes = most_bytes
        own = local_root or os.environ.get("TMPDIR") or "/tmp"  # noqa: S108  a node's own folder
        self._local_roots = dict.fromkeys((own, "/tmp"))  # noqa: S108
        self._pending: list[tuple[int, int, Moment, bytes]] = []
        self._sequence: int | None = None
        self._is_dropped = False
        self._is_gone = False
        self._held = bytearray()
        self._work = threading.Condition()
        self._has_work = self._is_idle = self._ending = False
        self._first_sequence = 0
        self._known = threading.Event()
        self._anew = False
        self._size: int | None = None
        self._fd: int | None = None
        self._synced_s = 0.0
        self._said = False
        self._said_lost = False
        threading.Thread(target=self._run, name="hpckit-copier", daemon=True).start()

    @property
    def is_lost(self) -> bool:
        """Whether something that was put is, or after `close` may be, nowhere any more."""
        return self._is_dropped or self._is_gone or self.is_unsynced

    def put(self, kind: int, record_bytes: int, moment: Moment, payload: bytes) -> None:
        """Take a block; it is written with the next `flush`."""
        self._pending.append((kind, record_bytes, moment, payload))

    def wants_meta(self) -> bool:
        """Whether the target was removed or cut since this was last asked."""
        anew, self._anew = self._anew, False
        return anew

    def flush(self) -> None:
        """Hand what was put to the thread that copies it."""
        if not self._pending:
            return
        if self._sequence is None:
            # The numbers go on after those of a sampler before this one, if its file can be read.
            self._known.wait(0.5)
            self._sequence = self._first_sequence
        blocks = []
        for kind, record_bytes, moment, payload in self._pending:
            header = BlockHeader(kind, record_bytes, 0, self._sequence, *moment)
            blocks.append(encode_block(header, payload))
            self._sequence = (self._sequence + 1) & 0xFFFFFFFF
        self._pending.clear()
        if not self._append(b"".join(blocks)) and not self._is_dropped:
            self._is_dropped = True
            why = "the buffer on this node is full"
            self._say(f"{why}: samples are lost until the job folder is writable again")

    def close(self, limit_s: float, is_hurried: Callable[[], bool] = lambda: False) -> str | None:
        """Wait for the copy, at most so long; the file on this node with the rest, if there is one.

        It waits no longer as soon as `is_hurried`, which is asked several times a second.
        A rest that finds no room is lost, which is said; nothing else is, as saying may hang.
        """
        if self._finish(limit_s, is_hurried):
            return None
        rest = self._rest()
        name = f"hpckit-samples-{os.getuid()}-{os.getpid()}-{time.time_ns():x}.samples"
        *_, last = self._local_roots
        for root in self._local_roots:
            kept: list[str] = []
            keeping = threading.Thread(
                target=_keep, args=(f"{root}/{name}", rest, kept), name="hpckit-keep", daemon=True
            )
            keeping.start()
            keeping.join(_KEEP_LAST_S if root == last else _KEEP_S)
            if kept:
                return kept[0]
        self._is_dropped = True
        why = "no space on this node, or it took too long"
        self._say(f"{why}: the samples that are not in the job folder are lost")
        return None

    def _append(self, data: bytes) -> bool:
        """Take what is to be copied; whether there was room for it."""
        with self._work:
            has_room = len(self._held) + len(data) <= self._most_bytes
            self._held += data if has_room else b""
            self._wake()
        return has_room

    def _rest(self, most_bytes: int | None = None) -> bytes:
        """What was not copied yet."""
        with self._work:
            return bytes(self._held[:most_bytes])

    def _finish(self, limit_s: float, is_hurried: Callable[[], bool]) -> bool:
        """Wait until all is copied, at most so long or until `is_hurried`; whether it is."""
        with self._work:
            self._ending = True
            self._wake()
            until = time.monotonic() + limit_s
            while not self._is_idle and not is_hurried():
                left = until - time.monotonic()
                if left <= 0:
                    break
                self._work.wait(min(left, 0.1))
            is_late = not self._is_idle
        is_copied = not self._held
        self.is_unsynced = is_late and is_copied
        self.is_unwritten = is_late and not is_copied
        return is_copied

    def _wake(self) -> None:
        self._has_work = True
        self._is_idle = False
        self._work.notify_all()

    def _run(self) -> None:
        self._first_sequence = self._first_look()
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
            fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(fd, "rb", buffering=0):
                return _sequence_after(fd)
        except OSError:
            return 0

    def _try_to_copy(self) -> None:
        """Copy, or say once why not; the next flush tries again."""
        try:
            self._copy()
        except OSError as error:
            # What is open may be of a file system that was mounted anew.
            self._let_go()
            if not self._held:
                self._say_lost(error)
            elif not self._said:
                self._said = True
                is_link = error.errno == errno.ELOOP
                why = _IS_LINK if is_link else error.strerror or str(error)
                until = "" if self._ending else " until it is writable"
                self._say(f"{self._path}: {why}; samples stay on this node{until}")
        else:
            self._said = False

    def _copy(self) -> None:
        # Asked before what there is: an end that comes later has a turn of its own.
        ending = self._ending
        data = self._rest(_COPY_BYTES)
        if data:
            fd = self._ours()
            while data:
                count = os.write(fd, data)
                self.reached = self._path
                self._size = (self._size or 0) + count
                with self._work:
                    del self._held[:count]
                data = self._rest(_COPY_BYTES)
        is_due = ending or time.monotonic() - self._synced_s >= SYNC_S
        if ending and self._fd is not None:
            self._check(self._fd)
            self._say_moved()
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
        if self._fd is not None:
            self._check(self._fd)
        if self._fd is None:
            self._fd = self._open()
            # After an error it may be another file by now, or a shorter one.
            self._check(self._fd)
            if self._fd is None:
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return self._fd

    def _check(self, fd: int) -> None:
        """See whether the file still has what was written to it; one that was removed is let go."""
        found = os.fstat(fd)
        # An NFS client gives such a name to what is removed while it is open.
        is_removed = not found.st_nlink or os.path.basename(_name(fd)).startswith(".nfs")
        is_file = stat.S_ISREG(found.st_mode)
        is_cut = is_file and self._size is not None and found.st_size < self._size
        if is_removed or is_cut:
            self._is_gone = self._anew = True
            how = "removed" if is_removed else "truncated"
            self._say(f"{self._path}: somebody {how} it; its samples are lost")
        if is_removed or (is_cut and not found.st_size):
            self.reached = None
        self._size = None if is_removed else found.st_size
        if is_removed:
            self._let_go()

    def _say_moved(self) -> None:
        """Find the file where it is by now, if it has anything."""
        if self._fd is None or self.reached is None:
            return
        with contextlib.suppress(OSError):  # it is not there, or its folder is not
            if os.path.samestat(os.stat(self._path), os.fstat(self._fd)):
                return
        place = _name(self._fd)
        self._say(f"{self._path}: somebody moved it to {place or 'an unknown place'}")
        self.reached = place or None

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
        self._is_gone = True
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
            make_folders(os.path.dirname(self._path))
            return os.open(self._path, flags, 0o600)


def _name(fd: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""


def _sequence_after(fd: int) -> int:
    """The number after that of the last whole block near the end of a file, 0 if none is."""
    size = os.fstat(fd).st_size
    begin = max(size - 4 * 1024**2, 0)
    tail = os.pread(fd, size - begin, begin)
    at = len(tail)
    while (at := tail.rfind(MAGIC, 0, at)) >= 0:
        block = next(iter(read_blocks(tail[at:])), None)
        if isinstance(block, Block):
            return (block.header.sequence + 1) & 0xFFFFFFFF
        if at < HEADER_BYTES:
            break
    return 0


def _keep(path: str, data: bytes, kept: list[str]) -> None:
    """Write a new file, and add its path to `kept`, or leave none."""
    try:
        # With O_EXCL a name that somebody else took is refused.
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError:
        return
    try:
        with open(fd, "wb") as file:
            file.write(data)
        kept.append(path)
    except OSError:
        os.unlink(path)
