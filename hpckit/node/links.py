"""What the links between a node's GPUs make together: all to all, in islands, or in a mesh.

AMD's tools list pairs that only reach each other over other GPUs as well: a link weighs 15 a hop,
and the fabric within a package, which partitions of two packages pass at both ends, weighs 13.
Source: Linux drivers/gpu/drm/amd/amdkfd, kfd_crat.c, `kfd_fill_gpu_xgmi_link_to_gpu`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, permutations
from typing import Final

from hpckit.core.values import dataclass
from hpckit.node.nics import nic_kinds
from hpckit.node.path import PathKind
from hpckit.node.rules.rule import path_cells
from hpckit.node.topology import GpuLink, LinkKind, Nic, NodeTopology
from hpckit.node.words import is_storage

_OF_A_HOP: Final = 15
_WITHIN_A_PACKAGE: Final = 13
_BETWEEN_PARTITIONS: Final = _OF_A_HOP + 2 * _WITHIN_A_PACKAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkIsland:
    """GPUs that links of one kind join, directly or through each other; `gpus` are indices.

    `counts` is how many links each has where the island is full: every pair is joined, as through
    a switch or by as many links as each other pair. A pair then has the smaller count of its two.
    `counts` is None for a mesh; a GPU's own is None where the source does not count links.
    """

    kind: LinkKind
    gpus: tuple[int, ...]
    links: tuple[GpuLink, ...]
    counts: tuple[int | None, ...] | None = None
    is_switched: bool | None = None


def is_direct(link: GpuLink) -> bool:
    """Whether two GPUs share links; those not counted that take several hops are other GPUs'."""
    weight = link.weight or 0
    is_longer = weight > _OF_A_HOP and weight != _BETWEEN_PARTITIONS
    far = is_longer or (link.hops or 0) > 1
    return link.count is not None or not far


def link_islands(topology: NodeTopology) -> tuple[LinkIsland, ...]:
    """The islands of a node, by kind and first GPU, of direct links between different GPUs."""
    found = []
    direct = tuple(link for link in topology.gpu_links if link.a != link.b and is_direct(link))
    for kind in LinkKind:
        links = [link for link in direct if link.kind is kind]
        for gpus in joined((link.a, link.b) for link in links):
            own = tuple(link for link in links if link.a in gpus)
            switched = {link.is_switched for link in own}
            island = LinkIsland(
                kind=kind,
                gpus=gpus,
                links=own,
                counts=_counts(gpus, own),
                is_switched=switched.pop() if len(switched) == 1 else None,
            )
            found.append(island)
    return tuple(found)


def joined(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, ...]]:
    """The groups that pairs join, directly or through each other; each ascending, least first."""
    peers: dict[int, set[int]] = {}
    for a, b in pairs:
        peers.setdefault(a, set()).add(b)
        peers.setdefault(b, set()).add(a)
    groups = []
    left = set(peers)
    for first in sorted(peers):
        reached, edge = set[int](), {first} & left
        while edge:
            reached |= edge
            edge = set[int]().union(*(peers[one] for one in edge)) - reached
        left -= reached
        groups += [tuple(sorted(reached))] if reached else []
    return groups


def _counts(gpus: tuple[int, ...], links: tuple[GpuLink, ...]) -> tuple[int | None, ...] | None:
    by_pair = {frozenset((link.a, link.b)): link.count for link in links}
    if len(by_pair) != len(gpus) * (len(gpus) - 1) // 2:
        return None
    if None in by_pair.values():
        return (None,) * len(gpus) if set(by_pair.values()) == {None} else None
    most = dict.fromkeys(gpus, 0)
    for pair, count in by_pair.items():
        for gpu in pair:
            most[gpu] = max(most[gpu], count or 0)
    is_full = all(
        by_pair[frozenset(pair)] == min(most[pair[0]], most[pair[1]])
        for pair in combinations(gpus, 2)
    )
    return tuple(most[gpu] for gpu in gpus) if is_full else None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReach:
    """The GPUs that one GPU reaches by links of one kind and count.

    `is_all` is all others, but for a few that fewer links join. Without `is_direct` the links are
    those of other GPUs on the way.
    """

    kind: LinkKind
    count: int | None
    gpus: tuple[int, ...]
    is_all: bool
    is_direct: bool = True


_Way = tuple[LinkKind, int | None, bool]


def gpu_reach(topology: NodeTopology) -> dict[int, tuple[GpuReach, ...]]:
    """What each GPU that has links reaches, most links first, over other GPUs last."""
    others: dict[int, dict[_Way, set[int]]] = {}
    for island in link_islands(topology):
        for one, other, count in _reached(island):
            others.setdefault(one, {}).setdefault((island.kind, count, True), set()).add(other)
    for link in topology.gpu_links:
        if link.a != link.b and not is_direct(link):
            for one, other in ((link.a, link.b), (link.b, link.a)):
                others.setdefault(one, {}).setdefault((link.kind, None, False), set()).add(other)
    shown = {gpu.index for gpu in topology.gpus if not gpu.is_hidden}
    return {gpu: _reach(gpu, found, shown) for gpu, found in others.items()}


def _reached(island: LinkIsland) -> Iterator[tuple[int, int, int | None]]:
    if island.counts is not None:
        counts = dict(zip(island.gpus, island.counts, strict=True))
        for one, other in permutations(island.gpus, 2):
            ends = counts[one], counts[other]
            yield one, other, None if None in ends else min(end for end in ends if end is not None)
        return
    for link in island.links:
        yield link.a, link.b, link.count
        yield link.b, link.a, link.count


def _reach(gpu: int, found: dict[_Way, set[int]], shown: set[int]) -> tuple[GpuReach, ...]:
    others = shown - {gpu}
    reach = [
        GpuReach(
            kind=kind,
            count=count,
            gpus=tuple(sorted(gpus)),
            is_all=2 * len(gpus) > len(others) and others <= gpus | _by_fewer(found, way),
            is_direct=direct,
        )
        for way, gpus in found.items()
        for kind, count, direct in (way,)
    ]
    return tuple(sorted(reach, key=lambda one: (one.kind, not one.is_direct, -(one.count or 0))))


def _by_fewer(found: dict[_Way, set[int]], way: _Way) -> set[int]:
    kind, most, is_direct = way
    fewer = (
        gpus
        for (other, count, direct), gpus in found.items()
        if (other, direct) == (kind, is_direct) and (count or 0) < (most or 0)
    )
    return set[int]().union(*fewer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearest:
    """The NICs that are closest to a GPU, all by a path of one kind.

    Without `is_certain` another NIC, whose path is not known, may be closer.
    """

    kind: PathKind
    nics: tuple[Nic, ...]
    is_certain: bool = True


def nearest_nics(topology: NodeTopology) -> dict[int, Nearest]:
    """For each GPU, by its index, its closest NICs; one for storage only where no other is there.

    A GPU of whose paths to NICs none is known is not there.
    """
    compute = tuple(nic for nic in topology.nics if not is_storage(nic))
    nics = compute or topology.nics
    found: dict[int, Nearest] = {}
    for gpu, kinds in nic_kinds(path_cells(topology.paths), topology.gpus, nics).items():
        if kinds:
            best = min(kinds.values(), key=tuple(PathKind).index)
            near = tuple(nic for nic in nics if kinds.get(nic.index) is best)
            found[gpu] = Nearest(kind=best, nics=near, is_certain=len(kinds) == len(nics))
    return found
