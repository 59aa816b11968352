"""NCCL's and RCCL's log at NCCL_DEBUG=INFO, from 2.18 to 2.30: the forms of its lines, and facts.

A line that begins as one that is read, and is not of its form, is counted and kept, never an error:
each release has new ones. All other lines are passed over.

Sources: NCCL 2.18.5 to 2.30.7: src/init.cc, enqueue.cc, debug.cc, bootstrap.cc, net.cc, plugin/,
misc/param.cc, misc/tuner.cc, graph/{search,paths,topo}.cc, transport/; RCCL 2.18 to 2.30,
src/init.cc (`RCCL version : 2.27.7-HEAD:…`); aws-ofi-nccl, src/nccl_ofi_net.cpp. Before 2.18 and
in RCCL brackets hold a bus id, and RCCL ends connections with `comm ADDRESS nRanks N`. Of pairs of
GPU and NIC, only the NIC's number is printed before 2.27, and all at TRACE alone from 2.28 on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from hpckit.comm.run.log_lines import (
    FACT_LISTS,
    Algorithm,
    Bootstrap,
    ChannelCounts,
    Communicator,
    Connection,
    GpuDirect,
    LibraryVersion,
    LoggedSetting,
    LogNic,
    NcclLine,
    NcclLog,
    Network,
    NicList,
    NodeShare,
    Nvls,
    OfiProvider,
    P2pDisabled,
    Plugin,
    PluginEvent,
    PluginSetting,
    RawLine,
    SearchedGraph,
    Seen,
    Transport,
    VirtualNic,
    Warned,
    nccl_lines,
)
from hpckit.core.late import regex
from hpckit.spec.platform import CommLibrary, NcclVersion

Facts = Iterable[Hashable]
Build = Callable[[re.Match[str], NcclLine], Facts]

NUMBER: Final = r"-?[0-9]{1,9}"
"""An ordinal or a count in a pattern."""

_GB: Final = 1e9
_MBIT_BYTES: Final = 1e6 / 8
_ALGORITHMS: Final = ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT")
_PROTOCOLS: Final = ("LL", "LL128", "Simple")
_FIRST_WORD: Final = regex(r"[A-Za-z0-9_]{1,40}", re.ASCII)


class Form(NamedTuple):
    """One form of a line: where it is tried, how it reads, and what facts it gives.

    `starts` are beginnings of lines, "" for a form whose beginning varies. The pattern is held
    against the whole line.
    """

    starts: tuple[str, ...]
    pattern: re.Pattern[str]
    build: Build


def form(starts: str | tuple[str, ...], pattern: str, build: Build) -> Form:
    """Return a form whose pattern reads ASCII digits only."""
    each = (starts,) if isinstance(starts, str) else starts
    return Form(each, re.compile(pattern, re.ASCII), build)


def nothing(_: re.Match[str], __: NcclLine) -> Facts:
    """Return no fact: the form is known, and says nothing of why a run is slow."""
    return ()


def fact(kind: type[Any], **given: Any) -> Build:
    """Return what builds one fact, whose fields are the named groups of the pattern.

    `given` are fields that no group has, and readers in place of those in `_READERS`.
    """
    readers = {**_READERS, **{name: read for name, read in given.items() if callable(read)}}
    fixed = {name: value for name, value in given.items() if not callable(value)}
    has_host = "host" in kind.__dataclass_fields__

    def build(match: re.Match[str], line: NcclLine) -> Facts:
        values = {name: readers.get(name, str)(text) for name, text in match.groupdict().items()}
        if has_host:
            values["host"] = line.host
        yield kind(**fixed, **values)

    return build


def _spelled(word: str, names: tuple[str, ...]) -> str:
    """NCCL's spelling in its documentation: of `RING` in its log, and of a number in old ones.

    Numbers are those of src/include/nccl_common.h. What is not in the table is kept.
    """
    if word.isdigit():
        return names[int(word)] if int(word) < len(names) else word
    plain = word.replace("_", "").lower()
    return next((name for name in names if name.lower() == plain), word)


_READERS: Final[Mapping[str, Callable[[Any], object]]] = {
    **dict.fromkeys(
        ("rank", "ranks", "nodes", "local_ranks", "index", "devices", "nics", "distance", "limit",
         "sender", "receiver", "nic", "pattern", "cross_nic", "channels", "collective", "nvls",
         "p2p", "p2p_per_peer"),
        lambda text: None if text is None else int(text),
    ),
    "value": lambda text: text.strip().removesuffix("."),
    "rate_bytes_per_s": lambda text: int(text) * _MBIT_BYTES,
    **dict.fromkeys(("intra_bytes_per_s", "inter_bytes_per_s"), lambda text: float(text) * _GB),
    "transport": Transport,
    "is_enabled": lambda text: text == "Enabled",
    "is_mnnvl": lambda text: text == "1",
    "is_send": lambda text: text == "send",
    "is_gdr": lambda text: "/GDRDMA" in text,
    "is_point_to_point": lambda text: text == "1",
    "algorithm": lambda text: _spelled(text, _ALGORITHMS),
    "protocol": lambda text: _spelled(text, _PROTOCOLS),
}  # fmt: skip


VERSION: Final = regex(
    r"(?P<library>NCCL|RCCL) version ?:? ?"
    r"(?P<text>(?P<release>[0-9]{1,2}\.[0-9]{1,2}(?:\.[0-9]{1,3})?)[^\s]{0,80}).{0,80}",
    re.ASCII,
)
"""A release as it is printed, in a line of NCCL's or, of rank 0, in one without a prefix."""

_DEVICE: Final = regex(r" cudaDev ([0-9]{1,4})", re.ASCII)
_COMM_ID: Final = regex(r" commId (0x[0-9a-f]{1,20})", re.ASCII)
_COMM: Final = r"comm (?:0x)?[0-9a-fA-F()nil]{1,20}"


def _version_fact(match: re.Match[str], host: str | None) -> LibraryVersion:
    """The release of a match of VERSION."""
    return LibraryVersion(
        host=host,
        library=CommLibrary(match["library"].lower()),
        version=NcclVersion.of(match["release"]),
        text=match["text"],
    )


def _version(match: re.Match[str], line: NcclLine) -> Facts:
    yield _version_fact(match, line.host)


def _communicator(match: re.Match[str], line: NcclLine) -> Facts:
    device = _DEVICE.search(match["more"])
    commid = _COMM_ID.search(match["more"])
    yield Communicator(
        host=line.host,
        commid=commid[1] if commid else None,
        rank=int(match["rank"]),
        ranks=int(match["ranks"]),
        device=int(device[1]) if device else None,
        event=match["event"],
    )


def _failed(match: re.Match[str], line: NcclLine) -> Facts:
    yield Warned(host=line.host, text=match[0])


_RANKS: Final = rf"rank (?P<rank>{NUMBER}) n[rR]anks (?P<ranks>{NUMBER})"

JOB_FORMS: Final[tuple[Form, ...]] = (
    Form(starts=("NCCL version", "RCCL version"), pattern=VERSION, build=_version),
    form("", r"(?P<name>[A-Z][A-Z0-9_]{2,60}) set by environment to (?P<value>.{0,400})",
         fact(LoggedSetting)),
    form("", r"(?P<name>[NR]CCL_[A-Z0-9_]{2,60}) set to (?P<value>.{0,400})", fact(LoggedSetting)),
    form("",
         rf"(?:\[Rank {NUMBER}\] )?(?:[A-Za-z_]{{4,40}} )?{_COMM} {_RANKS}(?P<more>.{{0,200}}?)- "
         r"(?P<event>Init START|Init COMPLETE|Abort START|Abort COMPLETE|Destroy COMPLETE).{0,40}",
         _communicator),
    form("comm",
         rf"{_COMM} rank {NUMBER} nRanks (?P<ranks>{NUMBER}) nNodes (?P<nodes>{NUMBER})"
         rf" localRanks (?P<local_ranks>{NUMBER}) localRank {NUMBER} MNNVL (?P<is_mnnvl>{NUMBER})",
         fact(NodeShare)),
    form("Call to",
         r"Call to (?:connect|accept|bind|listen|recv|send)\b.{0,60} (?:failed|returned) .*",
         _failed),
    # Of verbs and mlx5dv at INFO: a feature that a NIC lacks.
    form("Call to", r"Call to .{1,80} (?:failed|returned|not supported|skipped).*", nothing),
    form("", r".{1,120}: (?:connect|connect to \S{1,80}) returned .*", _failed),
    form("Failed to bind NVLink SHARP", r"Failed to bind NVLink SHARP .*", _failed),
    form("cuMem host allocations", r"cuMem host allocations do not appear .*", _failed),
    form("", r"\S{1,200}:[0-9]{1,6} (?:-> [0-9]{1,4}|Cuda failure .{1,200}).{0,60}", nothing),
)  # fmt: skip


_KINDS: Final = MappingProxyType({"network": "net", "coll": "collnet"})
_NO_NAME: Final = frozenset({"", "none"})
_STARTS: Final = tuple(
    f"{kind}/Plugin" for kind in ("NET", "COLLNET", "TUNER", "PROFILER", "GIN", "RMA", "ENV")
)
_KIND: Final = r"(?P<kind>[A-Z]{2,12})/Plugin ?: "
_PLUGIN_NAME: Final = r"(?P<name>.{1,200}?)(?: \(v[0-9]{1,3}\))?"


def _plugin(event: PluginEvent) -> Build:
    """A builder for a plugin to which `event` happened."""

    def build(match: re.Match[str], line: NcclLine) -> Facts:
        groups = match.groupdict()
        kind = (groups.get("what") or groups.get("kind") or "net").lower()
        name = (groups.get("name") or "").strip().rstrip(".")
        known = None if name in _NO_NAME else name
        yield Plugin(host=line.host, kind=_KINDS.get(kind, kind), event=event, name=known)

    return build


_ASKED: Final = _plugin(PluginEvent.ASKED)
_LOADED: Final = _plugin(PluginEvent.LOADED)
_MISSING: Final = _plugin(PluginEvent.MISSING)
_FAILED: Final = _plugin(PluginEvent.FAILED)
_INTERNAL: Final = _plugin(PluginEvent.INTERNAL)

_NAME: Final = r"([A-Za-z][A-Za-z0-9_.+-]{0,80}):([0-9]{0,3})(?::[0-9]{0,4}){0,2}/([A-Za-z]{2,12})"
_NIC: Final = regex(
    rf"\[([0-9]{{1,4}})\] ?{_NAME}(/SHARP)?|\[([0-9]{{1,4}})\]=\{{([^{{}}]{{0,800}})\}}", re.ASCII
)
_PART: Final = regex(_NAME, re.ASCII)
_INTERFACE: Final = regex(r"\[([0-9]{1,4})\]([^\s:\[\]]{1,40}):", re.ASCII)


def _ib_nics(match: re.Match[str], line: NcclLine) -> Facts:
    nics = tuple(_nic(one) for one in _NIC.finditer(match[1]))
    yield NicList(host=line.host, network="IB", nics=nics)


def _nic(one: re.Match[str]) -> LogNic:
    """One of a list; 2.20 to 2.24 show those that it made one of together, in braces."""
    index, name, port, link, sharp, merged, parts = one.groups()
    if merged is None:
        return LogNic(int(index), name, int(port) if port else None, link + (sharp or ""))
    each = _PART.findall(parts)
    links = {part[2] for part in each}
    return LogNic(
        int(merged), "+".join(part[0] for part in each), None, links.pop() if links else None
    )


def _interfaces(match: re.Match[str], line: NcclLine) -> Facts:
    nics = tuple(LogNic(int(one[1]), one[2]) for one in _INTERFACE.finditer(match[1]))
    yield NicList(host=line.host, network="Socket", nics=nics)


def _forced_simple(_: re.Match[str], line: NcclLine) -> Facts:
    yield PluginSetting(host=line.host, name="NCCL_PROTO", value="simple")


def _nvls_off(_: re.Match[str], line: NcclLine) -> Facts:
    yield PluginSetting(host=line.host, name="NCCL_NVLS_ENABLE", value="0")


NET_FORMS: Final[tuple[Form, ...]] = (
    form("Bootstrap",
         r"Bootstrap ?: Using ?(?:\[0\])?(?P<interface>[^\s:\[\]]{1,40}):(?P<address>\S{1,100})"
         r".{0,200}",
         fact(Bootstrap)),
    form("Bootstrap", r"Bootstrap timings .*", nothing),
    form("Using network", r"Using network (?P<name>.{1,100})", fact(Network)),
    form("NET/IB", r"NET/IB ?: Using ?(.*?) ?(?:\[RO\])?; OOB .*", _ib_nics),
    form("NET/IB", r"NET/IB ?: Using (\[.*)", _ib_nics),
    form("NET/IB", r"NET/IB ?: No device found(\.?)", _ib_nics),
    form("NET/IB",
         r"NET/IB ?: Made virtual device \[(?P<index>[0-9]{1,4})\] name=(?P<name>\S{1,200})"
         r" speed=(?P<rate_bytes_per_s>[0-9]{1,9}) ndevs=(?P<devices>[0-9]{1,3}).{0,80}",
         fact(VirtualNic)),
    form("NET/Socket", r"NET/Socket ?: Using (\[.*)", _interfaces),
    form("NET/OFI",
         r"NET/OFI (?:\[[^\]]{0,20}\] )?[Ss]elected [Pp]rovider is (?P<provider>[^\s,]{1,60})"
         r"(?:, fabric is \S{1,60})?(?: \(found (?P<nics>[0-9]{1,4}) nics\))?.{0,40}",
         fact(OfiProvider)),
    form("NET/OFI",
         r"NET/OFI .*(?:force simple protocol: |'simple' .*reason: ).{1,60} not supported.*",
         _forced_simple),
    form("NET/OFI", r"NET/OFI .*Disabling NVLS support .*", _nvls_off),
    form("NET/OFI",
         r"NET/OFI (?:\[[^\]]{0,20}\] )?(?:Adding|Setting) (?P<name>NCCL_[A-Z0-9_]{2,60})"
         r"(?:=| to )['\"]?(?P<value>[^\s'\"]{1,200})['\"]?(?: to .{1,200})?", fact(PluginSetting)),
    form("NET/OFI", r"NET/OFI (?:Initializing|Using) (?P<name>aws-ofi-[nr]ccl .{0,60})", _LOADED),
    form("NET/OFI", r"NET/OFI .*(?:[Nn]o eligible providers|[Ff]ailed).*", _failed),
    form("",
         r"NET/[^:]{1,60}: GPU Direct RDMA (?P<is_enabled>Enabled|Disabled) for HCA"
         r" [0-9]{1,4} '(?P<nic>[^']{1,100})'.{0,40}", fact(GpuDirect, gpu=None, nic=str)),
    form("GPU Direct RDMA",
         r"GPU Direct RDMA (?P<is_enabled>Enabled|Disabled) for GPU (?P<gpu>[0-9a-fA-F:./-]{1,20})"
         r" / HCA (?P<nic>[0-9a-fA-F:./-]{1,20})"
         rf" \(distance (?P<distance>{NUMBER}) (?:<=|>) (?P<limit>{NUMBER})\).{{0,60}}",
         fact(GpuDirect, nic=str)),
    form("NET/OFI", r"NET/OFI .*", nothing),
    form("NET/IB", r"NET/IB ?:(?! ?(?:Using|No device|Made|GPU Direct RDMA [ED])).*", nothing),
    form("NET/Socket", r"NET/Socket ?: Using [a-z0-9].*", nothing),
)  # fmt: skip


_PLACE: Final = r"\[[0-9a-fA-F]{1,16}\]"
_ENDS: Final = rf"(?P<sender>{NUMBER}){_PLACE} -> (?P<receiver>{NUMBER}){_PLACE}"
_CHANNEL: Final = rf"Channel [0-9]{{1,4}}(?:/(?P<is_point_to_point>[0-9]{{1,4}}))? ?: {_ENDS}"
_RCCL_END: Final = r"(?: comm 0x[0-9a-f]{1,16} nRanks [0-9]{1,7})?"
_FLOAT: Final = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
_TYPE: Final = r"[A-Z0-9]{2,6}"


def _p2p_disabled(match: re.Match[str], line: NcclLine) -> Facts:
    yield P2pDisabled(host=line.host, gpus=(match[1], match[2]))


def _shared_memory(match: re.Match[str], line: NcclLine) -> Facts:
    """A connection as NCCL 2.11 and earlier tell it."""
    sender, receiver = int(match["sender"]), int(match["receiver"])
    yield Connection(
        host=line.host, sender=sender, receiver=receiver, transport=Transport.SHM, how=match["how"]
    )


PATH_FORMS: Final[tuple[Form, ...]] = (
    form("Channel", rf"{_CHANNEL} via (?P<transport>P2P|SHM)/(?P<how>.{{1,80}}?){_RCCL_END}",
         fact(Connection)),
    form("Channel", rf"{_CHANNEL} via (?P<how>direct shared memory)", _shared_memory),
    form("Channel",
         rf"{_CHANNEL} \[(?P<is_send>send|receive)\] via (?P<transport>NET)/(?P<how>[^/]{{1,100}})"
         rf"/(?P<nic>[0-9]{{1,4}})(?:\([0-9]{{1,7}}\))?(?P<is_gdr>(?:/[A-Za-z0-9()]{{1,20}}){{0,4}}){_RCCL_END}",
         fact(Connection)),
    form("CollNet",
         rf"CollNet [0-9]{{1,4}}(?:/[0-9]{{1,4}})? ?: (?P<sender>{NUMBER})"
         r" \[(?P<is_send>send|receive)\]"
         r" via (?P<transport>COLLNET)/(?P<how>[^/]{1,100})/(?P<nic>[0-9]{1,4})(?:\([0-9]{1,7}\))?"
         r"(?P<is_gdr>(?:/[A-Za-z0-9()]{1,20}){0,4})", fact(Connection, receiver=None)),
    # The order of a ring: ranks of channel c of n, as many as fit into NCCL's buffer.
    form("Channel", r"Channel [0-9]{1,4}/[0-9]{1,4} ?:?[ 0-9]*", nothing),
    form("Pattern",
         rf"Pattern (?P<pattern>{NUMBER}), crossNic (?P<cross_nic>{NUMBER}),"
         rf" nChannels (?P<channels>{NUMBER}),"
         rf" bw (?P<intra_bytes_per_s>{_FLOAT})/(?P<inter_bytes_per_s>{_FLOAT}),"
         rf" type (?P<intra_type>{_TYPE})/(?P<inter_type>{_TYPE}), sameChannels {NUMBER}.{{0,60}}",
         fact(SearchedGraph)),
    form("",
         rf"(?P<collective>{NUMBER}) coll channels, (?:{NUMBER} collnet channels, )?"
         rf"(?:(?P<nvls>{NUMBER}) nvls channels, )?(?P<p2p>{NUMBER}) p2p channels,"
         rf" (?P<p2p_per_peer>{NUMBER}) p2p channels per peer.{{0,60}}", fact(ChannelCounts)),
    form("comm:",
         rf"comm:\S{{1,20}}, nRanks:{NUMBER}, nNodes:{NUMBER},"
         rf" coll channels:(?P<collective>{NUMBER}) collnet channels:{NUMBER},"
         rf" nvls channels:(?P<nvls>{NUMBER}), p2p channels:(?P<p2p>{NUMBER}),"
         rf" p2p channels per peer:(?P<p2p_per_peer>{NUMBER}).{{0,60}}", fact(ChannelCounts)),
    form("",
         r"(?P<collective>[A-Z][A-Za-z]{2,30}): [0-9]{1,20} Bytes -> Algo"
         r" (?P<algorithm>[A-Za-z0-9_]{1,30}) proto (?P<protocol>[A-Za-z0-9]{1,20}) channel.{0,40}",
         fact(Algorithm, collective=str)),
    form("",
         r"[0-9]{1,20} Bytes -> Algo (?P<algorithm>[0-9]{1,2}) proto (?P<protocol>[0-9]{1,2})"
         r" time .{1,40}", fact(Algorithm, collective=None)),
    form("NVLS multicast", r"NVLS multicast support is (?P<is_available>not )?available on dev .*",
         fact(Nvls, is_available=lambda text: text is None)),
    form("NVLS comm", r"NVLS comm .*", fact(Nvls, is_available=True)),
    form("NVLS", r"NVLS .*", nothing),
    form("P2P is disabled",
         r"P2P is disabled between connected GPUs ([0-9]{1,5}) and ([0-9]{1,5})\..*",
         _p2p_disabled),
    form(("Could not enable P2P", "peer query failed"),
         r"(?:Could not enable P2P|peer query failed) between dev ([0-9]{1,5})\(=[0-9a-f]{1,16}\)"
         r" and dev ([0-9]{1,5})\(=[0-9a-f]{1,16}\)", _p2p_disabled),
    form("P2P not supported between GPU",
         r"P2P not supported between GPU([0-9]{1,5}) and GPU([0-9]{1,5})", _p2p_disabled),
)  # fmt: skip


PLUGIN_FORMS: Final[tuple[Form, ...]] = (
    form(_STARTS, rf"{_KIND}Plugin name set by env to (?P<name>.{{1,200}})", _ASKED),
    form("Plugin name set by env", r"Plugin name set by env to (?P<name>.{1,200})", _ASKED),
    form(_STARTS, rf"{_KIND}Loaded (?P<what>[a-z]{{2,12}}) plugin {_PLUGIN_NAME}", _LOADED),
    form(_STARTS, rf"{_KIND}Using internal .*", _INTERNAL),
    form(_STARTS, rf"{_KIND}Using (?:tuner plugin )?{_PLUGIN_NAME}", _LOADED),
    form(_STARTS, rf"{_KIND}Could not find ?: ?(?P<name>\S{{0,400}}).*", _MISSING),
    form(_STARTS, rf"{_KIND}No plugin found.*", _MISSING),
    form(_STARTS, rf"{_KIND}Plugin load \((?P<name>[^)]{{0,200}})\) returned .*", _MISSING),
    # One symbol a version is tried, so the lines before the one that is found say nothing.
    form(_STARTS, rf"{_KIND}.*", nothing),
    form("Plugin Path", r"Plugin Path ?: .*", nothing),
    form("P2P plugin", r"P2P plugin (?:v[0-9]{1,3} )?(?P<name>\S{1,100})", _LOADED),
    form("Successfully loaded external",
         r"Successfully loaded external (?:(?P<kind>[a-z]{2,12}) )?plugin (?P<name>.{1,200})",
         _LOADED),
    form("External", r"External (?P<kind>[a-z]{2,12}) plugin (?P<name>.{1,200}) is unsupported",
         _FAILED),
    form("Failed to initialize",
         r"Failed to initialize (?P<kind>[A-Z]{2,12}) plugin (?P<name>.{1,200})", _FAILED),
)  # fmt: skip
"""In the order in which they are tried."""


Forms = Mapping[str, tuple[Form, ...]]
"""Forms by the first word of each of their beginnings."""


def _by_first_word(forms: Iterable[Form]) -> Forms:
    found: dict[str, list[Form]] = {}
    for candidate in forms:
        for word in {_first_word(start): None for start in candidate.starts}:
            found.setdefault(word, []).append(candidate)
    return {word: tuple(each) for word, each in found.items()}


def _facts_of(line: NcclLine) -> Facts | None:
    """The facts of the first form that a line has, None where it has none of them."""
    word = _first_word(line.text)
    for candidate in (*_FORMS.get(word, ()), *(_FORMS.get("", ()) if word else ())):
        if line.text.startswith(candidate.starts):
            match = candidate.pattern.fullmatch(line.text)
            if match is not None:
                return candidate.build(match, line)
    return None


def _begins_as_form(text: str) -> bool:
    """Whether a line begins as one of the forms that have a beginning."""
    return any(
        text.startswith(candidate.starts) and "" not in candidate.starts
        for candidate in _FORMS.get(_first_word(text), ())
    )


def _first_word(text: str) -> str:
    match = _FIRST_WORD.match(text)
    return match[0] if match else ""


UNREAD_KEPT: Final = 100
"""Texts in another form than the one that is read which are kept."""

_FORMS: Final = _by_first_word((*NET_FORMS, *PLUGIN_FORMS, *PATH_FORMS, *JOB_FORMS))
_ERRORS: Final = ("NCCL error in: ", "NCCL error in ", "Failed, NCCL error ", "Test NCCL failure ")
_LAST_ERROR: Final = "Last error:"
_NO_LAST_ERROR: Final = "Exception raised from"
_KEPT_CHARS: Final = 300
_MOST_CHARS: Final = 4096
_MOST_LABEL: Final = 40


class LogReader:
    """Takes the lines of a file one by one; `log` is what they say of NCCL."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, list[int]] = {}
        self._unread: dict[str, list[int]] = {}
        self._hosts: dict[str, None] = {}
        self._labels: dict[str, None] = {}
        self._processes: dict[tuple[str, int | None], None] = {}
        self._lines = self._unread_lines = self._cut = self._other = 0

    def take(self, line: RawLine) -> bool:
        """Read a line; whether it is one of NCCL's."""
        said = nccl_lines(line) if "NCCL " in line.text else []
        self._cut += line.is_cut
        for one in said:
            self._take_one(one)
        is_one = bool(said) or self._take_error(line) or self._take_bare(line)
        is_one = is_one or self._take_last_error(line.text[:_MOST_CHARS], line.line_no)
        self._other += not is_one
        return is_one

    def log(self) -> NcclLog | None:
        """What was read, None where no line is one of NCCL's."""
        if not self._lines:
            return None
        lists: dict[str, Any] = {
            name: tuple(Seen(fact, *at) for fact, at in self._seen.items() if type(fact) is kind)
            for name, kind in FACT_LISTS.items()
        }
        return NcclLog(
            lines=self._lines,
            unread_lines=self._unread_lines,
            cut_lines=self._cut,
            other_lines=self._other,
            hosts=tuple(self._hosts),
            processes=len(self._processes),
            **lists,
            unread=tuple(Seen(text, *at) for text, at in self._unread.items())[:UNREAD_KEPT],
        )

    def _take_one(self, line: NcclLine) -> None:
        self._lines += 1
        if line.host is not None:
            self._hosts[line.host] = None
            self._processes[line.host, line.pid] = None
        text = line.text[:_MOST_CHARS]
        if line.is_warning:
            self._note(Warned(host=line.host, text=text[:_KEPT_CHARS]), line.line_no)
            return
        facts = _facts_of(line) if len(line.text) <= _MOST_CHARS else None
        if facts is None and _begins_as_form(text):
            self._unread_lines += 1
            self._unread.setdefault(text[:_KEPT_CHARS], [line.line_no, 0])[1] += 1
        for fact in facts or ():
            self._note(fact, line.line_no)

    def _take_error(self, line: RawLine) -> bool:
        """What PyTorch or nccl-tests says of an error that NCCL gave it."""
        starts = (line.text.find(mark, 0, _MOST_CHARS) for mark in _ERRORS)
        at = min((start for start in starts if start >= 0), default=-1)
        if at < 0:
            return False
        self._lines += 1
        text = line.text[at : at + _KEPT_CHARS].strip()
        self._note(Warned(host=None, text=text), line.line_no)
        return True

    def _take_last_error(self, text: str, line_no: int) -> bool:
        """NCCL's own words of an error, which PyTorch prints below `Last error:` of one rank."""
        before, is_head, behind = text.partition(_LAST_ERROR)
        if is_head and not behind.strip() and len(before) <= _MOST_LABEL:
            self._labels[before] = None
            return True
        label = next((one for one in self._labels if text.startswith(one)), None)
        if label is None:
            return False
        del self._labels[label]
        said = text[len(label) :].strip()[:_KEPT_CHARS]
        if not said or said.startswith(_NO_LAST_ERROR):
            return False
        self._lines += 1
        self._note(Warned(host=None, text=said), line_no)
        return True

    def _take_bare(self, line: RawLine) -> bool:
        """Rank 0 prints its release without a prefix, behind a launcher's label at most."""
        at = line.text.find("CCL version", 0, _MOST_LABEL + len("NCCL version")) - 1
        match = VERSION.fullmatch(line.text[at : at + _MOST_CHARS].strip()) if at >= 0 else None
        before = line.text[: max(at, 0)].split()
        if match is None or len(before) > 1 or len(line.text) > _MOST_CHARS:
            return False
        self._lines += 1
        self._note(_version_fact(match, None), line.line_no)
        return True

    def _note(self, fact: Hashable, line_no: int) -> None:
        self._seen.setdefault(fact, [line_no, 0])[1] += 1
