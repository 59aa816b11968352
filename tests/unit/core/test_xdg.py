"""Where a user's programs keep things."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.core.files import xdg_folder


@pytest.mark.parametrize(
    ("said", "folder"),
    [("/x/state", "/x/state"), ("", "/home/a/.local/state"), ("rel", "/home/a/.local/state")],
)
def test_a_relative_folder_counts_as_not_set(said: str, folder: str) -> None:
    """What a shell says holds where it is absolute: else it would be another in each folder."""
    found = xdg_folder({"XDG_STATE_HOME": said}, "XDG_STATE_HOME", Path("/home/a"))
    assert found == Path(folder)
