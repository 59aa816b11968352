"""/etc/ld.so.cache: where the dynamic loader finds what no other rule has found.

Source: glibc sysdeps/generic/dl-cache.h, format "glibc-ld.so.cache1.1", also behind the older
table that some distributions still write before it. The loader reads nothing else of ldconfig's:
what stands in ld.so.conf counts from the next `ldconfig` on.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from hpckit.errors import ParseError

LD_CACHE: Final = "/etc/ld.so.cache"
MOST_CACHE_BYTES: Final = 32 * 1024**2

_MAGIC: Final = b"glibc-ld.so.cache1.1"
_OLD_MAGIC: Final = b"ld.so-1.7.0"
_OLD_ENTRY_BYTES: Final = 12
_COUNTS: Final = struct.Struct("<II")
_HEADER_BYTES: Final = 48
_ENTRY: Final = struct.Struct("<iIIIQ")
_MOST_ENTRIES: Final = 200_000
_MOST_NAME_BYTES: Final = 4096
_MOST_TIMES: Final = 4
"""ldconfig stores a name as the end of its path, and a path once for each processor's level."""


class CacheEntry(NamedTuple):
    """A library's name and where it lies."""

    name: str
    path: str


def parse_ld_cache(data: bytes) -> tuple[CacheEntry, ...]:
    """The entries, in the order in which they count; raises ParseError for what is no such cache.

    In a real one no text serves many entries: their bytes together are not many times the file's.
    """
    start = data.find(_MAGIC, 0, _new_table_at(data))
    if start < 0 or len(data) < start + _HEADER_BYTES:
        raise _refused("it does not begin as a cache does")
    count, _ = _COUNTS.unpack_from(data, start + len(_MAGIC))
    first = start + _HEADER_BYTES
    if count > _MOST_ENTRIES or first + count * _ENTRY.size > len(data):
        raise _refused(f"it ends before its {count} entries do")
    found = []
    left_bytes = _MOST_TIMES * len(data)
    for at in range(first, first + count * _ENTRY.size, _ENTRY.size):
        _, key, value, _, _ = _ENTRY.unpack_from(data, at)
        entry = CacheEntry(_string(data, start + key), _string(data, start + value))
        left_bytes -= len(entry.name) + len(entry.path)
        if left_bytes < 0:
            raise _refused("its names lie over each other")
        found.append(entry)
    return tuple(found)


def _new_table_at(data: bytes) -> int:
    """The last place where the table may begin: at once, or behind the old one."""
    if not data.startswith(_OLD_MAGIC) or len(data) < len(_OLD_MAGIC) + 5:
        return len(_MAGIC)
    (count,) = struct.unpack_from("<I", data, 12)
    return int(16 + count * _OLD_ENTRY_BYTES + 8 + len(_MAGIC))


def _string(data: bytes, at: int) -> str:
    end = data.find(b"\0", at, at + _MOST_NAME_BYTES)
    if end < 0:
        raise _refused("a name in it has no end")
    return data[at:end].decode("utf-8", "surrogateescape")


def _refused(message: str) -> ParseError:
    expected = "what ldconfig writes"
    return ParseError(message, tool="ld.so.cache", line_no=1, line=LD_CACHE, expected=expected)
