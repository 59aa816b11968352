"""ELF files are read as readelf reads them, and hostile ones are refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
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


def test_without_section_headers_what_is_read_only_is_searched(tmp_path: Path) -> None:
    """A file that lost its section headers still runs, and still tells its constants."""
    data = bytearray(shared_library(tmp_path / "liba.so", "a constant of it").read_bytes())
    data[40:48] = bytes(8)
    data[60:64] = bytes(4)
    extents = constants(reader(bytes(data)), "liba.so")
    assert any(b"a constant of it\0" in data[at : at + size] for at, size in extents)


@pytest.mark.parametrize("data", [b"", b"#!/bin/sh\n", b"\x7fELF\x02\x02"])
def test_what_is_no_elf_file_is_refused(data: bytes) -> None:
    """A script, and a file of another byte order, are none."""
    with pytest.raises(ParseError, match="no 64-bit little-endian ELF file"):
        parse_elf(reader(data), "x")


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
