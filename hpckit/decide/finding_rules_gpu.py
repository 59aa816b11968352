"""What is odd about a GPU: its health, its fabric, its mode, and whether it is there at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpckit.core.findings import Evidence
from hpckit.decide.finding_rule import GPUS, InspectedNode, gpu_name, most_common, named, twins
from hpckit.model.hardware import Gpu, GpuHealth, GpuVendor
from hpckit.model.index_list import index_list
from hpckit.model.pci import PciDevice
from hpckit.model.words import counted

LOST_WORDS: Final = ("gpuislost", "resetrequired", "gpunotfound", "no answer within")
"""NVML's GPU_IS_LOST, RESET_REQUIRED and GPU_NOT_FOUND in pynvml's spelling, and silence."""

FABRIC_FINE: Final = frozenset({"completed", "notsupported"})
LIBRARY_WORDS: Final = ("librarynotfound", "not installed", "no module")
UNHEALTHY: Final = ("UNHEALTHY", "LIMITED_CAPACITY")
FABRIC_SUCCESS: Final = frozenset({"success", "0"})
MOST_MISSING: Final = 64
PASSED_ON: Final = frozenset({"vfio-pci", "pci-stub", "xen-pciback"})


# --- is it there ---------------------------------------------------------------------------------


def gpu_lost(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `gpu-lost`."""
    told = dict[str, str]()
    for unknown in node.topology.unknown:
        if any(word in unknown.because.lower() for word in LOST_WORDS):
            told.setdefault(unknown.subject, unknown.because)
    for subject, because in told.items():
        yield Evidence(subject, f"{subject} is lost to the driver: {because}")


def driver_silent(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `driver-silent`: a driver that could not be asked, though there are GPUs."""
    return _silence(node, is_library=False)


def without_library(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `driver-library-missing`."""
    return _silence(node, is_library=True)


def _silence(node: InspectedNode, *, is_library: bool) -> Iterator[Evidence]:
    # NVML is asked on every node; of another maker's GPUs it has nothing to say.
    concerned = [gpu for gpu in node.gpus if gpu.vendor in (None, GpuVendor.NVIDIA)]
    for unknown in node.topology.unknown:
        is_missing = any(word in unknown.because.lower() for word in LIBRARY_WORDS)
        if concerned and unknown.what == "gpus" and is_missing is is_library:
            shown = counted(len(concerned), "GPU")
            yield Evidence(GPUS, f"there are {shown}, and nothing more is known: {unknown.because}")
            return


def gpus_fewer(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `gpus-fewer-than-gres`; a GPU in MIG mode counts as its MIG devices."""
    if node.expected_gpus is None:
        return
    counts = [gpu.mig_devices if gpu.is_mig else 1 for gpu in node.gpus]
    shown = sum(count for count in counts if count is not None)
    if None not in counts and shown < node.expected_gpus:
        yield Evidence(
            GPUS,
            f"{_are(shown, 'GPU')} shown, {_are(node.expected_gpus)} expected",
        )


def _are(count: int, noun: str = "") -> str:
    """`1 GPU is`, `2 are`."""
    words = counted(count, noun) if noun else str(count)
    return f"{words} {'is' if count == 1 else 'are'}"


def gpu_without_driver(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `gpu-without-driver`: its twins have one, so it is no container that hides it."""
    devices = {device.address: device for device in node.topology.pci}
    drivers = {
        gpu.index: devices[gpu.pci].driver
        for gpu in node.topology.gpus
        if gpu.pci is not None and gpu.pci in devices
    }
    for gpu in node.topology.gpus:
        others = {drivers.get(one.index) for one in node.gpus if one.vendor is gpu.vendor} - {None}
        if gpu.is_hidden and gpu.index in drivers and drivers[gpu.index] is None and others:
            yield Evidence(
                gpu_name(gpu.index),
                f"{gpu_name(gpu.index)} ({gpu.pci}) has no kernel driver bound to it,"
                f" the other GPUs have {named(one for one in others if one)}",
            )


def gpus_hidden(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `gpus-hidden`."""
    hidden = [gpu for gpu in node.topology.gpus if gpu.is_hidden]
    if hidden:
        places = named(gpu.pci or gpu_name(gpu.index) for gpu in hidden)
        yield Evidence(
            GPUS,
            f"the PCI tree has {counted(len(node.topology.gpus), 'GPU')},"
            f" the driver shows {len(node.gpus)} here; hidden: {places}{_passed_on(node, hidden)}",
        )
        return
    indices = {gpu.index for gpu in node.gpus}
    if indices and max(indices) < len(indices) + MOST_MISSING:
        missing = [at for at in range(max(indices)) if at not in indices]
        if missing:
            yield Evidence(
                GPUS, f"GPUs up to {max(indices)} are numbered, {index_list(missing)} not shown"
            )


def _passed_on(node: InspectedNode, hidden: list[Gpu]) -> str:
    devices: dict[str, PciDevice] = {device.address: device for device in node.topology.pci}
    away = [
        gpu.pci for gpu in hidden if gpu.pci in devices and devices[gpu.pci].driver in PASSED_ON
    ]
    return f" ({named(each for each in away if each)} passed on to a virtual machine)" * bool(away)


def disagreement(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `nvml-sysfs-disagree`."""
    for one in node.topology.disagreements:
        yield Evidence(
            one.subject, f"{one.subject} has more than one {one.what}: {' · '.join(one.said)}"
        )


# --- how is it -----------------------------------------------------------------------------------


def remapping_failed(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `remapping-failed`."""
    for name, health in _health(node):
        if health.remapping_failed:
            yield Evidence(
                name, f"{name} has a row of memory that could not be remapped{_rows(health)}"
            )


def remapping_pending(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `remapping-pending`."""
    for name, health in _health(node):
        if health.remapping_pending:
            yield Evidence(name, f"{name} has rows to remap at its next reset{_rows(health)}")


def remapped_rows(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `remapped-rows`."""
    for name, health in _health(node):
        if _count(health.remapped_rows_correctable) + _count(health.remapped_rows_uncorrectable):
            yield Evidence(name, f"{name} has remapped rows of its memory{_rows(health)}")


def _rows(health: GpuHealth) -> str:
    return (
        f" ({_count(health.remapped_rows_uncorrectable)} for uncorrectable errors,"
        f" {_count(health.remapped_rows_correctable)} for correctable ones)"
    )


def ecc_uncorrected(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `ecc`."""
    for name, health in _health(node):
        count = _count(health.ecc_uncorrected_volatile)
        if count:
            errors = counted(count, "uncorrected memory error")
            yield Evidence(name, f"{name} had {errors} since its driver was loaded")


def ecc_past(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `ecc-past`."""
    for name, health in _health(node):
        count = _count(health.ecc_uncorrected_aggregate)
        if count and not _count(health.ecc_uncorrected_volatile):
            errors = counted(count, "uncorrected memory error")
            yield Evidence(
                name, f"{name} had {errors} in its life, none since its driver is loaded"
            )


def ecc_uneven(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `ecc-off`: off where most of its twins have it on."""
    for group in twins(node.gpus):
        modes = {gpu.index: gpu.health.ecc_enabled for gpu in group if gpu.health is not None}
        if most_common(mode for mode in modes.values() if mode is not None):
            for index in (index for index, mode in modes.items() if mode is False):
                yield Evidence(
                    gpu_name(index), f"{gpu_name(index)} has ECC off, most of its peers have it on"
                )


def thermal_slowdown(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `thermal-slowdown`."""
    return _slowed(node, {"hwthermalslowdown"})


def thermal_software(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `thermal-limit`."""
    return _slowed(node, {"swthermalslowdown"}, unless={"hwthermalslowdown"})


def power_brake(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `power-brake`."""
    return _slowed(node, {"hwpowerbrakeslowdown", "hwpowerbrake"})


def hardware_slowdown(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `hardware-slowdown`: NVML says HwSlowdown and not which of its causes."""
    causes = {"hwthermalslowdown", "hwpowerbrakeslowdown", "hwpowerbrake"}
    return _slowed(node, {"hwslowdown"}, unless=causes)


def _slowed(
    node: InspectedNode, words: set[str], *, unless: set[str] | None = None
) -> Iterator[Evidence]:
    for name, health in _health(node):
        reasons = {_letters(one): one for one in health.clocks_event_reasons or ()}
        said = words & reasons.keys()
        if said and not (unless or set()) & reasons.keys():
            at = "" if health.temperature_c is None else f" at {health.temperature_c} °C"
            drawn = "" if health.power_w is None else f", drawing {health.power_w:.0f} W"
            word = reasons[min(said)]
            yield Evidence(name, f"{name} is slowed down{at}{drawn}: {word}")


def _health(node: InspectedNode) -> Iterator[tuple[str, GpuHealth]]:
    for gpu in node.gpus:
        if gpu.health is not None:
            yield gpu_name(gpu.index), gpu.health


def _count(value: int | None) -> int:
    return max(value or 0, 0)


def _letters(word: str) -> str:
    """`HwThermalSlowdown`, `HW_THERMAL_SLOWDOWN` and `hw thermal slowdown` alike."""
    return "".join(char for char in word.lower() if char.isalnum())


# --- fabric and mode -----------------------------------------------------------------------------


def fabric_not_completed(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `fabric-not-completed`."""
    for gpu in node.gpus:
        fabric, name = gpu.fabric, gpu_name(gpu.index)
        if fabric is None or fabric.state is None:
            continue
        if _letters(fabric.state) not in FABRIC_FINE:
            yield Evidence(name, f"{name} has the NVLink fabric state {fabric.state}{_of(node)}")
        elif _letters(fabric.state) == "completed" and not _is_success(fabric.status):
            yield Evidence(name, f"{name} has an NVLink fabric that completed with {fabric.status}")


def fabric_unhealthy(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `fabric-unhealthy`."""
    for gpu in node.gpus:
        health = None if gpu.fabric is None else gpu.fabric.health
        if health is not None and health.upper().startswith(UNHEALTHY):
            name = gpu_name(gpu.index)
            yield Evidence(name, f"{name} has an NVLink fabric that is {health}")


def _of(node: InspectedNode) -> str:
    done = sum(
        gpu.fabric is not None and _letters(gpu.fabric.state or "") == "completed"
        for gpu in node.gpus
    )
    return f", {done} of {counted(len(node.gpus), 'GPU')} completed"


def _is_success(status: str | None) -> bool:
    return status is None or _letters(status) in FABRIC_SUCCESS


def mig_on(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `mig-on`: one finding where it is on in all GPUs."""
    on = [gpu for gpu in node.gpus if gpu.is_mig]
    devices = [gpu.mig_devices for gpu in on]
    if on and len(on) == len(node.gpus) > 1:
        told = [count for count in devices if count is not None]
        total = f", {sum(told)} MIG devices" if len(told) == len(devices) else ""
        yield Evidence(GPUS, f"MIG is on in all {len(on)} GPUs{total}")
        return
    for gpu, count in zip(on, devices, strict=True):
        name = gpu_name(gpu.index)
        told_of = "" if count is None else f", {counted(count, 'MIG device')}"
        yield Evidence(name, f"{name} has MIG on{told_of}")
