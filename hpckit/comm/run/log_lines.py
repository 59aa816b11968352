"""What NCCL and RCCL say of themselves at NCCL_DEBUG=INFO, each fact once.

A fact has the host that said it (None where a line has no host); how often it was said, and the
first line, are in `Seen`. Words and units are NCCL's; bandwidth is in bytes a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, Generic, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from hpckit.core.late import regex
from hpckit.core.values import dataclass
from hpckit.spec.platform import CommLibrary, NcclVersion

Fact = TypeVar("Fact")


@dataclass(frozen=True, slots=True)
class Seen(Generic[Fact]):
    """A fact, the first line that says it (from 1) and how many lines do."""

    what: Fact
    line_no: int
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OfHost:
    """What a host said, None where its line has none."""

    host: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryVersion(OfHost):
    """The release of a process; `text` is as it was printed."""

    library: CommLibrary
    version: NcclVersion
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap(OfHost):
    """The interface on which the ranks meet."""

    interface: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedSetting(OfHost):
    """A variable that a process took from its environment or a configuration file."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSetting(OfHost):
    """A variable that the OFI plugin set, as nobody else had; NCCL then reads it."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Network(OfHost):
    """What carries traffic between nodes: `IB`, `Socket`, or the name that a plugin gives."""

    name: str


@dataclass(frozen=True, slots=True)
class LogNic:
    """One NIC of a list; `link` is `IB`, `RoCE` or `IB/SHARP`, None for an interface of sockets."""

    index: int
    name: str
    port: int | None = None
    link: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NicList(OfHost):
    """The NICs that a network uses; none where it found no device."""

    network: str
    nics: tuple[LogNic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualNic(OfHost):
    """What connections are numbered by since 2.24: one NIC, or `devices` of them as one (`a+b`)."""

    index: int
    name: str
    rate_bytes_per_s: float
    devices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OfiProvider(OfHost):
    """The libfabric provider that the OFI plugin chose; `nics` None in releases that do not say."""

    provider: str
    nics: int | None


class PluginEvent(StrEnum):
    """What became of a plugin."""

    ASKED = "asked"
    LOADED = "loaded"
    MISSING = "missing"
    FAILED = "failed"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin(OfHost):
    """A plugin by `kind` (`net`, `collnet`, `tuner` …); `name` is None for NCCL's own."""

    kind: str
    event: PluginEvent
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDirect(OfHost):
    """Whether GPU Direct RDMA is used, for a NIC or (`gpu` not None) between a GPU and one.

    `gpu` and `nic` are as printed: a device number or a bus id, by release.
    """

    gpu: str | None
    nic: str
    is_enabled: bool
    distance: int | None = None
    limit: int | None = None


class Transport(StrEnum):
    """NCCL's transports between two ranks."""

    P2P = "P2P"
    SHM = "SHM"
    NET = "NET"
    COLLNET = "COLLNET"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection(OfHost):
    """A rank's connection to another; `Seen.count` is the channels that use it.

    `how` is what follows the transport (`CUMEM/read`, `direct pointer`, `IB`); `nic` is the index
    in the network's list. `is_send` is None where both ends are on one node. `is_point_to_point`
    where it is for sends and receives (connection 1), not for rings and trees.
    """

    sender: int
    receiver: int | None
    transport: Transport
    how: str
    is_send: bool | None = None
    nic: int | None = None
    is_gdr: bool = False
    is_point_to_point: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedGraph(OfHost):
    """What NCCL's search found for a pattern (4 ring, 1 to 3 trees, 5 NVLS), by channel.

    `intra_type` and `inter_type` are NCCL's path types, the latter to the NIC.
    """

    pattern: int
    cross_nic: int
    channels: int
    intra_bytes_per_s: float
    inter_bytes_per_s: float
    intra_type: str
    inter_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelCounts(OfHost):
    """Channels of a communicator by use; None is what the release does not print."""

    collective: int
    nvls: int | None = None
    p2p: int | None = None
    p2p_per_peer: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Communicator(OfHost):
    """A rank of a communicator, and what became of it: `Init COMPLETE`, `Abort COMPLETE` …."""

    commid: str | None
    rank: int
    ranks: int
    device: int | None
    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShare(OfHost):
    """How many nodes a communicator has, and ranks on this one; `is_mnnvl` joins them by NVLink."""

    ranks: int
    nodes: int
    local_ranks: int
    is_mnnvl: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """An algorithm and protocol that collectives ran with; `collective` None before 2.23."""

    collective: str | None
    algorithm: str
    protocol: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Nvls(OfHost):
    """Whether a GPU can use NVLink SHARP."""

    is_available: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class P2pDisabled(OfHost):
    """Two GPUs that are connected and may not access each other."""

    gpus: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned(OfHost):
    """A line of level WARN, or an INFO line in which NCCL says that something failed."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclLog:
    """All facts of a log, each kind in the order of first lines.

    `lines` are NCCL's. Of these `unread_lines` begin as a line that hpckit reads and are not of its
    form; their texts are in `unread`, at most UNREAD_KEPT. `cut_lines` were longer than is read.
    """

    lines: int
    unread_lines: int = 0
    cut_lines: int = 0
    other_lines: int = 0
    hosts: tuple[str, ...] = ()
    processes: int = 0
    versions: tuple[Seen[LibraryVersion], ...] = ()
    bootstraps: tuple[Seen[Bootstrap], ...] = ()
    settings: tuple[Seen[LoggedSetting], ...] = ()
    plugin_settings: tuple[Seen[PluginSetting], ...] = ()
    networks: tuple[Seen[Network], ...] = ()
    nic_lists: tuple[Seen[NicList], ...] = ()
    virtual_nics: tuple[Seen[VirtualNic], ...] = ()
    providers: tuple[Seen[OfiProvider], ...] = ()
    plugins: tuple[Seen[Plugin], ...] = ()
    gpu_direct: tuple[Seen[GpuDirect], ...] = ()
    connections: tuple[Seen[Connection], ...] = ()
    graphs: tuple[Seen[SearchedGraph], ...] = ()
    channels: tuple[Seen[ChannelCounts], ...] = ()
    communicators: tuple[Seen[Communicator], ...] = ()
    shares: tuple[Seen[NodeShare], ...] = ()
    algorithms: tuple[Seen[Algorithm], ...] = ()
    nvls: tuple[Seen[Nvls], ...] = ()
    p2p_disabled: tuple[Seen[P2pDisabled], ...] = ()
    warnings: tuple[Seen[Warned], ...] = ()
    unread: tuple[Seen[str], ...] = ()

    @property
    def nodes(self) -> int | None:
        """Nodes of the largest communicator; None where only some of its ranks wrote lines."""
        ranks = self.ranks
        told = max((one.what.nodes for one in self.shares), default=0)
        if any(one.what.nodes == told and one.what.ranks == ranks for one in self.shares):
            return told
        hosts = len(self.hosts)
        wrote = {one.what.rank for one in self.communicators if one.what.ranks == ranks}
        is_whole = ranks is not None and len(wrote) >= ranks
        return max(told, hosts) or None if told or hosts > 1 or is_whole else None

    @property
    def ranks(self) -> int | None:
        """Ranks of the largest communicator."""
        return max((one.what.ranks for one in self.communicators), default=None)


FACT_LISTS: Final[Mapping[str, type]] = {
    name: get_args(get_args(hint)[0])[0]
    for name, hint in get_type_hints(NcclLog).items()
    if get_origin(hint) is tuple and get_args(hint)[0] not in (str, Seen[str])
}
"""The kind of fact that each list of a log holds."""

# --- The lines of a file that NCCL wrote into, with the prefixes of whoever collected it taken off.
# Source: NCCL, src/debug.cc, ncclDebugLog: `HOST:PID:TID [DEVICE] NCCL INFO text`, a warning with
# `FILE:LINE` or `FILE:LINE (FUNCTION)` between, and a time before where NCCL_DEBUG_TIMESTAMP_LEVELS
# says so. Two processes may write into one line; a progress bar may touch a host.

MOST_CHARS: Final = 65536
"""What is read of a line; NCCL's own buffers end at 1 to 4 KiB."""

_ESCAPE: Final = regex(r"\x1b\[[0-9;?]{0,32}[A-Za-z]|[\x00\x1b]")
_SAID: Final = regex(
    r"(?:(?P<name>\S{1,300})? ?\[-?\d{1,4}\] (?:\S{1,200} ){0,2}?)?NCCL (?P<level>INFO|WARN) ",
    re.ASCII,
)
_PROCESS: Final = regex(r"([\w.-]{1,256}):(\d{1,10}):(\d{1,10})$", re.ASCII)


class RawLine(NamedTuple):
    """A line without colours and its end; `is_cut` where it was longer than MOST_CHARS."""

    line_no: int
    text: str
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclLine:
    """What one process said: `host` and `pid` are None where the line lacks them."""

    line_no: int
    host: str | None
    pid: int | None
    is_warning: bool
    text: str


def raw_lines(text: str) -> Iterator[RawLine]:
    """The lines of a text that are not blank; only a newline ends one."""
    for line_no, whole in enumerate(text.split("\n"), start=1):
        line = _ESCAPE.sub("", whole[:MOST_CHARS].rstrip("\r"))
        if line and not line.isspace():
            yield RawLine(line_no=line_no, text=line, is_cut=len(whole) > MOST_CHARS)


def nccl_lines(line: RawLine) -> list[NcclLine]:
    """What NCCL said in a line, mostly once; nothing for another program's line."""
    said = list(_SAID.finditer(line.text))
    ends = [*(match.start() for match in said[1:]), len(line.text)]
    return [_nccl_line(line, match, end) for match, end in zip(said, ends, strict=False)]


def _nccl_line(line: RawLine, match: re.Match[str], end: int) -> NcclLine:
    name = match["name"] or ""
    process = _PROCESS.search(name)
    host = process[1] if process else name.rpartition(":")[2]
    return NcclLine(
        line_no=line.line_no,
        host=host or None,
        pid=int(process[2]) if process else None,
        is_warning=match["level"] == "WARN",
        text=line.text[match.end() : end].strip(),
    )
