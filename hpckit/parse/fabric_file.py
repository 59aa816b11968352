"""A file that tells of a cluster's network: what it is, is told from its content."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from hpckit.model.fabric import ClusterTopology
from hpckit.parse.azure_topology import parse_azure_domains, parse_azure_sharp
from hpckit.parse.excerpt import refusal, refuse_text
from hpckit.parse.fabric_json import parse_fabric_json, parse_host_lines
from hpckit.parse.scontrol_topology import parse_scontrol_topology
from hpckit.parse.topology_addr import parse_topology_addr
from hpckit.parse.topology_conf import parse_topology_conf
from hpckit.parse.topology_yaml import parse_topology_yaml

EXPECTED: Final = (
    "topology.conf, topology.yaml, scontrol show topology, ibnetdiscover, lines of "
    "SLURM_TOPOLOGY_ADDR, hpckit's own JSON, or a cloud's"
)

_COMPRESSED: Final = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")
_BEGIN: Final = 8192
_SHOWN: Final = 16

_Parse = Callable[[str, str], tuple[ClusterTopology, ...]]


def fabric_text(data: bytes, name: str) -> str:
    """The text of a file, which may be compressed with gzip, bzip2 or xz, or be UTF-16.

    Raises ParseError for what is no text, such as an archive.
    """
    if data.startswith(_COMPRESSED):
        # Loaded when used: few files are compressed.
        from hpckit.parse.tar_stream import compressed_text  # noqa: PLC0415

        data = compressed_text(data) or data
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if data.startswith(_COMPRESSED) or b"\0" in data[:_BEGIN]:
        what = "an archive" if data.startswith(_COMPRESSED) else "a binary file"
        raise refusal(
            f"this is {what} and no text",
            tool=name,
            line_no=1,
            line=f"{data[:_SHOWN].hex(' ')} …",
            expected=f"a text, unpacked from what holds it: {EXPECTED}",
        )
    return data.decode("utf-8", "replace")


def parse_fabric(text: str, name: str) -> tuple[ClusterTopology, ...]:
    """The topologies in a file, at least one; `name` is the file's, for errors.

    Raises ParseError for what is none of EXPECTED.
    """
    body = text.removeprefix("\ufeff")
    for looks, parse in _FORMATS:
        if looks.search(body):
            found = parse(body, name)
            if found:
                return found
            break
    raise refuse_text("tells of no fabric", tool=name, lines=body.split("\n"), expected=EXPECTED)


def _conf(text: str, name: str) -> tuple[ClusterTopology, ...]:
    return (parse_topology_conf(text, name),)


def _azure_domains(text: str, name: str) -> tuple[ClusterTopology, ...]:
    return (parse_azure_domains(text, name),)


def _azure_sharp(text: str, name: str) -> tuple[ClusterTopology, ...]:
    return (parse_azure_sharp(text, name),)


def _ibnetdiscover(text: str, name: str) -> tuple[ClusterTopology, ...]:
    # Loaded when used: the longest of them, and few files need it.
    from hpckit.parse.ibnetdiscover import parse_ibnetdiscover  # noqa: PLC0415

    return (parse_ibnetdiscover(text, name),)


def _addresses(text: str, name: str) -> tuple[ClusterTopology, ...]:
    return (parse_topology_addr(text, name),)


_FORMATS: Final[tuple[tuple[re.Pattern[str], _Parse], ...]] = (
    (re.compile(r"\A\s*[\[{]"), parse_fabric_json),
    (re.compile(r"\A\s*[^\s:]+: +\{"), parse_host_lines),
    (re.compile(r"\A\s*[^\s:]+: *[0-9a-fA-F]{8}-"), _azure_domains),
    (re.compile(r"^[^\s:]+: *0x[0-9a-fA-F]+\s*$", re.MULTILINE), _azure_sharp),
    (
        re.compile(
            r"\A\s*(?:SwitchName=[^\n]* Level|(?:BlockName|AggregatedBlock)=[^\n]* BlockIndex)=\d"
        ),
        parse_scontrol_topology,
    ),
    (re.compile(r"^(?:vendid=|(?:Switch|Ca|Rt)[ \t]+\d+[ \t]+\")", re.MULTILINE), _ibnetdiscover),
    (
        re.compile(
            r"^[ \t]*(?:SwitchName|BlockName|BlockSizes)[ \t]*[-*+/]?=", re.MULTILINE | re.I
        ),
        _conf,
    ),
    (re.compile(r"^(?:- +)?topology *:|^---[ \t\r]*$|^%YAML ", re.MULTILINE), parse_topology_yaml),
    (
        re.compile(r"^[ \t]*\S+[ \t]+\S+[ \t]+(?:(?:switch|block)\.)*node[ \t\r]*$", re.MULTILINE),
        _addresses,
    ),
)
"""What a text looks like, and what reads it; the first that fits."""
