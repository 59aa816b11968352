"""What NCCL's model of bandwidth takes of a machine, and what it says of each collective.

Words are NCCL's. `bus bandwidth` is that of nccl-tests (doc/PERFORMANCE.md): what one GPU sends
and receives, whatever the algorithm, so that it can be held against a link.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hpckit.model.hardware import LinkKind, Unknown
from hpckit.model.path import PathKind
from hpckit.model.rules import InvalidValue


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


class Protocol(StrEnum):
    """How a channel moves data, as NCCL_PROTO names it."""

    LL = "LL"
    LL128 = "LL128"
    SIMPLE = "Simple"


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
class CommCpu:
    """A node's CPUs as NCCL tells them apart; `family` and `model_number` are CPUID's."""

    arch: str | None = None
    vendor: str | None = None
    family: int | None = None
    model_number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommNic:
    """A NIC for jobs: its rate in one direction, and its PCIe link where that is known."""

    name: str
    rate_bytes_per_s: float
    pcie: PcieRate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommMachine:
    """What decides bus bandwidth on nodes of one kind, `gpus` of each used.

    `architecture` is `sm_90` or `gfx942`. Without `links` the GPUs talk by `ring`. `pcie` is the
    GPUs' own link, the slowest. `nics` None is not known. `domain_nodes` is how many nodes one
    NVLink domain joins, 1 for none, None where it is not known. `has_nvls` is whether the switch
    adds up (NVLink SHARP), `has_sharp` whether the network does. `has_c2c` is whether NICs reach
    GPUs through an NVLink-C2C. `unknown` is what the source lacks and a prediction needs.
    Raises InvalidValue for no GPU or an empty domain.
    """

    gpus: int
    architecture: str | None = None
    links: RingLinks | None = None
    ring: PcieRing | None = None
    pcie: PcieRate | None = None
    cpu: CommCpu = CommCpu()
    nics: tuple[CommNic, ...] | None = None
    domain_nodes: int | None = 1
    has_nvls: bool = False
    has_sharp: bool = False
    has_c2c: bool = False
    unknown: tuple[Unknown, ...] = ()

    def __post_init__(self) -> None:
        if self.gpus < 1:
            raise InvalidValue("gpus", self.gpus, "at least one GPU a node")
        if self.domain_nodes is not None and self.domain_nodes < 1:
            raise InvalidValue("domain_nodes", self.domain_nodes, "at least one node")


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
    protocol: Protocol | None = None
    busbw_bytes_per_s: float | None = None
    channels: int | None = None
    channel_bytes_per_s: float | None = None
    limited_by: str | None = None
    because: str
    caveat: str | None = None
    is_best: bool = True
    is_bound: bool = False
