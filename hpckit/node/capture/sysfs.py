"""Small files below a root such as / or a recorded tree, read as text, only those asked for.

What is absent, unreadable or vanishes meanwhile is absent from the answer: a node is read as far
as it can be. Nothing is waited for: only regular files are read, each with few calls.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Final

from hpckit.core.errors import ParseError
from hpckit.core.excerpt import refusal
from hpckit.core.file_tree import FileTree, LinkedPaths, beyond
from hpckit.core.hostlist import natural_order
from hpckit.core.index_list import EXPECTED, expand_indices, indices_of_mask
from hpckit.core.late import regex

MOST_BYTES: Final = 64 * 1024
"""Of one file; /proc/cpuinfo of many CPUs is longer, and its head says all that is asked."""

_PAGE: Final = 4096
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NOCTTY
_FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_WILD: Final = regex(r"[*\[]")
_CPU: Final = regex(r"(?:^|/)cpu(\d{1,6})(?:/|$)", re.ASCII)
_SIGN: Final = regex(r"([?!~^])")
_CHOICE: Final = regex(r"\{([^{}]*)\}")


class SysfsFiles:
    """The files of the system below a root; hpckit.node.capture.sysfs_files says what they are.

    In a root other than / links are followed as if it were /, so nothing outside it is read. A
    file is taken up to 64 KiB, as UTF-8 with what is none kept as surrogates.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, patterns: Iterable[str]) -> FileTree:
        """Return the files and links that match, by their path from the root."""
        reader = _Reader(os.fspath(self._root))
        for pattern in patterns:
            reader.read(pattern)
        return FileTree(texts=reader.texts, links=reader.links)


class _Reader:
    def __init__(self, root: str) -> None:
        self.texts: dict[str, str] = {}
        self.links: dict[str, str] = {}
        self._is_whole = os.path.realpath(root) == "/"
        self._root = "" if self._is_whole else os.path.realpath(root)
        self._names: dict[str, tuple[str, ...]] = {}
        self._matched: dict[tuple[str, str], list[str]] = {}
        self._targets: dict[str, str | None] = {}
        self._ways = LinkedPaths(self._target)
        self._linked: set[str] = set()
        self._spared: set[str] = set()

    def read(self, pattern: str) -> None:
        """Take what one pattern matches."""
        body, sign, other = (*_SIGN.split(pattern, maxsplit=1), "", "")[:3]
        *above, last = body.split("/")
        plain = None if _WILD.search(last) else _choices(last)
        for folder in self._chosen(self._folders(above), sign, other):
            names = self._matching(folder, last) if plain is None else plain
            self._take_all(folder, names, last)

    def _chosen(self, folders: list[str], sign: str, other: str) -> list[str]:
        if not sign:
            return folders
        if sign == "^":
            names = {one: self.links.get(one, "").rpartition("/")[2] for one in folders}
            return [one for one in folders if _joined(other, names[one]) not in self.links]
        if sign != "~":
            return [one for one in folders if self._holds(_joined(one, other)) is (sign == "?")]
        chosen, told = [], set[int]()
        for folder in folders:
            listed, cpu = _joined(folder, other), _CPU.search(folder)
            if cpu and int(cpu[1]) in told:
                self._spared.add(listed)
                continue
            chosen.append(folder)
            self._take_all(folder, [other], other)
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
        found = self._matched.get((folder, part))
        if found is None:
            pattern = _as_expression(part)
            found = [name for name in self._listing(folder) if pattern.fullmatch(name)]
            self._matched[(folder, part)] = found
        return found

    def _listing(self, folder: str) -> tuple[str, ...]:
        names = self._names.get(folder)
        if names is None:
            real = folder if self._is_whole else self._ways.real(folder)
            listed = [] if real is None else _entries(f"{self._root}/{real}")
            names = self._names[folder] = tuple(sorted(name for name, _ in listed))
            if not self._is_whole:
                plain = (name for name, is_link in listed if not is_link)
                self._targets |= dict.fromkeys((_joined(real or "", name) for name in plain), None)
        return names

    def _target(self, here: str) -> str | None:
        if here not in self._targets:
            told = self.links.get(here)
            self._targets[here] = told or _link_target(f"{self._root}/{here}")
        return self._targets[here]

    def _take_all(self, folder: str, names: Iterable[str], kind: str) -> None:
        """Read files of one folder, from it, so that the kernel looks its path up once."""
        at = f"{folder}/" if folder else ""
        wanted = [name for name in names if not self._holds(at + name)]
        above = self._opened(folder) if wanted else None
        if above is None:
            return
        try:
            for name in wanted:
                # What was a link in the folder before is one in this: no open is in vain.
                is_link = (kind if "*" in kind else name) in self._linked
                if is_link and self._take_link(at + name, name, above):
                    continue
                try:
                    self.texts[at + name] = _text(name, above)
                except OSError as error:
                    if error.errno == errno.ELOOP and self._take_link(at + name, name, above):
                        self._linked.add(kind if "*" in kind else name)
        finally:
            os.close(above)

    def _take_link(self, path: str, name: str, above: int) -> bool:
        target = _link_target(name, above)
        if target is not None:
            self.links[path] = target
        return target is not None

    def _opened(self, folder: str) -> int | None:
        """A folder to open files in; None where there is none, or its links lead in a circle."""
        if self._is_whole:
            return _folder_at(f"/{folder}", os.O_PATH)
        above, _, name = folder.rpartition("/")
        base = self._ways.real(above)
        here = _joined(base or "", name)
        if base is not None and not (self._targets.get(here) or here in self.links):
            # Most are no links; the kernel says so as it opens one.
            found = _folder_at(f"{self._root}/{here}", os.O_NOFOLLOW)
            if found is not None:
                return found
        real = self._ways.real(folder)
        return None if real is None else _folder_at(f"{self._root}/{real}", os.O_NOFOLLOW)


def _entries(path: str) -> list[tuple[str, bool]]:
    try:
        with os.scandir(path) as entries:
            return [(entry.name, entry.is_symlink()) for entry in entries]
    except OSError:
        return []


def _folder_at(path: str, flags: int) -> int | None:
    try:
        return os.open(path, _FOLDER | flags)
    except (OSError, ValueError):
        return None


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


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


def _text(name: str, above: int) -> str:
    """What a regular file of a folder holds. Raises OSError, ELOOP where it is a link."""
    file = os.open(name, _FLAGS, dir_fd=above)
    try:
        data = os.read(file, MOST_BYTES)
        # What is no file gives nothing to who does not wait, or an error: a FIFO, a folder.
        if not data and not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        # sysfs hands out a page at a time (fs/kernfs/file.c); one that is not full is the last.
        while data and len(data) % _PAGE == 0 and len(data) < MOST_BYTES:
            more = os.read(file, MOST_BYTES - len(data))
            if not more:
                break
            data += more
    finally:
        os.close(file)
    return data.decode("utf-8", "surrogateescape")


# A live reading holds `sys/class/net/eth0/speed` under that name; an archive holds it where the
# link `sys/class/net/eth0` points. Both are found under either name.
MOST_FOLDERS: Final = 1 << 17
"""That files lie in or below: four each of 8,192 CPUs, six each of 16,384 PCI devices."""

_EMPTY: Final[dict[str, None]] = {}
_INTEGER: Final = regex(r"-?\d{1,9}", re.ASCII)
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
                raise _refuse("too many folders", printable(path), expected)

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
        message = f"cannot read {printable(path)}"
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
