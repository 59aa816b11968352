"""Whose a file is: hpckit runs, reads settings from and writes to what nobody else can change.

The rule is that of sshd's StrictModes (OpenSSH, misc.c, safe_path) and of tmux's sockets: every
folder on the way belongs to root or to this user, and only its owner may write to it. A sticky
folder such as /tmp is fine: what lies in it is its owner's alone to rename (chmod(1)).
"""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import hpckit
from hpckit.core.errors import StorageFailed

_MOST_LINKS = 40  # Linux, include/linux/namei.h, MAXSYMLINKS
_SHARED_BITS = stat.S_IWGRP | stat.S_IWOTH


class Untrusted(StorageFailed):
    """Somebody else could change this file, or what it is found by."""


def must_be_ours(path: Path) -> None:
    """Raise Untrusted where another user could change `path` or put something in its place.

    What is not there yet is not looked at: the folders that it would be made in are. Raises
    StorageFailed where a part cannot be looked at.
    """
    try:
        for part, status in _way(path):
            _check(part, status)
    except OSError as error:
        raise StorageFailed(f"{path} cannot be checked: {error.strerror}") from error


def is_ours(path: Path) -> bool:
    """Return whether nobody else could change `path` or put something in its place."""
    try:
        must_be_ours(path)
    except StorageFailed:
        return False
    return True


def make_private(folder: Path) -> None:
    """Make a folder, mode 0700 whatever the umask, and so each one above that is missing.

    Raises OSError, and Untrusted where somebody else could change it.
    """
    must_be_ours(folder)
    missing = []
    level = folder
    while not level.exists():
        missing.append(level)
        level = level.parent
    for made in reversed(missing):
        made.mkdir(mode=0o700, exist_ok=True)
    must_be_ours(folder)


def narrow(folder: Path) -> str | None:
    """Take from others what they may do in a folder of this user's, and return how it was.

    The mode as chmod(1) writes it; None where nothing was to be taken, where it is not there or is
    a link, and where others could have put it there.
    """
    try:
        if not is_ours(folder.parent):
            return None
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(opened)
        mode = stat.S_IMODE(status.st_mode)
        if status.st_uid != os.geteuid() or not mode & 0o077:
            return None
        os.fchmod(opened, mode & ~0o077)
    finally:
        os.close(opened)
    return f"{mode:04o}"


def _way(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield each folder and link that is passed on the way to `path`, and what is there."""
    left = list(reversed(path.absolute().parts))
    here = Path(left.pop())
    yield here, here.lstat()
    links = 0
    while left:
        name = left.pop()
        if name == "..":
            here = here.parent
            continue
        part = here / name
        try:
            status = part.lstat()
        except FileNotFoundError:
            return
        yield part, status
        if not stat.S_ISLNK(status.st_mode):
            here = part
            continue
        links += 1
        if links > _MOST_LINKS:
            raise StorageFailed(f"{path} has more than {_MOST_LINKS} symbolic links")
        target = part.readlink()
        left += reversed(target.parts[1:] if target.is_absolute() else target.parts)
        here = Path("/") if target.is_absolute() else here


def _check(part: Path, status: os.stat_result) -> None:
    word = shlex.quote(str(part))
    if status.st_uid not in _owners():
        raise Untrusted(
            f"{part} belongs to {_user(status.st_uid)}, who could change files that hpckit runs",
            hint="use a folder that only you can write to",
        )
    if stat.S_ISLNK(status.st_mode) or not status.st_mode & _SHARED_BITS:
        return
    is_sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    if is_sticky or _is_private_group(part, status):
        return
    who = "everybody" if status.st_mode & stat.S_IWOTH else f"group {_group(status.st_gid)}"
    may = (
        f"chmod go-w {word}"
        if status.st_uid == os.geteuid()
        else "use a folder that only you can write to"
    )
    raise Untrusted(f"{part} can be changed by {who}", hint=may)


@cache
def _owners() -> frozenset[int]:
    """Return the users who are trusted: root, this one, and whose hpckit this is."""
    return frozenset({0, os.geteuid(), Path(hpckit.__file__).stat().st_uid})


def _is_private_group(part: Path, status: os.stat_result) -> bool:
    """Return whether the group that may write is this user alone, as with a umask of 002."""
    if status.st_mode & stat.S_IWOTH or status.st_gid != os.getegid():
        return False
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    if group.gr_name != user.pw_name or set(group.gr_mem) - {user.pw_name}:
        return False
    # The group's bits are the mask of an access control list, where there is one (acl(5)).
    return "system.posix_acl_access" not in os.listxattr(part, follow_symlinks=False)


def _user(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"the user with UID {uid}"


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return f"with GID {gid}"
