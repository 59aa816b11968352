"""A node as NCCL's topology file."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from pathlib import Path

import pytest

from hpckit.errors import PlanError, RenderError
from hpckit.model.hardware import (
    CpuLink,
    CpuTopology,
    Gpu,
    GpuLink,
    GpuVendor,
    LinkKind,
    Nic,
    NicPort,
    NodeTopology,
    NumaNode,
    NvLink,
    NvLinkRemote,
    Source,
    Unknown,
)
from hpckit.model.index_list import IndexList
from hpckit.model.nic_kind import NicKind
from hpckit.model.pci import PciAddress, PciDevice, PcieLink, pci_address
from hpckit.parse.nccl_xml import parse_nccl_xml
from hpckit.parse.xml_elements import Element, parse_xml
from hpckit.render.nccl_xml import nccl_lacks, nccl_xml
from tests.corpus import corpus_files

RECORDS = Path(__file__).parents[2] / "records"
NEVER_WRITTEN = {
    # The network plugin's own, which NCCL fills in for a <net> that lacks them.
    ("net", "latency"),
    ("net", "maxconn"),
    ("net", "coll"),
    ("net", "net"),
    ("net", "gin"),
    # A property of the process that dumped, and hardware that the model has no place for.
    ("cpu", "host_hash"),
    ("pcilink", "target"),
    # RCCL's number of compute units and feature bits.
    ("gpu", "arch"),
}


def _parse(data: bytes) -> NodeTopology:
    return parse_nccl_xml(parse_xml(data, "topo.xml"))


def _elements(text: str) -> list[Element]:
    return list(parse_xml(text.encode(), "topo.xml").root.walk())


def _device(address: str, parent: str | None = None, **rest: int | str | PcieLink) -> PciDevice:
    above = None if parent is None else pci_address(parent)
    return dataclasses.replace(PciDevice(address=pci_address(address), parent=above), **rest)  # type: ignore[arg-type]


def _at(text: str) -> PciAddress:
    return pci_address(text)


def _full_node() -> NodeTopology:
    """Root port, switch, and below it a GPU and a card of two functions, as sysfs has them."""
    fast = PcieLink(max_speed_gt_per_s=32.0, max_width=16, speed_gt_per_s=2.5, width=16)
    slow = PcieLink(max_speed_gt_per_s=16.0, max_width=8)
    return NodeTopology(
        source=Source(format="sysfs"),
        cpu=CpuTopology(arch="aarch64", vendor="ARM", family=8, model_number=1),
        numa_nodes=(NumaNode(index=0, cpus=IndexList("0-39")),),
        gpus=(Gpu(index=0, pci=_at("03:00.0"), architecture="sm_90", is_gdr=True),),
        nics=(
            Nic(
                index=0,
                name="mlx5_0",
                pci=_at("04:00.0"),
                ports=(NicPort(index=1),),
                guid="946d:ae03:0050:709a",
            ),
            Nic(index=1, name="mlx5_1", pci=_at("04:00.1"), ports=(NicPort(index=1),)),
            Nic(index=2, name="eth0", kind=NicKind.ETHERNET, pci=_at("05:00.0")),
            Nic(index=3, name="lost", pci=_at("99:00.0")),
        ),
        pci=(
            _device("00:01.0", host_bridge="pci0000:00", class_code=0x0604, numa_index=0),
            _device("01:00.0", "00:01.0", class_code=0x0604, link=fast),
            _device("02:00.0", "01:00.0", class_code=0x0604, link=fast),
            _device("03:00.0", "02:00.0", class_code=0x0302, link=fast),
            _device("02:01.0", "01:00.0", class_code=0x0604, link=slow),
            _device("04:00.0", "02:01.0", class_code=0x0200, link=fast),
            _device("04:00.1", "02:01.0", class_code=0x0200, link=fast),
            _device("05:00.0", "00:01.0", class_code=0x0200),
        ),
    )


def test_of_a_full_tree_root_and_downstream_ports_are_left_out() -> None:
    """NCCL's nesting has the upstream port of a switch alone, below the CPU of its NUMA node."""
    parsed = _parse(nccl_xml(_full_node()).encode())
    assert [(device.address, device.parent) for device in parsed.pci] == [
        ("0000:01:00.0", None),
        ("0000:03:00.0", "0000:01:00.0"),
        ("0000:04:00.0", "0000:01:00.0"),
    ]
    assert parsed.pci[0].numa_index == 0


def test_functions_of_a_card_are_ports_of_one_device() -> None:
    """NCCL puts both functions of a card at its first one and counts them as ports."""
    nets = [one for one in _elements(nccl_xml(_full_node())) if one.tag == "net"]
    assert [(net.get("name"), net.get("port")) for net in nets] == [
        ("mlx5_0", "1"),
        ("mlx5_1", "2"),
    ]
    assert nets[0].get("guid") == "0x9a70500003ae6d94"


def test_a_link_is_as_fast_as_its_slower_end_can_be() -> None:
    """Speed and width are the maxima of device and port, not what an idle link has trained to."""
    by_address = {one.get("busid"): one for one in _elements(nccl_xml(_full_node()))}
    assert by_address["0000:03:00.0"].get("link_speed") == "32.0 GT/s PCIe"
    assert by_address["0000:04:00.0"].get("link_speed") == "16.0 GT/s PCIe"
    assert by_address["0000:04:00.0"].get("link_width") == "8"


def test_cpus_are_named_as_nccl_names_them() -> None:
    """A CPU has Linux's mask, and NCCL's word for the architecture and number for the family."""
    text = nccl_xml(_full_node())
    assert 'affinity="000000ff,ffffffff" arch="arm64" vendor="ARM" familyid="8" modelid="1"' in text
    epyc = dataclasses.replace(_full_node(), cpu=CpuTopology(arch="x86_64", family=25))
    assert 'familyid="175"' in nccl_xml(epyc)


def test_a_mask_that_nccl_cannot_read_is_left_out() -> None:
    """NCCL reads 253 characters, so more than 896 CPUs have no mask."""
    for last, expected in ((895, True), (896, False)):
        node = NumaNode(index=0, cpus=IndexList(f"0-{last}"))
        text = nccl_xml(dataclasses.replace(_full_node(), numa_nodes=(node,)))
        assert ("affinity" in text) is expected


def _linked(*links: GpuLink, **changes: object) -> NodeTopology:
    """Two GPUs beside each other below a CPU."""
    gpus = tuple(Gpu(index=at, pci=_at(f"0{at + 1}:00.0")) for at in range(2))
    pci = tuple(_device(f"0{at + 1}:00.0", class_code=0x0302) for at in range(2))
    node = NodeTopology(source=Source(format="test"), gpus=gpus, pci=pci, gpu_links=links)
    return dataclasses.replace(node, **changes)  # type: ignore[arg-type]


def _links(node: NodeTopology) -> list[tuple[str, dict[str, str]]]:
    found = [one for one in _elements(nccl_xml(node)) if one.tag in {"nvlink", "xgmi", "c2c"}]
    return [(one.tag, dict(one.attributes)) for one in found]


def test_links_follow_from_pairs() -> None:
    """A pair is a link to the peer, switched ones lead to a switch that is not seen."""
    pair = GpuLink(a=0, b=1, kind=LinkKind.NVLINK, count=4)
    peer = {"target": "0000:02:00.0", "count": "4", "tclass": "0x030200"}
    assert _links(_linked(pair))[0] == ("nvlink", peer)
    switched = dataclasses.replace(pair, is_switched=True)
    switch = {"target": "fffffff:ffff:ff", "count": "4", "tclass": "0x068000"}
    assert _links(_linked(switched)) == [("nvlink", switch)] * 2


def test_a_pair_without_a_count_leaves_the_links_to_nccl() -> None:
    """NCCL asks the driver for the links of a GPU that has none in the file, so none is made up."""
    assert _links(_linked(GpuLink(a=0, b=1, kind=LinkKind.NVLINK))) == []


def test_nvlinks_are_counted_by_where_they_lead() -> None:
    """Active links are counted by target: a peer, a switch that shows or does not, a CPU."""
    remotes = [
        (True, NvLinkRemote.SWITCH, _at("a0:00.0")),
        (True, NvLinkRemote.SWITCH, _at("a0:00.0")),
        (False, NvLinkRemote.SWITCH, _at("a0:00.0")),
        (True, None, None),
        (True, None, _at("02:00.0")),
        (True, NvLinkRemote.NPU, None),
    ]
    links = tuple(
        NvLink(index=at, is_active=active, remote=remote, remote_pci=address)
        for at, (active, remote, address) in enumerate(remotes)
    )
    node = _linked()
    gpus = (dataclasses.replace(node.gpus[0], nvlinks=links), node.gpus[1])
    found = [link[1] for link in _links(dataclasses.replace(node, gpus=gpus))]
    assert [(one["target"], one["count"], one["tclass"]) for one in found] == [
        ("0000:a0:00.0", "2", "0x068000"),
        ("fffffff:ffff:ff", "1", "0x068000"),
        ("0000:02:00.0", "1", "0x030200"),
        ("fffffff:ffff:ff", "1", "0x068001"),
    ]


def test_links_to_a_cpu_are_c2c_or_nvlink() -> None:
    """C2C has the bandwidth of each link in MB/s, if that is known; NVLink has NCCL's class."""
    cpu_links = (
        CpuLink(gpu_index=0, kind=LinkKind.C2C, count=10, bandwidth_bytes_per_s=447.12e9),
        CpuLink(gpu_index=0, kind=LinkKind.C2C),
        CpuLink(gpu_index=1, kind=LinkKind.C2C, count=-1, bandwidth_bytes_per_s=447.12e9),
        CpuLink(gpu_index=1, kind=LinkKind.NVLINK, count=3),
    )
    assert _links(_linked(cpu_links=cpu_links)) == [
        ("c2c", {"bw": "44712", "count": "10"}),
        ("nvlink", {"target": "fffffff:ffff:ff", "count": "3", "tclass": "0x068001"}),
    ]


def test_what_the_file_lacks_is_of_what_is_in_it() -> None:
    """A GPU without a NUMA node is told; a network device on USB, which NCCL never sees, is not."""
    usb = Nic(index=0, name="enx0", kind=NicKind.ETHERNET)
    unknown = Unknown(subject="enx0", what="pci", because="it is on USB")
    node = _linked(nics=(usb,), unknown=(unknown,))
    assert nccl_lacks(node) == ()
    unknown = Unknown(subject="GPU0", what="numa_index", because="numa_node is -1")
    assert nccl_lacks(dataclasses.replace(node, unknown=(unknown,))) == ("NUMA nodes",)


def test_amds_gpus_make_rccls_file() -> None:
    """XGMI makes version 2 with gcn, and lists the peers that are one hop away."""
    near = GpuLink(a=0, b=1, kind=LinkKind.XGMI, count=1)
    node = _linked(near)
    gpus = tuple(
        dataclasses.replace(gpu, vendor=GpuVendor.AMD, architecture="gfx942") for gpu in node.gpus
    )
    node = dataclasses.replace(node, gpus=gpus)
    text = nccl_xml(node)
    assert text.startswith('<system version="2">')
    assert '<gpu dev="0" gcn="gfx942" rank="0">' in text
    assert len(_links(node)) == 2
    far = dataclasses.replace(near, hops=2)
    assert _links(dataclasses.replace(node, gpu_links=(far,))) == []


def test_hidden_gpus_and_plain_ethernet_are_left_out() -> None:
    """What the driver does not show, NCCL does not use."""
    node = _linked()
    hidden = (node.gpus[0], dataclasses.replace(node.gpus[1], is_hidden=True))
    assert "0000:02:00.0" not in nccl_xml(dataclasses.replace(node, gpus=hidden))
    assert "eth0" not in nccl_xml(_full_node())


def test_a_gpu_without_its_place_is_an_error_that_says_which() -> None:
    """A matrix has no PCI addresses: the error names the GPUs, the source and what would do."""
    gpus = tuple(Gpu(index=at) for at in range(5))
    node = NodeTopology(source=Source(format="nvidia-smi topo -m"), gpus=gpus)
    with pytest.raises(PlanError, match="GPU0, GPU1, GPU2 and 2 more") as caught:
        nccl_xml(node)
    assert "nvidia-smi topo -m" in str(caught.value)
    assert "hwloc" in str(caught.value.hint)
    lone = dataclasses.replace(node, gpus=(Gpu(index=0, pci=_at("01:00.0")),))
    with pytest.raises(PlanError, match="GPU0"):
        nccl_xml(lone)
    with pytest.raises(PlanError, match="about GPUs"):
        nccl_xml(dataclasses.replace(node, gpus=()))


def test_a_name_that_nccl_cannot_read_is_refused() -> None:
    """NCCL's reader knows no entities and no text beyond ASCII, and no more than 253 characters."""
    for name in ('a"b', "a<b", "ä", "a\nb", "a" * 254):
        nic = dataclasses.replace(_full_node().nics[0], name=name)
        with pytest.raises(RenderError, match="name of <net>"):
            nccl_xml(dataclasses.replace(_full_node(), nics=(nic,)))


def test_more_elements_than_nccl_reads_are_refused() -> None:
    """Links to switches are merged first; beyond 255 elements NCCL would not load the file."""
    links = tuple(
        NvLink(
            index=at,
            is_active=True,
            remote=NvLinkRemote.SWITCH,
            remote_pci=_at(f"{at % 250:02x}:1f.0"),
        )
        for at in range(250)
    )
    node = _linked()
    gpus = tuple(dataclasses.replace(gpu, nvlinks=links) for gpu in node.gpus)
    assert [count["count"] for _, count in _links(dataclasses.replace(node, gpus=gpus))] == [
        "250",
        "250",
    ]
    nics = tuple(Nic(index=at, name=f"n{at}", pci=_at("01:00.0"), ports=()) for at in range(260))
    with pytest.raises(PlanError, match="255"):
        nccl_xml(dataclasses.replace(node, nics=nics))


RECORDED = sorted(path.parent.name for path in RECORDS.glob("nccl-topo-xml-*/*/topo.xml"))


@pytest.mark.parametrize("name", RECORDED)
def test_what_was_read_is_written_and_read_again(name: str) -> None:
    """A dump or preset that is read, written and read again is the same node."""
    (path,) = RECORDS.glob(f"nccl-topo-xml-*/{name}/topo.xml")
    _assert_same(path)


@pytest.mark.parametrize("path", corpus_files("nccl-topo-xml/**/*topo*.xml"))
def test_every_capture_survives_being_written(path: Path) -> None:
    """Every capture is the same node after it was written and read again."""
    _assert_same(path)


def _assert_same(path: Path) -> None:
    before = _parse(path.read_bytes())
    after = _parse(nccl_xml(before).encode())
    for one in dataclasses.fields(NodeTopology):
        if one.name not in {"unknown", "nics", "pci", "accelerators"}:
            assert getattr(after, one.name) == getattr(before, one.name), one.name
    unplaced = {nic.name for nic in before.nics if nic.pci is None}
    assert [nic for nic in after.nics if nic.name not in unplaced] == [
        nic for nic in before.nics if nic.name not in unplaced
    ]
    assert {nic.name for nic in after.nics} >= {nic.name for nic in before.nics} - {"mlx5_bond_0"}
    kept = {device.address for device in after.pci}
    assert after.pci == tuple(device for device in before.pci if device.address in kept)
    ends = {gpu.pci for gpu in before.gpus} | {nic.pci for nic in before.nics}
    assert ends - {None} <= kept


@pytest.mark.parametrize("path", corpus_files("nccl-topo-xml/**/*topo*.xml"))
def test_every_element_and_attribute_of_a_capture_is_written(path: Path) -> None:
    """What a dump holds is written again, each element as often and with the same attributes."""
    captured = path.read_text("utf-8")
    written = nccl_xml(_parse(path.read_bytes()))
    counts = [
        Counter(
            one.tag
            for one in {one.get("busid") or id(one): one for one in _elements(text)}.values()
        )
        for text in (captured, written)
    ]
    assert counts[0] == counts[1]
    pairs = [
        Counter((one.tag, name) for one in _elements(text) for name in one.attributes)
        for text in (captured, written)
    ]
    lacking = pairs[0] - pairs[1]
    busids = re.findall('busid="(.*?)"', captured)
    twice = {pair for pair in lacking if pair[0] == "pci" and len(set(busids)) < len(busids)}
    allowed = NEVER_WRITTEN | ({("gpu", "sm")} if 'version="2"' in captured else set())
    unknown = {
        ("pci", name)
        for name in ("vendor", "device", "subsystem_vendor", "subsystem_device")
        if re.search(rf'{name}="0x(0000|ffff)"', captured)
    }
    unsaid = {("net", "speed")} if 'speed="200000000"' in captured else set()
    unsaid |= {("net", "port")} if 'port="0"' in captured else set()
    assert set(lacking) - allowed - unknown - unsaid <= twice


def _distinct(text: str) -> list[Element]:
    """The elements, of several at one address the last."""
    return list({one.get("busid") or id(one): one for one in _elements(text)}.values())
