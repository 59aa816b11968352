"""What is refused of hwloc's XML, with the line and what was expected."""

from __future__ import annotations

import pytest

from hpckit.core.errors import ParseError
from tests.fakes.hwloc_machines import (
    NODE,
    function,
    host_bridge,
    info,
    machine,
    matrix,
    os_device,
    parsed,
)

GPU = function("0000:10:00.0", "0302 [10de:2330]", os_device("nvml0", 1, gp=1))
SIZE = os_device("nvml0", 1, info("CUDAGlobalMemorySize", "many"))
NUMALESS = '<object type="NUMANode" cpuset="0xf" nodeset="0x1"/>'


def refusal(text: str) -> ParseError:
    """The error of a document."""
    with pytest.raises(ParseError) as caught:
        parsed(text)
    return caught.value


REFUSED = [
    ("<system/>", "0 objects at the top"),
    ("<topology/>", "0 objects at the top"),
    ('<topology version="4.0"/>', "schema version '4.0'"),
    ('<topology version="2"/>', "schema version '2'"),
    ('<topology><object type="Core"/></topology>', "no Machine at the top"),
    ('<topology><object type="Machine"/><object type="Machine"/></topology>', "2 objects"),
    (machine('<object type="Machine"/>').replace("Machine", "Package", 1), "no Machine"),
    (machine('<object type="Core"><object type="Machine"/></object>'), "a Machine inside"),
    (machine('<object type="Toaster"/>'), "the type of an object is 'toaster'"),
    (machine("<object/>"), "the type of an object is ''"),
    (machine("<latency/>"), "<latency> inside an object"),
    (machine(sets='cpuset="0xg"'), "cpuset: expected a mask"),
    (machine(sets='cpuset="0x1" allowed_cpuset="1-3"'), "allowed_cpuset: expected a mask"),
    (
        machine(host_bridge("0000:[10-10]", GPU), sets='nodeset="0x123456789"'),
        "nodeset: expected a mask",
    ),
    (machine(NUMALESS), "the os_index of a NUMA node is none"),
    (machine(NUMALESS.replace("cpuset", 'os_index="70000" cpuset')), "is 70000"),
    (machine(NUMALESS.replace("cpuset", 'os_index="-1" cpuset')), "is none"),
    (machine(NODE, NODE), "NUMA node 0 twice"),
    (machine(NODE.replace("/>", ' local_memory="1e9"/>')), "local_memory is '1e9'"),
    (machine(NODE.replace("/>", f' local_memory="{"9" * 5000}"/>')), "local_memory is '999"),
    (machine('<object type="Package" os_index="٣"/>'), "os_index is '٣'"),
    (machine('<object type="Bridge" bridge_type="2-1"/>'), "bridge_type is '2-1'"),
    (machine(host_bridge("0000:10-14", GPU)), "bridge_pci is '0000:10-14'"),
    (machine(host_bridge("0000:[10-10]", GPU, GPU)), "PCI function 0000:10:00.0 twice"),
    (
        machine(NODE, function("0000:10:40.0", "0302 [10de:2330]")),
        "pci_busid is '0000:10:40.0'",
    ),
    (machine('<object type="PCIDev"/>'), "pci_busid is ''"),
    (machine(NODE, function("0000:10:00.0", "display")), "pci_type is 'display"),
    (machine(NODE, GPU.replace("0.000000", "inf")), "pci_link_speed is 'inf'"),
    (machine(NODE, GPU.replace("0.000000", "9" * 19)), "pci_link_speed is '999"),
    (machine(NODE, os_device("eth0", 2).replace('"2"', '"net"')), "osdev_type is 'net'"),
    (machine(NODE, function("0000:10:00.0", "0302 [10de:2330]", SIZE)), "MemorySize is 'many'"),
    (
        machine(NODE, os_device("mlx5_0", 3, info("Port1State", "ACTIVE"))),
        "Port1State is 'ACTIVE'",
    ),
    (
        machine(NODE.replace("/>", f">{info('PCIBusID', 'x')}</object>")),
        "PCIBusID is 'x'",
    ),
]


@pytest.mark.parametrize(("text", "says"), REFUSED, ids=[says for _, says in REFUSED])
def test_refused(text: str, says: str) -> None:
    """What is not hwloc's is refused, and the error says what was there."""
    assert says in str(refusal(text))


@pytest.mark.parametrize(
    ("keys", "values", "says"),
    [
        ("OSDev:1 OSDev:2", "1 2 3", "2 indexes and 3 values for 2 objects"),
        ("OSDev:1", "1 2 3 4", "1 indexes and 4 values for 1 objects"),
        ("OSDev:one", "1", "got 'OSDev:one'"),
        ("OSDev:1", "-1", "got '-1'"),
        ("", "", "0 indexes and 0 values for 0 objects"),
        ("OSDev:1", "9" * 21, "got '999"),
    ],
)
def test_refused_matrices(keys: str, values: str, says: str) -> None:
    """A matrix has an index an object and a value a pair."""
    after = matrix("NVLinkBandwidth", keys, values)
    assert says in str(refusal(machine(NODE, host_bridge("0000:[10-10]", GPU), after=after)))


@pytest.mark.parametrize(
    "latencies",
    [
        '<distances nbobjs="1" latency_base="1.0"/>',
        '<distances nbobjs="1"><latency value="10.0"/></distances>',
        '<distances nbobjs="1" latency_base="1.0"><latency/></distances>',
        '<distances nbobjs="1" latency_base="1.0"><latency value="nan"/></distances>',
        '<distances nbobjs="1" latency_base="ten"><latency value="1.0"/></distances>',
    ],
)
def test_refused_latencies(latencies: str) -> None:
    """A matrix of 1.x has a base, and a number a pair."""
    refusal(machine(latencies, NODE, version=None))


def test_the_line_is_shown() -> None:
    """The error has the line of the object, and a caret below it."""
    error = refusal(machine(NODE, '<object type="Toaster"/>'))
    assert (error.line_no, error.tool) == (4, "hwloc")
    assert '<object type="Toaster"/>' in str(error)
    assert str(error).splitlines()[-1].strip() == "^"
