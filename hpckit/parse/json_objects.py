"""The JSON objects of a text: one, a list of them, or one a line."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Final

from hpckit.errors import ParseError
from hpckit.parse.document import Tree
from hpckit.parse.excerpt import refusal

_SPACE: Final = re.compile(r"[\s,]*")
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_EXPECTED: Final = "a JSON object, a list of them, or one a line"


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


class _Twice(ValueError):
    """An object has a key twice, of which JSON would keep the last."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {key[:60]!r} is there twice in one object")
        self.key = key


def json_objects(text: str, name: str) -> list[JsonObject]:
    """The objects, in their order; `name` is the file's, for errors.

    Raises ParseError for what is no JSON, and for an object that has a key twice.
    """
    decoder = json.JSONDecoder(
        parse_float=_finite, parse_constant=_finite, object_pairs_hook=_object
    )
    found: list[JsonObject] = []
    at = _after_space(text, 0)
    while at < len(text):
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise _refuse(text, name, error.pos, error.msg) from None
        except _Twice as error:
            second = _second(text, at, error.key)
            raise _refuse(text, name, second, str(error), "each key once") from None
        except (RecursionError, ValueError) as error:
            raise _refuse(text, name, at, f"not readable: {error}") from None
        for one in value if isinstance(value, list) else [value]:
            if not isinstance(one, dict):
                raise _refuse(text, name, at, f"got {type(one).__name__}")
            found.append(JsonObject(one, name, text, at))
        at = _after_space(text, end)
    _refuse_halves(found)
    return found


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _refuse_halves(found: list[JsonObject]) -> None:
    """Refuse half a character: an escape of JSON can write one, and no output can."""
    if not found or _HALF.search(found[0].text) is None:
        return
    for one in found:
        try:
            json.dumps(one.tree, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = f"\\u{ord(error.object[error.start]):04x}"
            raise one.refuse("", f"{half} is half a character", "Unicode text") from None
        except RecursionError:
            raise one.refuse("", "nested too deeply", _EXPECTED) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Twice(key)
            seen.add(key)
    return found


def _second(text: str, begin: int, key: str) -> int:
    """Where a key probably stands for the second time in one object; else where the text begins."""
    written = json.dumps(key, ensure_ascii=False)
    before = text.find(written, begin)
    while before >= 0:
        at = text.find(written, before + 1)
        depth = 0
        for char in text[before:at] if at >= 0 else "":
            depth += {"{": 1, "}": -1}.get(char, 0)
            if depth < 0:
                break
        if at >= 0 and depth == 0:
            return at
        before = at
    return begin


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is no number")
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
