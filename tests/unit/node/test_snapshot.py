"""hpckit's own snapshot of a node."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hpckit.core.errors import ParseError
from hpckit.core.fields import to_tree
from hpckit.node.capture.snapshot import decode_snapshot, is_snapshot, parse_snapshot
from hpckit.node.path import NcclPath, PathTable
from hpckit.node.pci import PciAddress
from hpckit.node.topology import TOPOLOGY_SCHEMA, Gpu, GpuHealth, NodeTopology, NvLink, Source

NODE = NodeTopology(
    source=Source(format="test", is_synthetic=True),
    gpus=(
        Gpu(
            index=0,
            pci=PciAddress("0000:1b:00.0"),
            nvlinks=(NvLink(index=0, is_active=True), NvLink(index=1, is_active=False)),
            health=GpuHealth(power_w=71.5),
        ),
    ),
    paths=PathTable(devices=("GPU0",), cells=(("X",),), nccl=((NcclPath.LOC,),)),
)


def text(**changes: object) -> str:
    """The document of NODE, some of its keys changed."""
    tree = {"schema": TOPOLOGY_SCHEMA, "hpckit": "0", **to_tree(NODE), "findings": []}
    return json.dumps({**tree, **changes}, indent=1)


def test_what_was_written_is_read_back() -> None:
    """A topology, written as JSON, is the same when it is read."""
    assert is_snapshot(text())
    assert parse_snapshot(text()) == NODE


def test_a_probe_of_the_same_release_is_read_without_the_walk() -> None:
    """decode_snapshot gives the same from the bare topology."""
    assert decode_snapshot(json.dumps(to_tree(NODE)).encode()) == NODE


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (text().replace('"is_active"', '"is_activ"', 1), r"nvlinks\[0\].is_activ: unknown key"),
        (text().replace('"index": 0', '"index": "0"', 1), "got text, expected a whole number"),
        (text().replace('"test"', "7", 1), "source.format"),
        (text(schema="hpckit.job/1"), 'expected "hpckit.topology/1"'),
        (text(gpus=7), "gpus"),
        (text().replace('"LOC"', '"LOK"'), "expected one of: LOC"),
        (text(host={"name": "\ud800"}), "half a surrogate pair"),
        (text()[:-20], "expected a JSON object"),
        ('{"schema": "hpckit.topology/1", "a": ' + "[" * 100_000, "nested too deeply|recursion"),
    ],
)
def test_another_document_is_refused_where_it_differs(changed: str, said: str) -> None:
    """Unknown keys, wrong types, other schemas and broken JSON raise ParseError with the line."""
    with pytest.raises(ParseError, match=said) as caught:
        parse_snapshot(changed)
    assert caught.value.line_no >= 1


def test_an_answer_that_is_none_is_refused() -> None:
    """decode_snapshot raises ParseError for what is no topology."""
    with pytest.raises(ParseError):
        decode_snapshot(b'{"gpus": 7}')


def test_findings_are_not_read_back() -> None:
    """What is odd follows from the topology; the document's findings do not matter."""
    assert parse_snapshot(text(findings="x")) == replace(NODE)
