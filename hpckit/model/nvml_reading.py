"""What NVML answered, as it answered: numbers and texts of nvml.h, or its reason not to.

The library is asked in hpckit/adapters/nvml.py and understood in hpckit/parse/nvml.py. Numbers are
those of nvml.h's enums and in its units; names of fields end in the unit where there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

LOST: Final = frozenset({"GpuIsLost", "ResetRequired", "GpuNotFound"})
"""Reasons for which a GPU answers nothing more."""

LIBRARY_MISSING: Final = "LibraryNotFound"


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlRefusal:
    """Why there is no answer: nvml.h's error in pynvml's spelling (`NotSupported`), or a sentence.

    Source: nvml.h, nvmlReturn_t; `NVML_ERROR_GPU_IS_LOST` is `GpuIsLost`.
    """

    reason: str


Answered = TypeVar("Answered")
Answer: TypeAlias = Answered | NvmlRefusal

NOT_ASKED: Final = NvmlRefusal(reason="not asked")


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlLinkReading:
    """An NVLink: `state` 1 is active; the rest is asked of an active one alone.

    `remote_type` is nvmlIntNvLinkDeviceType_t, `version` NVML_NVLINK_VERSION_*; `speed_mb_per_s`
    is that on the wire, in one direction.
    """

    index: int
    state: Answer[int] = NOT_ASKED
    speed_mb_per_s: Answer[int] = NOT_ASKED
    version: Answer[int] = NOT_ASKED
    remote_type: Answer[int] = NOT_ASKED
    remote_bus_id: Answer[str] = NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlC2cReading:
    """One of the links from a GPU to its own CPU; `status` 1 is active."""

    status: Answer[int] = NOT_ASKED
    mb_per_s: Answer[int] = NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlFabricReading:
    """nvmlGpuFabricInfoV_t; `cluster_uuid` is 32 hex digits, `health_summary` that of version 3."""

    cluster_uuid: str
    status: int
    clique_id: int
    state: int
    health_mask: int
    health_summary: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlPlatformReading:
    """nvmlPlatformInfo_v2_t."""

    chassis_serial: str
    slot_number: int
    tray_index: int
    host_id: int
    module_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlPcieReading:
    """What NVML says of a GPU's PCIe link; `gpu_max_…` would be the GPU's alone, and is not here.

    `device_id` and `subsystem_id` are the two halves of 16 bits as nvmlPciInfo_t has them, the
    vendor's the lower one.
    """

    bus_id: Answer[str] = NOT_ASKED
    device_id: Answer[int] = NOT_ASKED
    subsystem_id: Answer[int] = NOT_ASKED
    generation: Answer[int] = NOT_ASKED
    width: Answer[int] = NOT_ASKED
    max_generation: Answer[int] = NOT_ASKED
    max_width: Answer[int] = NOT_ASKED
    replays: Answer[int] = NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlHealthReading:
    """What changes from second to second.

    `remapped_rows` are correctable, uncorrectable, pending, failed; `ecc_mode` current, pending.
    """

    clocks_event_reasons: Answer[int] = NOT_ASKED
    remapped_rows: Answer[tuple[int, int, int, int]] = NOT_ASKED
    ecc_mode: Answer[tuple[int, int]] = NOT_ASKED
    ecc_uncorrected_volatile: Answer[int] = NOT_ASKED
    ecc_uncorrected_aggregate: Answer[int] = NOT_ASKED
    temperature_c: Answer[int] = NOT_ASKED
    power_mw: Answer[int] = NOT_ASKED
    power_limit_mw: Answer[int] = NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlDeviceReading:
    """A GPU: everything asked of it alone.

    `cpu_affinity` and `memory_affinity` are masks of 64-bit words, the lowest first. `mig_mode` is
    current and pending. `virtualization` is nvmlGpuVirtualizationMode_t.
    """

    index: int
    name: Answer[str] = NOT_ASKED
    uuid: Answer[str] = NOT_ASKED
    serial: Answer[str] = NOT_ASKED
    compute_capability: Answer[tuple[int, int]] = NOT_ASKED
    memory_bytes: Answer[int] = NOT_ASKED
    cpu_affinity: Answer[tuple[int, ...]] = NOT_ASKED
    memory_affinity: Answer[tuple[int, ...]] = NOT_ASKED
    numa_node_id: Answer[int] = NOT_ASKED
    mig_mode: Answer[tuple[int, int]] = NOT_ASKED
    mig_devices: Answer[int] = NOT_ASKED
    virtualization: Answer[int] = NOT_ASKED
    fabric: Answer[NvmlFabricReading] = NOT_ASKED
    platform: Answer[NvmlPlatformReading] = NOT_ASKED
    links: Answer[tuple[NvmlLinkReading, ...]] = NOT_ASKED
    c2c: Answer[tuple[NvmlC2cReading, ...]] = NOT_ASKED
    pcie: NvmlPcieReading = NvmlPcieReading()
    health: NvmlHealthReading = NvmlHealthReading()


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlPairReading:
    """Two GPUs, `a` before `b`: nvmlGpuTopologyLevel_t, and nvmlGpuP2PStatus_t from `a` to `b`."""

    a: int
    b: int
    ancestor: Answer[int] = NOT_ASKED
    p2p_read: Answer[int] = NOT_ASKED
    p2p_write: Answer[int] = NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlReading:
    """All that NVML told of a node; `refused` is why it told nothing."""

    refused: NvmlRefusal | None = None
    driver_version: Answer[str] = NOT_ASKED
    nvml_version: Answer[str] = NOT_ASKED
    devices: tuple[NvmlDeviceReading, ...] = ()
    pairs: tuple[NvmlPairReading, ...] = ()
