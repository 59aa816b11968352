"""NCCL's and RCCL's own constants of bandwidth, as data with release and source.

Bandwidths are NCCL's GB/s (1e9 bytes) in one direction, what its authors reckon a link to carry
of data, not what the data sheet says. A row holds from `since` until the next one of its kind;
the releases compared are 2.18.3 to 2.30.7. All read on 2026-11-24.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from hpckit.node.topology import CpuTopology
from hpckit.spec.platform import NcclVersion

OLDEST: Final = NcclVersion(2, 18, 3)
NEWEST: Final = NcclVersion(2, 30, 7)
"""The releases between which the rows were compared; others are taken to be as the nearest."""

NVLS_RATED: Final = NcclVersion(2, 28, 3)
"""From here on NVLS and NVLSTree are rated by the switch's efficiency; before at 5/6."""

NVLS_OF_TWO: Final = NcclVersion(2, 28, 7)
"""From here on two GPUs have NVLS, before more. Source: src/transport/nvls.cc, ncclNvlsInit."""

MOST_CHANNELS: Final = 32
"""Half of MAXCHANNELS (src/include/device.h), which the search may find (init.cc)."""
MOST_HEADS: Final = 32
"""NCCL_MAX_NVLS_ARITY, src/include/device.h."""
_FAMILY_6: Final = 6

INTEL_P2P: Final = 6 / 5
"""What PCIe carries more of where GPUs meet in an Intel CPU. INTEL_P2P_OVERHEAD, topo.h."""

PCIE_GB_PER_S_LANE: Final = MappingProxyType(
    {2.5: 15 / 80, 5.0: 30 / 80, 8.0: 60 / 80, 16.0: 120 / 80, 32.0: 240 / 80, 64.0: 480 / 80}
)
"""A lane by its GT/s: kvDictPciGen in src/graph/topo.cc, 100 Mb/s over 80."""

XGMI_GB_PER_S: Final = MappingProxyType(
    {
        **dict.fromkeys(("gfx906", "gfx908"), 24.0),
        "gfx90a": 36.0,
        **dict.fromkeys(("gfx940", "gfx941", "gfx942", "gfx950"), 48.0),
    }
)
"""An XGMI link by architecture. VEGA_, MI200_, GFX94X_ and GFX95X_XGMI_WIDTH, rccl topo.h."""


class LinkFact(NamedTuple):
    """What an NVLink carries, of GPUs from one compute capability on."""

    capability: int
    gb_per_s: float
    since: NcclVersion = OLDEST


class SpeedFact(NamedTuple):
    """The bandwidths of a channel that the search tries, within a node and between nodes."""

    capability: int
    intra: tuple[float, ...]
    inter: tuple[float, ...]
    since: NcclVersion = OLDEST


class CpuLinkFact(NamedTuple):
    """What a link between two CPUs (to NCCL, NUMA nodes) carries.

    `model_from` is the least CPUID model of family 6 that has it.
    """

    arch: str
    gb_per_s: float
    vendor: str | None = None
    model_from: int | None = None
    since: NcclVersion = OLDEST


class ChannelFact(NamedTuple):
    """What the model allows a channel, on one node, on two, and on more.

    `nvls_efficiency` is what of its bandwidth NVLS makes use of, 0 where there is none.
    """

    capability: int
    tree: tuple[float, float, float]
    nvls_tree: tuple[float, float, float]
    nvls_efficiency: float = 0.0
    since: NcclVersion = OLDEST


Row = TypeVar("Row", LinkFact, SpeedFact, CpuLinkFact, ChannelFact)
Aged = TypeVar("Aged", LinkFact, SpeedFact, ChannelFact)


def in_force(rows: Sequence[Row], nccl: NcclVersion) -> Row:
    """The newest of the rows that a release has; of a release before all of them the oldest."""
    had = [row for row in rows if row.since <= nccl]
    return max(had or [min(rows, key=lambda row: row.since)], key=lambda row: row.since)


LINK_FACTS: Final = (
    LinkFact(60, 18.0),
    LinkFact(70, 20.0),
    LinkFact(80, 20.0),
    LinkFact(86, 12.0),
    LinkFact(87, 20.0),
    LinkFact(90, 20.0),
    LinkFact(90, 20.6, NcclVersion(2, 20, 3)),
    LinkFact(100, 40.0, NcclVersion(2, 25, 1)),
    LinkFact(100, 40.1, NcclVersion(2, 27, 5)),
)
"""Source: src/graph/topo.h, ncclTopoNVLinkBw."""

_LOW: Final = (20.0, 15.0, 12.0)
_INTRA: Final = (40.0, 30.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0)
_INTER: Final = (
    48.0, 30.0, 28.0, 24.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.4, 1.2,
    0.24, 0.12,
)  # fmt: skip
_FROM_42: Final = (
    42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24, 0.12
)  # fmt: skip
_HOPPER: Final = (48.0, 45.0, *_FROM_42)
_HOPPER_OLD: Final = tuple(speed for speed in _HOPPER if speed != 22.0)  # noqa: PLR2004
_FROM_90: Final = (90.0, 80.0, 70.0, 60.0, 50.0)
_FROM_40: Final = (40.0, 30.0, 24.0, 20.0, 19.0, 18.0)

SPEED_FACTS: Final = (
    SpeedFact(0, _INTRA, _INTER),
    SpeedFact(90, (60.0, 40.0, 30.0, 24.0, *_LOW, 6.0, 3.0), _HOPPER_OLD),
    SpeedFact(90, (60.0, 50.0, 40.0, 30.0, 24.0, *_LOW, 6.0, 3.0), _HOPPER, NcclVersion(2, 19, 1)),
    SpeedFact(
        90, (60.0, 50.0, 40.0, 30.0, 24.0, *_LOW, 11.0, 6.0, 3.0), _HOPPER, NcclVersion(2, 21, 5)
    ),
    SpeedFact(100, (*_FROM_90, *_FROM_40[:-1]), _HOPPER, NcclVersion(2, 25, 1)),
    SpeedFact(100, (*_FROM_90, *_FROM_40), (47.9, 45.0, *_FROM_42), NcclVersion(2, 27, 3)),
    SpeedFact(100, (*_FROM_90, *_FROM_40), (96.0, 48.0, 45.1, *_FROM_42), NcclVersion(2, 27, 5)),
    SpeedFact(
        100, (*_FROM_90, 45.0, *_FROM_40), (96.0, 48.0, 45.1, *_FROM_42), NcclVersion(2, 29, 2)
    ),
    SpeedFact(
        100,
        (*_FROM_90, 45.0, *_FROM_40),
        (96.0, 86.0, 80.0, 48.0, 45.1, *_FROM_42),
        NcclVersion(2, 30, 3),
    ),
)
"""Source: src/graph/search.cc, the speed arrays."""

INTEL: Final = "GenuineIntel"
AMD: Final = "AuthenticAMD"
X86: Final = "x86_64"
ARM: Final = "arm64"
POWER: Final = "ppc64"

CPU_LINK_FACTS: Final = (
    CpuLinkFact(POWER, 32.0),
    CpuLinkFact(ARM, 6.0),
    CpuLinkFact(X86, 5000.0, AMD),
    CpuLinkFact(X86, 16.0, AMD, since=NcclVersion(2, 19, 1)),
    CpuLinkFact(X86, 6.0, INTEL, 0),
    CpuLinkFact(X86, 10.0, INTEL, 0x55),
    CpuLinkFact(X86, 22.0, INTEL, 0x8F, NcclVersion(2, 26, 2)),
    CpuLinkFact(X86, 40.0, INTEL, 0xCF, NcclVersion(2, 26, 2)),
)
"""Source: src/graph/topo.cc, ncclTopoGetInterCpuBw and ncclTopoAddCpu."""

_VOLTA: Final = (26.5, 18.5, 10.0)
_AMPERE: Final = (24.0, 23.6, 17.8)
_BLACKWELL: Final = (0.0, 96.0, 80.0)

CHANNEL_FACTS: Final = (
    ChannelFact(0, _VOLTA, _VOLTA),
    ChannelFact(80, _AMPERE, _AMPERE),
    ChannelFact(90, (38.7, 41.4, 36.0), (0.0, 57.7, 45.5), 0.85),
    ChannelFact(100, (77.4, 82.8, 72.0), _BLACKWELL, 0.74, NcclVersion(2, 25, 1)),
    ChannelFact(100, (70.0, 42.8, 24.0), _BLACKWELL, 0.74, NVLS_RATED),
)
"""Source: src/graph/tuning.cc, perChMax…Bws and nvlsEfficiency."""


def cpu_link_gb_per_s(cpu: CpuTopology, nccl: NcclVersion) -> float | None:
    """The link between two of a node's CPUs; None where they are not known, or unknown to NCCL."""
    arch = _arch(cpu.arch)
    rows = [row for row in CPU_LINK_FACTS if row.arch == arch and row.vendor in (None, cpu.vendor)]
    if arch == X86 and cpu.vendor == INTEL:
        if cpu.family is None or cpu.model_number is None:
            return None
        model = cpu.model_number if cpu.family == _FAMILY_6 else 0
        rows = [row for row in rows if row.since <= nccl or row.since == OLDEST]
        rows = [row for row in rows if row.model_from is not None and row.model_from <= model]
        return max(rows, key=lambda row: row.model_from or 0).gb_per_s
    return in_force(rows, nccl).gb_per_s if rows else None


def _arch(word: str | None) -> str | None:
    """NCCL's three kinds of CPUs; `aarch64` and `ppc64le` are Linux's words."""
    if word is None:
        return None
    return POWER if word.startswith(POWER) else ARM if word in {"aarch64", ARM} else word


def capability_of(architecture: str) -> int | None:
    """NVIDIA's compute capability times ten: `sm_90` is 90; None for another maker's GPU."""
    text = architecture.removeprefix("sm_").rstrip("af")
    return int(text) if architecture.startswith("sm_") and text.isdecimal() else None


def link_gb_per_s(capability: int, nccl: NcclVersion) -> float:
    """An NVLink of a GPU of one capability; of one older than all rows, as NCCL has it, sm_80's."""
    is_known = capability >= LINK_FACTS[0].capability
    return _of_generation(LINK_FACTS, capability if is_known else 80, nccl).gb_per_s


def speeds_of(capability: int, nccl: NcclVersion) -> SpeedFact:
    """The speeds that the search tries on GPUs of one capability."""
    return _of_generation(SPEED_FACTS, capability, nccl)


def channel_facts(capability: int, nccl: NcclVersion) -> ChannelFact:
    """What a channel may carry on GPUs of one capability."""
    return _of_generation(CHANNEL_FACTS, capability, nccl)


def _of_generation(rows: Sequence[Aged], capability: int, nccl: NcclVersion) -> Aged:
    most = max(row.capability for row in rows if row.capability <= capability)
    return in_force([row for row in rows if row.capability == most], nccl)
