"""One GPU as NVML tells of it through nvidia-ml-py, and why it does not tell the rest.

Besides hpckit this needs the standard library and pynvml only: it also runs inside jobs. Source of
every number: nvml.h as nvidia-ml-py 13.615 declares it.
"""

from __future__ import annotations

from ctypes import byref
from typing import Any, Final, TypeAlias

from hpckit.core.index_list import IndexList, index_list, set_bits
from hpckit.core.values import dataclass
from hpckit.node.capture.nvml_ask import Answer, Doubts, NvmlGpu, NvmlRefusal
from hpckit.node.path import NVLINK_BYTES_PER_S
from hpckit.node.pci import (
    PCIE_GT_PER_S,
    PciAddress,
    PciDevice,
    PcieLink,
    address_or_none,
    pci_address,
)
from hpckit.node.topology import (
    CpuLink,
    Gpu,
    GpuFabric,
    GpuHealth,
    GpuPlatform,
    GpuUuid,
    GpuVendor,
    LinkKind,
    NvLink,
    NvLinkRemote,
)

_CLOCKS_EVENT_REASONS: Final = (
    "GpuIdle",
    "ApplicationsClocksSetting",
    "SwPowerCap",
    "HwSlowdown",
    "SyncBoost",
    "SwThermalSlowdown",
    "HwThermalSlowdown",
    "HwPowerBrakeSlowdown",
    "DisplayClockSetting",
)
"""nvmlClocksEventReason* by their bit."""

# nvmlIntNvLinkDeviceType_t; 255 is "unknown".
_REMOTES: Final = {0: NvLinkRemote.GPU, 1: NvLinkRemote.NPU, 2: NvLinkRemote.SWITCH}

# NVML_NVLINK_VERSION_*.
_VERSION_NAMES: Final = ("1.0", "2.0", "2.2", "3.0", "3.1", "4.0", "5.0", "6.0")
_NVLINK_VERSIONS: Final = dict(enumerate(_VERSION_NAMES, 1))

_FABRIC_STATES: Final = {0: "NOT_SUPPORTED", 1: "NOT_STARTED", 2: "IN_PROGRESS", 3: "COMPLETED"}
_FABRIC_SUMMARIES: Final = {1: "HEALTHY", 2: "UNHEALTHY", 3: "LIMITED_CAPACITY"}
# NVML_GPU_FABRIC_HEALTH_MASK_*: each two bits wide, 1 is true.
_FABRIC_TROUBLES: Final = (
    ("DEGRADED_BW", 0),
    ("ROUTE_RECOVERY", 2),
    ("ROUTE_UNHEALTHY", 4),
    ("ACCESS_TIMEOUT_RECOVERY", 6),
)
# … and four bits wide at 8.
_FABRIC_CONFIGURATIONS: Final = {
    2: "INCORRECT_SYSGUID",
    3: "INCORRECT_CHASSIS_SN",
    4: "NO_PARTITION",
    5: "INSUFFICIENT_NVLINKS",
    6: "INCOMPATIBLE_GPU_FW",
    7: "INVALID_LOCATION",
    8: "GPU_STATE_INVALID",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NvmlDevice:
    """What NVML says of one GPU.

    `link_bytes_per_s` is that of one NVLink in one direction, `c2c` are the links to its own CPU,
    `is_guest` whether it was passed to a virtual machine; `doubts` is what is not known of it.
    """

    gpu: Gpu
    doubts: Doubts
    pci: PciDevice | None = None
    link_bytes_per_s: float | None = None
    c2c: CpuLink | None = None
    is_guest: bool | None = None


_ACTIVE: Final = 1
_MIG_ENABLED: Final = 1
_GUEST_MODES: Final = (1, 2)
"""nvmlGpuVirtualizationMode_t: passed through, and a part of one, to a virtual machine."""
_NO_UUID: Final = "0" * 32
# Linux has at most 8192 CPUs (NR_CPUS) and 1024 NUMA nodes (MAX_NUMNODES).
_CPU_WORDS: Final = 8192 // 64
_NODE_WORDS: Final = 1024 // 64


def read_device(asked: NvmlGpu) -> NvmlDevice:
    """Return everything that NVML says of a GPU; what is None is in `doubts` with its reason."""
    uuid = asked.text("uuid", asked.ask("nvmlDeviceGetUUID"))
    capability = asked.known("architecture", asked.ask("nvmlDeviceGetCudaComputeCapability"))
    memory_numa = _indices(asked, "memory_numa", "nvmlDeviceGetMemoryAffinity", _NODE_WORDS)
    links = _nvlinks(asked, capability)
    bus = asked.ask("nvmlDeviceGetPciInfo")
    mig_mode = asked.ask("nvmlDeviceGetMigMode")
    gpu = Gpu(
        index=asked.index,
        name=asked.text("name", asked.ask("nvmlDeviceGetName")),
        vendor=GpuVendor.NVIDIA,
        pci=_address(asked, _field(bus, "busId")),
        uuid=None if uuid is None else GpuUuid(uuid),
        serial=asked.text("serial", asked.ask("nvmlDeviceGetSerial")),
        architecture=f"sm_{capability[0]}{capability[1]}" if capability else None,
        memory_bytes=asked.number(
            "memory_bytes", _field(asked.ask("nvmlDeviceGetMemoryInfo"), "total")
        ),
        numa_index=_only(asked, memory_numa),
        own_numa_index=_own_numa(asked),
        cpus=_indices(asked, "cpus", "nvmlDeviceGetCpuAffinityWithinScope", _CPU_WORDS),
        memory_numa=memory_numa,
        is_mig=_is_mig(asked, mig_mode),
        mig_devices=_mig_devices(asked, mig_mode),
        nvlinks=links.nvlinks,
        nvlink_version=links.version,
        fabric=_fabric(asked),
        platform=asked.known("platform", _platform(asked)),
        health=_health(asked),
    )
    mode = asked.ask("nvmlDeviceGetVirtualizationMode")
    return NvmlDevice(
        gpu=gpu,
        doubts=asked,
        pci=_pci_device(asked, gpu, bus),
        link_bytes_per_s=links.bytes_per_s,
        c2c=_c2c(asked, gpu, capability),
        is_guest=None if isinstance(mode, NvmlRefusal) else mode in _GUEST_MODES,
    )


def silent_device(index: int, reason: str) -> NvmlDevice:
    """Return a GPU that has told nothing, and why."""
    doubts = Doubts(f"GPU{index}")
    doubts.note("name", f"NVML: {reason}")
    return NvmlDevice(
        gpu=Gpu(index=index, vendor=GpuVendor.NVIDIA, health=GpuHealth()), doubts=doubts
    )


def _field(answer: Answer[Any], name: str) -> Answer[Any]:
    """A field of a structure; a text that is none (nvidia-ml-py decodes when asked) is refused."""
    if isinstance(answer, NvmlRefusal):
        return answer
    try:
        return getattr(answer, name)
    except UnicodeDecodeError:
        return NvmlRefusal(reason="the answer is not text")


def _own_numa(asked: NvmlGpu) -> int | None:
    """The node of the GPU's own memory; where it is none NVML does not support the question."""
    answer = asked.ask("nvmlDeviceGetNumaNodeId")
    if isinstance(answer, NvmlRefusal) and answer.reason == "NotSupported":
        return None
    return asked.number("own_numa_index", answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Links:
    nvlinks: tuple[NvLink, ...] | None = ()
    version: str | None = None
    bytes_per_s: float | None = None


_MOST_LINKS: Final = 36  # nvml.h: NVML_NVLINK_MAX_LINKS
_MOST_C2C: Final = 64
_HOPPER: Final = (9, 0)
# Where NVML does not count them. NCCL, src/graph/xml.cc: the most links by compute capability.
_MOST_BY_CAPABILITY: Final = (((6, 0), 0), ((7, 0), 4), ((8, 0), 6), ((9, 0), 12))
_MOST_SINCE_HOPPER: Final = 18
_BYTES_PER_MB: Final = 1e6

_Capability: TypeAlias = tuple[int, int] | None


def _nvlinks(asked: NvmlGpu, capability: _Capability) -> _Links:
    """The links that a GPU has, those that are down too, their version and their rate.

    NotSupported of all is a GPU that has none. The rate is that of the version, else on the wire.
    """
    nvml = asked.nvml
    (count,) = asked.fields([(nvml.NVML_FI_DEV_NVLINK_LINK_COUNT, 0)])
    links = range(min(_count(count, capability), _MOST_LINKS))
    states = _states(asked, links, capability)
    speeds = asked.fields(
        [(nvml.NVML_FI_DEV_NVLINK_GET_SPEED, at) for at in links] if links else []
    )
    # nvml.h gives InvalidArgument for a link that the GPU does not have.
    there = [at for at in links if states[at] != NvmlRefusal(reason="InvalidArgument")]
    refused = [state for at in there if isinstance(state := states[at], NvmlRefusal)]
    if refused and len(refused) == len(there):
        if refused[0].reason == "NotSupported":
            return _Links()
        asked.known("nvlinks", refused[0])
        return _Links(nvlinks=None)
    active = [at for at in there if states[at] == _ACTIVE]
    versions = [asked.ask("nvmlDeviceGetNvLinkVersion", at) for at in active]
    known = (one for one in versions if not isinstance(one, NvmlRefusal))
    version = next((_NVLINK_VERSIONS[one] for one in known if one in _NVLINK_VERSIONS), None)
    wires = [
        speed for at in active if not isinstance(speed := speeds[at], NvmlRefusal) and speed > 0
    ]
    on_wire = wires[0] * _BYTES_PER_MB if wires else None
    return _Links(
        nvlinks=tuple(_link(asked, at, states[at]) for at in there),
        version=version,
        bytes_per_s=NVLINK_BYTES_PER_S.get(version or "", on_wire),
    )


def _count(count: Answer[int], capability: _Capability) -> int:
    if not isinstance(count, NvmlRefusal):
        return count
    if capability is None:
        return _MOST_SINCE_HOPPER
    fitting = (most for below, most in _MOST_BY_CAPABILITY if capability < below)
    return next(fitting, _MOST_SINCE_HOPPER)


def _states(asked: NvmlGpu, links: range, capability: _Capability) -> dict[int, Answer[int]]:
    """1 for an active link. As NCCL: from Hopper on by a field, before by a call for each."""
    states: dict[int, Answer[int]] = {}
    if links and (capability is None or capability >= _HOPPER):
        field = asked.nvml.NVML_FI_DEV_NVLINK_GET_STATE
        states = dict(zip(links, asked.fields([(field, at) for at in links]), strict=True))
    for link in links:
        if isinstance(states.get(link, NvmlRefusal(reason="")), NvmlRefusal):
            states[link] = asked.ask("nvmlDeviceGetNvLinkState", link)
    return states


def _link(asked: NvmlGpu, index: int, state: Answer[int]) -> NvLink:
    number = asked.number(f"nvlinks.{index}.is_active", state)
    if number != _ACTIVE:
        return NvLink(index=index, is_active=None if number is None else False)
    remote = asked.ask("nvmlDeviceGetNvLinkRemoteDeviceType", index)
    bus_id = _field(asked.ask("nvmlDeviceGetNvLinkRemotePciInfo", index), "busId")
    kind = None if isinstance(remote, NvmlRefusal) else _REMOTES.get(remote)
    if kind is None:
        reason = remote.reason if isinstance(remote, NvmlRefusal) else f"device type {remote}"
        asked.note("nvlinks.remote", f"NVML: {reason}")
    return NvLink(
        index=index,
        is_active=True,
        remote=kind,
        # A virtual machine shows none, or one without sense.
        remote_pci=None if isinstance(bus_id, NvmlRefusal) else address_or_none(bus_id),
    )


def _c2c(asked: NvmlGpu, gpu: Gpu, capability: _Capability) -> CpuLink | None:
    """The C2C links to a GPU's own CPU, which Grace has; none before Hopper."""
    if capability is not None and capability < _HOPPER:
        return None
    nvml = asked.nvml
    (count,) = asked.fields([(nvml.NVML_FI_DEV_C2C_LINK_COUNT, 0)])
    if isinstance(count, NvmlRefusal) and count.reason in {"NotSupported", "InvalidArgument"}:
        return None
    links = range(min(asked.known("cpu_links", count) or 0, _MOST_C2C))
    status, rate = nvml.NVML_FI_DEV_C2C_LINK_GET_STATUS, nvml.NVML_FI_DEV_C2C_LINK_GET_MAX_BW
    wanted = [(field, link) for link in links for field in (status, rate)]
    answers = asked.fields(wanted) if wanted else []
    active = [rate for is_up, rate in zip(answers[::2], answers[1::2], strict=True) if is_up == 1]
    if not active:
        return None
    rates = [rate for rate in active if not isinstance(rate, NvmlRefusal)]
    is_known = len(rates) == len(active) and all(rates)
    return CpuLink(
        gpu_index=gpu.index,
        kind=LinkKind.C2C,
        numa_index=gpu.numa_index,
        count=len(active),
        bandwidth_bytes_per_s=sum(rates) * _BYTES_PER_MB if is_known else None,
    )


def _pci_device(asked: NvmlGpu, gpu: Gpu, bus: Answer[Any]) -> PciDevice | None:
    """The GPU's place on the PCI tree, without what is above it; None without an address.

    `gpu_max_…` would be the GPU's alone, and is not asked.
    """
    if gpu.pci is None:
        return None
    vendor, device = _halves(asked.known("pci.device_id", _field(bus, "pciDeviceId")))
    of_card = _halves(asked.known("pci.subsystem_id", _field(bus, "pciSubSystemId")))
    return PciDevice(
        address=gpu.pci,
        vendor_id=vendor,
        device_id=device,
        subsystem_vendor_id=of_card[0],
        subsystem_device_id=of_card[1],
        numa_index=gpu.numa_index,
        link=PcieLink(
            speed_gt_per_s=_speed(asked, "pci.speed_gt_per_s", "Curr"),
            width=_width(asked, "pci.width", "Curr"),
            max_speed_gt_per_s=_speed(asked, "pci.max_speed_gt_per_s", "Max"),
            max_width=_width(asked, "pci.max_width", "Max"),
        ),
    )


def _halves(number: int | None) -> tuple[int | None, int | None]:
    return (None, None) if number is None else (number & 0xFFFF, number >> 16)


def _speed(asked: NvmlGpu, what: str, which: str) -> float | None:
    number = asked.number(what, asked.ask(f"nvmlDeviceGet{which}PcieLinkGeneration"))
    if number is not None and number not in PCIE_GT_PER_S:
        asked.note(what, f"NVML: PCIe generation {number}")
    return PCIE_GT_PER_S.get(number or 0)


def _width(asked: NvmlGpu, what: str, which: str) -> int | None:
    lanes = asked.number(what, asked.ask(f"nvmlDeviceGet{which}PcieLinkWidth"))
    if lanes == 0:
        asked.note(what, "NVML: 0 lanes")
    return lanes or None


def _address(asked: NvmlGpu, bus_id: Answer[str]) -> PciAddress | None:
    text = asked.text("pci", bus_id)
    if text is None:
        return None
    try:
        return pci_address(text)
    except ValueError as error:
        asked.note("pci", f"NVML: {error}")
        return None


def _indices(asked: NvmlGpu, what: str, name: str, size: int) -> IndexList | None:
    """A set of CPUs or NUMA nodes; an empty one is no affinity: a virtual machine has none.

    A mask is of 64-bit words, the lowest first.
    """
    words = asked.known(what, asked.ask(name, size, asked.nvml.NVML_AFFINITY_SCOPE_NODE))
    if words is None:
        return None
    found = set_bits(sum(word << 64 * at for at, word in enumerate(words)))
    if not found:
        asked.note(what, "NVML: empty set")
        return None
    return index_list(found)


def _only(asked: NvmlGpu, nodes: IndexList | None) -> int | None:
    if nodes is None:
        asked.note("numa_index", asked.because("memory_numa"))
        return None
    if not nodes.isdecimal():
        asked.note("numa_index", f"NVML: memory affinity to several NUMA nodes, {nodes}")
        return None
    return int(nodes)


def _is_mig(asked: NvmlGpu, mode: Answer[Any]) -> bool | None:
    """nvmlDeviceGetMigMode(): NotSupported is a GPU that does not have MIG."""
    if isinstance(mode, NvmlRefusal) and mode.reason == "NotSupported":
        return False
    known = asked.known("is_mig", mode)
    return None if known is None else known[0] == _MIG_ENABLED


def _mig_devices(asked: NvmlGpu, mode: Answer[Any]) -> int | None:
    """How many there are: an index without a device is NotFound, those after it too."""
    if isinstance(mode, NvmlRefusal) or mode[0] != _MIG_ENABLED:
        return None
    most = asked.number("mig_devices", asked.ask("nvmlDeviceGetMaxMigDeviceCount"))
    for index in range(most or 0):
        found = asked.ask("nvmlDeviceGetMigDeviceHandleByIndex", index)
        if isinstance(found, NvmlRefusal):
            is_end = found.reason == "NotFound"
            return index if is_end else asked.known("mig_devices", found)
    return most


def _fabric(asked: NvmlGpu) -> GpuFabric | None:
    info = asked.known("fabric", _fabric_info(asked))
    if info is None:
        return None
    state = _FABRIC_STATES.get(info.state, f"state {info.state}")
    if state == "NOT_SUPPORTED":
        return GpuFabric(state=state)
    # An HGX board is a fabric of its own, without a name.
    uuid = bytes(info.clusterUuid).hex()
    named = "-".join((uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:]))
    return GpuFabric(
        state=state,
        cluster_uuid=named if uuid != _NO_UUID else None,
        clique_id=info.cliqueId if uuid != _NO_UUID else None,
        status=asked.return_word(info.status),
        health=fabric_health(info.healthMask, getattr(info, "healthSummary", None)),
    )


def _fabric_info(asked: NvmlGpu) -> Answer[Any]:
    """nvmlGpuFabricInfoV_t. Version 3 is of driver 570; an older one refuses it and knows 2."""
    answer: Answer[Any] = NvmlRefusal(reason="FunctionNotFound")
    for name in ("c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t"):
        structure = getattr(asked.nvml, name, None)
        if structure is None:
            continue
        info = structure()
        answer = asked.ask("nvmlDeviceGetGpuFabricInfoV", byref(info))
        if not isinstance(answer, NvmlRefusal):
            return info
        if answer.reason not in {"ArgumentVersionMismatch", "InvalidArgument"}:
            break
    return answer


def fabric_health(mask: int, told: int | None) -> str | None:
    """Return NVML's summary (since driver 570) with what the mask holds against it, or None."""
    troubles = [name for name, at in _FABRIC_TROUBLES if mask >> at & 3 == 1]
    configuration = _FABRIC_CONFIGURATIONS.get(mask >> 8 & 15)
    if configuration is not None:
        troubles.append(configuration)
    summary = _FABRIC_SUMMARIES.get(told or 0)
    if summary is None and mask:
        summary = "UNHEALTHY" if troubles else "HEALTHY"
    return f"{summary} ({', '.join(troubles)})" if summary and troubles else summary


def _platform(asked: NvmlGpu) -> Answer[GpuPlatform]:
    structure = getattr(asked.nvml, "c_nvmlPlatformInfo_v2_t", None)
    if structure is None:
        return NvmlRefusal(reason="FunctionNotFound")
    info = structure()
    refused = asked.ask("nvmlDeviceGetPlatformInfo", byref(info))
    if isinstance(refused, NvmlRefusal):
        return refused
    # Its fields are declared as characters, so that reading one of them above 127 fails: the bytes.
    raw = bytes(info)
    serial = structure.chassisSerialNumber
    text = raw[serial.offset : serial.offset + serial.size].split(b"\0")[0]
    return GpuPlatform(
        chassis_serial=text.decode("ascii", "replace").strip() or None,
        slot_number=raw[structure.slotNumber.offset],
        tray_index=raw[structure.trayIndex.offset],
        host_id=raw[structure.hostId.offset],
        module_id=raw[structure.moduleId.offset],
    )


def _health(asked: NvmlGpu) -> GpuHealth:
    nvml, uncorrected = asked.nvml, asked.nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED

    def number(what: str, name: str, *arguments: Any) -> int | None:
        return asked.number(f"health.{what}", asked.ask(name, *arguments))

    def errors(what: str, counter: int) -> int | None:
        return number(what, "nvmlDeviceGetTotalEccErrors", uncorrected, counter)

    rows = asked.known("health.remapped_rows", asked.ask("nvmlDeviceGetRemappedRows"))
    ecc = asked.known("health.ecc_enabled", asked.ask("nvmlDeviceGetEccMode"))
    power_mw = number("power_w", "nvmlDeviceGetPowerUsage")
    limit_mw = number("power_limit_w", "nvmlDeviceGetEnforcedPowerLimit")
    return GpuHealth(
        clocks_event_reasons=_clocks_event_reasons(asked),
        remapped_rows_correctable=rows[0] if rows else None,
        remapped_rows_uncorrectable=rows[1] if rows else None,
        remapping_pending=bool(rows[2]) if rows else None,
        remapping_failed=bool(rows[3]) if rows else None,
        ecc_enabled=bool(ecc[0]) if ecc else None,
        ecc_uncorrected_volatile=errors("ecc_uncorrected_volatile", nvml.NVML_VOLATILE_ECC),
        ecc_uncorrected_aggregate=errors("ecc_uncorrected_aggregate", nvml.NVML_AGGREGATE_ECC),
        temperature_c=number(
            "temperature_c", "nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU
        ),
        power_w=None if power_mw is None else power_mw / 1000,
        power_limit_w=None if limit_mw is None else limit_mw / 1000,
        pcie_replays=number("pcie_replays", "nvmlDeviceGetPcieReplayCounter"),
    )


def _clocks_event_reasons(asked: NvmlGpu) -> tuple[str, ...] | None:
    """The names of the bits that are set; one that nvml.h does not have yet is its number."""
    answer = asked.ask("nvmlDeviceGetCurrentClocksEventReasons")
    if isinstance(answer, NvmlRefusal) and answer.reason == "FunctionNotFound":
        # Its name before driver 535; the bits are the same.
        answer = asked.ask("nvmlDeviceGetCurrentClocksThrottleReasons")
    bits = asked.known("health.clocks_event_reasons", answer)
    if bits is None:
        return None
    names = dict(enumerate(_CLOCKS_EVENT_REASONS))
    return tuple(
        names.get(at, f"{1 << at:#x}") for at in range(bits.bit_length()) if bits >> at & 1
    )
