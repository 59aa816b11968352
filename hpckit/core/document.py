"""A tree of tables, strictly turned into a dataclass: no unknown key, no silent conversion.

msgspec checks types but ignores unknown keys of dataclasses, so the tree is first walked
against the fields; the nearest valid key is named.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import re
import threading
import types
import typing
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hpckit.core.errors import ConfigError, InvalidValue
from hpckit.core.fields import file_key
from hpckit.core.late import Late, regex

if TYPE_CHECKING:
    import tomllib

    import msgspec
else:
    msgspec = Late("msgspec")
    tomllib = Late("tomllib")

T = TypeVar("T")
Tree = dict[str, Any]

UNKNOWN_KEY = "unknown key"
"""The `reason` of the ConfigError for one."""
_AT = regex(r"^(?P<what>.*?)(?: - at `(?P<path>[^`]*)`(?: in `(?P<outer>[^`]*)`)?)?$", re.S)
_EXPECTED = regex(r"^Expected (?P<expected>.*), got (?P<got>.*)$", re.S)
_TWICE = regex(r"Cannot declare \((.*)\) twice")
_LINE_NO = regex(r"at line (\d+)")
_UNQUOTED = regex(r"\s*([\w.-]+)\s*[=:]\s*([^\[{#]*?)\s*(?:#.*)?")
BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on", "1"), "true"),
    **dict.fromkeys(("false", "no", "off", "0", "never"), "false"),
}
"""What people write for true and false."""
_INT64 = (-(2**63), 2**63 - 1)
_MISSING = regex(r"^Object missing required field `(?P<name>[^`]*)`$")


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
    return cast("T", _converted(tree, cls, source, ""))


_CONVERTING = threading.RLock()
"""Held while msgspec converts: two threads that need a class for the first time crash it."""


def _converted(tree: Tree, cls: type, source: str, path: str) -> Any:
    try:
        with _CONVERTING:
            return msgspec.convert(_to_field_names(tree, cls), cls)
    except msgspec.ValidationError as error:
        _refuse_tables(tree, cls, source, path)
        raise _explain(error, source, path) from error
    except UnicodeEncodeError as error:
        # Of text in the place of something else msgspec needs the bytes; half a pair has none.
        got = f"got {error.object!r}, expected text that is valid UTF-8"
        key = _key_of(error.object, tree)
        raise ConfigError(got, source=source, key=f"{path}{key}" if key else None) from None


def _refuse_tables(tree: Tree, cls: type, source: str, path: str) -> None:
    """Raise ConfigError for a wrong table by name: msgspec's errors do not say which one it is."""
    for field, hint in field_types(cls):
        of_each, tables = table_of(hint), tree.get(file_key(field))
        if of_each is not None and isinstance(tables, Mapping):
            for name, table in tables.items():
                _converted(table, of_each, source, f"{path}{file_key(field)}.{name}.")


def _key_of(text: str, tree: Mapping[str, Any]) -> str:
    """The dotted key under which a text is first found, nothing where it is in a list."""
    for name, value in tree.items():
        if value == text:
            return str(name)
        below = _key_of(text, value) if isinstance(value, Mapping) else ""
        if below:
            return f"{name}.{below}"
    return ""


def _to_field_names(tree: Mapping[str, Any], cls: type) -> Tree:
    renamed: Tree = {}
    for field, hint in field_types(cls):
        name = file_key(field)
        if name in tree:
            inner = dataclass_of(hint)
            value = tree[name]
            renamed[field.name] = value if inner is None else _to_field_names(value, inner)
    return renamed


def _explain(error: msgspec.ValidationError, source: str, table: str) -> ConfigError:
    match = _AT.match(str(error))
    what, path, outer = match.group("what", "path", "outer") if match else (str(error), None, None)
    prefix = (table + _dotted(outer or path)).rstrip(".")
    cause = error.__cause__
    if isinstance(cause, InvalidValue):
        return ConfigError(str(cause), source=source, key=_join(prefix, cause.key))
    missing = _MISSING.match(what)
    if missing:
        key = _join(prefix, missing["name"].removesuffix("_"))
        return ConfigError("is missing", source=source, key=key)
    expected = _EXPECTED.match(what)
    if expected:
        what = f"got {_plain(expected['got'])}, expected {_plain(expected['expected'])}"
    return ConfigError(what, source=source, key=prefix or None)


def _dotted(path: str | None) -> str:
    bare = (path or "").removeprefix("$").lstrip(".").replace("[...]", "")
    return re.sub(r"\bpass_\b", "pass", bare)


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _plain(types_text: str) -> str:
    words = {
        "int": "a whole number",
        "str": "text",
        "bool": "true or false",
        "float": "a number",
        "array": "a list",
        "object": "a table",
    }
    found = [name for name in types_text.strip("`").split(" | ") if name != "null"]
    return " or ".join(words.get(name, name) for name in found)


def _kind(value: object) -> str:
    names: dict[type, str] = {bool: "true or false", int: "a number", str: "text", list: "a list"}
    return names.get(type(value), type(value).__name__)
