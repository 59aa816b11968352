"""A tree of small text files, such as /sys, held in memory: live or from a tarball."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTree:
    """Texts and symbolic links by their path from the root, without a leading slash.

    `links` holds targets as they are written, mostly relative to the link's folder. Only what was
    looked for is there; an absent path was not there or could not be read.
    """

    texts: Mapping[str, str]
    links: Mapping[str, str] = field(default_factory=dict)


MOST_HOPS: Final = 40
"""Links on one way: Linux follows as many (path_resolution(7))."""

MOST_NAMES: Final = 96
"""On one way, far more than any in /sys: what is made up to be long costs little time."""

MOST_CHARS: Final = 1 << 22
"""Of the folders that are remembered since ways lead through them; a node's take a tenth of it."""

_STEPS: Final = frozenset({"", ".", ".."})


class LinkedPaths:
    """Paths from the root without a leading slash; links are followed as if the root were `/`.

    `target_of` gives the target of a link by a path without links, None for what is none.
    """

    def __init__(self, target_of: Callable[[str], str | None]) -> None:
        self._target_of = target_of
        self._real: dict[str, str] = {"": ""}
        self._hops: dict[str, int] = {}
        self._endless: set[str] = set()
        self._room = MOST_CHARS

    def real(self, path: str) -> str | None:
        """Where a path leads; `..` stays below the root.

        None is a circle, more links than Linux follows, or a way of more than 96 names.
        """
        found = self._real.get(path)
        if found is None and path not in self._endless:
            found = self._below_known(path) or self._found(path)
            if found is None:
                self._endless.add(path)
        return found

    def _below_known(self, path: str) -> str | None:
        """Where most paths lead: to what is no link, in a folder that is known."""
        folder, _, name = path.rpartition("/")
        base = self._real.get(folder)
        if base is None or name in _STEPS:
            return None
        here = f"{base}/{name}" if base else name
        if self._target_of(here) is not None:
            return None
        if folder in self._hops:
            self._hops[path] = self._hops[folder]
        self._real[path] = here
        return here

    def _found(self, path: str) -> str | None:
        todo, hops, passed = path, 0, list[tuple[str, int]]()
        while hops <= MOST_HOPS and todo.count("/") < MOST_NAMES:
            passed.append((todo, hops))
            known, names = self._known(todo)
            hops += self._hops.get(known, 0)
            done, ahead = self._walked(self._real[known], names)
            if ahead is None:
                return self._kept(done, hops, passed)
            todo, hops = ahead, hops + 1
        return None

    def _known(self, path: str) -> tuple[str, list[str]]:
        """The longest beginning whose way is known, and the names after it, the last one first."""
        names = []
        while path not in self._real:
            path, _, name = path.rpartition("/")
            names.append(name)
        return path, names

    def _walked(self, done: str, names: list[str]) -> tuple[str, str | None]:
        """How far the names lead without a link, and the path to go on with at the first one."""
        while names:
            name = names.pop()
            if name in {"", "."}:
                continue
            if name == "..":
                done = done.rpartition("/")[0]
                continue
            here = f"{done}/{name}" if done else name
            target = self._target_of(here)
            if target is not None:
                return done, "/".join([beyond(done, target), *reversed(names)])
            done = here
            if self._room > 0:
                self._room -= len(here)
                self._real[here] = here
        return done, None

    def _kept(self, done: str, hops: int, passed: list[tuple[str, int]]) -> str | None:
        if hops > MOST_HOPS:
            return None
        for way, before in passed:
            self._real[way] = done
            if hops > before:
                self._hops[way] = hops - before
        return done


def beyond(folder: str, target: str) -> str:
    """The path that a link in a folder without links stands for; its first `..` are gone."""
    if target.startswith("/"):
        return target[1:]
    while target == ".." or target.startswith("../"):
        folder, target = folder.rpartition("/")[0], target[3:]
    return f"{folder}/{target}".strip("/")
