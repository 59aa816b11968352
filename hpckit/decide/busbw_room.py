"""What a machine has room for, in NCCL's GB/s: the figures that its search for channels divides.

A node is NCCL's: nodes that one NVLink domain joins are one (MNNVL). Source: NCCL
src/graph/topo.cc, paths.cc and search.cc (getTotalBw, followPath).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from hpckit.decide.busbw_facts import (
    INTEL,
    INTEL_P2P,
    OLDEST,
    PCIE_GB_PER_S_LANE,
    XGMI_GB_PER_S,
    capability_of,
    cpu_link_gb_per_s,
    link_gb_per_s,
)
from hpckit.model.busbw import CommMachine, CommNic, PcieRate
from hpckit.model.comm import NcclVersion
from hpckit.model.hardware import LinkKind
from hpckit.model.path import PathKind
from hpckit.model.words import counted

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
        return "; ".join(f"{one.what} of {one.subject}: {one.because}" for one in machine.unknown)
    joined = min(nodes, machine.domain_nodes or 1)
    gpus, outer = machine.gpus * joined, math.ceil(nodes / joined)
    if gpus * outer == 1:
        return "one GPU alone has no one to talk to"
    intra = _alone() if gpus == 1 else _intra(machine, nccl)
    if isinstance(intra, str):
        return intra
    total, pair = _of_a_gpu(machine, nccl, intra)
    if outer == 1:
        return Room(nodes=1, gpus=gpus, intra=intra, pair=pair, total=total)
    if not machine.nics:
        return f"no NIC for jobs is known, and {nodes} nodes talk by them"
    nics = tuple(_nic_gb_per_s(nic) for nic in machine.nics) * joined
    nic = _all_nics(machine, nics, joined)
    return Room(nodes=outer, gpus=gpus, intra=intra, pair=pair, total=total, nics=nics, nic=nic)


def _alone() -> Bound:
    return Bound(gb_per_s=math.inf, words="nothing within a node")


def _intra(machine: CommMachine, nccl: NcclVersion) -> Bound | str:
    if machine.links is not None:
        one = linked_gb_per_s(machine, nccl)
        if one is None:
            return f"no constant of NCCL or RCCL for a link of {machine.architecture} is known"
        links = machine.links
        through = " to the switch" if links.is_switched else ""
        words = f"{links.kind}{through}: {counted(links.per_gpu, 'link')} of {one:g} GB/s a GPU"
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
        return "the GPUs talk by PCIe, and speed and width of their links are not known"
    words = f"PCIe {machine.pcie.speed_gt_per_s:g} GT/s x{machine.pcie.width} of a GPU"
    if machine.ring.has_phb and machine.cpu.vendor == INTEL:
        pcie /= INTEL_P2P
        words += ", less a sixth in an Intel CPU"
    bound = Bound(gb_per_s=pcie, words=words)
    if machine.ring.farthest is not PathKind.SYS:
        return bound
    cpus = cpu_link_gb_per_s(machine.cpu, nccl)
    if cpus is None:
        return "the GPUs are on several CPUs, and what links these is not known to NCCL"
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


def release_of(nccl: NcclVersion | None, newest: NcclVersion) -> NcclVersion:
    """The release to reckon with: the one given, and no older than the rows are."""
    return newest if nccl is None else max(nccl, OLDEST)
