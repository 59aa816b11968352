"""ELF files are read as readelf reads them, and hostile ones are refused."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpckit.errors import ParseError
from hpckit.parse.elf import ReadAt, constants, parse_elf
from tests.fakes.nccl_tree import shared_library


def reader(data: bytes) -> ReadAt:
    """Reads from bytes as from a file: nothing before its start and behind its end."""
    return lambda at, size: data[at : at + size] if at >= 0 else b""


@pytest.mark.parametrize("is_runpath", [False, True])
def test_what_is_needed_and_where_it_is_looked_for_is_told(
    tmp_path: Path, *, is_runpath: bool
) -> None:
    """RPATH and RUNPATH are told apart, with the soname and what is needed."""
    needed = shared_library(tmp_path / "libb.so", soname="libb.so.1")
    rpath = "$ORIGIN/x:/y"
    made = shared_library(tmp_path / "liba.so", needed=needed, rpath=rpath, is_runpath=is_runpath)
    found = parse_elf(reader(made.read_bytes()), "liba.so")
    assert (found.soname, found.needed) == ("liba.so", ("libb.so.1",))
    folders = ("$ORIGIN/x", "/y")
    assert (found.rpath, found.runpath) == (((), folders) if is_runpath else (folders, None))


def test_readelf_agrees_about_this_python() -> None:
    """What binutils' own reader prints of the interpreter is what is read."""
    if shutil.which("readelf") is None:
        pytest.skip("no readelf here (binutils)")
    path = Path(sys.executable).resolve()
    done = subprocess.run(
        ["readelf", "-dW", str(path)], capture_output=True, text=True, check=True, env={}
    )
    needed = [line.split("[")[1][:-1] for line in done.stdout.splitlines() if "(NEEDED)" in line]
    assert list(parse_elf(reader(path.read_bytes()), str(path)).needed) == needed


def test_the_constants_hold_the_constants(tmp_path: Path) -> None:
    """A string of the source lies in the few bytes that are searched."""
    data = shared_library(tmp_path / "liba.so", "a constant of it").read_bytes()
    extents = constants(reader(data), "liba.so")
    assert any(b"a constant of it\0" in data[at : at + size] for at, size in extents)
    assert sum(size for _, size in extents) < len(data) / 4


@pytest.mark.parametrize("is_with_code", [False, True])
def test_without_section_headers_what_is_read_only_is_searched(
    tmp_path: Path, is_with_code: bool
) -> None:
    """Such a file still tells its constants, also from a segment that holds code, as NCCL's do."""
    data = bytearray(shared_library(tmp_path / "liba.so", "a constant of it").read_bytes())
    data[40:48] = bytes(8)
    data[60:64] = bytes(4)
    for at in range(64, 64 + 56 * data[56], 56):
        data[at + 4] |= is_with_code
    extents = constants(reader(bytes(data)), "liba.so")
    assert any(b"a constant of it\0" in data[at : at + size] for at, size in extents)


@pytest.mark.parametrize(
    "data", [b"", b"#!/bin/sh\n", b"\x7fELF\x02\x02"], ids=["empty", "script", "big-endian"]
)
def test_what_is_no_elf_file_is_refused(data: bytes) -> None:
    """A script, and a file of another byte order, are none."""
    with pytest.raises(ParseError, match="no 64-bit little-endian ELF file"):
        parse_elf(reader(data), "x")


def test_of_a_32_bit_file_the_processor_is_told() -> None:
    """The loader passes it over, so it is not refused."""
    data = b"\x7fELF\x01\x01".ljust(18, b"\0") + b"\x03\0"
    assert parse_elf(reader(data), "x").machine == "32-bit i386"


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [
        (54, b"\x20", "a program header has 32 bytes"),
        (32, b"\xff" * 8, "ends before its program headers do"),
    ],
    ids=["size", "place"],
)
def test_a_header_that_is_wrong_is_refused(
    tmp_path: Path, at: int, value: bytes, words: str
) -> None:
    """Headers of another size, and such behind the end."""
    data = bytearray(shared_library(tmp_path / "liba.so").read_bytes())
    data[at : at + len(value)] = value
    with pytest.raises(ParseError, match=words):
        parse_elf(reader(bytes(data)), "liba.so")


@pytest.mark.parametrize(
    ("tag", "replaced", "words"),
    [
        (5, struct.pack("<QQ", 5, 2**40), "its table of strings lies in no part of it"),
        (0, struct.pack("<QQ", 99, 0), "its dynamic section has no end"),
        (14, struct.pack("<QQ", 14, 2**40), "a name in it has no end"),
    ],
    ids=["strings", "end", "name"],
)
def test_a_dynamic_section_that_is_wrong_is_refused(
    tmp_path: Path, tag: int, replaced: bytes, words: str
) -> None:
    """Strings that lie nowhere, and a table without its end."""
    data = bytearray(shared_library(tmp_path / "liba.so").read_bytes())
    for at, size in _dynamic(data):
        for entry in range(at, at + size, 16):
            if struct.unpack_from("<Q", data, entry)[0] == tag:
                data[entry : entry + 16] = replaced
    with pytest.raises(ParseError, match=words):
        parse_elf(reader(bytes(data)), "liba.so")


def _dynamic(data: bytearray) -> Iterator[tuple[int, int]]:
    """Where the dynamic section lies."""
    at, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    for header in range(at, at + 56 * count, 56):
        kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", data, header)
        if kind == 2:
            yield offset, size


def test_a_file_without_a_dynamic_section_needs_nothing(tmp_path: Path) -> None:
    """So is a static executable."""
    data = bytearray(shared_library(tmp_path / "liba.so").read_bytes())
    data[56:58] = bytes(2)
    found = parse_elf(reader(bytes(data)), "liba.so")
    assert (found.needed, found.rpath, found.soname) == ((), (), None)


def test_a_file_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    """Wherever a file is cut, it is refused or what is left of it is told; nothing else happens."""
    needed = shared_library(tmp_path / "libb.so")
    data = shared_library(tmp_path / "liba.so", needed=needed, rpath="/x").read_bytes()
    refused = 0
    for size in range(0, len(data), 97):
        try:
            parse_elf(reader(data[:size]), "liba.so")
        except ParseError:
            refused += 1
    assert refused > 50
