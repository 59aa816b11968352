"""Calls of a C library without the package ctypes."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from hpckit.adapters.c_library import (
    USED,
    Library,
    Pointer,
    Text,
    UnsignedInt,
    UnsignedLongLong,
    buffer,
    byref,
)

LIBC = "libc.so.6"


def test_a_function_returns_an_int() -> None:
    """Its sign is kept."""
    libc = Library(LIBC)
    assert libc.abs(UnsignedInt(5)) == 5
    assert libc.atoi(Text(b"-7")) == -7


def test_a_function_writes_where_it_is_told() -> None:
    """Into a number, a pointer and a text."""
    libc = Library(LIBC)
    number, end, text = UnsignedLongLong(), Pointer(), buffer(8)
    libc.sscanf(Text(b"18446744073709551615"), Text(b"%llu"), byref(number))
    libc.strtol(Text(b"12 x"), byref(end), UnsignedInt(10))
    libc.snprintf(text, UnsignedInt(8), Text(b"%s"), Text(b"abc"))
    assert number.value == 2**64 - 1
    assert end.value
    assert text.value == b"abc"


def test_types_of_ctypes_are_arguments_too() -> None:
    """The sampler's calls have its numbers, arrays and buffers."""
    libc = Library(LIBC)
    number, pair, text = ctypes.c_uint(), (ctypes.c_uint * 2)(), ctypes.create_string_buffer(8)
    libc.sscanf(Text(b"42 7"), Text(b"%u %u"), ctypes.byref(number), ctypes.byref(pair, 4))
    libc.snprintf(text, ctypes.c_uint(8), Text(b"abc"))
    assert (number.value, list(pair), text.value) == (42, [0, 7], b"abc")


def test_what_is_not_there() -> None:
    """A function that a library lacks is AttributeError, a library that is not there OSError."""
    with pytest.raises(AttributeError):
        Library(LIBC).nvmlInit_v2  # noqa: B018
    with pytest.raises(OSError, match="libno-such"):
        Library("libno-such.so.1")


@pytest.mark.parametrize("name", USED)
def test_where_the_c_module_is_another_one_the_package_is_taken(name: str) -> None:
    """A Python that calls its parts otherwise gives the same."""
    code = f"import ctypes, _ctypes; del _ctypes.{name}; from hpckit.adapters import c_library; "
    code += "assert c_library.Library is ctypes.CDLL; c_library.byref(c_library.UnsignedInt()); "
    code += f"print(c_library.Library({LIBC!r}).abs(c_library.UnsignedInt(5)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "5\n"
