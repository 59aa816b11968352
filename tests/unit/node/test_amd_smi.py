"""amd-smi topology, as tables, JSON of two layouts, and CSV."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hpckit.core.errors import ParseError
from hpckit.node.capture.amd_smi import is_amd_smi_topology, parse_amd_smi_topology
from hpckit.node.topology import LinkKind, NodeTopology
from tests.corpus import corpus_file
from tests.fakes.amd_records import pair, record_text

CASES = (
    ("amd-smi-6.4", "synthetic-tables"),
    ("amd-smi-6.4", "synthetic-json"),
    ("amd-smi-6.4", "synthetic-csv"),
    ("amd-smi-6.0", "synthetic-json"),
)


def record(case: str, tool: str = "amd-smi-6.4") -> NodeTopology:
    """A record, parsed."""
    return parse_amd_smi_topology(record_text(tool, case))


@pytest.mark.parametrize(
    ("a", "b", "count", "bandwidth"),
    [(0, 1, 4, 2e11), (1, 3, 1, 5e10), (0, 2, None, None), (2, 3, None, None)],
)
def test_links_are_counted_by_their_bandwidth(
    a: int, b: int, count: int | None, bandwidth: float | None
) -> None:
    """The least is one link and the most all of them; 0-0 and an error of the tool are unknown."""
    link = pair(record("synthetic-tables"), a, b)
    assert link is not None
    assert link.kind is LinkKind.XGMI
    assert (link.count, link.bandwidth_bytes_per_s) == (count, bandwidth)


def test_access_is_whether_memory_can_be_used() -> None:
    """ENABLED is P2P; what is PCIe is no link, and SYS where hops say two NUMA nodes."""
    node = record("synthetic-tables")
    link = pair(node, 0, 1)
    assert link is not None
    assert link.is_p2p
    assert pair(node, 0, 3) is None
    assert node.paths is not None
    assert node.paths.is_recorded
    assert node.paths.cells[0] == ("X", "XGMI", "XGMI", "SYS")


def test_disabled_access() -> None:
    """DISABLED in one direction is no P2P."""
    text = record_text("amd-smi-6.4", "synthetic-tables")
    first = text.index("ENABLED", text.index("\n0000:22"))
    text = text[:first] + "DISABLED" + text[first + 7 :]
    link = pair(parse_amd_smi_topology(text), 0, 1)
    assert link is not None
    assert link.is_p2p is False


@pytest.mark.parametrize(("tool", "case"), CASES[1:3])
def test_machine_formats_say_the_same(tool: str, case: str) -> None:
    """--json and --csv give the node that the tables give."""
    assert record(case, tool) == record("synthetic-tables")


def test_the_layout_before_links_were_lists_says_the_same_but_addresses() -> None:
    """JSON of ROCm 6.0 has no PCI addresses."""
    node = record("synthetic-tables")
    gpus = tuple(replace(gpu, pci=None) for gpu in node.gpus)
    assert record("synthetic-json", "amd-smi-6.0") == replace(node, gpus=gpus)


def test_json_below_other_output_and_inside_an_object() -> None:
    """What stands before and after the document is passed over, and a key around the list."""
    text = record_text("amd-smi-6.4", "synthetic-json")
    assert parse_amd_smi_topology(f"$ amd-smi topology [all]\n{text}\n[1,0] done") == record(
        "synthetic-json"
    )
    assert parse_amd_smi_topology(json.dumps({"topology": json.loads(text)})) == record(
        "synthetic-json"
    )


def test_tables_quoted_in_a_report() -> None:
    """Marks of quotation, colours, CRLF and a warning between rows change nothing."""
    text = record_text("amd-smi-6.4", "synthetic-tables").replace("\n", "\r\n> ")
    text = text.replace("> 0001:38", "> WARNING: cable 3, see the log\r\n> 0001:38")
    text = "### GPUs\nGPU: 0\n    BDF: 0000:0c:00.0\n> \x1b[1m" + text + "\n```"
    assert is_amd_smi_topology(text)
    assert parse_amd_smi_topology(text) == record("synthetic-tables")


def test_cells_that_touch() -> None:
    """A cell of 13 characters leaves no space before the next, and so does a longer address."""
    a, b = "10000:0c:00.0", "10000:22:00.0"
    wide, types = "819200-819200", f"{a} SELF XGMI\n{b} XGMI SELF\n"
    text = f"LINK TYPE TABLE:\n {a}{b}\n{types}\nNUMA BW TABLE:\n {a}{b}\n"
    link = pair(parse_amd_smi_topology(f"{text}{a} N/A {wide}\n{b} {wide}N/A\n"), 0, 1)
    assert link is not None
    assert link.bandwidth_bytes_per_s == 819.2e9


def test_a_second_machine_in_the_text_is_not_mixed_in() -> None:
    """The tables of the first are read, to the first that comes again."""
    text = record_text("amd-smi-6.4", "synthetic-tables")
    assert parse_amd_smi_topology(text + text.replace("0000:22", "0000:23")) == record(
        "synthetic-tables"
    )


@pytest.mark.parametrize(
    ("text", "line_no", "message"),
    [
        ("HOPS TABLE:\n 0000:0c:00.0\n", 3, "ends after 0 of 1 rows"),
        ("HOPS TABLE:\n 0000:0c:00.0\nWEIGHT TABLE:\n", 3, "ends after 0 of 1 rows"),
        ("HOPS TABLE:\n 0c:00.0\n0c:00.0 1.5\n", 3, "got '1.5'"),
        (
            "HOPS TABLE:\n 0c:00.0\n0c:00.0 0\nWEIGHT TABLE:\n 0d:00.0\n0d:00.0 0\n",
            4,
            "got columns 0d:00.0",
        ),
        ('[{"links": [], "weight": 1}]', 1, "not this output"),
        ('[{"gpu": 0, "links": [], "weight": 1}]', 1, "links: 0"),
        ('[{"gpu": 0, "links": [{"gpu": 0, "weight": 1},]}]', 1, ""),
        ('{"gpu": 0, "links": [' + "[" * 200_000 + '"weight"', 1, "too deep"),
        ('[{"gpu": 0, "links": [{"gpu": ' + "9" * 5000 + ', "weight": 1}]}]', 1, "digits"),
        ("gpu,bdf,weight_gpu_0\n", 1, "GPUs: 0"),
        ("gpu,weight_gpu_0\n0," + "1" * 200_000 + "\n", 1, "cannot read it"),
    ],
)
def test_what_is_no_output_is_refused_where_it_is_wrong(
    text: str, line_no: int, message: str
) -> None:
    """The error names the line and what was got there."""
    with pytest.raises(ParseError, match=r"^amd-smi") as caught:
        parse_amd_smi_topology(text)
    assert message in str(caught.value)
    assert caught.value.line_no == line_no


def test_eight_mi300x() -> None:
    """AMD's own example: eight GPUs, one link between each two, all usable."""
    text = corpus_file("rocm/amd-smi-topology-mi300x.txt").read_text()
    assert is_amd_smi_topology(text)
    node = parse_amd_smi_topology(text)
    assert len(node.gpus) == 8
    assert {(one.count, one.bandwidth_bytes_per_s, one.is_p2p) for one in node.gpu_links} == {
        (1, 5e10, True)
    }
    assert len(node.gpu_links) == 28
