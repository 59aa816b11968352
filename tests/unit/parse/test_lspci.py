"""`lspci`: the tree, the links, and what of the devices is a GPU or a NIC."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.app.captured import inspect_capture
from hpckit.decide.complete import complete
from hpckit.decide.paths import with_paths
from hpckit.errors import ParseError
from hpckit.model.hardware import GpuVendor, NodeTopology
from hpckit.model.nic_kind import NicKind
from hpckit.model.pci import PciAddress, PciDevice, PcieLink
from hpckit.parse.capture import parse_capture
from hpckit.parse.lspci import is_lspci, parse_lspci
from hpckit.parse.nvidia_topo import parse_topo_matrix
from tests.corpus import corpus_file, corpus_files
from tests.unit.parse.slurm_records import record_text

VERSION = "lspci-3.9"
CASES = ["synthetic-vvv", "synthetic-v", "synthetic-tree", "synthetic-flat"]
GPU = "0000:03:00.0"
NIC = "0000:04:00.0"


def record(case: str) -> NodeTopology:
    """The node of a record."""
    return parse_lspci(record_text(VERSION, case))


def device(node: NodeTopology, address: str) -> PciDevice:
    """One device of a node."""
    return next(one for one in node.pci if one.address == address)


def way_up(node: NodeTopology, address: str) -> list[str]:
    """The bridges above a device, the nearest first."""
    parent = device(node, address).parent
    return [parent, *way_up(node, parent)] if parent else []


def cell(node: NodeTopology, first: str, second: str) -> str | None:
    """What lies between a GPU or NIC and another, by what the table calls them."""
    table = with_paths(node).paths
    assert table is not None
    return table.cells[table.devices.index(first)][table.devices.index(second)]


@pytest.mark.parametrize("case", CASES)
def test_a_record_is_known_and_read_as_a_capture(case: str) -> None:
    """Each form is told from its content."""
    text = record_text(VERSION, case)
    assert is_lspci(text)
    (node,) = parse_capture(text.encode(), "x")
    assert node.source.format == "lspci"


def test_bridges_make_the_tree() -> None:
    """A device hangs on the bridge whose secondary bus it is on, up to the root bus."""
    node = record("synthetic-vvv")
    assert way_up(node, GPU) == ["0000:02:00.0", "0000:01:00.0", "0000:00:01.0"]
    assert {one.host_bridge for one in node.pci} == {"pci0000:00", "pci0000:80"}


def test_a_bus_without_a_bridge_is_the_innermost_bridges() -> None:
    """A virtual function on a further bus hangs on the bridge that has the bus in its range."""
    assert device(record("synthetic-vvv"), "0000:05:00.0").parent == "0000:02:01.0"


def test_a_link_has_what_it_can_and_what_it_does() -> None:
    """LnkCap is the most, LnkSta what is; LnkSta2 is neither."""
    node = record("synthetic-vvv")
    assert device(node, GPU).link == PcieLink(
        speed_gt_per_s=2.5, width=16, max_speed_gt_per_s=32.0, max_width=16
    )
    effective = device(complete(node), GPU).effective
    assert effective is not None
    assert effective.width == 8


def test_ids_and_driver_are_those_of_the_device() -> None:
    """Class, vendor, device and subsystem stand in brackets with -nn."""
    gpu = device(record("synthetic-vvv"), GPU)
    assert (gpu.class_code, gpu.vendor_id, gpu.device_id) == (0x0302, 0x10DE, 0x2330)
    assert (gpu.subsystem_vendor_id, gpu.subsystem_device_id) == (0x10DE, 0x16C1)
    assert (gpu.driver, gpu.numa_index) == ("nvidia", 0)
    assert gpu.name == "GH100 [H100 SXM5 80GB]"


def test_the_subsystem_of_a_bridge_is_a_capability() -> None:
    """Broadcom's virtual switches are told by it."""
    switch = device(record("synthetic-vvv"), "0000:01:00.0")
    assert (switch.subsystem_vendor_id, switch.subsystem_device_id) == (0x1000, 0x0144)


def test_virtual_functions_know_their_physical_one() -> None:
    """Offset and stride give their addresses, also on the next bus."""
    nics = {nic.name: nic for nic in record("synthetic-vvv").nics}
    virtual = {name: nic.physfn for name, nic in nics.items() if nic.is_virtual}
    assert virtual == {"0000:04:00.1": NIC, "0000:05:00.0": NIC}


def test_kinds_of_nics_follow_from_class_and_name() -> None:
    """An InfiniBand controller is InfiniBand; EFA is an Ethernet controller by its class."""
    kinds = {nic.name: nic.kind for nic in record("synthetic-vvv").nics}
    assert kinds[NIC] is NicKind.INFINIBAND
    assert kinds["0000:80:1a.0"] is NicKind.EFA


def test_the_display_of_a_server_is_no_gpu() -> None:
    """ASPEED, and AMD's ES1000, are for the console."""
    assert [gpu.pci for gpu in record("synthetic-vvv").gpus] == [GPU]
    assert [gpu.pci for gpu in record("synthetic-flat").gpus] == ["0000:01:00.0"]


def test_without_ids_words_tell_class_and_vendor() -> None:
    """`Processing accelerators` of AMD is a GPU; its NUMA node stands among the flags."""
    (gpu,) = record("synthetic-v").gpus
    assert (gpu.vendor, gpu.numa_index) == (GpuVendor.AMD, 1)
    assert gpu.name == "Aqua Vanjaram [Instinct MI300X]"


def test_what_needs_root_is_said() -> None:
    """Without root there are no links, and the reason is there."""
    node = record("synthetic-v")
    assert all(one.link is None for one in node.pci)
    assert [one.because for one in node.unknown if one.what == "link"] == [
        "lspci had no access to the capabilities: it needs root"
    ]


def test_the_order_of_gpus_is_not_known() -> None:
    """GPUs are counted by address, and that it may be another order is said."""
    assert any(
        (one.subject, one.what) == ("GPUs", "index") for one in record("synthetic-v").unknown
    )


def test_the_drawn_tree_is_the_tree() -> None:
    """Buses in brackets give each device its address and its bridges."""
    node = record("synthetic-tree")
    assert way_up(node, GPU) == ["0000:02:00.0", "0000:01:00.0", "0000:00:01.0"]
    assert device(node, "0000:81:00.0").host_bridge == "pci0000:80"
    assert device(node, "0000:02:02.0").parent == "0000:01:00.0"


def test_a_bridge_may_have_two_buses_drawn() -> None:
    """A bus with its domain below a bridge is that bridge's, no root bus."""
    node = record("synthetic-tree")
    assert device(node, "0000:05:00.0").parent == device(node, NIC).parent == "0000:02:01.0"
    assert device(node, "0000:05:00.0").host_bridge == "pci0000:00"


def test_names_alone_tell_gpus_and_nics() -> None:
    """A tree has no classes: the GPU's audio function and the console are no GPUs."""
    node = record("synthetic-tree")
    assert [gpu.pci for gpu in node.gpus] == [GPU]
    assert {nic.name: nic.kind for nic in node.nics} == {
        NIC: None,
        "0000:05:00.0": None,
        "0000:07:00.1": NicKind.ETHERNET,
        "0000:81:00.0": None,
    }


def test_one_switch_is_pix() -> None:
    """The paths follow from either form of the tree."""
    assert cell(record("synthetic-tree"), "GPU0", "NIC0") == "PIX"
    assert cell(record("synthetic-vvv"), "GPU0", "NIC0") == "PIX"
    assert cell(record("synthetic-vvv"), "GPU0", "NIC3") == "SYS"


def test_a_flat_list_has_no_tree() -> None:
    """No bridge is shown, so nothing hangs on one, and it is said."""
    node = record("synthetic-flat")
    assert {(one.parent, one.host_bridge) for one in node.pci} == {(None, None)}
    assert any(one.what == "parent" for one in node.unknown)


def test_an_accelerator_is_no_gpu() -> None:
    """Gaudi is told by its ids."""
    assert [one.name for one in record("synthetic-flat").accelerators] == ["Gaudi2"]


def test_a_device_without_a_name_keeps_its_number() -> None:
    """What pci.ids did not know has ids and no name."""
    (gpu,) = record("synthetic-flat").gpus
    assert gpu.name is None
    plain = parse_lspci("01:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)\n")
    assert (plain.pci[0].vendor_id, plain.pci[0].device_id) == (0x10DE, 0x2330)


def test_numbers_alone_are_read() -> None:
    """`lspci -n` has no words at all."""
    text = "3b:00.0 0302: 10de:2330 (rev a1)\n"
    assert is_lspci(text)
    (gpu,) = parse_lspci(text).gpus
    assert gpu.vendor is GpuVendor.NVIDIA


def test_a_selection_has_no_roots() -> None:
    """With -s the bridges above are not there, and a bus is not taken for a root bus."""
    text = record_text(VERSION, "synthetic-vvv")
    block = next(one for one in text.split("\n\n") if one.startswith("03:00.0"))
    (one,) = parse_lspci(f"$ lspci -vvv -s 03:00.0\n{block}\n").pci
    assert (one.parent, one.host_bridge) == (None, None)


def test_half_a_tree_is_none() -> None:
    """Bridges that reach no root say nothing of paths."""
    text = record_text(VERSION, "synthetic-vvv")
    below = text[text.index("02:00.0 PCI bridge") : text.index("80:1a.0")]
    assert {one.parent for one in parse_lspci(below).pci} == {None}


def test_tree_and_list_go_together() -> None:
    """The tree says where a device is, the list the rest; a card's functions have one place."""
    block = """\
03:00.0 3D controller: NVIDIA Corporation AD102GL [RTX 6000 Ada Generation] (rev a1)
\tNUMA node: 1
"""
    node = parse_lspci(record_text(VERSION, "synthetic-tree") + block)
    gpu = device(node, GPU)
    assert (gpu.parent, gpu.numa_index, gpu.class_code) == ("0000:02:00.0", 1, 0x0302)
    assert device(node, "0000:03:00.1").numa_index == 1


def test_a_list_may_be_there_twice() -> None:
    """`lspci` and then `lspci -vvv` are one machine."""
    text = record_text(VERSION, "synthetic-vvv")
    heads = "\n".join(line for line in text.splitlines() if line[:1].isalnum())
    assert parse_lspci(f"{heads}\n\n{text}") == parse_lspci(text)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("old", "new"), [("\n", "\r\n"), ("\n", "\n> "), ("\n", "\n    "), ("\t", "        ")]
)
def test_a_paste_is_the_same(case: str, old: str, new: str) -> None:
    """Line ends, quotation and indentation change nothing."""
    text = "\n" + record_text(VERSION, case)
    assert parse_lspci(text.replace(old, new)) == parse_lspci(text)


def test_a_tree_in_box_characters_is_a_tree() -> None:
    """Some pages draw the marks as boxes."""
    text = record_text(VERSION, "synthetic-tree")
    boxes = text.replace("+-", "├─").replace("\\-", "└─").replace("|", "│")
    assert parse_lspci(boxes) == parse_lspci(text)


def test_a_tree_below_a_bridge_has_no_root() -> None:
    """`lspci -tv -s` begins at a bridge."""
    text = "0000:00:01.0-[01]----00.0  NVIDIA Corporation Device 2330\n"
    assert is_lspci(text)
    gpu = device(parse_lspci(text), "0000:01:00.0")
    assert (gpu.parent, gpu.host_bridge) == ("0000:00:01.0", None)


def test_a_dead_device_is_told() -> None:
    """A header type of 7f is what comes back from nothing."""
    text = """\
01:00.0 3D controller: NVIDIA Corporation Device 2330 (rev ff) (prog-if ff)
\t!!! Unknown header type 7f
\tKernel driver in use: nvidia
"""
    found = [one for one in parse_lspci(text).unknown if "fallen off the bus" in one.because]
    assert [one.subject for one in found] == ["0000:01:00.0"]


@pytest.mark.parametrize(
    ("text", "line_no", "message"),
    [
        ("00:01.0 PCI bridge: x\n\tBus: primary=00, secondary=zz\n", 2, "Bus cannot be read"),
        ("00:01.0 PCI bridge: x\n\tNUMA node: one\n", 2, "NUMA node cannot be read"),
        ("00:01.0 PCI bridge: x\n\tLnkSta:\tSpeed fast, Width x16\n", 2, "LnkSta cannot"),
        ("-[0000:00]-+-00.0  a\n           \\-00.0  b\n", 2, "0000:00:00.0 is there twice"),
        ("-[0000:00]-+-00.0  a\n          \\-01.0  b\n", 2, "hangs on nothing"),
        ("-[0000:00]-+-00.0  a\n           \\-zz.0  b\n", 2, "this is no device"),
        ("-[0000:00]-+-00.0  a\n\n           \\-01.0  b\n", 3, "hangs on nothing"),
        ("-[0000:00]---00.0  a\n-[0000:00]---00.0-[01]--\n-[0000:01]---00.0\n"
         "-[0000:00]---00.0-[01]---00.0\n", 4, "elsewhere"),
        ("01:00.0 Bridge: a\n01:00.0 Bridge: b\n", 2, "another device than in line 1"),
        ("00:00.0 Bridge: x\n" * 65_537, 65_537, "too many devices"),
        ("nothing\n", 1, "there is no device"),
    ],
    ids=["bus", "numa", "link", "twice", "column", "slot", "gap", "moved", "two", "many", "none"],
)  # fmt: skip
def test_what_is_not_in_the_format_is_refused(text: str, line_no: int, message: str) -> None:
    """The error says which line, and what is wrong with it."""
    with pytest.raises(ParseError, match=message) as caught:
        parse_lspci(text)
    assert caught.value.line_no == line_no


@pytest.mark.parametrize(
    "text",
    [
        "12:14.5 Total: 3",
        "0000:04:00.0 'NetXtreme' if=eth0 drv=tg3",
        "|-- 00.0",
        "00: 86 80 a2 09",
    ],
)
def test_other_tools_are_not_lspci(text: str) -> None:
    """Times, dpdk-devbind, trees of files and dumps of bytes have no such line."""
    assert not is_lspci(text)


@pytest.mark.parametrize("path", corpus_files("lspci/gpud-*"))
def test_captures_are_read(path: Path) -> None:
    """Eight GPUs are in each, compressed or not."""
    (node,) = inspect_capture(path.read_bytes(), path.name)
    assert len(node.gpus) == 8


def test_each_gpu_of_an_hgx_h100_has_its_nics() -> None:
    """Each switch has one GPU with a ConnectX-7, and everything has gen5 x16 up to the root."""
    path = corpus_file("lspci/gpud-lspci-vvv-h100.xz")
    (node,) = inspect_capture(path.read_bytes(), path.name)
    assert [gpu.numa_index for gpu in node.gpus] == [0] * 4 + [1] * 4
    near = {gpu.index: nics_near(node, gpu.index) for gpu in node.gpus}
    assert {at: len(nics) for at, nics in near.items()} == {
        **dict.fromkeys((1, 2, 3, 5, 6, 7), 1),
        **dict.fromkeys((0, 4), 3),
    }
    links = [device(node, gpu.pci or "").effective for gpu in node.gpus]
    assert {(one.speed_gt_per_s, one.width) for one in links if one} == {(32.0, 16)}


def nics_near(node: NodeTopology, gpu: int) -> list[PciAddress | None]:
    """The NICs below the switch of a GPU."""
    table = node.paths
    assert table is not None
    labels = {nic.label: nic.pci for nic in node.nics}
    row = table.cells[table.devices.index(f"GPU{gpu}")]
    return [labels[name] for name, cell in zip(table.devices, row, strict=True) if cell == "PIX"]


def test_the_paths_of_a_tree_are_those_that_nvidia_smi_printed() -> None:
    """One machine's lspci -tv and -vvv, and its topo -m: every cell is the same."""
    text = corpus_file("lspci/stelline-asus-esc8000a-e12.md").read_text()
    derived = with_paths(parse_lspci(text)).paths
    recorded = parse_topo_matrix(text)[0].paths
    assert derived is not None
    assert recorded is not None
    assert derived.devices == recorded.devices
    assert derived.cells == recorded.cells


def test_a_box_with_nested_switches_is_read_right() -> None:
    """In a long drawing each device is found once, below the bridge that leads to it."""
    text = corpus_file("lspci/stelline-asus-esc8000a-e12.md").read_text()
    node = parse_lspci(text[: text.index("## NUMA Topology")])
    assert len({one.address for one in node.pci}) == len(node.pci)
    assert way_up(node, "0000:65:00.0")[:2] == ["0000:64:10.0", "0000:63:00.0"]
    assert way_up(node, "0000:61:00.0") == ["0000:60:01.1"]
    assert way_up(node, "0000:41:00.1") == ["0000:40:01.1"]


def test_a_tree_alone_gives_no_cell_that_is_wrong() -> None:
    """Without NUMA nodes, cells across root complexes are empty, and the others are right."""
    text = corpus_file("lspci/stelline-asus-esc8000a-e12.md").read_text()
    tree = text[: text.index("## NUMA Topology")]
    derived, recorded = with_paths(parse_lspci(tree)).paths, parse_topo_matrix(text)[0].paths
    assert derived is not None
    assert recorded is not None
    pairs = {
        (mine, theirs)
        for mine_row, their_row in zip(derived.cells, recorded.cells, strict=True)
        for mine, theirs in zip(mine_row, their_row, strict=True)
    }
    assert pairs == {("X", "X"), ("PIX", "PIX"), (None, "NODE"), (None, "SYS")}
