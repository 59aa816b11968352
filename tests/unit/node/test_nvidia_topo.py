"""`nvidia-smi topo -m`: what its matrices say, in whatever text they come."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.core.errors import ParseError
from hpckit.node.capture.nvidia_smi import is_topo_matrix, parse_topo_matrix
from hpckit.node.topology import GpuVendor, LinkKind, NodeTopology
from tests.corpus import corpus_files
from tests.fakes.slurm_records import record_text

WHOLE = """\
        GPU0    GPU1    NIC0    NIC1    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NV4     PIX     SYS     0-15,32-47      0               N/A
GPU1    NV4      X      SYS     PIX     16-31,48-63     1               N/A
NIC0    PIX     SYS      X      SYS
NIC1    SYS     PIX     SYS      X

Legend:

  X    = Self

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1
"""


def only(text: str) -> NodeTopology:
    """The one node of a text."""
    (node,) = parse_topo_matrix(text)
    return node


def record(case: str, version: int = 550) -> NodeTopology:
    """The one node of a synthetic record."""
    return only(record_text(f"nvidia-smi-topo-{version}", f"synthetic-{case}"))


def cells(node: NodeTopology) -> tuple[tuple[str | None, ...], ...]:
    """The cells of a node that has a matrix."""
    assert node.paths is not None
    return node.paths.cells


def reasons(node: NodeTopology, what: str) -> dict[str, str]:
    """Why something is not known, by subject."""
    return {one.subject: one.because for one in node.unknown if one.what == what}


def refused(text: str) -> ParseError:
    """The error of a text that is refused."""
    with pytest.raises(ParseError) as caught:
        parse_topo_matrix(text)
    return caught.value


def test_every_part_of_a_matrix_is_read() -> None:
    """Devices, cells, affinities and the names of the legend are as the tool printed them."""
    node = record("4gpu-3nic")
    assert node.source.format == "nvidia-smi topo -m"
    assert node.paths is not None
    assert node.paths.is_recorded
    assert node.paths.devices == ("GPU0", "GPU1", "GPU2", "GPU3", "NIC0", "NIC1", "NIC2")
    assert node.paths.cells[1] == ("NV12", "X", "NV12", "NV11", "PXB", "SYS", "NODE")
    assert node.paths.cells[5] == ("SYS", "SYS", "PIX", "PHB", "SYS", "X", "SYS")
    assert [(gpu.index, gpu.cpus, gpu.numa_index) for gpu in node.gpus] == [
        (0, "0-31,64-95", 0),
        (1, "0-31,64-95", 0),
        (2, "32-63,96-127", 1),
        (3, "32-63,96-127", 1),
    ]
    assert {gpu.vendor for gpu in node.gpus} == {GpuVendor.NVIDIA}
    assert [(nic.index, nic.label, nic.name) for nic in node.nics] == [
        (0, "NIC0", "rocep25s0"),
        (1, "NIC1", "mlx5_bond_0"),
        (2, "NIC2", "storage"),
    ]


def test_cells_that_differ_by_direction_stay_and_the_link_has_the_fewer() -> None:
    """GPU1 counts 11 links to GPU3, which counts 12: both are kept, and the link is 11 wide."""
    node = record("4gpu-3nic")
    assert (cells(node)[1][3], cells(node)[3][1]) == ("NV11", "NV12")
    link = next(link for link in node.gpu_links if (link.a, link.b) == (1, 3))
    assert (link.count, link.kind, link.is_switched) == (11, LinkKind.NVLINK, None)
    assert len(node.gpu_links) == 6


def test_memory_of_a_gpu_is_a_numa_node_of_its_own() -> None:
    """On Grace a GPU has affinity to a list of NUMA nodes, and one is its own memory."""
    gpu = record("grace").gpus[1]
    assert gpu.memory_numa == "1,19-25,27-33"
    assert (gpu.numa_index, gpu.own_numa_index) == (1, 18)


def test_rows_with_names_need_no_legend() -> None:
    """Old versions head columns with the NICs' names, in an order of their own."""
    node = record("mlx5-rows", 460)
    assert [(nic.index, nic.name, nic.label) for nic in node.nics] == [
        (0, "mlx5_1", None),
        (1, "mlx5_0", None),
    ]
    assert [gpu.memory_numa for gpu in node.gpus] == ["0-1", None]
    assert set(reasons(node, "numa_index")) == {"GPU1"}


def test_old_words_are_read_as_those_of_today() -> None:
    """SOC is SYS, and PSB, the switch of one board, is PIX."""
    node = record("soc", 361)
    assert cells(node)[0] == ("X", "PIX", "SYS", "PHB")
    assert "prints no NUMA affinity" in reasons(node, "numa_index")["GPUs"]


def test_lines_that_a_terminal_broke_are_joined() -> None:
    """Also where it broke a word: `CPU Affi` and `nity`, `32-` and `47`."""
    node = record("wrapped")
    assert node.paths is not None
    assert node.paths.devices == ("GPU0", "GPU1", "NIC0", "NIC1", "NIC2")
    assert [(gpu.cpus, gpu.memory_numa) for gpu in node.gpus] == [
        ("0-15,32-47", "0"),
        ("16-31,48-63", "1"),
    ]


def test_a_line_broken_between_two_words_is_joined_with_a_space() -> None:
    """`0-15` and `0` on two lines are not `0-150`."""
    text = (
        "        GPU0    GPU1    CPU Affinity    NUMA Affinity   GPU NUMA ID\n"
        "GPU0     X      PIX     0-15\n0               N/A\n"
        "GPU1    PIX      X      0-15\n0               N/A\n"
    )
    assert [(gpu.cpus, gpu.memory_numa) for gpu in only(text).gpus] == [("0-15", "0")] * 2


def test_cells_that_ran_into_one_another_are_told_apart() -> None:
    """Where a paste has lost the whitespace, each column still has its word."""
    node = record("glued")
    assert node.paths is not None
    assert node.paths.devices == ("GPU0", "GPU1", "NIC0", "NIC1", "NIC2", "NIC3")
    assert cells(node)[0] == ("X", "NV4", "PIX", "SYS", "SYS", "NODE")
    assert cells(node)[4] == ("SYS", "SYS", "SYS", "PHB", "X", "SYS")
    assert [(gpu.cpus, gpu.memory_numa) for gpu in node.gpus] == [
        ("0-15,32-47", "0"),
        ("16-31,48-63", "1"),
    ]


def test_a_legend_that_the_tool_wrote_over_gives_no_names() -> None:
    """What stands there is no name; not even the A that is left of N/A."""
    node = record("glued")
    assert [(nic.label, nic.name) for nic in node.nics] == [
        (None, "NIC0"),
        (None, "NIC1"),
        (None, "NIC2"),
        ("NIC3", "mlx5_3"),
    ]
    assert set(reasons(node, "name")) == {"GPUs", "NIC0", "NIC1", "NIC2"}


def test_a_text_with_two_matrices_gives_two_nodes() -> None:
    """Prompts, comments, prose, Markdown and the table of `topo -p2p` are not read."""
    first, second = parse_topo_matrix(record_text("nvidia-smi-topo-550", "synthetic-pasted"))
    assert cells(first) == (("X", "PHB"), ("PHB", "X"))
    assert cells(second) == (("X", "NV4"), ("NV4", "X"))
    assert [gpu.memory_numa for gpu in second.gpus] == ["1", "0"]


def test_a_matrix_that_lost_its_columns_of_affinity_is_read_where_no_other_is() -> None:
    """Documentation and questions often quote it so."""
    bare = "GPU0 GPU1 NIC0\nGPU0 X NV4 PIX\nGPU1 NV4 X SYS\nNIC0 PIX SYS X\n"
    node = only(f"As on a DGX:\n{bare}")
    assert cells(node) == (("X", "NV4", "PIX"), ("NV4", "X", "SYS"), ("PIX", "SYS", "X"))
    assert reasons(node, "cpus") == reasons(node, "numa_index")
    assert reasons(node, "cpus") == {"GPUs": "the text has no column of CPU or NUMA affinity"}
    assert cells(only(f"{bare}\n{WHOLE}")) == cells(only(WHOLE))
    assert cells(only(f"{bare}\nGPU0 has CPU Affinity 0-31\n")) == cells(node)


def test_numa_affinity_that_is_not_there_is_unknown() -> None:
    """N/A is a virtual machine or a machine of one NUMA node, and the text does not say which."""
    first, _ = parse_topo_matrix(record_text("nvidia-smi-topo-550", "synthetic-pasted"))
    assert [gpu.numa_index for gpu in first.gpus] == [None, None]
    assert "a single NUMA node" in reasons(first, "numa_index")["GPUs"]


def test_six_runs_of_cpus_may_not_be_all() -> None:
    """The tool prints six runs of CPUs and stops, so a seventh may be missing."""
    _, second = parse_topo_matrix(record_text("nvidia-smi-topo-550", "synthetic-pasted"))
    assert second.gpus[0].cpus == "1,3,5,7,9,11"
    assert "six CPU ranges" in reasons(second, "cpus")["GPUs"]


def test_a_gpu_without_cpus_keeps_its_numa_node() -> None:
    """In a cgroup that has none of a GPU's CPUs the column is blank, and NUMA follows it."""
    text = (
        "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
        "GPU0\t X \tNODE\t0-15,56-71\t0\t\tN/A\n"
        "GPU1\tNODE\t X \t\t12\t\tN/A\n"
    )
    node = only(text)
    assert (node.gpus[1].cpus, node.gpus[1].memory_numa) == (None, "12")
    assert set(reasons(node, "cpus")) == {"GPU1"}


def test_blank_affinities_are_none() -> None:
    """A container may hide all three; the last is N/A then."""
    text = "\tGPU0\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \tPIX\t\t\t\tN/A\n"
    gpu = only(text + "NIC0\tPIX\t X \t\t\t\t\n").gpus[0]
    assert (gpu.cpus, gpu.memory_numa, gpu.own_numa_index) == (None, None, None)


def test_numbers_that_can_be_parted_in_two_ways_are_unknown() -> None:
    """`0-310` is 0-31 and 0, or 0-3 and 10: neither is taken."""
    text = "GPU0GPU1CPU AffinityNUMA AffinityGPU NUMA ID\nGPU0XPIX0-310N/A\nGPU1PIXX0-310N/A\n"
    node = only(text)
    assert cells(node) == (("X", "PIX"), ("PIX", "X"))
    assert [gpu.cpus for gpu in node.gpus] == [None, None]
    assert "run together into one number" in reasons(node, "cpus")["GPUs"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("GPU0     X      NV4 ", "GPU0     X      NVX ", "GPU0 has 1 of 4 cells"),
        ("GPU0     X      NV4 ", "GPU0     X          ", "GPU0 has 3 of 4 cells"),
        ("GPU1    NV4      X  ", "GPU1    NV4         ", "GPU1 has 3 of 4 cells"),
        ("GPU0     X  ", "GPU0    PIX ", "wrong cell for GPU0 and GPU0"),
        ("NIC0    PIX ", "NIC0        ", "NIC0 has 3 of 4 cells"),
        ("NIC0    PIX     SYS      X      SYS", "NIC0    PIX     SYS      X", "NIC0 has 3 of 4"),
        ("0-15,32-47 ", "0-15;32-47 ", "not an affinity"),
        ("0-15,32-47 ", "47-32      ", "not an affinity"),
        ("0-15,32-47 ", "0-99999999 ", "not an affinity"),
        ("0               N/A", "0               0-1", "not a NUMA node"),
        ("0               N/A", "0               N/A   7", "extra text after GPU0"),
        ("X      SYS\n", "X      SYS     0-15\n", "extra text after NIC0"),
        ("GPU NUMA ID", "GPU NUMA ID   Rail", "not a column"),
        ("GPU0    GPU1", "GPU0    GPU0", "no column for GPU1"),
        ("NIC0    NIC1    CPU", "NIC0    NIC1    NIC1    CPU", "two columns with the same name"),
        ("\nNIC1    SYS", "\nwarning: no\nNIC1    SYS", "a row separate"),
        ("\nNIC1    SYS", "\nNIC0    SYS", "a second row for NIC0"),
        ("\nNIC1    SYS", "\nNIC7    SYS", "no column for NIC7"),
        ("\nNIC1    SYS", "\nPIX\nNIC1    SYS", "extra text after NIC0"),
        ("\nNIC1    SYS", "\n        SYS", "extra text after NIC0"),
        (
            "GPU0     X      NV4     PIX     SYS     0-15,32-47      0               N/A\n",
            "",
            "GPU0 has no row",
        ),
        ("\nNIC1    SYS     PIX     SYS      X\n", "\n", "cut off here: 1 of 4 rows missing"),
        ("  NIC1: mlx5_1", "  NIC1: mlx5_1\n  NIC1: mlx5_2", "a second name"),
        ("  NIC1: mlx5_1", "  NIC1: mlx5_1\n  NIC2: mlx5_2", "has no NIC2"),
    ],
)
def test_what_is_not_understood_is_refused(old: str, new: str, says: str) -> None:
    """A cell, a column, a row or a name that does not fit is shown, with what was expected."""
    assert WHOLE.count(old) >= 1
    error = refused(WHOLE.replace(old, new, 1))
    assert says in str(error)
    assert error.tool == "nvidia-smi topo -m"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GPU0",
        "GPU0 GPU1\nGPU0 0 XGMI\nGPU1 XGMI 0\n",
        " \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n",
        "GPU0 and GPU1 are linked by NV2\n",
        "GPU0 GPU1\nGPU0 N/A N/A\nGPU1 N/A N/A\n",
        " \tGPU0\n GPU0\tX\n",
        "     GPU 0/0|GPU 1/0|CPU Affinity\nGPU 0/0 |S |SYS |0-31\n",
    ],
)
def test_other_tables_are_no_matrix(text: str) -> None:
    """Neither rocm-smi's, nor those of `topo -p2p`, nor prose."""
    assert not is_topo_matrix(text)
    assert "no matrix found" in str(refused(text))


@pytest.mark.parametrize("path", corpus_files("nvidia-smi-topo/**/*.txt", "lspci/*.md"))
def test_every_public_capture_is_read(path: Path) -> None:
    """Every cell of every matrix is there, and every GPU meets itself on the diagonal."""
    nodes = parse_topo_matrix(path.read_text())
    assert is_topo_matrix(path.read_text())
    for node in nodes:
        assert node.gpus
        for at, row in enumerate(cells(node)):
            assert None not in row
            assert row[at] == "X"
