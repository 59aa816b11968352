"""NCCL's and RCCL's topology files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hpckit.core.errors import ParseError
from hpckit.core.foreign_text import parse_xml
from hpckit.node.capture.nccl_xml import parse_nccl_xml
from hpckit.node.topology import CpuLink, GpuLink, GpuVendor, LinkKind, NodeTopology, NvLinkRemote
from hpckit.spec.nic_kind import NicKind
from tests.corpus import corpus_file, corpus_files

RECORDS = Path(__file__).parents[2] / "records"
MODELS = "nccl-topo-xml/rccl-topo_expl/MODEL_DESCRIPTIONS.txt"


def _parse(text: str | bytes) -> NodeTopology:
    data = text.encode() if isinstance(text, str) else text
    return parse_nccl_xml(parse_xml(data, "topo.xml"))


def _record(name: str) -> NodeTopology:
    return _parse((RECORDS / name / "topo.xml").read_bytes())


def _system(inside: str, version: str = "1") -> str:
    return f'<system version="{version}">{inside}</system>'


def _cpu(inside: str, attributes: str = 'numaid="0"') -> str:
    return _system(f"<cpu {attributes}>{inside}</cpu>")


def _reasons(topology: NodeTopology, subject: str) -> str:
    return "; ".join(
        f"{one.what}: {one.because}" for one in topology.unknown if one.subject == subject
    )


def test_a_dump_tells_gpus_nics_and_links() -> None:
    """Of a dump come GPUs with architecture and affinity, NICs with rate and port, and pairs."""
    found = _record("nccl-topo-xml-1/synthetic-switched")
    assert found.source.format == "nccl-xml"
    assert [gpu.architecture for gpu in found.gpus] == ["sm_90"] * 3
    assert [gpu.vendor for gpu in found.gpus] == [GpuVendor.NVIDIA] * 3
    assert [(gpu.numa_index, gpu.cpus, gpu.memory_numa) for gpu in found.gpus] == [
        (0, "0-31", "0"),
        (0, "0-31", "0"),
        (1, "32-63", "1"),
    ]
    assert [(nic.name, nic.kind, nic.rate_bytes_per_s) for nic in found.nics] == [
        ("mlx5_0", NicKind.INFINIBAND, 50e9),
        ("mlx5_1", NicKind.ROCE, 12.5e9),
        ("mlx5_2", NicKind.ROCE, 12.5e9),
        ("eth0", None, None),
    ]
    assert [[port.index for port in nic.ports] for nic in found.nics] == [[1], [1], [2], []]
    assert found.nics[1].pci == found.nics[2].pci == "0000:68:00.0"
    assert (found.nics[3].pci, found.nics[3].numa_index) == (None, 1)


def test_pairs_behind_switches_have_the_smaller_count() -> None:
    """Through NVSwitches a pair has as many links as the GPU with fewer, in one direction each."""
    found = _record("nccl-topo-xml-1/synthetic-switched")
    assert [(link.a, link.b, link.count) for link in found.gpu_links] == [
        (0, 1, 17),
        (0, 2, 18),
        (1, 2, 17),
    ]
    assert found.gpu_links[1] == GpuLink(
        a=0, b=2, kind=LinkKind.NVLINK, count=18, bandwidth_bytes_per_s=450e9, is_switched=True
    )
    links = found.gpus[1].nvlinks
    assert links is not None
    assert len(links) == 17
    assert {link.remote for link in links} == {NvLinkRemote.SWITCH}


def test_the_cpu_is_told_once_with_cpuids_family() -> None:
    """NCCL's family 175 is CPUID's 25, and NUMA nodes have the CPUs of their masks."""
    found = _record("nccl-topo-xml-1/synthetic-switched")
    assert (found.cpu.family, found.cpu.model_number) == (25, 17)
    assert (found.cpu.arch, found.cpu.vendor) == ("x86_64", "AuthenticAMD")
    assert [(node.index, node.cpus) for node in found.numa_nodes] == [(0, "0-31"), (1, "32-63")]


def test_the_pci_tree_keeps_parents_ids_and_links() -> None:
    """Devices are in the order of the file, each with what is above it."""
    found = _record("nccl-topo-xml-1/synthetic-switched")
    by_address = {device.address: device for device in found.pci}
    assert [device.address for device in found.pci][:3] == [
        "0000:10:00.0",
        "0000:12:00.0",
        "0000:14:00.0",
    ]
    gpu = by_address[found.pci[2].address]
    assert gpu.parent == "0000:12:00.0"
    assert (gpu.class_code, gpu.vendor_id, gpu.device_id) == (0x0302, 0x10DE, 0x2330)
    assert gpu.host_bridge is None
    assert gpu.link is not None
    assert (gpu.link.speed_gt_per_s, gpu.link.width) == (32.0, 16)


def test_a_preset_tells_devices_by_class() -> None:
    """Without <gpu> and <net> class and vendor say what a device is; a bare one stays unknown."""
    found = _record("nccl-topo-xml-1/synthetic-preset")
    assert [(gpu.pci, gpu.vendor) for gpu in found.gpus] == [
        ("0001:00:00.0", None),
        ("0002:00:00.0", None),
        ("0003:00:00.0", GpuVendor.INTEL),
        ("0005:00:00.0", None),
    ]
    assert [(nic.name, nic.kind) for nic in found.nics] == [
        ("0101:00:00.0", NicKind.INFINIBAND),
        ("0000:00:1b.0", NicKind.EFA),
        ("0006:00:00.0", None),
    ]
    assert [one.pci for one in found.accelerators] == ["0004:00:00.0"]
    assert "preset" in _reasons(found, "GPUs")
    assert "1 PCI devices" in _reasons(found, "GPUs, NICs")


def test_what_linux_does_not_know_of_a_link_is_none() -> None:
    """An empty or unknown speed, and a width of 0 or 255, are no figures; 0xffff is no id."""
    found = {device.address: device for device in _record("nccl-topo-xml-1/synthetic-preset").pci}
    links = {str(address): device.link for address, device in found.items()}
    assert links["0002:00:00.0"] is None
    assert links["0003:00:00.0"] is None
    assert found[next(iter(found))].vendor_id is None


def test_the_first_host_of_a_domain_is_the_node() -> None:
    """Of a file with several hosts the first is read, and the others are counted."""
    found = _record("nccl-topo-xml-1/synthetic-grace")
    assert len(found.gpus) == 2
    assert _reasons(found, "hosts").startswith("1 more, with 1 GPUs")


def test_c2c_leads_to_the_cpu() -> None:
    """C2C is a link of a GPU to its CPU, with the bandwidth of all its links."""
    found = _record("nccl-topo-xml-1/synthetic-grace")
    assert found.cpu_links[1] == CpuLink(
        gpu_index=1, kind=LinkKind.C2C, numa_index=0, count=10, bandwidth_bytes_per_s=447.12e9
    )
    assert found.gpu_links[0].bandwidth_bytes_per_s == 900e9


def test_links_to_cpus_and_to_gpus_that_are_not_there() -> None:
    """NVLinks to a CPU are its links, and those to a GPU that the file lacks are told."""
    found = _record("nccl-topo-xml-1/synthetic-power")
    assert [(link.gpu_index, link.count, link.kind) for link in found.cpu_links] == [
        (0, 3, LinkKind.NVLINK),
        (1, 3, LinkKind.NVLINK),
    ]
    assert found.gpu_links == (
        GpuLink(
            a=0, b=1, kind=LinkKind.NVLINK, count=2, bandwidth_bytes_per_s=50e9, is_switched=False
        ),
    )
    assert "0035:03:00.0" in _reasons(found, "GPU1")


def test_numa_minus_one_is_unknown() -> None:
    """A <cpu> of node -1 is no NUMA node, and what is below it has none, with the reason."""
    found = _record("nccl-topo-xml-1/synthetic-power")
    assert [node.index for node in found.numa_nodes] == [0]
    assert found.nics[0].numa_index is None
    assert found.nics[0].bond == "mlx5_bond_0"
    assert "-1" in _reasons(found, "the devices below that <cpu>")


def test_rccl_writes_xgmi_and_its_own_architectures() -> None:
    """Version 2 has XGMI, gcn 910 is gfx90a, and of two directions the smaller count counts."""
    found = _record("nccl-topo-xml-2/synthetic-xgmi")
    assert found.source.format == "rccl-xml"
    assert [gpu.architecture for gpu in found.gpus] == ["gfx90a", "gfx90a", "gfx942"]
    assert [gpu.nvlinks for gpu in found.gpus] == [None] * 3
    assert [(x.a, x.b, x.kind, x.count, x.bandwidth_bytes_per_s) for x in found.gpu_links] == [
        (0, 1, LinkKind.XGMI, 4, 200e9),
        (0, 2, LinkKind.XGMI, 1, 50e9),
    ]


def test_numbers_follow_dev_unless_it_repeats() -> None:
    """GPUs are ordered by dev; where it repeats they are numbered in the order of the file."""
    pci = '<pci busid="0000:0{0}:00.0"><gpu dev="{1}" sm="{2}"/></pci>'
    found = _parse(_cpu(pci.format(1, 7, 80) + pci.format(2, 3, 90)))
    assert [(gpu.index, gpu.architecture) for gpu in found.gpus] == [(3, "sm_90"), (7, "sm_80")]
    same = _parse(_cpu(pci.format(1, 0, 80) + pci.format(2, 0, 90)))
    assert [gpu.index for gpu in same.gpus] == [0, 1]
    assert "index" in _reasons(same, "GPUs")


def test_an_address_twice_belongs_to_the_first() -> None:
    """A second device at an address has none, and a second switch is one with the first."""
    inner = '<pci busid="0000:01:00.0"><nic><net name="mlx5_0"/></nic></pci>'
    found = _parse(_cpu(f'<pci busid="0000:01:00.0">{inner}</pci>'))
    assert (len(found.pci), found.nics[0].pci) == (1, None)
    assert "0000:01:00.0" in _reasons(found, "the later one")
    switch = '<pci busid="0000:01:00.0"><pci busid="0000:0{}:00.0"/></pci>'
    assert "read as one" in _reasons(_parse(_cpu(switch.format(2) + switch.format(3))), "switches")


def test_links_to_itself_have_no_known_end() -> None:
    """A VM that hides the peer shows a GPU's links as leading to itself."""
    link = '<nvlink target="0000:01:00.0" count="12" tclass="0x030200"/>'
    found = _parse(_cpu(f'<pci busid="0000:01:00.0"><gpu sm="80">{link}</gpu></pci>'))
    assert found.gpu_links == ()
    assert "12 links" in _reasons(found, "GPU0")


def test_links_beside_the_tree_are_told() -> None:
    """Switches that <pcilink> joins are told of: no path follows it."""
    side = '<pcilink target="0000:02:00.0"/>'
    found = _parse(_cpu(f'<pci busid="0000:01:00.0" class="0x060400">{side}</pci>'))
    assert "pcilink" in _reasons(found, "switches")


BAD = {
    "graph": ("<graphs version='1'/>", "rings and trees"),
    "version": (_system('<cpu numaid="0"/>', "3"), "1 (NCCL) or 2 (RCCL)"),
    "no version": ("<system><cpu/></system>", "version of <system>"),
    "no cpu": (_system(""), "no <cpu>"),
    "no numaid": (_cpu("", ""), "numaid"),
    "numaid": (_cpu("", 'numaid="zero"'), "a number"),
    "numaid below": (_cpu("", 'numaid="-2"'), "from -1"),
    "numaid beyond": (_cpu("", 'numaid="65536"'), "numaid"),
    "mask": (_cpu("", 'numaid="0" affinity="xyz"'), "a mask"),
    "no busid": (_cpu("<pci/>"), "busid"),
    "busid": (_cpu('<pci busid="1"/>'), "a PCI address"),
    "class": (_cpu('<pci busid="0000:01:00.0" class="gpu"/>'), "a PCI class"),
    "speed": (_cpu('<pci busid="0000:01:00.0" link_speed="fast"/>'), "a speed"),
    "vendor": (_cpu('<pci busid="0000:01:00.0" vendor="0x10000"/>'), "from 0 to 65535"),
    "digits": (_cpu(f'<pci busid="0000:01:00.0" vendor="{"9" * 5000}"/>'), "a number"),
    "gpu in cpu": (_cpu("<gpu/>"), "it inside <pci>"),
    "pci in system": (_system('<pci busid="0000:01:00.0"/><cpu/>'), "<pci> inside <system>"),
    "net without name": (
        _cpu('<pci busid="0000:01:00.0"><nic><net dev="0"/></nic></pci>'),
        "name",
    ),
    "link without count": (
        _cpu('<pci busid="0000:01:00.0"><gpu><nvlink target="0"/></gpu></pci>'),
        "count",
    ),
    "too many links": (
        _cpu(
            '<pci busid="0000:01:00.0"><gpu><nvlink target="x" count="200"/>'
            '<nvlink target="y" count="200"/></gpu></pci>'
        ),
        "more than 256",
    ),
}


@pytest.mark.parametrize(("text", "told"), BAD.values(), ids=BAD)
def test_what_is_no_topology_is_refused(text: str, told: str) -> None:
    """What the format does not allow is refused with its line and what was expected."""
    with pytest.raises(ParseError, match=re.escape(told)) as caught:
        _parse(text)
    assert caught.value.line_no == 1


@pytest.mark.parametrize("path", corpus_files("nccl-topo-xml/**/*topo*.xml"))
def test_every_capture_parses(path: Path) -> None:
    """Every topology file of the corpus gives GPUs and PCI devices, each GPU with an address."""
    found = _parse(path.read_bytes())
    assert found.gpus
    assert all(gpu.pci is not None for gpu in found.gpus)
    addresses = [device.address for device in found.pci]
    assert len(set(addresses)) == len(addresses)


def test_models_have_as_many_gpus_and_nics_as_described() -> None:
    """RCCL's list of models says of many how many GPUs and NICs they have, and they have them."""
    described = corpus_file(MODELS).read_text("utf-8")
    entries = re.findall(r'"(topo_\w+\.xml)",\s+"(.*?)"', described)
    compared = 0
    for name, text in entries:
        path = corpus_file(MODELS).parent / name
        if not path.exists():
            continue
        found = _parse(path.read_bytes())
        gpus, nics = _said_gpus(text), re.search(r"\b(\d+) NICs?\b|\b(\d+) NET/IF", text)
        if gpus is not None:
            assert len(found.gpus) == gpus, text
            compared += 1
        if nics is not None:
            assert len(found.nics) == int(nics[1] or nics[2]), text
            compared += 1
    assert compared > 20


def _said_gpus(text: str) -> int | None:
    """`8 VEGA20`, `8 gfx908`, `8 GPUs`, `4P2H` of two hives: 8, `16P1H`."""
    counted = re.search(r"\b(\d+) (?:GPUs|VEGA20|gfx\w+)(?! \d+P)", text)
    if counted is not None:
        return int(counted[1])
    one_hive = re.search(r"\b(\d+)P1H", text)
    return int(one_hive[1]) if one_hive is not None else None


def test_the_h100_dump_is_a_switched_node_of_eight() -> None:
    """The dump of an 8×H100 node has 28 pairs of 18 links and 16 ports on 8 cards."""
    found = _parse(corpus_file("nccl-topo-xml/oci/H100-topology.xml").read_bytes())
    assert {(link.count, link.bandwidth_bytes_per_s) for link in found.gpu_links} == {(18, 450e9)}
    assert (len(found.gpus), len(found.gpu_links)) == (8, 28)
    assert (len(found.nics), len({nic.pci for nic in found.nics})) == (16, 8)
