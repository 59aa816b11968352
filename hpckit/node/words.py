"""The parts of a node in the words that people read, the same in text, in pictures and in tables.

Sources: the PCI Express Base Specification (rates and encodings); units of NIC rates are those of
their makers (Gb/s), of memory those of Linux (GiB).
"""

from __future__ import annotations

import re
from typing import Final

from hpckit.core.index_list import IndexList, count_indices
from hpckit.core.late import regex
from hpckit.core.text import figure, visible
from hpckit.node.pci import PCIE_GT_PER_S, PciAddress, PcieLink
from hpckit.node.topology import Nic, NicRole
from hpckit.spec.nic_kind import NicKind

_GIB: Final = 1024**3
_CHIP_AND_CARD: Final = regex(r"[^\[\]]+ \[([^\[\]]+)\]")
_CPU_NOISE: Final = regex(
    r"\((?:R|TM|r|tm)\)|@ .*$|\bCPU\b|\b\d+-Core Processor\b|\bProcessor\b|^(?:AMD|Intel)\b"
    r"|, altivec supported$",
    re.ASCII,
)
_GPU_NOISE: Final = regex(r"^(?:NVIDIA|AMD|Intel)\b|\(R\)|\bInstinct |\bGeForce |\bOAM\b")
_MANY_GIB: Final = 1000
_WHOLE_FROM_GB: Final = 10
_KINDS: Final = {
    NicKind.INFINIBAND: "IB",
    NicKind.ROCE: "RoCE",
    NicKind.EFA: "EFA",
    NicKind.SLINGSHOT: "Slingshot",
    NicKind.GVNIC: "gVNIC",
    NicKind.ETHERNET: "Ethernet",
}


def bit_rate(bytes_per_s: float) -> str:
    """A rate as the makers of NICs give it: `400 Gb/s`."""
    return f"{figure(as_float(bytes_per_s) * 8 / 1e9, 1)} Gb/s"


def byte_rate(bytes_per_s: float) -> str:
    """A rate as the makers of GPUs give it: `450 GB/s`."""
    giga = as_float(bytes_per_s) / 1e9
    return f"{figure(giga, 0 if giga >= _WHOLE_FROM_GB else 1)} GB/s"


def memory(size_bytes: float) -> str:
    """An amount of memory: `80 GiB`, `1.5 TiB`."""
    gib = as_float(size_bytes) / _GIB
    return f"{figure(gib / 1024, 1)} TiB" if gib >= _MANY_GIB else f"{figure(gib)} GiB"


def as_float(value: float) -> float:
    """The nearest float; infinity for a number that none holds."""
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def gpu_model(name: str) -> str:
    """A GPU's name without its maker's: `H100 80GB HBM3`; of pci.ids' `GA100 [A100]` the latter."""
    sold = _CHIP_AND_CARD.fullmatch(name[:200])
    return visible(
        " ".join(_GPU_NOISE.sub("", sold[1] if sold else name[:200]).split()) or name, 28
    )


def cpu_model(name: str) -> str:
    """A CPU's name without trademarks and clock: `EPYC 9654`."""
    return visible(" ".join(_CPU_NOISE.sub(" ", name[:200]).split()) or name, 32)


def pcie_generation(gt_per_s: float) -> str:
    """`gen5` of 32 GT/s; another rate is given as it is."""
    for generation, rate in PCIE_GT_PER_S.items():
        if abs(as_float(gt_per_s) - rate) <= rate * 0.05:
            return f"gen{generation}"
    return f"{figure(gt_per_s, 1)} GT/s"


def pcie_words(link: PcieLink | None) -> str:
    """`gen5 x16`; what a link is below what it could be stands beside: `gen5 x8 of x16`.

    A slower rate than the highest is what an idle device trains down to: `gen1 x16 (max gen5)`.
    """
    if link is None:
        return ""
    parts = []
    if link.speed_gt_per_s is not None:
        parts.append(pcie_generation(link.speed_gt_per_s))
    if link.width is not None:
        parts.append(f"x{figure(link.width)}")
    if is_narrow(link):
        parts.append(f"of x{figure(link.max_width or 0)}")
    if link.speed_gt_per_s is not None and link.max_speed_gt_per_s is not None:
        highest = pcie_generation(link.max_speed_gt_per_s)
        if link.speed_gt_per_s < link.max_speed_gt_per_s and highest != parts[0]:
            parts.append(f"(max {highest})")
    return " ".join(parts)


def is_narrow(link: PcieLink | None) -> bool:
    """Whether a link has fewer lanes than it could have."""
    return (
        link is not None
        and link.width is not None
        and link.max_width is not None
        and link.width < link.max_width
    )


def pcie_bytes_per_s(link: PcieLink | None) -> float | None:
    """What a link carries in one direction, its encoding taken off.

    That is 8b/10b to gen2, 128b/130b to gen5 and none above (PCI Express 6.0, 4.2: flits).
    """
    if link is None or link.speed_gt_per_s is None or link.width is None:
        return None
    speed = link.speed_gt_per_s
    share = 0.8 if speed < PCIE_GT_PER_S[3] else 128 / 130 if speed < PCIE_GT_PER_S[6] else 1.0
    return as_float(speed) * as_float(link.width) * share * 1e9 / 8


def slot_name(address: PciAddress) -> str:
    """An address as short as it stays clear: without the domain 0000 and the function 0."""
    return visible(address.removeprefix("0000:").removesuffix(".0"), 16)


def nic_rate(nic: Nic) -> str:
    """`400 Gb/s IB`, or what of it is known; a NIC of unknown kind is `NIC`."""
    kind = "NIC" if nic.kind is None else _KINDS[nic.kind]
    return kind if nic.rate_bytes_per_s is None else f"{bit_rate(nic.rate_bytes_per_s)} {kind}"


def is_storage(nic: Nic) -> bool:
    """Whether a NIC is known to be for something else than jobs' messages."""
    return nic.role is not None and nic.role is not NicRole.COMPUTE


def role_words(role: NicRole) -> str:
    """What a NIC is for: `compute`, `storage`, `not for jobs`."""
    return "not for jobs" if role is NicRole.OTHER else str(role)


def cpus_shown(cpus: IndexList, most: int = 26) -> str:
    """A list of CPUs, or its beginning and how many there are."""
    text = visible(cpus, 2000)
    if len(text) <= most:
        return text
    count = f" ({count_indices(cpus)})"
    head = text[: most - len(count) - 2].rpartition(",")[0] or text[: most - 2]
    return f"{head},…{count}"
