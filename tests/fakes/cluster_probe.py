"""A cluster that is what a test says it is."""

from __future__ import annotations

from hpckit.ports import ClusterView


class FakeClusterProbe:
    """Gives `remembered`, and `present` when it is asked for the present; raises either."""

    def __init__(
        self, remembered: ClusterView | Exception, present: ClusterView | None = None
    ) -> None:
        self._remembered = remembered
        self._present = present or remembered
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
