from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from hpckit.core.finding_lines import sentence
from hpckit.core.findings import Finding, Severity, group_findings
from hpckit.core.index_list import IndexList
from hpckit.node.nics import with_nic_roles
from hpckit.node.pci import PciAddress
from hpckit.node.rules.rules import node_findings
from hpckit.node.topology import (
    Disagreement,
    Gpu,
    GpuFabric,
    GpuHealth,
    GpuLink,
    GpuVendor,
    Host,
    LinkKind,
    Nic,
    NicPort,
    NodeTopology,
    Unknown,
)
from tests.fakes.node import (
    both_ways,
    change_device,
    change_gpu,
    change_nic,
    even_matrix,
    gpu,
    gpu_address,
    healthy_node,
    lanes,
    matrix,
    nic,
    with_cells,
)

# DGX-1 System Architecture (WP-08437), figure 4: the hybrid cube mesh.
CUBE_MESH = """
GPU0 X   NV1 NV1 NV2 NV2 SYS SYS SYS
GPU1 NV1 X   NV2 NV1 SYS NV2 SYS SYS
GPU2 NV1 NV2 X   NV2 SYS SYS NV1 SYS
GPU3 NV2 NV1 NV2 X   SYS SYS SYS NV1
GPU4 NV2 SYS SYS SYS X   NV1 NV1 NV2
GPU5 SYS NV2 SYS SYS NV1 X   NV2 NV1
GPU6 SYS SYS NV1 SYS NV1 NV2 X   NV2
GPU7 SYS SYS SYS NV1 NV2 NV1 NV2 X
"""


def found(topology: NodeTopology, rule: str, **more: int) -> list[Finding]:
    """The findings of one rule."""
    return [one for one in node_findings(with_nic_roles(topology), **more) if one.rule == rule]


def subjects(topology: NodeTopology, rule: str) -> list[str]:
    """What the findings of one rule are about."""
    return [one.subject for one in found(topology, rule)]


def said(findings: Sequence[Finding]) -> list[str]:
    """The sentences about them, those that are alike together."""
    return [sentence(group) for group in group_findings(findings)]


def without_cells(topology: NodeTopology, *pairs: tuple[str, str]) -> NodeTopology:
    """The node without what lies between these."""
    table = topology.paths
    assert table is not None
    cells = tuple(
        tuple(
            None if (row, column) in pairs else cell
            for column, cell in zip(table.devices, cells, strict=True)
        )
        for row, cells in zip(table.devices, table.cells, strict=True)
    )
    return dataclasses.replace(topology, paths=dataclasses.replace(table, cells=cells))


def rules_of(topology: NodeTopology) -> set[str]:
    """The rules that found something."""
    return {one.rule for one in node_findings(with_nic_roles(topology))}


def test_healthy() -> None:
    """Nothing is odd about an HGX board with eight GPUs and eight NICs."""
    assert node_findings(with_nic_roles(healthy_node()), expected_gpus=8) == ()


def test_order() -> None:
    """Findings come by severity, then by subject in natural order."""
    node = NodeTopology(
        source=healthy_node().source,
        gpus=tuple(
            Gpu(index=index, health=GpuHealth(remapping_pending=True, remapped_rows_correctable=1))
            for index in (10, 2, 0, 1, 3, 4, 5, 6, 7, 8, 9)
        ),
    )
    placed = [(one.severity, one.subject) for one in node_findings(node)]
    assert placed[:4] == [(Severity.WARNING, f"GPU{index}") for index in range(4)]
    assert placed[10] == (Severity.WARNING, "GPU10")
    assert placed[11] == (Severity.NOTE, "GPU0")


@pytest.mark.parametrize(
    ("count", "without", "rule"),
    [
        (8, (3,), "nvlink-fewer"),
        (8, (3, 6), "nvlink-fewer"),
        (9, (8,), "nvlink-none"),  # a card beside the board
        (5, (4,), "nvlink-none"),  # the display of a DGX Station
        (8, (4, 5, 6, 7), "nvlink-none"),  # four of eight cards with a bridge
    ],
)
def test_no_nvlinks_in_a_matrix(count: int, without: tuple[int, ...], rule: str) -> None:
    """A GPU that is off the NVLinks of its board is a warning, a card without a bridge is none."""
    every = range(count)
    rows = [
        " ".join(
            "X" if a == b else "SYS" if a in without or b in without else "NV18" for b in every
        )
        for a in every
    ]
    node = matrix("\n".join(f"GPU{at} {row}" for at, row in enumerate(rows)))
    assert subjects(node, rule) == [f"GPU{index}" for index in without]
    assert rules_of(node) & {"nvlink-fewer", "nvlink-none"} == {rule}


def test_dead_link_of_nvml() -> None:
    """A GPU with 17 of 18 active links is named, with the link, and its seven peers are not."""
    node = change_gpu(healthy_node(), 5, nvlinks=gpu(5, inactive=(11,)).nvlinks)
    (finding,) = node_findings(with_nic_roles(node))
    assert (finding.rule, finding.severity, finding.subject) == (
        "nvlink-fewer",
        Severity.WARNING,
        "GPU5",
    )
    assert finding.because == ("GPU5 has 17 active NVLinks, its 7 peers have 18 (link 11 inactive)")
    assert finding.remedy == "for your admins: nvidia-smi nvlink -s -i 5"


@pytest.mark.parametrize("way", ["row and column", "row", "column"])
def test_short_row(way: str) -> None:
    """A GPU whose row or column of the matrix has NV17 among NV18 is named, and not its peers."""
    cells: dict[tuple[int, int], str] = {}
    for other in (0, 1, 2, 3, 4, 6, 7):
        cells |= {(5, other): "NV17"} if "row" in way else {}
        cells |= {(other, 5): "NV17"} if "column" in way else {}
    (finding,) = found(even_matrix(8, "NV18", cells), "nvlink-fewer")
    assert finding.subject == "GPU5"
    assert finding.because.startswith("GPU5 has NV17 to GPU0-4,6-7, and ")


def test_short_pair() -> None:
    """Where one pair has NV17 among NV18, both ends are named: either may be at fault."""
    node = even_matrix(8, "NV18", both_ways((2, 6), word="NV17"))
    assert subjects(node, "nvlink-fewer") == ["GPU2", "GPU6"]
    assert found(node, "nvlink-fewer")[0].because == (
        "GPU2 has NV17 to GPU6, and NV18 to GPU0-1,3-5,7"
    )


def test_counted_links() -> None:
    """The counts of links between GPUs tell a short one as a matrix does."""
    links = tuple(
        GpuLink(a=a, b=b, kind=LinkKind.NVLINK, count=5 if 1 in (a, b) else 6)
        for a in range(4)
        for b in range(a + 1, 4)
    )
    bare = NodeTopology(
        source=healthy_node().source, gpus=tuple(Gpu(index=at) for at in range(4)), gpu_links=links
    )
    assert subjects(bare, "nvlink-fewer") == ["GPU1"]


@pytest.mark.parametrize("word", ["NV18", "NV12", "NV8", "NV6", "NV4", "NV2", "PXB", "SYS"])
@pytest.mark.parametrize("count", [2, 4, 5, 8, 16])
def test_uniform(word: str, count: int) -> None:
    """A machine with the same links between all its GPUs has no warning, whatever their number."""
    findings = node_findings(even_matrix(count, word, {}))
    assert [one for one in findings if one.severity is not Severity.NOTE] == []


@pytest.mark.parametrize("words", [("NV1", "NV2"), ("NV1", "NV1")])
def test_part_of_cube_mesh(words: tuple[str, str]) -> None:
    """No part of a DGX-1, as a container or a virtual machine shows it, has a warning.

    With P100 all its links are NV1.
    """
    mesh = CUBE_MESH.replace("NV1", words[0]).replace("NV2", words[1])
    lines = [line.split() for line in mesh.strip().splitlines()]
    for shown in range(1, 1 << 8):
        kept = [index for index in range(8) if shown >> index & 1]
        text = "\n".join(
            " ".join([f"GPU{row}", *(lines[old][1 + column] for column in kept)])
            for row, old in enumerate(kept)
        )
        findings = node_findings(matrix(text))
        assert [one for one in findings if one.severity is not Severity.NOTE] == [], text


def test_uneven_design() -> None:
    """Where all GPUs, or more than half, would be short, it is a design that is not known here."""
    ring = both_ways((0, 1), (1, 2), (2, 3), (3, 0), word="NV12")
    assert subjects(even_matrix(4, "NV6", ring), "nvlink-fewer") == []
    star = both_ways((0, 1), (0, 2), (0, 3), (0, 4), word="NV12")
    assert subjects(even_matrix(5, "NV6", star), "nvlink-fewer") == []


def test_uneven_mesh() -> None:
    """Eight GPUs of which no more than half have the most links are no cube mesh."""
    chain = both_ways(*((at, at + 1) for at in range(7)), word="NV1")
    ends = both_ways((0, 1), (6, 7), (2, 3), word="NV2")
    assert subjects(even_matrix(8, "SYS", chain | ends), "nvlink-fewer") == []


def test_dead_link_in_cube_mesh() -> None:
    """A pair of a DGX-1 with NV1 in the place of NV2 is named."""
    broken = CUBE_MESH.replace("GPU0 X   NV1 NV1 NV2 NV2", "GPU0 X   NV1 NV1 NV2 NV1").replace(
        "GPU4 NV2", "GPU4 NV1"
    )
    (first, second) = found(matrix(broken), "nvlink-fewer")
    assert (first.subject, second.subject) == ("GPU0", "GPU4")
    assert first.because == "GPU0 has 5 NVLinks to other GPUs in total, its 6 peers have 6"


def test_bridges() -> None:
    """Pairs with bridges are no fault, and a pair with fewer of them is a note."""
    even = even_matrix(4, "SYS", both_ways((0, 1), (2, 3), word="NV4"))
    assert rules_of(even) == set()
    uneven = even_matrix(4, "SYS", both_ways((0, 1), word="NV12") | both_ways((2, 3), word="NV4"))
    assert rules_of(uneven) == {"nvlink-bridges-uneven"}
    notes = found(uneven, "nvlink-bridges-uneven")
    assert [one.subject for one in notes] == ["GPU2", "GPU3"]
    assert said(notes) == ["GPU2-3 are joined by NV4, other pairs here by NV12"]


@pytest.mark.parametrize(
    ("words", "severity"),
    [(("NV18", "NV17"), Severity.WARNING), (("NV18", "NV12"), Severity.NOTE),
     (("NV12", "NV11"), Severity.WARNING), (("NV12", "NV8"), Severity.NOTE),
     (("NV4", "NV2"), Severity.NOTE)],
)  # fmt: skip
def test_no_whole_number_of_bridges_is_a_broken_link(
    words: tuple[str, str], severity: Severity
) -> None:
    """A bridge has four or six links: NV17 beside NV18 has one that is down."""
    full, short = words
    cells = both_ways((0, 1), word=full) | both_ways((2, 3), word=short)
    notes = found(even_matrix(4, "SYS", cells), "nvlink-bridges-uneven")
    assert {one.severity for one in notes} == {severity}


def test_rows_that_contradict_each_other() -> None:
    """A path is the same from both ends, so one row is wrong, and neither is silently believed."""
    node = matrix(
        "GPU0 X NV18 SYS SYS\nGPU1 NV17 X SYS SYS\nGPU2 SYS SYS X NV18\nGPU3 SYS SYS NV18 X"
    )
    (one,) = found(node, "matrix-contradicts")
    assert (one.severity, one.because) == (
        Severity.WARNING, "GPU0 to GPU1 is NV18, GPU1 to GPU0 is NV17",
    )  # fmt: skip


def test_a_missing_partition() -> None:
    """Sixty-three of eight cards' sixty-four partitions name the card that lacks one."""
    cards = [f"0000:{0x11 + card:02x}:00" for card in range(8)]
    gpus = [
        Gpu(index=at, name="MI300X", pci=PciAddress(f"{cards[at // 8]}.0"), partition=str(at % 8))
        for at in range(64)
    ]
    node = NodeTopology(source=healthy_node().source, gpus=(*gpus[:20], *gpus[21:]))
    (one,) = found(node, "partitions-fewer")
    assert (one.subject, one.because) == (cards[2], "7 partitions, other cards have 8")
    assert found(dataclasses.replace(node, gpus=tuple(gpus)), "partitions-fewer") == []


def test_other_model() -> None:
    """A GPU of another model is not held against the others."""
    node = change_gpu(healthy_node(), 0, name="DGX Display", nvlinks=())
    assert found(node, "nvlink-fewer") == []


def test_narrow_gpu() -> None:
    """A GPU on 8 lanes whose slot and itself have 16 is a warning."""
    node = change_device(healthy_node(), gpu_address(3), link=lanes(8))
    (finding,) = node_findings(with_nic_roles(node))
    assert (finding.rule, finding.subject) == ("pcie-width", "GPU3")
    assert finding.because == "GPU3 runs x8 PCIe, both ends support x16"


def test_narrow_switch() -> None:
    """A switch on fewer lanes than both ends can have is told of the GPU and the NIC below it."""
    node = change_device(healthy_node(), "0002:01:00.0", link=lanes(4))
    findings = node_findings(with_nic_roles(node))
    assert {(one.rule, one.subject) for one in findings} == {
        ("pcie-width", "GPU2"),
        ("pcie-width", "mlx5_2"),
    }
    assert findings[0].because == (
        "GPU2 is behind the bridge 0002:01:00.0, which runs x4 PCIe, both ends support x16"
    )


def test_inside_of_a_switch() -> None:
    """A switch's downstream port tells the link below it, so it is not held against the one above.

    A card with 8 lanes makes its port run 8 of 16, which is no fault.
    """
    node = healthy_node()
    for index in range(8):
        place = f"{index:04x}"
        node = change_device(node, f"{place}:02:00.0", link=lanes(8))
        node = change_device(node, gpu_address(index), link=lanes(8, max_width=8))
    assert rules_of(node) == set()


def test_narrow_by_design() -> None:
    """GPUs that all run 8 lanes of 16, or whose slot has 8, are a note."""
    all_narrow = healthy_node(2)
    for index in range(2):
        all_narrow = change_device(all_narrow, gpu_address(index), link=lanes(8))
    assert [one.severity for one in found(all_narrow, "pcie-narrow")] == [Severity.NOTE] * 2
    slot = change_device(healthy_node(), gpu_address(0), link=lanes(8))
    slot = change_device(slot, "0000:02:00.0", link=lanes(8, max_width=8))
    assert rules_of(slot) == {"pcie-narrow"}


@pytest.mark.parametrize(
    ("narrow_ones", "rule"), [((1,), "pcie-width"), ((1, 2), "pcie-narrow"), ((), None)]
)
def test_slot_unknown(narrow_ones: tuple[int, ...], rule: str | None) -> None:
    """Where no slot is told, a narrow GPU is a warning if more than half of its twins are wide."""
    node = healthy_node(4)
    flat = tuple(
        dataclasses.replace(one, parent=None) for one in node.pci if one.device_id is not None
    )
    node = dataclasses.replace(node, pci=flat)
    for index in narrow_ones:
        node = change_device(node, gpu_address(index), link=lanes(8))
    assert rules_of(node) == ({rule} if rule else set())


def test_hypervisor() -> None:
    """A matrix with nothing but PHB, or SYS on one NUMA node, is a hypervisor's."""
    assert rules_of(even_matrix(4, "PHB", {})) == {"pci-hidden"}
    assert said(node_findings(even_matrix(4, "PHB", {}))) == [
        "all GPUs seem to be on one PCIe root (every path PHB, NUMA nodes unknown):"
        " likely a virtual machine"
    ]
    assert rules_of(even_matrix(4, "SYS", {})) == {"pci-hidden"}
    box = even_matrix(4, "PHB", {})
    threads = tuple(dataclasses.replace(gpu, cpus=IndexList("0-15,32-47")) for gpu in box.gpus)
    assert rules_of(dataclasses.replace(box, gpus=threads)) == set()  # a socket's cores and threads
    mixed = even_matrix(4, "SYS", both_ways((0, 1), word="NODE"))
    assert rules_of(mixed) == set()


def test_flat_tree() -> None:
    """A virtual machine whose GPUs hang on no bridge hides their places."""
    node = dataclasses.replace(healthy_node(4), host=Host(is_virtual_machine=True), paths=None)
    flat = tuple(
        dataclasses.replace(one, parent=None) for one in node.pci if one.device_id is not None
    )
    assert rules_of(dataclasses.replace(node, pci=flat)) == {"pci-hidden"}
    assert rules_of(node) == set()


def test_nic_down() -> None:
    """A NIC for jobs whose port is down is a warning, and it still counts as its GPU's."""
    node = change_nic(healthy_node(), 3, state="DOWN", rate_bytes_per_s=1.25e9)
    (finding,) = node_findings(with_nic_roles(node))
    assert (finding.rule, finding.severity, finding.subject) == (
        "nic-down",
        Severity.WARNING,
        "mlx5_3",
    )
    assert finding.because == "mlx5_3 is DOWN; all 7 other NICs for jobs are up"


def test_nic_slow() -> None:
    """A NIC beside a GPU with a card like the others and half their rate is a warning."""
    node = change_nic(healthy_node(), 6, rate_bytes_per_s=25e9)
    (finding,) = node_findings(with_nic_roles(node))
    assert (finding.rule, finding.subject) == ("nic-slow", "mlx5_6")
    assert finding.because == "mlx5_6 runs at 200 Gb/s, 7 similar NICs at 400 Gb/s"


def test_nic_missing() -> None:
    """Where each GPU has a NIC of its own but one, the NIC is missing."""
    whole = healthy_node()
    node = with_cells(dataclasses.replace(whole, nics=whole.nics[:-1]))
    (finding,) = node_findings(with_nic_roles(node))
    assert (finding.rule, finding.subject) == ("nic-missing", "GPU7")


def test_half_the_gpus_with_nics() -> None:
    """A design with a NIC for every other GPU is a note for those without."""
    whole = healthy_node()
    node = with_cells(dataclasses.replace(whole, nics=whole.nics[::2]))
    findings = node_findings(with_nic_roles(node))
    assert {one.rule for one in findings} == {"no-close-nic"}
    assert [one.subject for one in findings] == ["GPU1", "GPU3", "GPU5", "GPU7"]
    assert findings[0].because == (
        "GPU1 has no NIC on the same PCIe switch, GPU0,2,4,6 have one; the nearest path is NODE"
    )
    assert len(group_findings(findings)) == 1


def test_no_close_nic_at_all() -> None:
    """Where no GPU has a NIC beside it, one note says so."""
    node = matrix("GPU0 X NV4 NODE\nGPU1 NV4 X SYS\nNIC0 NODE SYS X")
    (finding,) = node_findings(node)
    assert (finding.rule, finding.subject) == ("no-close-nic", "GPUs")
    assert said([finding]) == [
        "no GPU has a NIC on its PCIe switch; the nearest path is NODE or SYS"
    ]


def test_unknown_path_to_a_nic() -> None:
    """A GPU of which a path to a NIC is not known may have one that is close: nothing is said."""
    node = matrix(
        "GPU0 X SYS SYS SYS NODE\nGPU1 SYS X SYS SYS SYS\nNIC0 SYS SYS X SYS SYS\n"
        "NIC1 SYS SYS SYS X SYS\nNIC2 NODE SYS SYS SYS X"
    )
    assert subjects(node, "no-close-nic") == ["GPUs"]
    first = without_cells(node, ("GPU0", "NIC1"), ("NIC1", "GPU0"))
    (finding,) = found(first, "no-close-nic")
    assert finding.because == "GPU1 has no NIC on the same PCIe switch; the nearest path is SYS"
    both = without_cells(first, ("GPU1", "NIC1"), ("NIC1", "GPU1"))
    assert found(both, "no-close-nic") == []


def test_one_port_down() -> None:
    """NICs for jobs with one port down are one sentence."""
    ports = (NicPort(index=1, state="ACTIVE"), NicPort(index=2, state="DOWN"))
    node = healthy_node()
    for index in (2, 3):
        node = change_nic(node, index, ports=ports)
    assert said(found(node, "port-down")) == [
        "mlx5_2 mlx5_3 have no link on port 2, another port is up"
    ]


@pytest.mark.parametrize(
    ("states", "peers"),
    [
        (["DOWN", "ACTIVE"], "; the other NIC for jobs is up"),
        (["DOWN", "DOWN"], "; the other NIC for jobs is not up"),
        (["DOWN", "DOWN", "ACTIVE", "ACTIVE"], "; 2 of 3 other NICs for jobs are up"),
        (["DOWN"], ""),
    ],
)
def test_peers_of_a_nic_that_is_down(states: list[str], peers: str) -> None:
    """How many of the other NICs are up is told, and why the link is down if that is known."""
    node = healthy_node(len(states))
    for index, state in enumerate(states):
        port = NicPort(index=1, state=state, phys_state="Disabled" if state == "DOWN" else "LinkUp")
        node = change_nic(node, index, state=state, ports=(port,))
    finding = found(node, "nic-down")[0]
    assert finding.because == f"mlx5_0 is DOWN (physical state Disabled){peers}"


def test_uncabled_nic() -> None:
    """A NIC of another card that is down is a note, and plain Ethernet without a link nothing."""
    spare = dataclasses.replace(nic(8, state="DOWN"), pci=PciAddress("00ff:00:00.0"))
    ethernet = Nic(index=9, name="eno1", state="DOWN")
    whole = healthy_node()
    node = dataclasses.replace(whole, nics=(*whole.nics, spare, ethernet))
    assert [(one.rule, one.subject) for one in node_findings(with_nic_roles(node))] == [
        ("nic-unused", "mlx5_8")
    ]


def test_gres() -> None:
    """Fewer GPUs than Slurm's gres says is an error, as many or more is nothing."""
    (finding,) = found(healthy_node(7), "gpus-fewer-than-gres", expected_gpus=8)
    assert (finding.severity, finding.subject) == (Severity.ERROR, "GPUs")
    assert finding.because == "7 GPUs found, 8 expected"
    assert found(healthy_node(), "gpus-fewer-than-gres", expected_gpus=8) == []


def test_gres_with_mig() -> None:
    """A GPU in MIG mode counts as its MIG devices, and unknown ones are not counted against it."""
    node = healthy_node(1)
    divided = change_gpu(node, 0, is_mig=True, mig_devices=7)
    assert found(divided, "gpus-fewer-than-gres", expected_gpus=7) == []
    assert len(found(divided, "gpus-fewer-than-gres", expected_gpus=8)) == 1
    untold = change_gpu(node, 0, is_mig=True)
    assert found(untold, "gpus-fewer-than-gres", expected_gpus=8) == []


def test_hidden() -> None:
    """GPUs that the driver does not show are one note, and no finding of their own."""
    node = healthy_node()
    for index in range(2, 8):
        node = change_gpu(node, index, is_hidden=True, nvlinks=None)
    findings = [one for one in node_findings(node) if one.rule != "no-close-nic"]
    assert [(one.rule, one.severity, one.subject) for one in findings] == [
        ("gpus-hidden", Severity.NOTE, "GPUs")
    ]
    assert findings[0].because.startswith("the PCI tree has 8 GPUs, the driver shows 2;")


def test_gap() -> None:
    """Numbers that a matrix leaves out are GPUs that it does not show."""
    node = matrix("GPU0 X NV4\nGPU3 NV4 X")
    (finding,) = found(node, "gpus-hidden")
    assert finding.because == "GPU numbers go up to 3, missing: 1-2"


def test_gpu_without_driver() -> None:
    """A hidden GPU that no driver has taken, unlike its twins, is a warning."""
    node = healthy_node(2)
    node = change_gpu(node, 1, is_hidden=True)
    driven = change_device(node, gpu_address(0), driver="nvidia")
    assert subjects(driven, "gpu-without-driver") == ["GPU1"]
    assert subjects(node, "gpu-without-driver") == []


def test_lost() -> None:
    """A GPU of which NVML says that it is lost is an error."""
    lost = Unknown(subject="GPU2", what="everything", because="NVML: GpuIsLost")
    node = dataclasses.replace(healthy_node(), unknown=(lost,))
    (finding,) = node_findings(with_nic_roles(node))
    assert (finding.rule, finding.severity, finding.subject) == ("gpu-lost", Severity.ERROR, "GPU2")


@pytest.mark.parametrize(
    ("reason", "rule"),
    [
        ("NVML: DriverNotLoaded", "driver-silent"),
        ("NVML: LibraryNotFound", "driver-library-missing"),
    ],
)
def test_silent_driver(reason: str, rule: str) -> None:
    """GPUs whose driver cannot be asked are a warning; a library that is missing is a note."""
    silence = Unknown(subject="GPUs", what="gpus", because=reason)
    node = dataclasses.replace(healthy_node(), unknown=(silence,))
    assert rules_of(node) == {rule}
    assert rules_of(dataclasses.replace(node, gpus=(), nics=(), paths=None)) == set()


@pytest.mark.parametrize(
    ("health", "rule"),
    [
        (GpuHealth(remapping_failed=True), "remapping-failed"),
        (GpuHealth(remapping_pending=True), "remapping-pending"),
        (GpuHealth(remapped_rows_uncorrectable=2), "remapped-rows"),
        (GpuHealth(ecc_uncorrected_volatile=1, ecc_uncorrected_aggregate=3), "ecc"),
        (GpuHealth(ecc_uncorrected_aggregate=3, ecc_uncorrected_volatile=0), "ecc-past"),
        (GpuHealth(ecc_enabled=False), "ecc-off"),
        (
            GpuHealth(clocks_event_reasons=("HwSlowdown", "HwThermalSlowdown"), temperature_c=91),
            "thermal-slowdown",
        ),
        (GpuHealth(clocks_event_reasons=("SwThermalSlowdown",)), "thermal-limit"),
        (GpuHealth(clocks_event_reasons=("HwSlowdown", "HwPowerBrakeSlowdown")), "power-brake"),
        (GpuHealth(clocks_event_reasons=("HwSlowdown",)), "hardware-slowdown"),
    ],
)
def test_health(health: GpuHealth, rule: str) -> None:
    """Each trouble of a GPU is one finding, about that GPU."""
    findings = node_findings(with_nic_roles(change_gpu(healthy_node(), 4, health=health)))
    assert [(one.rule, one.subject) for one in findings] == [(rule, "GPU4")]


@pytest.mark.parametrize(
    ("fabric", "rules"),
    [
        (GpuFabric(state="COMPLETED", status="Success", health="HEALTHY"), set()),
        (GpuFabric(state="NOT_SUPPORTED"), set()),
        (GpuFabric(state="IN_PROGRESS"), {"fabric-not-completed"}),
        (GpuFabric(state="NOT_STARTED"), {"fabric-not-completed"}),
        (GpuFabric(state="COMPLETED", status="NotReady"), {"fabric-not-completed"}),
        (GpuFabric(state="COMPLETED", health="UNHEALTHY (DEGRADED_BW)"), {"fabric-unhealthy"}),
    ],
)
def test_fabric(fabric: GpuFabric, rules: set[str]) -> None:
    """A GPU is in its fabric when that is completed, and one without a fabric needs none."""
    node = change_gpu(healthy_node(), 1, fabric=fabric)
    assert rules_of(node) == rules


def test_mig() -> None:
    """MIG is one note where all GPUs have it, else one a GPU."""
    node = healthy_node(2)
    one_of = change_gpu(node, 1, is_mig=True, mig_devices=7)
    assert [(one.subject, one.because) for one in found(one_of, "mig-on")] == [
        ("GPU1", "GPU1 has MIG enabled, 7 MIG devices")
    ]
    both = change_gpu(one_of, 0, is_mig=True, mig_devices=2)
    assert [(one.subject, one.because) for one in found(both, "mig-on")] == [
        ("GPUs", "MIG is enabled on all 2 GPUs, 9 MIG devices")
    ]


def test_disagreement() -> None:
    """What driver and kernel contradict each other on is a warning with both words."""
    said = Disagreement(subject="GPU3", what="numa_index", said=("NVML says 1", "sysfs says 0"))
    node = dataclasses.replace(healthy_node(), disagreements=(said,))
    (finding,) = found(node, "nvml-sysfs-disagree")
    assert (
        finding.because == "GPU3 has conflicting values of numa_index: NVML says 1 · sysfs says 0"
    )


def test_amd_node() -> None:
    """GPUs without NVLinks, ECC modes or fabrics have no finding."""
    node = NodeTopology(
        source=healthy_node().source,
        gpus=tuple(Gpu(index=at, vendor=GpuVendor.AMD, name="MI300X") for at in range(8)),
        gpu_links=tuple(
            GpuLink(a=a, b=b, kind=LinkKind.XGMI, count=1)
            for a in range(8)
            for b in range(a + 1, 8)
        ),
    )
    assert node_findings(node, expected_gpus=8) == ()
