"""Forms of NCCL's lines about plugins: which were asked for, found, loaded or refused.

Sources: NCCL 2.18.5 to 2.25.1, src/net.cc and src/misc/tuner.cc; 2.27.7 and 2.30.7,
src/plugin/plugin_open.cc and src/plugin/net.cc.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

from hpckit.model.nccl_log import Plugin, PluginEvent
from hpckit.parse.nccl_form import Build, Facts, Form, form, nothing
from hpckit.parse.nccl_line import NcclLine

_KINDS: Final = MappingProxyType({"network": "net", "coll": "collnet"})
_NO_NAME: Final = frozenset({"", "none"})
_STARTS: Final = tuple(
    f"{kind}/Plugin" for kind in ("NET", "COLLNET", "TUNER", "PROFILER", "GIN", "RMA", "ENV")
)
_KIND: Final = r"(?P<kind>[A-Z]{2,12})/Plugin ?: "
_NAME: Final = r"(?P<name>.{1,200}?)(?: \(v[0-9]{1,3}\))?"


def _plugin(event: PluginEvent) -> Build:
    """A builder for a plugin to which `event` happened."""

    def build(match: re.Match[str], line: NcclLine) -> Facts:
        groups = match.groupdict()
        kind = (groups.get("what") or groups.get("kind") or "net").lower()
        name = (groups.get("name") or "").strip().rstrip(".")
        return (
            Plugin(
                host=line.host,
                kind=_KINDS.get(kind, kind),
                event=event,
                name=None if name in _NO_NAME else name,
            ),
        )

    return build


_ASKED: Final = _plugin(PluginEvent.ASKED)
_LOADED: Final = _plugin(PluginEvent.LOADED)
_MISSING: Final = _plugin(PluginEvent.MISSING)
_FAILED: Final = _plugin(PluginEvent.FAILED)
_INTERNAL: Final = _plugin(PluginEvent.INTERNAL)

PLUGIN_FORMS: Final[tuple[Form, ...]] = (
    form(_STARTS, rf"{_KIND}Plugin name set by env to (?P<name>.{{1,200}})", _ASKED),
    form("Plugin name set by env", r"Plugin name set by env to (?P<name>.{1,200})", _ASKED),
    form(_STARTS, rf"{_KIND}Loaded (?P<what>[a-z]{{2,12}}) plugin {_NAME}", _LOADED),
    form(_STARTS, rf"{_KIND}Using internal .*", _INTERNAL),
    form(_STARTS, rf"{_KIND}Using (?:tuner plugin )?{_NAME}", _LOADED),
    form(_STARTS, rf"{_KIND}Could not find ?: ?(?P<name>\S{{0,400}}).*", _MISSING),
    form(_STARTS, rf"{_KIND}No plugin found.*", _MISSING),
    form(_STARTS, rf"{_KIND}Plugin load \((?P<name>[^)]{{0,200}})\) returned .*", _MISSING),
    # One symbol a version is tried, so the lines before the one that is found say nothing.
    form(_STARTS, rf"{_KIND}.*", nothing),
    form("Plugin Path", r"Plugin Path ?: .*", nothing),
    form("P2P plugin", r"P2P plugin (?:v[0-9]{1,3} )?(?P<name>\S{1,100})", _LOADED),
    form(
        "Successfully loaded external",
        r"Successfully loaded external (?:(?P<kind>[a-z]{2,12}) )?plugin (?P<name>.{1,200})",
        _LOADED,
    ),
    form(
        "External",
        r"External (?P<kind>[a-z]{2,12}) plugin (?P<name>.{1,200}) is unsupported",
        _FAILED,
    ),
    form(
        "Failed to initialize",
        r"Failed to initialize (?P<kind>[A-Z]{2,12}) plugin (?P<name>.{1,200})",
        _FAILED,
    ),
)
"""In the order in which they are tried."""
