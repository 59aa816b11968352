"""XML as NCCL reads it, which is a part of XML.

Source: NCCL src/graph/xml.cc (xmlGetNode, xmlGetValue, xmlLoadSub) and xml.h: no declaration, no
entities, one space before an attribute, at most 16 attributes, values below 254 characters, and
elements up to NCCL_TOPO_XML_MAX_NODES, which is 256 and the last one is not to be had.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from hpckit.errors import RenderError

MOST_ELEMENTS: Final = 255
MOST_CHARACTERS: Final = 253

_PLAIN: Final = re.compile(r"[ -~]*", re.ASCII)
_SPECIAL: Final = frozenset("<>&\"'")


@dataclass(frozen=True, slots=True)
class XmlElement:
    """An element; an attribute that is None is left out."""

    tag: str
    attributes: dict[str, str | int | None]
    children: list[XmlElement] = field(default_factory=list)

    def walk(self) -> Iterator[XmlElement]:
        """This element and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def xml_text(root: XmlElement) -> str:
    """The lines of a document, each level two spaces in. Raises RenderError."""
    return "".join(f"{line}\n" for line in _lines(root, ""))


def _lines(element: XmlElement, indent: str) -> Iterator[str]:
    values = "".join(
        f' {name}="{_value(element.tag, name, value)}"'
        for name, value in element.attributes.items()
        if value is not None
    )
    if not element.children:
        yield f"{indent}<{element.tag}{values}/>"
        return
    yield f"{indent}<{element.tag}{values}>"
    for child in element.children:
        yield from _lines(child, indent + "  ")
    yield f"{indent}</{element.tag}>"


def _value(tag: str, name: str, value: str | int) -> str:
    text = str(value)
    if _PLAIN.fullmatch(text) is None or not _SPECIAL.isdisjoint(text):
        raise RenderError(
            f"{text[:60]!r} holds a character that NCCL's reader of XML does not take",
            variable=f"{name} of <{tag}>",
        )
    if len(text) > MOST_CHARACTERS:
        raise RenderError(
            f"{text[:30]!r}… is longer than the {MOST_CHARACTERS} characters that NCCL reads",
            variable=f"{name} of <{tag}>",
        )
    return text
