"""Trees of /sys under tests/records, and any tree packed as tar(1) packs it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable

from hpckit.core.file_tree import FileTree
from tests.fakes.slurm_records import RECORDS


def record_tree(version: str, case: str) -> FileTree:
    """A record, whose lines are `PATH = TEXT` or `LINK -> TARGET`."""
    texts, links = {}, {}
    for line in (RECORDS / version / case / "tree.txt").read_text().splitlines():
        path, sign, value = line.partition(" = ") if " = " in line else line.partition(" -> ")
        if sign == " -> ":
            links[path] = value
        elif value.startswith("HEX "):
            data = bytes.fromhex(value.removeprefix("HEX "))
            texts[path] = data.decode("utf-8", "surrogateescape")
        else:
            text = value.replace("\\n", "\n").replace("\\t", "\t").replace("\\0", "\0")
            texts[path] = f"{text}\n"
    return FileTree(texts=texts, links=links)


def packed(tree: FileTree, *, below: str = "", mode: str = "w:gz") -> bytes:
    """A tar archive of a tree; `mode` is tarfile's."""
    members = [_file(below + path, text) for path, text in tree.texts.items()]
    members += [_link(below + path, target) for path, target in tree.links.items()]
    return packed_members(members, mode=mode)


def packed_members(members: Iterable[tuple[tarfile.TarInfo, bytes]], *, mode: str = "w") -> bytes:
    """A tar archive of these members, each with its data."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:  # type: ignore[call-overload]
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


def _file(path: str, text: str) -> tuple[tarfile.TarInfo, bytes]:
    data, info = text.encode("utf-8", "surrogateescape"), tarfile.TarInfo(path)
    info.size = len(data)
    return info, data


def _link(path: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(path)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info, b""
