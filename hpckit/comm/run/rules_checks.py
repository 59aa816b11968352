"""Whether a run used the network that it should: its NICs, its plugin, GPU Direct RDMA."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from types import MappingProxyType
from typing import Final

from hpckit.comm.run.log_lines import (
    Connection,
    LoggedSetting,
    LogNic,
    NicList,
    Plugin,
    PluginEvent,
    Seen,
    Transport,
)
from hpckit.comm.run.rules_result import (
    NVLINK_TYPES,
    OWN_NETWORKS,
    SOCKET,
    Hosted,
    RunFacts,
    first_line,
    grouped,
    logged,
)
from hpckit.core.findings import Evidence, Severity
from hpckit.core.hostlist import named, natural_order
from hpckit.core.units import counted
from hpckit.spec.platform import NetPlugin

NETWORKS: Final = MappingProxyType(
    {
        NetPlugin.AWS_OFI: ("AWS Libfabric", "Libfabric", "OFI"),
        NetPlugin.TCPX: ("GPUDirectTCPX",),
        NetPlugin.TCPXO: ("FasTrak",),
        NetPlugin.GIB: ("gIB",),
        NetPlugin.HPCX: ("IBext", "UCX"),
    }
)
"""How NCCL names a plugin's network, from its beginning; NONE is NCCL's own IB or Socket.

Sources: aws-ofi-nccl, src/nccl_ofi_interface_nvidia.cpp and _neuron.cpp; NVIDIA,
nccl-rdma-sharp-plugins (IBext_v8, UCX, UCX-RMA); Google Cloud, documents of GPUDirect-TCPX, -TCPXO
and of gIB. Read 2026-11.
"""

TCP_PROVIDERS: Final = frozenset({"tcp", "sockets", "udp", "net"})
"""Providers of libfabric without RDMA. Source: fi_tcp(7), fi_sockets(7), fi_udp(7); 2026-11."""

_GBIT_BYTES: Final = 1e9 / 8


def network_socket(facts: RunFacts) -> Iterable[Evidence]:
    """Rule `network-socket`: traffic between nodes goes over TCP."""
    sockets = [one for one in facts.log.networks if one.what.name == SOCKET]
    if not facts.is_multi_node or facts.expected.nics == () or _is_mnnvl(facts):
        return ()
    names = _socket_names(facts)
    over = f" over {named(names)}" if names else ""
    is_known = facts.expected.nics or facts.expected.plugin or facts.rdma_lists
    severity = Severity.ERROR if is_known else Severity.WARNING
    return facts.told("NCCL used network Socket", sockets, f"{over}{_rdma_words(facts)}", severity)


def provider_tcp(facts: RunFacts) -> Iterable[Evidence]:
    """Rule `provider-tcp`: libfabric has a network, and it is TCP or UDP."""
    if not facts.is_multi_node or facts.expected.nics == ():
        return ()
    # The core provider stands before those that are layered on it: `tcp;ofi_rxm`.
    slow = [
        one for one in facts.log.providers if one.what.provider.partition(";")[0] in TCP_PROVIDERS
    ]
    return facts.told(f"libfabric's provider is {named(one.what.provider for one in slow)}", slow)


def _is_mnnvl(facts: RunFacts) -> bool:
    """Whether NVLink joins the nodes and no connection goes over a network."""
    transports = {one.what.transport for one in facts.log.connections}
    is_joined = any(one.what.is_mnnvl for one in facts.log.shares)
    return is_joined and bool(transports) and Transport.NET not in transports


def _rdma_words(facts: RunFacts) -> str:
    absent = _without_device(facts)
    said = f"; line {first_line(absent)}: NET/IB found no device" if absent else ""
    nics = facts.expected.nics
    return f"{said}; the node has {counted(len(nics), 'NIC')} for jobs" if nics else said


def _without_device(facts: RunFacts) -> list[Seen[NicList]]:
    lists = facts.log.nic_lists
    return [one for one in lists if one.what.network == "IB" and not one.what.nics]


def no_rdma_device(facts: RunFacts) -> Iterable[Evidence]:
    """Rule `no-rdma-device`: nothing to worry about on one node, and all there is to say of it."""
    is_told = facts.expected.nics == () or any(network_socket(facts))
    if is_told or facts.networks - {SOCKET}:
        return ()
    is_single = facts.is_multi_node is False
    why = "; harmless on one node, where nothing uses the network" if is_single else ""
    severity = Severity.NOTE if is_single else None
    return facts.told("NET/IB found no device", _without_device(facts), why, severity)


def nics_fewer(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `nics-fewer`: a host lacks NICs that it has, or that the other hosts use."""
    expected = facts.expected.nics
    if expected is None:
        yield from _uneven_lists(facts, facts.rdma_lists)
        return
    for lacking, lists in _by_names(facts, lambda used: [n for n in expected if n not in used]):
        used = f"NCCL uses {len(expected) - len(lacking)} of {len(expected)} NICs"
        yield from facts.told(used, lists, f", not {named(lacking)}")


def _by_names(
    facts: RunFacts, chosen: Callable[[set[str]], Iterable[str]]
) -> Iterator[tuple[tuple[str, ...], list[Seen[NicList]]]]:
    """What is chosen of the names in each list of NICs, where that is any, and the lists."""
    groups = grouped(facts.rdma_lists, lambda one: tuple(chosen(_names(one.what.nics))))
    return ((names, lists) for names, lists in groups.items() if names)


def _names(nics: tuple[LogNic, ...]) -> set[str]:
    """Names of NICs; one that NCCL made of several ports or cards counts as each of them."""
    return {part for nic in nics for part in _parts(nic.name)}


def _parts(name: str) -> list[str]:
    """The devices of a NIC, each by the kernel's name.

    A ConnectX-8 with Data Direct is `mlx5_0_dma` in NCCL's list. Source: NCCL 2.27,
    src/transport/net_ib.cc.
    """
    return [part.removesuffix("_dma") for part in name.split("+")]


def _uneven_lists(facts: RunFacts, lists: list[Seen[NicList]]) -> Iterator[Evidence]:
    told = facts.expected.nic_count
    counts = {one.what.host: len(_names(one.what.nics)) for one in lists}
    most = max(counts.values(), default=0)
    if told is not None and 0 < most < told:
        is_single = facts.is_multi_node is False
        yield logged(
            f"NCCL uses {counted(most, 'NIC')}, but the node has {told}",
            first_line(lists),
            Severity.NOTE if is_single else None,
        )
    for one in lists:
        count = counts[one.what.host]
        if count < most and one.what.host is not None:
            yield logged(
                f"NCCL uses {counted(count, 'NIC')} on {one.what.host}, {most} on other nodes",
                one.line_no,
            )


def nics_unexpected(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `nics-unexpected`: NICs that are not for jobs, such as those of storage."""
    expected = set(facts.expected.nics or ())
    for extra, lists in _by_names(facts, lambda used: sorted(used - expected)) if expected else ():
        more = f", not among the {len(facts.expected.nics or ())} NICs for jobs"
        yield from facts.told(f"NCCL also uses {named(extra)}", lists, more)


def nic_slower(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `nic-slower`: a NIC for jobs that came up at a lower rate than the others."""
    wanted = facts.expected.nics
    nics = (
        one
        for one in facts.log.virtual_nics
        if wanted is None or set(_parts(one.what.name)) <= set(wanted)
    )
    rates = grouped(nics, lambda one: one.what.rate_bytes_per_s / max(one.what.devices, 1))
    most = max(rates, default=0.0)
    for rate in sorted(set(rates) - {most}):
        more = f" at {rate / _GBIT_BYTES:g} Gb/s, others at {most / _GBIT_BYTES:g} Gb/s"
        names = named(one.what.name for one in rates[rate])
        yield from facts.told(names, rates[rate], more, None if wanted else Severity.NOTE)


def nic_twice(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `nic-twice`: one port stands twice in a list."""
    for one in facts.rdma_lists:
        ports = Counter((nic.name, nic.port) for nic in one.what.nics)
        twice = [name for (name, _), count in ports.items() if count > 1]
        if twice:
            host = f" on {one.what.host}" if one.what.host else ""
            yield logged(f"NCCL lists {named(twice)} twice{host}", one.line_no)


def gpu_direct_off(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `gpu-direct-off`: a NIC, a GPU for all NICs, or a connection goes through host memory.

    That a GPU has no GPU Direct with a NIC far away is by design. Sends may lack it on GPUs before
    Ampere (NCCL_NET_GDR_READ), so connections count where they receive.
    """
    is_by_design = facts.is_omni_path or facts.is_efa
    yield from _nics_without(facts, Severity.NOTE if is_by_design else None)
    yield from _gpus_without(facts)
    if facts.is_multi_node:
        yield from _off_by(facts.settings("NCCL_NET_GDR_LEVEL"))
    slow = [
        one
        for one in facts.log.connections
        if one.what.transport is Transport.NET
        and one.what.is_send is False
        and not one.what.is_gdr
        and one.what.how != SOCKET
    ]
    if facts.expected.nics != ():
        channels = counted(sum(one.count for one in slow), "channel")
        over = named(one.what.how for one in slow)
        works = any(one.what.is_gdr and one.what.is_send is False for one in facts.log.connections)
        more = "; others have it, and a NIC far from its GPU has none by design" if works else ""
        severity = Severity.NOTE if works or is_by_design else None
        because = f"{channels} receive over {over} without GDRDMA"
        yield from facts.told(because, slow, more, severity)


def _nics_without(facts: RunFacts, severity: Severity | None) -> Iterable[Evidence]:
    sockets = {name.lower() for name in _socket_names(facts)}
    off = [one for one in facts.log.gpu_direct if one.what.gpu is None and not one.what.is_enabled]
    off = [one for one in off if one.what.nic.lower() not in sockets]
    because = f"GPU Direct RDMA is disabled for {named(one.what.nic for one in off)}"
    return facts.told(because, off, "", severity)


def _socket_names(facts: RunFacts) -> set[str]:
    lists = [one.what for one in facts.log.nic_lists if one.what.network == SOCKET]
    return {nic.name for one in lists for nic in one.nics}


def _gpus_without(facts: RunFacts) -> Iterator[Evidence]:
    seen = (one for one in facts.log.gpu_direct if one.what.gpu is not None)
    for (host, gpu), each in grouped(seen, lambda one: (one.what.host, one.what.gpu)).items():
        if not any(one.what.is_enabled for one in each):
            nearest = min(each, key=lambda one: one.what.distance or 0)
            at = f" on {host}" if host else ""
            yield logged(
                f"GPU {gpu}{at} has GPU Direct RDMA with none of {counted(len(each), 'HCA')}:"
                f" the nearest is at distance {nearest.what.distance},"
                f" and the limit is {nearest.what.limit}",
                nearest.line_no,
            )


def plugin_not_loaded(facts: RunFacts) -> Iterable[Evidence]:
    """Rule `plugin-not-loaded`: a plugin that was asked for, here or by a variable."""
    wanted = facts.expected.plugin or NetPlugin.NONE
    other = [
        one for one in facts.log.networks if not one.what.name.startswith(NETWORKS.get(wanted, ()))
    ]
    if wanted is NetPlugin.NONE or not other or facts.is_multi_node is False:
        return _asked(facts)
    used = f"NCCL used network {named(one.what.name for one in other)}"
    return facts.told(used, other, f", not {wanted.value}{_failed_words(facts)}")


def _asked(facts: RunFacts) -> Iterator[Evidence]:
    """What NCCL_NET_PLUGIN names, where NCCL fell back on its own network."""
    asked = _net_plugins(facts, PluginEvent.ASKED)
    names = {one.what.name: one.line_no for one in asked if one.what.name}
    for setting, _ in facts.settings("NCCL_NET_PLUGIN"):
        names.setdefault(setting.what.value, setting.line_no)
    networks = facts.networks
    if networks and networks <= OWN_NETWORKS:
        for name, line_no in names.items():
            if name not in ("none", ""):
                yield logged(
                    f"NCCL_NET_PLUGIN asks for {name}, but NCCL used its own network"
                    f" {named(networks)}{_failed_words(facts)}",
                    line_no,
                )


def _net_plugins(facts: RunFacts, *events: PluginEvent) -> list[Seen[Plugin]]:
    return [one for one in facts.log.plugins if one.what.kind == "net" and one.what.event in events]


def _failed_words(facts: RunFacts) -> str:
    lost = _net_plugins(facts, PluginEvent.MISSING, PluginEvent.FAILED)
    names = [one.what.name for one in lost if one.what.name]
    return f"; line {first_line(lost)}: {named(names)} not found" if names else ""


def bootstrap_differs(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `bootstrap-differs`: nodes that meet the others on an interface of another name.

    Boards name interfaces by slot: addresses of one network say that it is the same one.
    """
    hosts: dict[str, dict[str, int]] = {}
    for one in facts.log.bootstraps:
        if one.what.host is not None:
            hosts.setdefault(one.what.interface, {}).setdefault(one.what.host, one.line_no)
    networks = {one.what.address.rpartition(".")[0] for one in facts.log.bootstraps}
    is_one_network = len(networks) == 1 and "" not in networks  # IPv6 has no dots
    if len(hosts) < 2 or is_one_network:  # noqa: PLR2004  one interface is the same everywhere
        return
    usual = max(hosts, key=lambda name: len(hosts[name]))
    for interface, each in hosts.items():
        if interface != usual:
            yield logged(
                f"{named(each)} bootstraps over {interface},"
                f" {counted(len(hosts[usual]), 'other node')} over {usual}",
                min(each.values()),
            )


# --- Whether a run used what its nodes have: links between GPUs, channels, all NICs alike.

_LOW_PROTOCOLS: Final = frozenset({"LL", "LL128"})


def shm_between_gpus(facts: RunFacts) -> Iterable[Evidence]:
    """Rule `shm-between-gpus`: GPUs of one node talk through host memory."""
    shm = [one for one in facts.log.connections if one.what.transport is Transport.SHM]
    if not shm or facts.is_nvlink is False:
        return ()
    joined = " joined by NVLink" if facts.is_nvlink else ""
    severity = None if facts.is_nvlink else Severity.NOTE
    return facts.told(f"{_pairs(shm)}{joined} use SHM ({_example(shm)})", shm, "", severity)


def p2p_indirect(facts: RunFacts) -> Iterable[Evidence]:
    """Rule `p2p-indirect`: a GPU reaches another through a third."""
    seen = [
        one
        for one in facts.log.connections
        if one.what.transport is Transport.P2P and one.what.how.startswith("indirect")
    ]
    if not seen:
        return ()
    return facts.told(f"{_pairs(seen)} go through another GPU ({_example(seen)})", seen)


def _pairs(seen: list[Seen[Connection]]) -> str:
    pairs = {frozenset((one.what.sender, one.what.receiver)) for one in seen}
    return f"{counted(len(pairs), 'pair')} of ranks"


def _example(seen: list[Seen[Connection]]) -> str:
    one = seen[0].what
    return f"rank {one.sender} to {one.receiver} via {one.transport.value}/{one.how}"


def gpu_path_far(facts: RunFacts) -> Iterable[Evidence]:
    """Rule `gpu-path-far`: NCCL's rings between GPUs of a node leave NVLink."""
    far = [one for one in facts.rings if one.what.intra_type not in NVLINK_TYPES]
    if not facts.is_nvlink or not far:
        return ()
    one = far[0].what
    speed = f"{counted(one.channels, 'channel')} of {one.intra_bytes_per_s / 1e9:g} GB/s"
    return facts.told(f"NCCL's rings go over {one.intra_type}", far, f": {speed}")


def nic_path_far(facts: RunFacts) -> Iterable[Evidence]:
    """Rule `nic-path-far`: NCCL reaches its NICs across the CPU; within one many machines do."""
    far = [one for one in facts.rings if one.what.inter_type in ("PHB", "SYS")]
    if not far or not facts.is_multi_node or facts.networks == {SOCKET}:
        return ()
    one = far[0].what
    speed = f": {one.inter_bytes_per_s / 1e9:g} GB/s per channel"
    severity = None if one.inter_type == "SYS" else Severity.NOTE
    return facts.told(f"NCCL's rings reach a NIC over {one.inter_type}", far, speed, severity)


def p2p_refused(facts: RunFacts) -> Iterable[Evidence]:
    """Rule `p2p-refused`: connected GPUs may not access each other."""
    seen = facts.log.p2p_disabled
    pairs = named("-".join(one.what.gpus) for one in seen)
    return facts.told(f"P2P is disabled between connected GPUs {pairs}", seen)


def p2p_disabled(facts: RunFacts) -> Iterable[Evidence]:
    """Rule `p2p-disabled`: by a variable."""
    return _off_by(facts.settings("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"))


_OFF: Final = MappingProxyType(
    {
        **dict.fromkeys(("NCCL_P2P_LEVEL", "NCCL_NET_GDR_LEVEL"), ("0", "LOC")),
        **dict.fromkeys(("NCCL_P2P_DISABLE", "NCCL_PXN_DISABLE", "NCCL_IB_DISABLE"), ("1",)),
        "NCCL_NVLS_ENABLE": ("0",),
    }
)
"""The values of a variable that turn something off."""


def _off_by(settings: Iterable[tuple[Seen[LoggedSetting], str]]) -> Iterator[Evidence]:
    for one, where in settings:
        if one.what.value.upper() in _OFF[one.what.name]:
            yield _set_to(one, where)


def _set_to(one: Seen[LoggedSetting], where: str, severity: Severity | None = None) -> Evidence:
    return logged(f"{one.what.name}={one.what.value} is set{where}", one.line_no, severity)


def nvls_disabled(facts: RunFacts) -> Iterable[Evidence]:
    """Rule `nvls-disabled`: by a variable, where the GPUs may have it."""
    may_have = facts.is_nvlink is not False and facts.expected.has_nvls is not False
    return _off_by(facts.unwanted("NCCL_NVLS_ENABLE")) if may_have else ()


def nvls_unavailable(facts: RunFacts) -> Iterable[Evidence]:
    """Rule `nvls-unavailable`: the machine has it; of others NCCL says the same by design."""
    off = [one for one in facts.log.nvls if not one.what.is_available]
    is_odd = facts.expected.has_nvls
    return facts.told("NVLS multicast support is not available", off) if is_odd else ()


def pxn_disabled(facts: RunFacts) -> Iterable[Evidence]:
    """Rule `pxn-disabled`: by a variable; on one node no message crosses rails."""
    return _off_by(facts.unwanted("NCCL_PXN_DISABLE")) if facts.is_multi_node else ()


def ib_disabled(facts: RunFacts) -> Iterable[Evidence]:
    """Rule `ib-disabled`: by a variable; on one node, and by a plugin, nothing goes over verbs."""
    is_odd = not facts.is_by_plugin and facts.is_multi_node and facts.expected.nics != ()
    return _off_by(facts.settings("NCCL_IB_DISABLE")) if is_odd else ()


def algorithm_forced(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `algorithm-forced`: NCCL's own choice is off; LL is for short messages."""
    for one, where in facts.unwanted("NCCL_ALGO", "NCCL_PROTO"):
        words = {word.strip().upper() for word in one.what.value.split(",")}
        is_low = one.what.name == "NCCL_PROTO" and words <= _LOW_PROTOCOLS
        yield _set_to(one, where, Severity.WARNING if is_low else None)


def channels_limited(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `channels-limited`: fewer than NICs, than NCCL's own search found, or by a variable."""
    counts = [one for one in facts.log.channels if one.what.collective > 0]
    if counts:
        # Of communicators of several sizes the largest has the most channels.
        most = max(counts, key=lambda one: one.what.collective)
        have = most.what.collective
        nics = max((len(one.what.nics) for one in facts.rdma_lists), default=0)
        found = max((one.what.channels for one in facts.rings), default=0)
        if facts.is_multi_node and have < nics:
            yield logged(f"{counted(have, 'channel')} for {nics} NICs", most.line_no)
        if have < found:
            yield logged(
                f"{counted(have, 'channel')}, but NCCL's search found {found}", most.line_no
            )
    for one, where in facts.settings("NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS"):
        yield logged(
            f"{one.what.name}={one.what.value} limits channels{where}", one.line_no, Severity.NOTE
        )


def nics_uneven(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `nics-uneven`: on a host of which all ranks wrote, some NIC carries half of another.

    Whether all ranks wrote is told by the ranks that NCCL counts on a host. NICs that carry nothing
    are left out where each rank has one without them, or where they are of another fabric.
    """
    nics_of, ranks_of = _nics_of(facts), _whole_hosts(facts)
    # For rings and trees: sends of a program may be uneven.
    ring_sends = (
        one
        for one in facts.log.connections
        if one.what.transport is Transport.NET
        and one.what.is_send
        and not one.what.is_point_to_point
    )
    for host, sends in _by_host(ring_sends):
        nics = nics_of.get(host, {})
        used = {one.what.nic for one in sends}
        if not used <= nics.keys() or host not in ranks_of:
            continue
        links = {nics[index][1] for index in used}
        names = {index: name for index, (name, link) in nics.items() if link in links}
        if len({names[index] for index in used}) >= ranks_of[host]:
            names = {index: names[index] for index in used}
        if len(set(names.values())) > 1:
            yield from _uneven(host, names, sends)


def _by_host(seen: Iterable[Seen[Hosted]]) -> Iterator[tuple[str, list[Seen[Hosted]]]]:
    """Facts by the host that said them: a log has thousands of hosts, each read once."""
    groups = grouped(seen, lambda one: one.what.host)
    return ((host, each) for host, each in groups.items() if host is not None)


def _nics_of(facts: RunFacts) -> dict[str, dict[int | None, tuple[str, str | None]]]:
    """Index in a connection → NIC and its link: of virtual devices where any, else of the list."""
    found: dict[str, dict[int | None, tuple[str, str | None]]] = {}
    for host, lists in _by_host(facts.rdma_lists):
        if len(lists) == 1:
            found[host] = {nic.index: (nic.name, nic.link) for nic in lists[0].what.nics}
    for host, virtual in _by_host(facts.log.virtual_nics):
        links = dict(found.get(host, {}).values())
        found[host] = {one.what.index: (one.what.name, links.get(one.what.name)) for one in virtual}
    return found


def _whole_hosts(facts: RunFacts) -> dict[str, int]:
    """Return the hosts of which all ranks wrote, and how many those are."""
    local = {host: max(one.what.local_ranks for one in each)
             for host, each in _by_host(facts.log.shares)}  # fmt: skip
    ranks = {host: {one.what.rank for one in each}
             for host, each in _by_host(facts.log.communicators)}  # fmt: skip
    return {host: most for host, most in local.items() if len(ranks.get(host, ())) >= most}


def _uneven(
    host: str, nics: dict[int | None, str], sends: list[Seen[Connection]]
) -> Iterator[Evidence]:
    used: Counter[str] = Counter()
    for one in sends:
        used[nics[one.what.nic]] += one.count
    names = sorted(set(nics.values()), key=natural_order)
    most, least = max(names, key=used.__getitem__), min(used[name] for name in names)
    if 2 * least <= used[most] and used[most] > 1:
        few = [name for name in names if used[name] == least]
        yield logged(
            f"{most} on {host} sends on {counted(used[most], 'channel')}, {named(few)} on {least}",
            first_line(sends),
        )
