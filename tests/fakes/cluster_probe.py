"""A cluster that is what a test says it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hpckit.fabric.ask import FabricProbe
from hpckit.fabric.topology import ClusterTopology
from hpckit.slurm.values import ClusterView, NodesInService


class FakeClusterProbe(FabricProbe):
    """Gives `remembered`, and `present` when it is asked for the present; raises either."""

    def __init__(
        self,
        remembered: ClusterView | Exception,
        present: ClusterView | None = None,
        topologies: Sequence[ClusterTopology] | Exception = (),
        in_service: Mapping[str, NodesInService] | None = None,
        *,
        pyxis: bool | None = None,
    ) -> None:
        self._pyxis = pyxis
        self._remembered = remembered
        self._present = present or remembered
        self._topologies = topologies
        self._in_service = in_service or {}
        self.asked: list[tuple[str | None, bool]] = []

    def look(
        self, cluster: str | None, *, fresh: bool = False, needs_partitions: bool = True
    ) -> ClusterView:
        """What the test said."""
        self.asked.append((cluster, fresh))
        answer = self._present if fresh else self._remembered
        if isinstance(answer, Exception):
            raise answer
        return answer

    def has_pyxis(self) -> bool | None:
        """What the test said; it did not ask unless it did."""
        return self._pyxis

    def in_service(self, cluster: str | None) -> Mapping[str, NodesInService]:
        """The nodes that the test said; none unless it did."""
        return self._in_service

    def topologies(self, cluster: str | None, *, fresh: bool = False) -> Sequence[ClusterTopology]:
        """The network that the test said; none unless it did."""
        self.asked.append((cluster, fresh))
        if isinstance(self._topologies, Exception):
            raise self._topologies
        return self._topologies
