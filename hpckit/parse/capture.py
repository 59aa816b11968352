"""A capture of a machine in one file: what it is, is told from its content, not from its name.

Archives are read in hpckit.parse.tarball.
"""

from __future__ import annotations

import re
from typing import Final

from hpckit.errors import ParseError
from hpckit.model.hardware import NodeTopology
from hpckit.parse.amd_smi import is_amd_smi_topology, parse_amd_smi_topology
from hpckit.parse.excerpt import refusal, refuse_text
from hpckit.parse.hwloc_xml import is_hwloc_xml, parse_hwloc_xml
from hpckit.parse.nccl_xml import is_nccl_xml, parse_nccl_xml
from hpckit.parse.nvidia_topo import is_topo_matrix, parse_topo_matrix
from hpckit.parse.probe_answer import LONGEST_ANSWER_BYTES
from hpckit.parse.rocm_smi import is_rocm_showtopo, parse_rocm_showtopo
from hpckit.parse.snapshot import is_snapshot, parse_snapshot
from hpckit.parse.xml_elements import parse_xml

EXPECTED: Final = "one of the captures that `hpckit inspect --help` lists"
MOST_BYTES: Final = 8 * 1024**2
"""Of a text: what a node prints is a hundredth of that. XML has a limit of its own."""

_HEAD_BYTES: Final = 2000
_LSPCI: Final = re.compile(
    r"(?m)^[> ]{0,40}(?:-[+\\]?-?\[[0-9a-f]{4,8}:[0-9a-f]{2}\]-"
    r"|(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7][ -])"
)
"""A line of `lspci`, or the root of the tree that `lspci -t` draws."""

_INSTEAD_OF_LSPCI: Final = (
    "`hpckit inspect --json` from the node, lstopo's XML or a tarball of hwloc-gather-topology,"
    " which hold what lspci prints"
)
_XML_STARTS: Final = ("<?xml", "<!DOCTYPE", "<system", "<topology", "<graphs", "<!--")


def parse_capture(data: bytes, name: str) -> tuple[NodeTopology, ...]:
    """The machines in a capture, at least one; only a text can hold several.

    `name` is how errors call it. Raises ParseError for what is no capture of a machine.
    """
    _check_size(data, name)
    text = _text(data, name)
    head = text.lstrip()
    if head.startswith(_XML_STARTS):
        return (_parse_xml(data, name),)
    if is_snapshot(text):
        return (parse_snapshot(text),)
    if is_topo_matrix(text):
        return parse_topo_matrix(text)
    if is_amd_smi_topology(text):
        return (parse_amd_smi_topology(text),)
    if is_rocm_showtopo(text):
        return (parse_rocm_showtopo(text),)
    raise _unknown(name, text)


def _check_size(data: bytes, name: str) -> None:
    head = _text(data[:_HEAD_BYTES], name)
    most = LONGEST_ANSWER_BYTES if is_snapshot(head) else MOST_BYTES
    if len(data) > most and not head.lstrip().startswith("<"):
        message, expected = f"it has {len(data)} bytes", f"a capture of up to {most} bytes"
        raise refusal(message, tool=name, line_no=1, line=head.split("\n")[0], expected=expected)


def _parse_xml(data: bytes, name: str) -> NodeTopology:
    document = parse_xml(data, name)
    if is_nccl_xml(document):
        return parse_nccl_xml(document)
    if is_hwloc_xml(document):
        return parse_hwloc_xml(document)
    raise document.refuse(
        document.root,
        f"<{document.root.tag}> is no topology",
        "<system> as NCCL and RCCL write it, or <topology> as lstopo does",
    )


def _text(data: bytes, name: str) -> str:
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    text = data.decode(encoding, "replace")
    if "\0" in text[:1000]:
        raise _unknown(name, text)
    return text


def _unknown(name: str, text: str) -> ParseError:
    message, expected = "this is no capture that hpckit knows", EXPECTED
    if not text.strip():
        message = "the file is empty"
    elif _LSPCI.search(text):
        message, expected = "the text of lspci is not read", _INSTEAD_OF_LSPCI
    return refuse_text(message, tool=name, lines=text.split("\n"), expected=expected)
