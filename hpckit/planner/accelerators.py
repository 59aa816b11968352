"""Accelerators as data: what a planner needs of each, dense figures, with where they are from.

Memory is what the driver reports as the card's total (nvidia-smi, rocm-smi), which is what a job
can have, not the figure of the data sheet. Where no page says a figure it is None: unknown.
Sources: NVIDIA and AMD data sheets, Google Cloud TPU and AWS Neuron documentation, Intel Hot Chips
2024; measured matrix products (bf16) from stas00/ml-engineering, accelerator chapter (2026-08).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final

from hpckit.core.errors import ConfigError
from hpckit.core.late import regex
from hpckit.core.values import dataclass
from hpckit.spec.site import AcceleratorSite

_MIB: Final = 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One kind of GPU; rates in FLOP/s and bytes/s of one direction, power in W.

    `scale_up_gpus` are those that its own links join at full rate, `node_gpus` those of its usual
    node; `nic_bytes_per_s` is the share of the network that such a node has for each. None is
    unknown.
    """

    name: str
    vendor: str
    flops: float
    flops_fp8: float | None
    memory_bytes: int
    memory_bytes_per_s: float
    tdp_w: float | None
    link_bytes_per_s: float | None
    scale_up_gpus: int
    link: str
    node_gpus: int = 8
    nic_bytes_per_s: float | None = None
    matmul_flops: float | None = None
    has_bf16: bool = True
    note: str | None = None

    def peak_flops(self, *, fp8: bool) -> float:
        """Return the peak of dense matrix products; bf16's where the card has no fp8."""
        return self.flops_fp8 or self.flops if fp8 else self.flops


def _row(  # noqa: PLR0913, PLR0917  a line of a table
    name: str, vendor: str, tflops: float, fp8: float | None, mib: int, gb_s: float,
    tdp: float | None, link_gb_s: float | None, joined: int, link: str, *, node: int = 8,
    nic_gbits: float | None = None, matmul: float | None = None,
    has_bf16: bool = True, note: str | None = None,
) -> Accelerator:  # fmt: skip
    return Accelerator(
        name=name,
        vendor=vendor,
        flops=tflops * 1e12,
        flops_fp8=None if fp8 is None else fp8 * 1e12,
        memory_bytes=mib * _MIB,
        memory_bytes_per_s=gb_s * 1e9,
        tdp_w=tdp,
        link_bytes_per_s=None if link_gb_s is None else link_gb_s * 1e9,
        scale_up_gpus=joined,
        link=link,
        node_gpus=node,
        nic_bytes_per_s=None if nic_gbits is None else nic_gbits * 1e9 / 8,
        matmul_flops=None if matmul is None else matmul * 1e12,
        has_bf16=has_bf16,
        note=note,
    )


# Of a family that which most clusters have comes first: a bare name means it.
ACCELERATORS: Final[tuple[Accelerator, ...]] = (
    _row("V100-SXM2-32GB", "NVIDIA", 125, None, 32510, 900, 300, 150, 8, "NVLink2",
         nic_gbits=50, has_bf16=False),
    _row("V100-SXM2-16GB", "NVIDIA", 125, None, 16160, 900, 300, 150, 8, "NVLink2",
         nic_gbits=50, has_bf16=False),
    _row("V100-PCIe-32GB", "NVIDIA", 112, None, 32510, 900, 250, None, 1, "PCIe 3",
         has_bf16=False),
    _row("A100-SXM4-80GB", "NVIDIA", 312, None, 81920, 2039, 400, 300, 8, "NVLink3",
         nic_gbits=200, matmul=271),
    _row("A100-SXM4-40GB", "NVIDIA", 312, None, 40960, 1555, 400, 300, 8, "NVLink3",
         nic_gbits=200, matmul=271),
    _row("A100-PCIe-80GB", "NVIDIA", 312, None, 81920, 1935, 300, 300, 2, "NVLink bridge",
         matmul=253),
    _row("A100-PCIe-40GB", "NVIDIA", 312, None, 40960, 1555, 250, 300, 2, "NVLink bridge",
         matmul=253),
    _row("H100-SXM5-80GB", "NVIDIA", 989, 1979, 81559, 3350, 700, 450, 8, "NVLink4",
         nic_gbits=400, matmul=794.5),
    _row("H100-PCIe-80GB", "NVIDIA", 756, 1513, 81559, 2000, 350, 300, 2, "NVLink bridge"),
    _row("H100-NVL-94GB", "NVIDIA", 835, 1671, 95830, 3900, 400, 300, 2, "NVLink bridge"),
    _row("H800-SXM5-80GB", "NVIDIA", 989, 1979, 81559, 3350, 700, 200, 8, "NVLink4",
         nic_gbits=400, matmul=794.5, note="an H100 with 400 GB/s of NVLink"),
    _row("H200-SXM-141GB", "NVIDIA", 989, 1979, 143771, 4800, 700, 450, 8, "NVLink4",
         nic_gbits=400, matmul=794.5),
    _row("H200-NVL-141GB", "NVIDIA", 835, 1671, 143771, 4800, 600, 450, 4, "NVLink bridge"),
    _row("GH200-96GB", "NVIDIA", 989, 1979, 97871, 4000, 700, 450, 4, "NVLink4", node=4,
         nic_gbits=200, matmul=794.5, note="the driver's name includes the CPU memory"),
    _row("B200-SXM-180GB", "NVIDIA", 2250, 4500, 183359, 8000, 1000, 900, 8, "NVLink5",
         nic_gbits=400, matmul=1745),
    _row("GB200", "NVIDIA", 2500, 5000, 189471, 8000, 1200, 900, 72, "NVLink5", node=4,
         nic_gbits=400, matmul=1822),
    _row("B300-SXM", "NVIDIA", 2250, 4500, 275040, 8000, 1100, 900, 8, "NVLink5",
         nic_gbits=800, matmul=1769),
    _row("GB300", "NVIDIA", 2500, 5000, 284208, 8000, 1400, 900, 72, "NVLink5", node=4,
         nic_gbits=800),
    _row("L40S", "NVIDIA", 362, 733, 46068, 864, 350, None, 1, "PCIe 4"),
    _row("MI250X", "AMD", 191.5, None, 65520, 1638, 280, 200, 8, "xGMI3", nic_gbits=100,
         note="one GCD: half of a module, and a GPU to Slurm"),
    _row("MI300X", "AMD", 1307, 2614, 196592, 5300, 750, 448, 8, "xGMI4", nic_gbits=400,
         matmul=668),
    _row("MI325X", "AMD", 1307, 2614, 262128, 6000, 1000, 448, 8, "xGMI4", nic_gbits=400,
         matmul=785),
    _row("MI355X", "AMD", 2500, 5000, 294896, 8000, 1400, 535.5, 8, "xGMI4", nic_gbits=400,
         matmul=1565),
    _row("TPU v4", "Google", 275, None, 32 * 1024, 1200, 192, None, 4096, "ICI 3D torus", node=4),
    _row("TPU v5e", "Google", 197, None, 16 * 1024, 819, None, 200, 256, "ICI 2D torus"),
    _row("TPU v5p", "Google", 459, None, 95 * 1024, 2765, None, 600, 8960, "ICI 3D torus", node=4),
    _row("TPU v6e", "Google", 918, 918, 32 * 1024, 1638, None, 400, 256, "ICI 2D torus"),
    _row("Trainium2", "AWS", 667, 1299, 96 * 1024, 2900, None, 640, 64, "NeuronLink3", node=16,
         nic_gbits=200),
    _row("Gaudi3", "Intel", 1835, 1835, 128 * 1024, 3670, 900, 600, 8, "24 × 200GbE",
         matmul=1243, note="1677 TFLOP/s at the shipped clock"),
)  # fmt: skip

_DROPPED: Final = frozenset(
    ("nvidia", "amd", "instinct", "tesla", "graphics", "device", "google", "aws", "intel", "oam",
     "gpu", "per", "hbm2", "hbm2e", "hbm3", "hbm3e", "sxm", "sxm2", "sxm3", "sxm4", "sxm5",
     "sxm6", "120gb", "480gb")
)  # fmt: skip
"""Words of a driver's product name that tell no two cards apart."""


_SLICE: Final = regex(r"\bmig\b|[0-9]g\.[0-9]+gb")


def _words(name: str) -> frozenset[str]:
    words = re.findall(r"[a-z0-9]+", name.lower())
    return frozenset(word for word in words if word not in _DROPPED)


def of_site(kinds: Mapping[str, AcceleratorSite]) -> tuple[Accelerator, ...]:
    """Return the accelerators that a site file describes."""
    return tuple(
        Accelerator(
            name=name,
            vendor="site",
            flops=kind.tflops * 1e12,
            flops_fp8=kind.fp8_tflops and kind.fp8_tflops * 1e12,
            memory_bytes=kind.memory_mib * _MIB,
            memory_bytes_per_s=kind.memory_gb_per_s * 1e9,
            tdp_w=kind.tdp_w,
            link_bytes_per_s=kind.link_gb_per_s and kind.link_gb_per_s * 1e9,
            scale_up_gpus=1 if kind.link_gb_per_s is None else kind.node_gpus,
            link="link" if kind.link_gb_per_s else "PCIe",
            node_gpus=kind.node_gpus,
            nic_bytes_per_s=kind.nic_gbits and kind.nic_gbits * 1e9 / 8,
            matmul_flops=kind.matmul_tflops and kind.matmul_tflops * 1e12,
        )
        for name, kind in kinds.items()
    )


def find_accelerator(name: str, more: Iterable[Accelerator] = ()) -> Accelerator | None:
    """Return the accelerator of a name, None where none is meant.

    A name is the table's, a driver's (`NVIDIA H100 80GB HBM3`) or Slurm's (`h100`); `more` are
    those of the site and come first.
    """
    table = (*more, *ACCELERATORS)
    wanted = name.strip().lower()
    for row in table:
        if _letters(row.name) == _letters(wanted):
            return row
    if _SLICE.search(wanted):  # a part of a card has a part of its memory
        return None
    words = _words(name)
    meant = [row for row in table if _family(row) in words and _agree(words, _words(row.name))]
    return max(meant, key=lambda row: len(_words(row.name) & words), default=None)


def _letters(name: str) -> str:
    return "".join(char for char in name.lower() if char.isalnum())


def _family(row: Accelerator) -> str:
    return row.name.lower().replace(" ", "-").partition("-")[0]


def _agree(words: frozenset[str], own: frozenset[str]) -> bool:
    """Whether a name says nothing that the row's does not, or the other way round."""
    return words <= own or own <= words


def accelerator_named(name: str, more: Iterable[Accelerator] = ()) -> Accelerator:
    """Return the accelerator of a name. Raises ConfigError with the nearest names."""
    more = tuple(more)
    found = find_accelerator(name, more)
    if found is not None:
        return found
    names = [row.name for row in (*more, *ACCELERATORS)]
    near = difflib.get_close_matches(name.upper(), names, n=3, cutoff=0.5)
    known = f"nearest names: {', '.join(near)}; or " if near else ""
    raise ConfigError(
        f"unknown accelerator {name!r}",
        hint=f"{known}describe it under [accelerators.NAME] in a site file, and give --site",
    )
