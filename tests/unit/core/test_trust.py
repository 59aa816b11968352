"""Nobody else's files: what another user could change is refused, wherever on the way it is."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hpckit.core.errors import StorageFailed
from hpckit.core.files_in_job import make_folders
from hpckit.core.trust import Untrusted, is_ours, make_private, must_be_ours, narrow

SOMEBODY = 12345
by_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def made(folder: Path, mode: int = 0o755, uid: int | None = None) -> Path:
    """A folder of this mode and owner."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(mode)
    if uid is not None:
        os.chown(folder, uid, -1)
    return folder


def test_what_is_not_there_yet_is_its_folders(tmp_path: Path) -> None:
    """A path whose folders are this user's alone is fine, though nothing has its name yet."""
    must_be_ours(tmp_path / "not" / "there")


def test_folders_made_in_a_job_are_closed(tmp_path: Path) -> None:
    """Each one, the missing ones above it too, whatever the umask."""
    umask = os.umask(0)
    try:
        make_folders(f"{tmp_path}/account/samples")
        make_folders(f"{tmp_path}/account/samples")
    finally:
        os.umask(umask)
    for folder in (tmp_path / "account", tmp_path / "account" / "samples"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o757, 0o777, 0o773])
def test_a_folder_that_others_may_write_to(tmp_path: Path, mode: int) -> None:
    """It is refused as the last part and as one on the way, with the line that mends it."""
    wide = made(tmp_path / "wide", mode)
    for path in (wide, made(wide / "own"), wide / "new"):
        with pytest.raises(Untrusted, match=f"{wide} can be changed by") as caught:
            must_be_ours(path)
        assert caught.value.hint == f"chmod go-w {wide}"


@by_root
def test_a_group_that_may_write(tmp_path: Path) -> None:
    """A project's group is others, the user's own private group is not."""
    shared = made(tmp_path / "shared", 0o775)
    assert is_ours(shared)
    os.chown(shared, -1, SOMEBODY)
    with pytest.raises(Untrusted, match=f"group with GID {SOMEBODY}"):
        must_be_ours(shared / "job")


@by_root
def test_a_folder_of_another_user(tmp_path: Path) -> None:
    """What she owns she can change, whatever its mode, and so all below it."""
    hers = made(tmp_path / "hers", 0o755, SOMEBODY)
    for path in (hers, made(hers / "mine")):
        with pytest.raises(Untrusted, match=f"{hers} belongs to the user with UID"):
            must_be_ours(path)


@by_root
def test_a_sticky_folder(tmp_path: Path) -> None:
    """As in /tmp, one's own folder inside is fine and another user's is not."""
    sticky = made(tmp_path / "sticky", 0o1777)
    must_be_ours(made(sticky / "mine"))
    must_be_ours(sticky / "new")
    made(sticky / "hers", 0o755, SOMEBODY)
    with pytest.raises(Untrusted, match="belongs to"):
        must_be_ours(sticky / "hers" / "jobs")


@by_root
def test_links(tmp_path: Path) -> None:
    """A link is as good as its owner and as every folder that it leads through."""
    safe = made(tmp_path / "safe")
    (tmp_path / "link").symlink_to(safe)
    must_be_ours(tmp_path / "link" / "new")
    made(tmp_path / "wide", 0o777)
    made(tmp_path / "wide" / "inside")
    (tmp_path / "detour").symlink_to("wide/../wide/inside")
    assert not is_ours(tmp_path / "detour")
    os.lchown(tmp_path / "link", SOMEBODY, -1)
    with pytest.raises(Untrusted, match="link belongs to"):
        must_be_ours(tmp_path / "link")


def test_links_without_end(tmp_path: Path) -> None:
    """A link that leads back to itself is an error, not a loop."""
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(StorageFailed, match="more than 40 symbolic links"):
        must_be_ours(tmp_path / "loop")


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_private_folders_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    """Each level that is made is 0700; one that was there keeps its mode."""
    before = os.umask(umask)
    try:
        make_private(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    levels = [tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c"]
    assert [stat.S_IMODE(level.stat().st_mode) for level in levels] == [0o700] * 3


def test_a_link_is_not_narrowed(tmp_path: Path) -> None:
    """What a link leads to keeps its mode; so does what others could have put there."""
    public = tmp_path / "public"
    public.mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(public)
    assert narrow(tmp_path / "link") is None
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "open" / "in").mkdir(mode=0o755)
    assert narrow(tmp_path / "open" / "in") is None
    assert [stat.S_IMODE(one.stat().st_mode) for one in (public, tmp_path / "open" / "in")] == [
        *(0o755, 0o755),
    ]


def test_a_wider_folder_is_narrowed(tmp_path: Path) -> None:
    """What others may do is taken away, and how it was is told; the second time it is None."""
    wide = made(tmp_path / "wide", 0o755)
    assert narrow(wide) == "0755"
    assert stat.S_IMODE(wide.stat().st_mode) == 0o700
    assert narrow(wide) is None
