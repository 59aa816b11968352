"""What a library's place promises, held by a folder and by an image of it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpckit.adapters.nccl_library import LibraryPlaces
from hpckit.adapters.process import ProcessRunner
from hpckit.errors import ParseError, StorageFailed
from hpckit.tune_ports import LibraryFiles
from tests.fakes.nccl_tree import nccl


@pytest.fixture(params=["folder", "image"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LibraryFiles]:
    """The same few files, links and folders."""
    root = tmp_path / "root"
    nccl(root / "usr/lib", "2.27.3")
    (root / "usr/lib/text [1]*").write_text("a text")
    (root / "lib").symlink_to("/usr/lib")
    (root / "usr/lib/up").symlink_to("../../../lib/libnccl.so.2")
    (root / "usr/lib/gone").symlink_to("nowhere")
    (root / "usr/lib/circle").symlink_to("circle")
    place = root
    if request.param == "image":
        if shutil.which("mksquashfs") is None or shutil.which("unsquashfs") is None:
            pytest.skip("no mksquashfs or unsquashfs here (squashfs-tools)")
        place = tmp_path / "image.sqsh"
        command = ["mksquashfs", str(root), str(place), "-quiet", "-no-progress"]
        subprocess.run(command, check=True, capture_output=True)
    with LibraryPlaces(ProcessRunner()).opened(str(place)) as opened:
        yield opened


def test_names_are_in_order_and_none_where_no_folder_is(files: LibraryFiles) -> None:
    """Links on the way are followed, a file has no names."""
    assert list(files.names("/lib")) == ["circle", "gone", "libnccl.so.2", "text [1]*", "up"]
    assert list(files.names("/nowhere")) == list(files.names("/lib/up")) == []


def test_a_path_is_told_without_links(files: LibraryFiles) -> None:
    """Absolute ones lead into the root, those that lead to nothing are nothing."""
    assert files.real("/lib/up") == "/usr/lib/libnccl.so.2"
    assert files.real("//lib/../lib/./libnccl.so.2") == "/usr/lib/libnccl.so.2"
    assert files.real("/") == "/"
    assert files.real("/lib/gone") is None
    with pytest.raises(StorageFailed):
        files.real("/lib/circle")


def test_a_file_is_read_up_to_a_limit(files: LibraryFiles) -> None:
    """One that is larger is refused, and none at all is None."""
    assert files.data("/lib/text [1]*", 6) == b"a text"
    assert files.data("/lib/gone", 6) is None
    with pytest.raises(StorageFailed):
        files.data("/lib/text [1]*", 5)
    with pytest.raises(StorageFailed):
        files.data("/lib", 5)


def test_a_library_is_told_by_the_path_that_led_to_it(files: LibraryFiles) -> None:
    """For $ORIGIN is that path's folder."""
    library = files.library("/lib/up")
    assert (library.path, library.soname) == ("/lib/up", "libnccl.so.2")
    build = files.strings("/lib/up").build
    assert build is not None
    assert str(build.version) == "2.27.3"


def test_what_is_no_library_and_what_is_not_there_are_told_apart(files: LibraryFiles) -> None:
    """ParseError for the one, StorageFailed for the other and for a folder."""
    with pytest.raises(ParseError):
        files.library("/lib/text [1]*")
    for path in ("/lib/gone", "/lib"):
        with pytest.raises(StorageFailed):
            files.strings(path)
