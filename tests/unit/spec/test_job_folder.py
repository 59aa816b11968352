"""Job folders are private, and each file of them is whole or absent."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hpckit.core.errors import StorageFailed
from hpckit.jobs.draft import PackedJobFolders
from hpckit.spec.folder_in_job import (
    account_folder,
    array_task_of,
    ledger_file,
    node_of,
    node_of_topology,
    rank_of,
    restart_of,
    samples_file,
    topology_file,
)

FOLDERS = PackedJobFolders()


def test_a_new_folder_is_its_owners_alone(tmp_path: Path) -> None:
    """The folder, its logs and its files can be read by the owner and nobody else."""
    folder = FOLDERS.create(tmp_path / "root", "job")
    FOLDERS.write(folder, "a.json", "{}")
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}
    assert modes == {"job": 0o700, "logs": 0o700, "a.json": 0o600}


def test_a_folder_that_exists_is_not_used_again(tmp_path: Path) -> None:
    """A second folder of the same name is refused with a hint to job_root."""
    FOLDERS.create(tmp_path, "job")
    with pytest.raises(StorageFailed, match="job: File exists") as raised:
        FOLDERS.create(tmp_path, "job")
    assert "job_root" in str(raised.value.hint)


def test_text_is_written_as_it_is(tmp_path: Path) -> None:
    """Line ends and characters of every kind come back unchanged, in place of what was there."""
    FOLDERS.write(tmp_path, "a", "old")
    FOLDERS.write(tmp_path, "a", "ü\r\n\u2028x")
    assert (tmp_path / "a").read_bytes() == "ü\r\n\u2028x".encode()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".a")] == []


def calls_of_a_write(folder: Path, name: str) -> list[str]:
    """The calls that concern the disk while a file is written, in their order."""
    calls: list[str] = []

    def note(_frame: object, event: str, function: object) -> None:
        called = getattr(function, "__name__", "")
        if event == "c_call" and called in ("fsync", "replace", "rename"):
            calls.append(called)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        FOLDERS.write(folder, name, "{}")
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("name", ["intent.json", "submitted.json"])
def test_what_finds_a_job_again_is_on_disk_before_it_has_its_name(
    tmp_path: Path, name: str
) -> None:
    """A crash of the machine leaves such a file whole or absent, never empty."""
    assert calls_of_a_write(tmp_path, name) == ["fsync", "replace"]


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """A write onto a folder is refused, and the temporary file is gone."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(StorageFailed, match="a cannot be written"):
        FOLDERS.write(tmp_path, "a", "text")
    with pytest.raises(StorageFailed, match="cannot be written"):
        FOLDERS.write(tmp_path / "gone", "a", "text")
    assert not list(tmp_path.glob(".a*"))


@pytest.mark.parametrize("text", ["", "{", "[1]", "7", "[" * 100_000])
def test_a_document_that_is_no_json_object_is_damaged(tmp_path: Path, text: str) -> None:
    """Cut-off JSON, JSON of another shape and absurd nesting are one refusal with the path."""
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(StorageFailed, match=r"a\.json is damaged"):
        FOLDERS.read_json(tmp_path, "a.json")


def test_a_document_without_its_keys_is_damaged(tmp_path: Path) -> None:
    """A key that a reader needs and that is not there is told by its name."""
    (tmp_path / "a.json").write_text('{"x": 1}')
    assert FOLDERS.read_json(tmp_path, "a.json", "x") == {"x": 1}
    with pytest.raises(StorageFailed, match="is damaged: y is missing"):
        FOLDERS.read_json(tmp_path, "a.json", "x", "y")


def test_a_file_that_is_no_text_cannot_be_read(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 and a file that is not there are refused with the path."""
    (tmp_path / "a.json").write_bytes(b"\xff")
    for name in ("a.json", "gone.json"):
        with pytest.raises(StorageFailed, match=f"{name} cannot be read"):
            FOLDERS.read_json(tmp_path, name)


def test_the_rank_entry_needs_a_folder(tmp_path: Path) -> None:
    """The rank entry is packed into the folder, and refused where there is none."""
    FOLDERS.pack_agent(tmp_path)
    assert (tmp_path / "hpckit-injob.pyz").is_file()
    with pytest.raises(StorageFailed, match=r"hpckit-injob\.pyz cannot be written"):
        FOLDERS.pack_agent(tmp_path / "gone")


def test_a_probe_leaves_nothing(tmp_path: Path) -> None:
    """Whether folders can be made is found out without making any that stays."""
    FOLDERS.probe(tmp_path / "a" / "b")
    FOLDERS.probe(tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == []


def test_a_root_that_is_a_dead_link_is_named(tmp_path: Path) -> None:
    """Neither a probe nor a new folder says that there is a file."""
    (tmp_path / "jobs").symlink_to(tmp_path / "scratch")
    with pytest.raises(
        StorageFailed, match=r"is a symbolic link to .*scratch, which does not exist"
    ):
        PackedJobFolders().probe(tmp_path / "jobs")
    with pytest.raises(
        StorageFailed, match=r"is a symbolic link to .*scratch, which does not exist"
    ):
        PackedJobFolders().create(tmp_path / "jobs", "one")


def test_a_scan_passes_over_what_is_not_this_users(tmp_path: Path) -> None:
    """A folder that cannot be entered, as another user's, and a plain file hide no other."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "intent.json").touch()
    (tmp_path / "file").touch()
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert list(FOLDERS.scan(tmp_path)) == [mine]


def test_a_scan_finds_job_folders_oldest_first(tmp_path: Path) -> None:
    """Only folders with an intent.json are jobs, in the order in which it was written."""
    root = tmp_path / "root"
    for age_s, name in ((1, "new"), (3, "old"), (2, "middle")):
        folder = FOLDERS.create(root, name)
        FOLDERS.write(folder, "intent.json", "{}")
        os.utime(folder / "intent.json", (10 - age_s, 10 - age_s))
    FOLDERS.create(root, "other")
    assert [folder.name for folder in FOLDERS.scan(root)] == ["old", "middle", "new"]
    assert FOLDERS.scan(tmp_path / "gone") == ()


def test_a_root_that_is_a_file_cannot_be_searched(tmp_path: Path) -> None:
    """A root that is no folder is refused with its path."""
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailed, match="file cannot be searched"):
        FOLDERS.scan(tmp_path / "file")


@pytest.mark.parametrize("odd", ["", "x", "-1", "٣", "1/.."])
def test_what_is_no_number_counts_as_absent(odd: str) -> None:
    """No variable of the environment leads out of the job folder."""
    assert account_folder(odd, odd) == "account/restart-0"


def test_names_are_read_back() -> None:
    """Every name gives back what it was made of."""
    found = (rank_of(ledger_file(12)), node_of(samples_file("n-1.a_b")))
    assert found == (12, "n-1.a_b")
    assert (restart_of("restart-3"), array_task_of("array-4")) == (3, 4)


def test_a_topology_is_called_after_its_node() -> None:
    """The name gives back the node; samples and topology are not taken for each other."""
    assert node_of_topology(topology_file("n-1.a_b")) == "n-1.a_b"
    assert node_of_topology(samples_file("n1")) is None
    assert node_of(topology_file("n1")) is None


def test_a_nodes_name_becomes_a_file_name() -> None:
    """What a file name should not have becomes an underscore."""
    assert samples_file("a/b é") == "node-a_b__.samples"
