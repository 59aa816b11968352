"""`nvidia-smi topo -m`: any text gives nodes or a ParseError, and no damage makes a cell wrong."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hpckit.core.errors import ParseError
from hpckit.core.index_list import IndexList, expand_indices, index_list
from hpckit.node.capture.nvidia_smi import is_topo_matrix, parse_topo_matrix
from hpckit.node.capture.nvidia_smi_row import TOOL
from hpckit.node.path import PathTable
from hpckit.node.topology import Gpu, GpuVendor, Nic, NodeTopology, Source
from hpckit.node.tree_text import matrix_text

LONG_S = 20.0
WORDS = ["NV1", "NV2", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS", None]
PIECES = [
    *("GPU0", "GPU1", "GPU12", "NIC0", "NIC1", "mlx5_0", "X", "NV18", "NV1", "PIX", "SYS", "NODE"),
    *("CPU Affinity", "NUMA Affinity", "GPU NUMA ID", "CPU", "N/A", "0-3", "1,3", "0", "7-2", "-"),
    *(" ", "  ", "\t", "\t\t", "\n", "\r\n", "\n\n", "\x1b[4m", "[0m", "|", "`", "#", "\x00"),
    *("Legend:\n", "NIC Legend:\n", "NIC0:", "NIC1: mlx5_1", "\u0663", "\u00a0", "9" * 5000),
]
index_sets = st.lists(st.integers(0, 300), min_size=1, max_size=40).map(index_list)


@st.composite
def nodes(draw: st.DrawFn) -> NodeTopology:
    """Any node that a matrix can say all of."""
    gpu_ids = draw(st.lists(st.integers(0, 40), min_size=1, max_size=6, unique=True))
    has_labels = draw(st.booleans())
    nic_ids = draw(st.lists(st.integers(0, 70), max_size=6, unique=True))
    labels = [f"NIC{at}" if has_labels else f"mlx5_{at}" for at in nic_ids]
    devices = (*(f"GPU{at}" for at in gpu_ids), *labels)
    cells = tuple(
        tuple("X" if a == b else draw(st.sampled_from(WORDS)) for b in devices) for a in devices
    )
    nics = tuple(
        Nic(index=at, name=f"bond-{at}", label=f"NIC{at}")
        if has_labels
        else Nic(index=place, name=f"mlx5_{at}")
        for place, at in enumerate(nic_ids)
    )
    return NodeTopology(
        source=Source(format=TOOL),
        gpus=tuple(draw(gpus(at)) for at in gpu_ids),
        nics=nics,
        paths=PathTable(devices=devices, cells=cells, is_recorded=True),
    )


def gpus(index: int) -> st.SearchStrategy[Gpu]:
    """A GPU with what a matrix says of it."""

    def gpu(cpus: IndexList | None, numa: IndexList | None, own: int | None) -> Gpu:
        return Gpu(
            index=index,
            vendor=GpuVendor.NVIDIA,
            cpus=cpus,
            memory_numa=numa,
            numa_index=expand_indices(numa)[0] if numa else None,
            own_numa_index=own,
        )

    maybe = st.none() | index_sets
    return st.builds(gpu, maybe, maybe, st.none() | st.integers(0, 40))


def cells_by_name(node: NodeTopology) -> dict[tuple[str, str], str | None]:
    """The cells of a node by the names of their row and column."""
    assert node.paths is not None
    names = node.paths.devices
    return {
        (row, column): node.paths.cells[at][to]
        for at, row in enumerate(names)
        for to, column in enumerate(names)
    }


def assert_nothing_is_wrong(text: str, node: NodeTopology) -> None:
    """The text is refused, or every cell that is read from it is that of the node."""
    whole = cells_by_name(node)
    try:
        found = parse_topo_matrix(text)
    except ParseError:
        return
    for one in found:
        for names, cell in cells_by_name(one).items():
            assert cell is None or whole.get(names) == cell


@given(nodes())
def test_what_is_printed_is_read_back(node: NodeTopology) -> None:
    """Every cell, affinity and name; links follow from the cells."""
    (again,) = parse_topo_matrix(matrix_text(node))
    assert replace(again, unknown=(), gpu_links=()) == node


@given(nodes(), st.data())
def test_whitespace_does_not_matter(node: NodeTopology, data: st.DataObject) -> None:
    """Tabs, indentation and trailing blanks are as good as aligned columns."""
    gap = data.draw(st.sampled_from(["\t", "  ", " "]))
    lines = [gap.join(line.split()) for line in matrix_text(node).splitlines()]
    indent, end = (
        data.draw(st.sampled_from(["", "    ", "> "])),
        data.draw(st.sampled_from(["", "\t"])),
    )
    (again,) = parse_topo_matrix("\r\n".join(f"{indent}{line}{end}" for line in lines))
    assert replace(again, unknown=(), gpu_links=()) == node


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join) | st.text())
def test_any_text_gives_nodes_or_a_parse_error(text: str) -> None:
    """Nothing else is raised; what has a matrix is known to have one."""
    try:
        found = parse_topo_matrix(text)
    except ParseError:
        return
    assert found
    assert is_topo_matrix(text)


@given(nodes(), st.data())
def test_lines_that_are_lost_make_no_cell_wrong(node: NodeTopology, data: st.DataObject) -> None:
    """Whichever lines a paste has not."""
    lines = matrix_text(node).splitlines()
    kept = [line for line in lines if data.draw(st.integers(0, 3))]
    assert_nothing_is_wrong("\n".join(kept), node)


@given(nodes(), st.data())
def test_a_word_that_is_lost_makes_no_cell_wrong(node: NodeTopology, data: st.DataObject) -> None:
    """A missing cell does not let the others move over unseen."""
    lines = matrix_text(node).splitlines()
    at = data.draw(st.integers(0, len(node.gpus) + len(node.nics)))
    words = lines[at].split()
    del words[data.draw(st.integers(0, len(words) - 1))]
    lines[at] = "\t".join(words)
    assert_nothing_is_wrong("\n".join(lines), node)


@given(nodes(), st.data())
def test_a_line_that_is_cut_makes_no_cell_wrong(node: NodeTopology, data: st.DataObject) -> None:
    """Nor does the half of a word at its end."""
    lines = matrix_text(node).splitlines()
    at = data.draw(st.integers(0, len(lines) - 1))
    lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at])))]
    assert_nothing_is_wrong("\n".join(lines), node)


@given(nodes(), st.integers(8, 200))
def test_a_width_makes_no_cell_wrong(node: NodeTopology, width: int) -> None:
    """Lines that end at one width, and lines that a terminal broke there."""
    lines = matrix_text(node).splitlines()
    assert_nothing_is_wrong("\n".join(line[:width] for line in lines), node)
    broken = "\n".join(
        line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width)
    )
    assert_nothing_is_wrong(broken, node)


@given(
    nodes(), st.sampled_from(["", " ", "GPU0", "NIC0", "X", "0", "PIX PIX", "---", "warning: SYS"])
)
def test_a_line_that_is_not_its_own_makes_no_cell_wrong(node: NodeTopology, junk: str) -> None:
    """Wherever another program has written into the matrix."""
    lines = matrix_text(node).splitlines()
    for at in range(len(node.gpus) + len(node.nics) + 2):
        assert_nothing_is_wrong("\n".join([*lines[:at], junk, *lines[at:]]), node)
