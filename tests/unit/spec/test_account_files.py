"""The names of folders and files of an account."""

from __future__ import annotations

import pytest

from hpckit.spec.folder import (
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


def test_each_incarnation_has_its_own_folder() -> None:
    """A requeued task of an array lies apart from its first run and from other tasks."""
    assert account_folder("2", "7") == "account/array-7/restart-2"


@pytest.mark.parametrize("odd", ["", "x", "-1", "٣", "1/.."])
def test_what_is_no_number_counts_as_absent(odd: str) -> None:
    """No variable of the environment leads out of the job folder."""
    assert account_folder(odd, odd) == "account/restart-0"


def test_names_are_read_back() -> None:
    """Every name gives back what it was made of."""
    found = (rank_of(ledger_file(12)), node_of(samples_file("n-1.a_b")))
    assert found == (12, "n-1.a_b")
    assert (restart_of("restart-3"), array_task_of("array-4")) == (3, 4)


@pytest.mark.parametrize("name", ["rank-.ledger", "rank-1.ledger~", "rank-٣.ledger", "rank-1"])
def test_other_files_are_no_ledger(name: str) -> None:
    """What is not called as a ledger is none."""
    assert rank_of(name) is None


def test_a_topology_is_called_after_its_node() -> None:
    """The name gives back the node; samples and topology are not taken for each other."""
    assert node_of_topology(topology_file("n-1.a_b")) == "n-1.a_b"
    assert node_of_topology(samples_file("n1")) is None
    assert node_of(topology_file("n1")) is None


def test_a_nodes_name_becomes_a_file_name() -> None:
    """What a file name should not have becomes an underscore."""
    assert samples_file("a/b é") == "node-a_b__.samples"


@pytest.mark.parametrize("name", ["node-.samples", "node-a b.samples", "node-é.samples", "n1"])
def test_other_files_are_no_samples(name: str) -> None:
    """What is not called as a node's samples is none."""
    assert node_of(name) is None
