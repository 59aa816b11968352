"""NVML asked through nvidia-ml-py: answers as numbers and texts, refusals by their name.

What they mean is in nvml_node.py beside it. Besides hpckit this needs the standard library and
pynvml only: it also runs inside jobs.
"""

from __future__ import annotations

import threading
from ctypes import byref
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

# The numbers are those of nvml.h's enums and in its units; names of fields end in the unit where
# there is one. nvml_node.py understands them.
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


class NvmlLibrary:
    """The module `pynvml`, asked by the names of its functions."""

    def __init__(self, pynvml: Any) -> None:
        self._pynvml = pynvml

    def ask(self, name: str, *arguments: Any) -> Answer[Any]:
        """What a function returns, or why it does not."""
        function = getattr(self._pynvml, name, None)
        if function is None:
            return NvmlRefusal(reason=f"nvidia-ml-py here is too old for {name}")
        try:
            return function(*arguments)
        except self._pynvml.NVMLError as error:
            return self.refusal(error)
        except UnicodeDecodeError:
            return NvmlRefusal(reason="an answer that is no text")

    def refusal(self, error: Any) -> NvmlRefusal:
        """The refusal that an NVMLError is; one without a name of its own has its number."""
        name = type(error).__name__
        if name == "NVMLError":
            return NvmlRefusal(reason=f"NVML error {error.value}")
        return NvmlRefusal(reason=name.removeprefix("NVMLError_"))

    def gpu(self, index: int) -> NvmlGpu:
        """The GPU of an index; one without a handle is lost."""
        handle = self.ask("nvmlDeviceGetHandleByIndex", index)
        lost = handle if isinstance(handle, NvmlRefusal) else None
        return NvmlGpu(self, self._pynvml, handle, lost)


class NvmlGpu:
    """A GPU that is asked; once it is lost it is not asked again: each try may take seconds.

    `nvml` is the module `pynvml`, for its constants and structures.
    """

    def __init__(
        self, library: NvmlLibrary, pynvml: Any, handle: Any, lost: NvmlRefusal | None
    ) -> None:
        self.nvml = pynvml
        self.handle = handle
        self.lost = lost
        self._library = library

    def ask(self, name: str, *arguments: Any) -> Answer[Any]:
        """What a function says of this GPU, which is its first argument."""
        if self.lost is not None:
            return self.lost
        answer = self._library.ask(name, self.handle, *arguments)
        if isinstance(answer, NvmlRefusal) and answer.reason in LOST:
            self.lost = answer
        return answer

    def fields(self, wanted: list[tuple[int, int]]) -> list[Answer[int]]:
        """The unsigned numbers of fields, each asked by id and scope, in one call for all."""
        values = self.ask("nvmlDeviceGetFieldValues", wanted)
        if isinstance(values, NvmlRefusal):
            return [values] * len(wanted)
        return [
            self._library.refusal(self.nvml.NVMLError(one.nvmlReturn))
            if one.nvmlReturn
            else one.value.uiVal
            for one in values
        ]


_MOST_LINKS: Final = 36  # nvml.h: NVML_NVLINK_MAX_LINKS
_MOST_C2C: Final = 64
_HOPPER: Final = (9, 0)
# Where NVML does not count them. NCCL, src/graph/xml.cc: the most links by compute capability.
_MOST_BY_CAPABILITY: Final = (((6, 0), 0), ((7, 0), 4), ((8, 0), 6), ((9, 0), 12))
_MOST_SINCE_HOPPER: Final = 18


def nvlinks(
    gpu: NvmlGpu, capability: Answer[tuple[int, int]]
) -> Answer[tuple[NvmlLinkReading, ...]]:
    """The links that a GPU has, those that are down too; the first refusal where it has none."""
    nvml = gpu.nvml
    (count,) = gpu.fields([(nvml.NVML_FI_DEV_NVLINK_LINK_COUNT, 0)])
    links = range(min(_count(count, capability), _MOST_LINKS))
    if not links:
        return ()
    states = _states(gpu, links, capability)
    speeds = gpu.fields([(nvml.NVML_FI_DEV_NVLINK_GET_SPEED, link) for link in links])
    # nvml.h gives InvalidArgument for a link that the GPU does not have.
    beyond = NvmlRefusal(reason="InvalidArgument")
    there = [
        _link(gpu, link, states[link], speeds[link]) for link in links if states[link] != beyond
    ]
    refused = [one.state for one in there if isinstance(one.state, NvmlRefusal)]
    if refused and len(refused) == len(there):
        return refused[0]
    return tuple(there)


def _count(count: Answer[int], capability: Answer[tuple[int, int]]) -> int:
    if not isinstance(count, NvmlRefusal):
        return count
    if isinstance(capability, NvmlRefusal):
        return _MOST_SINCE_HOPPER
    fitting = (most for below, most in _MOST_BY_CAPABILITY if capability < below)
    return next(fitting, _MOST_SINCE_HOPPER)


def _states(
    gpu: NvmlGpu, links: range, capability: Answer[tuple[int, int]]
) -> dict[int, Answer[int]]:
    """1 for an active link. As NCCL: from Hopper on by a field, before by a call for each."""
    states: dict[int, Answer[int]] = {}
    if isinstance(capability, NvmlRefusal) or capability >= _HOPPER:
        field = gpu.nvml.NVML_FI_DEV_NVLINK_GET_STATE
        states = dict(zip(links, gpu.fields([(field, link) for link in links]), strict=True))
    for link in links:
        if isinstance(states.get(link, NvmlRefusal(reason="")), NvmlRefusal):
            states[link] = gpu.ask("nvmlDeviceGetNvLinkState", link)
    return states


def _link(gpu: NvmlGpu, link: int, state: Answer[int], speed: Answer[int]) -> NvmlLinkReading:
    if state != 1:
        return NvmlLinkReading(index=link, state=state, speed_mb_per_s=speed)
    return NvmlLinkReading(
        index=link,
        state=state,
        speed_mb_per_s=speed,
        version=gpu.ask("nvmlDeviceGetNvLinkVersion", link),
        remote_type=gpu.ask("nvmlDeviceGetNvLinkRemoteDeviceType", link),
        remote_bus_id=_field(gpu.ask("nvmlDeviceGetNvLinkRemotePciInfo", link), "busId"),
    )


def c2c_links(
    gpu: NvmlGpu, capability: Answer[tuple[int, int]]
) -> Answer[tuple[NvmlC2cReading, ...]]:
    """The links to the GPU's own CPU, which Grace has; none before Hopper."""
    if not isinstance(capability, NvmlRefusal) and capability < _HOPPER:
        return ()
    nvml = gpu.nvml
    (count,) = gpu.fields([(nvml.NVML_FI_DEV_C2C_LINK_COUNT, 0)])
    if isinstance(count, NvmlRefusal):
        return count
    links = range(min(count, _MOST_C2C))
    if not links:
        return ()
    status, rate = nvml.NVML_FI_DEV_C2C_LINK_GET_STATUS, nvml.NVML_FI_DEV_C2C_LINK_GET_MAX_BW
    answers = gpu.fields([(field, link) for link in links for field in (status, rate)])
    return tuple(
        NvmlC2cReading(status=answers[2 * link], mb_per_s=answers[2 * link + 1]) for link in links
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
        self._versions: tuple[Answer[str], ...] = ()
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
        self._versions = (
            self._nvml.ask("nvmlSystemGetDriverVersion"),
            self._nvml.ask("nvmlSystemGetNVMLVersion"),
        )
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
        unread = tuple(
            NvmlDeviceReading(index=index, name=late, uuid=late, pcie=NvmlPcieReading(bus_id=late))
            for index in range(len(known), self._count)
        )
        driver_version, nvml_version = self._versions or (late, late)
        return NvmlReading(
            refused=self._refused if self._is_over or self._count else late,
            driver_version=driver_version,
            nvml_version=nvml_version,
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
