"""The screen of a node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from hpckit.core.findings import Finding, Severity
from hpckit.core.index_list import IndexList
from hpckit.core.text import Line, Style, columns, wrapped
from hpckit.node.pci import PcieLink
from hpckit.node.show import group_lines, node_lines
from hpckit.node.topology import (
    Accelerator,
    Gpu,
    Host,
    NicRole,
    NodeTopology,
    NumaNode,
    Source,
    Unknown,
)
from tests.fakes.answers import grouped
from tests.fakes.machine_parts import GEN4, lanes, with_dead_link, with_nic_down
from tests.fakes.machines import (
    cpu_only,
    dgx_h100,
    four_gpu_box,
    gb200_tray,
    many_functions,
    matrix_only,
    mi300x,
    sixteen_v100,
)
from tests.fakes.odd_machines import MACHINES, hidden_gpus, partitions

BARE = NodeTopology(source=Source(format="fake"))


def _finding(severity: Severity, subject: str, because: str = "it is odd") -> Finding:
    return Finding(
        rule="rule", severity=severity, subject=subject, because=because, remedy="mend it"
    )


def _texts(lines: list[Line]) -> list[str]:
    return [line.text for line in lines]


def _find(topology: NodeTopology, word: str) -> Line:
    return next(line for line in node_lines(topology)[2:] if word in line.text)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_fit_the_width(machine: Callable[[], NodeTopology], width: int) -> None:
    """No line is wider than the terminal, and none ends in a blank; commands have lines as long."""
    for line in node_lines(machine(), width=width, command=None):
        assert columns(line.text) <= width
        assert line.text == line.text.rstrip()


@pytest.mark.parametrize("machine", MACHINES)
def test_every_machine_fits_a_screen(machine: Callable[[], NodeTopology]) -> None:
    """No machine takes more than a terminal's 24 lines, one of 16 GPUs and 40 NICs neither."""
    assert len(node_lines(machine())) <= 25


def test_a_node_is_one_sentence() -> None:
    """The first lines say host, CPUs, GPUs, NICs by kind and rate, driver, and that it is made up.

    What breaks over lines breaks between these.
    """
    assert _texts(node_lines(dgx_h100())[:3]) == [
        "node012 · 2 × Xeon Platinum 8480C (2 NUMA) · 8 × H100 80GB HBM3 ·",
        "  8 × 400 Gb/s IB + 2 × 200 Gb/s IB storage · driver 570.124.06 ·",
        "  synthetic: not a real machine",
    ]


def test_tree_of_a_node() -> None:
    """NUMA nodes, switches with their GPUs and closest NICs; what most links are is said once."""
    assert _texts(node_lines(dgx_h100()))[3:7] == [
        "links    GPUs NV18 to all · PCIe gen5 x16, unless shown otherwise",
        "package 0 · NUMA 0 · CPUs 0-55,112-167 · 1 TiB",
        "├─ switch 11:00  GPU0-1  ↔ mlx5_0 mlx5_1 (2)  400 Gb/s IB",
        "├─ switch 21:00  GPU2-3  ↔ mlx5_2 mlx5_3 (2)  400 Gb/s IB",
    ]
    assert _find(dgx_h100(), "mlx5_8").text.split("  ")[-1] == "storage"
    assert _find(dgx_h100(), "NVSwitch").text == "4 NVSwitches"


def test_a_switch_with_something_unusual_has_a_line_for_each_device() -> None:
    """A dead NVLink shows on the GPU that lacks it, a port that is down on its NIC."""
    texts = _texts(node_lines(with_dead_link(dgx_h100(), 5)))
    assert [text for text in texts if "NV17" in text] == [
        "│  ├─ GPU5  NV17 to all  ↔ mlx5_4 mlx5_5 PIX"
    ]
    down = _texts(node_lines(with_nic_down(dgx_h100(), "mlx5_1")))
    assert [text for text in down if "DOWN" in text] == ["│  └─ mlx5_1  IB           DOWN"]


def test_pairs_over_other_gpus_are_told_apart() -> None:
    """A pair whose way takes several links is not said to be linked."""
    far = {frozenset((0, at)) for at in (3, 4, 5, 7)}
    links = tuple(
        replace(link, count=None, weight=30 if {link.a, link.b} in far else 15)
        for link in mi300x().gpu_links
    )
    line = _find(replace(mi300x(), gpu_links=links), "GPU0 ").text
    assert "XGMI to GPU1-2,6 · via other GPUs to GPU3-5,7" in line


def test_links_to_the_cpu_and_own_memory() -> None:
    """Grace's GPUs name the link to their CPU and the NUMA node of their memory."""
    line = _find(gb200_tray(), "GPU1 ")
    assert "C2C to CPU" in line.text
    assert line.text.endswith("memory NUMA 10")
    assert _find(gb200_tray(), "GPU memory").text == "NUMA 2,10,18,26: GPU memory of 186 GiB"


def test_nearest_nic_is_not_known_where_a_path_is_not() -> None:
    """That no NIC is close is not said where the path to one is unknown."""
    node = four_gpu_box()
    paths = node.paths
    assert paths is not None
    at = [paths.devices.index(name) for name in ("GPU0", node.nics[0].name)]
    cells = tuple(
        tuple(None if {row, column} == set(at) else cell for column, cell in enumerate(cells))
        for row, cells in enumerate(paths.cells)
    )
    unknown = replace(node, paths=replace(paths, cells=cells, nccl=()))
    assert "nearest NIC unknown" in _find(unknown, "GPU0").text
    assert "no close NIC (SYS)" in _find(unknown, "GPU1").text


def test_fewer_lanes_are_marked() -> None:
    """A narrow link is a warning in word and style."""
    line = _find(four_gpu_box(), "GPU2")
    assert "gen4 x8 of x16 NARROW" in line.text
    assert line.style is Style.WARNING
    assert _find(four_gpu_box(), "GPU3").style is Style.PLAIN


@pytest.mark.parametrize("bridges", [("0000:10:01.0",), ("0000:10:01.0", "0000:11:00.0")])
def test_slow_way_up_is_said_by_the_switch_alone(bridges: tuple[str, ...]) -> None:
    """Devices show their own link; the line of their switch says what is slower above them."""
    slow = PcieLink(speed_gt_per_s=5.0, width=16)
    pci = tuple(
        replace(
            one,
            link=slow if one.address in bridges else one.link,
            effective=slow if one.address < "0000:16" else one.effective,
        )
        for one in dgx_h100().pci
    )
    node = replace(dgx_h100(), pci=pci)
    words = "switch 11:00  gen2 x16 (slowest hop; idle links slow down)"
    assert _find(node, "switch 11:00").text.endswith(words)
    assert "gen2" not in _find(node, "GPU0 ").text


def test_slow_way_up_without_a_switch_is_said_by_the_device() -> None:
    """Where no switch's line could say it, the line of the device does, and warns of few lanes."""
    node = four_gpu_box()
    slow = replace(lanes(GEN4, 4, 16), max_speed_gt_per_s=GEN4)
    pci = tuple(
        replace(one, effective=slow) if one.address == node.gpus[0].pci else one for one in node.pci
    )
    line = _find(replace(node, pci=pci), "GPU0")
    assert "gen4 x16, upstream gen4 x4 of x16 NARROW" in line.text
    assert line.style is Style.WARNING


def test_port_down_is_marked() -> None:
    """A NIC that is down stands on its own line, and the sentence counts it."""
    node = with_nic_down(dgx_h100(), "mlx5_1")
    assert _find(node, "DOWN").style is Style.WARNING
    assert "8 × 400 Gb/s IB (1 down)" in " ".join(_texts(node_lines(node)))


def test_virtual_functions_are_folded() -> None:
    """40 virtual functions of a card are a line."""
    assert "mlx5_2 … mlx5_41 (40 VFs)" in _find(many_functions(), "VFs)").text
    assert "1 × 100 Gb/s RoCE + 40 VFs" in " ".join(_texts(node_lines(many_functions())))


def test_partitions_are_folded() -> None:
    """Partitions of one GPU are a line."""
    line = _find(partitions(), "GPU0-7")
    assert line.text.endswith("8 partitions CPX")


def test_hidden_gpus_are_shown_as_hidden() -> None:
    """What a container hides is in the tree, marked, and counted in the sentence."""
    assert "hidden here" in _find(hidden_gpus(), "GPU7").text
    assert "2 × H100 80GB HBM3 + 6 hidden GPUs" in " ".join(_texts(node_lines(hidden_gpus())))


def test_matrix_shows_what_it_tells() -> None:
    """Without a tree, switches are said to come from the matrix, CPUs from the GPUs' affinity."""
    text = "\n".join(_texts(node_lines(matrix_only())))
    assert "a node, from nvidia-smi topo -m · 8 GPUs · 9 NICs" in text
    assert "NUMA 0 · CPUs 0-55,112-167\n├─ switch  (from the matrix)" in text
    assert "│  └─ mlx5_0 mlx5_1 (2)\n" in text


def test_numa_nodes_without_devices_share_a_line() -> None:
    """Of many NUMA nodes, those with nothing are one line."""
    assert _find(cpu_only(), "no devices").text == "NUMA 0-1,3-7 · no devices"


def test_many_numa_nodes_of_which_no_device_is_known_share_a_line() -> None:
    """A machine of 64 does not fill the screen with them."""
    nodes = tuple(NumaNode(index=at, cpus=IndexList(str(at))) for at in range(64))
    assert "NUMA 0-63 · devices unknown" in _texts(node_lines(replace(BARE, numa_nodes=nodes)))


def test_gpus_of_several_kinds_are_named_each() -> None:
    """Models are named in the tree where they differ, affinities where they are not the node's."""
    gpus = (
        Gpu(index=0, name="NVIDIA A100-SXM4-40GB", is_mig=True, mig_devices=7),
        Gpu(index=1, name="Tesla T4", cpus=IndexList("8-15")),
        Gpu(index=2, name="Tesla T4", cpus=IndexList("0-7"), numa_index=0),
        Gpu(index=3, name="Tesla T4", cpus=IndexList("1,3"), numa_index=0),
    )
    node = replace(BARE, gpus=gpus)
    assert _find(node, "GPU0").text.endswith("A100-SXM4-40GB · MIG (7)")
    assert _find(node, "GPU3").text.endswith("Tesla T4 · CPUs 1,3")


def test_accelerators_are_placed() -> None:
    """A device for computing that is no GPU is named with its driver."""
    one = Accelerator(index=0, name="HL-225", driver="habanalabs", numa_index=1)
    node = replace(BARE, accelerators=(one,))
    assert _texts(node_lines(node))[:3] == [
        "a node, from fake · 1 × HL-225",
        "NUMA 1",
        "└─ HL-225  driver habanalabs",
    ]


def test_roles_and_bonds_are_said() -> None:
    """A NIC's remarks stand at its end."""
    nic = replace(dgx_h100().nics[0], role=NicRole.OTHER, bond="bond0", is_virtual=True)
    node = replace(dgx_h100(), nics=(nic,))
    assert _find(node, "mlx5_0  ").text.endswith("not for jobs · in bond0 · VF")


def test_findings_come_gravest_first() -> None:
    """Each has its severity's word, its subject and evidence, and its remedy below."""
    found = (_finding(Severity.NOTE, "node"), _finding(Severity.ERROR, "mlx5_3"))
    lines = node_lines(BARE, found)
    at = _texts(lines).index("findings 2")
    assert _texts(lines)[at + 1 : at + 5] == [
        "error    mlx5_3: it is odd",
        "         mend it",
        "note     node: it is odd",
        "         mend it",
    ]
    assert [line.style for line in lines[at + 1 : at + 4]] == [
        Style.ERROR,
        Style.FAINT,
        Style.NOTE,
    ]


def test_what_is_unknown_for_several_reasons_is_one_line() -> None:
    """In words without units; --json has the reasons."""
    unknown = (
        Unknown(subject="GPU0", what="memory_bytes", because="NVML is not there"),
        Unknown(subject="GPU1", what="memory_bytes", because="NVML is not there"),
        Unknown(subject="node", what="acs", because="needs root"),
    )
    texts = _texts(node_lines(replace(BARE, unknown=unknown)))
    assert "unknown  memory of GPU0-1, acs (why: --json)" in texts


WORDS = (
    ("NICs", "is_gdr", "unknown  GPUDirect RDMA of NICs – none says"),
    ("NVLinks", "is_switched", "unknown  whether NVLinks go through a switch – none says"),
    ("GPU1", "numa_index", "unknown  NUMA node of GPU1 – none says"),
    ("node", "allowed", "unknown  allowed CPUs – none says"),
    ("NUMA node 2", "kind", "unknown  kind of memory of NUMA node 2 – none says"),
    ("mlx5_0", "kind", "unknown  kind of mlx5_0 – none says"),
    ("GPUs", "platform", "unknown  place in the chassis of GPUs – none says"),
    ("paths", "GPU0–GPU1 and 3 more", "unknown  paths between GPU0–GPU1 and 3 more – none says"),
    ("GPUs", "name, memory_bytes", "unknown  name, memory of GPUs – none says"),
    ("GPUs", "gpu_links.bandwidth_bytes_per_s", "unknown  bandwidth of links of GPUs – none says"),
)


@pytest.mark.parametrize(("subject", "what", "text"), WORDS)
def test_unknown_is_in_words_of_people(subject: str, what: str, text: str) -> None:
    """What is not known is not called by the name of its field."""
    one = Unknown(subject=subject, what=what, because="none says")
    node = replace(BARE, gpus=(Gpu(index=0),), unknown=(one,))
    assert text in _texts(node_lines(node))


def test_no_answer_of_a_driver_is_said() -> None:
    """That NVML gives no GPUs is that no driver of NVIDIA answers."""
    one = Unknown(subject="GPUs", what="gpus", because="NVML: LibraryNotFound")
    text = "unknown  GPUs – NVIDIA driver not available: LibraryNotFound"
    assert text in _texts(node_lines(replace(BARE, unknown=(one,))))


def test_node_without_gpus_says_so() -> None:
    """It has no GPU in its sentence, and nothing of GPUs is unknown; without PCI it does not."""
    whats = (("NICs", "is_gdr"), ("host", "driver_version"), ("GPUs", "gpus"), ("node", "acs"))
    unknown = tuple(Unknown(subject=one, what=what, because="x") for one, what in whats)
    node = replace(dgx_h100(), gpus=(), gpu_links=(), paths=None, unknown=unknown)
    texts = _texts(node_lines(node))
    assert texts[0].endswith(" · no GPU ·")
    assert [text for text in texts if "– x" in text] == ["unknown  acs – x"]
    assert "no GPU" not in " ".join(_texts(node_lines(replace(node, pci=()))))


def test_the_rest_is_asked_of_the_same_file() -> None:
    """What shows all of it names the file; without one that can be asked again it is the option."""
    found = [_finding(Severity.NOTE, "node", f"cause {at}") for at in range(13)]
    for command, told in (
        ("hpckit inspect x.xml", "hpckit inspect x.xml --json"),
        (None, "--json"),
    ):
        texts = _texts(node_lines(BARE, found, command=command))
        assert any(text.strip().startswith(f"… 3 more: {told}") for text in texts)


def test_what_to_ask_next_is_last() -> None:
    """The last lines are commands for more, a line each, whole in a narrow terminal too."""
    command = "hpckit inspect '/a folder/of nodes/with/a/long/path/capture.txt' --machine 2"
    assert _texts(node_lines(matrix_only(), width=40, command=command))[-2:] == [
        f"next  {command} --format matrix",
        f"      {command} --format svg > node.svg",
    ]


def test_only_commands_that_work_are_named() -> None:
    """No matrix without paths; nothing without a command, nor with one that is not shown as is."""
    assert _texts(node_lines(BARE))[-1:] == ["next  hpckit inspect --format svg > node.svg"]
    for command in (None, "", "hpckit inspect \x1b[2J"):
        assert "next" not in " ".join(_texts(node_lines(BARE, command=command)))


def test_hostile_names_stay_in_their_line() -> None:
    """A host name that would clear the screen is shown as its escapes."""
    node = replace(sixteen_v100(), host=Host(name="\x1b[2Jnode\n"))
    assert node_lines(node)[0].text.startswith("\\x1b[2Jnode\\x0a · ")


def test_words_longer_than_a_line_are_broken() -> None:
    """Nothing is lost where a word does not fit a line, of wide characters neither."""
    assert wrapped(("漢" * 30,), 40) == ["漢" * 20, "漢" * 10]
    assert wrapped((), 40, first="error  ") == ["error"]
    assert wrapped((), 40) == []


def test_groups_of_nodes() -> None:
    """Alike nodes are a sentence; odd ones are named with what differs."""
    nodes = (
        ("c1", dgx_h100()),
        ("c2", with_dead_link(dgx_h100(), 5)),
        ("c3", dgx_h100()),
        ("c4", dgx_h100()),
    )
    lines = group_lines(grouped(nodes))
    assert _texts(lines) == [
        "c[1,3-4] 3 identical nodes: 2 × Xeon Platinum 8480C (2 NUMA) ·",
        "  8 × H100 80GB HBM3 · 8 × 400 Gb/s IB + 2 × 200 Gb/s IB storage ·",
        "  driver 570.124.06 · synthetic: not a real machine",
        "",
        "c2 1 node differs",
        "  GPU5: active NVLinks 17, not 18",
        "",
        "next  srun -w c2 hpckit inspect",
    ]
    assert lines[-3].style is Style.WARNING
    assert _texts(group_lines(grouped((("c1", BARE),)))) == ["c1 1 node:"]


def test_difference_that_is_a_finding_is_said_once() -> None:
    """A finding of the same subject and value says it; another about the same GPU does not."""
    (same,) = grouped((("c1", dgx_h100()),))
    dead = _finding(Severity.WARNING, "GPU5", "GPU5 has 17 of 18 NVLinks")
    hot = _finding(Severity.WARNING, "GPU5", "GPU5 is hot")
    differs = ("GPU5: active NVLinks 17, not 18",)
    odd = replace(same, nodes=("c2",), differs=differs)
    texts = _texts(group_lines((same, replace(odd, findings=(dead, hot)))))
    assert texts[4:] == [
        "c2 1 node differs",
        "warn     GPU5 has 17 of 18 NVLinks",
        "         mend it",
        "warn     GPU5 is hot",
        "         mend it",
        "",
        "next  srun -w c2 hpckit inspect",
    ]
    assert "  GPU5: active NVLinks 17, not 18" in _texts(
        group_lines((same, replace(odd, findings=(hot,))))
    )


def test_silent_nodes_have_their_part() -> None:
    """They stand below the groups, without a heading, and no command is for them."""
    silent = (_finding(Severity.ERROR, "c9", "no answer"),)
    texts = _texts(group_lines(grouped((("c1", BARE),)), silent))
    assert texts == ["c1 1 node:", "", "error    c9: no answer", "         mend it"]
