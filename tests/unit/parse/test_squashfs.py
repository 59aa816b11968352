"""Where an image's file system lies, and what is in it."""

from __future__ import annotations

import struct

import pytest

from hpckit.errors import ParseError
from hpckit.parse.elf import ReadAt
from hpckit.parse.squashfs import extract_argv, parse_squashfs_list, squashfs_offset

SQUASHFS = b"hsqs" + bytes(60)
PARTITION = 0x4004


def reader(data: bytes) -> ReadAt:
    """Reads from bytes as from a file."""
    return lambda at, size: data[at : at + size] if at >= 0 else b""


def sif(*parts: tuple[int, int, bytes]) -> bytes:
    """A SIF with these data types, kinds of partition and contents: synthetic, by sif.go."""
    data_at = 4096 + 585 * len(parts)
    header = struct.pack(
        "<32s10s3s3s16s8q",
        b"#!/usr/bin/env run-singularity\n",
        b"SIF_MAGIC",
        b"01",
        b"02",
        bytes(16),
        *(0, 0, 0, len(parts), 4096, 585 * len(parts), data_at, 0),
    )
    descriptors, contents = b"", b""
    for number, (kind, partition, content) in enumerate(parts, start=1):
        at = data_at + len(contents)
        fields = struct.pack(
            "<iBIIIqqqqqqq", kind, 1, number, 1, 0, at, len(content), 0, 0, 0, 0, 0
        )
        descriptors += fields + bytes(128) + struct.pack("<ii", 1, partition).ljust(384, b"\0")
        contents += content
    return header.ljust(4096, b"\0") + descriptors + contents


def test_a_squashfs_begins_at_once() -> None:
    """Enroot's images are nothing else."""
    assert squashfs_offset(reader(SQUASHFS), "x.sqsh") == 0


def test_the_system_of_a_sif_is_found_behind_other_parts() -> None:
    """The primary partition counts, wherever it stands; a definition file before it does not."""
    data = sif(
        (0x4001, 0, b"Bootstrap: docker"), (PARTITION, 4, SQUASHFS), (PARTITION, 2, SQUASHFS)
    )
    at = squashfs_offset(reader(data), "x.sif")
    assert at == len(data) - len(SQUASHFS)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"PK\x03\x04", "neither a squashfs nor a SIF"),
        (sif((PARTITION, 2, b"LUKS"))[:100], "ends within its header"),
        (sif((PARTITION, 2, b"LUKS\xba\xbe")), "no squashfs that can be read"),
        (sif((PARTITION, 2, SQUASHFS))[:4200], "no squashfs that can be read"),
    ],
    ids=["zip", "header", "encrypted", "descriptors"],
)
def test_what_is_no_image_is_refused(data: bytes, words: str) -> None:
    """An archive, a SIF that is cut short, and an encrypted one are ParseError."""
    with pytest.raises(ParseError, match=words):
        squashfs_offset(reader(data), "x")


def test_the_list_is_files_links_and_folders() -> None:
    """Sizes by path, targets by path, names by folder."""
    tree = parse_squashfs_list(
        "Parallel unsquashfs: Using 2 processors\n"
        "drwxr-xr-x root/root                24 2026-11-24 03:25 image\n"
        "drwxr-xr-x 0/0                      47 2026-11-24 03:25 image/usr lib\n"
        "lrwxrwxrwx root/root                 9 2026-11-24 03:25 image/usr lib/a -> b.so.1\n"
        "-rw-r--r-- root/root              1234 2026-11-24 03:25 image/usr lib/b.so.1\n"
        "crw-rw-rw- root/root             1,  3 2026-11-24 03:25 image/null\n"
    )
    assert tree.sizes_bytes == {"/usr lib/b.so.1": 1234}
    assert tree.links == {"/usr lib/a": "b.so.1"}
    assert tree.folders == {"/": ["usr lib"], "/usr lib": ["a", "b.so.1"]}


def test_an_answer_without_entries_is_refused() -> None:
    """What is no list is ParseError."""
    with pytest.raises(ParseError, match="no entry"):
        parse_squashfs_list("FATAL ERROR: Can't find a valid SQUASHFS superblock\n")


def test_a_path_is_no_pattern() -> None:
    """What unsquashfs would take for one is escaped."""
    assert extract_argv("/i", 0, "/d", "/a[1]*.so")[-1] == r"a\[1\]\*.so"
