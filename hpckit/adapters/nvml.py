"""NVML asked through nvidia-ml-py: answers as numbers and texts, refusals by their name.

What they mean is in hpckit/parse/nvml.py. Besides hpckit's model this needs the standard library
and pynvml only: it also runs inside jobs.
"""

from __future__ import annotations

import threading
from ctypes import byref
from typing import Any, Final

from hpckit.adapters.nvml_links import c2c_links, nvlinks
from hpckit.adapters.nvml_session import NvmlGpu, NvmlLibrary
from hpckit.model.nvml_reading import (
    LIBRARY_MISSING,
    Answer,
    NvmlDeviceReading,
    NvmlFabricReading,
    NvmlHealthReading,
    NvmlPairReading,
    NvmlPcieReading,
    NvmlPlatformReading,
    NvmlReading,
    NvmlRefusal,
)

DEFAULT_LIMIT_S: Final = 30.0
"""Without persistence mode the first question starts the driver on each GPU: seconds for eight."""

# Linux has at most 8192 CPUs (NR_CPUS) and 1024 NUMA nodes (MAX_NUMNODES).
_CPU_WORDS = 8192 // 64
_NODE_WORDS = 1024 // 64


def read_nvml(limit_s: float = DEFAULT_LIMIT_S) -> NvmlReading:
    """What NVML says of this node; never raises for what NVML, its library or a GPU refuses.

    `limit_s` bounds the whole: a broken driver can hang in any call. Then the GPUs read so far
    are there, and the others say that they did not answer.
    """
    try:
        import pynvml
    except ImportError:
        reason = f"{LIBRARY_MISSING}: the Python package nvidia-ml-py is not installed"
        return NvmlReading(refused=NvmlRefusal(reason=reason))
    survey = _Survey(NvmlLibrary(pynvml))
    # A daemon: what hangs in the driver must not hold the process that only wanted to look.
    thread = threading.Thread(target=survey.run, name="nvml", daemon=True)
    thread.start()
    thread.join(limit_s)
    return survey.reading(NvmlRefusal(reason=f"no answer within {limit_s:g} s"))


class NvmlDriver:
    """NVIDIA's driver through NVML, waited for `limit_s` seconds."""

    def __init__(self, limit_s: float = DEFAULT_LIMIT_S) -> None:
        self._limit_s = limit_s

    def read(self) -> NvmlReading:
        """What NVML says of this node, and why not where it does not."""
        return read_nvml(self._limit_s)


class _Survey:
    """One reading as it grows; `reading` may be called while `run` hangs in another thread."""

    def __init__(self, nvml: NvmlLibrary) -> None:
        self._nvml = nvml
        self._is_over = False
        self._versions: tuple[Answer[str], Answer[str]] | None = None
        self._refused: NvmlRefusal | None = None
        self._count = 0
        self._devices: list[NvmlDeviceReading] = []
        self._pairs: list[NvmlPairReading] = []

    def run(self) -> None:
        begun = self._nvml.ask("nvmlInit")
        if isinstance(begun, NvmlRefusal):
            self._refused = begun
        else:
            self._look()
            self._nvml.ask("nvmlShutdown")
        self._is_over = True

    def _look(self) -> None:
        driver, library = (
            self._nvml.ask("nvmlSystemGetDriverVersion"),
            self._nvml.ask("nvmlSystemGetNVMLVersion"),
        )
        self._versions = (driver, library)
        count: Answer[int] = self._nvml.ask("nvmlDeviceGetCount")
        if isinstance(count, NvmlRefusal):
            self._refused = count
            return
        self._count = count
        gpus = [self._nvml.gpu(index) for index in range(count)]
        for index, gpu in enumerate(gpus):
            self._devices.append(_device(index, gpu))
        for a, one in enumerate(gpus):
            for b in range(a + 1, count):
                self._pairs.append(_pair(a, b, one, gpus[b]))

    def reading(self, late: NvmlRefusal) -> NvmlReading:
        """What is known now; GPUs that nobody has asked yet are `late`."""
        known = tuple(self._devices)
        missing = range(len(known), self._count)
        unread = tuple(
            NvmlDeviceReading(index=index, name=late, uuid=late, pcie=NvmlPcieReading(bus_id=late))
            for index in missing
        )
        versions = self._versions
        return NvmlReading(
            refused=self._refused if self._is_over or self._count else late,
            driver_version=versions[0] if versions else late,
            nvml_version=versions[1] if versions else late,
            devices=known + unread,
            pairs=tuple(self._pairs),
        )


def _pair(a: int, b: int, one: NvmlGpu, other: NvmlGpu) -> NvmlPairReading:
    """Asked from `a` to `b` alone: NVML answers the same the other way around."""
    if other.lost is not None:
        return NvmlPairReading(a=a, b=b, ancestor=other.lost)
    nvml = one.nvml
    return NvmlPairReading(
        a=a,
        b=b,
        ancestor=one.ask("nvmlDeviceGetTopologyCommonAncestor", other.handle),
        # As numbers: nvidia-ml-py's NVML_P2P_CAPS_INDEX_READ is a tuple, by a stray comma.
        p2p_read=one.ask("nvmlDeviceGetP2PStatus", other.handle, 0),
        p2p_write=one.ask("nvmlDeviceGetP2PStatus", other.handle, nvml.NVML_P2P_CAPS_INDEX_WRITE),
    )


def _device(index: int, gpu: NvmlGpu) -> NvmlDeviceReading:
    capability: Answer[tuple[int, int]] = gpu.ask("nvmlDeviceGetCudaComputeCapability")
    mig_mode = _two(gpu.ask("nvmlDeviceGetMigMode"))
    scope = gpu.nvml.NVML_AFFINITY_SCOPE_NODE
    return NvmlDeviceReading(
        index=index,
        name=gpu.ask("nvmlDeviceGetName"),
        uuid=gpu.ask("nvmlDeviceGetUUID"),
        serial=gpu.ask("nvmlDeviceGetSerial"),
        compute_capability=capability,
        memory_bytes=_field(gpu.ask("nvmlDeviceGetMemoryInfo"), "total"),
        cpu_affinity=_words(gpu.ask("nvmlDeviceGetCpuAffinityWithinScope", _CPU_WORDS, scope)),
        memory_affinity=_words(gpu.ask("nvmlDeviceGetMemoryAffinity", _NODE_WORDS, scope)),
        numa_node_id=gpu.ask("nvmlDeviceGetNumaNodeId"),
        mig_mode=mig_mode,
        mig_devices=_mig_devices(gpu, mig_mode),
        virtualization=gpu.ask("nvmlDeviceGetVirtualizationMode"),
        fabric=_fabric(gpu),
        platform=_platform(gpu),
        links=nvlinks(gpu, capability),
        c2c=c2c_links(gpu, capability),
        pcie=_pcie(gpu),
        health=_health(gpu),
    )


def _pcie(gpu: NvmlGpu) -> NvmlPcieReading:
    info: Answer[Any] = gpu.ask("nvmlDeviceGetPciInfo")
    return NvmlPcieReading(
        bus_id=_field(info, "busId"),
        device_id=_field(info, "pciDeviceId"),
        subsystem_id=_field(info, "pciSubSystemId"),
        generation=gpu.ask("nvmlDeviceGetCurrPcieLinkGeneration"),
        width=gpu.ask("nvmlDeviceGetCurrPcieLinkWidth"),
        max_generation=gpu.ask("nvmlDeviceGetMaxPcieLinkGeneration"),
        max_width=gpu.ask("nvmlDeviceGetMaxPcieLinkWidth"),
        replays=gpu.ask("nvmlDeviceGetPcieReplayCounter"),
    )


def _health(gpu: NvmlGpu) -> NvmlHealthReading:
    reasons = gpu.ask("nvmlDeviceGetCurrentClocksEventReasons")
    if isinstance(reasons, NvmlRefusal) and reasons.reason == "FunctionNotFound":
        # Its name before driver 535; the bits are the same.
        reasons = gpu.ask("nvmlDeviceGetCurrentClocksThrottleReasons")
    uncorrected = gpu.nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    return NvmlHealthReading(
        clocks_event_reasons=reasons,
        remapped_rows=gpu.ask("nvmlDeviceGetRemappedRows"),
        ecc_mode=_two(gpu.ask("nvmlDeviceGetEccMode")),
        ecc_uncorrected_volatile=gpu.ask(
            "nvmlDeviceGetTotalEccErrors", uncorrected, gpu.nvml.NVML_VOLATILE_ECC
        ),
        ecc_uncorrected_aggregate=gpu.ask(
            "nvmlDeviceGetTotalEccErrors", uncorrected, gpu.nvml.NVML_AGGREGATE_ECC
        ),
        temperature_c=gpu.ask("nvmlDeviceGetTemperature", gpu.nvml.NVML_TEMPERATURE_GPU),
        power_mw=gpu.ask("nvmlDeviceGetPowerUsage"),
        power_limit_mw=gpu.ask("nvmlDeviceGetEnforcedPowerLimit"),
    )


def _mig_devices(gpu: NvmlGpu, mode: Answer[tuple[int, int]]) -> Answer[int]:
    """How many there are: an index without a device is NotFound, those after it too."""
    if isinstance(mode, NvmlRefusal):
        return mode
    if mode[0] != gpu.nvml.NVML_DEVICE_MIG_ENABLE:
        return 0
    most: Answer[int] = gpu.ask("nvmlDeviceGetMaxMigDeviceCount")
    if isinstance(most, NvmlRefusal):
        return most
    for index in range(most):
        found = gpu.ask("nvmlDeviceGetMigDeviceHandleByIndex", index)
        if isinstance(found, NvmlRefusal):
            return index if found.reason == "NotFound" else found
    return most


def _fabric(gpu: NvmlGpu) -> Answer[NvmlFabricReading]:
    """Version 3 is of driver 570; an older one refuses it and knows 2."""
    answer: Answer[NvmlFabricReading] = NvmlRefusal(reason="FunctionNotFound")
    for name in ("c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t"):
        structure = getattr(gpu.nvml, name, None)
        if structure is None:
            continue
        info = structure()
        refused = gpu.ask("nvmlDeviceGetGpuFabricInfoV", byref(info))
        if not isinstance(refused, NvmlRefusal):
            return NvmlFabricReading(
                cluster_uuid=bytes(info.clusterUuid).hex(),
                status=info.status,
                clique_id=info.cliqueId,
                state=info.state,
                health_mask=info.healthMask,
                health_summary=getattr(info, "healthSummary", None),
            )
        answer = refused
        if refused.reason not in {"ArgumentVersionMismatch", "InvalidArgument"}:
            break
    return answer


def _platform(gpu: NvmlGpu) -> Answer[NvmlPlatformReading]:
    structure = getattr(gpu.nvml, "c_nvmlPlatformInfo_v2_t", None)
    if structure is None:
        return NvmlRefusal(reason="FunctionNotFound")
    info = structure()
    refused = gpu.ask("nvmlDeviceGetPlatformInfo", byref(info))
    if isinstance(refused, NvmlRefusal):
        return refused
    # Its fields are declared as characters, so that reading one of them above 127 fails: the bytes.
    raw = bytes(info)
    serial = structure.chassisSerialNumber
    return NvmlPlatformReading(
        chassis_serial=raw[serial.offset : serial.offset + serial.size]
        .split(b"\0")[0]
        .decode("ascii", "replace"),
        slot_number=raw[structure.slotNumber.offset],
        tray_index=raw[structure.trayIndex.offset],
        host_id=raw[structure.hostId.offset],
        module_id=raw[structure.moduleId.offset],
    )


def _field(answer: Answer[Any], name: str) -> Answer[Any]:
    """A field of a structure; a text that is none (nvidia-ml-py decodes when asked) is refused."""
    if isinstance(answer, NvmlRefusal):
        return answer
    try:
        return getattr(answer, name)
    except UnicodeDecodeError:
        return NvmlRefusal(reason="an answer that is no text")


def _words(answer: Answer[Any]) -> Answer[tuple[int, ...]]:
    if isinstance(answer, NvmlRefusal):
        return answer
    words = tuple(answer)
    while words and not words[-1]:
        words = words[:-1]
    return words


def _two(answer: Answer[Any]) -> Answer[tuple[int, int]]:
    return answer if isinstance(answer, NvmlRefusal) else (answer[0], answer[1])
