"""A mesh and its volumes as a command line writes them: `tensor=8,pipeline=4`, `data=4e9`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

from hpckit.errors import ConfigError
from hpckit.model.job import MAX_VOLUME_BYTES, MeshAxis
from hpckit.model.rules import MAX_COUNT

Value = TypeVar("Value", int, float)
_PAIR: Final = re.compile(r"\s*(?P<axis>[A-Za-z_-]+)\s*=\s*(?P<value>[^=,\s]+)\s*", re.ASCII)
_NUMBER: Final = re.compile(r"\d{1,30}(?:\.\d{0,30})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_LONGEST: Final = 100


def parse_mesh(text: str, option: str = "--mesh") -> dict[MeshAxis, int]:
    """Sizes of the axes, innermost first. Raises ConfigError."""
    return _pairs(text, option, "tensor=8,pipeline=4,data=16", _size)


def parse_volumes(text: str, option: str = "--volume") -> dict[MeshAxis, float]:
    """Bytes that each rank gives to a step of each axis. Raises ConfigError."""
    return _pairs(text, option, "data=4e9,pipeline=2e8", _bytes)


def _pairs(
    text: str, option: str, example: str, read: Callable[[str], Value]
) -> dict[MeshAxis, Value]:
    found: dict[MeshAxis, Value] = {}
    for part in text.split(","):
        match = _PAIR.fullmatch(part)
        if match is None:
            raise ConfigError(
                f"got {part[:_LONGEST]!r}, expected axis=value",
                key=option,
                hint=f"such as {example}",
            )
        axis = _axis(match["axis"], option)
        if axis in found:
            raise ConfigError(f"{axis} is there twice", key=option)
        try:
            found[axis] = read(match["value"])
        except ValueError as error:
            raise ConfigError(f"{axis}: {error}", key=option, hint=f"such as {example}") from None
    return found


def _axis(word: str, option: str) -> MeshAxis:
    try:
        return MeshAxis(word)
    except ValueError:
        raise ConfigError(
            f"got the axis {word[:_LONGEST]!r}, expected one of: {', '.join(MeshAxis)}", key=option
        ) from None


def _size(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:_LONGEST]) <= MAX_COUNT:
        raise ValueError(f"got {text[:_LONGEST]!r}, expected a whole number from 1")
    return int(text)


def _bytes(text: str) -> float:
    found = float(text) if _NUMBER.fullmatch(text) else -1.0
    if not 0 <= found <= MAX_VOLUME_BYTES:
        raise ValueError(f"got {text[:_LONGEST]!r}, expected bytes, such as 4e9")
    return found
