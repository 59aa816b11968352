"""Images of containers: where the file system lies in a SIF, and what `unsquashfs` lists.

Sources: apptainer/sif pkg/sif/sif.go and descriptor.go (header, descriptors); unsquashfs(1) of
squashfs-tools 4.5. `-lls` prints one line an entry: mode, owner, size, date, time, path, and the
target of a link.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from hpckit.errors import ParseError

LIST_ROOT: Final = "image"
"""In place of the folder into which the image would be unpacked."""

MOST_ENTRIES: Final = 4_000_000

_MAGIC: Final = b"hsqs"
_SIF_MAGIC: Final = b"SIF_MAGIC\0"
_SIF_MAGIC_AT: Final = 32
_SIF_HEADER: Final = struct.Struct("<32s10s3s3s16s8q")
_SIF_DESCRIPTOR: Final = struct.Struct("<iBIIIqq")
_SIF_DESCRIPTOR_BYTES: Final = 585
_SIF_PARTITION: Final = 0x4004
_SIF_PRIMARY: Final = 2
_SIF_PARTITION_KIND_AT: Final = 205
_MOST_DESCRIPTORS: Final = 1024
_ENTRY: Final = re.compile(
    r"(?P<kind>[-dlbcps])[-rwxsStT]{9} \S+ +(?P<size>[\d,]+) \d{4}-\d\d-\d\d \d\d:\d\d "
    + LIST_ROOT
    + r"(?P<path>/.*)?",
    re.ASCII | re.DOTALL,
)
_ARROW: Final = " -> "


@dataclass(frozen=True, slots=True)
class ImageTree:
    """The entries of an image: sizes of files and targets of links by path, names by folder."""

    sizes_bytes: dict[str, int] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    folders: dict[str, list[str]] = field(default_factory=lambda: {"/": []})


def squashfs_offset(read: Callable[[int, int], bytes], path: str) -> int:
    """Where the file system begins in a squashfs file (0) or a SIF; raises ParseError."""
    if read(0, len(_MAGIC)) == _MAGIC:
        return 0
    header = read(0, _SIF_HEADER.size)
    if header[_SIF_MAGIC_AT : _SIF_MAGIC_AT + len(_SIF_MAGIC)] != _SIF_MAGIC:
        raise _refused("it is neither a squashfs nor a SIF", path)
    if len(header) < _SIF_HEADER.size:
        raise _refused("it ends within its header", path)
    total, descriptors_at = _SIF_HEADER.unpack(header)[8:10]
    found: dict[bool, int] = {}
    for index in range(min(max(total, 0), _MOST_DESCRIPTORS)):
        data = read(descriptors_at + index * _SIF_DESCRIPTOR_BYTES, _SIF_DESCRIPTOR_BYTES)
        if len(data) < _SIF_DESCRIPTOR_BYTES:
            break
        kind, is_used, _, _, _, offset, _ = _SIF_DESCRIPTOR.unpack_from(data)
        if kind == _SIF_PARTITION and is_used and read(offset, len(_MAGIC)) == _MAGIC:
            found.setdefault(data[_SIF_PARTITION_KIND_AT] == _SIF_PRIMARY, int(offset))
    if found:
        return found[max(found)]
    raise _refused("it has no squashfs that can be read (an encrypted or ext3 one cannot)", path)


def list_argv(image: str, offset: int) -> tuple[str, ...]:
    """The command that lists an image."""
    return ("unsquashfs", "-o", str(offset), "-d", LIST_ROOT, "-lls", image)


def extract_argv(image: str, offset: int, folder: str, path: str) -> tuple[str, ...]:
    """The command that unpacks one file of an image below a folder, with nobody's rights.

    unsquashfs takes a path for a pattern, so what is special in one is escaped.
    """
    escaped = re.sub(r"([\\*?\[\]()|!+@])", r"\\\1", path.lstrip("/"))
    quiet = ("-n", "-q", "-f", "-no-xattrs")
    return ("unsquashfs", *quiet, "-o", str(offset), "-d", folder, image, escaped)


def parse_squashfs_list(text: str) -> ImageTree:
    """The entries of an image, from `unsquashfs -lls`; raises ParseError.

    What stands before the first entry is said about the image. A line that is none belongs to the
    name before it, which has a line end in it: no library has such a name.
    """
    tree = ImageTree()
    count = 0
    for line in text.split("\n"):
        found = _ENTRY.fullmatch(line)
        if found is None:
            continue
        count += 1
        if count > MOST_ENTRIES:
            raise _refused(f"it has more than {MOST_ENTRIES} entries", "")
        if found["path"]:
            _add(tree, found["kind"], found["path"], int(found["size"].replace(",", "")))
    if not count:
        raise _refused("the list has no entry", text[:80])
    return tree


def _add(tree: ImageTree, kind: str, path: str, size: int) -> None:
    if kind == "l":
        path, _, target = path.partition(_ARROW)
        tree.links[path] = target
    elif kind == "d":
        tree.folders.setdefault(path, [])
    elif kind == "-":
        tree.sizes_bytes[path] = size
    folder, _, name = path.rpartition("/")
    tree.folders.setdefault(folder or "/", []).append(name)


def _refused(message: str, path: str) -> ParseError:
    expected = "an image of enroot (.sqsh) or apptainer (.sif)"
    return ParseError(message, tool="image", line_no=1, line=path, expected=expected)
