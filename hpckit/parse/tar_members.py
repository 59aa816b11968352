"""The members of a tar archive, one after the other, with their long names.

Sources: POSIX pax(1), "ustar Interchange Format" and "pax Extended Header"; GNU tar manual, "Basic
Tar Format" (long names, base-256 numbers, sparse files).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hpckit.parse.tar_stream import TarStream, refuse_tar

BLOCK_BYTES: Final = 512
REGULAR: Final = frozenset("07\0")
WITHOUT_DATA: Final = frozenset("123456")
HARD_LINK: Final = "1"
SYMBOLIC_LINK: Final = "2"

_FOLDER: Final = "5"
_SPARSE: Final = "S"
_LONG_NAME: Final = {"L": "path", "K": "linkpath"}
_PAX: Final = frozenset("xgX")
_GLOBAL: Final = "g"
_CHECKSUM: Final = slice(148, 156)
_MOST_NAME_BYTES: Final = 64 * 1024
_DECIMAL: Final = re.compile(r"\d{1,18}", re.ASCII)
_BASE_256: Final = 0x80


@dataclass(slots=True)
class Member:
    """A header: its type flag, its name and target as they are written, and its size in bytes."""

    kind: str
    name: str
    target: str
    size: int


def tar_members(stream: TarStream) -> Iterator[Member]:
    """The members up to the end mark; the caller takes or skips the data of each.

    Raises ParseError.
    """
    everywhere: dict[str, str] = {}
    only_next: dict[str, str] = {}
    while True:
        header = stream.take(BLOCK_BYTES)
        if len(header) < BLOCK_BYTES:
            raise refuse_tar("it ends without its end mark", expected="a whole archive")
        if not any(header):
            return
        member = _member(header)
        if member.kind in _LONG_NAME:
            only_next[_LONG_NAME[member.kind]] = _long_name(stream, member)
        elif member.kind in _PAX:
            records = everywhere if member.kind == _GLOBAL else only_next
            records.update(_pax_records(stream, member))
        else:
            yield _extended(member, everywhere | only_next)
            only_next = {}


def _member(header: bytes) -> Member:
    name = _string(header[:100])
    blank = header[: _CHECKSUM.start] + b" " * 8 + header[_CHECKSUM.stop :]
    if sum(blank) != _number(header[_CHECKSUM], name):
        raise refuse_tar("a header's checksum is wrong", name=name)
    kind = chr(header[156])
    if kind == _SPARSE:
        expected = "an archive made without --sparse"
        raise refuse_tar("a member is sparse", name=name, expected=expected)
    if header[257:263] == b"ustar\0" and header[345]:
        name = f"{_string(header[345:500])}/{name}"
    return Member(kind, name, _string(header[157:257]), _number(header[124:136], name))


def _extended(member: Member, records: dict[str, str]) -> Member:
    """The member with what the headers before it say."""
    size = records.get("size")
    if size is not None and not _DECIMAL.fullmatch(size):
        raise refuse_tar("a size is no number", name=member.name)
    name = records.get("path", member.name)
    # Before POSIX a folder was a file whose name ends so; a shortened name may do it by chance.
    is_folder = member.kind in REGULAR and name.endswith("/")
    return Member(
        _FOLDER if is_folder else member.kind,
        name,
        records.get("linkpath", member.target),
        member.size if size is None else int(size),
    )


def _string(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _number(field: bytes, name: str) -> int:
    """Octal digits, or from GNU tar a binary number that is marked by its highest bit."""
    if field[0] & _BASE_256:
        value = int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
        if value >= 1 << 63:
            raise refuse_tar("a size is no number", name=name)
        return value
    digits = field.strip(b" \0")
    if digits.translate(None, b"01234567"):
        raise refuse_tar("a number is not octal", name=name)
    return int(digits or b"0", 8)


def padded(size: int) -> int:
    """The bytes that data of this size take: whole blocks."""
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


def _payload(stream: TarStream, member: Member) -> bytes:
    if member.size > _MOST_NAME_BYTES:
        raise refuse_tar("a name is too long", name=member.name, expected="names up to 64 KiB")
    data = stream.take(padded(member.size))
    if len(data) < padded(member.size):
        raise refuse_tar("it ends within a header", name=member.name, expected="a whole archive")
    return data[: member.size]


def _long_name(stream: TarStream, member: Member) -> str:
    return _string(_payload(stream, member))


def _pax_records(stream: TarStream, member: Member) -> dict[str, str]:
    """Records of `LENGTH KEY=VALUE` and a newline, the length that of the whole record."""
    data, found = _payload(stream, member), {}
    while data:
        length, _, _ = data[:8].partition(b" ")
        size = int(length) if length.isdigit() else 0
        record = data[len(length) + 1 : size - 1]
        key, equals, value = record.partition(b"=")
        if size > len(data) or not equals or data[size - 1 : size] != b"\n":
            raise refuse_tar("an extended header is not in its format", name=member.name)
        if key.startswith(b"GNU.sparse"):
            expected = "an archive made without --sparse"
            raise refuse_tar("a member is sparse", name=member.name, expected=expected)
        found[key.decode("utf-8", "replace")] = value.decode("utf-8", "surrogateescape")
        data = data[size:]
    return found
