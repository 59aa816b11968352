"""What is said of links that lead nowhere."""

from __future__ import annotations

from pathlib import Path

from hpckit.core.files import dead_link


def test_a_name_that_cannot_be_is_no_link(tmp_path: Path) -> None:
    """Neither an overlong name nor one behind a file is an error here."""
    (tmp_path / "file").touch()
    assert dead_link(tmp_path / ("x" * 300) / "a") is None
    assert dead_link(tmp_path / "file" / "a") is None


def test_the_first_dead_link_on_the_way_is_named(tmp_path: Path) -> None:
    """It may be a folder above; the fix makes what it leads to."""
    (tmp_path / "jobs").symlink_to(tmp_path / "scratch")
    why, fix = dead_link(tmp_path / "jobs" / "a" / "b") or ("", "")
    assert why == f"{tmp_path}/jobs is a link to {tmp_path}/scratch, which is not there"
    assert fix.startswith(f"mkdir -p {tmp_path}/scratch")
