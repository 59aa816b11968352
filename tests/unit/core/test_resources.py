"""Where site files and templates are looked for, and which wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.core.errors import StorageFailed
from hpckit.core.files import FileResources, packaged_data, search_path


def put(folder: Path, name: str, text: str = "") -> Path:
    """A file with its folders."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_search_path_goes_from_named_to_packaged() -> None:
    """Extra folders, HPCKIT_PATH in its order, the user's, the machine's, and hpckit's own last."""
    environment = {"HPCKIT_PATH": "/a::/b", "XDG_CONFIG_HOME": "/conf"}
    home = Path("/home/u")
    assert search_path(environment, home, extra=[Path("/x")]) == (
        Path("/x"),
        Path("/a"),
        Path("/b"),
        Path("/conf/hpckit"),
        Path("/etc/hpckit"),
        packaged_data(),
    )
    assert search_path({"XDG_CONFIG_HOME": ""}, home)[0] == Path("/home/u/.config/hpckit")


def test_the_first_file_of_a_name_wins(tmp_path: Path) -> None:
    """Files of one name are listed strongest first: site dirs, then the search path in order."""
    mine = put(tmp_path, "mine/local.toml")
    first = put(tmp_path, "a/site_configs/local.toml")
    second = put(tmp_path, "b/site_configs/deep/local.toml")
    path = [tmp_path / "a", tmp_path / "b", packaged_data()]
    files = FileResources(path, site_dirs=[tmp_path / "mine"]).site_files()
    packaged = packaged_data() / "site_configs" / "local.toml"
    assert files["local"] == [mine, first, second, packaged]


def test_templates_are_named_by_their_path(tmp_path: Path) -> None:
    """A template in a subfolder is called by its path, and template dirs come first."""
    own = put(tmp_path, "t/report/styles.js")
    resources = FileResources([packaged_data()], template_dirs=[tmp_path / "t"])
    found = resources.template_files()["report/styles.js"]
    assert found[0] == own
    assert [resources.is_packaged(path) for path in found] == [False, True]


def test_folders_that_are_not_there_hold_nothing(tmp_path: Path) -> None:
    """A search path of folders that do not exist is an empty one, and other files are not sites."""
    put(tmp_path, "site_configs/notes.txt")
    (tmp_path / "site_configs" / "folder.toml").mkdir()
    assert FileResources([tmp_path, tmp_path / "gone"]).site_files() == {}


def test_a_file_that_is_no_text_cannot_be_read(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 are a StorageFailed with the path."""
    path = tmp_path / "bad.toml"
    path.write_bytes(b"\xff")
    with pytest.raises(StorageFailed, match=r"bad\.toml cannot be read"):
        FileResources([]).read(path)
