"""Forms of NCCL's lines about paths: connections, what its search found, algorithms, NVLS.

Sources: NCCL 2.18.5 to 2.30.7, src/transport/{p2p,shm,net,coll_net,nvls}.cc, src/graph/search.cc
(ncclTopoPrintGraph), src/enqueue.cc and src/init.cc; before 2.18 and in RCCL the brackets hold a
bus id, and RCCL ends connections with `comm ADDRESS nRanks N`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from types import MappingProxyType
from typing import Final

from hpckit.comm.run.log_lines import (
    NUMBER,
    Algorithm,
    Bootstrap,
    Build,
    ChannelCounts,
    Communicator,
    Connection,
    Facts,
    Form,
    GpuDirect,
    LibraryVersion,
    LoggedSetting,
    LogNic,
    NcclLine,
    Network,
    NicList,
    NodeShare,
    Nvls,
    OfiProvider,
    P2pDisabled,
    Plugin,
    PluginEvent,
    SearchedGraph,
    Transport,
    VirtualNic,
    Warned,
    form,
    nothing,
)
from hpckit.spec.platform import CommLibrary, NcclVersion

# --- Forms of NCCL's lines about a process: its release, settings, communicators, what went wrong.
#
# Sources: NCCL 2.18.5 to 2.30.7, src/init.cc, src/misc/param.cc, src/debug.cc; RCCL 2.18 to 2.30,
# src/init.cc (`RCCL version : 2.27.7-HEAD:…`).


VERSION: Final = re.compile(
    r"(?P<library>NCCL|RCCL) version ?:? ?"
    r"(?P<text>(?P<release>[0-9]{1,2}\.[0-9]{1,2}(?:\.[0-9]{1,3})?)[^\s]{0,80}).{0,80}",
    re.ASCII,
)
"""A release as it is printed, in a line of NCCL's or, of rank 0, in one without a prefix."""

_DEVICE: Final = re.compile(r" cudaDev ([0-9]{1,4})", re.ASCII)
_COMM_ID: Final = re.compile(r" commId (0x[0-9a-f]{1,20})", re.ASCII)
_COMM: Final = r"comm (?:0x)?[0-9a-fA-F()nil]{1,20}"


def version_fact(match: re.Match[str], host: str | None) -> LibraryVersion | None:
    """The release of a match of VERSION; None where that is no number of a release."""
    with suppress(ValueError):
        return LibraryVersion(
            host=host,
            library=CommLibrary(match["library"].lower()),
            version=NcclVersion.of(match["release"]),
            text=match["text"],
        )
    return None


def _version(match: re.Match[str], line: NcclLine) -> Facts:
    fact = version_fact(match, line.host)
    return () if fact is None else (fact,)


def _setting(match: re.Match[str], line: NcclLine) -> Facts:
    value = match["value"].strip()
    yield LoggedSetting(host=line.host, name=match["name"], value=value.removesuffix("."))


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


def _share(match: re.Match[str], line: NcclLine) -> Facts:
    yield NodeShare(
        host=line.host,
        ranks=int(match["ranks"]),
        nodes=int(match["nodes"]),
        local_ranks=int(match["local"]),
        is_mnnvl=match["mnnvl"] == "1",
    )


def _failed(match: re.Match[str], line: NcclLine) -> Facts:
    yield Warned(host=line.host, text=match[0])


_RANKS: Final = rf"rank (?P<rank>{NUMBER}) n[rR]anks (?P<ranks>{NUMBER})"

JOB_FORMS: Final[tuple[Form, ...]] = (
    Form(starts=("NCCL version", "RCCL version"), pattern=VERSION, build=_version),
    form(
        "",
        r"(?P<name>[A-Z][A-Z0-9_]{2,60}) set by environment to (?P<value>.{0,400})",
        _setting,
    ),
    form(
        "",
        r"(?P<name>[NR]CCL_[A-Z0-9_]{2,60}) set to (?P<value>.{0,400})",
        _setting,
    ),
    form(
        "",
        rf"(?:\[Rank {NUMBER}\] )?(?:[A-Za-z_]{{4,40}} )?{_COMM} {_RANKS}(?P<more>.{{0,200}}?)- "
        r"(?P<event>Init START|Init COMPLETE|Abort START|Abort COMPLETE|Destroy COMPLETE).{0,40}",
        _communicator,
    ),
    form(
        "comm",
        rf"{_COMM} rank {NUMBER} nRanks (?P<ranks>{NUMBER}) nNodes (?P<nodes>{NUMBER})"
        rf" localRanks (?P<local>{NUMBER}) localRank {NUMBER} MNNVL (?P<mnnvl>{NUMBER})",
        _share,
    ),
    form("Call to", r"Call to .{1,60} (?:failed|returned) .*", _failed),
    form("Call to", r"Call to .{0,80} (?:not supported|skipped).{0,100}", nothing),
    form("", r".{1,120}: (?:connect|connect to \S{1,80}) returned .*", _failed),
    form("Failed to bind NVLink SHARP", r"Failed to bind NVLink SHARP .*", _failed),
    form("cuMem host allocations", r"cuMem host allocations do not appear .*", _failed),
    form("", r"\S{1,200}:[0-9]{1,6} (?:-> [0-9]{1,4}|Cuda failure .{1,200}).{0,60}", nothing),
)
"""In the order in which they are tried."""


# --- Forms of NCCL's lines about networks: bootstrap, NICs, plugins, GPU Direct RDMA.
#
# Sources: NCCL 2.18.5 to 2.30.7: src/bootstrap.cc, src/transport/net_ib* (Using, No device found),
# src/transport/net_socket.cc, src/net.cc, src/plugin/, src/graph/paths.cc and topo.cc (GPU
# Direct);
# aws-ofi-nccl, src/nccl_ofi_net.cpp. Before 2.27 only a NIC's number stands in the lines of pairs,
# and 2.28 and newer print pairs at TRACE alone.


_NAME: Final = r"([A-Za-z][A-Za-z0-9_.+-]{0,80}):([0-9]{0,3})(?::[0-9]{0,4}){0,2}/([A-Za-z]{2,12})"
_NIC: Final = re.compile(
    rf"\[([0-9]{{1,4}})\] ?{_NAME}(/SHARP)?|\[([0-9]{{1,4}})\]=\{{([^{{}}]{{0,800}})\}}", re.ASCII
)
_PART: Final = re.compile(_NAME, re.ASCII)
_MBIT_BYTES: Final = 1e6 / 8
_INTERFACE: Final = re.compile(r"\[([0-9]{1,4})\]([^\s:\[\]]{1,40}):", re.ASCII)


def _bootstrap(match: re.Match[str], line: NcclLine) -> Facts:
    yield Bootstrap(host=line.host, interface=match[1], address=match[2])


def _network(match: re.Match[str], line: NcclLine) -> Facts:
    yield Network(host=line.host, name=match[1])


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


def _virtual(match: re.Match[str], line: NcclLine) -> Facts:
    yield VirtualNic(
        host=line.host,
        index=int(match["index"]),
        name=match["name"],
        rate_bytes_per_s=int(match["speed"]) * _MBIT_BYTES,
        devices=int(match["devices"]),
    )


def _no_ib(_: re.Match[str], line: NcclLine) -> Facts:
    yield NicList(host=line.host, network="IB", nics=())


def _interfaces(match: re.Match[str], line: NcclLine) -> Facts:
    nics = tuple(LogNic(int(one[1]), one[2]) for one in _INTERFACE.finditer(match[1]))
    yield NicList(host=line.host, network="Socket", nics=nics)


def _provider(match: re.Match[str], line: NcclLine) -> Facts:
    nics = int(match["nics"]) if match["nics"] else None
    yield OfiProvider(host=line.host, provider=match["name"], nics=nics)


def _ofi(match: re.Match[str], line: NcclLine) -> Facts:
    name, event = match[1].strip(), PluginEvent.LOADED
    yield Plugin(host=line.host, kind="net", event=event, name=name)


def _nic_direct(match: re.Match[str], line: NcclLine) -> Facts:
    yield GpuDirect(
        host=line.host, gpu=None, nic=match["name"], is_enabled=match["state"] == "Enabled"
    )


def _pair_direct(match: re.Match[str], line: NcclLine) -> Facts:
    yield GpuDirect(
        host=line.host,
        gpu=match["gpu"],
        nic=match["nic"],
        is_enabled=match["state"] == "Enabled",
        distance=int(match["distance"]),
        limit=int(match["limit"]),
    )


NET_FORMS: Final[tuple[Form, ...]] = (
    form("Bootstrap", r"Bootstrap ?: Using ?([^\s:\[\]]{1,40}):(\S{1,100}).{0,20}", _bootstrap),
    form("Bootstrap", r"Bootstrap timings .*", nothing),
    form("Using network", r"Using network (.{1,100})", _network),
    form("NET/IB", r"NET/IB ?: Using ?(.*?) ?(?:\[RO\])?; OOB .*", _ib_nics),
    form("NET/IB", r"NET/IB ?: Using (\[.*)", _ib_nics),
    form("NET/IB", r"NET/IB ?: No device found\.?", _no_ib),
    form(
        "NET/IB",
        r"NET/IB ?: Made virtual device \[(?P<index>[0-9]{1,4})\] name=(?P<name>\S{1,200})"
        r" speed=(?P<speed>[0-9]{1,9}) ndevs=(?P<devices>[0-9]{1,3}).{0,80}",
        _virtual,
    ),
    form("NET/Socket", r"NET/Socket ?: Using (\[.*)", _interfaces),
    form(
        "NET/OFI",
        r"NET/OFI (?:\[[^\]]{0,20}\] )?[Ss]elected [Pp]rovider is (?P<name>[^\s,]{1,60})"
        r"(?:, fabric is \S{1,60})?(?: \(found (?P<nics>[0-9]{1,4}) nics\))?.{0,40}",
        _provider,
    ),
    form("NET/OFI", r"NET/OFI (?:Initializing|Using) (aws-ofi-[nr]ccl .{0,60})", _ofi),
    form("NET/OFI", r"NET/OFI .*(?:[Nn]o eligible providers|[Ff]ailed).*", _failed),
    form(
        "",
        r"NET/[^:]{1,60}: GPU Direct RDMA (?P<state>Enabled|Disabled) for HCA [0-9]{1,4}"
        r" '(?P<name>[^']{1,100})'.{0,40}",
        _nic_direct,
    ),
    form(
        "GPU Direct RDMA",
        r"GPU Direct RDMA (?P<state>Enabled|Disabled) for GPU (?P<gpu>[0-9a-fA-F:./-]{1,20})"
        r" / HCA (?P<nic>[0-9a-fA-F:./-]{1,20})"
        rf" \(distance (?P<distance>{NUMBER}) (?:<=|>) (?P<limit>{NUMBER})\).{{0,60}}",
        _pair_direct,
    ),
    form("NET/OFI", r"NET/OFI .*", nothing),
    form("NET/IB", r"NET/IB ?:(?! ?(?:Using|No device|Made|GPU Direct)).*", nothing),
    form("NET/Socket", r"NET/Socket ?: Using [a-z0-9].*", nothing),
)
"""In the order in which they are tried."""


_PLACE: Final = r"\[[0-9a-fA-F]{1,16}\]"
_ENDS: Final = rf"(?P<sender>{NUMBER}){_PLACE} -> (?P<receiver>{NUMBER}){_PLACE}"
_CHANNEL: Final = rf"Channel [0-9]{{1,4}}(?:/(?P<use>[0-9]{{1,4}}))? ?: {_ENDS}"
_RCCL_END: Final = r"(?: comm 0x[0-9a-f]{1,16} nRanks [0-9]{1,7})?"
_FLOAT: Final = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
_TYPE: Final = r"[A-Z0-9]{2,6}"
_GB: Final = 1e9
_ALGORITHMS: Final = ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT")
_PROTOCOLS: Final = ("LL", "LL128", "Simple")


def _local(match: re.Match[str], line: NcclLine) -> Facts:
    yield Connection(
        host=line.host,
        sender=int(match["sender"]),
        receiver=int(match["receiver"]),
        transport=Transport(match["transport"]),
        how=match["how"],
        is_point_to_point=match["use"] == "1",
    )


def _net(match: re.Match[str], line: NcclLine) -> Facts:
    yield Connection(
        host=line.host,
        sender=int(match["sender"]),
        receiver=int(match["receiver"]),
        transport=Transport.NET,
        how=match["how"],
        is_send=match["end"] == "send",
        nic=int(match["nic"]),
        is_gdr="/GDRDMA" in match["rest"],
        is_point_to_point=match["use"] == "1",
    )


def _collnet(match: re.Match[str], line: NcclLine) -> Facts:
    yield Connection(
        host=line.host,
        sender=int(match["rank"]),
        receiver=None,
        transport=Transport.COLLNET,
        how=match["how"],
        is_send=match["end"] == "send",
        nic=int(match["nic"]),
        is_gdr="/GDRDMA" in match["rest"],
    )


def _graph(match: re.Match[str], line: NcclLine) -> Facts:
    yield SearchedGraph(
        host=line.host,
        pattern=int(match["pattern"]),
        cross_nic=int(match["cross"]),
        channels=int(match["channels"]),
        intra_bytes_per_s=float(match["intra"]) * _GB,
        inter_bytes_per_s=float(match["inter"]) * _GB,
        intra_type=match["near"],
        inter_type=match["far"],
    )


def _counts(match: re.Match[str], line: NcclLine) -> Facts:
    nvls = match["nvls"]
    yield ChannelCounts(
        host=line.host,
        collective=int(match["coll"]),
        nvls=int(nvls) if nvls else None,
        p2p=int(match["p2p"]),
        p2p_per_peer=int(match["peer"]),
    )


def _algorithm(match: re.Match[str], _: NcclLine) -> Facts:
    yield Algorithm(
        collective=match["what"],
        algorithm=_named(match["algorithm"], _ALGORITHMS),
        protocol=_named(match["protocol"], _PROTOCOLS),
    )


def _old_algorithm(match: re.Match[str], _: NcclLine) -> Facts:
    yield Algorithm(
        collective=None,
        algorithm=_numbered(match["algorithm"], _ALGORITHMS),
        protocol=_numbered(match["protocol"], _PROTOCOLS),
    )


def _named(word: str, names: tuple[str, ...]) -> str:
    """NCCL's spelling in its documentation; its log has capitals (`RING`)."""
    plain = word.replace("_", "").lower()
    return next((name for name in names if name.lower() == plain), word)


def _numbered(digits: str, names: tuple[str, ...]) -> str:
    """A name by NCCL's number, src/include/nccl_common.h; one beyond the table is kept."""
    return names[int(digits)] if int(digits) < len(names) else digits


def _nvls(match: re.Match[str], line: NcclLine) -> Facts:
    yield Nvls(host=line.host, is_available=match["no"] is None)


def _nvls_made(_: re.Match[str], line: NcclLine) -> Facts:
    yield Nvls(host=line.host, is_available=True)


def _p2p_disabled(match: re.Match[str], line: NcclLine) -> Facts:
    yield P2pDisabled(host=line.host, gpus=(match[1], match[2]))


PATH_FORMS: Final[tuple[Form, ...]] = (
    form(
        "Channel",
        rf"{_CHANNEL} via (?P<transport>P2P|SHM)/(?P<how>.{{1,80}}?){_RCCL_END}",
        _local,
    ),
    form(
        "Channel",
        rf"{_CHANNEL} \[(?P<end>send|receive)\] via NET/(?P<how>[^/]{{1,100}})"
        rf"/(?P<nic>[0-9]{{1,4}})(?:\([0-9]{{1,7}}\))?(?P<rest>(?:/[A-Za-z0-9()]{{1,20}}){{0,4}}){_RCCL_END}",
        _net,
    ),
    form(
        "CollNet",
        rf"CollNet [0-9]{{1,4}}/[0-9]{{1,4}} ?: (?P<rank>{NUMBER}) \[(?P<end>send|receive)\] via"
        r" COLLNET/(?P<how>[^/]{1,100})/(?P<nic>[0-9]{1,4})(?:\([0-9]{1,7}\))?"
        r"(?P<rest>(?:/[A-Za-z0-9()]{1,20}){0,4})",
        _collnet,
    ),
    # The order of a ring: ranks of channel c of n, as many as fit into NCCL's buffer.
    form("Channel", r"Channel [0-9]{1,4}/[0-9]{1,4} ?:[ 0-9]*", nothing),
    form(
        "Pattern",
        rf"Pattern (?P<pattern>{NUMBER}), crossNic (?P<cross>{NUMBER}),"
        rf" nChannels (?P<channels>{NUMBER}), bw (?P<intra>{_FLOAT})/(?P<inter>{_FLOAT}),"
        rf" type (?P<near>{_TYPE})/(?P<far>{_TYPE}), sameChannels {NUMBER}.{{0,60}}",
        _graph,
    ),
    form(
        "",
        rf"(?P<coll>{NUMBER}) coll channels, (?:{NUMBER} collnet channels, )?"
        rf"(?:(?P<nvls>{NUMBER}) nvls channels, )?(?P<p2p>{NUMBER}) p2p channels,"
        rf" (?P<peer>{NUMBER}) p2p channels per peer.{{0,60}}",
        _counts,
    ),
    form(
        "comm:",
        rf"comm:\S{{1,20}}, nRanks:{NUMBER}, nNodes:{NUMBER}, coll channels:(?P<coll>{NUMBER})"
        rf" collnet channels:{NUMBER}, nvls channels:(?P<nvls>{NUMBER}),"
        rf" p2p channels:(?P<p2p>{NUMBER}), p2p channels per peer:(?P<peer>{NUMBER}).{{0,60}}",
        _counts,
    ),
    form(
        "",
        r"(?P<what>[A-Z][A-Za-z]{2,30}): [0-9]{1,20} Bytes -> Algo"
        r" (?P<algorithm>[A-Za-z0-9_]{1,30}) proto (?P<protocol>[A-Za-z0-9]{1,20}) channel.{0,40}",
        _algorithm,
    ),
    form(
        "",
        r"[0-9]{1,20} Bytes -> Algo (?P<algorithm>[0-9]{1,2}) proto (?P<protocol>[0-9]{1,2})"
        r" time .{1,40}",
        _old_algorithm,
    ),
    form("NVLS multicast", r"NVLS multicast support is (?P<no>not )?available on dev .*", _nvls),
    form("NVLS comm", r"NVLS comm .*", _nvls_made),
    form("NVLS", r"NVLS .*", nothing),
    form(
        "P2P is disabled",
        r"P2P is disabled between connected GPUs ([0-9]{1,5}) and ([0-9]{1,5})\..*",
        _p2p_disabled,
    ),
    form(
        ("Could not enable P2P", "peer query failed"),
        r"(?:Could not enable P2P|peer query failed) between dev ([0-9]{1,5})\(=[0-9a-f]{1,16}\)"
        r" and dev ([0-9]{1,5})\(=[0-9a-f]{1,16}\)",
        _p2p_disabled,
    ),
    form(
        "P2P not supported between GPU",
        r"P2P not supported between GPU([0-9]{1,5}) and GPU([0-9]{1,5})",
        _p2p_disabled,
    ),
)
"""In the order in which they are tried."""


# --- Forms of NCCL's lines about plugins: which were asked for, found, loaded or refused.
#
# Sources: NCCL 2.18.5 to 2.25.1, src/net.cc and src/misc/tuner.cc; 2.27.7 and 2.30.7,
# src/plugin/plugin_open.cc and src/plugin/net.cc.


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
