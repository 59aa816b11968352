"""Which topology a partition uses."""

from __future__ import annotations

import pytest

from hpckit.core.errors import ParseError
from hpckit.fabric.slurm_files import parse_topology_yaml
from hpckit.fabric.slurm_live import (
    parse_partition_topologies,
    scontrol_partitions_argv,
    used_by_partitions,
)
from tests.fakes.slurm_records import RECORDS, record_text

CASE = ("scontrol-partitions-26.05.5", "three-topologies")


def test_the_question() -> None:
    """One line a partition, of the cluster that is named."""
    assert scontrol_partitions_argv(None) == ("scontrol", "--oneliner", "show", "partitions")
    assert "--clusters=north" in scontrol_partitions_argv("north")


def test_partitions_of_three_topologies() -> None:
    """A partition that names none uses the default."""
    used = parse_partition_topologies(record_text(*CASE))
    assert used == {"main": None, "nvl": "racks", "any": "plain"}
    text = (RECORDS / CASE[0] / CASE[1] / "topology.yaml").read_text()
    found = used_by_partitions(parse_topology_yaml(text, "topology.yaml"), used)
    assert {one.name: one.partitions for one in found} == {
        "wide": ("main",), "racks": ("nvl",), "plain": ("any",),
    }  # fmt: skip


def test_releases_without_it() -> None:
    """Before 25.05 no partition has a topology of its own."""
    assert parse_partition_topologies("PartitionName=main AllowGroups=ALL\n") == {"main": None}
    assert parse_partition_topologies("No partitions in the system\n") == {}


def test_what_is_not_understood_is_an_error() -> None:
    """The error names the line."""
    with pytest.raises(ParseError, match="is no partition") as caught:
        parse_partition_topologies("PartitionName=main AllowGroups=ALL\n   DefaultTime=NONE\n")
    assert caught.value.line_no == 2
