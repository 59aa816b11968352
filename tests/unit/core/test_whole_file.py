"""Files that a user asked for: whole, or as they were."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpckit.core.errors import StorageFailed
from hpckit.core.files import whole_file


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


def test_a_link_into_a_folder_that_is_not_there_names_that_folder(tmp_path: Path) -> None:
    """The folder to be made is not the link's own, which is there."""
    (tmp_path / "link").symlink_to(tmp_path / "missing" / "a")
    with pytest.raises(StorageFailed) as caught, whole_file(tmp_path / "link"):
        pass
    assert f"mkdir -p {tmp_path / 'missing'} first" in (caught.value.hint or "")


def test_a_link_is_followed(tmp_path: Path) -> None:
    """The file behind it is new, and the link is still one; also where it was none before."""
    (tmp_path / "to").mkdir()
    for name in ("there", "not-yet"):
        link, target = tmp_path / name, tmp_path / "to" / name
        link.symlink_to(target)
        if name == "there":
            target.write_text("old")
        with whole_file(link) as file:
            file.write(b"new")
        assert link.is_symlink()
        assert target.read_text() == "new"
        assert not target.is_symlink()


def test_a_fifo_is_written_to_and_stays(tmp_path: Path) -> None:
    """Nothing takes the place of what is no regular file."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with whole_file(path) as file:
        file.write(b"new")
    assert os.read(reader, 10) == b"new"
    os.close(reader)
    assert path.is_fifo()
    assert [one.name for one in tmp_path.iterdir() if not one.is_dir()] == ["fifo"]


def test_a_fifo_that_nobody_reads_is_refused(tmp_path: Path) -> None:
    """It is not waited for."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with pytest.raises(StorageFailed, match="cannot be written"), whole_file(path):
        pass


def test_a_device_stays_one(tmp_path: Path) -> None:
    """/dev/null takes what is written, through a link here."""
    path = tmp_path / "null"
    path.symlink_to("/dev/null")
    with whole_file(path) as file:
        file.write(b"new")
    assert path.is_char_device()


def test_what_is_appended_to_keeps_what_it_has(tmp_path: Path) -> None:
    """/dev/stdout after `>> FILE` is that file, which no other takes the place of."""
    path = tmp_path / "all"
    path.write_bytes(b"old ")
    code = "import sys; from pathlib import Path; from hpckit.core.files import whole_file"
    code += "\nwith whole_file(Path('/dev/stdout')) as file: file.write(b'new ')\nprint('end')"
    with path.open("ab") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, timeout=60, check=True)
    assert path.read_bytes() == b"old new end\n"


def test_a_folder_is_refused(tmp_path: Path) -> None:
    """The error has the reason."""
    with pytest.raises(StorageFailed, match="Is a directory"), whole_file(tmp_path):
        pass


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    """The name of the file beside it is not longer."""
    path = tmp_path / ("a" * 255)
    with whole_file(path) as file:
        file.write(b"new")
    assert path.read_text() == "new"


@pytest.mark.parametrize(
    ("target", "name", "said"),
    [
        ("link", "link", "link is a symbolic link to itself"),
        ("link", "link/file", "link is a symbolic link to itself"),
        ("gone", "link/file", "gone, which does not exist"),
    ],
)
def test_a_link_that_leads_nowhere_is_named(
    tmp_path: Path, target: str, name: str, said: str
) -> None:
    """Such a link is said, and what makes it a way again."""
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(StorageFailed) as caught, whole_file(tmp_path / name):
        pass
    assert said in caught.value.message
    assert f"rm {tmp_path / 'link'}" in (caught.value.hint or "")
