"""Host lists in Slurm's form."""

from __future__ import annotations

import pytest
from ClusterShell.NodeSet import expand
from hypothesis import given
from hypothesis import strategies as st

from hpckit.model.hostlist import expand_hosts, fold_hosts, natural_order


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["c1", "c2", "c3"], "c[1-3]"),
        (["c10", "c2", "c1"], "c[1-2,10]"),
        ([f"c{at}" for at in range(12)], "c[0-11]"),
        (["login"], "login"),
        (["c7"], "c7"),
        (["n08", "n09", "n10"], "n[08-10]"),
        (["c1.x", "c2.x", "c3"], "c1.x,c2.x,c3"),
        (["a-1-b", "a-2-b"], "a-1-b,a-2-b"),
        (["gpu1-ib", "gpu2"], "gpu1-ib,gpu2"),
        (["n9", "n10", "n09", "n"], "n,n[09-10],n9"),
        ([], ""),
    ],
)
def test_names_that_differ_in_their_last_number_are_folded(names: list[str], folded: str) -> None:
    """A run of numbers becomes a range; what differs elsewhere stands apart."""
    assert fold_hosts(names) == folded


@given(st.sets(st.from_regex(r"[a-z]{1,3}(-?[0-9]{1,4})?", fullmatch=True), min_size=1))
def test_another_reader_of_host_lists_expands_them_alike(names: set[str]) -> None:
    """What is folded here is read by ClusterShell, and here, as the same names."""
    folded = fold_hosts(names)
    assert set(expand(folded)) == set(expand_hosts(folded)) == names


def test_numbers_sort_by_value() -> None:
    """`c2` comes before `c10`."""
    assert sorted(["c10", "c2"], key=natural_order) == ["c2", "c10"]


def test_names_with_numbers_of_any_length() -> None:
    """Names are ordered by their numbers, however long these are."""
    long = "e" + "9" * 5000
    assert sorted(["e10", long, "e9", "e"], key=natural_order) == ["e", "e9", "e10", long]
