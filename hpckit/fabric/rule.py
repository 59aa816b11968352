"""What the rules about a fabric see."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hpckit.core.hostlist import fold_hosts, natural_order
from hpckit.core.units import and_more, counted
from hpckit.fabric.levels import Bundle, Kinds, bundles, switch_kinds
from hpckit.fabric.rails import Absent, RailGrid, RailPeers, absent_leaves, components, with_grid
from hpckit.fabric.topology import NODE_ENDS, ClusterTopology, EndKind, HostPort

_MOST_LISTED: Final = 32
_MOST_NODES: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricView:
    """A fabric with its rails, and what is regular in it.

    `kinds` are those of each switch, `ends` the ports on it, `parts` the switches that reach each
    other, `lacking` the columns of NICs that nodes lack.
    """

    topology: ClusterTopology
    grid: RailGrid
    kinds: Mapping[str, Kinds]
    bundles: Sequence[Bundle]
    parts: Sequence[tuple[str, ...]]
    absent: Sequence[Absent]
    lacking: Mapping[str, frozenset[int]]
    ends: Mapping[str, Sequence[HostPort]]
    slurm_nodes: Sequence[str] | None = None

    def anonymous(self, leaf: str) -> int:
        """How many ports on a leaf do not say whose they are."""
        return sum(port.kind is EndKind.ANONYMOUS for port in self.ends.get(leaf, ()))

    @property
    def leaves(self) -> list[str]:
        """The switches where nodes hang, or would."""
        return [
            switch.name
            for switch in self.topology.switches
            if switch.level == 0
            or (
                switch.level is None
                and any(port.kind in NODE_ENDS for port in self.ends.get(switch.name, ()))
            )
        ]


def fabric_view(topology: ClusterTopology, slurm_nodes: Sequence[str] | None = None) -> FabricView:
    """What the rules see of a fabric."""
    known, grid = with_grid(topology)
    ends: defaultdict[str, list[HostPort]] = defaultdict(list)
    for port in known.ports:
        ends[port.switch].append(port)
    kinds = switch_kinds(known, grid)
    return FabricView(
        topology=known,
        grid=grid,
        kinds=kinds,
        bundles=bundles(known, kinds),
        parts=components(known),
        absent=absent_leaves(grid),
        lacking=RailPeers(grid).lacking(),
        ends=dict(ends),
        slurm_nodes=slurm_nodes,
    )


def rail_words(view: FabricView, rail: int) -> str:
    """`rail 2 (HCA-5, mlx5_4)`."""
    nics = view.topology.rails[rail].nics if rail < len(view.topology.rails) else ()
    return f"rail {rail} ({', '.join(nics[:3])})" if nics else f"rail {rail}"


def hosts(names: Iterable[str]) -> str:
    """Host names in Slurm's form, in natural order."""
    listed = sorted(set(names), key=natural_order)
    more = len(listed) - _MOST_NODES
    return fold_hosts(listed[:_MOST_NODES]) + (f" and {more} more" if more > 0 else "")


def listed(parts: Sequence[str]) -> str:
    """Parts of a sentence; of many the rest are counted."""
    return and_more(parts, _MOST_LISTED)


def are(count: int, noun: str) -> str:
    """`1 cable is`, `2 cables are`."""
    return f"{counted(count, noun)} {'is' if count == 1 else 'are'}"


def switches(count: int) -> str:
    """`1 switch`, `2 switches`."""
    return "1 switch" if count == 1 else f"{count} switches"
