"""The cluster's network, asked of Slurm and remembered for an hour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from hpckit.core.errors import ToolFailed
from hpckit.slurm.ask import SlurmCli, SlurmProbe
from hpckit.slurm.values import SlurmVersion

if TYPE_CHECKING:
    from hpckit.fabric.topology import ClusterTopology

_TOPOCONF_SINCE: Final = SlurmVersion(25, 5)


class FabricProbe(SlurmProbe):
    """Asks Slurm about the cluster and its network, each at most once an hour."""

    def topologies(self, cluster: str | None, *, fresh: bool = False) -> Sequence[ClusterTopology]:
        """Return the cluster's network as Slurm has it; `fresh` asks in any case.

        Nothing where Slurm has none. Raises SchedulerUnreachable, ToolFailed, ToolMissing,
        ParseError.
        """
        # Few submissions look at the network: what reads it is loaded for those.
        from hpckit.fabric.topology import KnownTopologies

        known = None if fresh else self.remembered(cluster, "topology", KnownTopologies)
        if known is not None:
            return known.topologies
        version = self.look(cluster, needs_partitions=False).config.version
        topologies = tuple(topologies_of(self._slurm, cluster, version))
        answer = KnownTopologies(topologies=topologies, seen_s=self._clock.now_s())
        self.remember(cluster, "topology", answer)
        return topologies


def topologies_of(
    slurm: SlurmCli, cluster: str | None, version: SlurmVersion | None
) -> Sequence[ClusterTopology]:
    """Return the switches or blocks of the cluster, of each topology where it has several.

    Nothing where Slurm knows none, as with topology/flat. Raises as `SlurmCli.ask` does.
    """
    from hpckit.fabric.slurm_files import parse_topoconf
    from hpckit.fabric.slurm_live import (
        parse_partition_topologies,
        parse_scontrol_topology,
        scontrol_argv,
        used_by_partitions,
    )

    if version is not None and version >= _TOPOCONF_SINCE:
        try:
            text = slurm.ask(scontrol_argv("topoconf", cluster)).stdout
        except ToolFailed:
            text = ""
        topologies = parse_topoconf(text) if text.strip() else ()
        if len(topologies) > 1:
            partitions = slurm.ask(scontrol_argv("partitions", cluster)).stdout
            return used_by_partitions(topologies, parse_partition_topologies(partitions))
        if topologies:
            return topologies
    return parse_scontrol_topology(slurm.ask(scontrol_argv("topology", cluster)).stdout)
