"""The values of hwloc's XML: numbers, masks of CPUs and nodes, sizes, and infos by name.

Source: hwloc, hwloc2.dtd and topology-xml.c, which writes them.
"""

from __future__ import annotations

import re
from typing import Final

from hpckit.model.index_list import MOST_INDICES, indices_of_mask
from hpckit.parse.xml_elements import Element, XmlDocument

_WHOLE: Final = re.compile(r"\d{1,20}", re.ASCII)
_DECIMAL: Final = re.compile(r"\d{1,20}(?:\.\d{0,20})?", re.ASCII)
_KIBIBYTES: Final = re.compile(r"(\d{1,20})(?:KiB)?", re.ASCII)
_NO_INDEX: Final = frozenset({"-1", "4294967295"})
_MOST_BYTES: Final = 1 << 63
_MOST_GB_PER_S: Final = 1_000_000


def whole(document: XmlDocument, element: Element, name: str) -> int | None:
    """An attribute that is a whole number; None if it is not there. Raises ParseError."""
    text = element.get(name)
    if text is None:
        return None
    if _WHOLE.fullmatch(text) is None or int(text) >= _MOST_BYTES:
        raise document.refuse(element, f"{name} is {text[:40]!r}", "a whole number")
    return int(text)


def os_index(document: XmlDocument, element: Element) -> int | None:
    """The operating system's number of an object, None where it has none. Raises ParseError."""
    return None if element.get("os_index") in _NO_INDEX else whole(document, element, "os_index")


def decimal(document: XmlDocument, element: Element, name: str) -> float | None:
    """An attribute that is a number such as `15.753846`; None if absent. Raises ParseError."""
    text = element.get(name)
    if text is None:
        return None
    if _DECIMAL.fullmatch(text) is None or float(text) > _MOST_GB_PER_S:
        raise document.refuse(element, f"{name} is {text[:40]!r}", "a number such as 15.753846")
    return float(text)


def members(document: XmlDocument, element: Element, name: str) -> frozenset[int] | None:
    """The CPUs or nodes of a mask such as `0x0000ffff,,0x0`; None if absent. Raises ParseError."""
    text = element.get(name)
    if text is None:
        return None
    try:
        found = indices_of_mask(text)
    except ValueError as error:
        raise document.refuse(element, f"{name}: {error}", "a mask such as 0x000000ff") from error
    return frozenset(found)


def node_index(document: XmlDocument, element: Element) -> int:
    """The number of a NUMA node, which every one has. Raises ParseError."""
    number = os_index(document, element)
    if number is None or number >= MOST_INDICES:
        said = "none" if number is None else str(number)
        raise document.refuse(element, f"the os_index of a NUMA node is {said}", "its number")
    return number


def info(element: Element, *names: str) -> str | None:
    """The value of the first info with one of these names that says something.

    Of two infos with one name the first counts, as in hwloc_obj_get_info_by_name.
    """
    found: dict[str, str] = {}
    for child in element.children:
        if child.tag == "info":
            found.setdefault(child.get("name") or "", (child.get("value") or "").strip())
    return next((found[name] for name in names if found.get(name)), None)


def size_bytes(document: XmlDocument, element: Element, *names: str) -> int | None:
    """The first of these sizes that is there and not 0, such as CUDAGlobalMemorySize.

    It is in KiB; from hwloc 3 on the value says so. Raises ParseError.
    """
    for name in names:
        text = info(element, name)
        match = _KIBIBYTES.fullmatch(text or "0")
        if match is None or int(match[1]) >= _MOST_BYTES:
            raise document.refuse(element, f"{name} is {(text or '')[:40]!r}", "a size in KiB")
        if int(match[1]):
            return int(match[1]) * 1024
    return None
