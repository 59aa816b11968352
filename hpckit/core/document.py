"""A tree of tables, strictly turned into a dataclass: no unknown key, no silent conversion.

The tree is first walked against the fields, where the nearest valid key is named; then each value
is taken by the reader of its type.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hpckit.core.errors import ConfigError, InvalidValue
from hpckit.core.fields import file_key
from hpckit.core.late import Late, regex

if TYPE_CHECKING:
    import tomllib
else:
    tomllib = Late("tomllib")

T = TypeVar("T")
Tree = dict[str, Any]

UNKNOWN_KEY = "unknown key"
"""The `reason` of the ConfigError for one."""
_TWICE = regex(r"Cannot declare \((.*)\) twice")
_LINE_NO = regex(r"at line (\d+)")
_UNQUOTED = regex(r"\s*([\w.-]+)\s*[=:]\s*([^\[{#]*?)\s*(?:#.*)?")
BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on", "1"), "true"),
    **dict.fromkeys(("false", "no", "off", "0", "never"), "false"),
}
"""What people write for true and false."""
_INT64 = (-(2**63), 2**63 - 1)


def parse_toml(text: str, source: str) -> Tree:
    """TOML text as a tree; `source` names it in errors. Raises ConfigError with the place."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))  # editors of Windows write one
    except RecursionError:
        raise ConfigError("is nested too deeply", source=source) from None
    except ValueError as error:
        hint = _hint_of_text(str(error), text, source)
        raise ConfigError(f"is not valid TOML: {error}", source=source, hint=hint) from error


def _hint_of_text(reason: str, text: str, source: str) -> str | None:
    """Return what to write in place of a line that is not TOML."""
    if source.lower().endswith((".yaml", ".yml", ".json")):
        return "a job file is TOML: hpckit init writes one"
    if twice := _TWICE.search(reason):
        name = ".".join(re.findall(r"'([^']*)'", twice[1]))
        return f"put all keys of [{name}] in one table"
    found = _LINE_NO.search(reason)
    line = text.splitlines()[int(found[1]) - 1 :][:1] if found else []
    if line and "overwrite" in reason:
        return f"the key stands there twice, remove one: {line[0].strip()}"
    pair = _UNQUOTED.fullmatch(line[0]) if line else None
    return None if pair is None else _quoted(pair[1], pair[2].strip("\"'"))


def _quoted(key: str, value: str) -> str:
    """Return the line of a key whose value is text without quotes."""
    if value.lower() in BOOLEANS:
        return f"{key} = {BOOLEANS[value.lower()]}"
    if value.isdecimal():
        return f"{key} = {value}"
    if value.lower() in ("none", "null", "nil", ""):
        return f"remove {key}: it is unset without the line"
    if key == "command":
        return f"command = {json.dumps(value.split())}"
    return f"quote it: {key} = {json.dumps(value, ensure_ascii=False)}"


@functools.cache
def dataclass_of(annotation: Any) -> type | None:
    """The dataclass behind a field's annotation, None when it holds a plain value."""
    is_one = isinstance(annotation, type) and dataclasses.is_dataclass(annotation)
    return annotation if is_one else None


@functools.cache
def table_of(annotation: Any) -> type | None:
    """The dataclass of each value of a table by name, None for any other field."""
    if typing.get_origin(annotation) is not Mapping:
        return None
    return dataclass_of(typing.get_args(annotation)[1])


@functools.cache
def rows_of(annotation: Any) -> type | None:
    """The dataclass of each item of a tuple, also of one that may be None; else None."""
    parts = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else [annotation]
    if typing.get_origin(parts[0]) is not tuple:
        return None
    return dataclass_of(typing.get_args(parts[0])[0])


@functools.cache
def field_types(cls: type) -> tuple[tuple[dataclasses.Field[Any], Any], ...]:
    """The fields of a dataclass with their evaluated types."""
    hints = typing.get_type_hints(cls)
    return tuple((field, hints[field.name]) for field in dataclasses.fields(cls))


@functools.cache
def _known_keys(cls: type) -> Mapping[str, Any]:
    return {file_key(field): hint for field, hint in field_types(cls)}


def refuse_unknown_keys(tree: object, cls: type, source: str, path: str = "") -> None:
    """Walk `tree` beside the fields of `cls`. Raises ConfigError for the first unknown key."""
    if not isinstance(tree, Mapping):
        raise ConfigError(
            f"got {_kind(tree)}, expected a table", source=source, key=path.rstrip(".") or None
        )
    known = _known_keys(cls)
    for name, value in tree.items():
        if name not in known:
            raise _misplaced_key(path, name, known, source) or _unknown_key(
                f"{path}{name}", name, known, source
            )
        held = _held(known[name])
        if held is None:
            _refuse_unknown_words(value, known[name], source, f"{path}{name}")
            continue
        for below, table in _tables_in(value, held[0]):
            refuse_unknown_keys(table, held[1], source, f"{path}{name}{below}.")


@functools.cache
def _held(hint: Any) -> tuple[str, type] | None:
    """Return how a field holds tables, and the dataclass of each; None for a plain value."""
    optional = typing.get_args(hint)[0] if isinstance(hint, types.UnionType) else None
    ways = {
        "one": dataclass_of(hint),
        "rows": rows_of(hint),
        "by name": table_of(hint),
        "maybe": dataclass_of(optional),
    }
    return next(((way, cls) for way, cls in ways.items() if cls is not None), None)


def _tables_in(value: object, way: str) -> Iterable[tuple[str, object]]:
    """Return where each table below a key stands, and the table."""
    if way == "rows" and isinstance(value, list):
        return ((f"[{position}]", row) for position, row in enumerate(value))
    if way == "by name" and isinstance(value, Mapping):
        return ((f".{name}", table) for name, table in value.items())
    return [("", value)] if way == "one" or (way == "maybe" and value is not None) else ()


def _misplaced_key(
    path: str, name: str, known: Mapping[str, Any], source: str
) -> ConfigError | None:
    """A key that belongs into a table beside or below."""
    for table, hint in known.items():
        inner = dataclass_of(hint)
        if inner is not None and name in {file_key(field) for field, _ in field_types(inner)}:
            return ConfigError(
                UNKNOWN_KEY,
                source=source,
                key=f"{path}{name}",
                hint=f"did you mean `{path}{table}.{name}`?",
            )
    return None


def _refuse_unknown_words(value: object, hint: Any, source: str, path: str) -> None:
    """Refuse other words than those of an enum, as a value or as the keys of a table."""
    for part in value.values() if isinstance(value, Mapping) else (value,):
        if isinstance(part, int) and not _INT64[0] <= part <= _INT64[1]:
            # TOML's whole numbers have 64 bits; longer ones cannot even be shown in an error.
            raise ConfigError("got a whole number of more than 64 bits", source=source, key=path)
    closed, keys = _enum_of(hint), _enum_of_keys(hint)
    if closed is not None and isinstance(value, str) and value not in list(closed):
        others = ["true", "false"] if bool in typing.get_args(hint) else []
        raise _unknown_word(path, value, [*closed, *others], source)
    if keys is not None and isinstance(value, Mapping):
        for name in value:
            if name not in list(keys):
                raise _unknown_key(f"{path}.{name}", name, dict.fromkeys(keys), source)


def _nearest(word: str, words: list[str], *, cutoff: float) -> list[str]:
    import difflib

    return difflib.get_close_matches(word, words, n=1, cutoff=cutoff)


@functools.cache
def _enum_of(hint: Any) -> type[enum.StrEnum] | None:
    if isinstance(hint, types.UnionType):
        hint = next((one for one in typing.get_args(hint) if _enum_of(one)), None)
    return hint if isinstance(hint, type) and issubclass(hint, enum.StrEnum) else None


@functools.cache
def _enum_of_keys(hint: Any) -> type[enum.StrEnum] | None:
    parts = typing.get_args(hint)
    return _enum_of(parts[0]) if parts else None


def _unknown_word(path: str, got: str, closed: list[str], source: str) -> ConfigError:
    near = _nearest(got, closed, cutoff=0.5)
    return ConfigError(
        f"got {got!r}, expected one of: {', '.join(closed)}",
        source=source,
        key=path,
        hint=f"did you mean {near[0]!r}?" if near else None,
    )


def _unknown_key(path: str, name: str, known: Mapping[str, Any], source: str) -> ConfigError:
    near = _nearest(str(name), list(known), cutoff=0.5)
    good = f"did you mean `{near[0]}`? " if near else ""
    return ConfigError(
        UNKNOWN_KEY, source=source, key=path, hint=f"{good}valid keys here: {', '.join(known)}"
    )


def refuse_other_schema(tree: Tree, expected: str, source: str) -> None:
    """Raise ConfigError where a file does not begin with the schema that is expected."""
    if tree.get("schema") == expected:
        return
    schema = tree.get("schema", "")
    got = f"got {schema!r}" if isinstance(schema, str) else "is not text"
    got = got if "schema" in tree else "is missing"
    raise ConfigError(
        f'{got}, expected "{expected}"',
        source=source,
        key="schema",
        hint=f'start the file with: schema = "{expected}"',
    )


def refuse_other_document(tree: Tree, cls: type, schema: str, source: str) -> None:
    """Raise ConfigError for another schema, for unknown keys, and where the schema is missing.

    In this order: another version may have other keys, and `schema` may be misspelt.
    """
    if "schema" in tree:
        refuse_other_schema(tree, schema, source)
    refuse_unknown_keys(tree, cls, source)
    refuse_other_schema(tree, schema, source)


def convert(tree: Tree, cls: type[T], source: str, schema: str | None = None) -> T:
    """A checked tree as an instance of `cls`, of a file that has to begin with `schema`.

    Raises ConfigError with the key, what was got and what was expected.
    """
    if schema is None:
        refuse_unknown_keys(tree, cls, source)
    else:
        refuse_other_document(tree, cls, schema, source)
    try:
        return cast("T", _reader(cast("Any", cls))(tree))
    except _WrongValue as wrong:
        raise ConfigError(str(wrong), source=source, key=wrong.place[1:] or None) from wrong


class _WrongValue(Exception):
    """A value of another type or outside its rule; `place` is the way to it, `.gpus[0].name`."""

    def __init__(self, reason: str, place: str = "") -> None:
        super().__init__(reason)
        self.place = place


_Reader = Callable[[Any], Any]
"""Takes a value of a tree as one of a type; raises _WrongValue."""


@functools.cache
def _reader(hint: Any) -> _Reader:
    """Return the reader of a type, made once."""
    hint = getattr(hint, "__supertype__", hint)
    kind, parts = typing.get_origin(hint) or hint, typing.get_args(hint)
    if kind in (types.UnionType, typing.Union):
        return _one_of(parts)
    if kind is tuple:
        return _list(_reader(parts[0]))
    if kind is Mapping:
        return _names(_reader(parts[0]), _reader(parts[1]))
    if dataclasses.is_dataclass(kind):
        return _table(cast("type", kind))
    if kind is Any:
        return lambda value: value
    return _word(kind) if issubclass(kind, enum.StrEnum) else _scalar(kind)


def _scalar(kind: type) -> _Reader:
    def read(value: Any) -> Any:
        if type(value) is kind or (kind is str and isinstance(value, str)):
            return value
        if kind is float and type(value) is int:
            return float(value)
        raise _WrongValue(f"got {_kind(value)}, expected {_KINDS[kind]}")

    return read


def _word(kind: type[enum.StrEnum]) -> _Reader:
    members = {str(member): member for member in kind}

    def read(value: Any) -> Any:
        if isinstance(value, str) and value in members:
            return members[value]
        got = repr(value) if isinstance(value, str) else _kind(value)
        raise _WrongValue(f"got {got}, expected one of: {', '.join(members)}")

    return read


def _one_of(parts: Collection[Any]) -> _Reader:
    readers = [_reader(part) for part in parts if part is not types.NoneType]
    may_be_none = len(readers) < len(parts)
    only = readers[0]

    def read(value: Any) -> Any:
        if value is None and may_be_none:
            return None
        if len(readers) == 1:
            return only(value)
        expected = []
        for each in readers:
            try:
                return each(value)
            except _WrongValue as wrong:
                expected.append(str(wrong).partition(", expected ")[2])
        raise _WrongValue(f"got {_kind(value)}, expected {' or '.join(expected)}")

    return read


def _list(item: _Reader) -> _Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise _WrongValue(f"got {_kind(value)}, expected a list")
        at = 0
        try:
            found = []
            for at, one in enumerate(value):  # noqa: B007  the place of the wrong one
                found.append(item(one))
        except _WrongValue as wrong:
            wrong.place = f"[{at}]{wrong.place}"
            raise
        return tuple(found)

    return read


def _names(name: _Reader, item: _Reader) -> _Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _WrongValue(f"got {_kind(value)}, expected a table")
        found = {}
        for key, one in value.items():
            try:
                found[name(key)] = item(one)
            except _WrongValue as wrong:
                wrong.place = f".{key}{wrong.place}"
                raise
        return found

    return read


def _table(cls: type) -> _Reader:
    fields = [(file_key(field), field.name, _reader(hint)) for field, hint in field_types(cls)]
    unset = dataclasses.MISSING
    required = [file_key(field) for field in dataclasses.fields(cls)
                if field.default is unset and field.default_factory is unset]  # fmt: skip

    def read(tree: Any) -> Any:
        if not isinstance(tree, Mapping):
            raise _WrongValue(f"got {_kind(tree)}, expected a table")
        values = {}
        for key, name, reader in fields:
            if key in tree:
                try:
                    values[name] = reader(tree[key])
                except _WrongValue as wrong:
                    wrong.place = f".{key}{wrong.place}"
                    raise
        for key in required:
            if key not in tree:
                raise _WrongValue("is missing", f".{key}")
        try:
            return cls(**values)
        except InvalidValue as error:
            raise _WrongValue(str(error), f".{error.key}") from error

    return read


_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a table",
    types.NoneType: "null",
}


def _kind(value: object) -> str:
    return _KINDS.get(type(value), type(value).__name__)
