"""YAML as a tree in which each value knows its line; without aliases, tags and surprises.

Built from the parser's events, so that no text is deep or long enough to hurt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NoReturn

from hpckit.errors import ParseError
from hpckit.parse.excerpt import refusal

if TYPE_CHECKING:
    import yaml

_DEEPEST: Final = 24
_NOTHING: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE: Final = frozenset({"true", "yes", "on"})
_FALSE: Final = frozenset({"false", "no", "off"})
_EXPECTED: Final = "YAML as topology.yaml(5) shows it"


@dataclass(frozen=True, slots=True)
class YamlText:
    """The text of a file and its name, for errors."""

    text: str
    name: str

    def refuse(self, line_no: int, message: str, expected: str = _EXPECTED) -> ParseError:
        """The error that shows a line."""
        lines = self.text.split("\n")
        line = lines[line_no - 1].rstrip("\r") if line_no <= len(lines) else ""
        return refusal(message, tool=self.name, line_no=line_no, line=line, expected=expected)


@dataclass(slots=True)
class YamlNode:
    """Text, None, a table or a list; `path` is where it stands, such as `[0].tree.switches`."""

    source: YamlText
    line_no: int
    path: str
    value: str | dict[str, YamlNode] | list[YamlNode] | None = None
    key: str | None = field(default=None)
    """Of a table that is being read: the key whose value comes next."""

    def refuse(self, message: str, expected: str) -> ParseError:
        """The error at this value."""
        where = f"{self.path}: " if self.path else ""
        return self.source.refuse(self.line_no, f"{where}{message}", expected)

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
    import yaml  # noqa: PLC0415  only these files need it

    source = YamlText(text, name)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _built(yaml.parse(text, Loader=loader), source)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise source.refuse(mark.line + 1 if mark else 1, error.problem or "no YAML") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise source.refuse(1, f"no YAML: {str(error)[:100]}") from None


def _built(events: Iterator[yaml.Event], source: YamlText) -> YamlNode:
    import yaml  # noqa: PLC0415

    root: YamlNode | None = None
    open_: list[YamlNode] = []
    for event in events:
        _refuse_event(event, source, is_second=root is not None)
        if isinstance(event, yaml.CollectionEndEvent):
            open_.pop()
        elif isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)):
            node = _node(event, open_[-1] if open_ else None, source)
            root = root or node
            if isinstance(event, yaml.CollectionStartEvent):
                open_.append(node)
            if len(open_) > _DEEPEST:
                raise node.refuse("nested too deeply", _EXPECTED)
    if root is None:
        raise source.refuse(1, "nothing in it")
    return root


def _refuse_event(event: yaml.Event, source: YamlText, *, is_second: bool) -> None:
    import yaml  # noqa: PLC0415

    line_no = _line_no(event)
    if isinstance(event, yaml.DocumentStartEvent) and is_second:
        raise source.refuse(line_no, "a second document", "one document")
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
        raise source.refuse(line_no, "an anchor or alias", "each value written out")


def _line_no(event: yaml.Event) -> int:
    return 1 if event.start_mark is None else event.start_mark.line + 1


def _node(
    event: yaml.ScalarEvent | yaml.CollectionStartEvent, parent: YamlNode | None, source: YamlText
) -> YamlNode:
    """The value that begins, put into the one around it; a key is kept there for its value."""
    import yaml  # noqa: PLC0415

    node = YamlNode(source, _line_no(event), parent.path if parent else "")
    if isinstance(event, yaml.ScalarEvent):
        is_null = event.implicit[0] and event.value in _NOTHING
        node.value = None if is_null else event.value
    else:
        node.value = {} if isinstance(event, yaml.MappingStartEvent) else []
    if parent is None:
        return node
    if isinstance(parent.value, list):
        node.path = f"{parent.path}[{len(parent.value)}]"
        parent.value.append(node)
    elif isinstance(parent.value, dict):
        _put(node, parent, parent.value)
    return node


def _put(node: YamlNode, parent: YamlNode, table: dict[str, YamlNode]) -> None:
    if parent.key is not None:
        node.path = f"{parent.path}.{parent.key}".removeprefix(".")
        table[parent.key], parent.key = node, None
        return
    if not isinstance(node.value, str):
        raise node.refuse("a key that is no text", "keys that are words")
    if node.value in table:
        before = table[node.value].line_no
        raise node.refuse(f"{node.value} is on line {before} already", "each key once")
    parent.key = node.value
