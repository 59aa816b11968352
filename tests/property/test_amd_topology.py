"""What AMD's tools print: any text, cut or garbled, gives a topology or a ParseError."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hpckit.core.errors import ParseError
from hpckit.core.file_tree import FileTree
from hpckit.node.capture.amd_smi import is_amd_smi_topology, parse_amd_smi_topology
from hpckit.node.capture.kfd import parse_kfd
from hpckit.node.capture.rocm_smi import is_rocm_showtopo, parse_rocm_showtopo

RECORDS = Path(__file__).resolve().parents[1] / "records"
TEXTS = [
    path.read_text()
    for tool in ("rocm-smi-6.4", "amd-smi-6.4", "amd-smi-6.0")
    for path in sorted((RECORDS / tool).glob("*/output.txt"))
]
LINES = [line for text in TEXTS for line in text.split("\n")]
FILES = {
    str(path.relative_to(RECORDS / "kfd-sysfs-6.8" / "synthetic-two-gpus")): path.read_text()
    for path in sorted((RECORDS / "kfd-sysfs-6.8" / "synthetic-two-gpus").rglob("*"))
    if path.is_file()
}
odd = st.text() | st.sampled_from(
    ["9" * 5000, "٣", "\0", "\x1b[1m", "\t", "-1", "GPU0", "N/A", "0000:0c:00.0", "\r", "[", "{"]
)


def read(text: str) -> None:
    """Both tools' readers on a text."""
    for is_it, parse in (
        (is_rocm_showtopo, parse_rocm_showtopo),
        (is_amd_smi_topology, parse_amd_smi_topology),
    ):
        is_it(text)
        with suppress(ParseError):
            parse(text)


@given(st.text())
def test_any_text(text: str) -> None:
    """Any text is a node or a ParseError."""
    read(text)


@given(st.lists(st.sampled_from(LINES) | odd, max_size=30))
def test_any_lines_of_the_tools(lines: list[str]) -> None:
    """Lines of the tools in any order, with odd ones in between, are a node or a ParseError."""
    read("\n".join(lines))


@given(st.sampled_from(TEXTS), st.data())
def test_a_piece_replaced(text: str, data: st.DataObject) -> None:
    """An output cut off, or with a piece replaced, is a node or a ParseError."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)) | st.just(len(text)))
    read(text[:start] + data.draw(odd) + text[end:])


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["XGMI", "0"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["gpu", "bdf", "links", "weight", "link_type", "card0", "gpu_0"])
            | st.sampled_from(["(Topology) Numa Node", "system", "link_accessibility"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(values)
def test_any_json(value: object) -> None:
    """Any JSON is a node or a ParseError."""
    read(json.dumps(value))


@given(
    st.dictionaries(
        st.sampled_from(sorted(FILES)) | st.text(max_size=20),
        st.sampled_from(sorted(FILES.values())) | odd,
        max_size=6,
    ),
    st.sampled_from(["topology", "", "/"]),
)
def test_any_files(changed: dict[str, str], root: str) -> None:
    """A tree with files of other places, odd texts and odd names is a node or a ParseError."""
    with suppress(ParseError):
        parse_kfd(FileTree(texts={**FILES, **changed}), root)
    with suppress(ParseError):
        parse_kfd(FileTree(texts=changed), root)
