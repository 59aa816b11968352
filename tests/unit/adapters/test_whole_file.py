"""Files that a user asked for: whole, or as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.adapters.whole_file import whole_file
from hpckit.errors import StorageFailed


def test_a_file_is_there_when_it_is_whole(tmp_path: Path) -> None:
    """Until then the old one is."""
    path = tmp_path / "a"
    path.write_text("old")
    with whole_file(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    """The half-written file is gone, the old one is not."""
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(RuntimeError), whole_file(path):
        raise RuntimeError
    assert [one.name for one in tmp_path.iterdir() if one.is_file()] == ["a"]
    assert path.read_text() == "old"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The error has the path and the reason."""
    with (
        pytest.raises(StorageFailed, match=r"gone/a cannot be written: No such file"),
        whole_file(tmp_path / "gone" / "a"),
    ):
        pass
