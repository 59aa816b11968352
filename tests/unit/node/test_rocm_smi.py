"""rocm-smi --showtopo, in words, JSON and CSV, alone or in an issue report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.core.errors import ParseError
from hpckit.node.capture.rocm_smi import is_rocm_showtopo, parse_rocm_showtopo
from hpckit.node.topology import GpuVendor, LinkKind, NodeTopology
from tests.corpus import corpus_file, corpus_files
from tests.fakes.amd_records import pair, record_text


def record(case: str) -> NodeTopology:
    """A record, parsed."""
    return parse_rocm_showtopo(record_text("rocm-smi-6.4", case))


def test_what_lies_between_gpus() -> None:
    """XGMI pairs are links with weight and hops; PCIe through two NUMA nodes is SYS."""
    node = record("synthetic-mixed")
    (link,) = node.gpu_links
    assert (link.a, link.b, link.kind, link.weight, link.hops) == (0, 1, LinkKind.XGMI, 15, 1)
    assert node.paths is not None
    assert node.paths.is_recorded
    assert node.paths.devices == ("GPU0", "GPU1", "GPU2", "GPU3")
    assert node.paths.cells == (
        ("X", "XGMI", None, "SYS"),
        ("XGMI", "X", None, "SYS"),
        (None, None, "X", "SYS"),
        ("SYS", "SYS", "SYS", "X"),
    )


def test_numa_nodes_of_gpus() -> None:
    """The affinity is the NUMA node, and -1 is unknown whatever the driver puts in its place."""
    node = record("synthetic-mixed")
    assert [gpu.numa_index for gpu in node.gpus] == [0, 0, None, 1]
    assert [gpu.vendor for gpu in node.gpus] == [GpuVendor.AMD] * 4
    reasons = {(one.subject, one.what): one.because for one in node.unknown}
    assert reasons["GPU2", "numa_index"] == "rocm-smi printed -1"


@pytest.mark.parametrize("case", ["synthetic-json", "synthetic-csv"])
def test_machine_formats_say_the_same(case: str) -> None:
    """--json and --csv give the node that the words give."""
    assert record(case) == record("synthetic-mixed")


def test_a_report_with_wrapped_rows_warnings_and_a_second_machine() -> None:
    """The first machine is read, with the names that --showproductname printed above it."""
    node = record("synthetic-report")
    assert {(gpu.name, gpu.architecture) for gpu in node.gpus} == {("AMD Instinct MI210", "gfx90a")}
    whole = record("synthetic-mixed")
    assert node.paths is not None
    assert whole.paths is not None
    link = pair(whole, 0, 1)
    assert link is not None
    assert node.gpu_links == (replace(link, hops=None),)
    assert [gpu.numa_index for gpu in node.gpus] == [gpu.numa_index for gpu in whole.gpus]
    assert node.paths.cells[0] == whole.paths.cells[0]


WEIGHTS = "== Weight between two GPUs ==\n  GPU0 GPU1\nGPU0 0 {0}\nGPU1 {0} 0\n"
TYPES = "== Link Type between two GPUs ==\n  GPU0 GPU1\nGPU0 0 {0}\nGPU1 {0} 0\n"


@pytest.mark.parametrize("word", ["XXXX", "N/A", "UNKNOWN"])
def test_a_type_that_could_not_be_read(word: str) -> None:
    """XXXX and N/A are no link and no path, with a reason."""
    node = parse_rocm_showtopo(WEIGHTS.format(15) + TYPES.format(word))
    assert node.gpu_links == ()
    assert any(one.what == "paths" for one in node.unknown)


def test_weights_of_several_hops() -> None:
    """A weight of 45 is a link over other GPUs: no count or bandwidth, and the reason is there."""
    node = parse_rocm_showtopo(WEIGHTS.format(45) + TYPES.format("XGMI"))
    link = pair(node, 0, 1)
    assert link is not None
    assert (link.weight, link.count, link.bandwidth_bytes_per_s) == (45, None, None)
    assert any("3 XGMI hops" in one.because for one in node.unknown)


def test_pcie_is_far_by_weight_where_nothing_else_tells() -> None:
    """Over 40 there is a segment between CPUs; 40 is two segments of one CPU."""
    for weight, cell in ((72, "SYS"), (40, None)):
        node = parse_rocm_showtopo(WEIGHTS.format(weight) + TYPES.format("PCIE"))
        assert node.paths is not None
        assert node.paths.cells[0][1] == cell


def test_access_and_bandwidth_sections() -> None:
    """--showtopoaccess tells of P2P, --shownodesbw of links and bandwidth."""
    text = (
        TYPES.format("XGMI")
        + "== Link accessibility between two GPUs ==\nGPU0 GPU1\nGPU0 True False\nGPU1 True True\n"
        + "======= Bandwidth =======\nGPU0 GPU1\nGPU0 N/A 50000-100000\nGPU1 50000-100000 N/A\n"
        + "Format: min-max; Units: mps\n"
    )
    link = pair(parse_rocm_showtopo(text), 0, 1)
    assert link is not None
    assert (link.count, link.bandwidth_bytes_per_s, link.is_p2p) == (2, 1e11, False)


def test_numa_nodes_alone() -> None:
    """--showtoponuma gives GPUs and no paths."""
    node = parse_rocm_showtopo("GPU[1]\t\t: (Topology) Numa Node: 3\n")
    assert [(gpu.index, gpu.numa_index) for gpu in node.gpus] == [(1, 3)]
    assert node.paths is None


def test_an_unsigned_minus_one() -> None:
    """4294967295 is -1 without its sign."""
    node = parse_rocm_showtopo("GPU[0] : (Topology) Numa Affinity: 4294967295\n")
    assert node.gpus[0].numa_index is None


def test_outputs_with_a_part_each_are_one_machine() -> None:
    """Weights and types of two commands are put together; a repeated part begins another node."""
    banner = "==== ROCm System Management Interface ====\n"
    text = banner + TYPES.format("XGMI") + banner + WEIGHTS.format(15)
    link = pair(parse_rocm_showtopo(text), 0, 1)
    assert link is not None
    assert link.weight == 15
    other = banner + WEIGHTS.format(72) + TYPES.format("PCIE")
    link = pair(parse_rocm_showtopo(banner + TYPES.format("XGMI") + other), 0, 1)
    assert link is not None
    assert link.weight is None


@pytest.mark.parametrize(
    ("text", "line_no", "message"),
    [
        ("== Weight between two GPUs ==\nGPU0 GPU1\nGPU0 0 15\n", 4, "ends after 1 of 2 rows"),
        ("== Weight between two GPUs ==\n== Numa Nodes ==\n", 1, "has no columns"),
        ("== Weight between two GPUs ==\nGPU0 GPU1\nGPU0 0 1?\n", 3, "got '1?'"),
        ("== Weight between two GPUs ==\nGPU0 GPU1\nGPU0 0 1 2\n", 3, "got '2'"),
        ("== Weight between two GPUs ==\nGPU0 GPU1\nGPU1 0 1\n", 3, "got 'GPU1'"),
        ("== Weight between two GPUs ==\nGPU0 GPU1\nGPU0 0\nGPU1 1 0\n", 4, "got 'GPU1'"),
        (WEIGHTS.format(15) + "== Hops between two GPUs ==\nGPU0\nGPU0 0\n", 5, "got columns GPU0"),
        (
            "== Hops between two GPUs ==\nGPU0 GPU00\nGPU0 0 0\nGPU00 0 0\n",
            1,
            "got columns GPU0 GPU00",
        ),
        ("GPU[0] : (Topology) Numa Node: zero\n", 1, "got 'zero'"),
        ('{"card0": {"(Topology) Numa Node": "0"}', 1, "Expecting"),
        ('{"system": 1, "(Topology) x": 2}', 1, "not this output"),
        ('{"system": {"(Topology) x": 2}}', 1, "0 GPUs found"),
        ("device,(Topology) Numa Node\ncard0,1,2\n", 2, "3 fields"),
        ("== Weight between two GPUs ==\nGPU0\nGPU0 " + "9" * 5000 + "\n", 3, "got '999"),
    ],
)
def test_what_is_no_output_is_refused_where_it_is_wrong(
    text: str, line_no: int, message: str
) -> None:
    """The error names the line and what was got there."""
    with pytest.raises(ParseError, match=r"^rocm-smi") as caught:
        parse_rocm_showtopo(text)
    assert message in str(caught.value)
    assert caught.value.line_no == line_no


@pytest.mark.parametrize("path", corpus_files("rocm/github-issues/*.txt"))
def test_public_captures(path: Path) -> None:
    """Each capture gives as many GPUs as its name says, and a square of paths."""
    text = path.read_text()
    assert is_rocm_showtopo(text)
    node = parse_rocm_showtopo(text)
    gpus = text[text.index("GPU0") :].split("\n", 1)[0].split()
    assert [f"GPU{gpu.index}" for gpu in node.gpus] == gpus
    assert node.paths is not None
    words = text.split("Link Type between")[1].split("====\n", 1)[1].split("\n")[1 : len(gpus) + 1]
    for row, line in enumerate(words):
        for column, word in enumerate(line.split()[1:]):
            cell = node.paths.cells[row][column]
            assert (cell == "XGMI") == (word == "XGMI")


def test_the_gcds_of_an_mi250x() -> None:
    """All pairs are XGMI; weights of 15, 30 and 45 are kept, and only 15 is a link of its own."""
    name = "rocm/github-issues/amd-instinct-mi250x_8gpu_vllm-12572_6b8d.txt"
    node = parse_rocm_showtopo(corpus_file(name).read_text())
    weights = sorted(link.weight or 0 for link in node.gpu_links)
    assert (weights.count(15), weights.count(30), weights.count(45)) == (12, 14, 2)
    assert [gpu.numa_index for gpu in node.gpus] == [3, 3, 1, 1, 0, 0, 2, 2]


def test_what_other_options_say_of_a_gpu() -> None:
    """The PCI bus and the unique id are taken; an address that is none is not."""
    text = "GPU[0]: PCI Bus: 0000:C1:00.0\nGPU[0]: Unique ID: 0x2f\nGPU[1]: PCI Bus: 0000:41\n"
    gpus = parse_rocm_showtopo(text + WEIGHTS.format(15)).gpus
    assert [(gpu.pci, gpu.uuid) for gpu in gpus] == [
        ("0000:c1:00.0", "GPU-000000000000002f"),
        (None, None),
    ]
