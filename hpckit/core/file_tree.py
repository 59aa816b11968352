"""A tree of small text files, such as /sys, held in memory: live or from a tarball."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final

from hpckit.core.values import dataclass


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


class LinkedPaths:
    """Paths from the root without a leading slash; links are followed as if the root were `/`.

    `target_of` gives the target of a link by a path without links, None for what is none.
    """

    def __init__(self, target_of: Callable[[str], str | None]) -> None:
        self._target_of = target_of
        self._folders: dict[str, tuple[str, int] | None] = {"": ("", 0)}

    def real(self, path: str) -> str | None:
        """Where a path leads; `..` stays below the root.

        None is a circle, more links than Linux follows, or a way of more than 96 names.
        """
        try:
            way = self._folder(path, 0)
        except RecursionError:
            return None
        return None if way is None else way[0]

    def _way(self, path: str, depth: int) -> tuple[str, int] | None:
        """Return the path without links, and how many links were followed to it."""
        if path in self._folders:
            return self._folders[path]
        if depth > MOST_HOPS or path.count("/") >= MOST_NAMES:
            return None
        folder, _, name = path.rpartition("/")
        way = self._folder(folder, depth)
        if way is None or name in {"", "."}:
            return way
        base, hops = way
        if name == "..":
            return base.rpartition("/")[0], hops
        here = f"{base}/{name}" if base else name
        target = self._target_of(here)
        if target is None:
            return here, hops
        way = self._way(beyond(base, target), depth + 1)
        return None if way is None or hops + way[1] >= MOST_HOPS else (way[0], hops + way[1] + 1)

    def _folder(self, path: str, depth: int) -> tuple[str, int] | None:
        """Return the way of a folder, which is kept unless it was cut off."""
        way = self._way(path, depth)
        if way is not None or depth == 0:
            self._folders[path] = way
        return way


def beyond(folder: str, target: str) -> str:
    """The path that a link in a folder without links stands for; its first `..` are gone."""
    if target.startswith("/"):
        return target[1:]
    while target == ".." or target.startswith("../"):
        folder, target = folder.rpartition("/")[0], target[3:]
    return f"{folder}/{target}".strip("/")
