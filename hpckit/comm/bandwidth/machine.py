"""What of a node decides bus bandwidth, and what the node does not tell of that."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Final

from hpckit.comm.bandwidth.facts import (
    INTEL,
    INTEL_P2P,
    PCIE_GB_PER_S_LANE,
    XGMI_GB_PER_S,
    capability_of,
    cpu_link_gb_per_s,
    link_gb_per_s,
)
from hpckit.comm.bandwidth.values import (
    CommMachine,
    CommNic,
    PcieRate,
    PcieRing,
    RingLinks,
    links_in_rings,
    pcie_rate,
    shared,
    slowest_pcie,
)
from hpckit.core.units import counted
from hpckit.core.values import dataclass
from hpckit.fabric.topology import nvlink_domain
from hpckit.node.links import is_direct, joined
from hpckit.node.path import PathKind
from hpckit.node.rules.rule import kind_between, path_cells
from hpckit.node.topology import (
    Gpu,
    GpuLink,
    LinkKind,
    Nic,
    NicRole,
    NodeTopology,
    NvLinkRemote,
    is_down,
)
from hpckit.spec.platform import NcclVersion

_HOPPER: Final = 90
_MOST_LINKS: Final = {60: 4, 70: 6, 80: 12, 86: 4, 90: 18, 100: 18, 103: 18}
_BELOW_CPU: Final = frozenset({PathKind.NV, PathKind.XGMI, PathKind.PIX, PathKind.PXB})
_PHB: Final = frozenset({PathKind.PHB, PathKind.NODE})

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
    `complete` comes first. What is lacking is in `unknown`.
    """
    gpus = tuple(gpu for gpu in topology.gpus if not gpu.is_hidden)[:gpus_per_node]
    unknown: list[str] = []
    if len(gpus) < gpus_per_node:
        unknown.append(f"number of GPUs: {gpus_per_node} requested, but the node shows {len(gpus)}")
    architecture = _one({gpu.architecture or architecture for gpu in gpus}, unknown)
    links, ring = (None, None)
    if len(gpus) == gpus_per_node > 1:
        links, ring = _inner(topology, gpus, architecture, unknown)
    is_switched = links is not None and links.is_switched
    has_nvls = is_switched and (capability_of(architecture or "") or 0) >= _HOPPER
    domain = _domain(topology, nodes, domain_nodes, unknown)
    is_outer = nodes > (domain or 1)
    is_linked = links is not None or len(gpus) == 1
    pcie = _gpus_pcie(topology, gpus, is_linked=is_linked, is_outer=is_outer)
    if pcie is None and ring is not None:
        unknown.append(
            "PCIe links of GPUs: speed or width of a link between GPU and CPU is missing"
        )
    return CommMachine(
        gpus=gpus_per_node, architecture=architecture, links=links, ring=ring, pcie=pcie,
        cpu=topology.cpu, nics=_nics(topology, gpus, unknown) if is_outer else None,
        domain_nodes=domain, has_nvls=has_nvls,
        has_c2c=any(link.kind is LinkKind.C2C for link in topology.cpu_links),
        unknown=tuple(unknown),
    )  # fmt: skip


def _one(found: set[str | None], unknown: list[str]) -> str | None:
    known = {one for one in found if one is not None}
    if len(known) == 1 and None not in found:
        return known.pop()
    because = "missing in the source"
    if len(known) > 1:
        because = f"mixed: {', '.join(sorted(known))}"
    unknown.append(f"architecture of GPUs: {because}")
    return None


def _domain(topology: NodeTopology, nodes: int, told: int | None, unknown: list[str]) -> int | None:
    """Nodes of one NVLink domain; a GPU that names its domain does not tell how large it is."""
    if told is not None or nodes == 1:
        return told or 1
    if nvlink_domain(topology) is None:
        return 1
    unknown.append(
        "size of the NVLink domain: the GPUs name a domain, but not how many nodes it has"
    )
    return None


def _inner(
    topology: NodeTopology,
    gpus: Sequence[Gpu],
    architecture: str | None,
    unknown: list[str],
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
            unknown.append(f"links of GPUs: {links}")
            return None, None
    return None, _pcie_ring(topology, gpus, unknown)


def _links(gpus: Sequence[Gpu], pairs: Pairs, architecture: str | None) -> RingLinks | str | None:
    """What rings can use of the links; a reason where that is not known, None where no ring is."""
    kinds = {link.kind for link in pairs.values()}
    if len(kinds) > 1 or any(link.count is None for link in pairs.values()):
        return "the source gives no link counts"
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
    if any(link.remote is NvLinkRemote.SWITCH for gpu in gpus for link in gpu.nvlinks or ()):
        return True
    capability = None if architecture is None else capability_of(architecture)
    most = None if capability is None else _MOST_LINKS.get(capability)
    if False in told or most is None:
        return False
    first = gpus[0].index
    return sum(link.count or 0 for pair, link in pairs.items() if first in pair) > most


def _pcie_ring(topology: NodeTopology, gpus: Sequence[Gpu], unknown: list[str]) -> PcieRing | None:
    cells = path_cells(topology.paths)
    kinds = {
        (one.index, other.index): kind_between(cells, one, other)
        for one, other in combinations(gpus, 2)
    }
    if None in kinds.values():
        unknown.append("paths between GPUs: some are missing in the source")
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
    topology: NodeTopology, gpus: Sequence[Gpu], unknown: list[str]
) -> tuple[CommNic, ...] | None:
    """The NICs for jobs with their rates."""
    wanted = _wanted(topology)
    lacking = [nic.name for nic in wanted if not nic.rate_bytes_per_s]
    if not wanted:
        unknown.append("number of NICs: the source shows no NIC for jobs that is up")
    if lacking:
        shown = ", ".join(lacking[:2])
        unknown.append(f"rate of NICs: missing in the source for {shown}")
    if lacking or not wanted:
        return None
    tree = {device.address: device for device in topology.pci}
    near = shared(tree, [gpu.pci for gpu in gpus], by_all=False)
    return tuple(
        CommNic(
            rate_bytes_per_s=nic.rate_bytes_per_s or 0.0,
            pcie=pcie_rate(tree, nic.pci, near),
        )
        for nic in wanted
    )


# --- What a machine has room for, in NCCL's GB/s: the figures that its search for channels divides.
# A node is NCCL's: nodes that one NVLink domain joins are one (MNNVL). Source: NCCL
# src/graph/topo.cc, paths.cc and search.cc (getTotalBw, followPath).

_GB: Final = 1e9
_ROUNDING: Final = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A link that bounds something, in GB/s, and what it is in words."""

    gb_per_s: float
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a node of NCCL's has: `nodes` of them, `gpus` in each.

    `intra` bounds what all channels of a ring carry within a node, infinite for one GPU. `pair`
    is the most that one channel can. `total` is what a GPU has. `nics` are what each NIC can take
    from GPUs, `nic` their sum, or that of the GPUs' own PCIe links where it is less; None on one
    node.
    """

    nodes: int
    gpus: int
    intra: Bound
    pair: float
    total: float
    nics: tuple[float, ...] = ()
    nic: Bound | None = None

    @property
    def ranks(self) -> int:
        """The GPUs of the job."""
        return self.nodes * self.gpus

    def fits_intra(self, speed: float, *, alternate: bool = False) -> int:
        """How many channels of a speed fit within a node.

        Where the channels end at another GPU each, one in so many does not pass a GPU's link.
        """
        spread = self.gpus / (self.gpus - 1) if alternate and self.gpus > 1 else 1.0
        return _floor(self.intra.gb_per_s * spread / speed)

    def fits_inter(self, speed: float) -> int:
        """How many channels of a speed the NICs of a node take."""
        if self.nic is None:
            return 0
        return min(sum(_floor(one / speed) for one in self.nics), _floor(self.nic.gb_per_s / speed))


def _floor(value: float) -> int:
    return 1 << 30 if math.isinf(value) else math.floor(value + _ROUNDING)


def pcie_gb_per_s(rate: PcieRate) -> float | None:
    """What NCCL reckons a PCIe link to carry; None for a speed that it does not know."""
    lane = PCIE_GB_PER_S_LANE.get(rate.speed_gt_per_s)
    return None if lane is None else lane * rate.width


def room_of(machine: CommMachine, nodes: int, nccl: NcclVersion) -> Room | str:
    """The room of a machine for a job on so many nodes, or why it is not known."""
    if machine.unknown:
        return "; ".join(machine.unknown)
    joined = min(nodes, machine.domain_nodes or 1)
    gpus, outer = machine.gpus * joined, math.ceil(nodes / joined)
    if gpus * outer == 1:
        return "a single GPU does not communicate"
    alone = Bound(gb_per_s=math.inf, words="nothing within a node")
    intra = alone if gpus == 1 else _intra(machine, nccl)
    if isinstance(intra, str):
        return intra
    total, pair = _of_a_gpu(machine, nccl, intra)
    if outer == 1:
        return Room(nodes=1, gpus=gpus, intra=intra, pair=pair, total=total)
    if not machine.nics:
        return f"no NIC for jobs found, and {nodes} nodes need one"
    nics = tuple(_nic_gb_per_s(nic) for nic in machine.nics) * joined
    nic = _all_nics(machine, nics, joined)
    return Room(nodes=outer, gpus=gpus, intra=intra, pair=pair, total=total, nics=nics, nic=nic)


def _intra(machine: CommMachine, nccl: NcclVersion) -> Bound | str:
    if machine.links is not None:
        one = linked_gb_per_s(machine, nccl)
        if one is None:
            return f"NCCL and RCCL have no link speed for {machine.architecture or 'these GPUs'}"
        links = machine.links
        through = " to the switch" if links.is_switched else ""
        words = f"{links.kind}{through}: {counted(links.per_gpu, 'link')} of {one:g} GB/s per GPU"
        return Bound(gb_per_s=one * links.per_gpu, words=words)
    return _over_pcie(machine, nccl)


def linked_gb_per_s(machine: CommMachine, nccl: NcclVersion) -> float | None:
    """What one link between the GPUs of a machine carries; None for GPUs without a constant."""
    if machine.links is None or machine.architecture is None:
        return None
    if machine.links.kind is LinkKind.XGMI:
        return XGMI_GB_PER_S.get(machine.architecture)
    capability = capability_of(machine.architecture)
    return None if capability is None else link_gb_per_s(capability, nccl)


def _over_pcie(machine: CommMachine, nccl: NcclVersion) -> Bound | str:
    pcie = None if machine.pcie is None else pcie_gb_per_s(machine.pcie)
    if pcie is None or machine.ring is None or machine.pcie is None:
        return "the GPUs use PCIe, and speed and width of their links are unknown"
    words = f"PCIe {machine.pcie.speed_gt_per_s:g} GT/s x{machine.pcie.width} per GPU"
    if machine.ring.has_phb and machine.cpu.vendor == INTEL:
        pcie /= INTEL_P2P
        words += ", minus a sixth for Intel CPUs"
    bound = Bound(gb_per_s=pcie, words=words)
    if machine.ring.farthest is not PathKind.SYS:
        return bound
    cpus = cpu_link_gb_per_s(machine.cpu, nccl)
    if cpus is None:
        return "the GPUs are on several CPUs, and NCCL has no speed for the link between them"
    return bound if pcie <= cpus else Bound(gb_per_s=cpus, words="the link between two CPUs")


def _of_a_gpu(machine: CommMachine, nccl: NcclVersion, intra: Bound) -> tuple[float, float]:
    """What a GPU has in all, and what one channel to a neighbour can have of it."""
    one = linked_gb_per_s(machine, nccl)
    if machine.links is None or one is None:
        pcie = None if machine.pcie is None else pcie_gb_per_s(machine.pcie)
        return pcie or intra.gb_per_s, intra.gb_per_s
    per_pair = machine.links.per_pair
    return intra.gb_per_s, intra.gb_per_s if per_pair is None else one * per_pair


def _nic_gb_per_s(nic: CommNic) -> float:
    pcie = None if nic.pcie is None else pcie_gb_per_s(nic.pcie)
    rate = nic.rate_bytes_per_s / _GB
    return rate if pcie is None else min(rate, pcie)


def _all_nics(machine: CommMachine, nics: tuple[float, ...], joined: int) -> Bound:
    told = sorted({round(one, 3) for one in nics})
    each = f"{told[0]:g}" if len(told) == 1 else f"{told[0]:g} to {told[-1]:g}"
    bound = Bound(gb_per_s=sum(nics), words=f"{counted(len(nics), 'NIC')} of {each} GB/s")
    own = None if machine.pcie is None else pcie_gb_per_s(machine.pcie)
    if own is None or machine.has_c2c:
        return bound
    gpus = machine.gpus * joined
    if own * gpus + _ROUNDING >= bound.gb_per_s or len(nics) < gpus:
        return bound
    return Bound(gb_per_s=own * gpus, words=f"PCIe of {counted(gpus, 'GPU')}, {own:g} GB/s each")
