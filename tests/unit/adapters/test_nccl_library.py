"""Libraries are read where they lie, within a root, in bounded time."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import psutil
import pytest

from hpckit.adapters.nccl_library import FolderLibraries, LibraryPlaces
from hpckit.adapters.squashfs_library import ImageLibraries
from hpckit.errors import ParseError, StorageFailed
from tests.fakes.command_runner import FakeCommandRunner
from tests.fakes.nccl_tree import nccl


def test_links_stay_within_the_root(tmp_path: Path) -> None:
    """A link to an absolute path, and one that leads above the root, lead into it."""
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "usr/lib/a").write_text("inside")
    (tmp_path / "lib").symlink_to("/usr/lib")
    (tmp_path / "usr/lib/b").symlink_to("../../../../usr/lib/a")
    (tmp_path / "usr/lib/passwd").symlink_to("/etc/passwd")
    files = FolderLibraries(tmp_path)
    assert files.real("/lib/b") == "/usr/lib/a"
    assert files.real("/../../lib/./a") == "/usr/lib/a"
    assert files.data("/lib/a", 10) == b"inside"
    assert files.real("/lib/passwd") is None
    assert files.data("/lib/passwd", 10) is None
    assert files.names("/lib") == ("a", "b", "passwd")
    assert files.names("/lib/a") == files.names("/gone") == ()


def test_this_machine_is_a_root_too() -> None:
    """Its paths are what they are."""
    assert FolderLibraries(Path("/")).real("/proc/self/..") == "/proc"


def test_a_circle_of_links_is_refused(tmp_path: Path) -> None:
    """After as many links as the kernel would follow."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(StorageFailed, match="Too many levels of symbolic links"):
        FolderLibraries(tmp_path).real("/a")


def test_nothing_has_a_name_that_is_too_long(tmp_path: Path) -> None:
    """As for the loader, which looks on in the next folder."""
    assert FolderLibraries(tmp_path).real(f"/{'a' * 5000}/libnccl.so.2") is None


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    """A configuration of a MiB is none."""
    (tmp_path / "a").write_bytes(bytes(11))
    with pytest.raises(StorageFailed, match="it is over 10 bytes"):
        FolderLibraries(tmp_path).data("/a", 10)


def test_what_is_no_library_is_parse_error(tmp_path: Path) -> None:
    """A text in a library's place is one thing, none at all another."""
    (tmp_path / "a").write_text("text")
    with pytest.raises(ParseError):
        FolderLibraries(tmp_path).library("/a")
    with pytest.raises(StorageFailed, match="No such file"):
        FolderLibraries(tmp_path).library("/b")


def test_a_library_costs_a_few_reads_and_no_descriptor(tmp_path: Path) -> None:
    """However large it is, and however often it is read."""
    path = nccl(tmp_path, "2.27.3")
    with path.open("ab") as file:
        file.truncate(2**35)
    files = FolderLibraries(tmp_path)
    before = psutil.Process().num_fds()
    for _ in range(20):
        assert files.library("/libnccl.so.2").soname == "libnccl.so.2"
        build = files.strings("/libnccl.so.2").build
        assert build is not None
        assert str(build.version) == "2.27.3"
    assert psutil.Process().num_fds() < before + 20


class HangingLibraries(FolderLibraries):
    """A file system on which a folder never answers, until the test lets it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, limit_s=0.1)
        self.asked = 0
        self.let_go = threading.Event()

    def _names(self, folder: str) -> tuple[str, ...]:
        self.asked += 1
        self.let_go.wait(60)
        return ()


def test_a_file_system_that_hangs_is_left_behind(tmp_path: Path) -> None:
    """Each of a few questions takes its limit; no more is asked after these, which is said once."""
    files = HangingLibraries(tmp_path)
    began_s = time.monotonic()
    said = []
    for at in range(20):
        with pytest.raises(StorageFailed) as caught:
            files.names(f"/dead/{at}")
        said.append(str(caught.value))
    files.let_go.set()
    assert files.asked == 3
    assert time.monotonic() - began_s < 5
    assert said[:3] == [f"/dead/{at} gave no answer within 0.1 s" for at in range(3)]
    assert set(said[3:]) == {"nothing more was looked at: /dead/0 gave no answer"}


def test_many_slow_answers_are_bounded_together(tmp_path: Path) -> None:
    """Each comes in time, and a thousand of them would take an hour."""
    files = FolderLibraries(tmp_path, all_limit_s=0)
    assert files.names("/gone") == ()
    for path in ("/a", "/b"):
        with pytest.raises(StorageFailed, match=r"^nothing more was looked at: 0 s were spent$"):
            files.real(path)


def test_an_image_is_unpacked_in_bounded_time(tmp_path: Path) -> None:
    """However many files are asked for, and however slow each is."""
    parts = (Path("/x.sif"), 0, FakeCommandRunner({}), FolderLibraries(tmp_path), tmp_path)
    files = ImageLibraries(*parts, all_limit_s=0)
    with pytest.raises(StorageFailed, match=r"nothing more of /x\.sif was read"):
        files.names("/")


def test_a_container_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """It says what it was to be."""
    tools = LibraryPlaces(FakeCommandRunner({}))
    with (
        pytest.raises(StorageFailed, match="a container's folder or image"),
        tools.opened(str(tmp_path / "gone")),
    ):
        pass
