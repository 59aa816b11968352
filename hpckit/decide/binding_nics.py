"""Which NIC each rank has: the assignment of least path cost, rails in order where costs tie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from hpckit.decide.finding_rule import CLOSE, gpu_cells
from hpckit.decide.least_cost import assign
from hpckit.decide.nic_nearness import nic_kinds
from hpckit.decide.pci_tree import PciTree
from hpckit.model.hardware import Gpu, Nic, NicRole, NodeTopology
from hpckit.model.hostlist import natural_order
from hpckit.model.nic_kind import NicKind
from hpckit.model.nic_state import is_down
from hpckit.model.path import PathKind

_COST: Final = MappingProxyType(
    {
        **dict.fromkeys((PathKind.SELF, PathKind.C2C, PathKind.PIX), 1),
        PathKind.PXB: 2,
        PathKind.PHB: 4,
        PathKind.NODE: 8,
        PathKind.SYS: 16,
    }
)
"""A path is as bad as two of the next better kind, so that crossing sockets is avoided first."""
_UNKNOWN_COST: Final = 32
_MOST_NAMED: Final = 4

Kind = PathKind | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenNic:
    """A NIC of a GPU or rank, the path to it where that is known, and how many others have it."""

    nic: Nic
    kind: Kind
    others: int = 0


class Nics:
    """The NICs that ranks may have, in the order of rails, and those that none may."""

    def __init__(self, node: NodeTopology) -> None:
        self._node = node
        self._tree = PciTree(node.pci)
        ordered = sorted(node.nics, key=lambda nic: (natural_order(nic.name), nic.index))
        is_known = any(nic.role is NicRole.COMPUTE for nic in ordered)
        wanted = NicRole.COMPUTE if is_known else None
        self._refused = [
            (nic, why) for nic in ordered if (why := _why_not(nic, wanted)) is not None
        ]
        refused = {nic.index for nic, _ in self._refused}
        self.usable = tuple(nic for nic in ordered if nic.index not in refused)
        self.is_role_known = is_known

    def notes(self) -> list[str]:
        """What was refused, and that roles are not known."""
        told = [f"{nic.name} ({why})" for nic, why in self._refused if nic.kind in _FOR_DATA]
        found = []
        if told:
            more = len(told) - _MOST_NAMED
            named = ", ".join(told[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
            found.append(f"NICs that no rank gets: {named}")
        if self.usable and not self.is_role_known:
            found.append("what the NICs are for is not known: all that are up may be given")
        return found

    def for_gpus(self, gpus: Sequence[Gpu]) -> list[list[GivenNic]]:
        """The NICs of each GPU: one, and what else hangs from the same switch and nobody has."""
        kinds = nic_kinds(gpu_cells(self._node), gpus, self.usable)

        def kind(at: int, nic: Nic) -> Kind:
            told = kinds.get(gpus[at].index, {}).get(nic.index)
            return told or self._by_numa(self._numa_of_gpu(gpus[at]), nic)

        return self._given(len(gpus), kind)

    def for_ranks(self, numa_of_ranks: Sequence[Sequence[int]]) -> list[list[GivenNic]]:
        """The NIC of each rank without GPUs, by the NUMA nodes of its CPUs."""
        return self._given(
            len(numa_of_ranks), lambda at, nic: self._by_numa(numa_of_ranks[at], nic)
        )

    def _numa_of_gpu(self, gpu: Gpu) -> tuple[int, ...]:
        numa = gpu.numa_index
        if numa is None and gpu.pci is not None:
            numa = self._tree.numa_index(gpu.pci)
        return () if numa is None else (numa,)

    def _by_numa(self, numa: Sequence[int], nic: Nic) -> Kind:
        own = nic.numa_index
        if own is None and nic.pci is not None:
            own = self._tree.numa_index(nic.pci)
        if own is None or not numa:
            return None
        return PathKind.NODE if own in numa else PathKind.SYS

    def _given(self, takers: int, kind: Callable[[int, Nic], Kind]) -> list[list[GivenNic]]:
        nics = self.usable
        if not nics or not takers:
            return [[] for _ in range(takers)]
        kinds = [[kind(at, nic) for nic in nics] for at in range(takers)]
        room = -(-takers // len(nics))
        chosen = assign(_costs(kinds), room)
        found = [
            [GivenNic(nic=nics[to], kind=kinds[at][to], others=chosen.count(to) - 1)]
            for at, to in enumerate(chosen)
        ]
        for to in sorted(set(range(len(nics))) - set(chosen)):
            close = [
                at for at in range(takers)
                if kinds[at][to] in CLOSE and kinds[at][to] == found[at][0].kind
            ]  # fmt: skip
            if close:
                taker = min(close, key=lambda at: (len(found[at]), at))
                found[taker].append(GivenNic(nic=nics[to], kind=kinds[taker][to]))
        return found


_FOR_DATA: Final = frozenset(NicKind) - {NicKind.ETHERNET} | {None}


def _costs(kinds: Sequence[Sequence[Kind]]) -> list[list[int]]:
    """Paths first; then how far a NIC's place is from the taker's, so that rails are in order."""
    takers, nics = len(kinds), len(kinds[0])
    scale = takers * nics * nics + 1
    return [
        [
            (_UNKNOWN_COST if kind is None else _COST.get(kind, 1)) * scale
            + (to - at * nics // takers) ** 2
            for to, kind in enumerate(row)
        ]
        for at, row in enumerate(kinds)
    ]


def _why_not(nic: Nic, wanted: NicRole | None) -> str | None:
    if nic.role is not None and nic.role is not NicRole.COMPUTE:
        return nic.role_because or "not for jobs"
    if nic.role is not wanted:
        return "not known to be for jobs"
    return f"its port is {nic.state}" if is_down(nic) else None
