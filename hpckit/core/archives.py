"""The bytes of an archive, unpacked a piece at a time and never more than a limit."""

from __future__ import annotations

import bz2
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from hpckit.core.errors import ParseError
from hpckit.core.excerpt import refusal

MOST_BYTES: Final = 256 * 1024**2
"""Of the unpacked archive: the tree of a large machine is a tenth of that."""

MOST_TEXT_BYTES: Final = 64 * 1024**2
"""Of an unpacked capture that is one text: as much as of one that is not compressed."""

_CHUNK_BYTES: Final = 1024**2
_PIECE_BYTES: Final = 64 * 1024
_MOST_STREAMS: Final = 10_000
_XZ_MEMORY_BYTES: Final = 128 * 1024**2
"""xz -9 needs 65 MiB (xz(1))."""

_GZIP: Final = b"\x1f\x8b"
_BZIP2: Final = b"BZh"
_XZ: Final = b"\xfd7zXZ\x00"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_USTAR: Final = slice(257, 262)
_HEADER_BYTES: Final = 512
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")


def looks_like_tar(data: bytes) -> bool:
    """Whether these bytes begin as a tar archive does, or as a compressed file."""
    return data.startswith((_GZIP, _BZIP2, _XZ, _ZSTD)) or data[_USTAR] == b"ustar"


def compressed_text(data: bytes) -> bytes | None:
    """What a compressed file holds, if that is no archive: None for an archive, and for plain data.

    A header of tar has NULs in it, also one from before POSIX, and text has none but in UTF-16.
    Raises ParseError for what does not unpack, and for more than MOST_TEXT_BYTES.
    """
    if not data.startswith((_GZIP, _BZIP2, _XZ)):
        return None
    stream = TarStream(data)
    head = stream.take(_HEADER_BYTES)
    if not head or (b"\0" in head and not head.startswith(_UTF_16)):
        return None
    text = head + stream.take(MOST_TEXT_BYTES)
    if len(text) > MOST_TEXT_BYTES:
        expected = f"at most {MOST_TEXT_BYTES // 1024**2} MiB of text"
        raise refuse_tar("it unpacks to more than a capture of nodes", expected=expected)
    return text


def refuse_tar(message: str, *, name: str = "", expected: str = "a tar archive") -> ParseError:
    """The error that says what is wrong with an archive, and in which of its members."""
    return refusal(message, tool="tar", line_no=1, line=name, expected=expected)


class TarStream:
    """Reads forward through the unpacked bytes. Every method raises ParseError."""

    def __init__(self, data: bytes) -> None:
        self._chunks = _chunks(data)
        self._buffer = b""
        self._at = 0
        self._total = 0

    def take(self, size: int) -> bytes:
        """The next `size` bytes, or those that are left."""
        end = self._at + size
        if end <= len(self._buffer):
            found = self._buffer[self._at : end]
            self._at = end
            return found
        pieces = [self._buffer[self._at :]]
        missing = size - len(pieces[0])
        while missing > 0 and self._next():
            pieces.append(self._buffer[:missing])
            self._at = len(pieces[-1])
            missing -= self._at
        return b"".join(pieces)

    def skip(self, size: int) -> None:
        """Pass over bytes without keeping them; they must be there."""
        while size > len(self._buffer) - self._at:
            size -= len(self._buffer) - self._at
            if not self._next():
                raise refuse_tar("it ends within a member", expected="a whole archive")
        self._at += size

    def _next(self) -> bool:
        self._buffer, self._at = _read(self._chunks), 0
        self._total += len(self._buffer)
        if self._total > MOST_BYTES:
            expected = f"at most {MOST_BYTES // 1024**2} MiB, the tree of one node"
            raise refuse_tar("it unpacks to more than a node's tree", expected=expected)
        return bool(self._buffer)


def _read(chunks: Iterator[bytes]) -> bytes:
    try:
        return next(chunks, b"")
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise refuse_tar(f"it does not unpack: {error}", expected="a whole archive") from error


def _chunks(data: bytes) -> Iterator[bytes]:
    if data.startswith(_GZIP):
        return _unpacked(data, _Gzip, _GZIP)
    if data.startswith(_BZIP2):
        return _unpacked(data, bz2.BZ2Decompressor, _BZIP2)
    if data.startswith(_XZ):
        return _unpacked(data, _xz, _XZ)
    if data.startswith(_ZSTD):
        raise refuse_tar("it is compressed with zstd", expected="gzip, bzip2, xz or no compression")
    view = memoryview(data)
    starts = range(0, len(data), _CHUNK_BYTES)
    return (bytes(view[start : start + _CHUNK_BYTES]) for start in starts)


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


def _xz() -> _Decompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)


class _Gzip:
    """zlib's reader of gzip in the words of the other two."""

    def __init__(self) -> None:
        self._one = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)

    @property
    def eof(self) -> bool:
        return self._one.eof

    @property
    def needs_input(self) -> bool:
        return not self._one.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._one.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        return self._one.decompress(self._one.unconsumed_tail + data, max_length)


def _unpacked(data: bytes, begin: Callable[[], _Decompressor], magic: bytes) -> Iterator[bytes]:
    """The streams of a file one after the other, as their tools read them; what follows is none."""
    at = 0
    for _ in range(_MOST_STREAMS):
        if not data.startswith(magic, at):
            return
        one = begin()
        while not one.eof:
            is_fed = not one.needs_input
            piece = b"" if is_fed else data[at : at + _PIECE_BYTES]
            at += len(piece)
            chunk = one.decompress(piece, _CHUNK_BYTES)
            if chunk:
                yield chunk
            elif not (piece or is_fed or one.eof):
                raise EOFError("the compressed data end too early")
        at -= len(one.unused_data)
    raise ValueError(f"over {_MOST_STREAMS} compressed streams")


# Sources: POSIX pax(1), "ustar Interchange Format" and "pax Extended Header"; GNU tar manual,
# "Basic Tar Format" (long names, base-256 numbers, sparse files).


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
