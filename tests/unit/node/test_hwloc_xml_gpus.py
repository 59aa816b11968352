"""GPUs of hwloc's XML: what is one, how they are numbered, what is said of them."""

from __future__ import annotations

import pytest

from hpckit.node.pci_tree import is_nvswitch
from hpckit.node.topology import GpuVendor
from tests.fakes.hwloc_machines import (
    NODE,
    function,
    host_bridge,
    info,
    machine,
    os_device,
    parsed,
    record,
)

H100 = "0302 [10de:2330]"
MI300A = "1200 [1002:74a0]"
BUSES = "0000:[10-10]"


def cards(*functions: str, version: str = "2.0") -> str:
    """A machine with these functions."""
    return machine(NODE, host_bridge(BUSES, *functions), version=version)


def addresses(text: str) -> list[tuple[int, str | None]]:
    """The GPUs of a document by number and address."""
    return [(gpu.index, gpu.pci) for gpu in parsed(text).gpus]


def test_what_is_said_of_a_gpu() -> None:
    """A GPU has the names of NVML and CUDA, and the place of its host bridge."""
    gpu = record("hwloc-2.9.0").gpus[1]
    assert (gpu.index, gpu.name, gpu.vendor) == (1, "NVIDIA H100 80GB HBM3", GpuVendor.NVIDIA)
    assert (gpu.pci, gpu.numa_index) == ("0000:93:00.0", 1)
    assert gpu.uuid == "GPU-00000000-0000-0000-0000-000000000002"
    assert gpu.serial == "1000000000001"
    assert gpu.memory_bytes == 82_913_216 * 1024
    assert (gpu.cpus, gpu.memory_numa, gpu.is_hidden) == ("4-7", "1", False)


def test_an_nvswitch_without_numbers() -> None:
    """It is known by what hwloc had NVML say of it."""
    nvidia = function("0000:10:00.0", "0680 [10de:1ac2]", subtype="NVSwitch")
    unread = function("0000:11:00.0", "0000 [0000:0000]", subtype="NVSwitch")
    other = function("0000:12:00.0", "0680 [8086:1ac2]")
    devices = parsed(cards(nvidia, unread, other)).pci
    assert [is_nvswitch(one) for one in devices if one.class_code != 0x0604] == [True, True, False]


def test_integrated_graphics() -> None:
    """Intel's graphics within the CPU is a GPU only if Level Zero lists it."""
    plain = function("0000:00:02.0", "0300 [8086:4680]")
    listed = function("0000:00:02.0", "0300 [8086:4680]", os_device("ze0", 5, subtype="LevelZero"))
    assert parsed(machine(NODE, host_bridge("0000:[00-00]", plain))).gpus == ()
    assert len(parsed(machine(NODE, host_bridge("0000:[00-00]", listed))).gpus) == 1


def test_numbers_of_nvml_before_those_of_cuda() -> None:
    """NVML's number counts, though CUDA's is another."""
    text = cards(
        function("0000:10:00.0", H100, os_device("cuda0", 5), os_device("nvml1", 1)),
        function("0000:10:01.0", H100, os_device("cuda1", 5), os_device("nvml0", 1)),
    )
    assert addresses(text) == [(0, "0000:10:01.0"), (1, "0000:10:00.0")]


def test_numbers_by_bus_id() -> None:
    """Without libraries GPUs are counted by bus id, domains included, and that is said."""
    text = machine(
        NODE,
        host_bridge("10000:[10-10]", function("10000:10:00.0", H100)),
        host_bridge("fff0:[10-10]", function("fff0:10:00.0", H100)),
    )
    assert addresses(text) == [(0, "fff0:10:00.0"), (1, "10000:10:00.0")]
    unknown = {(one.subject, one.what) for one in parsed(text).unknown}
    assert {("GPUs", "index"), ("GPUs", "uuid"), ("GPUs", "name")} <= unknown


def test_hidden_gpus() -> None:
    """A GPU that the driver's library does not list is hidden, and comes last."""
    text = cards(
        function("0000:10:00.0", H100), function("0000:10:01.0", H100, os_device("nvml0", 1))
    )
    shown, hidden = parsed(text).gpus
    assert (shown.pci, shown.is_hidden) == ("0000:10:01.0", False)
    assert (hidden.index, hidden.pci, hidden.is_hidden) == (1, "0000:10:00.0", True)


def test_partitions() -> None:
    """Each device of ROCm SMI on one function is a GPU, a partition (CPX); one alone is none."""
    named = info("GPUModel", "AMD Instinct MI300A")
    devices = [os_device(f"rsmi{at}", 1, named if at == 9 else "") for at in (11, 9, 10)]
    gpus = parsed(cards(function("0000:10:00.0", MI300A, *devices))).gpus
    assert [(gpu.index, gpu.partition, gpu.pci) for gpu in gpus] == [
        (9, "0", "0000:10:00.0"),
        (10, "1", "0000:10:00.0"),
        (11, "2", "0000:10:00.0"),
    ]
    assert {gpu.name for gpu in gpus} == {"AMD Instinct MI300A"}
    silent = os_device("rsmi0", 1, info("AMDUUID", "0000000000000000"))
    (gpu,) = parsed(cards(function("0000:10:00.0", MI300A, silent))).gpus
    assert (gpu.partition, gpu.uuid) == (None, None)


@pytest.mark.parametrize(
    ("version", "name", "value"),
    [
        ("2.0", "CUDAGlobalMemorySize", "1024"),
        ("3.0", "CUDAGlobalMemorySize", "1024KiB"),
        ("2.0", "RSMIVRAMSize", "1024"),
        ("2.0", "LevelZeroHBMSize", "1024"),
        ("2.0", "OpenCLGlobalMemorySize", "1024"),
    ],
)
def test_memory(version: str, name: str, value: str) -> None:
    """Sizes are in KiB, and from 3.0 on say so."""
    device = os_device("cuda0", 5, info(name, value))
    (gpu,) = parsed(cards(function("0000:10:00.0", H100, device), version=version)).gpus
    assert gpu.memory_bytes == 1024 * 1024


def test_name_from_pci_ids() -> None:
    """Without a library the name is that of pci.ids: an info, in 1.x the object's name."""
    named = function("0000:10:00.0", H100).replace("type=", 'name="NVIDIA V100" type=', 1)
    (old,) = parsed(machine(NODE, named, version=None)).gpus
    (new,) = parsed(cards(function("0000:10:00.0", H100, info("PCIDevice", "GH100")))).gpus
    assert (old.name, new.name) == ("NVIDIA V100", "GH100")


def test_files_without_pci() -> None:
    """GPUs of a file that leaves PCI out are the devices of one library, without address."""
    devices = [os_device("cuda0", 5), os_device("nvml0", 1), os_device("nvml1", 1)]
    gpus = parsed(machine(NODE, *devices)).gpus
    assert [(gpu.index, gpu.pci, gpu.vendor, gpu.numa_index) for gpu in gpus] == [
        (0, None, GpuVendor.NVIDIA, 0),
        (1, None, GpuVendor.NVIDIA, 0),
    ]


def test_accelerators() -> None:
    """Processing functions of other makers and Xeon Phi cards are accelerators, with their name."""
    gaudi = function("0000:10:00.0", "1200 [1da3:1060]", info("PCIDevice", "HL-2080"))
    phi = function("0000:10:01.0", "0b40 [8086:225c]")
    quick_assist = function("0000:10:02.0", "0b40 [8086:4940]")
    found = parsed(cards(gaudi, phi, quick_assist, function("0000:10:03.0", MI300A))).accelerators
    assert [(one.index, one.name, one.pci, one.numa_index) for one in found] == [
        (0, "HL-2080", "0000:10:00.0", 0),
        (1, "8086:225c", "0000:10:01.0", 0),
    ]
