"""One GPU, from what NVML answered about it."""

from __future__ import annotations

from hpckit.model.hardware import Gpu, GpuFabric, GpuHealth, GpuPlatform, GpuUuid, GpuVendor
from hpckit.model.index_list import IndexList, index_list
from hpckit.model.nvml_reading import (
    Answer,
    NvmlDeviceReading,
    NvmlFabricReading,
    NvmlHealthReading,
    NvmlPcieReading,
    NvmlRefusal,
)
from hpckit.model.pci import PCIE_GT_PER_S, PciAddress, PciDevice, PcieLink, pci_address
from hpckit.parse.nvml_links import links_of
from hpckit.parse.nvml_words import (
    CLOCKS_EVENT_REASONS,
    FABRIC_CONFIGURATIONS,
    FABRIC_STATES,
    FABRIC_SUMMARIES,
    FABRIC_TROUBLES,
    RETURNS,
    Doubts,
)

_MIG_ENABLED = 1
_NO_UUID = "0" * 32


def gpu_of(device: NvmlDeviceReading, doubts: Doubts) -> Gpu:
    """The GPU; what is None is in `doubts` with its reason."""
    capability = doubts.known("architecture", device.compute_capability)
    memory_numa = _indices("memory_numa", device.memory_affinity, doubts)
    nvlinks, version = links_of(device.links, doubts)
    return Gpu(
        index=device.index,
        name=doubts.text("name", device.name),
        vendor=GpuVendor.NVIDIA,
        pci=_address(device.pcie, doubts),
        uuid=_uuid(device, doubts),
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
    device, subsystem = (
        doubts.known("pci.device_id", pcie.device_id),
        doubts.known("pci.subsystem_id", pcie.subsystem_id),
    )
    return PciDevice(
        address=gpu.pci,
        vendor_id=None if device is None else device & 0xFFFF,
        device_id=None if device is None else device >> 16,
        subsystem_vendor_id=None if subsystem is None else subsystem & 0xFFFF,
        subsystem_device_id=None if subsystem is None else subsystem >> 16,
        numa_index=gpu.numa_index,
        link=PcieLink(
            speed_gt_per_s=_speed("pci.speed_gt_per_s", pcie.generation, doubts),
            width=_width("pci.width", pcie.width, doubts),
            max_speed_gt_per_s=_speed("pci.max_speed_gt_per_s", pcie.max_generation, doubts),
            max_width=_width("pci.max_width", pcie.max_width, doubts),
        ),
    )


def _address(pcie: NvmlPcieReading, doubts: Doubts) -> PciAddress | None:
    text = doubts.text("pci", pcie.bus_id)
    if text is None:
        return None
    try:
        return pci_address(text)
    except ValueError as error:
        doubts.note("pci", f"NVML: {error}")
        return None


def _uuid(device: NvmlDeviceReading, doubts: Doubts) -> GpuUuid | None:
    text = doubts.text("uuid", device.uuid)
    return None if text is None else GpuUuid(text)


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
    """The NUMA node, where there is one and no other."""
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
    has_name = info.cluster_uuid != _NO_UUID
    uuid = info.cluster_uuid
    return GpuFabric(
        state=state,
        cluster_uuid="-".join((uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:]))
        if has_name
        else None,
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
