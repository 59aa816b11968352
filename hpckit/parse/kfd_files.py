"""The files below /sys/class/kfd/kfd/topology as nodes with properties, memory and links.

Sources: Linux drivers/gpu/drm/amd/amdkfd/kfd_topology.c (node_show, mem_show, iolink_show) and
kfd_crat.h (types and flags of links, types of heaps). The standard library only: a job reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from hpckit.errors import ParseError
from hpckit.model.file_tree import FileTree
from hpckit.parse.excerpt import refusal

KFD_ROOT: Final = "sys/class/kfd/kfd/topology"

KFD_PATTERNS: Final = tuple(
    f"{KFD_ROOT}/nodes/*/{name}"
    for name in (
        "name",
        "properties",
        "mem_banks/*/properties",
        "io_links/*/properties",
        "p2p_links/*/properties",
    )
)
"""What a probe reads below its root, as glob patterns; `kfd` is a symbolic link to follow."""

_NAMES: Final = frozenset(pattern.rpartition("/")[2] for pattern in KFD_PATTERNS)


TYPE_HYPERTRANSPORT: Final = 1
TYPE_PCIE: Final = 2
TYPE_XGMI: Final = 11
FLAG_ENABLED: Final = 1 << 0
FLAG_NO_PEER_DMA: Final = 1 << 4
HEAPS_OF_GPU: Final = frozenset({1, 2})
HEAP_OF_SYSTEM: Final = 0

_NODE = re.compile(r"(?P<node>\d{1,5})/(?P<file>[^\0]{1,200})", re.ASCII)
_OF_NODE = re.compile(
    r"(?P<kind>mem_banks|io_links|p2p_links)/(?P<at>\d{1,5})/properties", re.ASCII
)
_PROPERTY = re.compile(r"(?P<key>\w{1,60})[ \t]+(?P<value>\d{1,20})", re.ASCII)

Properties = Mapping[str, int]


@dataclass(slots=True)
class KfdNode:
    """A node of KFD: CPUs, a GPU or a partition of one, or both on an APU.

    Links are by the node that they lead to; direct ones (`io_links`) come first.
    """

    index: int
    properties: Properties = field(default_factory=dict)
    name: str | None = None
    banks: list[Properties] = field(default_factory=list)
    io_links: dict[int, Properties] = field(default_factory=dict)
    p2p_links: dict[int, Properties] = field(default_factory=dict)

    @property
    def is_cpu(self) -> bool:
        """Whether it holds CPUs."""
        return self.get("cpu_cores_count") > 0

    @property
    def is_gpu(self) -> bool:
        """Whether it holds a GPU."""
        return self.get("simd_count") > 0

    def get(self, name: str) -> int:
        """A property; 0, KFD's own word for nothing, if it is not there."""
        return self.properties.get(name, 0)

    def bytes_of(self, heaps: frozenset[int]) -> int | None:
        """The memory of these heaps; None if there is no bank of them."""
        sizes = [one.get("size_in_bytes", 0) for one in self.banks if one.get("heap_type") in heaps]
        return sum(sizes) or None


def kfd_nodes(tree: FileTree, root: str) -> list[KfdNode]:
    """The nodes below `root`/nodes in their order.

    A node whose `properties` are empty or absent was not to be read. Raises ParseError.
    """
    nodes: dict[int, KfdNode] = {}
    for path, index, name in _files(tree, root):
        node = nodes.setdefault(index, KfdNode(index))
        _take(node, name, path, tree.texts[path])
    if not any(node.properties for node in nodes.values()):
        raise _refusal(root or ".", 1, "", "no node has properties", "nodes/0/properties")
    return [nodes[index] for index in sorted(nodes)]


def _files(tree: FileTree, root: str) -> Iterator[tuple[str, int, str]]:
    """The files of nodes: their path, the node's number, and the path below its folder."""
    folder = f"{root.strip('/')}/nodes/".lstrip("/")
    for path in sorted(path for path in tree.texts if path.startswith(folder)):
        match = _NODE.fullmatch(path, len(folder))
        if match:
            yield path, int(match["node"]), match["file"]


def _take(node: KfdNode, name: str, path: str, text: str) -> None:
    part = _OF_NODE.fullmatch(name)
    text = text.rstrip("\0")  # GNU tar fills a file of sysfs up to the size that stat gives
    if name == "properties":
        node.properties = properties(path, text)
    elif name == "name":
        node.name = text.strip()[:100] or None
    elif part and part["kind"] == "mem_banks":
        node.banks.append(properties(path, text))
    elif part:
        links = node.io_links if part["kind"] == "io_links" else node.p2p_links
        link = properties(path, text)
        if link:
            links[_peer(path, text, link)] = link


def _peer(path: str, text: str, link: Properties) -> int:
    if "node_to" not in link or "type" not in link:
        raise _refusal(path, 1, text.split("\n", 1)[0], "a link without an end", "type and node_to")
    return link["node_to"]


def properties(path: str, text: str) -> Properties:
    """The numbers of a file of KFD, a name and a number a line. Raises ParseError."""
    found: dict[str, int] = {}
    for line_no, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not stripped:
            continue
        match = _PROPERTY.fullmatch(stripped)
        if match is None:
            raise _refusal(path, line_no, line, "no property of KFD", "a name and a number")
        found[match["key"]] = int(match["value"])
    return found


def _refusal(path: str, line_no: int, line: str, message: str, expected: str) -> ParseError:
    return refusal(message, tool=path[-120:], line_no=line_no, line=line, expected=expected)


def is_kfd_file(path: str) -> bool:
    """Whether a file of an archive may be one of these; where it lies there is not known yet."""
    return path.rpartition("/")[2] in _NAMES
