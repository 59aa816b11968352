"""What NCCL's model of bandwidth takes of a machine, and what it says of each collective.

Words are NCCL's. `bus bandwidth` is that of nccl-tests (doc/PERFORMANCE.md): what one GPU sends
and receives, whatever the algorithm, so that it can be held against a link.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from itertools import combinations
from typing import Final, NamedTuple

from hpckit.core.values import dataclass
from hpckit.node.path import PathKind
from hpckit.node.pci import PciAddress, PciDevice, PcieLink
from hpckit.node.topology import CpuTopology, LinkKind
from hpckit.spec.platform import Platform, architecture_of


class Collective(StrEnum):
    """An operation, as nccl-tests names it."""

    ALL_REDUCE = "AllReduce"
    ALL_GATHER = "AllGather"
    REDUCE_SCATTER = "ReduceScatter"
    BROADCAST = "Broadcast"
    ALL_TO_ALL = "AllToAll"


class Algorithm(StrEnum):
    """How a collective is carried out, as NCCL_ALGO names it; pairs are sends and receives."""

    RING = "Ring"
    TREE = "Tree"
    NVLS = "NVLS"
    NVLS_TREE = "NVLSTree"
    PAIRS = "pairs"


@dataclass(frozen=True, slots=True, kw_only=True)
class RingLinks:
    """The NVLinks or XGMI links that join all GPUs of a node which a job uses.

    `per_gpu` is how many of a GPU's links rings through all of them can use, each in both
    directions, of the GPU that has fewest. `per_pair` is how many lie between two neighbours, the
    fewest, and None through a switch, where it is `per_gpu`. `pairs` are the GPUs that each
    reaches directly.
    """

    kind: LinkKind
    per_gpu: int
    per_pair: int | None = None
    pairs: int | None = None
    is_switched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieRate:
    """A PCIe link, the slowest speed and least width on the way to the CPU."""

    speed_gt_per_s: float
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieRing:
    """The way of a ring through the GPUs that no link joins.

    `farthest` is the worst path that it cannot avoid. `has_phb` says that some neighbours meet in
    a CPU. `sides` are how many GPUs each NUMA node has, where the ring crosses from one to
    another.
    """

    farthest: PathKind
    has_phb: bool = False
    sides: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommNic:
    """A NIC for jobs: its rate in one direction, and its PCIe link where that is known."""

    rate_bytes_per_s: float
    pcie: PcieRate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommMachine:
    """What decides bus bandwidth on nodes of one kind, `gpus` of each used.

    `architecture` is `sm_90` or `gfx942`. Without `links` the GPUs talk by `ring`. `pcie` is the
    GPUs' own link, the slowest. `nics` None is not known. `domain_nodes` is how many nodes one
    NVLink domain joins, 1 for none, None where it is not known. `has_nvls` is whether the switch
    adds up (NVLink SHARP), `has_sharp` whether the network does. `has_c2c` is whether NICs reach
    GPUs through an NVLink-C2C. `unknown` is what the source lacks and a prediction needs,
    in words.
    """

    gpus: int
    architecture: str | None = None
    links: RingLinks | None = None
    ring: PcieRing | None = None
    pcie: PcieRate | None = None
    cpu: CpuTopology = field(default_factory=CpuTopology)
    nics: tuple[CommNic, ...] | None = None
    domain_nodes: int | None = 1
    has_nvls: bool = False
    has_sharp: bool = False
    has_c2c: bool = False
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BusbwPrediction:
    """What a collective should reach by one algorithm, or why that cannot be said.

    `busbw_bytes_per_s` None is a prediction that lacks facts, and `because` names them. `is_best`
    is the algorithm that NCCL would take. `is_bound` is that no model has a figure, and this is
    what the links allow at most. `channels` are those that NCCL's search finds, of
    `channel_bytes_per_s` each, None where it does not count them. `limited_by` is the link that
    bounds it, in words. All is the plateau of large messages.
    """

    collective: Collective
    algorithm: Algorithm | None = None
    protocol: str | None = None
    busbw_bytes_per_s: float | None = None
    channels: int | None = None
    channel_bytes_per_s: float | None = None
    limited_by: str | None = None
    because: str
    caveat: str | None = None
    is_best: bool = True
    is_bound: bool = False


# --- The PCIe links that traffic passes on its way from one device to another.
# Below a switch that both hang on nothing goes up to the CPU. The uppermost port of switches in two
# tiers may tell a speed that it has not got: those of OCI's H100 say 5 GT/s. NCCL flattens such
# switches. Source: NCCL, src/graph/topo.cc, ncclTopoFlattenBcmSwitches.

Tree = Mapping[PciAddress, PciDevice]


def shared(tree: Tree, ends: Sequence[PciAddress | None], *, by_all: bool) -> set[PciAddress]:
    """The bridges above the ends: where traffic to one of them turns, or with `by_all` to any."""
    above = [{device.address for device in _upward(tree, end)} - {end} for end in ends]
    if not above:
        return set()
    return set.intersection(*above) if by_all else set.union(*above)


def slowest_pcie(
    tree: Tree, addresses: Iterable[PciAddress | None], ends: Collection[PciAddress]
) -> PcieRate | None:
    """The slowest of several devices' ways to where they turn; None where one is not known."""
    found = [pcie_rate(tree, address, ends) for address in addresses]
    known = [one for one in found if one is not None]
    if not known or len(known) < len(found):
        return None
    return min(known, key=lambda one: one.speed_gt_per_s * one.width)


def pcie_rate(
    tree: Tree, address: PciAddress | None, ends: Collection[PciAddress]
) -> PcieRate | None:
    """The narrowest link below the bridges `ends`, at the speed it can have: idle ones train down.

    A device below none of them has its links up to the CPU.
    """
    links = list(_links(tree, address, ends))
    speeds = [one.max_speed_gt_per_s or one.speed_gt_per_s for one in links]
    widths = [one.max_width or one.width for one in links]
    known = [speed for speed in speeds if speed]
    wide = [width for width in widths if width]
    if not known or not wide:
        return None
    return PcieRate(speed_gt_per_s=min(known), width=min(wide))


def _links(
    tree: Tree, address: PciAddress | None, ends: Collection[PciAddress]
) -> Iterator[PcieLink]:
    for device in _upward(tree, address):
        if device.address in ends:
            return
        if device.link is not None:
            yield device.link


def _upward(tree: Tree, address: PciAddress | None) -> Iterator[PciDevice]:
    """A device and the bridges above it."""
    seen: set[PciAddress] = set()
    device = None if address is None else tree.get(address)
    while device is not None and device.address not in seen:
        seen.add(device.address)
        yield device
        device = None if device.parent is None else tree.get(device.parent)


# --- How many of the links between GPUs rings through all of them can use at the same time.
# Links without a switch belong to two GPUs. A ring takes one link between each two neighbours, in
# both directions: so many rings that share no link are as much as a mesh can carry.
# Where every two of n GPUs share one link, each direction of all of them falls into n - 1 rings,
# but for n of 4 and 6. Source: T. W. Tillson, A Hamiltonian decomposition of K*2m, 1980.

Counts = Mapping[tuple[int, int], int]
_MOST_STEPS: Final = 20_000


def links_in_rings(gpus: Sequence[int], counts: Counts) -> int | None:
    """The links of a GPU that rings through all of `gpus` use, in each direction.

    `counts` are links by pair, the smaller index first. Between two GPUs every link is a ring of
    each direction. None where no ring passes all of them by these links. Rings are looked for
    in a bounded number of steps, widest first, as NCCL looks for them: what is found can be had.
    """
    if len(gpus) == 2:  # noqa: PLR2004  a pair
        return counts.get((min(gpus), max(gpus)))
    size, alike = len(gpus), set(counts.values())
    if len(counts) == size * (size - 1) // 2 and len(alike) == 1 and size not in (4, 6):
        return (size - 1) * alike.pop()
    left = dict(counts)
    rings, steps = 0, [_MOST_STEPS]
    while (ring := _ring(gpus, left, [gpus[0]], steps)) is not None:
        for one, other in zip(ring, [*ring[1:], ring[0]], strict=True):
            left[min(one, other), max(one, other)] -= 1
        rings += 1
    return 2 * rings or None


def _ring(
    gpus: Sequence[int], left: Counts, passed: list[int], steps: list[int]
) -> list[int] | None:
    """A ring on the links that are left, over pairs with the most of them first."""
    at = passed[-1]
    if len(passed) == len(gpus):
        return passed if _left(left, at, passed[0]) else None
    ahead = [one for one in gpus if one not in passed and _left(left, at, one)]
    for one in sorted(ahead, key=lambda other: -_left(left, at, other)):
        steps[0] -= 1
        if steps[0] < 0:
            return None
        found = _ring(gpus, left, [*passed, one], steps)
        if found is not None:
            return found
    return None


def _left(left: Counts, one: int, other: int) -> int:
    return left.get((min(one, other), max(one, other)), 0)


# --- What decides bus bandwidth on nodes that nobody inspected: as the site file calls them.


class Board(NamedTuple):
    """GPUs on one board: the NVLinks of each, to a switch where it has one.

    `has_nvls` is whether the switch adds up.
    """

    links: int
    has_nvls: bool = True
    has_c2c: bool = False


BOARDS: Final = {
    "a100": Board(12, has_nvls=False),
    **dict.fromkeys(("h100", "h200", "b200", "b300"), Board(18)),
    **dict.fromkeys(("gb200", "gb300"), Board(18, has_c2c=True)),
}
"""NVIDIA's data sheets of HGX A100, H100, H200, B200, B300 and of GB200 and GB300 NVL72."""
MESHED_GPUS: Final = 4
"""A board of so many has no NVSwitch. NVIDIA, HGX A100 4-GPU and H100 4-GPU, data sheets; NERSC,
Perlmutter architecture: four NVLinks between each two of four A100. GB200's trays have one.
"""


def platform_machine(platform: Platform, nodes: int, gpus_per_node: int | None) -> CommMachine:
    """The machine of a site whose nodes are a known board; what is not known is in `unknown`.

    Without a number of GPUs, all of a node's are used; of fewer each has its share of the NICs, as
    NCCL takes those that are near.
    """
    board = BOARDS.get(platform.gpu or "")
    gpus = gpus_per_node or platform.gpus or 1
    nics = _nics(platform, gpus)
    unknown = []
    if nics is None and nodes > (platform.domain_nodes or 1):
        unknown.append("number and rate of NICs: missing in the site file")
    if not gpus_per_node and not platform.gpus:
        unknown.append("number of GPUs: missing in the site file")
    if platform.gpus is not None and gpus > platform.gpus:
        unknown.append(f"number of GPUs: {gpus} requested, but a node has {platform.gpus}")
    if board is None:
        unnamed = platform.gpu or "unnamed"
        unknown.append(f"links of GPUs: hpckit has no data on boards with {unnamed} GPUs")
        return CommMachine(gpus=gpus, nics=nics, unknown=tuple(unknown))
    is_meshed = platform.gpus == MESHED_GPUS and not board.has_c2c
    switched = RingLinks(kind=LinkKind.NVLINK, per_gpu=board.links, is_switched=True)
    return CommMachine(
        gpus=gpus,
        architecture=architecture_of(platform.gpu),
        links=_mesh(board, gpus) if is_meshed else switched,
        nics=nics,
        domain_nodes=platform.domain_nodes or 1,
        has_nvls=board.has_nvls and not is_meshed,
        has_c2c=board.has_c2c,
        unknown=tuple(unknown),
    )


def _mesh(board: Board, gpus: int) -> RingLinks:
    """The links of `gpus` of a board on which each GPU shares its links out among the others."""
    used, per_pair = range(min(gpus, MESHED_GPUS)), board.links // (MESHED_GPUS - 1)
    rings = links_in_rings(used, dict.fromkeys(combinations(used, 2), per_pair))
    return RingLinks(
        kind=LinkKind.NVLINK, per_gpu=rings or per_pair, per_pair=per_pair, pairs=len(used) - 1
    )


def _nics(platform: Platform, gpus: int) -> tuple[CommNic, ...] | None:
    if platform.nics is None or platform.nic_gbits is None:
        return None
    every = platform.gpus or gpus
    used = max(1, platform.nics * min(gpus, every) // every)
    return (CommNic(rate_bytes_per_s=platform.nic_gbits * 1e9 / 8),) * used
