"""The answer of sinfo."""

from __future__ import annotations

import pytest

from hpckit.core.errors import ParseError
from hpckit.slurm.squeue import parse_sinfo, sinfo_argv
from hpckit.slurm.text import SEPARATOR
from hpckit.slurm.values import NodeGroup, Partition
from tests.fakes.slurm_records import record_text

VERSIONS = ["sinfo-22.05.8", "sinfo-24.11.5", "sinfo-26.05.5"]
LINE = SEPARATOR.join(
    ("main*", "up", "1-00:00:00", "4", "64", "1000000", "gpu:h100:8(S:0-1)", "(null)")
)


def partition(text: str, name: str) -> Partition:
    """The one partition of that name."""
    (found,) = (p for p in parse_sinfo(text) if p.name == name)
    return found


def test_the_question() -> None:
    """One line for nodes that are alike, never one a node, and no heading."""
    argv = sinfo_argv("north")
    assert argv[0] == "sinfo"
    assert {"--noheader", "--exact", "--clusters=north"} <= set(argv)
    assert "--Node" not in argv
    assert not any("%N" in word for word in argv)
    assert not any("--clusters" in word for word in sinfo_argv(None))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_once_with_all_its_kinds_of_nodes(version: str) -> None:
    """Nodes with other features are a group of their own in the one partition."""
    text = record_text(version, "docker")
    assert [p.name for p in parse_sinfo(text)] == ["main", "debug", "empty", "inf"]
    main = partition(text, "main")
    assert (main.is_default, main.is_up, main.time_limit_s) == (True, True, 86400)
    assert {(g.nodes, g.features) for g in main.groups} == {
        (2, ()),
        (1, ("nvlink", "ib")),
        (1, ("nvlink",)),
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_what_nodes_have(version: str) -> None:
    """CPUs, memory and GPUs are a node's, the count is of nodes."""
    assert partition(record_text(version, "docker"), "debug").groups == (
        NodeGroup(nodes=2, cpus=64, mem_mib=1_000_000, gpus=8, gpu_types=("h100",)),
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_without_nodes_or_limit(version: str) -> None:
    """No nodes are no group, no limit is None; one that drains takes no jobs."""
    text = record_text(version, "docker")
    empty, drained = partition(text, "empty"), partition(text, "inf")
    assert (empty.groups, empty.time_limit_s, empty.is_default) == ((), None, False)
    assert (drained.is_up, drained.time_limit_s) == (False, None)


def test_kinds_of_generic_resources() -> None:
    """GPUs are counted whatever their type, their sockets and the resources beside them."""
    text = record_text("sinfo-24.11.5", "synthetic-kinds")
    kinds = {p.name: [(g.gpus, g.gpu_types) for g in p.groups] for p in parse_sinfo(text)}
    assert kinds == {
        "small": [(0, ()), (8, ())],
        "mixed": [(13, ("a100", "1g.10gb"))],
        "named": [(1, ("gh200",))],
        "all": [(8, ("h100",))],
    }


def test_the_least_of_several() -> None:
    """`64+` stands for several numbers, of which each node has the least."""
    group = partition(record_text("sinfo-24.11.5", "synthetic-kinds"), "small").groups[1]
    assert (group.cpus, group.mem_mib, group.features) == (64, 512_000, ("a100", "ib"))


def test_limits_and_availability() -> None:
    """No limit has three names; only `up` is up."""
    text = record_text("sinfo-24.11.5", "synthetic-kinds")
    assert {p.name: (p.is_up, p.time_limit_s) for p in parse_sinfo(text)} == {
        "small": (True, 1800),
        "mixed": (False, None),
        "named": (False, 2 * 86400),
        "all": (True, None),
    }


@pytest.mark.parametrize(("limit", "seconds"), [("0:00", 0), ("9999-00:00:00", 9999 * 86400)])
def test_a_partition_may_have_any_limit(limit: str, seconds: int) -> None:
    """What no job should ask for can still be a partition's: Slurm prints what it was told."""
    text = record_text("sinfo-24.11.5", "synthetic-kinds").replace("2-00:00:00", limit)
    assert partition(text, "named").time_limit_s == seconds


def test_a_clusters_heading_is_no_partition() -> None:
    """The heading of `-M` is understood."""
    assert len(parse_sinfo(f"CLUSTER: north\n{LINE}\n")) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("64", "many"),
        ("main*", "*"),
        ("1-00:00:00", "soon"),
        ("gpu:h100:8", "gpu:h100:fast:8"),
        (SEPARATOR, "|"),
    ],
)
def test_what_is_not_understood_is_an_error(old: str, new: str) -> None:
    """The error names the line."""
    with pytest.raises(ParseError) as caught:
        parse_sinfo(LINE + "\n" + LINE.replace(old, new))
    assert (caught.value.tool, caught.value.line_no) == ("sinfo", 2)
