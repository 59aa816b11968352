"""Whether a run used what its nodes have: links between GPUs, channels, all NICs alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from typing import Final, Protocol, TypeVar

from hpckit.core.findings import Evidence, Severity
from hpckit.decide.nccl_rule import NVLINK_TYPES, RunFacts, first_line, logged, named
from hpckit.model.hostlist import natural_order
from hpckit.model.nccl_log import Connection, SearchedGraph, Seen, Transport
from hpckit.model.words import counted

RING: Final = 4
"""NCCL_TOPO_PATTERN_RING, src/include/graph.h."""

_OFF: Final = frozenset({"0", "LOC"})
_LOW_PROTOCOLS: Final = frozenset({"LL", "LL128"})


class _Hosted(Hashable, Protocol):
    @property
    def host(self) -> str | None: ...


Hosted = TypeVar("Hosted", bound=_Hosted)


def shm_between_gpus(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `shm-between-gpus`: GPUs of one node talk through host memory."""
    shm = [one for one in facts.log.connections if one.what.transport is Transport.SHM]
    if not shm or facts.is_nvlink is False:
        return
    joined = ", which NVLink joins" if facts.is_nvlink else ""
    yield logged(
        f"{counted(len(_pairs(shm)), 'pair')} of ranks{joined} use SHM"
        f" ({_example(shm)}){_where(facts, shm)}",
        first_line(shm),
        None if facts.is_nvlink else Severity.NOTE,
    )


def p2p_indirect(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `p2p-indirect`: a GPU reaches another through a third."""
    indirect = [
        one
        for one in facts.log.connections
        if one.what.transport is Transport.P2P and one.what.how.startswith("indirect")
    ]
    if indirect:
        yield logged(
            f"{counted(len(_pairs(indirect)), 'pair')} of ranks go through another GPU"
            f" ({_example(indirect)}){_where(facts, indirect)}",
            first_line(indirect),
        )


def _pairs(seen: list[Seen[Connection]]) -> set[frozenset[int | None]]:
    return {frozenset((one.what.sender, one.what.receiver)) for one in seen}


def _example(seen: list[Seen[Connection]]) -> str:
    one = seen[0].what
    return f"rank {one.sender} to {one.receiver} via {one.transport.value}/{one.how}"


def _where(facts: RunFacts, seen: list[Seen[Connection]]) -> str:
    return facts.where(one.what.host for one in seen)


def gpu_path_far(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `gpu-path-far`: NCCL's rings between GPUs of a node leave NVLink."""
    if not facts.is_nvlink:
        return
    rings = [one for one in facts.log.graphs if one.what.pattern == RING]
    far = [one for one in rings if one.what.intra_type not in NVLINK_TYPES]
    if far:
        one = far[0].what
        where = facts.where(each.what.host for each in far)
        yield logged(
            f"NCCL's rings go over {one.intra_type}{where}: {counted(one.channels, 'channel')} of"
            f" {one.intra_bytes_per_s / 1e9:g} GB/s",
            first_line(far),
        )


def nic_path_far(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `nic-path-far`: NCCL reaches its NICs across the CPU; within one many machines do."""
    rings = [one for one in facts.log.graphs if one.what.pattern == RING]
    far = [one for one in rings if one.what.inter_type in ("PHB", "SYS")]
    if far and facts.is_multi_node and not _is_socket_only(facts):
        one = far[0].what
        where = facts.where(each.what.host for each in far)
        yield logged(
            f"NCCL's rings reach a NIC over {one.inter_type}{where}:"
            f" {one.inter_bytes_per_s / 1e9:g} GB/s a channel",
            first_line(far),
            None if one.inter_type == "SYS" else Severity.NOTE,
        )


def _is_socket_only(facts: RunFacts) -> bool:
    return {one.what.name for one in facts.log.networks} == {"Socket"}


def p2p_refused(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `p2p-refused`: connected GPUs may not access each other."""
    seen = facts.log.p2p_disabled
    if seen:
        pairs = [f"{one.what.gpus[0]}-{one.what.gpus[1]}" for one in seen]
        where = facts.where(one.what.host for one in seen)
        yield logged(
            f"P2P is disabled between connected GPUs {named(pairs)}{where}", first_line(seen)
        )


def p2p_disabled(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `p2p-disabled`: by a variable."""
    for one, where in facts.settings("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"):
        name, value = one.what.name, one.what.value
        is_off = value == "1" if name == "NCCL_P2P_DISABLE" else value.upper() in _OFF
        if is_off:
            yield logged(f"{name}={value} is set{where}", one.line_no)


def nvls_disabled(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `nvls-disabled`: by a variable, where the GPUs may have it."""
    may_have = facts.is_nvlink is not False and facts.expected.has_nvls is not False
    for one, where in facts.unwanted("NCCL_NVLS_ENABLE"):
        if one.what.value == "0" and may_have:
            yield logged(f"NCCL_NVLS_ENABLE=0 is set{where}", one.line_no)


def nvls_unavailable(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `nvls-unavailable`: the machine has it; of others NCCL says the same by design."""
    off = [one for one in facts.log.nvls if not one.what.is_available]
    if off and facts.expected.has_nvls:
        where = facts.where(one.what.host for one in off)
        yield logged(f"NVLS multicast support is not available{where}", first_line(off))


def pxn_disabled(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `pxn-disabled`: by a variable; on one node no message crosses rails."""
    for one, where in facts.unwanted("NCCL_PXN_DISABLE"):
        if one.what.value == "1" and facts.is_multi_node:
            yield logged(f"NCCL_PXN_DISABLE=1 is set{where}", one.line_no)


def ib_disabled(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `ib-disabled`: by a variable; on one node, and by a plugin, nothing goes over verbs."""
    if facts.is_by_plugin:
        return
    for one, where in facts.settings("NCCL_IB_DISABLE"):
        if one.what.value == "1" and facts.is_multi_node and facts.expected.nics != ():
            yield logged(f"NCCL_IB_DISABLE=1 is set{where}", one.line_no)


def algorithm_forced(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `algorithm-forced`: NCCL's own choice is off; LL is for short messages."""
    for one, where in facts.unwanted("NCCL_ALGO", "NCCL_PROTO"):
        words = {word.strip().upper() for word in one.what.value.split(",")}
        is_low = one.what.name == "NCCL_PROTO" and words <= _LOW_PROTOCOLS
        yield logged(
            f"{one.what.name}={one.what.value} is set{where}",
            one.line_no,
            Severity.WARNING if is_low else None,
        )


def channels_limited(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `channels-limited`: fewer than NICs, than NCCL's own search found, or by a variable."""
    counts = [one for one in facts.log.channels if one.what.collective > 0]
    if counts:
        # Of communicators of several sizes the largest has the most channels.
        most = max(counts, key=lambda one: one.what.collective)
        have = most.what.collective
        nics = max((len(one.what.nics) for one in facts.rdma_lists), default=0)
        found = max((one.what.channels for one in facts.log.graphs if _is_ring(one)), default=0)
        if facts.is_multi_node and have < nics:
            yield logged(f"{counted(have, 'channel')} for {nics} NICs", most.line_no)
        if have < found:
            yield logged(
                f"{counted(have, 'channel')}, and NCCL's search found {found}", most.line_no
            )
    for one, where in facts.settings("NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS"):
        yield logged(
            f"{one.what.name}={one.what.value} limits channels{where}", one.line_no, Severity.NOTE
        )


def _is_ring(one: Seen[SearchedGraph]) -> bool:
    return one.what.pattern == RING


def nics_uneven(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `nics-uneven`: on a host of which all ranks wrote, some NIC carries half of another.

    Whether all ranks wrote is told by the ranks that NCCL counts on a host.
    """
    nics_of, whole = _nics_of(facts), _whole_hosts(facts)
    for host, sends in _by_host(one for one in facts.log.connections if _is_ring_send(one.what)):
        nics = nics_of.get(host, {})
        is_told = all(one.what.nic in nics for one in sends)
        if len(set(nics.values())) > 1 and is_told and host in whole:
            yield from _uneven(host, nics, sends)


def _is_ring_send(one: Connection) -> bool:
    """Whether a connection leaves a host for rings and trees: sends of a program may be uneven."""
    return one.transport is Transport.NET and not one.is_point_to_point and one.is_send is True


def _by_host(seen: Iterable[Seen[Hosted]]) -> Iterator[tuple[str, list[Seen[Hosted]]]]:
    """Facts by the host that said them: a log has thousands of hosts, each read once."""
    groups: dict[str, list[Seen[Hosted]]] = {}
    for one in seen:
        if one.what.host is not None:
            groups.setdefault(one.what.host, []).append(one)
    yield from groups.items()


def _nics_of(facts: RunFacts) -> dict[str, dict[int | None, str]]:
    """Index in a connection → NIC: of virtual devices where there are such, else of the list."""
    found: dict[str, dict[int | None, str]] = {}
    for host, lists in _by_host(facts.rdma_lists):
        if len(lists) == 1:
            found[host] = {nic.index: nic.name for nic in lists[0].what.nics}
    for host, virtual in _by_host(facts.log.virtual_nics):
        found[host] = {one.what.index: one.what.name for one in virtual}
    return found


def _whole_hosts(facts: RunFacts) -> set[str]:
    local = {host: max(one.what.local_ranks for one in each)
             for host, each in _by_host(facts.log.shares)}  # fmt: skip
    ranks = {host: {one.what.rank for one in each}
             for host, each in _by_host(facts.log.communicators)}  # fmt: skip
    return {host for host, most in local.items() if len(ranks.get(host, ())) >= most}


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
