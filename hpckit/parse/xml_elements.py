"""XML as elements that know their line: the part of XML that topology files use.

defusedxml's expat reader does the parsing. A DOCTYPE is taken (hwloc writes one), and what it
points to is not read; one with declarations of its own is refused, and with them the bombs that are
made of entities or of default attributes.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from xml.sax import SAXException, SAXParseException
from xml.sax.handler import ContentHandler, feature_external_ges

from defusedxml.common import DefusedXmlException, DTDForbidden
from defusedxml.expatreader import DefusedExpatParser

from hpckit.errors import ParseError
from hpckit.parse.excerpt import refusal

MOST_BYTES: Final = 4 * 1024**2
"""The largest that lstopo has been seen to write, of 384 CPUs, has 300 KB."""

DEEPEST: Final = 256


@dataclass(slots=True)
class Element:
    """An element with its attributes and children; `line_no` and `column` count from 1."""

    tag: str
    attributes: Mapping[str, str]
    line_no: int
    column: int
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def get(self, name: str) -> str | None:
        """An attribute, None if it is not there."""
        return self.attributes.get(name)

    def of(self, *tags: str) -> Iterator[Element]:
        """The children with one of these tags."""
        return (child for child in self.children if child.tag in tags)

    def walk(self) -> Iterator[Element]:
        """This element and all below it, parents first."""
        stack = [self]
        while stack:
            one = stack.pop()
            yield one
            stack.extend(reversed(one.children))


class XmlDocument:
    """A parsed document and its lines, for errors that show one."""

    def __init__(self, root: Element, data: bytes, tool: str) -> None:
        self.root = root
        self.tool = tool
        self._data = data

    def refuse(self, element: Element, message: str, expected: str) -> ParseError:
        """The error that points at an element."""
        return _refusal(self._data, self.tool, (element.line_no, element.column), message, expected)


class _Reader(DefusedExpatParser):
    def defused_start_doctype_decl(
        self, name: str, sysid: str | None, pubid: str | None, has_internal_subset: bool
    ) -> None:
        """Take a DOCTYPE without declarations: expat's own work on them grows with their square."""
        if has_internal_subset:
            super().defused_start_doctype_decl(name, sysid, pubid, has_internal_subset)


class _Builder(ContentHandler):
    def __init__(self) -> None:
        super().__init__()
        self.root: Element | None = None
        self._open: list[Element] = []
        self._texts: list[list[str]] = []
        self._locator: Any = None

    def setDocumentLocator(self, locator: Any) -> None:  # noqa: N802  SAX's name
        self._locator = locator

    def startElement(self, name: str, attrs: Any) -> None:  # noqa: N802  SAX's name
        if len(self._open) >= DEEPEST:
            raise SAXException(f"over {DEEPEST} levels deep")
        element = Element(
            name,
            dict(attrs.items()),
            self._locator.getLineNumber() or 1,
            (self._locator.getColumnNumber() or 0) + 1,
        )
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)
        self._texts.append([])

    def endElement(self, name: str) -> None:  # noqa: N802  SAX's name
        self._open.pop().text = "".join(self._texts.pop())

    def characters(self, content: str) -> None:
        if self._open and content.strip():
            self._texts[-1].append(content)


def parse_xml(data: bytes, tool: str) -> XmlDocument:
    """The elements of a document; `tool` names it in errors.

    Raises ParseError for what is not well-formed, for a DOCTYPE with declarations, and for what is
    absurdly large.
    """
    if len(data) > MOST_BYTES:
        message, expected = (
            f"it has {len(data)} bytes",
            f"the topology of one node, up to {MOST_BYTES}",
        )
        raise _refusal(data, tool, (1, 1), message, expected)
    builder = _Builder()
    # forbid_external would refuse hwloc's DOCTYPE itself; with the feature off nothing is fetched.
    # In pieces a long attribute would be read again from its start with every piece.
    parser = _Reader(forbid_dtd=True, forbid_external=False, bufsize=len(data) + 1)
    parser.setFeature(feature_external_ges, False)
    parser.setContentHandler(builder)
    try:
        parser.parse(io.BytesIO(data))
    except SAXParseException as error:
        where = (error.getLineNumber() or 1, (error.getColumnNumber() or 0) + 1)
        message = f"not well-formed: {error.getMessage()}"
        raise _refusal(data, tool, where, message, "well-formed XML") from error
    except DefusedXmlException as error:
        what = "declarations" if isinstance(error, DTDForbidden) else "entities"
        message = f"{what} are not taken from a file"
        raise _refusal(data, tool, (1, 1), message, f"XML without {what}") from error
    except SAXException as error:
        raise _refusal(data, tool, (1, 1), str(error), "the topology of one node") from error
    except (ValueError, LookupError) as error:
        message = f"not readable: {error}"
        raise _refusal(data, tool, (1, 1), message, "XML in an encoding of XML") from error
    if builder.root is None:
        raise _refusal(data, tool, (1, 1), "there is no element", "an XML document")
    return XmlDocument(builder.root, data, tool)


def _refusal(
    data: bytes, tool: str, where: tuple[int, int], message: str, expected: str
) -> ParseError:
    line_no, column = where
    lines = data.split(b"\n", line_no)
    line = lines[line_no - 1].decode("utf-8", "replace") if line_no <= len(lines) else ""
    return refusal(message, tool=tool, line_no=line_no, line=line, column=column, expected=expected)
