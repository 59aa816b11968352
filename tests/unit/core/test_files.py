"""Files of this machine: where they are looked for, and what is read of them."""

from __future__ import annotations

import getpass
import os
import sys
import threading
import tracemalloc
from pathlib import Path

import psutil
import pytest

from hpckit.core.errors import StorageFailed
from hpckit.core.files import (
    FileResources,
    LocalFiles,
    dead_link,
    packaged_data,
    pip_line,
    search_path,
    user_name,
    xdg_folder,
)
from hpckit.core.files_in_job import MOST_BYTES, read_regular


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
    own = put(tmp_path, "t/report/page.js")
    resources = FileResources([packaged_data()], template_dirs=[tmp_path / "t"])
    found = resources.template_files["report/page.js"]
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


def test_a_file_costs_what_it_holds(tmp_path: Path) -> None:
    """The bytes come as they are, and take no more memory than a small file needs."""
    (tmp_path / "a").write_bytes(b"x\r\n")
    tracemalloc.start()
    try:
        assert read_regular(tmp_path / "a") == b"x\r\n"
        assert tracemalloc.get_traced_memory()[1] < 1024**2
    finally:
        tracemalloc.stop()


def test_what_is_no_file_is_refused_and_closed(tmp_path: Path) -> None:
    """A folder, a FIFO, a device and a file that is far too large are OSError, and stay closed."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "device").symlink_to("/dev/zero")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    before = psutil.Process().num_fds()
    for name in (".", "fifo", "device", "large") * 20:
        with pytest.raises(OSError, match=r"directory|not a regular file|larger than 64 MiB"):
            read_regular(tmp_path / name)
    assert psutil.Process().num_fds() < before + 20


class HangingFiles(LocalFiles):
    """A file system on which a folder never answers, until the test lets it."""

    let_go = threading.Event()

    def names(self, folder: str) -> tuple[str, ...]:
        """Return no name, late."""
        return self._answer(folder, lambda: ("late",) * self.let_go.wait(60), ())


def test_a_file_system_that_hangs_is_left_behind() -> None:
    """One question takes its limit; no more is asked after it, which is said once."""
    files = HangingFiles(limit_s=0.1)
    assert [files.names("/dead") for _ in range(20)] == [()] * 20
    assert files.real("/") is None
    files.let_go.set()
    assert files.notes == ("no answer from /dead within 0.1 s; stopped looking",)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    """A configuration of a MiB is none; what is not there is no failure."""
    (tmp_path / "a").write_bytes(bytes(11))
    files = LocalFiles()
    assert files.text(f"{tmp_path}/a", 10) is None
    assert files.text(f"{tmp_path}/b", 10) is None
    assert files.names(f"{tmp_path}/a") == files.names(f"{tmp_path}/b") == ()
    assert files.notes == (f"{tmp_path}/a cannot be read: larger than 10 bytes",)


def test_a_name_that_cannot_be_is_no_link(tmp_path: Path) -> None:
    """Neither an overlong name nor one behind a file is an error here."""
    (tmp_path / "file").touch()
    assert dead_link(tmp_path / ("x" * 300) / "a") is None
    assert dead_link(tmp_path / "file" / "a") is None


def test_the_first_dead_link_on_the_way_is_named(tmp_path: Path) -> None:
    """It may be a folder above; the fix makes what it leads to."""
    (tmp_path / "jobs").symlink_to(tmp_path / "scratch")
    why, fix = dead_link(tmp_path / "jobs" / "a" / "b") or ("", "")
    assert why == f"{tmp_path}/jobs is a symbolic link to {tmp_path}/scratch, which does not exist"
    assert fix.startswith(f"mkdir -p {tmp_path}/scratch")


@pytest.mark.parametrize(
    ("said", "folder"),
    [("/x/state", "/x/state"), ("", "/home/a/.local/state"), ("rel", "/home/a/.local/state")],
)
def test_a_relative_folder_counts_as_not_set(said: str, folder: str) -> None:
    """What a shell says holds where it is absolute: else it would be another in each folder."""
    found = xdg_folder({"XDG_STATE_HOME": said}, "XDG_STATE_HOME", Path("/home/a"))
    assert found == Path(folder)


def test_the_user_is_told_without_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is that of the password database, whatever USER and LOGNAME say."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    known = getpass.getuser()
    monkeypatch.setenv("USER", "somebody-else")
    assert user_name() == known


def test_the_pip_is_that_of_this_python() -> None:
    """Not the first in PATH, which may belong to another; what a shell would read is quoted."""
    assert pip_line("a>=1,<2").endswith(" -m pip install 'a>=1,<2'")
    assert pip_line("a").startswith(sys.executable)
