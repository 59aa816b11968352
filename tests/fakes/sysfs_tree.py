"""Machines that never were, written as a folder with the sys/ and proc/ of such a node.

Synthetic: the shapes are those of Linux, the machines are made up. What reads a `--sysroot` reads
them, and so does hwloc (`HWLOC_FSROOT`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from hpckit.core.index_list import index_list


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A device behind a switch; a NIC has a `name`, the network's `kind` and a rate."""

    device: int
    vendor: int = 0x15B3
    class_code: int = 0x0207
    driver: str = "mlx5_core"
    name: str | None = None
    kind: str = "InfiniBand"
    netdev: str | None = None
    rate_gb_per_s: int = 400
    is_up: bool = True
    max_width: int = 16
    width: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A root port with a PCIe switch below it: the bus that it begins at, and what hangs on it."""

    bus: int
    numa_index: int
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A node: `numa_nodes` and `l3_groups` are those of all packages, `cores` those of one."""

    hostname: str = "made-up"
    product: str = "Synthetic node"
    cpu_model: str = "Synthetic CPU"
    packages: int = 2
    cores: int = 64
    threads: int = 2
    numa_nodes: int = 8
    l3_groups: int = 8
    memory_bytes: int = 2 * 1024**4
    gpu_name: str = "NVIDIA H100 80GB HBM3"
    driver_version: str = "570.86.15"
    is_guest: bool = False
    allowed: str | None = None
    switches: tuple[Switch, ...] = field(default=())

    def cpus_of(self, part: int, parts: int) -> list[int]:
        """The CPUs of one of so many equal parts of the machine; threads are counted last."""
        cores = self.packages * self.cores
        first, last = part * cores // parts, (part + 1) * cores // parts
        return [
            core + thread * cores for thread in range(self.threads) for core in range(first, last)
        ]


_Buses: TypeAlias = tuple[int, int, int] | None
"""Of a bridge: its own bus, the first and the last below it."""

GPU = Card(device=0x2330, vendor=0x10DE, class_code=0x0302, driver="nvidia")
_BUSES = (0x15, 0x37, 0x48, 0x59, 0x97, 0xB7, 0xC7, 0xD7)


def infiniband(name: str, *, rate_gb_per_s: int = 400) -> Card:
    """A ConnectX-7 on InfiniBand."""
    netdev = f"ib{name.rpartition('_')[2]}"
    return Card(device=0x1021, name=name, netdev=netdev, rate_gb_per_s=rate_gb_per_s)


def ethernet(name: str, netdev: str, *, rate_gb_per_s: int = 200) -> Card:
    """A ConnectX-6 Dx on Ethernet, which is RoCE."""
    return Card(
        device=0x101D,
        class_code=0x0200,
        name=name,
        kind="Ethernet",
        netdev=netdev,
        rate_gb_per_s=rate_gb_per_s,
    )


def dgx_h100(hostname: str = "dgx") -> Machine:
    """Two packages of 56 cores, eight H100 with a ConnectX-7 each, and two NICs for storage."""
    switches = [
        Switch(bus=bus, numa_index=at // 4, cards=(GPU, infiniband(f"mlx5_{at}")))
        for at, bus in enumerate(_BUSES)
    ]
    storage = [
        Switch(bus=bus, numa_index=at, cards=(ethernet(f"mlx5_{8 + at}", f"ens{at}np0"),))
        for at, bus in enumerate((0x25, 0xA7))
    ]
    return Machine(
        hostname=hostname,
        product="DGXH100 (synthetic)",
        cpu_model="Intel(R) Xeon(R) Platinum 8480CL",
        cores=56,
        numa_nodes=2,
        l3_groups=2,
        switches=(*switches, *storage),
    )


def with_nic_down(machine: Machine, name: str) -> Machine:
    """The same machine, the port of one NIC being down."""
    return replace(
        machine,
        switches=tuple(
            replace(
                switch,
                cards=tuple(
                    replace(card, is_up=card.is_up and card.name != name) for card in switch.cards
                ),
            )
            for switch in machine.switches
        ),
    )


def forty_nics() -> Machine:
    """Two packages of 64 cores, 8 NUMA nodes, 8 GPUs and 40 NICs, five NICs a GPU."""
    return Machine(
        switches=tuple(
            Switch(
                bus=bus,
                numa_index=at,
                cards=(GPU, *(infiniband(f"mlx5_{5 * at + one}") for one in range(5))),
            )
            for at, bus in enumerate(_BUSES)
        )
    )


def write_machine(root: Path, machine: Machine) -> None:
    """Write the tree of a machine into `root`, which is made and must not hold another."""
    files = _Files(root)
    _write_proc(files, machine)
    _write_cpus(files, machine)
    _write_numa(files, machine)
    files.text("sys/class/dmi/id/product_name", machine.product)
    files.text("sys/class/dmi/id/sys_vendor", "hpckit (synthetic)")
    files.text("sys/module/nvidia/version", machine.driver_version)
    for switch in machine.switches:
        _write_switch(files, machine, switch)


class _Files:
    def __init__(self, root: Path) -> None:
        self._root = root

    def text(self, path: str, text: str) -> None:
        """A file with one line, or with more."""
        self.data(path, f"{text}\n".encode())

    def data(self, path: str, data: bytes) -> None:
        """A file of bytes."""
        self._ready(path).write_bytes(data)

    def link(self, path: str, target: str) -> None:
        """A symbolic link to another path of the tree, relative as Linux makes them.

        One to a folder above itself names that folder too, as kernfs_get_target_path does.
        """
        above, _, name = target.rpartition("/")
        way = os.path.relpath(above, os.path.dirname(path))  # noqa: PTH120
        self._ready(path).symlink_to(f"{way}/{name}")

    def _ready(self, path: str) -> Path:
        found = self._root / path
        found.parent.mkdir(parents=True, exist_ok=True)
        return found


def _mask(indices: list[int]) -> str:
    bits = sum(1 << index for index in indices)
    words = max(1, -(-bits.bit_length() // 32))
    return ",".join(f"{bits >> 32 * at & 0xFFFFFFFF:08x}" for at in reversed(range(words)))


def _write_proc(files: _Files, machine: Machine) -> None:
    cpus = machine.packages * machine.cores * machine.threads
    flags = "fpu vme sse2 ht" + " hypervisor" * machine.is_guest
    blocks = [
        f"processor\t: {cpu}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
        f"model name\t: {machine.cpu_model}\nflags\t\t: {flags}\n"
        for cpu in range(cpus)
    ]
    files.text("proc/cpuinfo", "\n".join(blocks))
    allowed = machine.allowed or f"0-{cpus - 1}"
    files.text("proc/self/status", f"Name:\tcat\nCpus_allowed_list:\t{allowed}\nMems_allowed:\t1")
    files.text("proc/sys/kernel/hostname", machine.hostname)
    files.text("proc/sys/kernel/osrelease", "6.8.0-synthetic")
    files.text("proc/sys/kernel/arch", "x86_64")
    files.text("proc/meminfo", f"MemTotal:       {machine.memory_bytes // 1024} kB")


def _write_cpus(files: _Files, machine: Machine) -> None:
    folder = "sys/devices/system/cpu"
    cores = machine.packages * machine.cores
    cpus = cores * machine.threads
    for name in ("online", "present", "possible"):
        files.text(f"{folder}/{name}", f"0-{cpus - 1}")
    for cpu in range(cpus):
        core = cpu % cores
        package = core // machine.cores
        siblings = machine.cpus_of(core, cores)
        own, topology = machine.cpus_of(package, machine.packages), f"{folder}/cpu{cpu}/topology"
        files.text(f"{topology}/physical_package_id", str(package))
        files.text(f"{topology}/core_id", str(core % machine.cores))
        for name, of in (("thread_siblings", siblings), ("core_siblings", own)):
            files.text(f"{topology}/{name}", _mask(of))
            files.text(f"{topology}/{name}_list", index_list(of))
        shared = machine.cpus_of(core * machine.l3_groups // cores, machine.l3_groups)
        _write_caches(files, f"{folder}/cpu{cpu}/cache", siblings, shared)


def _write_caches(files: _Files, folder: str, core: list[int], shared: list[int]) -> None:
    caches = (
        (1, "Data", "48K", core),
        (1, "Instruction", "32K", core),
        (2, "Unified", "2048K", core),
        (3, "Unified", "107520K", shared),
    )
    for index, (level, kind, size, cpus) in enumerate(caches):
        cache = f"{folder}/index{index}"
        files.text(f"{cache}/level", str(level))
        files.text(f"{cache}/type", kind)
        files.text(f"{cache}/size", size)
        files.text(f"{cache}/shared_cpu_map", _mask(cpus))
        files.text(f"{cache}/shared_cpu_list", index_list(cpus))


def _write_numa(files: _Files, machine: Machine) -> None:
    folder, count = "sys/devices/system/node", machine.numa_nodes
    files.text(f"{folder}/online", f"0-{count - 1}" if count > 1 else "0")
    for node in range(count):
        cpus = machine.cpus_of(node, count)
        files.text(f"{folder}/node{node}/cpulist", index_list(cpus))
        files.text(f"{folder}/node{node}/cpumap", _mask(cpus))
        size = machine.memory_bytes // count // 1024
        files.text(f"{folder}/node{node}/meminfo", f"Node {node} MemTotal:       {size} kB")
        package = node * machine.packages // count
        distances = [
            10 if one == node else 12 if one * machine.packages // count == package else 21
            for one in range(count)
        ]
        files.text(f"{folder}/node{node}/distance", " ".join(map(str, distances)))


def _write_switch(files: _Files, machine: Machine, switch: Switch) -> None:
    root, bus = f"sys/devices/pci0000:{switch.bus:02x}", switch.bus
    last = bus + 2 + len(switch.cards)
    cpus = machine.cpus_of(switch.numa_index, machine.numa_nodes)
    near = (None if machine.is_guest else switch.numa_index, cpus)
    port = Card(device=0x352A, vendor=0x8086, class_code=0x0604, driver="pcieport")
    inner = replace(port, device=0xC030, vendor=0x1000)
    place = f"{root}/0000:{bus:02x}:01.0"
    _write_device(files, near, place, port, (bus, bus + 1, last))
    place = f"{place}/0000:{bus + 1:02x}:00.0"
    _write_device(files, near, place, inner, (bus + 1, bus + 2, last))
    for at, card in enumerate(switch.cards):
        below, end = f"{place}/0000:{bus + 2:02x}:{at:02x}.0", bus + 3 + at
        _write_device(files, near, below, inner, (bus + 2, end, end))
        end_place = f"{below}/0000:{end:02x}:00.0"
        _write_device(files, near, end_place, card, None)
        _write_function(files, machine, end_place, card)


def _write_device(
    files: _Files, near: tuple[int | None, list[int]], place: str, card: Card, buses: _Buses
) -> None:
    """`near` are the NUMA node, None being unknown, and the CPUs that are local."""
    address, (numa_index, cpus) = place.rpartition("/")[2], near
    values = {
        "class": f"0x{card.class_code:04x}00",
        "vendor": f"0x{card.vendor:04x}",
        "device": f"0x{card.device:04x}",
        "subsystem_vendor": f"0x{card.vendor:04x}",
        "subsystem_device": "0x0001",
        "numa_node": str(-1 if numa_index is None else numa_index),
        "local_cpulist": index_list(cpus),
        "local_cpus": _mask(cpus),
        "current_link_speed": "32.0 GT/s PCIe",
        "current_link_width": str(card.width),
        "max_link_speed": "32.0 GT/s PCIe",
        "max_link_width": str(card.max_width),
        "uevent": "\n".join(_uevent(card, address)),
    }
    for name, value in values.items():
        files.text(f"{place}/{name}", value)
    files.data(f"{place}/config", _config(card, buses))
    files.link(f"{place}/driver", f"sys/bus/pci/drivers/{card.driver}")
    files.link(f"sys/bus/pci/devices/{address}", place)


def _uevent(card: Card, address: str) -> Iterator[str]:
    yield f"DRIVER={card.driver}"
    yield f"PCI_CLASS={card.class_code << 8:X}"
    yield f"PCI_ID={card.vendor:04X}:{card.device:04X}"
    yield f"PCI_SUBSYS_ID={card.vendor:04X}:0001"
    yield f"PCI_SLOT_NAME={address}"


def _config(card: Card, buses: _Buses) -> bytes:
    """The header alone, which is what a user may read (PCI Local Bus Specification 3.0, 6.1)."""
    data = bytearray(64)
    data[0:2], data[2:4] = card.vendor.to_bytes(2, "little"), card.device.to_bytes(2, "little")
    data[0x0A:0x0C] = card.class_code.to_bytes(2, "little")
    if buses is not None:
        data[0x0E], data[0x18:0x1B] = 1, bytes(buses)
    return bytes(data)


def _write_function(files: _Files, machine: Machine, place: str, card: Card) -> None:
    address = place.rpartition("/")[2]
    if card.driver == "nvidia":
        number = int(address[5:7], 16)
        lines = (
            f"Model: \t\t {machine.gpu_name}",
            f"GPU UUID: \t GPU-{number:08x}-0000-0000-0000-000000000000",
            f"Bus Location: \t {address}",
        )
        files.text(f"proc/driver/nvidia/gpus/{address}/information", "\n".join(lines))
    if card.name is not None:
        _write_rdma(files, place, card, card.name)
    if card.netdev is not None:
        _write_netdev(files, place, card, card.netdev)


def _write_rdma(files: _Files, place: str, card: Card, name: str) -> None:
    folder = f"{place}/infiniband/{name}"
    guid = f"9c63:c003:00{place[-7:-5]}:0000"
    port = {
        "state": "4: ACTIVE" if card.is_up else "1: DOWN",
        "phys_state": "5: LinkUp" if card.is_up else "3: Disabled",
        "rate": f"{card.rate_gb_per_s} Gb/sec (4X NDR)" if card.is_up else "10 Gb/sec (4X SDR)",
        "link_layer": card.kind,
    }
    device = {"node_guid": guid, "node_type": "1: CA", "fw_ver": "28.39.1002", "hca_type": "MT4129"}
    for file, value in device.items():
        files.text(f"{folder}/{file}", value)
    for file, value in port.items():
        files.text(f"{folder}/ports/1/{file}", value)
    files.link(f"{folder}/device", place)
    files.link(f"sys/class/infiniband/{name}", folder)


def _write_netdev(files: _Files, place: str, card: Card, name: str) -> None:
    folder = f"{place}/net/{name}"
    files.text(f"{folder}/operstate", "up" if card.is_up else "down")
    files.text(f"{folder}/speed", str(card.rate_gb_per_s * 1000 if card.is_up else -1))
    files.text(f"{folder}/address", "02:00:00:00:00:01")
    files.link(f"{folder}/device", place)
    files.link(f"sys/class/net/{name}", folder)
