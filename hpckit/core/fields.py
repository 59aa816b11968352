"""What a key of a job or site file promises: its documentation and the limits of its value.

The rules stand on the dataclass field, so one line serves three readers: the check at
construction, the published JSON Schema, and the generated reference.
"""

from __future__ import annotations

import dataclasses
import json
import re
import types
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, Final

from hpckit.core.errors import InvalidValue
from hpckit.core.values import dataclass

RULE: Final = "hpckit.rule"

MAX_COUNT: Final = 2**31 - 1
"""The largest count that Slurm keeps in 32 bits."""

_UNSEEN: Final = frozenset(["Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"])

Check = Callable[[Any], str | None]
"""Takes a value and returns what was expected, or None when the value is good."""


class _InvalidItem(InvalidValue):
    """An item of a list or table is outside its rule; `key` is the end of the item's path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRule:
    """Documentation and limits of one key."""

    doc: str
    check: Check | None = None
    schema: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def key(
    doc: str,
    *,
    default: Any = dataclasses.MISSING,
    factory: Any = dataclasses.MISSING,
    check: Check | None = None,
    **schema: object,
) -> Any:
    """A dataclass field that carries its rule; `schema` goes into the JSON Schema as it is.

    So does the lower bound of a number.
    """
    if isinstance(check, between):
        schema = {"minimum": check.lowest, **schema}
    metadata = {RULE: KeyRule(doc=doc, check=check, schema=schema)}
    if factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def optional(doc: str, check: Check, **schema: object) -> Any:
    """A field that is None where nobody said it, else passes its check."""
    return key(doc, default=None, check=check, **schema)


def listed(doc: str, check: Check) -> Any:
    """A field that is a list, empty where nobody said it, each item of which passes a check."""
    return key(doc, default=(), check=every(check))


def table(doc: str, check: Check) -> Any:
    """A field that is a table, empty where nobody said it, and passes its check."""
    return key(doc, factory=dict, check=check)


def file_key(field: dataclasses.Field[Any]) -> str:
    """The key in the file for a field; `pass_` is written `pass`, a Python keyword."""
    return field.name.removesuffix("_")


def check_fields(instance: Any) -> None:
    """Apply each field's rule to its value; None means "not said" and is always allowed.

    Raises InvalidValue for the first value outside its rule.
    """
    for field in dataclasses.fields(instance):
        rule = field.metadata.get(RULE)
        value = getattr(instance, field.name)
        if rule is None or rule.check is None or value is None:
            continue
        try:
            expected = rule.check(value)
        except _InvalidItem as item:
            raise InvalidValue(file_key(field) + item.key, item.got, item.expected) from None
        if expected is not None:
            raise InvalidValue(file_key(field), value, expected)


class Checked:
    """A dataclass whose values pass the rules of their fields. Raises InvalidValue."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True)
class between:  # noqa: N801  a check like the functions below, whose bound a schema shows
    """A finite number from `lowest` to `highest`."""

    lowest: float
    highest: float

    def __call__(self, value: float) -> str | None:
        """Return what was expected in place of a number outside, None for one within."""
        if self.lowest <= value <= self.highest:
            return None
        return f"{self.lowest} or more" if value < self.lowest else f"at most {self.highest}"


def _unprintable(text: str) -> str | None:
    for char in text:
        if unicodedata.category(char) in _UNSEEN:
            return f"U+{ord(char):04X}"
    return None


def one_line(value: str) -> str | None:
    """Text that stays on one line: not empty, no control character or line separator."""
    if not value.strip():
        return "text that is not empty"
    found = _unprintable(value)
    return None if found is None else f"one line of printable text (it contains {found})"


def program_text(value: str) -> str | None:
    """Text that a program can receive as an argument: UTF-8 without NUL."""
    if "\0" in value:
        return "text without a NUL character"
    if any("\ud800" <= char <= "\udfff" for char in value):
        return "text that is valid UTF-8"
    return None


def matching(pattern: str, expected: str) -> Check:
    """Text that matches the whole of `pattern` (ASCII)."""
    return lambda value: None if re.fullmatch(pattern, value, re.ASCII) else expected


def parses(parser: Callable[[str], object], expected: str) -> Check:
    """Text that `parser` accepts without ValueError."""

    def check(value: str) -> str | None:
        try:
            parser(value)
        except ValueError:
            return expected
        return None

    return check


def every(check: Check) -> Check:
    """A list, each item of which passes `check`."""

    def check_all(values: Any) -> str | None:
        for position, value in enumerate(values):
            expected = check(value)
            if expected is not None:
                raise _InvalidItem(f"[{position}]", value, expected)
        return None

    return check_all


def mapping(names: Check, values: Check) -> Check:
    """A table, each name of which passes `names` and each value `values`."""

    def check_all(table: Mapping[str, object]) -> str | None:
        for name, value in table.items():
            expected = names(name)
            if expected is not None:
                raise _InvalidItem("", name, expected)
            expected = values(value)
            if expected is not None:
                raise _InvalidItem(f".{name}", value, expected)
        return None

    return check_all


def both(first: Check, second: Check) -> Check:
    """A value that passes two checks."""
    return lambda value: first(value) or second(value)


_ENV_NAME: Final = matching(r"[A-Za-z_][A-Za-z0-9_]*", "a shell variable name (letters, digits, _)")
_RUN_BY_BASH: Final = frozenset(
    (
        *("BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "POSIXLY_CORRECT", "BASH_XTRACEFD", "PS4"),
        *("RANDOM", "SRANDOM", "SECONDS", "OPTIND", "HISTCMD", "LINENO", "IFS"),
        *("BASH_VERSINFO", "EUID", "PPID", "UID"),
    )
)
"""Variables whose value bash itself evaluates or obeys, or that are read-only in it (bash(1), Shell
Variables)."""


def settable_name(name: str) -> str | None:
    """What a name should have been that a script may export; None for a good one."""
    if name.startswith(("HPCKIT_", "hpckit_", "SLURM_")):
        return "a variable that is neither hpckit's nor Slurm's own"
    if name in _RUN_BY_BASH:
        return "a variable that bash does not evaluate or set itself"
    return _ENV_NAME(name)


def to_tree(value: Any) -> Any:
    """A model value as plain tables, lists and scalars, with the keys of the file."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            file_key(field): to_tree(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
    names: tuple[str, ...] | None = getattr(type(value), "__struct_fields__", None)
    if names is not None:  # told by what it has: inside a job there is no msgspec
        return {name: to_tree(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(name): to_tree(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_tree(item) for item in value]
    if isinstance(value, (str, int, float, bool, types.NoneType)):
        return str(value) if isinstance(value, str) else value
    raise TypeError(f"{type(value).__name__} has no place in a document")


def as_json(document: object) -> str:
    """A document as people and programs read it: indented UTF-8 JSON, one final newline.

    A byte of a path that is not UTF-8, which Python holds as half a surrogate pair, is escaped.
    """
    text = json.dumps(document, ensure_ascii=False, indent=2)
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text) + "\n"
