"""Calls of a C library: what a rank needs of ctypes, made of the C module that ctypes is made of.

The package defines forty types, and loads `struct` for them: 2.3 ms of every rank, this 0.7
(docs/adr/0010). Names are C's; what is of ctypes' own types can be an argument, too.
"""

from __future__ import annotations

import _ctypes

TYPE_CHECKING = False
USED = ("CFuncPtr", "FUNCFLAG_CDECL", "_SimpleCData", "byref", "dlopen")
if TYPE_CHECKING or not all(hasattr(_ctypes, name) for name in USED):
    # For type checkers, and a Python whose `_ctypes` is another one.
    import ctypes

    byref = ctypes.byref
    Library = ctypes.CDLL
    Pointer = ctypes.c_void_p
    Text = ctypes.c_char_p
    UnsignedInt = ctypes.c_uint
    UnsignedLongLong = ctypes.c_ulonglong
    buffer = ctypes.create_string_buffer
else:
    from _ctypes import FUNCFLAG_CDECL, CFuncPtr, _SimpleCData, dlopen

    byref = _ctypes.byref

    class _Int(_SimpleCData):
        _type_ = "i"

    class _Char(_SimpleCData):
        _type_ = "c"

    class UnsignedInt(_SimpleCData):
        """unsigned int."""

        _type_ = "I"

    class UnsignedLongLong(_SimpleCData):
        """unsigned long long."""

        _type_ = "Q"

    class Pointer(_SimpleCData):
        """void *."""

        _type_ = "P"

    class Text(_SimpleCData):
        """const char *."""

        _type_ = "z"

    class _Function(CFuncPtr):
        _flags_ = FUNCFLAG_CDECL
        _restype_ = _Int

    class Library:
        """Functions, which return int, by their names; AttributeError for one that it has not."""

        def __init__(self, name: str) -> None:
            """Load it. Raises OSError."""
            self._handle = dlopen(name, 0)  # where `_Function` looks for it

        def __getattr__(self, name: str) -> _Function:
            function = _Function((name, self))
            setattr(self, name, function)
            return function

    def buffer(size: int) -> object:
        """`char[size]`; its `value` is what stands before the first 0."""
        return (_Char * size)()
