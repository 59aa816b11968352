"""What others wrote as JSON, XML or YAML, as trees of which each value knows its place."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, NoReturn
from xml.parsers import expat

from hpckit.core.document import Tree
from hpckit.core.errors import ParseError
from hpckit.core.excerpt import refusal
from hpckit.core.late import regex
from hpckit.core.values import dataclass

if TYPE_CHECKING:
    import yaml


_AT_MARGIN: Final = regex(r"^[\[{]", re.MULTILINE)
_ANYWHERE: Final = regex(r"[\[{]")


def json_with(text: str, key: str, tool: str) -> Any:
    """The document that holds `key`, a piece of it as written: the last to begin before it.

    Tools begin one at the margin; what follows it is not looked at. Raises ParseError with the
    place for what is not JSON.
    """
    end = text.find(key)
    starts = [match.start() for match in _AT_MARGIN.finditer(text, 0, max(end, 0))]
    first = _ANYWHERE.search(text)
    start = starts[-1] if starts else first.start() if first else 0
    return _decoded(json.JSONDecoder(), text, start, tool, _TOOLS_JSON)[0]


def _decoded(
    decoder: json.JSONDecoder, text: str, start: int, name: str, expected: str
) -> tuple[Any, int]:
    """Return a value and where it ends."""
    try:
        return decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise _refuse(text, name, error.pos, error.msg, expected) from None
    except (RecursionError, ValueError) as error:
        is_deep = isinstance(error, RecursionError)
        message = "nested too deeply" if is_deep else f"not readable: {error}"
        raise _refuse(text, name, start, message, expected) from None


def refuse_document(text: str, key: str, message: str, expected: str, tool: str) -> ParseError:
    """The error that points at the first `key` of a document that is JSON, and not this tool's."""
    return _refuse(text, tool, max(text.find(key), 0), message, expected)


_SPACE: Final = regex(r"[\s,]*")
_HALF: Final = regex(
    r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>u[dD][89a-fA-F]..)|.)|(?P<raw>[\ud800-\udfff])",
    re.DOTALL,
)
"""Half of a character of two halves: an escape of JSON can write one, and no output can."""
_EXPECTED: Final = "a JSON object, a list of objects, or one object per line"
_TOOLS_JSON: Final = "the tool's JSON"


@dataclass(frozen=True, slots=True)
class JsonObject:
    """An object, the text that it is from and where in that it, or the list around it, begins."""

    tree: Tree
    name: str
    text: str
    begin: int

    def refuse(self, path: str, message: str, expected: str) -> ParseError:
        """The error at the first place where the last key of `path` is written."""
        key = path.rpartition(".")[2].partition("[")[0]
        at = self.text.find(f'"{key}"', self.begin) if key else -1
        where = f"{path}: " if path else ""
        return _refuse(
            self.text, self.name, self.begin if at < 0 else at, f"{where}{message}", expected
        )


def json_objects(text: str, name: str) -> list[JsonObject]:
    """The objects, in their order; `name` is the file's, for errors.

    Raises ParseError for what is no JSON, and for an object that has a key twice.
    """
    decoder = json.JSONDecoder(
        parse_float=_finite, parse_constant=_finite, object_pairs_hook=_object
    )
    half = next((found for found in _HALF.finditer(text) if found.lastgroup), None)
    if half is not None:
        message = f"{half[0].encode('unicode_escape').decode()} is half a surrogate pair"
        raise _refuse(text, name, half.start(), message, "Unicode text")
    objects: list[JsonObject] = []
    at = _after_space(text, 0)
    while at < len(text):
        value, end = _decoded(decoder, text, at, name, _EXPECTED)
        for tree in value if isinstance(value, list) else [value]:
            if not isinstance(tree, dict):
                raise _refuse(text, name, at, f"got {type(tree).__name__}")
            objects.append(JsonObject(tree, name, text, at))
        at = _after_space(text, end)
    return objects


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"the key {twice[:60]!r} is twice in one object")
    return tree


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is not a number")
    return number


def _refuse(text: str, name: str, at: int, message: str, expected: str = _EXPECTED) -> ParseError:
    begin = text.rfind("\n", 0, at) + 1
    return refusal(
        message,
        tool=name,
        line_no=text.count("\n", 0, at) + 1,
        line=text[begin : begin + 100_000].split("\n", 1)[0],
        column=at - begin + 1,
        expected=expected,
    )


def kind_of(value: Any) -> str:
    """What a value of a JSON document is, in words."""
    names: dict[type, str] = {
        bool: "true or false", dict: "an object", list: "a list", str: "text", type(None): "null",
    }  # fmt: skip
    return names.get(type(value), "a number")


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
        return _xml_refusal(
            self._data, self.tool, (element.line_no, element.column), message, expected
        )


class _Refused(Exception):
    """What a document may not hold, and what was expected in its place."""

    def __init__(self, message: str, expected: str = "the topology of one node") -> None:
        super().__init__(message)
        self.message, self.expected = message, expected


class _Builder:
    """Builds elements; takes a DOCTYPE (hwloc writes one) without declarations of its own.

    Where there are no declarations there are no bombs of entities or of default attributes; what
    a DOCTYPE points to is never read.
    """

    def __init__(self) -> None:
        self.root = Element("", {}, 1, 1)
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self._open: list[Element] = []

    def _doctype(
        self, _name: str, _system: str | None, _public: str | None, has_declarations: bool
    ) -> None:
        if has_declarations:
            message = "declarations are not allowed"
            raise _Refused(message, "XML without declarations")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= DEEPEST:
            raise _Refused(f"nested more than {DEEPEST} levels")
        parser = self.parser
        element = Element(
            name, attributes, parser.CurrentLineNumber, parser.CurrentColumnNumber + 1
        )
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def _end(self, _name: str) -> None:
        self._open.pop()

    def _text(self, text: str) -> None:
        if text.strip():
            self._open[-1].text += text


def parse_xml(data: bytes, tool: str) -> XmlDocument:
    """The elements of a document; `tool` names it in errors.

    Raises ParseError for what is not well-formed, for a DOCTYPE with declarations, and for what is
    absurdly large.
    """
    if len(data) > MOST_BYTES:
        expected = f"the topology of one node, up to {MOST_BYTES} bytes"
        raise _xml_refusal(data, tool, (1, 1), f"it has {len(data)} bytes", expected)
    builder = _Builder()
    try:
        builder.parser.Parse(data, True)
    except expat.ExpatError as error:
        message = f"not well-formed: {expat.ErrorString(error.code)}"
        where = (error.lineno, error.offset + 1)
        raise _xml_refusal(data, tool, where, message, "well-formed XML") from error
    except _Refused as error:
        raise _xml_refusal(data, tool, (1, 1), error.message, error.expected) from error
    except (ValueError, LookupError) as error:
        message = f"not readable: {error}"
        raise _xml_refusal(data, tool, (1, 1), message, "XML in an encoding of XML") from error
    return XmlDocument(builder.root, data, tool)


def _xml_refusal(
    data: bytes, tool: str, where: tuple[int, int], message: str, expected: str
) -> ParseError:
    line_no, column = where
    lines = data.split(b"\n", line_no)
    line = lines[line_no - 1].decode("utf-8", "replace") if line_no <= len(lines) else ""
    return refusal(message, tool=tool, line_no=line_no, line=line, column=column, expected=expected)


_DEEPEST: Final = 24
_NOTHING: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE: Final = frozenset({"true", "yes", "on"})
_FALSE: Final = frozenset({"false", "no", "off"})
_YAML_EXPECTED: Final = "YAML as in topology.yaml(5)"


@dataclass(slots=True)
class YamlNode:
    """Text, None, a table or a list of the file `name`.

    `path` is where it stands, such as `[0].tree.switches`.
    """

    text_of_file: str
    name: str
    line_no: int
    path: str = ""
    value: str | dict[str, YamlNode] | list[YamlNode] | None = None

    def refuse(self, message: str, expected: str = _YAML_EXPECTED) -> ParseError:
        """The error at this value."""
        where = f"{self.path}: " if self.path else ""
        lines = self.text_of_file.split("\n")
        line = lines[self.line_no - 1].rstrip("\r") if self.line_no <= len(lines) else ""
        return refusal(
            f"{where}{message}",
            tool=self.name,
            line_no=self.line_no,
            line=line,
            expected=expected,
        )

    def table(self, keys: Sequence[str]) -> Mapping[str, YamlNode]:
        """The values by key; none for null. Raises ParseError for a key that is none of `keys`."""
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            self._refuse_kind(f"a table of {', '.join(keys)}")
        for key, value in self.value.items():
            if key not in keys:
                raise value.refuse("unknown key", f"one of {', '.join(keys)}")
        return self.value

    def items(self) -> Sequence[YamlNode]:
        """The values of a list; none for null. Raises ParseError."""
        if self.value is None:
            return ()
        if not isinstance(self.value, list):
            self._refuse_kind("a list")
        return self.value

    def text(self) -> str | None:
        """The text, None for null. Raises ParseError."""
        if isinstance(self.value, (dict, list)):
            self._refuse_kind("text")
        return self.value

    def flag(self) -> bool:
        """True or false; null is false. Raises ParseError."""
        word = "false" if self.value is None else self.value
        if not isinstance(word, str) or word.casefold() not in _TRUE | _FALSE:
            self._refuse_kind("true or false")
        return word.casefold() in _TRUE

    def is_empty(self) -> bool:
        """Whether there is nothing in it, as in the parts that `scontrol show topoconf` leaves."""
        return not self.value

    def _refuse_kind(self, expected: str) -> NoReturn:
        kinds: Mapping[type, str] = {dict: "a table", list: "a list"}
        got = "null" if self.value is None else kinds.get(type(self.value), repr(self.value)[:60])
        raise self.refuse(f"got {got}", expected)


def yaml_tree(text: str, name: str) -> YamlNode:
    """The one document of a text; `name` is the file's, for errors. Raises ParseError."""
    import yaml

    top = YamlNode(text, name, 1)
    try:
        root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        top.line_no = mark.line + 1 if mark else 1
        raise top.refuse(error.problem or "not YAML") from None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise top.refuse(f"not YAML: {str(error)[:100]}") from None
    if root is None:
        raise top.refuse("the file is empty")
    _fill(top, root, set())
    return top


def _fill(node: YamlNode, read: yaml.Node, seen: set[int]) -> None:
    """Give a node the value that was read; one that was seen before stands there by an alias."""
    import yaml

    node.line_no = read.start_mark.line + 1
    if id(read) in seen:
        raise node.refuse("an anchor or alias", "each value written in full")
    seen.add(id(read))
    if node.path.count(".") + node.path.count("[") > _DEEPEST:
        raise node.refuse("nested too deeply")
    if isinstance(read, yaml.ScalarNode):
        node.value = None if _is_null(read) else read.value
    elif isinstance(read, yaml.SequenceNode):
        items: list[YamlNode] = []
        node.value = items
        for at, item in enumerate(read.value):
            items.append(YamlNode(node.text_of_file, node.name, 1, f"{node.path}[{at}]"))
            _fill(items[-1], item, seen)
    else:
        table: dict[str, YamlNode] = {}
        node.value = table
        for key, value in read.value:
            _put(node, table, key)
            _fill(table[key.value], value, seen)


def _is_null(read: yaml.ScalarNode) -> bool:
    """Whether a scalar is nothing: in quotes, or with a tag, it is a text."""
    return not read.style and read.value in _NOTHING and read.tag.endswith(":null")


def _put(node: YamlNode, table: dict[str, YamlNode], key: yaml.Node) -> None:
    import yaml

    at = YamlNode(node.text_of_file, node.name, key.start_mark.line + 1, node.path)
    if not isinstance(key, yaml.ScalarNode) or _is_null(key):
        raise at.refuse("a key that is not text", "text keys")
    if key.value in table:
        before = table[key.value].line_no
        raise at.refuse(f"{key.value} is already on line {before}", "each key only once")
    path = f"{node.path}.{key.value}".removeprefix(".")
    table[key.value] = YamlNode(node.text_of_file, node.name, 1, path)
