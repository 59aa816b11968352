"""Libraries looked up as the dynamic loader does it, in files that are only read."""

from __future__ import annotations

import posixpath
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final

from hpckit.errors import AdapterError, ParseError
from hpckit.model.comm import NcclVersion
from hpckit.model.nccl_found import LibraryStrings, NcclCandidate, SharedLibrary
from hpckit.parse.ld_cache import LD_CACHE, MOST_CACHE_BYTES, CacheEntry, parse_ld_cache
from hpckit.parse.library_search import Place, before_the_cache, behind_the_cache
from hpckit.parse.nccl_library import (
    PLUGIN_PREFIXES,
    library_of,
    name_version,
    wheel_root,
    wheel_version,
)
from hpckit.tune_ports import LibraryFiles

MOST_HITS: Final = 32
"""Files of one name that are looked at; the loader takes the first that fits."""

MOST_NEEDED: Final = 128
"""Libraries that a program needs, and those that they need, which are looked at."""

NO_LIBRARY: Final = "it is no shared library"
_CACHED: Final = "the loader's cache, /etc/ld.so.cache"
_SHELL: Final = "/bin/sh"
_BACK: Final = "/../"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A file of the name that was asked for; `unfit` is why it is not loaded.

    The loader passes one over that is made for another processor, or that it may not read. At any
    other that is unfit it `stops`, and nothing is loaded. Source: glibc elf/dl-load.c, open_verify
    and open_path.
    """

    path: str
    how: str
    library: SharedLibrary | None = None
    unfit: str | None = None
    stops: bool = False


class LibraryLookup:
    """Looks libraries up in one place; what gives no answer there becomes one of its `notes`."""

    def __init__(
        self, files: LibraryFiles, environment: Mapping[str, str], workdir: str | None
    ) -> None:
        self._files = files
        self._environment = environment
        self._workdir = workdir
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be read, a sentence each."""
        return tuple(self._notes)

    @cached_property
    def machine(self) -> str:
        """The processor that programs here are made for, by that of the shell."""
        shell = self.library(_SHELL)
        return shell.machine if shell else "x86_64"

    def hits(self, name: str, chain: Sequence[SharedLibrary]) -> list[Hit]:
        """The files of this name, in the loader's order, which loads the first that is fit."""
        return list(islice(self._each_hit(name, chain), MOST_HITS))

    def way_to(
        self, prefixes: tuple[str, ...], program: SharedLibrary
    ) -> tuple[SharedLibrary, ...]:
        """Who needs a library of these names, who needs that, and so on up to the program.

        Empty where neither the program nor a library that is found for it does. The loader goes
        breadth first: elf/dl-deps.c.
        """
        ways: deque[tuple[SharedLibrary, ...]] = deque([(program,)])
        asked: set[str] = set()
        while ways:
            way = ways.popleft()
            if any(name.startswith(prefixes) for name in way[0].needed):
                return way
            for name in way[0].needed:
                if name in asked or "/" in name or len(asked) >= MOST_NEEDED:
                    continue
                asked.add(name)
                hit = next((one for one in self._each_hit(name, way) if one.unfit is None), None)
                if hit is not None and hit.library is not None:
                    ways.append((hit.library, *way))
        return ()

    def hit_at(self, path: str, how: str) -> Hit | None:
        """A file, looked at; None where there is none."""
        try:
            if self._files.real(path) is None:
                return None
            library = self._files.library(path)
        except ParseError:
            return Hit(path=path, how=how, unfit=NO_LIBRARY, stops=True)
        except AdapterError as error:
            self._note(error)
            stops = not isinstance(error.__cause__, PermissionError)
            return Hit(path=path, how=how, unfit="it cannot be read", stops=stops)
        if library.machine != self.machine:
            unfit = f"it is made for {library.machine}, and this is {self.machine}"
            return Hit(path=path, how=how, library=library, unfit=unfit)
        return Hit(path=path, how=how, library=library)

    def plugins(self, chain: Sequence[SharedLibrary]) -> Iterator[tuple[str, str]]:
        """The network plugins that a library can open by their names, and how each is found."""
        folders = (*self._before(chain), *_folders_of(self._cache))
        for folder, how in dict.fromkeys((*folders, *behind_the_cache(self.machine))):
            for name in self.names(folder):
                if name.startswith(PLUGIN_PREFIXES) and ".so" in name:
                    yield f"{folder}/{name}", how

    def library(self, path: str) -> SharedLibrary | None:
        """A library, None for what is none or is not there."""
        try:
            return self._files.library(path) if self._files.real(path) is not None else None
        except ParseError:
            return None
        except AdapterError as error:
            self._note(error)
            return None

    def strings(self, path: str) -> LibraryStrings:
        """What a library's constants tell; nothing where they cannot be read."""
        try:
            return self._files.strings(path)
        except ParseError:
            return LibraryStrings()
        except AdapterError as error:
            self._note(error)
            return LibraryStrings()

    def real(self, path: str) -> str | None:
        """A path without links, None where nothing is or no answer came."""
        try:
            return self._files.real(path)
        except AdapterError as error:
            self._note(error)
            return None

    def names(self, folder: str) -> Sequence[str]:
        """The names in a folder; none where no answer came."""
        try:
            return self._files.names(folder)
        except AdapterError as error:
            self._note(error)
            return ()

    def text(self, path: str, most_bytes: int) -> str | None:
        """A small text, None where there is none; a link to nothing, a FIFO: a note and None."""
        try:
            data = self._files.data(path, most_bytes)
        except AdapterError as error:
            self._note(error)
            return None
        return None if data is None else data.decode("utf-8", "surrogateescape")

    def candidate(self, hit: Hit, lost: str | None = None) -> NcclCandidate:
        """A library with its release: that in the file, else the wheel's, else its name's."""
        real = self.real(hit.path) or hit.path
        build = self.strings(hit.path).build if hit.library is not None else None
        version = build.version if build else None
        version_from = "the file itself"
        if version is None:
            version, version_from = self._version_beside(hit.path, real)
        return NcclCandidate(
            library=build.library if build else library_of(hit.path),
            path=real if _BACK in hit.path else hit.path,
            how=hit.how,
            version=version,
            build=build.build if build else None,
            version_from=version_from,
            lost=lost or hit.unfit,
        )

    def _version_beside(self, path: str, real: str) -> tuple[NcclVersion | None, str]:
        root = wheel_root(path) or wheel_root(real)
        told = wheel_version(tuple(self.names(root))) if root is not None else None
        if told is not None:
            return told[0], f"the wheel beside it, {told[1]}"
        named = name_version(real)
        if named is not None:
            return named, "its file name"
        return None, "not known: neither the file nor its name tells it"

    def _each_hit(self, name: str, chain: Sequence[SharedLibrary]) -> Iterator[Hit]:
        paths = ((f"{place.folder}/{name}", place.how) for place in self._before(chain))
        cached = ((entry.path, _CACHED) for entry in self._cache if entry.name == name)
        last = ((f"{place.folder}/{name}", place.how) for place in behind_the_cache(self.machine))
        seen: set[str] = set()
        for path, how in (*paths, *cached, *last):
            hit = None if path in seen else self.hit_at(path, how)
            seen.add(path)
            if hit is not None:
                yield hit

    def _note(self, error: AdapterError) -> None:
        self._notes[error.message] = None

    def _before(self, chain: Sequence[SharedLibrary]) -> tuple[Place, ...]:
        return tuple(before_the_cache(chain, self._environment, self._workdir))

    @cached_property
    def _cache(self) -> tuple[CacheEntry, ...]:
        try:
            data = self._files.data(LD_CACHE, MOST_CACHE_BYTES)
            if data is None:
                return ()
            return parse_ld_cache(data)
        except ParseError as error:
            self._notes[f"{LD_CACHE} was not understood: {error}"] = None
        except AdapterError as error:
            self._note(error)
        return ()


def _folders_of(cache: Sequence[CacheEntry]) -> Iterator[Place]:
    for entry in cache:
        if entry.name.startswith(PLUGIN_PREFIXES):
            yield Place(posixpath.dirname(entry.path), _CACHED)
