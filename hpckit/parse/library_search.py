"""Where the dynamic loader looks for a library, and in which order.

Sources: ld.so(8); glibc elf/dl-load.c (_dl_map_object, decompose_rpath, fillin_rpath). For a name
without a slash: what is loaded already under it (LD_PRELOAD comes first of all); the RPATH of who
asks and of those that loaded it, unless who asks has a RUNPATH; LD_LIBRARY_PATH; the RUNPATH of who
asks; the cache; the default folders. So LD_LIBRARY_PATH loses against RPATH and wins over RUNPATH.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hpckit.model.nccl_found import SharedLibrary

MOST_FOLDERS: Final = 1000
"""Of one list: each is a question to a file system, and the longest list seen has 60."""

DEFAULT_FOLDERS: Final = {
    "x86_64": ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64"),
    "aarch64": ("/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64"),
    "ppc64le": ("/lib/powerpc64le-linux-gnu", "/usr/lib/powerpc64le-linux-gnu", "/lib64"),
}
"""By processor: Debian's loader has its own besides those of the others. Source: ld.so --help."""

_FALLBACK: Final = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")
_TOKEN: Final = re.compile(r"\$(?:\{(ORIGIN|LIB|PLATFORM)\}|(ORIGIN|LIB|PLATFORM)\b)")
_TRIPLETS: Final = {"ppc64le": "powerpc64le"}


class Place(NamedTuple):
    """A folder that is looked into, and by which rule."""

    folder: str
    how: str


def preloads(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The names and paths of LD_PRELOAD, which spaces or colons divide."""
    return tuple(re.split(r"[ :]+", environment.get("LD_PRELOAD", "").strip(" :")))[:MOST_FOLDERS]


def before_the_cache(
    chain: Sequence[SharedLibrary], environment: Mapping[str, str], workdir: str | None = None
) -> Iterator[Place]:
    """The folders that come before the cache, for what `chain[0]` asks for.

    `chain` is who asks, who loaded that, and so on up to the executable. A relative folder is one
    of `workdir`, and left out without it.
    """
    machine = chain[0].machine if chain else "x86_64"
    asking = chain[0] if chain else None
    if asking is None or asking.runpath is None:
        for one in chain:
            rpath = one.rpath if one.runpath is None else ()
            yield from _places(rpath, f"RPATH of {_name(one)}", one.path, workdir, machine)
    listed = tuple(re.split("[:;]", environment.get("LD_LIBRARY_PATH", "")))
    # An empty variable is none; an empty folder in a list is the one where the program runs.
    if any(listed):
        program = chain[-1].path if chain else ""
        yield from _places(listed, "LD_LIBRARY_PATH", program, workdir, machine)
    if asking is not None and asking.runpath is not None:
        how = f"RUNPATH of {_name(asking)}"
        yield from _places(asking.runpath, how, asking.path, workdir, machine)


def behind_the_cache(machine: str = "x86_64") -> Iterator[Place]:
    """The folders that the loader knows by itself."""
    for folder in DEFAULT_FOLDERS.get(machine, _FALLBACK):
        yield Place(folder, "default folder of the loader")


def cut_lists(environment: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each list that is too long to be looked through."""
    count = len(re.split("[:;]", environment.get("LD_LIBRARY_PATH", "")))
    if count > MOST_FOLDERS:
        yield f"LD_LIBRARY_PATH has {count} folders: only the first {MOST_FOLDERS} were looked into"


def _places(
    folders: Sequence[str], how: str, path: str, workdir: str | None, machine: str
) -> Iterator[Place]:
    for folder in folders[:MOST_FOLDERS]:
        for full in _expanded(folder, path, machine):
            if full.startswith("/"):
                yield Place(_plain(full), how)
            elif workdir is not None:
                yield Place(_plain(posixpath.join(workdir, full)), how)


def _expanded(folder: str, path: str, machine: str) -> tuple[str, ...]:
    """A folder with its tokens replaced; $LIB is another one on Debian."""
    if "$" not in folder:
        return (folder,)
    triplet = f"lib/{_TRIPLETS.get(machine, machine)}-linux-gnu"
    origin = posixpath.dirname(path)
    made = []
    for lib in ("lib64", triplet) if "LIB" in folder else ("",):
        values = {"ORIGIN": origin, "LIB": lib, "PLATFORM": machine}
        made.append(_TOKEN.sub(lambda found: values[found[1] or found[2]], folder))  # noqa: B023
    return tuple(made)


def _plain(folder: str) -> str:
    """Without an end that means nothing; `..` stays, for there may be links before it."""
    return folder.rstrip("/") or "/"


def _name(library: SharedLibrary) -> str:
    return posixpath.basename(library.path)
