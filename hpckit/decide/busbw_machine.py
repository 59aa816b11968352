"""What of a node decides bus bandwidth, and what the node does not tell of that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Final

from hpckit.decide.busbw_facts import capability_of
from hpckit.decide.busbw_pcie import pcie_rate, shared, slowest_pcie
from hpckit.decide.busbw_rings import links_in_rings
from hpckit.model.busbw import CommCpu, CommMachine, CommNic, PcieRate, PcieRing, RingLinks
from hpckit.model.hardware import (
    Gpu,
    GpuLink,
    LinkKind,
    Nic,
    NicRole,
    NodeTopology,
    NvLinkRemote,
    Unknown,
)
from hpckit.model.nic_state import is_down
from hpckit.model.node_links import is_direct, joined
from hpckit.model.node_paths import PathLookup
from hpckit.model.nvlink_domains import nvlink_domain
from hpckit.model.path import PathKind

_GPUS: Final = "GPUs"
_HOPPER: Final = 90
_MOST_LINKS: Final = {60: 4, 70: 6, 80: 12, 86: 4, 90: 18, 100: 18, 103: 18}
_BELOW_CPU: Final = frozenset({PathKind.NV, PathKind.XGMI, PathKind.PIX, PathKind.PXB})
_PHB: Final = frozenset({PathKind.PHB, PathKind.NODE})
_FEWEST: Final = 2

Pairs = Mapping[tuple[int, int], GpuLink]


def comm_machine(
    topology: NodeTopology,
    *,
    nodes: int,
    gpus_per_node: int,
    domain_nodes: int | None = None,
    architecture: str | None = None,
) -> CommMachine:
    """The machine of a job on `nodes` nodes like this one, on the first `gpus_per_node` GPUs.

    `domain_nodes` is how many nodes an NVLink domain joins, `architecture` that of the GPUs where
    the node does not tell it: what the caller knows. Paths and roles of NICs are used, so
    `complete` comes first. What is lacking is in `unknown`. Raises InvalidValue for no GPU at all.
    """
    gpus = tuple(gpu for gpu in topology.gpus if not gpu.is_hidden)[:gpus_per_node]
    unknown: list[Unknown] = []
    if len(gpus) < gpus_per_node:
        because = f"{gpus_per_node} are asked for, and the node shows {len(gpus)}"
        unknown.append(Unknown(subject=_GPUS, what="number", because=because))
    architecture = _one({gpu.architecture or architecture for gpu in gpus}, unknown)
    links, ring = (None, None)
    if len(gpus) == gpus_per_node > 1:
        links, ring = _inner(topology, gpus, architecture, unknown)
    domain = _domain(topology, nodes, domain_nodes, unknown)
    is_outer = nodes > (domain or 1)
    is_linked = links is not None or len(gpus) == 1
    pcie = _gpus_pcie(topology, gpus, is_linked=is_linked, is_outer=is_outer)
    if pcie is None and ring is not None:
        because = "the source has no speed and width of every link between GPU and CPU"
        unknown.append(Unknown(subject=_GPUS, what="PCIe links", because=because))
    return CommMachine(
        gpus=gpus_per_node, architecture=architecture, links=links, ring=ring, pcie=pcie,
        cpu=_cpu(topology), nics=_nics(topology, gpus, unknown) if is_outer else None,
        domain_nodes=domain, has_nvls=_has_nvls(architecture, links),
        has_c2c=any(link.kind is LinkKind.C2C for link in topology.cpu_links),
        unknown=tuple(unknown),
    )  # fmt: skip


def _one(found: set[str | None], unknown: list[Unknown]) -> str | None:
    known = {one for one in found if one is not None}
    if len(known) == 1 and None not in found:
        return known.pop()
    because = "the source does not tell it"
    if len(known) > 1:
        because = f"there are several: {', '.join(sorted(known))}"
    unknown.append(Unknown(subject=_GPUS, what="architecture", because=because))
    return None


def _cpu(topology: NodeTopology) -> CommCpu:
    cpu = topology.cpu
    return CommCpu(
        arch=cpu.arch, vendor=cpu.vendor, family=cpu.family, model_number=cpu.model_number
    )


def _domain(
    topology: NodeTopology, nodes: int, told: int | None, unknown: list[Unknown]
) -> int | None:
    """Nodes of one NVLink domain; a GPU that names its domain does not tell how large it is."""
    if told is not None or nodes == 1:
        return told or 1
    if nvlink_domain(topology) is None:
        return 1
    because = "the GPUs name an NVLink domain, and not how many nodes are in it"
    unknown.append(Unknown(subject="NVLink domain", what="number of nodes", because=because))
    return None


def _has_nvls(architecture: str | None, links: RingLinks | None) -> bool:
    if architecture is None or links is None or not links.is_switched:
        return False
    return (capability_of(architecture) or 0) >= _HOPPER


def _inner(
    topology: NodeTopology,
    gpus: Sequence[Gpu],
    architecture: str | None,
    unknown: list[Unknown],
) -> tuple[RingLinks | None, PcieRing | None]:
    """The links that join the GPUs, or the way of a ring without them."""
    used = {gpu.index for gpu in gpus}
    pairs = {
        (min(link.a, link.b), max(link.a, link.b)): link
        for link in topology.gpu_links
        if {link.a, link.b} <= used and link.a != link.b and link.count != 0
        and link.kind is not LinkKind.C2C and is_direct(link)
    }  # fmt: skip
    if joined(pairs) == [tuple(sorted(used))]:
        links = _links(gpus, pairs, architecture)
        if isinstance(links, RingLinks):
            return links, None
        if links is not None:
            unknown.append(Unknown(subject=_GPUS, what="links", because=links))
            return None, None
    return None, _pcie_ring(topology, gpus, unknown)


def _links(gpus: Sequence[Gpu], pairs: Pairs, architecture: str | None) -> RingLinks | str | None:
    """What rings can use of the links; a reason where that is not known, None where no ring is."""
    kinds = {link.kind for link in pairs.values()}
    if len(kinds) > 1 or any(link.count is None for link in pairs.values()):
        return "the source does not count the links between the GPUs"
    counts = {pair: link.count or 0 for pair, link in pairs.items()}
    size, kind = len(gpus), kinds.pop()
    if len(counts) == size * (size - 1) // 2 and _is_switched(gpus, pairs, architecture):
        fewest = min(max(counts[pair] for pair in counts if gpu.index in pair) for gpu in gpus)
        return RingLinks(kind=kind, per_gpu=fewest, is_switched=True)
    rings = links_in_rings([gpu.index for gpu in gpus], counts)
    if rings is None:
        return None
    peers = min(sum(gpu.index in pair for pair in counts) for gpu in gpus)
    return RingLinks(kind=kind, per_gpu=rings, per_pair=min(counts.values()), pairs=peers)


def _is_switched(gpus: Sequence[Gpu], pairs: Pairs, architecture: str | None) -> bool:
    """Whether a switch joins them: so it is told, or a GPU would have more links than it can."""
    told = {link.is_switched for link in pairs.values()}
    if told == {True}:
        return True
    if any(_at_switch(gpu) for gpu in gpus):
        return True
    capability = None if architecture is None else capability_of(architecture)
    most = None if capability is None else _MOST_LINKS.get(capability)
    if False in told or most is None:
        return False
    first = gpus[0].index
    return sum(link.count or 0 for pair, link in pairs.items() if first in pair) > most


def _at_switch(gpu: Gpu) -> bool:
    return any(link.remote is NvLinkRemote.SWITCH for link in gpu.nvlinks or ())


def _pcie_ring(
    topology: NodeTopology, gpus: Sequence[Gpu], unknown: list[Unknown]
) -> PcieRing | None:
    lookup = PathLookup(topology.paths)
    kinds = {
        (one.index, other.index): lookup.kind(one, other) for one, other in combinations(gpus, 2)
    }
    if None in kinds.values():
        because = "the source does not tell what lies between all of them"
        unknown.append(Unknown(subject=_GPUS, what="paths", because=because))
        return None
    every = tuple(gpu.index for gpu in gpus)
    close = _groups(every, kinds, _BELOW_CPU)
    sides = _groups(every, kinds, _BELOW_CPU | _PHB)
    has_phb = len(close) > len(sides)
    if len(sides) > 1:
        return PcieRing(
            farthest=PathKind.SYS, has_phb=has_phb, sides=tuple(len(one) for one in sides)
        )
    return PcieRing(farthest=PathKind.PHB if has_phb else PathKind.PXB, has_phb=has_phb)


def _groups(
    every: Iterable[int],
    kinds: Mapping[tuple[int, int], PathKind | None],
    wanted: Iterable[PathKind],
) -> list[tuple[int, ...]]:
    """The groups that paths of the wanted kinds join, those of one GPU too."""
    alone = [(gpu, gpu) for gpu in every]
    return joined([*alone, *(pair for pair, kind in kinds.items() if kind in set(wanted))])


def _gpus_pcie(
    topology: NodeTopology, gpus: Sequence[Gpu], *, is_linked: bool, is_outer: bool
) -> PcieRate | None:
    """The slowest PCIe link that the GPUs' traffic passes: to their NICs, or to each other.

    One GPU has no other, as if links joined it to all there are.
    """
    tree = {device.address: device for device in topology.pci}
    ends, own = [nic.pci for nic in _wanted(topology)], [gpu.pci for gpu in gpus]
    if not is_linked:
        ends = [*own, *(ends if is_outer else ())]
    return slowest_pcie(tree, own, shared(tree, ends, by_all=not is_linked))


def _wanted(topology: NodeTopology) -> list[Nic]:
    """The NICs for jobs that are up."""
    return [nic for nic in topology.nics if nic.role is NicRole.COMPUTE and not is_down(nic)]


def _nics(
    topology: NodeTopology, gpus: Sequence[Gpu], unknown: list[Unknown]
) -> tuple[CommNic, ...] | None:
    """The NICs for jobs with their rates."""
    wanted = _wanted(topology)
    lacking = [nic.name for nic in wanted if not nic.rate_bytes_per_s]
    because = None
    if not wanted:
        because = "the source tells of none that is up and for jobs"
    elif lacking:
        because = f"the source does not tell that of {', '.join(lacking[:_FEWEST])}"
    if because is not None:
        what = "rate" if wanted else "number"
        unknown.append(Unknown(subject="NICs", what=what, because=because))
        return None
    tree = {device.address: device for device in topology.pci}
    near = shared(tree, [gpu.pci for gpu in gpus], by_all=False)
    return tuple(
        CommNic(
            name=nic.name,
            rate_bytes_per_s=nic.rate_bytes_per_s or 0.0,
            pcie=pcie_rate(tree, nic.pci, near),
        )
        for nic in wanted
    )
