"""What NCCL and RCCL say of themselves at NCCL_DEBUG=INFO, each fact once.

A fact has the host that said it (None where a line has no host); how often it was said, and the
first line, are in `Seen`. Words and units are NCCL's; bandwidth is in bytes a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from hpckit.model.comm import CommLibrary, NcclVersion

Fact = TypeVar("Fact")


@dataclass(frozen=True, slots=True)
class Seen(Generic[Fact]):
    """A fact, the first line that says it (from 1) and how many lines do."""

    what: Fact
    line_no: int
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryVersion:
    """The release of a process; `text` is as it was printed."""

    host: str | None
    library: CommLibrary
    version: NcclVersion
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """The interface on which the ranks meet."""

    host: str | None
    interface: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedSetting:
    """A variable that a process took from its environment or a configuration file."""

    host: str | None
    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What carries traffic between nodes: `IB`, `Socket`, or the name that a plugin gives."""

    host: str | None
    name: str


@dataclass(frozen=True, slots=True)
class LogNic:
    """One NIC of a list; `link` is `IB`, `RoCE` or `IB/SHARP`, None for an interface of sockets."""

    index: int
    name: str
    port: int | None = None
    link: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NicList:
    """The NICs that a network uses; none where it found no device."""

    host: str | None
    network: str
    nics: tuple[LogNic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualNic:
    """What connections are numbered by since 2.24: one NIC, or `devices` of them as one (`a+b`)."""

    host: str | None
    index: int
    name: str
    rate_bytes_per_s: float
    devices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OfiProvider:
    """The libfabric provider that the OFI plugin chose; `nics` None in releases that do not say."""

    host: str | None
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
class Plugin:
    """A plugin by `kind` (`net`, `collnet`, `tuner` …); `name` is None for NCCL's own."""

    host: str | None
    kind: str
    event: PluginEvent
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDirect:
    """Whether GPU Direct RDMA is used, for a NIC or (`gpu` not None) between a GPU and one.

    `gpu` and `nic` are as printed: a device number or a bus id, by release.
    """

    host: str | None
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
class Connection:
    """A rank's connection to another; `Seen.count` is the channels that use it.

    `how` is what follows the transport (`CUMEM/read`, `direct pointer`, `IB`); `nic` is the index
    in the network's list. `is_send` is None where both ends are on one node. `is_point_to_point`
    where it is for sends and receives (connection 1), not for rings and trees.
    """

    host: str | None
    sender: int
    receiver: int | None
    transport: Transport
    how: str
    is_send: bool | None = None
    nic: int | None = None
    is_gdr: bool = False
    is_point_to_point: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedGraph:
    """What NCCL's search found for a pattern (4 ring, 1 to 3 trees, 5 NVLS), by channel.

    `intra_type` and `inter_type` are NCCL's path types, the latter to the NIC.
    """

    host: str | None
    pattern: int
    cross_nic: int
    channels: int
    intra_bytes_per_s: float
    inter_bytes_per_s: float
    intra_type: str
    inter_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelCounts:
    """Channels of a communicator by use; None is what the release does not print."""

    host: str | None
    collective: int
    nvls: int | None = None
    p2p: int | None = None
    p2p_per_peer: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Communicator:
    """A rank of a communicator, and what became of it: `Init COMPLETE`, `Abort COMPLETE` …."""

    host: str | None
    commid: str | None
    rank: int
    ranks: int
    device: int | None
    event: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShare:
    """How many nodes a communicator has, and ranks on this one; `is_mnnvl` joins them by NVLink."""

    host: str | None
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
class Nvls:
    """Whether a GPU can use NVLink SHARP."""

    host: str | None
    is_available: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class P2pDisabled:
    """Two GPUs that are connected and may not access each other."""

    host: str | None
    gpus: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """A line of level WARN, or an INFO line in which NCCL says that something failed."""

    host: str | None
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
        told = max((one.what.nodes for one in self.shares), default=0)
        hosts = len(self.hosts)
        is_known = told or hosts > 1 or self._is_whole
        return max(told, hosts) or None if is_known else None

    @property
    def _is_whole(self) -> bool:
        """Whether each rank of the largest communicator wrote a line."""
        ranks = self.ranks
        seen = {one.what.rank for one in self.communicators if one.what.ranks == ranks}
        return ranks is not None and len(seen) >= ranks

    @property
    def ranks(self) -> int | None:
        """Ranks of the largest communicator."""
        return max((one.what.ranks for one in self.communicators), default=None)
