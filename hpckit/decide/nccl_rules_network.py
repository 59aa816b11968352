"""Whether a run used the network that it should: its NICs, its plugin, GPU Direct RDMA."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from hpckit.core.findings import Evidence, Severity
from hpckit.decide.nccl_rule import OWN_NETWORKS, SOCKET, RunFacts, first_line, logged, named
from hpckit.model.comm import NetPlugin
from hpckit.model.nccl_log import (
    GpuDirect,
    LogNic,
    Network,
    NicList,
    Plugin,
    PluginEvent,
    Seen,
    Transport,
    VirtualNic,
)
from hpckit.model.words import counted

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


def network_socket(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `network-socket`: traffic between nodes goes over TCP."""
    sockets = [one for one in facts.log.networks if one.what.name == SOCKET]
    if not sockets or not facts.is_multi_node or facts.expected.nics == () or _is_mnnvl(facts):
        return
    where = facts.where(one.what.host for one in sockets)
    yield logged(
        f"NCCL used network Socket{where}{_interfaces(facts)}{_rdma_words(facts)}",
        first_line(sockets),
        _socket_severity(facts),
    )


def provider_tcp(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `provider-tcp`: libfabric has a network, and it is TCP or UDP."""
    slow = [one for one in facts.log.providers if _core(one.what.provider) in TCP_PROVIDERS]
    if slow and facts.is_multi_node and facts.expected.nics != ():
        where = facts.where(one.what.host for one in slow)
        names = named(one.what.provider for one in slow)
        yield logged(f"libfabric's provider is {names}{where}", first_line(slow))


def _core(provider: str) -> str:
    """The provider below those that are layered on it: `tcp` of `tcp;ofi_rxm`."""
    return provider.partition(";")[0]


def _is_mnnvl(facts: RunFacts) -> bool:
    """Whether NVLink joins the nodes and no connection goes over a network."""
    transports = {one.what.transport for one in facts.log.connections}
    is_joined = any(one.what.is_mnnvl for one in facts.log.shares)
    return is_joined and bool(transports) and Transport.NET not in transports


def _socket_severity(facts: RunFacts) -> Severity:
    is_known = facts.expected.nics or facts.expected.plugin or facts.rdma_lists
    return Severity.ERROR if is_known else Severity.WARNING


def _interfaces(facts: RunFacts) -> str:
    lists = [one.what for one in facts.log.nic_lists if one.what.network == SOCKET]
    names = {nic.name for one in lists for nic in one.nics}
    return f" over {named(names)}" if names else ""


def _rdma_words(facts: RunFacts) -> str:
    absent = [one for one in facts.log.nic_lists if one.what == _no_device(one)]
    said = f"; line {first_line(absent)}: NET/IB found no device" if absent else ""
    nics = facts.expected.nics
    return f"{said}; the node has {counted(len(nics), 'NIC')} for it" if nics else said


def _no_device(one: Seen[NicList]) -> NicList:
    return NicList(host=one.what.host, network="IB", nics=())


def no_rdma_device(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `no-rdma-device`: nothing to worry about on one node, and all there is to say of it."""
    absent = [one for one in facts.log.nic_lists if one.what == _no_device(one)]
    if not absent or any(network_socket(facts)) or facts.expected.nics == ():
        return
    networks = {one.what.name for one in facts.log.networks} - {SOCKET}
    if networks:
        return
    where = facts.where(one.what.host for one in absent)
    is_single = facts.is_multi_node is False
    why = "; on one node no traffic goes over a network" if is_single else ""
    yield logged(
        f"NET/IB found no device{where}{why}",
        first_line(absent),
        Severity.NOTE if is_single else None,
    )


def nics_fewer(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `nics-fewer`: a host lacks NICs that it has, or that the other hosts use."""
    lists = facts.rdma_lists
    expected = facts.expected.nics
    if expected is None:
        yield from _uneven_lists(facts, lists)
        return
    lacking: dict[tuple[str, ...], list[Seen[NicList]]] = {}
    for one in lists:
        used = _names(one.what.nics)
        lacking.setdefault(tuple(nic for nic in expected if nic not in used), []).append(one)
    for names, each in lacking.items():
        if names:
            where = facts.where(one.what.host for one in each)
            count = len(expected) - len(names)
            yield logged(
                f"NCCL uses {count} of {len(expected)} NICs{where}, not {named(names)}",
                first_line(each),
            )


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
            f"NCCL uses {counted(most, 'NIC')} of a node that has {told}",
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
    expected = facts.expected.nics
    if not expected:
        return
    extra: dict[tuple[str, ...], list[Seen[NicList]]] = {}
    for one in facts.rdma_lists:
        more = tuple(sorted(_names(one.what.nics) - set(expected)))
        extra.setdefault(more, []).append(one)
    for names, each in extra.items():
        if names:
            where = facts.where(one.what.host for one in each)
            yield logged(
                f"NCCL also uses {named(names)}{where}, not among the {len(expected)} for jobs",
                first_line(each),
            )


def nic_slower(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `nic-slower`: a NIC for jobs that came up at a lower rate than the others."""
    wanted = facts.expected.nics
    rates: dict[float, list[Seen[VirtualNic]]] = {}
    for one in facts.log.virtual_nics:
        if wanted is None or set(_parts(one.what.name)) <= set(wanted):
            rates.setdefault(one.what.rate_bytes_per_s / max(one.what.devices, 1), []).append(one)
    most = max(rates, default=0.0)
    for rate in sorted(set(rates) - {most}):
        names = named(one.what.name for one in rates[rate])
        where = facts.where(one.what.host for one in rates[rate])
        yield logged(
            f"{names}{where} at {rate / _GBIT_BYTES:g} Gb/s, others at {most / _GBIT_BYTES:g} Gb/s",
            first_line(rates[rate]),
            None if wanted else Severity.NOTE,
        )


def nic_twice(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `nic-twice`: one port stands twice in a list."""
    for one in facts.rdma_lists:
        ports = Counter((nic.name, nic.port) for nic in one.what.nics)
        twice = [name for (name, _), count in ports.items() if count > 1]
        if twice:
            host = f" on {one.what.host}" if one.what.host else ""
            yield logged(f"{named(twice)} is there twice among NCCL's NICs{host}", one.line_no)


def gpu_direct_off(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `gpu-direct-off`: a NIC, a GPU for all NICs, or a connection goes through host memory.

    That a GPU has no GPU Direct with a NIC far away is by design. Sends may lack it on GPUs before
    Ampere (NCCL_NET_GDR_READ), so connections count where they receive.
    """
    yield from _nics_without(facts)
    yield from _gpus_without(facts)
    yield from _forbidden(facts)
    slow = [
        one
        for one in facts.log.connections
        if one.what.transport is Transport.NET
        and one.what.is_send is False
        and not one.what.is_gdr
        and one.what.how != SOCKET
    ]
    if slow and facts.expected.nics != ():
        channels = sum(one.count for one in slow)
        where = facts.where(one.what.host for one in slow)
        yield logged(
            f"{counted(channels, 'channel')} receive over {named(one.what.how for one in slow)}"
            f" without GDRDMA{where}",
            first_line(slow),
        )


def _forbidden(facts: RunFacts) -> Iterator[Evidence]:
    for one, where in facts.settings("NCCL_NET_GDR_LEVEL"):
        if one.what.value.upper() in ("0", "LOC") and facts.is_multi_node:
            yield logged(f"NCCL_NET_GDR_LEVEL={one.what.value} is set{where}", one.line_no)


def _nics_without(facts: RunFacts) -> Iterator[Evidence]:
    off = [one for one in facts.log.gpu_direct if one.what.gpu is None and not one.what.is_enabled]
    off = [one for one in off if one.what.nic.lower() not in _socket_names(facts)]
    if off:
        where = facts.where(one.what.host for one in off)
        yield logged(
            f"GPU Direct RDMA is disabled for {named(one.what.nic for one in off)}{where}",
            first_line(off),
        )


def _socket_names(facts: RunFacts) -> set[str]:
    lists = [one.what for one in facts.log.nic_lists if one.what.network == SOCKET]
    return {nic.name.lower() for one in lists for nic in one.nics}


def _gpus_without(facts: RunFacts) -> Iterator[Evidence]:
    pairs: dict[tuple[str | None, str], list[Seen[GpuDirect]]] = {}
    for one in facts.log.gpu_direct:
        if one.what.gpu is not None:
            pairs.setdefault((one.what.host, one.what.gpu), []).append(one)
    for (host, gpu), each in pairs.items():
        if not any(one.what.is_enabled for one in each):
            nearest = min(each, key=lambda one: one.what.distance or 0)
            at = f" on {host}" if host else ""
            yield logged(
                f"GPU {gpu}{at} has GPU Direct RDMA with none of {counted(len(each), 'HCA')}:"
                f" the nearest is at distance {nearest.what.distance},"
                f" the limit {nearest.what.limit}",
                nearest.line_no,
            )


def plugin_not_loaded(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `plugin-not-loaded`: a plugin that was asked for, here or by a variable."""
    wanted = facts.expected.plugin
    networks = facts.log.networks
    if wanted is not None and wanted is not NetPlugin.NONE and networks:
        other = [one for one in networks if not _is_of(one, wanted)]
        if other and facts.is_multi_node is not False:
            where = facts.where(one.what.host for one in other)
            names = named(one.what.name for one in other)
            failed = _failed_words(facts)
            yield logged(
                f"NCCL used network {names}{where}, not {wanted.value}{failed}", first_line(other)
            )
            return
    yield from _asked(facts)


def _is_of(one: Seen[Network], wanted: NetPlugin) -> bool:
    return one.what.name.startswith(NETWORKS.get(wanted, ()))


def _asked(facts: RunFacts) -> Iterator[Evidence]:
    """What NCCL_NET_PLUGIN names, where NCCL fell back on its own network."""
    asked = [one for one in facts.log.plugins if _is_net(one, PluginEvent.ASKED)]
    names = {one.what.name: one.line_no for one in asked if one.what.name}
    for setting, _ in facts.settings("NCCL_NET_PLUGIN"):
        names.setdefault(setting.what.value, setting.line_no)
    networks = {one.what.name for one in facts.log.networks}
    if networks and networks <= OWN_NETWORKS:
        for name, line_no in names.items():
            if name not in ("none", ""):
                yield logged(
                    f"NCCL_NET_PLUGIN asks for {name}, and NCCL used its own network"
                    f" {named(networks)}{_failed_words(facts)}",
                    line_no,
                )


def _is_net(one: Seen[Plugin], event: PluginEvent) -> bool:
    return one.what.kind == "net" and one.what.event is event


def _failed_words(facts: RunFacts) -> str:
    lost = [
        one
        for one in facts.log.plugins
        if _is_net(one, PluginEvent.MISSING) or _is_net(one, PluginEvent.FAILED)
    ]
    names = [one.what.name for one in lost if one.what.name]
    return f"; line {first_line(lost)}: {named(names)} not found" if names else ""


def bootstrap_differs(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `bootstrap-differs`: nodes that meet the others on an interface of another name."""
    hosts: dict[str, dict[str, int]] = {}
    for one in facts.log.bootstraps:
        if one.what.host is not None:
            hosts.setdefault(one.what.interface, {}).setdefault(one.what.host, one.line_no)
    if len(hosts) < 2:  # noqa: PLR2004  one interface is the same everywhere
        return
    usual = max(hosts, key=lambda name: len(hosts[name]))
    for interface, each in hosts.items():
        if interface != usual:
            yield logged(
                f"{named(each)} bootstraps over {interface},"
                f" {counted(len(hosts[usual]), 'other node')} over {usual}",
                min(each.values()),
            )
