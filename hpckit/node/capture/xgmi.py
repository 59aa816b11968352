"""What AMD's tools and driver say of a pair of GPUs, and what follows from it.

Sources: Linux drivers/gpu/drm/amd/amdkfd/kfd_crat.c (an XGMI hop weighs 15, the fabric within a
package 13, a PCIe segment 20), amdgpu_xgmi.c amdgpu_xgmi_get_bandwidth (the minimum is one link,
the maximum all of them, both 0 for peers without a link of their own); rocm_smi_main.cc and the
manual of amd-smi (hops: 1 XGMI, 2 PCIe within a NUMA node, 3 through two).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hpckit.core.values import dataclass
from hpckit.node.path import PathKind
from hpckit.node.pci_tree import lesser
from hpckit.node.topology import MOST_BYTES_PER_S, GpuLink, LinkKind, Unknown

HOP_WEIGHT: Final = 15
ACROSS_NODES_WEIGHT: Final = 40
ACROSS_NODES_HOPS: Final = 3
_MOST_LINKS: Final = 16
_BYTES_PER_MBYTE: Final = 1e6

XGMI_LINKS: Final = {"gfx908": 3, "gfx942": 7}
"""The XGMI links of a package, where every board of the architecture has the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairReport:
    """What a source says of the way from one GPU to another; None where it says nothing.

    `kind` is XGMI, SYS for any way over PCIe, or None for what is unknown.
    `min_mbytes_per_s` is one link, `max_mbytes_per_s` all of them, in 10^6 bytes a second.
    """

    kind: LinkKind | PathKind | None = None
    weight: int | None = None
    hops: int | None = None
    min_mbytes_per_s: int | None = None
    max_mbytes_per_s: int | None = None
    is_p2p: bool | None = None

    @property
    def count(self) -> int | None:
        """The links between the two; None for the fabric within a package, and where unknown."""
        least, most = self.min_mbytes_per_s, self.max_mbytes_per_s
        if not least or not most or (self.weight is not None and self.weight < HOP_WEIGHT):
            return None
        links, rest = divmod(most, least)
        return links if rest == 0 and 1 <= links <= _MOST_LINKS else None

    @property
    def bandwidth_bytes_per_s(self) -> float | None:
        """That of all links in one direction; 0, and what nothing has, is unknown."""
        rate = (self.max_mbytes_per_s or 0) * _BYTES_PER_MBYTE
        return rate if 0 < rate <= MOST_BYTES_PER_S else None


def said_kind(word: str | None, weight: int | None, hops: int | None) -> LinkKind | PathKind | None:
    """XGMI, or SYS for any way over PCIe, by the type that a tool prints, else by hops or weight.

    A tool that was asked for weights alone prints no type: a weight of 15 is one XGMI hop, since
    PCIe weighs 40 at least.
    """
    if word is not None:
        return LinkKind.XGMI if word == "XGMI" else PathKind.SYS if word == "PCIE" else None
    if hops == 1 or (hops is None and weight == HOP_WEIGHT):
        return LinkKind.XGMI
    return PathKind.SYS if hops is not None and hops > 1 else None


def xgmi_link(a: int, b: int, there: PairReport, back: PairReport) -> GpuLink:
    """The link of two GPUs from the reports of both directions: of two figures the smaller one."""
    return GpuLink(
        a=a,
        b=b,
        kind=LinkKind.XGMI,
        count=lesser(there.count, back.count),
        bandwidth_bytes_per_s=lesser(there.bandwidth_bytes_per_s, back.bandwidth_bytes_per_s),
        is_switched=False,
        is_p2p=_both(there.is_p2p, back.is_p2p),
        weight=there.weight,
        hops=there.hops,
    )


def path_cell(one: PairReport, numa: tuple[int | None, int | None]) -> str | None:
    """The cell of a matrix: XGMI; SYS for PCIe between two NUMA nodes; else None.

    Within a NUMA node AMD's tools do not say which bridge the two share (PIX, PXB, PHB or NODE).
    """
    if one.kind is not PathKind.SYS:
        return None if one.kind is None else PathKind.XGMI
    if one.hops is not None:
        is_far = one.hops >= ACROSS_NODES_HOPS
    elif None not in numa:
        is_far = numa[0] != numa[1]
    else:
        is_far = one.weight is not None and one.weight > ACROSS_NODES_WEIGHT
    return PathKind.SYS if is_far else None


def unknown_of_links(links: Iterable[GpuLink], *, because: str) -> tuple[Unknown, ...]:
    """Why links lack a count or bandwidth, once a weight; `because` is the source's own reason."""
    lacking = {
        (-1 if link.weight is None else link.weight, link.bandwidth_bytes_per_s is None)
        for link in links
        if link.count is None or link.bandwidth_bytes_per_s is None
    }
    return tuple(
        Unknown(
            subject="GPUs",
            what=("count and bandwidth_bytes_per_s" if both else "count")
            + (" of XGMI links" if weight < 0 else f" of XGMI links of weight {weight}"),
            because=(_why_nothing(weight) or because) if both else _why_no_count(weight),
        )
        for weight, both in sorted(lacking)
    )


def _why_nothing(weight: int) -> str | None:
    if weight <= HOP_WEIGHT:
        return None
    if weight % HOP_WEIGHT == 0:
        hops = weight // HOP_WEIGHT
        return f"weight {weight} is {hops} XGMI hops: these GPUs have no direct link"
    return "the driver reports 0 for peers with an unknown route"


def _why_no_count(weight: int) -> str:
    if 0 <= weight < HOP_WEIGHT:
        return "partitions of one package share its fabric, without links to count"
    return "the bandwidth is not a multiple of one link's"


def _both(one: bool | None, other: bool | None) -> bool | None:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True
