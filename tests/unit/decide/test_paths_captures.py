"""Paths that follow from captures, beside what other tools say of the same machines."""

from __future__ import annotations

import re
from collections import Counter

from hpckit.decide.paths import with_paths
from hpckit.model.hardware import Gpu, Nic, NodeTopology, Source
from hpckit.model.path import NcclPath
from hpckit.model.pci import PciAddress, PciDevice, pci_address
from hpckit.parse.nccl_xml import parse_nccl_xml
from hpckit.parse.xml_elements import parse_xml
from tests.corpus import corpus_file

BOX = "lspci/stelline-asus-esc8000a-e12.md"
TOKEN = re.compile(
    r"\[(?P<domain>[0-9a-f]{4}):(?P<root>[0-9a-f]{2})\]"
    r"|\[(?P<bus>[0-9a-f]{2})(?:-[0-9a-f]{2})?\]"
    r"|(?P<device>[0-9a-f]{2}\.[0-7])(?=-|  |$)"
    r"|(?P<branch>[+\\])"
)

Place = tuple[str, str, PciAddress | None]
"""Domain, bus and the bridge that leads to it."""


class _Drawing:
    """What `lspci -tv` draws: a branch sign stands below the one that it goes on from."""

    def __init__(self, lines: list[str]) -> None:
        self.devices: list[PciDevice] = []
        self.names: dict[PciAddress, str] = {}
        self._open_at: dict[int, Place] = {}
        for line in lines:
            self._read(line)

    def _read(self, line: str) -> None:
        place: Place = ("", "", None)
        last: PciAddress | None = None
        for match in TOKEN.finditer(line):
            if match["root"] is not None:
                place = (match["domain"], match["root"], None)
            elif match["bus"] is not None:
                place = (place[0], match["bus"], last)
            elif match["branch"] is not None:
                place = place if place[1] else self._open_at.get(match.start(), place)
                self._open_at[match.start()] = place
            else:
                last = self._add(place, match["device"])
                if line[match.end() :].startswith("  "):
                    self.names[last] = line[match.end() :].strip()
                    break

    def _add(self, place: Place, device: str) -> PciAddress:
        domain, bus, bridge = place
        address = pci_address(f"{domain}:{bus}:{device}")
        root = f"pci{domain}:{bus}" if bridge is None else None
        self.devices.append(PciDevice(address=address, parent=bridge, host_bridge=root))
        return address


def _block(text: str, command: str) -> list[str]:
    return text.split(command, 1)[1].split("```", 1)[0].splitlines()[1:]


def _box() -> tuple[NodeTopology, list[list[str]]]:
    """The tree of a box with its GPUs and NICs, and the cells of its matrix."""
    text = corpus_file(BOX).read_text("utf-8")
    drawing = _Drawing(_block(text, "$ lspci -tv"))
    gpus = [address for address, name in drawing.names.items() if "RTX 6000 Ada" in name]
    nics = [address for address, name in drawing.names.items() if "ConnectX-7" in name]

    told = re.findall(r"lspci -vvv -s (\S+)\.0\n.*?NUMA node: (\d+)", text, re.DOTALL)
    nodes = {f"0000:{card}": int(index) for card, index in told}

    def numa(address: PciAddress) -> int:
        return nodes[address.rpartition(".")[0]]

    topology = NodeTopology(
        source=Source(format="lspci -tv"),
        gpus=tuple(Gpu(index=at, pci=one, numa_index=numa(one)) for at, one in enumerate(gpus)),
        nics=tuple(
            Nic(index=at, name=f"mlx5_{at}", pci=one, numa_index=numa(one))
            for at, one in enumerate(nics)
        ),
        pci=tuple(drawing.devices),
    )
    rows = [line.split() for line in _block(text, "topo -m") if re.match(r"(GPU|NIC)\d+ ", line)]
    return topology, [row[1 : len(gpus) + len(nics) + 1] for row in rows if len(row) > len(gpus)]


def test_the_pci_tree_of_a_box_gives_its_matrix() -> None:
    """Every cell that nvidia-smi printed of a box with 4 GPUs and 2 cards follows from lspci."""
    topology, recorded = _box()
    paths = with_paths(topology).paths
    assert paths is not None
    assert paths.devices == tuple([f"GPU{at}" for at in range(4)] + [f"NIC{at}" for at in range(4)])
    assert [list(row) for row in paths.cells] == recorded


def test_a_box_with_nested_switches_is_drawn_right() -> None:
    """The reader of the drawing finds each device once, below the bridge that leads to it."""
    topology, _ = _box()
    parents = {device.address: device.parent for device in topology.pci}
    assert len(parents) == len(topology.pci)
    assert parents[pci_address("65:00.0")] == "0000:64:10.0"
    assert parents[pci_address("64:10.0")] == "0000:63:00.0"
    assert parents[pci_address("61:00.0")] == "0000:60:01.1"
    assert parents[pci_address("41:00.1")] == "0000:40:01.1"


def test_an_h100_node_has_the_paths_that_nccl_finds() -> None:
    """Of this dump libnccl 2.32.3 itself finds NVL, PIX for the own card and PXN for the others."""
    data = corpus_file("nccl-topo-xml/oci/H100-topology.xml").read_bytes()
    paths = with_paths(parse_nccl_xml(parse_xml(data, "H100-topology.xml"))).paths
    assert paths is not None
    for gpu in range(8):
        row = paths.nccl[gpu]
        assert Counter(row[:8]) == {NcclPath.LOC: 1, NcclPath.NVL: 7}
        assert Counter(row[8:]) == {NcclPath.PIX: 2, NcclPath.PXN: 14}
        assert {row[8 + 2 * gpu], row[9 + 2 * gpu]} == {NcclPath.PIX}
    assert Counter(paths.nccl[8]) == {
        NcclPath.LOC: 2,
        NcclPath.PIX: 1,
        NcclPath.PHB: 3 + 6,
        NcclPath.SYS: 4 + 8,
    }


def test_nvidia_smi_counts_the_levels_that_nccl_merges() -> None:
    """On the same dump nvidia-smi's word for the own card is PXB: it counts virtual switches."""
    data = corpus_file("nccl-topo-xml/oci/H100-topology.xml").read_bytes()
    paths = with_paths(parse_nccl_xml(parse_xml(data, "H100-topology.xml"))).paths
    assert paths is not None
    assert paths.cells[0][8] == "PXB"
