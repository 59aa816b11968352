"""A node in one sentence: its name, CPUs, GPUs, NICs and driver, as far as each is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from hpckit.core.index_list import IndexList
from hpckit.core.text import figure, visible
from hpckit.node.places import Place
from hpckit.node.topology import Gpu, Nic, NicRole, NodeTopology, is_down
from hpckit.node.words import cpu_model, gpu_model, is_storage, memory, nic_rate, role_words

_CPU: Final = "CPU"
_SOURCES: Final = {
    "nccl-xml": "NCCL XML",
    "rccl-xml": "RCCL XML",
    "sysfs": "/sys",
    "sysfs-tarball": "an archive of /sys",
    "infiniband-tarball": "an archive of /sys/class/infiniband",
    "nvml": "NVML",
}
_VENDORS: Final = {"GenuineIntel": "Intel", "AuthenticAMD": "AMD"}


def node_title(topology: NodeTopology) -> tuple[str, ...]:
    """The parts of the sentence; what is not known is left out, and what is made up says so."""
    host, source = topology.host, topology.source.format
    # That there are no GPUs is known where PCI devices are.
    no_gpus = "no GPU" if topology.pci and not topology.accelerators else ""
    driver = host.driver_version
    parts = (
        visible(host.name or host.product or f"a node, from {_SOURCES.get(source, source)}"),
        _cpus(topology),
        _gpus(topology.gpus) or no_gpus,
        _accelerators(topology),
        _nics(topology.nics),
        "" if driver is None else f"driver {visible(driver, 20)}",
        "synthetic: not a real machine" if topology.source.is_synthetic else "",
    )
    return tuple(part for part in parts if part)


def _cpus(topology: NodeTopology) -> str:
    cpu = topology.cpu
    counted = Counter(_cpu_name(one.model or cpu.model, cpu.vendor) for one in cpu.packages)
    text = " + ".join(f"{count} × {model}" for model, count in counted.items())
    text = text or _cpu_name(cpu.model, cpu.vendor)
    numa = sum(one.cpus != "" for one in topology.numa_nodes)
    if text == _CPU:
        return f"{numa} NUMA" if numa else ""
    return f"{text} ({numa} NUMA)" if numa else text


def _cpu_name(model: str | None, vendor: str | None) -> str:
    if model is not None:
        return cpu_model(model)
    return _CPU if vendor is None else f"{visible(_VENDORS.get(vendor, vendor), 20)} {_CPU}"


def gpu_kind(gpu: Gpu) -> str:
    """`H100 80GB HBM3`, `MI300X 192 GiB`: a name, and the memory where the name lacks it."""
    name = "GPU" if gpu.name is None else gpu_model(gpu.name)
    if gpu.memory_bytes is None or "GB" in name.upper():
        return name
    return f"{name} {memory(gpu.memory_bytes)}"


def _gpus(gpus: tuple[Gpu, ...]) -> str:
    counted = Counter(gpu_kind(gpu) for gpu in gpus if not gpu.is_hidden)
    parts = [_counted(count, kind, "GPU") for kind, count in counted.items()]
    hidden = sum(gpu.is_hidden for gpu in gpus)
    parts += [f"{hidden} hidden GPUs" if hidden > 1 else "1 hidden GPU"] if hidden else []
    return " + ".join(parts)


def _counted(count: int, kind: str, unnamed: str) -> str:
    if kind != unnamed:
        return f"{count} × {kind}"
    return f"{count} {kind}s" if count > 1 else f"1 {kind}"


def _accelerators(topology: NodeTopology) -> str:
    counted = Counter(visible(one.name, 24) for one in topology.accelerators)
    return " + ".join(f"{count} × {name}" for name, count in counted.items())


def _nics(nics: tuple[Nic, ...]) -> str:
    physical = _without_functions(nics)
    plain = [nic for nic in physical if not is_storage(nic)]
    parts = _kinds(plain)
    for role in (NicRole.STORAGE, NicRole.OTHER):
        of_role = [nic for nic in physical if nic.role is role]
        parts += [f"{text} {role_words(role)}" for text in _kinds(of_role)]
    functions = len(nics) - len(physical)
    return " + ".join([*parts, *([f"{functions} VFs"] if functions else [])])


def _without_functions(nics: tuple[Nic, ...]) -> tuple[Nic, ...]:
    """Without the virtual functions of NICs that are here; a guest has those alone."""
    here = {nic.pci for nic in nics if nic.pci is not None}
    kinds = {nic.kind for nic in nics if not nic.is_virtual}
    return tuple(
        nic
        for nic in nics
        if nic.physfn not in here
        and not (nic.physfn is None and nic.is_virtual and nic.kind in kinds)
    )


def _kinds(nics: Iterable[Nic]) -> list[str]:
    nics = tuple(nics)
    rates = {nic.kind: nic for nic in nics if nic.rate_bytes_per_s is not None}
    counted: Counter[str] = Counter()
    down: Counter[str] = Counter()
    for nic in nics:
        alike = rates.get(nic.kind) if nic.rate_bytes_per_s is None and is_down(nic) else None
        counted[nic_rate(alike or nic)] += 1
        down[nic_rate(alike or nic)] += is_down(nic)
    return [
        _counted(count, text, "NIC") + (f" ({down[text]} down)" if down[text] else "")
        for text, count in counted.items()
    ]


def place_title(place: Place) -> str:
    """`package 0 · NUMA 1`, or what of it is known."""
    if place.numa_index is None:
        return "NUMA node unknown"
    package = "" if place.package_index is None else f"package {figure(place.package_index)} · "
    return f"{package}NUMA {figure(place.numa_index)}"


def place_cpus(place: Place) -> IndexList | None:
    """The CPUs of a NUMA node; where the source lacks them, those that all its GPUs name."""
    if place.cpus is not None:
        return place.cpus
    named = {device.cpus for device in place.root.devices() if isinstance(device, Gpu)}
    return named.pop() if len(named) == 1 else None
