"""What lies between two devices of a node, in nvidia-smi's words and in NCCL's.

Sources: `nvidia-smi topo -m` (its legend); NCCL src/graph/topo.h (PATH_LOC … PATH_DIS).
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final

from hpckit.core.errors import InvalidValue
from hpckit.core.late import regex
from hpckit.core.values import dataclass


class PathKind(StrEnum):
    """The nearest thing that two devices share, nearest first; `topo -m` has the PCIe ones.

    XGMI is AMD's link between GPUs, C2C NVIDIA's to a Grace CPU; the tools of the vendors write
    them elsewhere, and hpckit in the same place.
    """

    SELF = "X"
    NV = "NV"
    XGMI = "XGMI"
    C2C = "C2C"
    PIX = "PIX"
    PXB = "PXB"
    PHB = "PHB"
    NODE = "NODE"
    SYS = "SYS"


class NcclPath(StrEnum):
    """NCCL's types of paths, nearest first; its PHB is one CPU, so it includes NODE."""

    LOC = "LOC"
    NVL = "NVL"
    NVB = "NVB"
    C2C = "C2C"
    PIX = "PIX"
    PXB = "PXB"
    P2C = "P2C"
    PXN = "PXN"
    PHB = "PHB"
    SYS = "SYS"


MOST_ROWS: Final = 576
"""As many devices as NCCL knows of one kind in one system (NCCL_TOPO_MAX_NODES)."""

_NV: Final = regex(r"NV(\d{1,2})", re.ASCII)
_KINDS: Final = frozenset(PathKind)
_MOST_SHOWN: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class PathTable:
    """What lies between each two devices of a node; row and column are in the order of `devices`.

    `devices` are the names as a matrix heads its columns with: `GPU0`, `NIC0`, `mlx5_0`. A cell is
    a PathKind, `NV` with its number of links (`NV18`); None is unknown. `is_recorded` says that a
    tool printed it; else it follows from the PCI tree and the links. `nccl` is the same in NCCL's
    words. Raises InvalidValue for a table that is not square, a device that heads two columns, and
    a cell that is no such word.
    """

    devices: tuple[str, ...]
    cells: tuple[tuple[str | None, ...], ...]
    nccl: tuple[tuple[NcclPath | None, ...], ...] = ()
    is_recorded: bool = False

    def __post_init__(self) -> None:
        size = len(self.devices)
        if size > MOST_ROWS:
            raise InvalidValue("devices", size, f"at most {MOST_ROWS}")
        if len(set(self.devices)) < size:
            raise InvalidValue("devices", "a duplicate name", "unique names")
        for key, rows in (("cells", self.cells), ("nccl", self.nccl)):
            is_left_out = key == "nccl" and not rows
            if not is_left_out and [len(row) for row in rows] != [size] * size:
                raise InvalidValue(key, "rows of another length", f"{size} rows of {size} cells")
        for cell in {cell for row in self.cells for cell in row if cell is not None}:
            if not _NV.fullmatch(cell) and cell not in _KINDS:
                expected = f"one of {', '.join(PathKind)}, or NV18"
                raise InvalidValue("cells", cell[:_MOST_SHOWN], expected)


@lru_cache(maxsize=256)
def path_kind(cell: str) -> PathKind:
    """The kind of a cell, `NV18` being NV. Raises ValueError."""
    return PathKind.NV if _NV.fullmatch(cell) else PathKind(cell)


def link_count(cell: str) -> int | None:
    """The links of an NV cell; None for any other."""
    match = _NV.fullmatch(cell)
    return int(match[1]) if match else None


# Sources: P100 80 GB/s over 4 NVLinks, V100 150 over 6 (Turing's are the same), A100 300 over 12,
# A40 and RTX A6000 56.25 over 4, H100 450 over 18, B200 900 over 18 (halved where they add both
# ways); of AMD the instinct documentation of MI100 and MI250, and amdgpu_xgmi.h (16, 25 and
# 32 GT/s): a link has 16 lanes of 23 GT/s in MI100, 25 in MI200, 32 in MI300 and 38.4 in MI350.
NVLINK_BYTES_PER_S: Final = {
    "1.0": 20e9,
    "2.0": 25e9,
    "2.2": 25e9,
    "3.0": 25e9,
    "3.1": 14.0625e9,
    "4.0": 25e9,
    "5.0": 50e9,
}
"""An NVLink by its version, as nvml.h names it."""

LINK_BYTES_PER_S: Final = {
    "sm_60": NVLINK_BYTES_PER_S["1.0"],
    "sm_70": NVLINK_BYTES_PER_S["2.0"],
    "sm_72": NVLINK_BYTES_PER_S["2.0"],
    "sm_75": NVLINK_BYTES_PER_S["2.2"],
    "sm_80": NVLINK_BYTES_PER_S["3.0"],
    "sm_86": NVLINK_BYTES_PER_S["3.1"],
    "sm_90": NVLINK_BYTES_PER_S["4.0"],
    "sm_100": NVLINK_BYTES_PER_S["5.0"],
    "sm_103": NVLINK_BYTES_PER_S["5.0"],
    "gfx908": 46e9,
    "gfx90a": 50e9,
    **dict.fromkeys(("gfx940", "gfx941", "gfx942"), 64e9),
    "gfx950": 76.8e9,
}
"""An NVLink or XGMI link by the architecture of its GPU."""
