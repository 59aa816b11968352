"""scontrol show partitions: which topology of several a partition uses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from hpckit.model.fabric import ClusterTopology
from hpckit.parse.slurm_text import Place

_TOOL: Final = "scontrol show partitions"
_PARTITION: Final = re.compile(r"PartitionName=(\S+) .*")
_TOPOLOGY: Final = re.compile(r" Topology=(\S+)")


def scontrol_partitions_argv(cluster: str | None) -> tuple[str, ...]:
    """The question, one line a partition. Source: scontrol(1), "show partition", "--oneliner"."""
    clusters = () if cluster is None else (f"--clusters={cluster}",)
    return ("scontrol", "--oneliner", *clusters, "show", "partitions")


def parse_partition_topologies(text: str) -> Mapping[str, str | None]:
    """The topology of each partition by name, None for the cluster's default (25.05 and later).

    Raises ParseError for a line that is no partition.
    """
    found: dict[str, str | None] = {}
    for line_no, line in enumerate(text.split("\n"), start=1):
        match = _PARTITION.fullmatch(line.rstrip())
        if match is not None:
            topology = _TOPOLOGY.search(line)
            found[match[1]] = topology[1] if topology else None
        elif line.strip() and line.strip() != "No partitions in the system":
            raise Place(_TOOL, line_no, line).refuse("is no partition", "PartitionName=… …")
    return found


def used_by_partitions(
    topologies: Sequence[ClusterTopology], used: Mapping[str, str | None]
) -> tuple[ClusterTopology, ...]:
    """The topologies, each with the partitions that use it; a name that is not there changes none.

    `used` is what `parse_partition_topologies` gives.
    """
    return tuple(
        replace(
            one,
            partitions=tuple(
                partition
                for partition, name in used.items()
                if (one.is_default if name is None else name == one.name)
            ),
        )
        for one in topologies
    )
