"""The matrices of hwloc's XML, which lie beside the objects (2.x, 3.x) or within one (1.x).

Sources: hwloc, topology-xml.c (hwloc__xml_import_distances); the documentation of 1.11,
hwloc_distances_s: a latency is relative to `latency_base`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hpckit.core.foreign_text import Element
from hpckit.node.capture.hwloc_objects import (
    HwlocObject,
    HwlocTree,
    Kind,
    decimal,
    node_index,
    whole,
)

_NUMBER: Final = re.compile(r"\d{1,20}", re.ASCII)
_KEY: Final = re.compile(r"(?:[A-Za-z0-9]{1,20}:)?(\d{1,20})", re.ASCII)
_MEANS_LATENCY: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Values between objects, by row and column in the order of `keys`.

    A key is an object's `gp_index`, or its `os_index` where `is_by_os_index`.
    """

    keys: tuple[int, ...]
    is_by_os_index: bool
    rows: tuple[tuple[int, ...], ...]


def matrix(tree: HwlocTree, name: str) -> Matrix | None:
    """The first matrix of this name, such as NVLinkBandwidth. Raises ParseError."""
    for element in tree.document.root.of("distances2", "distances2hetero"):
        if element.get("name") == name:
            return _read(tree, element)
    return None


def numa_distances(tree: HwlocTree) -> dict[int, dict[int, int]]:
    """The firmware's distances from node to node, empty where the file has none.

    Raises ParseError.
    """
    if tree.major == 1:
        return _first_schema(tree)
    for element in tree.document.root.of("distances2"):
        kind = whole(tree.document, element, "kind") or 0
        # 2.0 wrote no names; the only latencies that it knew were those between nodes.
        is_latency = element.get("name") is None and kind & _MEANS_LATENCY
        is_of_nodes = (element.get("type") or "").lower() == "numanode"
        if is_of_nodes and (is_latency or element.get("name") == "NUMALatency"):
            return _by_node(tree, _read(tree, element))
    return {}


def objects_of(tree: HwlocTree, found: Matrix) -> tuple[HwlocObject | None, ...]:
    """The objects of a matrix in its order; None for one that the file lacks."""
    wanted = set(found.keys)
    known: dict[int, HwlocObject] = {}
    for one in tree.objects:
        key = _key(tree, one, found)
        if key in wanted:
            known.setdefault(key, one)
    return tuple(known.get(key) for key in found.keys)


def _key(tree: HwlocTree, one: HwlocObject, found: Matrix) -> int:
    text = one.element.get("os_index" if found.is_by_os_index else "gp_index")
    if text is None and not found.is_by_os_index:
        text = (one.element.get("id") or "").removeprefix("obj") or None  # 3.x writes both
    if text is None or _NUMBER.fullmatch(text) is None:
        return -1
    return int(text)


def _read(tree: HwlocTree, element: Element) -> Matrix:
    count = whole(tree.document, element, "nbobjs") or 0
    keys = _numbers(tree, element, "indexes", _KEY)
    values = _numbers(tree, element, "u64values", _NUMBER)
    if not count or len(keys) != count or len(values) != count * count:
        message = f"{len(keys)} indexes and {len(values)} values of {count} objects"
        raise tree.document.refuse(element, message, "an index an object and a value a pair")
    return Matrix(
        keys=keys,
        is_by_os_index=element.get("indexing") == "os",
        rows=tuple(values[at : at + count] for at in range(0, len(values), count)),
    )


def _numbers(
    tree: HwlocTree, element: Element, tag: str, pattern: re.Pattern[str]
) -> tuple[int, ...]:
    found: list[int] = []
    for child in element.of(tag):
        for word in child.text.split():
            match = pattern.fullmatch(word)
            if match is None:
                raise tree.document.refuse(child, f"got {word[:40]!r}", "whole numbers")
            found.append(int(match[match.re.groups]))
    return tuple(found)


def _by_node(tree: HwlocTree, found: Matrix) -> dict[int, dict[int, int]]:
    objects = objects_of(tree, found) if not found.is_by_os_index else ()
    nodes = [node_index(tree.document, one.element) for one in objects if one] or list(found.keys)
    if len(nodes) != len(found.keys):
        return {}
    return _square(nodes, [value for row in found.rows for value in row])


def _square(nodes: Sequence[int], values: Sequence[int]) -> dict[int, dict[int, int]]:
    count = len(nodes)
    rows = (values[at : at + count] for at in range(0, len(values), count))
    return {node: dict(zip(nodes, row, strict=True)) for node, row in zip(nodes, rows, strict=True)}


def _first_schema(tree: HwlocTree) -> dict[int, dict[int, int]]:
    nodes = [node_index(tree.document, one.element) for one in tree.of(Kind.NUMA)]
    for element in tree.machine.element.of("distances"):
        if whole(tree.document, element, "nbobjs") == len(nodes):
            return _square(nodes, _latencies(tree, element, len(nodes)))
    return {}


def _latencies(tree: HwlocTree, element: Element, count: int) -> list[int]:
    base = decimal(tree.document, element, "latency_base")
    values = [decimal(tree.document, child, "value") for child in element.of("latency")]
    if base is None or None in values or len(values) != count * count:
        message = f"{len(values)} latencies between {count} nodes"
        raise tree.document.refuse(element, message, "a base, and a value a pair")
    return [round(value * base) for value in values if value is not None]
