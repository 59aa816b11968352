"""The bytes of an archive, unpacked as they are read and never more than a limit."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from tarfile import open as tar_of  # of bytes in memory: no file is opened here
from typing import Any, BinaryIO, Final, Self, cast

from hpckit.core.errors import ParseError
from hpckit.core.excerpt import refusal

MOST_BYTES: Final = 256 * 1024**2
"""Of the unpacked archive: the tree of a large machine is a tenth of that."""

MOST_TEXT_BYTES: Final = 64 * 1024**2
"""Of an unpacked capture that is one text: as much as of one that is not compressed."""

_PACKERS: Final[Mapping[bytes, Callable[[Any], Any]]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_MOST_PAX: Final = 1 << 30
"""Sum of the squares of the bytes of extended headers: a second or two."""
_USTAR: Final = slice(257, 262)
_HEADER_BYTES: Final = 512
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_DAMAGED: Final = (OSError, EOFError, ValueError, MemoryError, zlib.error, lzma.LZMAError)
_MALFORMED: Final = (tarfile.TarError, ValueError, OverflowError, RecursionError)


def looks_like_tar(data: bytes) -> bool:
    """Whether these bytes begin as a tar archive does, or as a compressed file."""
    return data.startswith((*_PACKERS, _ZSTD)) or data[_USTAR] == b"ustar"


def compressed_text(data: bytes) -> bytes | None:
    """What a compressed file holds, if that is no archive: None for an archive, and for plain data.

    A header of tar has NULs in it, also one from before POSIX, and text has none but in UTF-16.
    Raises ParseError for what does not unpack, and for more than MOST_TEXT_BYTES.
    """
    if not data.startswith((*_PACKERS,)):
        return None
    unpacked = _Unpacked(data)
    head = unpacked.read(_HEADER_BYTES)
    if not head or (b"\0" in head and not head.startswith(_UTF_16)):
        return None
    text = head + unpacked.read(MOST_TEXT_BYTES)
    if len(text) > MOST_TEXT_BYTES:
        expected = f"at most {MOST_TEXT_BYTES // 1024**2} MiB of text"
        raise refuse_tar("it unpacks to more text than a capture of nodes has", expected=expected)
    return text


def refuse_tar(message: str, *, name: str = "", expected: str = "a tar archive") -> ParseError:
    """The error that says what is wrong with an archive, and in which of its members."""
    return refusal(message, tool="tar", line_no=1, line=name, expected=expected)


class _Unpacked:
    """Reads forward through the unpacked bytes, of which there may be MOST_BYTES."""

    def __init__(self, data: bytes) -> None:
        if data.startswith(_ZSTD):
            expected = "gzip, bzip2, xz or no compression"
            raise refuse_tar(
                "it is compressed with zstd, which is not supported", expected=expected
            )
        packed = io.BytesIO(data)
        packers = (packer for magic, packer in _PACKERS.items() if data.startswith(magic))
        self._file: BinaryIO = next(packers, lambda file: file)(packed)
        self._left = MOST_BYTES

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, or those that are left. Raises ParseError."""
        try:
            data = self._file.read(size)
        except _DAMAGED as error:
            raise refuse_tar(
                f"it cannot be unpacked: {error}", expected="a complete archive"
            ) from error
        self._left -= len(data)
        if self._left < 0:
            expected = f"at most {MOST_BYTES // 1024**2} MiB, the tree of one node"
            raise refuse_tar("it unpacks to more than a node's tree", expected=expected)
        return data


class _Member(tarfile.TarInfo):
    """A header of which a damaged one is an error also where it is not the first.

    The stubs of `tarfile` lack the names that are overridden, caught and set here.
    """

    def _proc_pax(self, archive: tarfile.TarFile) -> Self:
        """Refuse long extended headers: reading one takes the square of it (CVE-2024-6232)."""
        spent = vars(archive)
        spent["pax"] = spent.get("pax", 0) + self.size**2
        if spent["pax"] > _MOST_PAX:
            raise refuse_tar("its extended (pax) headers are too long", name=self.name)
        return super()._proc_pax(archive)  # type: ignore[misc,no-any-return]

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        try:
            return super().frombuf(buf, encoding, errors)
        except (tarfile.EmptyHeaderError, tarfile.TruncatedHeaderError):  # type: ignore[attr-defined]
            expected = "a complete archive"
            raise refuse_tar("the end is missing", expected=expected) from None
        except tarfile.InvalidHeaderError as error:  # type: ignore[attr-defined]
            raise refuse_tar(f"wrong header: {error}") from None


def tar_members(
    data: bytes, wanted: Callable[[tarfile.TarInfo], int]
) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """The members up to the end mark, each with as many of its bytes as are `wanted`.

    Raises ParseError.
    """
    unpacked = _Unpacked(data)
    try:
        with tar_of(
            fileobj=cast("BinaryIO", unpacked),
            mode="r|",
            tarinfo=_Member,
            encoding="utf-8",
            errors="surrogateescape",
        ) as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isreg() else None
                yield member, file.read(wanted(member)) if file is not None else b""
                archive.members = []  # type: ignore[attr-defined]  # else it keeps every header
    except _MALFORMED as error:
        raise refuse_tar(f"it is damaged: {error}", expected="a complete archive") from error
