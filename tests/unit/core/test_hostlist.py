"""Host lists in Slurm's form."""

from __future__ import annotations

import pytest
from ClusterShell.NodeSet import NodeSet
from hypothesis import given
from hypothesis import strategies as st

from hpckit.core.hostlist import HostListError, expand_hosts, fold_hosts, natural_order


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
    assert set(NodeSet(folded)) == set(expand_hosts(folded)) == names


def test_no_range_is_longer_than_slurm_reads() -> None:
    """A run of more than 65,536 hosts is folded to several ranges (hostlist.c, MAX_RANGE)."""
    names = [f"n{at:05d}" for at in range(70_000)]
    assert fold_hosts(names) == "n[00000-65535,65536-69999]"
    assert list(expand_hosts(fold_hosts(names))) == names


def test_names_with_numbers_of_any_length() -> None:
    """Names are ordered by their numbers, however long these are."""
    long = "e" + "9" * 5000
    assert sorted(["e10", long, "e9", "e"], key=natural_order) == ["e", "e9", "e10", long]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("c[1-3,7],d1", ["c1", "c2", "c3", "c7", "d1"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("c[8-10,011]", ["c8", "c9", "c10", "c011"]),
        ("c[1-2]n[1-2]", ["c1n1", "c1n2", "c2n1", "c2n2"]),
        ("c[1-2]-ib0", ["c1-ib0", "c2-ib0"]),
        ("c2,,c1 c2", ["c2", "c1", "c2"]),
    ],
)
def test_a_list_gives_the_names_that_scontrol_gives(text: str, names: list[str]) -> None:
    """`scontrol show hostnames` prints these, in this order."""
    assert list(expand_hosts(text)) == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("c[3-1]", "3-1 in 'c[3-1]' is not a valid range (3 to 1), expected a range that goes up"),
        ("c[1-4", "unmatched bracket in '[1-4', expected a list such as"),
        ("c1]", "unmatched bracket in ']'"),
        ("c[]", "'' in 'c[]' is not a range of numbers, expected numbers in brackets"),
        ("c[1-]", "'1-' in"),
        ("c[0-8/2]", "'0-8/2' in 'c[0-8/2]' is not a range"),
        ("c[a-c]", "'a-c' in"),
        ("c[0-65536]", "to 65536"),
        ("a[1-2000]b[1-2000]", "more than 1,000,000 names"),
    ],
)
def test_what_scontrol_refuses_is_refused(text: str, message: str) -> None:
    """The error says what was got, and what was expected in its place."""
    with pytest.raises(HostListError) as refused:
        expand_hosts(text)
    assert message in str(refused.value)


_NUMBERS = st.integers(0, 120)
_RANGES = st.tuples(_NUMBERS, st.integers(0, 5), st.sampled_from([1, 3])).map(
    lambda it: f"{it[0]:0{it[2]}d}-{it[0] + it[1]:0{it[2]}d}"
)
_BRACKETS = st.lists(_RANGES, min_size=1, max_size=3).map(lambda ranges: f"[{','.join(ranges)}]")
_NAMES = st.tuples(
    st.sampled_from(["c", "gpu-a"]),
    _BRACKETS,
    st.sampled_from(["n", "-ib"]),
    _BRACKETS | st.just(""),
).map("".join)


@given(st.lists(_NAMES, min_size=1, max_size=3).map(",".join))
def test_clustershell_reads_the_same_names(text: str) -> None:
    """NodeSet, an implementation of its own, has the same set of names."""
    assert set(expand_hosts(text)) == set(NodeSet(text))


@given(st.text("abc[]-,019", max_size=30))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    """No text gives another error than HostListError."""
    try:
        expand_hosts(text)
    except HostListError:
        return
