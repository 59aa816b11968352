"""Accounts on a file system: what is found there, and what is not followed or read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hpckit.account.store import FileSampleStore
from hpckit.core.errors import StorageFailed
from tests.fakes.account_files import MadeJob, write_accounts


def laid(folder: Path, *names: str) -> Path:
    """A folder with empty files of these names."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return folder


def test_incarnations_are_found_in_their_order(tmp_path: Path) -> None:
    """Restarts come by number, ranks by number, nodes by name; other files are nobody's."""
    laid(
        tmp_path / "account",
        "restart-10/rank-0.ledger",
        "restart-2/rank-10.ledger",
        "restart-2/rank-9.ledger",
        "restart-2/node-n1.samples",
        "restart-2/node-n1.topology.json",
        "restart-2/notes.txt",
        "restart-x/rank-0.ledger",
    )
    found = FileSampleStore().find(tmp_path)
    assert [one.restart for one in found.incarnations] == [2, 10]
    assert [path.name for path in found.incarnations[0].ledgers] == [
        "rank-9.ledger",
        "rank-10.ledger",
    ]
    assert [path.name for path in found.incarnations[0].samples] == ["node-n1.samples"]
    assert [path.name for path in found.incarnations[0].topologies] == ["node-n1.topology.json"]
    assert found.missing == ()


@pytest.mark.parametrize("below", ["", "account", "account/restart-0"])
def test_any_folder_of_accounts_can_be_named(tmp_path: Path, below: str) -> None:
    """The job folder, its account/ and the folder of one incarnation lead to the same files."""
    write_accounts(tmp_path, MadeJob(gpus=2, duration_s=2))
    (found,) = FileSampleStore().find(tmp_path / below).incarnations
    assert found.restart == (None if below.endswith("restart-0") else 0)
    assert (len(found.ledgers), len(found.samples)) == (2, 1)


def test_a_task_of_an_array_has_its_own(tmp_path: Path) -> None:
    """Without a task nothing of an array's tasks is taken, and they are named."""
    laid(tmp_path / "account", "array-3/restart-0/rank-0.ledger", "array-7/restart-0/x")
    store = FileSampleStore()
    assert store.find(tmp_path).incarnations == ()
    assert store.find(tmp_path).array_tasks == (3, 7)
    assert len(store.find(tmp_path, 3).incarnations) == 1
    assert store.find(tmp_path, 5).incarnations == ()


def test_a_link_in_the_place_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    """Links and files under the name of an incarnation are named, and nothing in them is read."""
    laid(tmp_path / "account", "restart-0/rank-0.ledger", "restart-2")
    (tmp_path / "account" / "restart-1").symlink_to("/")
    found = FileSampleStore().find(tmp_path)
    assert [one.restart for one in found.incarnations] == [0]
    assert found.missing == tuple(
        f"account/restart-{restart} is ignored: not a folder" for restart in (1, 2)
    )


@pytest.mark.parametrize("what", ["link", "fifo", "folder", "absent"])
def test_what_took_a_files_place_is_refused(tmp_path: Path, what: str) -> None:
    """A file that was replaced since it was found is a StorageFailed, for all readers."""
    path = tmp_path / "node-n1.samples"
    if what == "link":
        path.symlink_to("/dev/zero")
    elif what == "fifo":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    store = FileSampleStore()
    for read in (store.text, store.ends, lambda one: list(store.samples(one))):
        with pytest.raises(StorageFailed, match=r"node-n1\.samples cannot be read"):
            read(path)
