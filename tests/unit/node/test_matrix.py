"""A topology as a matrix: what it prints, and that it says what the topology says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.core.errors import PlanError
from hpckit.core.index_list import IndexList
from hpckit.node.capture.nvidia_smi import parse_topo_matrix
from hpckit.node.path import NcclPath, PathTable
from hpckit.node.topology import Gpu, Nic, NodeTopology, Source
from hpckit.node.tree_text import matrix_text
from tests.corpus import corpus_files
from tests.fakes.slurm_records import RECORDS

SYNTHETIC = sorted(RECORDS.glob("nvidia-smi-topo-*/synthetic-*/output.txt"))
NODE = NodeTopology(
    source=Source(format="test"),
    gpus=(
        Gpu(index=0, cpus=IndexList("0-15,32-47"), numa_index=0, own_numa_index=2),
        Gpu(index=1, memory_numa=IndexList("1-3"), numa_index=1),
    ),
    nics=(Nic(index=0, name="hsn0", label="NIC0"), Nic(index=1, name="mlx5_0")),
    paths=PathTable(
        devices=("GPU0", "GPU1", "NIC0", "mlx5_0"),
        cells=(
            ("X", "NV18", "PIX", None),
            ("NV18", "X", "SYS", "SYS"),
            ("PIX", "SYS", "X", "SYS"),
            (None, "SYS", "SYS", "X"),
        ),
        nccl=(
            (NcclPath.LOC, NcclPath.NVL, NcclPath.PIX, None),
            (NcclPath.NVL, NcclPath.LOC, NcclPath.SYS, NcclPath.SYS),
            (NcclPath.PIX, NcclPath.SYS, NcclPath.LOC, NcclPath.SYS),
            (None, NcclPath.SYS, NcclPath.SYS, NcclPath.LOC),
        ),
    ),
)


def test_the_matrix_has_every_column_under_its_name() -> None:
    """Columns begin where their names do, and what is not known is N/A."""
    assert matrix_text(NODE) == (
        "        GPU0    GPU1    NIC0    mlx5_0  CPU Affinity  NUMA Affinity  GPU NUMA ID\n"
        "GPU0     X      NV18    PIX     N/A     0-15,32-47    0              2\n"
        "GPU1    NV18     X      SYS     SYS     N/A           1-3            N/A\n"
        "NIC0    PIX     SYS      X      SYS\n"
        "mlx5_0  N/A     SYS     SYS      X\n"
        "\n"
        "Legend:\n"
        "\n"
        "  X    = the device itself\n"
        "  NV#  = # NVLinks to the other GPU, or to the switch between them\n"
        "  PIX  = at most one PCIe switch\n"
        "  SYS  = the link between two NUMA nodes, such as UPI or Infinity Fabric\n"
        "  N/A  = unknown\n"
        "\n"
        "NIC Legend:\n"
        "\n"
        "  NIC0: hsn0\n"
    )


def test_the_matrix_can_be_in_the_words_of_nccl() -> None:
    """The same devices and affinities, with NCCL's types of paths and what they mean."""
    lines = matrix_text(NODE, nccl=True).splitlines()
    assert lines[1].split()[:5] == ["GPU0", "LOC", "NVL", "PIX", "N/A"]
    assert "  NVL  = NVLink, directly or through a switch" in lines
    assert not any(line.startswith("  NVB") for line in lines)


@pytest.mark.parametrize(
    ("node", "nccl"),
    [
        (replace(NODE, paths=None), False),
        (
            replace(NODE, paths=replace(NODE.paths or PathTable(devices=(), cells=()), nccl=())),
            True,
        ),
    ],
)
def test_a_topology_without_the_table_is_refused(node: NodeTopology, nccl: bool) -> None:
    """Without what lies between its devices a node has no matrix."""
    with pytest.raises(PlanError, match="without the paths between its devices"):
        matrix_text(node, nccl=nccl)


@pytest.mark.parametrize(
    "path", [*SYNTHETIC, *corpus_files("nvidia-smi-topo/**/*.txt", "lspci/*.md")]
)
def test_a_matrix_that_is_printed_says_what_was_read(path: Path) -> None:
    """Every cell, affinity and name is read back, but for why something is unknown."""
    for node in parse_topo_matrix(path.read_text()):
        (again,) = parse_topo_matrix(matrix_text(node))
        assert replace(again, unknown=()) == replace(node, unknown=())


def test_a_name_steers_no_terminal() -> None:
    """Escapes, line ends and characters that turn a line round are shown as what they are."""
    names = ("a\x1b[2J", "b\nNIC9: c", "d\u202e", "e\x9b")
    nics = tuple(Nic(index=at, name=name, label=f"NIC{at}") for at, name in enumerate(names))
    rows = ("NIC0", "NIC1", "NIC2", "NIC3", "x\x1b[0m")
    cells = tuple(tuple("X" if at == row else "PIX" for at in range(5)) for row in range(5))
    table = PathTable(devices=rows, cells=cells)
    text = matrix_text(NodeTopology(source=Source(format="test"), nics=nics, paths=table))
    assert text.replace("\n", "").isprintable()
    assert "  NIC1: b\\x0aNIC9: c" in text.splitlines()
