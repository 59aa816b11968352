"""Byte code that knows the lines of its source, and not their columns.

Columns are a third of deflated byte code, and serve the carets of a traceback alone. Source of the
format: CPython 3.11 to 3.14, Objects/locations.md (InternalDocs/code_objects.md since 3.14).
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType
from typing import Final

_UNIT_BYTES: Final = 2
_MOST_UNITS: Final = 8
_NO_COLUMNS: Final = 13
_NO_LOCATION: Final = 15


def without_columns(code: CodeType) -> CodeType:
    """The same code, and that of all that is in it; as it is on a Python with another format."""
    constants = tuple(
        without_columns(one) if isinstance(one, CodeType) else one for one in code.co_consts
    )
    found = code.replace(co_consts=constants)
    try:
        small = found.replace(co_linetable=b"".join(_entries(code)))
        same = list(_joined(small)) == list(_joined(code))
    except ValueError:
        return found
    return small if same else found


def _joined(code: CodeType) -> Iterator[tuple[int, int, int | None]]:
    """The ranges of instructions of one line, as `co_lines` tells them: it joins neighbours."""
    begun: tuple[int, int, int | None] | None = None
    for start, end, line in code.co_lines():
        if begun is not None and begun[2] == line:
            begun = (begun[0], end, line)
            continue
        if begun is not None:
            yield begun
        begun = (start, end, line)
    if begun is not None:
        yield begun


def _entries(code: CodeType) -> Iterator[bytes]:
    before = code.co_firstlineno
    for start, end, line in _joined(code):
        units = (end - start) // _UNIT_BYTES
        while units > 0:
            taken = min(units, _MOST_UNITS)
            units -= taken
            if line is None:
                yield bytes((0x80 | _NO_LOCATION << 3 | taken - 1,))
                continue
            yield bytes((0x80 | _NO_COLUMNS << 3 | taken - 1,)) + _signed(line - before)
            before = line


def _signed(delta: int) -> bytes:
    """Six bits a byte, the least first; the sign is the lowest bit."""
    rest = -delta << 1 | 1 if delta < 0 else delta << 1
    found = bytearray()
    while rest >= 1 << 6:
        found.append(0x40 | rest & 0x3F)
        rest >>= 6
    found.append(rest)
    return bytes(found)
