"""Which NCCL or RCCL a job will load, told from files that are read and never executed."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hpckit.app.comm_already import job_environment, settings_in_place
from hpckit.app.library_found import NO_LIBRARY, Hit, LibraryLookup
from hpckit.app.net_plugins import net_plugins
from hpckit.app.python_sites import MOST_PATHS, PythonSites, python_sites, script_python
from hpckit.model.comm import CommLibrary
from hpckit.model.comm_already import Already
from hpckit.model.nccl_found import FoundNccl, NcclCandidate, NcclWhere, SharedLibrary
from hpckit.parse.library_search import cut_lists, preloads
from hpckit.parse.nccl_library import (
    CONSUMERS,
    LIBRARY_PREFIXES,
    SONAMES,
    TORCH_CPU,
    Consumer,
)
from hpckit.tune_ports import LibraryFiles, NcclLibraries

_LD_SO_PRELOAD = "/etc/ld.so.preload"
_MOST_PRELOAD_BYTES = 64 * 1024
_OF_WHEEL = "the NCCL wheel of this Python"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    """Who asks for the library: a chain up to the executable, and the names that it asks for.

    `first` is opened before, by its path.
    """

    label: str
    framework: str | None = None
    library: CommLibrary | None = None
    chain: tuple[SharedLibrary, ...] = ()
    wanted: tuple[str, ...] = ()
    first: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """What one who asks gets."""

    chosen: Hit | None
    because: str
    lost: tuple[tuple[Hit, str], ...] = ()


def find_nccl(where: NcclWhere, tools: NcclLibraries) -> FoundNccl:
    """The NCCL or RCCL that a job loads there, what lost against it, and the network plugins.

    Raises StorageFailed where the container or the Python that was named is not there, ToolMissing
    and ToolFailed for an image that cannot be read, ParseError for what is none.
    """
    return look_at_nccl(where, tools)[0]


def look_at_nccl(where: NcclWhere, tools: NcclLibraries) -> tuple[FoundNccl, Already]:
    """The same, and what is set already by NCCL's files and the environment; raises the same."""
    with tools.opened(where.container) as files:
        environment = job_environment(where, files)
        lookup = LibraryLookup(files, environment, where.workdir)
        found, chain = _found(where, environment, files, lookup)
        already = settings_in_place(where, environment, found, lookup, tools)
        plugin = already.of("NCCL_NET_PLUGIN")
        plugins = net_plugins(found, chain, plugin.value if plugin else None, lookup)
        notes = (*found.notes, *cut_lists(environment), *lookup.notes)
        return replace(found, plugins=plugins, notes=notes), already


def _found(
    where: NcclWhere, environment: Mapping[str, str], files: LibraryFiles, lookup: LibraryLookup
) -> tuple[FoundNccl, tuple[SharedLibrary, ...]]:
    """What is loaded, without plugins, and the chain from that library up to the executable."""
    path = _program_path(where, environment, lookup)
    program = None if path is None else _program(path, lookup)
    sites = PythonSites()
    if program is None:
        python = where.python or (None if path is None else script_python(path, files))
        sites = python_sites(python, environment, files)
    askers = [program] if program else list(_consumers(where, sites, lookup))
    asking = askers[0] if askers else _anyone(where)
    verdict = _verdict(asking, environment, lookup)
    if program is None and not askers and _has_cpu_torch(sites, lookup):
        lost = tuple((hit, "PyTorch here loads none") for hit in _all_hits(verdict))
        because = "PyTorch here is built for CPUs: it has no NCCL and no RCCL"
        verdict = _Verdict(chosen=None, because=because, lost=lost)
    elif program is None and not askers and where.framework is None and not _all_hits(verdict):
        asking, verdict = _opened_wheel(sites, lookup) or (asking, verdict)
    chosen = lookup.candidate(verdict.chosen) if verdict.chosen else None
    lost_ones = [lookup.candidate(hit, lost=hit.unfit or why) for hit, why in verdict.lost]
    found = FoundNccl(
        chosen=chosen,
        because=verdict.because,
        place=files.place,
        loader=asking.label or None,
        others=(*lost_ones, *_stray_wheels(sites, verdict, lookup)),
        notes=(
            *_of_python(sites, lookup),
            *_differing(askers[1:], verdict, environment, lookup),
        ),
    )
    loaded = verdict.chosen.library if verdict.chosen else None
    own = () if loaded is None or loaded in asking.chain else (loaded,)
    return found, (*own, *asking.chain)


def _verdict(asking: _Asking, environment: Mapping[str, str], lookup: LibraryLookup) -> _Verdict:
    preloaded = list(_preloaded(environment, lookup))
    if not asking.wanted:
        return _linked_in(asking, preloaded, lookup)
    opened = [lookup.hit_at(path, "opened by its path") for path in asking.first]
    hits = [hit for hit in (*preloaded, *opened) if hit is not None and hit.unfit is None]
    for name in asking.wanted:
        hits += lookup.hits(name, asking.chain)
    # What cannot be preloaded, or opened by its path, may be reached again by its name.
    hits = _each_once([*hits, *(hit for hit in preloaded if hit.unfit)], lookup)
    chosen = _reached(hits)
    if chosen is None or chosen.unfit is not None:
        names = " or ".join(asking.wanted)
        because = f"no {names} was found where the loader looks"
        if chosen is not None:
            because = f"the loader stops at {chosen.path}: {chosen.unfit}"
        return _Verdict(chosen=None, because=because, lost=tuple((hit, "") for hit in hits))
    lost = tuple((hit, _why_lost(hit, chosen)) for hit in hits if hit is not chosen)
    return _Verdict(chosen=chosen, because=chosen.how, lost=lost)


def _reached(hits: Sequence[Hit]) -> Hit | None:
    """The file that the loader loads, or at which it stops."""
    return next((hit for hit in hits if hit.unfit is None or hit.stops), None)


def _why_lost(hit: Hit, chosen: Hit) -> str:
    if hit.how == chosen.how:
        return "another one comes before it there"
    return f"{chosen.how} comes before"


def _linked_in(asking: _Asking, preloaded: Sequence[Hit], lookup: LibraryLookup) -> _Verdict:
    """Who needs no library has its own, or none."""
    asker = asking.chain[0]
    name = posixpath.basename(asker.path)
    if lookup.strings(asker.path).build is None:
        because = f"{name} needs no NCCL and has none linked in"
        return _Verdict(chosen=None, because=because, lost=tuple((hit, "") for hit in preloaded))
    how = f"linked into {name}"
    why = f"NCCL is {how}; a preloaded one counts only if that exports NCCL's functions"
    return _Verdict(
        chosen=Hit(path=asker.path, how=how, library=asker),
        because=how,
        lost=tuple((hit, why) for hit in preloaded),
    )


def _preloaded(environment: Mapping[str, str], lookup: LibraryLookup) -> Iterator[Hit]:
    """The libraries of NCCL's names that are loaded before all others."""
    system = (lookup.text(_LD_SO_PRELOAD, _MOST_PRELOAD_BYTES) or "").replace(":", " ").split()
    sources = ((preloads(environment), "LD_PRELOAD"), (tuple(system), _LD_SO_PRELOAD))
    for name, how in ((name, how) for names, how in sources for name in names if name):
        path = name
        if "/" not in name:
            reached = _reached(lookup.hits(name, ()))
            path = reached.path if reached else ""
        library = lookup.library(path) if path else None
        names = (posixpath.basename(path), library.soname or "" if library else "")
        if not any(one.startswith(LIBRARY_PREFIXES) for one in names):
            continue
        hit = lookup.hit_at(path, how)
        if hit is not None:  # a file that cannot be preloaded is passed over with a warning
            yield replace(hit, stops=False)


def _consumers(where: NcclWhere, sites: PythonSites, lookup: LibraryLookup) -> Iterator[_Asking]:
    """The packages that load NCCL, the first of each framework, as where.framework allows."""
    python = lookup.library(lookup.real(sites.python) or "") if sites.python else None
    seen: set[str] = set()
    for row in CONSUMERS:
        if where.framework is not None and where.framework.lower() != row.framework.lower():
            continue
        if row.framework in seen or where.library not in (None, row.library):
            continue
        for site in sites.sites:
            asking = _consumer(row, site, python, lookup)
            if asking is not None:
                seen.add(row.framework)
                yield asking
                break


def _consumer(
    row: Consumer, site: str, python: SharedLibrary | None, lookup: LibraryLookup
) -> _Asking | None:
    folder = f"{site}/{row.folder}"
    names = [row.name]
    if "*" in row.name:
        names = fnmatch.filter(lookup.names(folder), row.name)[:1]
    asker = lookup.library(f"{folder}/{names[0]}") if names else None
    if asker is None:
        return None
    loaders = (lookup.library(f"{site}/{path}") for path in row.loaders)
    chain = tuple(one for one in (asker, *loaders, python) if one is not None)
    return _Asking(
        label=f"{row.framework} ({posixpath.basename(asker.path)})",
        framework=row.framework,
        library=row.library,
        chain=chain,
        wanted=_wanted(asker) or _opened(row, asker, lookup),
        first=tuple(f"{site}/{path}" for path in row.first),
    )


def _opened(row: Consumer, asker: SharedLibrary, lookup: LibraryLookup) -> tuple[str, ...]:
    """What a package opens itself: nothing where it has its own linked in, or is for CPUs."""
    folders = (*asker.rpath, *(asker.runpath or ()))
    if row.opens is None or not any(row.path_has in folder for folder in folders or ("",)):
        return ()
    return () if lookup.strings(asker.path).build is not None else (row.opens,)


def _program_path(
    where: NcclWhere, environment: Mapping[str, str], lookup: LibraryLookup
) -> str | None:
    """Where the shell finds the job's program; an empty folder of PATH is the one where it runs."""
    if where.program is None:
        return None
    folders = environment.get("PATH", "").split(":") if "/" not in where.program else [""]
    for folder in folders[:MOST_PATHS]:
        path = posixpath.join(where.workdir or "", folder, where.program)
        if path.startswith("/") and lookup.real(path) is not None:
            return path
    return None


def _program(path: str, lookup: LibraryLookup) -> _Asking | None:
    """A program that is linked with NCCL, itself or through its libraries; None for any other."""
    program = lookup.library(path)
    if program is None:
        return None
    chain = lookup.way_to(LIBRARY_PREFIXES, program)
    if not chain and lookup.strings(path).build is None:
        return None
    chain = chain or (program,)
    through = f" ({posixpath.basename(chain[0].path)})" if len(chain) > 1 else ""
    label = f"{posixpath.basename(path)}{through}"
    return _Asking(label=label, chain=chain, wanted=_wanted(chain[0]))


def _anyone(where: NcclWhere) -> _Asking:
    """A program that nothing is known of: it finds what any would without a RPATH."""
    order = [where.library] if where.library else list(CommLibrary)
    return _Asking(label="", wanted=tuple(SONAMES[library] for library in order))


def _wanted(library: SharedLibrary) -> tuple[str, ...]:
    return tuple(name for name in library.needed if name.startswith(LIBRARY_PREFIXES))[:1]


def _has_cpu_torch(sites: PythonSites, lookup: LibraryLookup) -> bool:
    return any(lookup.real(f"{site}/{TORCH_CPU}") for site in sites.sites)


def _all_hits(verdict: _Verdict) -> tuple[Hit, ...]:
    chosen = (verdict.chosen,) if verdict.chosen else ()
    return (*chosen, *(hit for hit, _ in verdict.lost))


def _each_once(hits: Sequence[Hit], lookup: LibraryLookup) -> list[Hit]:
    by_real: dict[str, Hit] = {}
    for hit in hits:
        by_real.setdefault(lookup.real(hit.path) or hit.path, hit)
    return list(by_real.values())


def _opened_wheel(sites: PythonSites, lookup: LibraryLookup) -> tuple[_Asking, _Verdict] | None:
    """The only NCCL there is, in a Python without a package that is known to load it.

    Whoever loads NCCL there opens this one, as NVIDIA's cuda-pathfinder does.
    """
    how = f"{_OF_WHEEL}; no other is here, and no package that is known to load one"
    hits = (lookup.hit_at(path, how) for path in _wheels(sites))
    chosen = next((hit for hit in hits if hit is not None and hit.unfit is None), None)
    if chosen is None:
        return None
    asking = _Asking(label="a package that opens it by its path")
    return asking, _Verdict(chosen=chosen, because=how)


def _stray_wheels(
    sites: PythonSites, verdict: _Verdict, lookup: LibraryLookup
) -> Iterator[NcclCandidate]:
    """NCCL wheels to which no rule of the loader leads."""
    known = {lookup.real(hit.path) for hit in _all_hits(verdict)}
    for path in _wheels(sites):
        real = lookup.real(path)
        if real is not None and real not in known:
            known.add(real)
            hit = lookup.hit_at(path, _OF_WHEEL)
            if hit is not None:
                yield lookup.candidate(hit, lost=hit.unfit or "no rule of the loader leads to it")


def _wheels(sites: PythonSites) -> Iterator[str]:
    for site in sites.sites:
        yield f"{site}/nvidia/nccl/lib/{SONAMES[CommLibrary.NCCL]}"


def _of_python(sites: PythonSites, lookup: LibraryLookup) -> Iterator[str]:
    """A script in Python's place, such as a shim of pyenv's, may start any."""
    hit = lookup.hit_at(sites.python, "") if sites.python is not None else None
    if hit is not None and hit.unfit == NO_LIBRARY:
        yield f"{sites.python} is no program but a script: which Python it starts is not known"


def _differing(
    others: Sequence[_Asking],
    verdict: _Verdict,
    environment: Mapping[str, str],
    lookup: LibraryLookup,
) -> Iterator[str]:
    mine = lookup.real(verdict.chosen.path) if verdict.chosen else None
    for asking in others:
        theirs = _verdict(asking, environment, lookup).chosen
        if theirs is not None and lookup.real(theirs.path) != mine:
            yield f"{asking.framework} here would load {theirs.path} ({theirs.how})"
