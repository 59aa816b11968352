"""The packed in-job code is kept for its owner alone, and never taken from anybody else."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hpckit.injob.archive import MOST_KEPT, AgentCache


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A place for a cache."""
    return tmp_path / "cache"


def kept_file(folder: Path) -> Path:
    """The one file of a cache that keeps `b"code"` under the key `a`."""
    AgentCache(folder, "a").write(b"code")
    (kept,) = folder.iterdir()
    return kept


def test_what_was_kept_comes_back(folder: Path) -> None:
    """Under their key alone, and from a file that nobody else may write: it is the user's code."""
    kept = kept_file(folder)
    assert AgentCache(folder, "a").read() == b"code"
    assert AgentCache(folder, "b").read() is None
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    for mode in (0o620, 0o602, 0o666):
        kept.chmod(mode)
        assert AgentCache(folder, "a").read() is None


@pytest.mark.parametrize("damage", [b"", b"code", b"code" * 9])
def test_what_is_damaged_is_not_taken(folder: Path, damage: bytes) -> None:
    """Bytes without their digest are none."""
    kept_file(folder).write_bytes(damage)
    assert AgentCache(folder, "a").read() is None


def test_links_and_fifos_are_not_taken(folder: Path) -> None:
    """Neither is followed or waited for."""
    kept = kept_file(folder)
    kept.rename(folder / "elsewhere")
    kept.symlink_to(folder / "elsewhere")
    assert AgentCache(folder, "a").read() is None
    kept.unlink()
    os.mkfifo(kept)
    assert AgentCache(folder, "a").read() is None


@pytest.mark.parametrize("place", ["file", "file/below", "n" * 300])
def test_a_place_that_cannot_be_a_folder_costs_only_time(folder: Path, place: str) -> None:
    """Nothing is kept there, and nothing is said."""
    folder.mkdir()
    (folder / "file").touch()
    AgentCache(folder / place, "a").write(b"code")
    assert AgentCache(folder / place, "a").read() is None
    assert [path.name for path in folder.iterdir()] == ["file"]


def test_a_few_are_kept(folder: Path) -> None:
    """Of many versions the oldest go."""
    for at in range(MOST_KEPT + 3):
        AgentCache(folder, str(at)).write(b"code")
        os.utime(folder / f"injob-{at}.pyz", (at, at))
    left = {path.name for path in folder.iterdir()}
    assert len(left) == MOST_KEPT
    assert f"injob-{MOST_KEPT + 2}.pyz" in left
    assert "injob-0.pyz" not in left
