"""Ways through links that are found once are those of Linux."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hpckit.core.file_tree import LinkedPaths

names = st.sampled_from(["a", "b", "c", "..", "."])
paths = st.lists(names, min_size=1, max_size=5).map("/".join)


@given(
    folders=st.lists(paths, max_size=6),
    links=st.lists(st.tuples(paths, paths), max_size=6),
    asked=st.lists(paths, min_size=1, max_size=12),
)
def test_a_way_leads_where_the_kernel_goes(
    folders: list[str], links: list[tuple[str, str]], asked: list[str]
) -> None:
    """What is asked before makes no difference; where the kernel finds nothing, nothing is said."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        _make(root, folders, links)
        inside = {
            str(place.relative_to(root)): str(place.readlink())
            for place in root.rglob("*")
            if place.is_symlink()
        }
        ways = LinkedPaths(inside.get)
        for path in asked:
            expected = _chrooted(root, path)
            if expected is not None:
                assert ways.real(path) == expected


def _make(root: Path, folders: list[str], links: list[tuple[str, str]]) -> None:
    for folder in folders:
        place = Path(os.path.normpath(f"/{folder}"))
        (root / place.relative_to("/")).mkdir(parents=True, exist_ok=True)
    for path, target in links:
        place = root / Path(os.path.normpath(f"/{path}")).relative_to("/")
        if place != root and place.parent.is_dir() and not os.path.lexists(place):
            place.symlink_to(target)


def _chrooted(root: Path, path: str) -> str | None:
    """Where the kernel ends, one name at a time so that `..` stays below the root."""
    todo, here = path.split("/")[::-1], root
    for _ in range(200):
        if not todo:
            return "" if here == root else str(here.relative_to(root))
        name = todo.pop()
        if name == "..":
            here = here if here == root else here.parent
        elif name != ".":
            if (here / name).is_symlink():
                todo += str((here / name).readlink()).split("/")[::-1]
            elif (here / name).is_dir():
                here /= name
            else:
                return None
    return None
