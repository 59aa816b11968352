"""What one link between GPUs carries in one direction, as the data sheets have it.

Sources: P100 80 GB/s over 4 NVLinks, V100 150 over 6 (Turing's are the same), A100 300 over 12,
A40 and RTX A6000 56.25 over 4, H100 450 over 18, B200 900 over 18 (halved where they add both
ways); of AMD the instinct documentation of MI100 and MI250, and amdgpu_xgmi.h (16, 25 and
32 GT/s): a link has 16 lanes of 23 GT/s in MI100, 25 in MI200, 32 in MI300 and 38.4 in MI350.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

NVLINK_BYTES_PER_S: Final = MappingProxyType(
    {
        "1.0": 20e9,
        "2.0": 25e9,
        "2.2": 25e9,
        "3.0": 25e9,
        "3.1": 14.0625e9,
        "4.0": 25e9,
        "5.0": 50e9,
    }
)
"""An NVLink by its version, as nvml.h names it."""

LINK_BYTES_PER_S: Final = MappingProxyType(
    {
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
        "gfx940": 64e9,
        "gfx941": 64e9,
        "gfx942": 64e9,
        "gfx950": 76.8e9,
    }
)
"""An NVLink or XGMI link by the architecture of its GPU."""
