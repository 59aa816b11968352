"""Links of hwloc's XML: NVLink between GPUs, to switches and to CPUs, and XGMI."""

from __future__ import annotations

import pytest

from hpckit.node.topology import CpuLink, GpuLink, LinkKind
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

V100 = "0302 [10de:1db8]"
SWITCH = "0680 [10de:1ac2]"


def gpus(says: str, *numbers: int, library: str = "nvml", gp: int = 100) -> str:
    """GPUs with gp_index 100, 101 …"""
    return "".join(
        function(f"0000:10:{at:02x}.0", says, os_device(f"{library}{number}", 1, gp=gp + number))
        for at, number in enumerate(numbers)
    )


def linked(says: str, keys: str, values: str, *within: str) -> tuple[GpuLink, ...]:
    """The links of a machine with two GPUs of a kind, and what else is within."""
    bridges = host_bridge("0000:[10-10]", gpus(says, 0, 1), *within)
    return parsed(machine(NODE, bridges, after=matrix("NVLinkBandwidth", keys, values))).gpu_links


@pytest.mark.parametrize(
    ("says", "value", "count"),
    [
        ("0302 [10de:15f9]", 40_000, 2),
        ("0302 [10de:1db1]", 75_000, 3),
        ("0302 [10de:20b0]", 300_000, 12),
        ("0302 [10de:2335]", 150_000, 6),
        ("0302 [10de:2901]", 900_000, 18),
        ("0302 [10de:2330]", 60_000, None),
        ("0302 [10de:9999]", 100_000, None),
    ],
)
def test_count_is_by_generation(says: str, value: int, count: int | None) -> None:
    """Hwloc adds up 20, 25 or 50 GB/s a link, as the GPU's NVLink has it."""
    (link,) = linked(says, "OSDev:100 OSDev:101", f"1000000 {value} {value} 1000000")
    assert link == GpuLink(
        a=0,
        b=1,
        kind=LinkKind.NVLINK,
        count=count,
        bandwidth_bytes_per_s=value * 1e6,
        is_switched=False,
    )


def test_count_without_an_address() -> None:
    """Without its PCI ids a GPU's generation is not known, and so is the number of its links."""
    devices = [os_device(f"nvml{at}", 1, gp=100 + at) for at in (0, 1)]
    after = matrix("NVLinkBandwidth", "OSDev:100 OSDev:101", "1 50000 50000 1")
    (link,) = parsed(machine(NODE, *devices, after=after)).gpu_links
    assert (link.count, link.bandwidth_bytes_per_s) == (None, 5e10)


def test_pairs_without_links() -> None:
    """A pair with 0 has no link."""
    assert linked(V100, "OSDev:100 OSDev:101", "1000000 0 0 1000000") == ()


def test_links_through_switches() -> None:
    """Of GPUs at NVSwitches a pair has what the one with fewer links has, on other switches too."""
    switches = (
        function("0000:10:08.0", SWITCH, gp=200, subtype="NVSwitch"),
        function("0000:10:09.0", SWITCH, gp=201, subtype="NVSwitch"),
    )
    keys = "OSDev:100 OSDev:101 PCIDev:200 PCIDev:201"
    values = "0 0 50000 75000 0 0 0 100000 50000 0 0 0 75000 100000 0 0"
    topology = parsed(
        machine(
            NODE,
            host_bridge("0000:[10-10]", gpus(V100, 0, 1), *switches),
            after=matrix("NVLinkBandwidth", keys, values),
        )
    )
    (link,) = topology.gpu_links
    assert topology.cpu_links == ()
    assert (link.count, link.bandwidth_bytes_per_s, link.is_switched) == (4, 1e11, True)


def test_links_to_cpus() -> None:
    """NVLinks between a GPU and a CPU of POWER go to the NUMA node of that CPU."""
    package = '<object type="Package" gp_index="5" os_index="0" cpuset="0xf" nodeset="0x1"/>'
    bridges = host_bridge("0000:[10-10]", gpus("0302 [10de:15f9]", 0, 1))
    after = matrix(
        "NVLinkBandwidth",
        "OSDev:100 OSDev:101 Package:5",
        "1000000 40000 40000 40000 1000000 0 40000 0 1000000",
    )
    topology = parsed(machine(NODE, package, bridges, after=after))
    assert topology.cpu_links == (
        CpuLink(
            gpu_index=0,
            kind=LinkKind.NVLINK,
            numa_index=0,
            count=2,
            bandwidth_bytes_per_s=4e10,
        ),
    )
    assert [(link.a, link.b) for link in topology.gpu_links] == [(0, 1)]


def xgmi(values: str, hops: str | None = None) -> tuple[GpuLink, ...]:
    """The links of a machine with three AMD GPUs."""
    bridges = host_bridge("0000:[10-10]", gpus("0380 [1002:740c]", 0, 1, 2, library="rsmi"))
    keys = "100 101 102"
    after = matrix("XGMIBandwidth", keys, values, tag="distances2")
    if hops is not None:
        after += matrix("XGMIHops", keys, hops, tag="distances2")
    return parsed(machine(NODE, bridges, after=after)).gpu_links


def test_assumed_figures_are_not_told() -> None:
    """100000 and 1 for every pair are hwloc's constants: the links are told, no figures."""
    values = "1000000 100000 0 100000 1000000 100000 0 100000 1000000"
    assert xgmi(values, "0 1 0 1 0 1 0 1 0") == (
        GpuLink(a=0, b=1, kind=LinkKind.XGMI),
        GpuLink(a=1, b=2, kind=LinkKind.XGMI),
    )


def test_figures_that_differ_are_told() -> None:
    """Figures that are not the same constant for all are the driver's (hwloc 3 with AMD SMI)."""
    values = "1 200000 50000 200000 1 50000 50000 50000 1"
    links = xgmi(values, "0 1 2 1 0 2 2 2 0")
    assert [(link.a, link.b, link.bandwidth_bytes_per_s, link.hops) for link in links] == [
        (0, 1, 2e11, 1),
        (0, 2, 5e10, 2),
        (1, 2, 5e10, 2),
    ]


def test_figures_without_hops() -> None:
    """Hops are not told where the file has none."""
    links = xgmi("1 200000 0 200000 1 0 0 0 1")
    assert [(link.bandwidth_bytes_per_s, link.hops) for link in links] == [(2e11, None)]


def test_peers_by_name() -> None:
    """Without a matrix the names of peers tell which GPUs XGMI joins."""
    devices = [
        function(f"0000:10:{at:02x}.0", "0380 [1002:740c]", os_device(f"rsmi{at}", 1, said))
        for at, said in enumerate(
            [info("XGMIPeers", "rsmi1"), info("XGMIPeers", "rsmi0"), info("GPUVendor", "AMD")]
        )
    ]
    links = parsed(machine(NODE, host_bridge("0000:[10-10]", *devices))).gpu_links
    assert links == (GpuLink(a=0, b=1, kind=LinkKind.XGMI),)


@pytest.mark.parametrize(
    ("says", "because"),
    [
        (V100, "the file has no NVLinkBandwidth: no NVLinks, or no NVML"),
        ("0380 [1002:740c]", "the file has no XGMIBandwidth: no XGMI, or no ROCm SMI"),
    ],
)
def test_why_there_are_no_links(says: str, because: str) -> None:
    """Two GPUs of a maker without a matrix have no links that are known, and the reason is told."""
    topology = parsed(machine(NODE, host_bridge("0000:[10-10]", gpus(says, 0, 1))))
    assert because in {one.because for one in topology.unknown if one.what == "gpu_links"}
    single = parsed(machine(NODE, host_bridge("0000:[10-10]", gpus(says, 0))))
    assert "gpu_links" not in {one.what for one in single.unknown}
