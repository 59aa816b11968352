"""The network plugins that NCCL can find, and which of them it opens."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from itertools import islice
from typing import Final

from hpckit.app.library_found import LibraryLookup
from hpckit.model.comm import CommLibrary, NcclVersion
from hpckit.model.nccl_found import FoundNccl, NetPluginFile, SharedLibrary
from hpckit.parse.nccl_library import plugin_of

MOST_PLUGINS: Final = 32
SINCE_LISTS: Final = NcclVersion(2, 27, 3)
"""From here on NCCL_NET_PLUGIN is a list that commas divide: src/plugin/net.cc."""

_PREFIXES: Final = {CommLibrary.NCCL: "libnccl-net", CommLibrary.RCCL: "librccl-net"}


def net_plugins(
    found: FoundNccl, chain: Sequence[SharedLibrary], asked: str | None, lookup: LibraryLookup
) -> tuple[NetPluginFile, ...]:
    """The plugins in the folders that count for `chain[0]`, NCCL itself, in their order.

    `asked` is NCCL_NET_PLUGIN: a path, a file's name, or what stands behind `libnccl-net-` in it;
    `none` is no plugin. Without it NCCL opens libnccl-net.so (RCCL: librccl-net.so). Source: NCCL
    src/plugin/plugin_open.cc and src/plugin/net.cc of 2.27 to 2.30, src/net.cc before.
    """
    library = found.library or CommLibrary.NCCL
    wanted = _wanted(asked, _PREFIXES[library], found.version)
    paths = [(name, "NCCL_NET_PLUGIN") for name in wanted if "/" in name and lookup.real(name)]
    paths += islice(lookup.plugins(chain), MOST_PLUGINS)
    loaded = _loaded(wanted, [path for path, _ in paths]) if found.chosen else None
    each: dict[str, str] = {}
    for path, how in paths:
        each.setdefault(path, how)
    return tuple(
        _looked_at(path, how, lookup, is_loaded=path == loaded) for path, how in each.items()
    )


def _wanted(asked: str | None, prefix: str, version: NcclVersion | None) -> tuple[str, ...]:
    """The names that NCCL tries, in their order."""
    if not asked:
        return (f"{prefix}.so",)
    if asked.lower() == "none":
        return ()
    has_lists = version is None or version >= SINCE_LISTS
    names = asked.split(",") if has_lists else [asked]
    return tuple(full for name in names if name for full in (name, f"{prefix}-{name}.so"))


def _loaded(wanted: Sequence[str], paths: Sequence[str]) -> str | None:
    for name in wanted:
        for path in paths:
            if name in (path, posixpath.basename(path)):
                return path
    return None


def _looked_at(path: str, how: str, lookup: LibraryLookup, *, is_loaded: bool) -> NetPluginFile:
    library = lookup.library(path)
    plugin = None
    if library is not None:
        plugin = plugin_of(library, lookup.real(path) or path, lookup.strings(path).marks)
    return NetPluginFile(path=path, how=how, plugin=plugin, is_loaded=is_loaded)
