"""What a run of NCCL really used, in words: network, NICs, links, channels, algorithms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from hpckit.model.hostlist import natural_order
from hpckit.model.nccl_log import NcclLog, NicList, PluginEvent, Transport
from hpckit.model.node_words import names_shown
from hpckit.model.words import counted

SOCKET: Final = "Socket"
"""NCCL's name of its network over TCP."""

SUBSYSTEMS: Final = "INIT,ENV,NET,GRAPH,TUNING"
"""What NCCL_DEBUG_SUBSYS needs to hold for all that hpckit reads."""

_RING: Final = 4
_GBIT_BYTES: Final = 1e9 / 8


def used_rows(log: NcclLog) -> Iterator[tuple[str, str]]:
    """(label, words) of what a log tells; a last one for what it does not."""
    rows = (
        ("network", _network(log)),
        ("NICs", _nics(log)),
        ("plugins", _plugins(log)),
        ("GPUs", _gpus(log)),
        ("channels", _channels(log)),
        ("algorithm", _algorithms(log)),
        ("meet on", _bootstrap(log)),
    )
    yield from ((label, words) for label, words in rows if words)
    lacking = [label for label, words in rows if not words and label in _ASKABLE]
    if lacking:
        yield (
            "unknown",
            f"{', '.join(lacking)}: not in this log;"
            f" NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS={SUBSYSTEMS} shows them",
        )


_ASKABLE: Final = ("network", "GPUs", "channels", "algorithm")


def _network(log: NcclLog) -> str:
    names = Counter[str]()
    for one in log.networks:
        names[one.what.name] += one.count
    words = [name for name, _ in names.most_common()]
    words += [f"libfabric {one.what.provider}" for one in log.providers]
    direct = _direct(log)
    return " · ".join([*dict.fromkeys(words), *([direct] if direct and words else [])])


def _direct(log: NcclLog) -> str:
    """GPU Direct RDMA as connections have it, else as NICs allow."""
    received = [
        one.what.is_gdr
        for one in log.connections
        if one.what.transport is Transport.NET and not one.what.is_send and one.what.how != SOCKET
    ]
    allowed = [one.what.is_enabled for one in log.gpu_direct if one.what.gpu is None]
    states = received or allowed
    if not states:
        return ""
    if all(states):
        return "GPU Direct RDMA on"
    return "GPU Direct RDMA partly on" if any(states) else "GPU Direct RDMA off"


def _nics(log: NcclLog) -> str:
    """The lists of NICs by the hosts that have them; one that all have is told once."""
    hosts: dict[tuple[str, ...], list[str]] = {}
    for one in log.nic_lists:
        if one.what.nics or one.what.network == "IB":
            hosts.setdefault(_list_words(one.what), []).append(one.what.host or "")
    used = {one.what.name for one in log.networks}
    if len(hosts) > 1 and SOCKET not in used:
        hosts = {words: each for words, each in hosts.items() if words[0] != SOCKET}
    rates = {one.what.rate_bytes_per_s for one in log.virtual_nics}
    rate = f" at {max(rates) / _GBIT_BYTES:g} Gb/s" if len(rates) == 1 else ""
    is_one = len(hosts) == 1
    parts = []
    for words, each in hosts.items():
        where = "" if is_one or len(set(each)) == len(log.hosts) else f" on {_shown(each)}"
        parts.append(f"{' '.join(words[1:])}{where}")
    return " · ".join(parts) + rate if parts else ""


def _list_words(one: NicList) -> tuple[str, ...]:
    if not one.nics:
        return (one.network, "NET/IB found none")
    links = sorted({nic.link for nic in one.nics if nic.link})
    link = f" ({', '.join(links)})" if links else ""
    names = [nic.name for nic in one.nics]
    return (one.network, f"{len(names)}: {', '.join(names)}{link}")


def _plugins(log: NcclLog) -> str:
    loaded = {
        f"{one.what.kind} {one.what.name}": None
        for one in log.plugins
        if one.what.event is PluginEvent.LOADED and one.what.name
    }
    return ", ".join(loaded)


def _gpus(log: NcclLog) -> str:
    local = Counter[str]()
    for one in log.connections:
        if one.what.transport in (Transport.P2P, Transport.SHM):
            local[f"{one.what.transport.value}/{one.what.how}"] += one.count
    total = local.total()
    words = [
        how if count == total else f"{how} ({100 * count / total:.0f} %)"
        for how, count in local.most_common(3)
    ]
    types = {one.what.intra_type for one in log.graphs if one.what.pattern == _RING}
    if types:
        words.append(f"rings over {', '.join(sorted(types))}")
    if log.nvls:
        has = all(one.what.is_available for one in log.nvls)
        words.append("NVLS available" if has else "NVLS not on all GPUs")
    if any(one.what.is_mnnvl for one in log.shares):
        words.append("NVLink between nodes (MNNVL)")
    return " · ".join(words)


def _channels(log: NcclLog) -> str:
    words = []
    counts = {one.what.collective for one in log.channels if one.what.collective > 0}
    if counts:
        words.append(_range(counts))
    nvls = {one.what.nvls for one in log.channels if one.what.nvls}
    if nvls:
        words.append(f"{_range(nvls)} of NVLS")
    rings = {one.what.channels for one in log.graphs if one.what.pattern == _RING}
    if rings:
        words.append(f"search found {_range(rings)}")
    return " · ".join(words)


def _range(values: Iterable[int]) -> str:
    found = set(values)
    least, most = min(found), max(found)
    return str(least) if least == most else f"{least} to {most}"


def _algorithms(log: NcclLog) -> str:
    groups: dict[str, dict[str, None]] = {}
    for one in log.algorithms:
        name = one.what.collective or "all"
        groups.setdefault(name, {})[f"{one.what.algorithm} {one.what.protocol}"] = None
    return " · ".join(f"{name}: {', '.join(each)}" for name, each in groups.items())


def _bootstrap(log: NcclLog) -> str:
    return ", ".join(sorted({one.what.interface for one in log.bootstraps}, key=natural_order))


def _shown(hosts: Iterable[str]) -> str:
    names = sorted({host for host in hosts if host}, key=natural_order)
    return names_shown(names) if names else counted(1, "host")
