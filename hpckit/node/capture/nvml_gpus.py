"""One GPU, from what NVML answered about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from hpckit.core.index_list import IndexList, index_list
from hpckit.node.capture.nvml import (
    LOST,
    NOT_ASKED,
    Answer,
    NvmlC2cReading,
    NvmlDeviceReading,
    NvmlFabricReading,
    NvmlHealthReading,
    NvmlLinkReading,
    NvmlPairReading,
    NvmlPcieReading,
    NvmlRefusal,
)
from hpckit.node.path import NVLINK_BYTES_PER_S, PathKind
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
    GpuLink,
    GpuPlatform,
    GpuUuid,
    GpuVendor,
    LinkKind,
    NvLink,
    NvLinkRemote,
    Unknown,
)

# Source of every number here: nvml.h as nvidia-ml-py 13.615 declares it.
_Known = TypeVar("_Known")

ALL_GPUS: Final = "GPUs"
EVERYTHING: Final = "everything"

# NVML_VALUE_NOT_AVAILABLE is -1 as whatever integer the call has.
_NOT_AVAILABLE: Final = frozenset({0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF, -1})

CLOCKS_EVENT_REASONS: Final = (
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

# nvmlGpuTopologyLevel_t. INTERNAL is two GPUs of one board behind the board's own switch (K80).
ANCESTORS: Final = {
    0: PathKind.PIX,
    10: PathKind.PIX,
    20: PathKind.PXB,
    30: PathKind.PHB,
    40: PathKind.NODE,
    50: PathKind.SYS,
}

P2P_OK: Final = 0

# nvmlIntNvLinkDeviceType_t; 255 is "unknown".
REMOTES: Final = {0: NvLinkRemote.GPU, 1: NvLinkRemote.NPU, 2: NvLinkRemote.SWITCH}

# NVML_NVLINK_VERSION_*.
_VERSIONS: Final = ("1.0", "2.0", "2.2", "3.0", "3.1", "4.0", "5.0", "6.0")
NVLINK_VERSIONS: Final = dict(enumerate(_VERSIONS, 1))

FABRIC_STATES: Final = {0: "NOT_SUPPORTED", 1: "NOT_STARTED", 2: "IN_PROGRESS", 3: "COMPLETED"}
FABRIC_SUMMARIES: Final = {1: "HEALTHY", 2: "UNHEALTHY", 3: "LIMITED_CAPACITY"}
# NVML_GPU_FABRIC_HEALTH_MASK_*: each two bits wide, 1 is true.
FABRIC_TROUBLES: Final = (
    ("DEGRADED_BW", 0),
    ("ROUTE_RECOVERY", 2),
    ("ROUTE_UNHEALTHY", 4),
    ("ACCESS_TIMEOUT_RECOVERY", 6),
)
# … and four bits wide at 8.
FABRIC_CONFIGURATIONS: Final = {
    2: "INCORRECT_SYSGUID",
    3: "INCORRECT_CHASSIS_SN",
    4: "NO_PARTITION",
    5: "INSUFFICIENT_NVLINKS",
    6: "INCOMPATIBLE_GPU_FW",
    7: "INVALID_LOCATION",
    8: "GPU_STATE_INVALID",
}

RETURNS: Final = {
    0: "Success",
    1: "Uninitialized",
    2: "InvalidArgument",
    3: "NotSupported",
    4: "NoPermission",
    6: "NotFound",
    9: "DriverNotLoaded",
    10: "Timeout",
    15: "GpuIsLost",
    16: "ResetRequired",
    27: "NotReady",
    29: "InvalidState",
    999: "Unknown",
}
"""nvmlReturn_t, those that a fabric's status can be."""


class Doubts:
    """Collects what is not known of one subject while its answers are read."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self._found: dict[str, str] = {}

    def note(self, what: str, because: str) -> None:
        """Say that `what` is not known; the first reason stays."""
        self._found.setdefault(what, because)

    def known(self, what: str, answer: Answer[_Known]) -> _Known | None:
        """The answer; None for a refusal, which is noted unless nobody asked."""
        if isinstance(answer, NvmlRefusal):
            if answer is not NOT_ASKED and answer != NOT_ASKED:
                self.note(what, f"NVML: {answer.reason}")
            return None
        return answer

    def number(self, what: str, answer: Answer[int]) -> int | None:
        """A number; None also for the one that stands for none."""
        value = self.known(what, answer)
        if value in _NOT_AVAILABLE:
            self.note(what, "NVML: it has no value")
            return None
        return value

    def text(self, what: str, answer: Answer[str]) -> str | None:
        """A text; None also for an empty one."""
        value = self.known(what, answer)
        if value is not None and not value.strip():
            self.note(what, "NVML: an empty text")
            return None
        return value

    def because(self, what: str) -> str | None:
        """The reason for one of them, if it is not known."""
        return self._found.get(what)

    @property
    def is_silent(self) -> bool:
        """Whether the GPU answers nothing, or nothing more."""
        return self._silence() is not None

    def _silence(self) -> str | None:
        for reason in self._found.values():
            word = reason.removeprefix("NVML: ")
            if word in LOST or word.startswith("no answer within"):
                return reason
        reasons = {self._found.get(what) for what in ("name", "uuid", "pci")}
        return reasons.pop() if len(reasons) == 1 else None

    def found(self) -> tuple[Unknown, ...]:
        """All of it; of a GPU that is silent one entry, not one for each question."""
        silence = self._silence()
        found = {what: because for what, because in self._found.items() if because != silence}
        if silence is not None:
            found = {EVERYTHING: silence, **found}
        return tuple(Unknown(self.subject, what, because) for what, because in found.items())


def shared(doubts: Iterable[Doubts]) -> tuple[Unknown, ...]:
    """What is not known of GPUs; what holds of each of several that answer is said of `GPUs`."""
    everyone = list(doubts)
    answering = [one for one in everyone if not one.is_silent]
    counts = Counter((entry.what, entry.because) for one in answering for entry in one.found())
    of_all = {
        key for key, count in counts.items() if len(answering) > 1 and count == len(answering)
    }
    entries: dict[Unknown, None] = {}
    for one in everyone:
        for entry in one.found():
            is_of_all = not one.is_silent and (entry.what, entry.because) in of_all
            entries[replace(entry, subject=ALL_GPUS) if is_of_all else entry] = None
    return tuple(entries)


_ACTIVE = 1
_BYTES_PER_MB = 1e6


def links_of(
    answer: Answer[tuple[NvmlLinkReading, ...]], doubts: Doubts
) -> tuple[tuple[NvLink, ...] | None, str | None]:
    """A GPU's links and their version.

    nvmlDeviceGetNvLinkState(): NotSupported is a GPU that has none.
    """
    if isinstance(answer, NvmlRefusal) and answer.reason == "NotSupported":
        return (), None
    readings = doubts.known("nvlinks", answer)
    if readings is None:
        return None, None
    return tuple(_link(one, doubts) for one in readings), _version(readings)


def _link(reading: NvmlLinkReading, doubts: Doubts) -> NvLink:
    state = doubts.number(f"nvlinks.{reading.index}.is_active", reading.state)
    remote, bus_id = reading.remote_type, reading.remote_bus_id
    kind = None if isinstance(remote, NvmlRefusal) else REMOTES.get(remote)
    if kind is None and state == _ACTIVE:
        reason = remote.reason if isinstance(remote, NvmlRefusal) else f"device type {remote}"
        doubts.note("nvlinks.remote", f"NVML: {reason}")
    return NvLink(
        index=reading.index,
        is_active=None if state is None else state == _ACTIVE,
        remote=kind,
        # A virtual machine shows none, or one without sense.
        remote_pci=None if isinstance(bus_id, NvmlRefusal) else address_or_none(bus_id),
    )


def _version(readings: Sequence[NvmlLinkReading]) -> str | None:
    """That of the first link that says one; the links of a GPU are alike."""
    versions = (one.version for one in readings)
    known = (version for version in versions if not isinstance(version, NvmlRefusal))
    return next((NVLINK_VERSIONS[version] for version in known if version in NVLINK_VERSIONS), None)


def _bytes_per_s(device: NvmlDeviceReading, gpu: Gpu) -> float | None:
    """Of one link in one direction: as the version has it, else the rate on the wire."""
    rate = NVLINK_BYTES_PER_S.get(gpu.nvlink_version or "")
    if rate is not None:
        return rate
    if isinstance(device.links, NvmlRefusal):
        return None
    for one in device.links:
        speed = one.speed_mb_per_s
        if one.state == _ACTIVE and not isinstance(speed, NvmlRefusal) and speed > 0:
            return speed * _BYTES_PER_MB
    return None


class LinkEnds:
    """Where the active NVLinks of each GPU of a node end."""

    def __init__(self, gpus: Sequence[Gpu], devices: Sequence[NvmlDeviceReading]) -> None:
        self._gpus = {gpu.index: gpu for gpu in gpus}
        self._by_address = {gpu.pci: gpu.index for gpu in gpus if gpu.pci is not None}
        self._rates = {
            gpu.index: _bytes_per_s(device, gpu) for gpu, device in zip(gpus, devices, strict=True)
        }

    def _active(self, index: int) -> list[NvLink]:
        return [link for link in self._gpus[index].nvlinks or () if link.is_active]

    def _peer(self, link: NvLink) -> int | None:
        return None if link.remote_pci is None else self._by_address.get(link.remote_pci)

    def _is_switched(self, link: NvLink) -> bool:
        """Whether a link ends at a switch.

        One whose end NVML does not tell is taken as one, as NCCL does: the switches of a virtual
        machine are outside it (src/graph/xml.cc, "not visible, assuming NVSwitch").
        """
        if link.remote is None:
            return self._peer(link) is None
        return link.remote is NvLinkRemote.SWITCH

    def between(self, pair: NvmlPairReading) -> GpuLink | None:
        """The links between two GPUs, the direct ones before those through switches."""
        is_switched = False
        there = [link for link in self._active(pair.a) if self._peer(link) == pair.b]
        back = [link for link in self._active(pair.b) if self._peer(link) == pair.a]
        if not there and not back:
            is_switched = True
            there = [link for link in self._active(pair.a) if self._is_switched(link)]
            back = [link for link in self._active(pair.b) if self._is_switched(link)]
        count = min(len(there), len(back))
        if not count:
            return None
        rates = [self._rates[pair.a], self._rates[pair.b]]
        known = [rate for rate in rates if rate is not None]
        return GpuLink(
            a=pair.a,
            b=pair.b,
            kind=LinkKind.NVLINK,
            count=count,
            bandwidth_bytes_per_s=count * min(known) if len(known) == len(rates) else None,
            is_switched=is_switched,
            is_p2p=_is_p2p(pair),
        )

    def to_cpu(self, index: int) -> CpuLink | None:
        """The NVLinks to the CPU beside a GPU, which POWER has."""
        count = sum(link.remote is NvLinkRemote.NPU for link in self._active(index))
        if not count:
            return None
        rate = self._rates[index]
        return CpuLink(
            gpu_index=index,
            kind=LinkKind.NVLINK,
            numa_index=self._gpus[index].numa_index,
            count=count,
            bandwidth_bytes_per_s=None if rate is None else count * rate,
        )


def _is_p2p(pair: NvmlPairReading) -> bool | None:
    """Whether each may read and write the other's memory; None if that is not told."""
    if isinstance(pair.p2p_read, NvmlRefusal) or isinstance(pair.p2p_write, NvmlRefusal):
        return None
    return pair.p2p_read == P2P_OK and pair.p2p_write == P2P_OK


def c2c_of(gpu: Gpu, answer: Answer[tuple[NvmlC2cReading, ...]], doubts: Doubts) -> CpuLink | None:
    """The C2C links to a GPU's own CPU; a GPU without them does not support the question."""
    if isinstance(answer, NvmlRefusal) and answer.reason in {"NotSupported", "InvalidArgument"}:
        return None
    readings = doubts.known("cpu_links", answer)
    active = [one for one in readings or () if one.status == _ACTIVE]
    if not active:
        return None
    rates = [one.mb_per_s for one in active if not isinstance(one.mb_per_s, NvmlRefusal)]
    is_known = len(rates) == len(active) and all(rates)
    return CpuLink(
        gpu_index=gpu.index,
        kind=LinkKind.C2C,
        numa_index=gpu.numa_index,
        count=len(active),
        bandwidth_bytes_per_s=sum(rates) * _BYTES_PER_MB if is_known else None,
    )


_MIG_ENABLED = 1
_NO_UUID = "0" * 32


def gpu_of(device: NvmlDeviceReading, doubts: Doubts) -> Gpu:
    """The GPU; what is None is in `doubts` with its reason."""
    uuid = doubts.text("uuid", device.uuid)
    capability = doubts.known("architecture", device.compute_capability)
    memory_numa = _indices("memory_numa", device.memory_affinity, doubts)
    nvlinks, version = links_of(device.links, doubts)
    return Gpu(
        index=device.index,
        name=doubts.text("name", device.name),
        vendor=GpuVendor.NVIDIA,
        pci=_address(device.pcie, doubts),
        uuid=None if uuid is None else GpuUuid(uuid),
        serial=doubts.text("serial", device.serial),
        architecture=f"sm_{capability[0]}{capability[1]}" if capability else None,
        memory_bytes=doubts.number("memory_bytes", device.memory_bytes),
        numa_index=_only(memory_numa, doubts),
        own_numa_index=_own_numa(device.numa_node_id, doubts),
        cpus=_indices("cpus", device.cpu_affinity, doubts),
        memory_numa=memory_numa,
        is_mig=_is_mig(device.mig_mode, doubts),
        mig_devices=_mig_devices(device, doubts),
        nvlinks=nvlinks,
        nvlink_version=version,
        fabric=_fabric(device.fabric, doubts),
        platform=_platform(device, doubts),
        health=_health(device.health, device.pcie, doubts),
    )


def pci_device_of(gpu: Gpu, pcie: NvmlPcieReading, doubts: Doubts) -> PciDevice | None:
    """The GPU's place on the PCI tree, without what is above it; None without an address."""
    if gpu.pci is None:
        return None
    vendor, device = _halves(doubts.known("pci.device_id", pcie.device_id))
    subsystem_vendor, subsystem = _halves(doubts.known("pci.subsystem_id", pcie.subsystem_id))
    return PciDevice(
        address=gpu.pci,
        vendor_id=vendor,
        device_id=device,
        subsystem_vendor_id=subsystem_vendor,
        subsystem_device_id=subsystem,
        numa_index=gpu.numa_index,
        link=PcieLink(
            speed_gt_per_s=_speed("pci.speed_gt_per_s", pcie.generation, doubts),
            width=_width("pci.width", pcie.width, doubts),
            max_speed_gt_per_s=_speed("pci.max_speed_gt_per_s", pcie.max_generation, doubts),
            max_width=_width("pci.max_width", pcie.max_width, doubts),
        ),
    )


def _halves(number: int | None) -> tuple[int | None, int | None]:
    return (None, None) if number is None else (number & 0xFFFF, number >> 16)


def _address(pcie: NvmlPcieReading, doubts: Doubts) -> PciAddress | None:
    text = doubts.text("pci", pcie.bus_id)
    if text is None:
        return None
    try:
        return pci_address(text)
    except ValueError as error:
        doubts.note("pci", f"NVML: {error}")
        return None


def _indices(what: str, mask: Answer[tuple[int, ...]], doubts: Doubts) -> IndexList | None:
    """A set of CPUs or NUMA nodes; an empty one is no affinity: a virtual machine has none."""
    words = doubts.known(what, mask)
    if words is None:
        return None
    found = [64 * at + bit for at, word in enumerate(words) for bit in range(64) if word >> bit & 1]
    if not found:
        doubts.note(what, "NVML: an empty set")
        return None
    return index_list(found)


def _only(nodes: IndexList | None, doubts: Doubts) -> int | None:
    if nodes is None:
        if because := doubts.because("memory_numa"):
            doubts.note("numa_index", because)
        return None
    if not nodes.isdecimal():
        doubts.note("numa_index", f"NVML: memory affinity with several nodes, {nodes}")
        return None
    return int(nodes)


def _own_numa(answer: Answer[int], doubts: Doubts) -> int | None:
    """The node of the GPU's own memory; where it is none NVML does not support the question."""
    if isinstance(answer, NvmlRefusal) and answer.reason == "NotSupported":
        return None
    return doubts.number("own_numa_index", answer)


def _is_mig(answer: Answer[tuple[int, int]], doubts: Doubts) -> bool | None:
    """nvmlDeviceGetMigMode(): NotSupported is a GPU that does not have MIG."""
    if isinstance(answer, NvmlRefusal) and answer.reason == "NotSupported":
        return False
    mode = doubts.known("is_mig", answer)
    return None if mode is None else mode[0] == _MIG_ENABLED


def _mig_devices(device: NvmlDeviceReading, doubts: Doubts) -> int | None:
    mode = device.mig_mode
    if isinstance(mode, NvmlRefusal) or mode[0] != _MIG_ENABLED:
        return None
    return doubts.number("mig_devices", device.mig_devices)


def _speed(what: str, generation: Answer[int], doubts: Doubts) -> float | None:
    number = doubts.number(what, generation)
    if number is None:
        return None
    if number not in PCIE_GT_PER_S:
        doubts.note(what, f"NVML: PCIe generation {number}")
    return PCIE_GT_PER_S.get(number)


def _width(what: str, width: Answer[int], doubts: Doubts) -> int | None:
    lanes = doubts.number(what, width)
    if lanes == 0:
        doubts.note(what, "NVML: no lanes")
        return None
    return lanes


def _fabric(answer: Answer[NvmlFabricReading], doubts: Doubts) -> GpuFabric | None:
    info = doubts.known("fabric", answer)
    if info is None:
        return None
    state = FABRIC_STATES.get(info.state, f"state {info.state}")
    if state == "NOT_SUPPORTED":
        return GpuFabric(state=state)
    # An HGX board is a fabric of its own, without a name.
    uuid, has_name = info.cluster_uuid, info.cluster_uuid != _NO_UUID
    named = "-".join((uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:]))
    return GpuFabric(
        state=state,
        cluster_uuid=named if has_name else None,
        clique_id=info.clique_id if has_name else None,
        status=RETURNS.get(info.status, f"NVML error {info.status}"),
        health=_fabric_health(info),
    )


def _fabric_health(info: NvmlFabricReading) -> str | None:
    """NVML's summary (since driver 570) with what the mask holds against it; None without both."""
    mask = info.health_mask
    troubles = [name for name, at in FABRIC_TROUBLES if mask >> at & 3 == 1]
    configuration = FABRIC_CONFIGURATIONS.get(mask >> 8 & 15)
    if configuration is not None:
        troubles.append(configuration)
    summary = FABRIC_SUMMARIES.get(info.health_summary or 0)
    if summary is None and mask:
        summary = "UNHEALTHY" if troubles else "HEALTHY"
    return f"{summary} ({', '.join(troubles)})" if summary and troubles else summary


def _platform(device: NvmlDeviceReading, doubts: Doubts) -> GpuPlatform | None:
    info = doubts.known("platform", device.platform)
    if info is None:
        return None
    return GpuPlatform(
        chassis_serial=info.chassis_serial.strip() or None,
        slot_number=info.slot_number,
        tray_index=info.tray_index,
        host_id=info.host_id,
        module_id=info.module_id,
    )


def _health(health: NvmlHealthReading, pcie: NvmlPcieReading, doubts: Doubts) -> GpuHealth:
    rows = doubts.known("health.remapped_rows", health.remapped_rows)
    ecc = doubts.known("health.ecc_enabled", health.ecc_mode)
    power_mw = doubts.number("health.power_w", health.power_mw)
    limit_mw = doubts.number("health.power_limit_w", health.power_limit_mw)
    return GpuHealth(
        clocks_event_reasons=_clocks_event_reasons(health.clocks_event_reasons, doubts),
        remapped_rows_correctable=rows[0] if rows else None,
        remapped_rows_uncorrectable=rows[1] if rows else None,
        remapping_pending=bool(rows[2]) if rows else None,
        remapping_failed=bool(rows[3]) if rows else None,
        ecc_enabled=bool(ecc[0]) if ecc else None,
        ecc_uncorrected_volatile=doubts.number(
            "health.ecc_uncorrected_volatile", health.ecc_uncorrected_volatile
        ),
        ecc_uncorrected_aggregate=doubts.number(
            "health.ecc_uncorrected_aggregate", health.ecc_uncorrected_aggregate
        ),
        temperature_c=doubts.number("health.temperature_c", health.temperature_c),
        power_w=None if power_mw is None else power_mw / 1000,
        power_limit_w=None if limit_mw is None else limit_mw / 1000,
        pcie_replays=doubts.number("health.pcie_replays", pcie.replays),
    )


def _clocks_event_reasons(answer: Answer[int], doubts: Doubts) -> tuple[str, ...] | None:
    """The names of the bits that are set; one that nvml.h does not have yet is its number."""
    bits = doubts.known("health.clocks_event_reasons", answer)
    if bits is None:
        return None
    names = dict(enumerate(CLOCKS_EVENT_REASONS))
    return tuple(
        names.get(at, f"{1 << at:#x}") for at in range(max(0, bits).bit_length()) if bits >> at & 1
    )
