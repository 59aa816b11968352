"""The libraries in an image of a container: listed by unsquashfs, and unpacked one by one."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from hpckit.adapters.process import CommandResult, CommandRunner
from hpckit.errors import StorageFailed, ToolFailed, ToolMissing
from hpckit.model.nccl_found import LibraryStrings, SharedLibrary
from hpckit.parse.squashfs import (
    ImageTree,
    extract_argv,
    list_argv,
    parse_squashfs_list,
)
from hpckit.tune_ports import LibraryFiles

LIST_LIMIT_S: Final = 120.0
EXTRACT_LIMIT_S: Final = 120.0
ALL_LIMIT_S: Final = 300.0
"""For all runs of unsquashfs together: an image needs some tens of short ones."""
MOST_UNPACKED_BYTES: Final = 6 * 1024**3
"""Of all files together, for a while; PyTorch 2.0's libtorch_cuda.so alone has 1.3 GB."""

_MOST_LINKS: Final = 40
_NON_FATAL: Final = 2
_HINT: Final = "apt-get install squashfs-tools, or dnf install squashfs-tools"


class ImageLibraries:
    """The files of an image (.sqsh of enroot, .sif of apptainer); it is not mounted.

    Its file system begins at `offset`. What is read is unpacked below `folder`, which `unpacked`
    reads, and stays there until the caller removes it. unsquashfs may run for `all_limit_s`.
    """

    def __init__(
        self,
        image: Path,
        offset: int,
        runner: CommandRunner,
        unpacked: LibraryFiles,
        folder: Path,
        *,
        all_limit_s: float = ALL_LIMIT_S,
    ) -> None:
        self._image = image
        self._offset = offset
        self._runner = runner
        self._unpacked = unpacked
        self._folder = folder
        self._there: set[str] = set()
        self._left_bytes = MOST_UNPACKED_BYTES
        self._left_s = all_limit_s

    @property
    def place(self) -> str:
        """Where that is, in words."""
        return f"container image {self._image}"

    def names(self, folder: str) -> Sequence[str]:
        """The names in a folder, in order. Raises StorageFailed, ToolMissing, ToolFailed."""
        real = self.real(folder)
        return sorted(self._tree.folders.get(real, ())) if real is not None else ()

    def real(self, path: str) -> str | None:
        """The path without links, None where nothing is. Raises as `names`."""
        left = list(reversed(path.split("/")))
        done = "/"
        links = 0
        while left:
            part = left.pop()
            if part in ("", "."):
                continue
            there = posixpath.dirname(done) if part == ".." else posixpath.join(done, part)
            target = self._tree.links.get(there)
            if target is None:
                done = there
                continue
            links += 1
            if links > _MOST_LINKS:
                raise StorageFailed(f"{path} cannot be read: its links lead in a circle")
            done = "/" if target.startswith("/") else done
            left.extend(reversed(target.split("/")))
        is_there = done in self._tree.sizes_bytes or done in self._tree.folders
        return done if is_there else None

    def data(self, path: str, most_bytes: int) -> bytes | None:
        """What a file holds, None where there is none. Raises as `names`."""
        real = self.real(path)
        return None if real is None else self._unpacked.data(self._fetched(real), most_bytes)

    def library(self, path: str) -> SharedLibrary:
        """An executable or shared library. Raises as `names`, ParseError."""
        found = self._unpacked.library(self._fetched(self._real_file(path)))
        return SharedLibrary(
            path=path,
            machine=found.machine,
            soname=found.soname,
            needed=found.needed,
            rpath=found.rpath,
            runpath=found.runpath,
        )

    def strings(self, path: str) -> LibraryStrings:
        """What its constants tell. Raises as `library`."""
        return self._unpacked.strings(self._fetched(self._real_file(path)))

    @cached_property
    def _tree(self) -> ImageTree:
        argv = list_argv(str(self._image), self._offset)
        return parse_squashfs_list(self._run(argv, LIST_LIMIT_S).stdout)

    def _real_file(self, path: str) -> str:
        real = self.real(path)
        if real is None or real not in self._tree.sizes_bytes:
            raise StorageFailed(f"{path} cannot be read: it is no file of the image")
        return real

    def _fetched(self, real: str) -> str:
        """Unpack a file, unless it is there; gives its path below the folder."""
        size = self._tree.sizes_bytes.get(real)
        if size is None:
            raise StorageFailed(f"{real} cannot be read: it is no regular file")
        if real not in self._there:
            if size > self._left_bytes:
                raise StorageFailed(f"{real} was not unpacked: it has {size} bytes")
            self._left_bytes -= size
            argv = extract_argv(str(self._image), self._offset, str(self._folder), real)
            self._run(argv, EXTRACT_LIMIT_S)
            self._there.add(real)
        return real

    def _run(self, argv: Sequence[str], limit_s: float) -> CommandResult:
        if self._left_s <= 0:
            raise StorageFailed(f"nothing more of {self._image} was read: its time was spent")
        began_s = time.monotonic()
        try:
            result = self._runner.run(argv, min(limit_s, self._left_s))
        except ToolMissing as error:
            raise ToolMissing(f"{error.message}: it reads container images", hint=_HINT) from error
        finally:
            self._left_s -= time.monotonic() - began_s
        if result.returncode not in (0, _NON_FATAL):
            raise ToolFailed(argv, result.returncode, result.stderr or result.stdout)
        return result
