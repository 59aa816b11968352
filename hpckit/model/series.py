"""What samplers measured, as arrays: the rows of a node's sample file, a piece at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from hpckit.model.samples import GPU_COLUMNS

_NUMPY_CODES = {"B": "<u1", "H": "<u2", "I": "<u4", "Q": "<u8"}
GPU_DTYPE = np.dtype([(column.name, _NUMPY_CODES[column.code]) for column in GPU_COLUMNS])
"""A record of `hpckit.model.samples.GPU_RECORD` for numpy."""


class HostColumn(Struct, frozen=True, kw_only=True):
    """A column of the host records.

    `name` is `cgroup.cpu_usage_us`, `psi.memory_full_us`, `ib.mlx5_0.1.tx_bytes`,
    `rapl.package-0.energy_uj` and the like, its unit at the end; `kind` is `gauge` or `counter`;
    `wraps_at` is the value at which a counter begins again from 0, None for 2^64.
    """

    name: str
    kind: str
    wraps_at: int | None = None


class SampledGpu(Struct, frozen=True, kw_only=True):
    """A GPU of a sample file, in the order of the column `gpu`.

    `energy` is `counter` or None, `power` is `average` (of one second), `instant`, `usage` (whose
    meaning depends on the GPU) or None; `scope` is `gpu` or `module` (Grace Hopper: with the CPU
    and memory). `refused` says why a quantity is not measured, by column.
    """

    uuid: str
    index: int
    name: str | None = None
    pci: str | None = None
    vendor: str = "nvidia"
    power_limit_w: float | None = None
    memory_bytes: int | None = None
    max_sm_mhz: int | None = None
    energy: str | None = None
    power: str | None = None
    scope: str = "gpu"
    mig: bool = False
    refused: Mapping[str, str] = field(default_factory=dict)


class SampleMeta(Struct, frozen=True, kw_only=True):
    """The META block of a sample file. `rest` is what this version does not know."""

    node: str
    hz: float
    job_id: str | None = None
    array_task: int | None = None
    restart: int = 0
    boot_id: str | None = None
    synthetic: bool = False
    hpckit: str | None = None
    gpus: tuple[SampledGpu, ...] = ()
    host_columns: tuple[HostColumn, ...] = ()
    host_refused: Mapping[str, str] = field(default_factory=dict)
    cpus: int | None = None
    memory_limit_bytes: int | None = None
    exclusive: bool | None = None
    rest: Mapping[str, Any] = field(default_factory=dict)


class SampleChunk(Struct, frozen=True, kw_only=True):
    """Some consecutive blocks of one file.

    `gpu_ns` (int64, CLOCK_MONOTONIC) has the time of each row of `gpu` (GPU_DTYPE); `host_ns` and
    `host` (uint64, a column each of `meta.host_columns`) those of the host. Rows are in the order
    of the file, which is that of time. `realtime_offset_ns` is CLOCK_REALTIME less
    CLOCK_MONOTONIC at the first block, `boottime_offset_ns` that of CLOCK_BOOTTIME: it grows while
    the machine sleeps. `events` are the objects of EVENTS blocks.
    """

    meta: SampleMeta
    gpu_ns: NDArray[np.int64]
    gpu: NDArray[np.void]
    host_ns: NDArray[np.int64]
    host: NDArray[np.uint64]
    realtime_offset_ns: int
    boottime_offset_ns: int
    events: tuple[Mapping[str, Any], ...] = ()


class FileCondition(Struct, frozen=True, kw_only=True):
    """How whole a sample file was: bytes that were no block, and blocks that are not there."""

    bytes_read: int
    lost_bytes: int
    lost_blocks: int
    is_cut_short: bool
