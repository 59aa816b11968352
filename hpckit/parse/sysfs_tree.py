"""A /sys and /proc held in memory: read through its links, whether live or from an archive.

A live reading holds `sys/class/net/eth0/speed` under that name; an archive holds it where the link
`sys/class/net/eth0` points. Both are found under either name.
"""

from __future__ import annotations

import re
from typing import Final

from hpckit.errors import ParseError
from hpckit.model.file_tree import FileTree
from hpckit.model.hostlist import natural_order
from hpckit.model.index_list import EXPECTED, expand_indices, indices_of_mask
from hpckit.parse.excerpt import refusal
from hpckit.parse.linked_paths import LinkedPaths, beyond

MOST_FOLDERS: Final = 1 << 17
"""That files lie in or below: four each of 8,192 CPUs, six each of 16,384 PCI devices."""

_EMPTY: Final[dict[str, None]] = {}
_INTEGER: Final = re.compile(r"-?\d{1,9}", re.ASCII)
_LONGEST_NAME: Final = 200


class SysfsTree:
    """Files by path from the root, `sys/...` and `proc/...`; links are followed inside the tree.

    Raises ParseError for more folders than a node has.
    """

    def __init__(self, tree: FileTree) -> None:
        self._texts = tree.texts
        self._links = tree.links
        self._ways = LinkedPaths(tree.links.get)
        self._folders: dict[str, dict[str, None]] = {}
        for paths in (tree.texts, tree.links):
            for path in paths:
                self._enter(path)

    def _enter(self, path: str) -> None:
        while path:
            path, _, name = path.rpartition("/")
            folder = self._folders.get(path)
            if folder is not None:
                folder[name] = None
                return
            self._folders[path] = {name: None}
            if len(self._folders) > MOST_FOLDERS:
                expected = f"at most {MOST_FOLDERS}, the tree of one node"
                raise _refuse("there are too many folders", printable(path), expected)

    def real(self, path: str) -> str:
        """Where a path leads, with every link on the way followed; `..` stays below the root."""
        found = self._ways.real(path)
        return path if found is None else found

    def text(self, path: str) -> str | None:
        """What a file holds, None where it is absent."""
        found = self._texts.get(path)
        if found is None:
            here = self._beside(path)
            found = self._texts.get(here)
            if found is None and here in self._links:
                found = self._texts.get(self.real(here))
        return found

    def _beside(self, path: str) -> str:
        """A path whose folder is the one that its links lead to."""
        folder, _, name = path.rpartition("/")
        real = self.real(folder)
        return f"{real}/{name}" if real else name

    def line(self, path: str) -> str | None:
        """The first line of a file without its blanks, None where it is absent or empty."""
        text = self.text(path)
        return text.lstrip().partition("\n")[0].strip(" \t\r\0") or None if text else None

    def word(self, path: str) -> str | None:
        """A line that is shown to people: what cannot be printed is `?`, and 200 signs at most."""
        found = self.line(path)
        return found and printable(found)

    def link(self, path: str) -> str | None:
        """Where a link leads, as a path from the root; None where there is none."""
        here = self._beside(path)
        target = self._links.get(path) or self._links.get(here)
        if target is None:
            return None
        return self.real(beyond(here.rpartition("/")[0], target))

    def linked_name(self, path: str) -> str | None:
        """The last name of where a link leads, such as a driver's."""
        found = self.link(path)
        return printable(found.rpartition("/")[2]) if found else None

    def names(self, folder: str) -> list[str]:
        """What lies in a folder, as people count: `cpu2` before `cpu10`."""
        real = self.real(folder)
        found = self._folders.get(folder, _EMPTY)
        if real != folder:
            found = found | self._folders.get(real, _EMPTY)
        return sorted(found, key=natural_order) if len(found) > 1 else list(found)

    def has(self, path: str) -> bool:
        """Whether there is such a file, link or folder."""
        return any(
            one in self._texts or one in self._links or one in self._folders
            for one in (path, self._beside(path))
        )

    def integer(self, path: str) -> int | None:
        """The number that a file holds, None where it is absent; raises ParseError."""
        line = self.line(path)
        if line is None:
            return None
        if not _INTEGER.fullmatch(line):
            raise self.refuse(path, line, "an integer")
        return int(line)

    def indices(self, path: str) -> tuple[int, ...] | None:
        """The list that a file holds, None where it is absent; raises ParseError."""
        text = self.text(path)
        if text is None:
            return None
        line = text.strip()
        try:
            return expand_indices(line)
        except ValueError as error:
            raise self.refuse(path, line, EXPECTED) from error

    def mask(self, path: str) -> tuple[int, ...] | None:
        """The indices of the mask that a file holds, None where it is absent; raises ParseError."""
        line = self.line(path)
        if line is None:
            return None
        try:
            return indices_of_mask(line)
        except ValueError as error:
            raise self.refuse(path, line, "a mask such as 000000ff,ffffffff") from error

    def refuse(self, path: str, line: str, expected: str) -> ParseError:
        """The error that says what a file holds instead of what its format promises."""
        message = f"{printable(path)} holds what is not understood"
        return _refuse(message, line.partition("\n")[0], expected)


def _refuse(message: str, line: str, expected: str) -> ParseError:
    return refusal(message, tool="sysfs", line_no=1, line=line, expected=expected)


def printable(text: str) -> str:
    """A name or description that can be shown and written as JSON."""
    shown = text[:_LONGEST_NAME]
    if shown.isprintable():
        return shown
    return "".join(char if char.isprintable() else "?" for char in shown)


def placed(tree: FileTree, prefix: str, onto: str = "") -> FileTree:
    """What lies below `prefix`, as if that were `onto`; both end with a slash or are empty."""
    if prefix == onto:
        return tree
    size = len(prefix)
    return FileTree(
        texts={onto + p[size:]: text for p, text in tree.texts.items() if p.startswith(prefix)},
        links={onto + p[size:]: to for p, to in tree.links.items() if p.startswith(prefix)},
    )
