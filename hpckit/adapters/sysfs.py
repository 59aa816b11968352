"""Small files below a root such as / or a recorded tree, read as text, only those asked for.

What is absent, unreadable or vanishes meanwhile is absent from the answer: a node is read as far
as it can be. Nothing is waited for: only regular files are read, each with few calls.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Final

from hpckit.model.file_tree import FileTree
from hpckit.model.index_list import expand_indices
from hpckit.parse.sysfs_tree import followed

MOST_BYTES: Final = 64 * 1024
"""Of one file; /proc/cpuinfo of many CPUs is longer, and its head says all that is asked."""

MOST_FILES: Final = 100_000
_PAGE: Final = 4096
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NOCTTY
_WILD: Final = re.compile(r"[*\[]")
_CPU: Final = re.compile(r"(?:^|/)cpu(\d{1,6})(?:/|$)", re.ASCII)
_SIGN: Final = re.compile(r"([?!~])")
_CHOICE: Final = re.compile(r"\{([^{}]*)\}")


def read_tree(root: Path, patterns: Iterable[str]) -> FileTree:
    """The files below `root` that match; hpckit.parse.sysfs_patterns says what a pattern is.

    Paths in the answer are relative to `root`. In a root other than / links are followed as if it
    were /, so nothing outside it is read. A file is taken up to 64 KiB, as UTF-8 with what is none
    kept as surrogates.
    """
    reader = _Reader(os.fspath(root))
    for pattern in patterns:
        reader.read(pattern)
    return FileTree(texts=reader.texts, links=reader.links)


class SysfsFiles:
    """The files of the system below a root."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, patterns: Sequence[str]) -> FileTree:
        """The files and links that match, by their path from the root."""
        return read_tree(self._root, patterns)


class _Reader:
    def __init__(self, root: str) -> None:
        self.texts: dict[str, str] = {}
        self.links: dict[str, str] = {}
        self._is_whole = os.path.realpath(root) == "/"
        self._root = "" if self._is_whole else os.path.realpath(root)
        self._names: dict[str, tuple[str, ...]] = {}
        self._targets: dict[str, str | None] = {}
        self._places: dict[str, str | None] = {"": self._root}
        self._linked: set[str] = set()
        self._spared: set[str] = set()

    def read(self, pattern: str) -> None:
        """Take what one pattern matches."""
        body, sign, other = (*_SIGN.split(pattern, maxsplit=1), "", "")[:3]
        *above, last = body.split("/")
        plain = None if _WILD.search(last) else _choices(last)
        for folder in self._chosen(self._folders(above), sign, other):
            place = self._place(folder)
            if place is not None:
                names = self._matching(folder, last) if plain is None else plain
                self._take_all(folder, place, names, last)

    def _chosen(self, folders: list[str], sign: str, other: str) -> list[str]:
        if not sign:
            return folders
        if sign != "~":
            return [one for one in folders if self._holds(_joined(one, other)) is (sign == "?")]
        chosen, told = [], set[int]()
        for folder in folders:
            listed = _joined(folder, other)
            if _cpu_of(folder) in told:
                self._spared.add(listed)
                continue
            chosen.append(folder)
            place = self._place(folder)
            if place is not None and not self._holds(listed):
                self._take_all(folder, place, [other], other)
            told.update(_indices(self.texts.get(listed, "")))
        return chosen

    def _holds(self, path: str) -> bool:
        return path in self.texts or path in self.links or path in self._spared

    def _folders(self, parts: list[str]) -> list[str]:
        found = [""]
        for part in parts:
            plain = None if _WILD.search(part) else _choices(part)
            found = [
                f"{folder}/{name}" if folder else name
                for folder in found
                for name in (self._matching(folder, part) if plain is None else plain)
            ]
        return found

    def _matching(self, folder: str, part: str) -> Iterable[str]:
        if part == "*":
            return self._listing(folder)
        pattern = _as_expression(part)
        return [name for name in self._listing(folder) if pattern.fullmatch(name)]

    def _listing(self, folder: str) -> tuple[str, ...]:
        names = self._names.get(folder)
        if names is None:
            place = self._place(folder)
            try:
                found = os.listdir(place or "/") if place is not None else []  # noqa: PTH208
            except OSError:
                found = []
            names = self._names[folder] = tuple(sorted(found))
        return names

    def _place(self, folder: str) -> str | None:
        """The path to open for a folder; None where its links lead in a circle."""
        if self._is_whole:
            return f"/{folder}" if folder else ""
        if folder not in self._places:
            above, _, name = folder.rpartition("/")
            start = self._place(above)
            start = start if start is None else start[len(self._root) + 1 :]
            real = start if start is None else self._entered(start, name)
            self._places[folder] = real if real is None else f"{self._root}/{real}".rstrip("/")
        return self._places[folder]

    def _entered(self, start: str, name: str) -> str | None:
        """Where a name leads from a folder in which no link is left; most lead nowhere else."""
        here = f"{start}/{name}" if start else name
        is_plain = name not in {"", ".", ".."} and self._target(here) is None
        return here if is_plain else followed(name, self._target, start=start)

    def _target(self, here: str) -> str | None:
        if here not in self._targets:
            self._targets[here] = _link_target(f"{self._root}/{here}")
        return self._targets[here]

    def _take_all(self, folder: str, place: str, names: Iterable[str], last: str) -> None:
        """Read files of one folder, from it, so that the kernel looks its path up once."""
        at = f"{folder}/" if folder else ""
        room = max(MOST_FILES - len(self.texts) - len(self.links), 0)
        wanted = [name for name in names if not self._holds(at + name)][:room]
        if not wanted:
            return
        try:
            above = os.open(place or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except (OSError, ValueError):
            return
        try:
            for name in wanted:
                self._take(at + name, name, above, last if "*" in last else name)
        finally:
            os.close(above)

    def _take(self, path: str, name: str, above: int, kind: str) -> None:
        # What was a link in the folder before is one in this: no open is in vain.
        is_link = kind in self._linked
        target = _link_target(name, above) if is_link else None
        text = _text(name, above) if target is None else None
        if text is not None:
            self.texts[path] = text
            return
        target = target or (None if is_link else _link_target(name, above))
        if target is not None:
            self.links[path] = target
            self._linked.add(kind)


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _cpu_of(folder: str) -> int | None:
    found = _CPU.search(folder)
    return int(found[1]) if found else None


def _indices(text: str) -> tuple[int, ...]:
    """The CPUs of a list; none of what is no list, which the parser will refuse."""
    try:
        return expand_indices(text)
    except ValueError:
        return ()


def _choices(part: str) -> list[str]:
    pieces = _CHOICE.split(part)
    options = [piece.split(",") if at % 2 else [piece] for at, piece in enumerate(pieces)]
    return ["".join(chosen) for chosen in product(*options)]


def _as_expression(part: str) -> re.Pattern[str]:
    pieces = re.split(r"(\*|\[0-9\])", part)
    wild = {"*": ".*", "[0-9]": "[0-9]"}
    return re.compile("".join(wild.get(piece) or re.escape(piece) for piece in pieces), re.DOTALL)


def _link_target(place: str, above: int | None = None) -> str | None:
    try:
        return os.readlink(place, dir_fd=above)
    except OSError:
        return None


def _text(name: str, above: int) -> str | None:
    """What a regular file of a folder holds; None for anything else, and what cannot be read."""
    try:
        file = os.open(name, _FLAGS, dir_fd=above)
    except (OSError, ValueError):
        return None
    try:
        data = os.read(file, MOST_BYTES)
        # What is no file gives nothing to who does not wait, or an error: a FIFO, a folder.
        if not data and not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        # sysfs hands out a page at a time (fs/kernfs/file.c); one that is not full is the last.
        while data and len(data) % _PAGE == 0 and len(data) < MOST_BYTES:
            more = os.read(file, MOST_BYTES - len(data))
            if not more:
                break
            data += more
    except OSError:
        return None
    finally:
        os.close(file)
    return data.decode("utf-8", "surrogateescape")
