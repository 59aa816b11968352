"""ELF files: what the dynamic section says, and where the constants lie; nothing is executed.

Source: System V ABI, gABI 4.1, chapters 4 and 5 (header, sections, program header, dynamic
section). Of 32-bit files no more than the processor is told, for the loader passes them
over; NCCL and RCCL are made for 64-bit little-endian ones.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from hpckit.errors import ParseError
from hpckit.model.nccl_found import SharedLibrary

ReadAt = Callable[[int, int], bytes]
"""(offset, size) → those bytes of a file, fewer at its end."""

MOST_CONSTANT_BYTES: Final = 192 * 1024**2
"""Of .rodata; PyTorch 2.15's libtorch_cuda.so has 10 MiB, NCCL 2.32 less than one."""

_IDENT: Final = b"\x7fELF\x02\x01"
_IDENT_32: Final = b"\x7fELF\x01\x01"
_MACHINE_AT: Final = 18
_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM: Final = struct.Struct("<IIQQQQQQ")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_DYNAMIC: Final = struct.Struct("<QQ")
_MACHINES: Final = {3: "i386", 21: "ppc64le", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_PT_LOAD, _PT_DYNAMIC = 1, 2
_PF_W: Final = 2
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 0, 1, 5, 14, 15, 29
_ONCE: Final = frozenset((_DT_STRTAB, _DT_SONAME, _DT_RPATH, _DT_RUNPATH))
_MOST_HEADERS: Final = 256
_MOST_SECTIONS: Final = 4096
_MOST_DYNAMIC: Final = 4096
_MOST_STRING_BYTES: Final = 64 * 1024
_MOST_NEEDED: Final = 512


class Extent(NamedTuple):
    """Some bytes of a file."""

    offset: int
    size: int


class _Header(NamedTuple):
    machine: int
    program_at: int
    section_at: int
    programs: int
    sections: int
    names_index: int


class _Segment(NamedTuple):
    kind: int
    flags: int
    offset: int
    address: int
    size: int


def parse_elf(read: ReadAt, path: str) -> SharedLibrary:
    """What an executable or shared library needs and where it looks for that; raises ParseError.

    A static executable needs nothing. It costs a few small reads, whatever the file's size.
    """
    if read(0, len(_IDENT_32)) == _IDENT_32:
        (number,) = struct.unpack("<H", read(_MACHINE_AT, 2).ljust(2, b"\0"))
        return SharedLibrary(path=path, machine=f"32-bit {_machine(number)}")
    header = _header(read, path)
    segments = tuple(_segments(read, header, path))
    dynamic = next((one for one in segments if one.kind == _PT_DYNAMIC), None)
    machine = _machine(header.machine)
    if dynamic is None:
        return SharedLibrary(path=path, machine=machine)
    once, needed = _entries(read, dynamic, path)
    strings_at = _offset_of(once.get(_DT_STRTAB, 0), segments, path)

    def string(tag: int) -> str | None:
        return None if tag not in once else _string(read, strings_at + once[tag], path)

    runpath = string(_DT_RUNPATH)
    return SharedLibrary(
        path=path,
        machine=machine,
        soname=string(_DT_SONAME),
        needed=tuple(_string(read, strings_at + at, path) for at in needed),
        rpath=_folders(string(_DT_RPATH)),
        runpath=None if runpath is None else _folders(runpath),
    )


def constants(read: ReadAt, path: str) -> tuple[Extent, ...]:
    """Where a file's constants lie: its .rodata, or what is loaded not to be written to.

    That may hold its code, too, as in NVIDIA's own builds: their linker makes one segment of both.
    They are MOST_CONSTANT_BYTES at most. Raises ParseError.
    """
    header = _header(read, path)
    found = tuple(_rodata(read, header)) or tuple(
        Extent(one.offset, one.size)
        for one in _segments(read, header, path)
        if one.kind == _PT_LOAD and not one.flags & _PF_W
    )
    left, bounded = MOST_CONSTANT_BYTES, []
    for extent in found:
        bounded.append(Extent(extent.offset, min(extent.size, left)))
        left -= bounded[-1].size
    return tuple(one for one in bounded if one.size)


def _header(read: ReadAt, path: str) -> _Header:
    data = read(0, _HEADER.size)
    if not data.startswith(_IDENT):
        raise _refused("it is no 64-bit little-endian ELF file", path)
    if len(data) < _HEADER.size:
        raise _refused("it ends within its header", path)
    fields = _HEADER.unpack(data)
    program_size, programs, section_size, sections, names_index = fields[9:14]
    if programs and program_size != _PROGRAM.size:
        raise _refused(f"a program header has {program_size} bytes, not {_PROGRAM.size}", path)
    if sections and section_size != _SECTION.size:
        sections = 0  # the loader needs none either
    return _Header(
        machine=fields[2],
        program_at=fields[5],
        section_at=fields[6],
        programs=min(programs, _MOST_HEADERS),
        sections=min(sections, _MOST_SECTIONS),
        names_index=names_index,
    )


def _segments(read: ReadAt, header: _Header, path: str) -> Iterator[_Segment]:
    data = read(header.program_at, header.programs * _PROGRAM.size)
    if len(data) < header.programs * _PROGRAM.size:
        raise _refused("it ends before its program headers do", path)
    for kind, flags, offset, address, _, size, _, _ in _PROGRAM.iter_unpack(data):
        yield _Segment(kind, flags, offset, address, size)


def _entries(read: ReadAt, dynamic: _Segment, path: str) -> tuple[dict[int, int], list[int]]:
    """The entries that there is one of, by tag, and what is needed, as offsets of strings."""
    size = min(dynamic.size, _MOST_DYNAMIC * _DYNAMIC.size)
    data = read(dynamic.offset, size)
    once: dict[int, int] = {}
    needed: list[int] = []
    for tag, value in _DYNAMIC.iter_unpack(data[: len(data) // _DYNAMIC.size * _DYNAMIC.size]):
        if tag == _DT_NULL:
            return once, needed[:_MOST_NEEDED]
        if tag == _DT_NEEDED:
            needed.append(value)
        elif tag in _ONCE:
            once[tag] = value
    raise _refused("its dynamic section has no end", path)


def _offset_of(address: int, segments: tuple[_Segment, ...], path: str) -> int:
    for one in segments:
        if one.kind == _PT_LOAD and one.address <= address < one.address + one.size:
            return one.offset + address - one.address
    raise _refused("its table of strings lies in no part of it", path)


def _string(read: ReadAt, at: int, path: str) -> str:
    data, nul, _ = read(at, _MOST_STRING_BYTES).partition(b"\0")
    if not nul:
        raise _refused("a name in it has no end", path)
    return data.decode("utf-8", "surrogateescape")


def _folders(text: str | None) -> tuple[str, ...]:
    return tuple(text.split(":")) if text else ()


def _rodata(read: ReadAt, header: _Header) -> Iterator[Extent]:
    data = read(header.section_at, header.sections * _SECTION.size)
    sections = list(_SECTION.iter_unpack(data[: len(data) // _SECTION.size * _SECTION.size]))
    if header.names_index >= len(sections):
        return
    names = read(sections[header.names_index][4], _MOST_STRING_BYTES)
    for section in sections:
        at, offset, size = section[0], section[4], section[5]
        if names[at : at + 7] == b".rodata":
            yield Extent(offset, size)


def _machine(number: int) -> str:
    return _MACHINES.get(number, f"machine {number}")


def _refused(message: str, path: str) -> ParseError:
    expected = "an executable or a shared library"
    return ParseError(message, tool="ELF file", line_no=1, line=path, expected=expected)
