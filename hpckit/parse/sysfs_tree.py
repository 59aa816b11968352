"""A /sys and /proc held in memory: read through its links, whether live or from an archive.

A live reading holds `sys/class/net/eth0/speed` under that name; an archive holds it where the link
`sys/class/net/eth0` points. Both are found under either name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from hpckit.errors import ParseError
from hpckit.model.file_tree import FileTree
from hpckit.model.hostlist import natural_order
from hpckit.model.index_list import EXPECTED, expand_indices, indices_of_mask
from hpckit.parse.excerpt import refusal

MOST_HOPS: Final = 40
"""Links on one way: Linux follows as many (path_resolution(7))."""

_MOST_STEPS: Final = 1024
"""Names on one way, far more than any in /sys: a circle of links ends somewhere."""

_STEPS: Final = frozenset({"", ".", ".."})

_Folder: TypeAlias = "dict[str, _Folder]"

_INTEGER: Final = re.compile(r"-?\d{1,9}", re.ASCII)
_LONGEST_NAME: Final = 200


class SysfsTree:
    """Files by path from the root, `sys/...` and `proc/...`; links are followed inside the tree."""

    def __init__(self, tree: FileTree) -> None:
        self._texts = tree.texts
        self._links = tree.links
        self._real: dict[str, str] = {"": ""}
        self._top: _Folder = {}
        folders: dict[str, _Folder] = {"": self._top}
        for paths in (tree.texts, tree.links):
            for path in paths:
                above, _, name = path.rpartition("/")
                folder = folders.get(above)
                if folder is None:
                    folder = folders[above] = self._entered(above)
                folder.setdefault(name, {})

    def _entered(self, path: str) -> _Folder:
        folder = self._top
        for name in path.split("/"):
            folder = folder.setdefault(name, {})
        return folder

    def _folder(self, path: str) -> _Folder:
        folder = self._top
        for name in path.split("/") if path else ():
            below = folder.get(name)
            if below is None:
                return {}
            folder = below
        return folder

    def real(self, path: str) -> str:
        """Where a path leads, with every link on the way followed; `..` stays below the root."""
        found = self._real.get(path)
        if found is None:
            folder, _, name = path.rpartition("/")
            base = self._real.get(folder)
            here = f"{base}/{name}" if base else name
            is_plain = base is not None and here not in self._links
            if not is_plain or name in _STEPS:
                here = followed(path, self._links.get) or path
            found = self._real[path] = here
        return found

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
        return self.real(target if target.startswith("/") else f"{here}/../{target}")

    def linked_name(self, path: str) -> str | None:
        """The last name of where a link leads, such as a driver's."""
        found = self.link(path)
        return printable(found.rpartition("/")[2]) if found else None

    def names(self, folder: str) -> list[str]:
        """What lies in a folder, as people count: `cpu2` before `cpu10`."""
        found = self._folder(folder).keys() | self._folder(self.real(folder)).keys()
        return sorted(found, key=natural_order)

    def has(self, path: str) -> bool:
        """Whether there is such a file, link or folder."""
        return any(
            one in self._texts or one in self._links or bool(self._folder(one))
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
        shown = line.partition("\n")[0]
        return refusal(message, tool="sysfs", line_no=1, line=shown, expected=expected)


def followed(path: str, target_of: Callable[[str], str | None], *, start: str = "") -> str | None:
    """Where a path from the folder `start` leads, links being followed as if the root were `/`.

    `start` has no link in it; `target_of` gives the target of a link, None for what is none. None
    is a circle, or more links than Linux follows.
    """
    todo, done, hops = path.split("/")[::-1], start, 0
    for _ in range(_MOST_STEPS):
        if not todo:
            return done
        name = todo.pop()
        if name in {"", "."}:
            continue
        if name == "..":
            done = done.rpartition("/")[0]
            continue
        here = f"{done}/{name}" if done else name
        target = target_of(here)
        if target is None:
            done = here
            continue
        hops += 1
        if hops > MOST_HOPS:
            return None
        done = "" if target.startswith("/") else done
        todo.extend(target.split("/")[::-1])
    return None


def printable(text: str) -> str:
    """A name or description that can be shown and written as JSON."""
    return "".join(char if char.isprintable() else "?" for char in text[:_LONGEST_NAME])


def placed(tree: FileTree, prefix: str, onto: str = "") -> FileTree:
    """What lies below `prefix`, as if that were `onto`; both end with a slash or are empty."""
    if prefix == onto:
        return tree
    size = len(prefix)
    return FileTree(
        texts={onto + p[size:]: text for p, text in tree.texts.items() if p.startswith(prefix)},
        links={onto + p[size:]: to for p, to in tree.links.items() if p.startswith(prefix)},
    )
