"""What is odd about a fabric's leaves: absent ones, and ones on which no node hangs."""

from __future__ import annotations

from collections.abc import Iterator

from hpckit.core.findings import Evidence
from hpckit.decide.absent_leaves import Absent
from hpckit.decide.fabric_anonymous import claimed, hidden
from hpckit.decide.fabric_ends import says_nothing
from hpckit.decide.fabric_rule import FabricView, hosts, rail_words
from hpckit.decide.finding_rule import have
from hpckit.model.fabric import EndKind
from hpckit.model.words import counted


def leaf_absent(view: FabricView) -> Iterator[Evidence]:
    """Rule `leaf-absent`: a group of nodes lacks the leaf of a rail that other groups have."""
    groups, rails = _regular(view)
    present = sum(bool(view.grid.cell(group, rail)) for group in groups for rail in rails)
    for one in view.absent[len(_empty(view)) :]:
        rail = rail_words(view, one.rail)
        beside = ", ".join(view.grid.groups[one.group])
        yield Evidence(
            one.name or f"leaf of {rail} beside {view.grid.groups[one.group][0]}",
            f"{len(groups)} groups of nodes have leaves for {len(rails)} rails,"
            f" and this one has none for {rail}: beside {beside} a leaf is not there"
            f" ({present} of {len(groups) * len(rails)} are)"
            f"{f'; by the names of its like it is {one.name}' if one.name else ''}"
            f"{_without(view, one)}",
        )


def _regular(view: FabricView) -> tuple[list[int], list[int]]:
    """The groups in which nodes are at home, and the rails that at least half of them have."""
    grid = view.grid
    groups = sorted({home for home in grid.home.values() if home >= 0})
    rails = [
        rail
        for rail in range(len(grid.rails))
        if 2 * sum(bool(grid.cell(group, rail)) for group in groups) >= len(groups)
    ]
    return groups, rails


def _without(view: FabricView, one: Absent) -> str:
    nodes = [node for node, home in view.grid.home.items() if home == one.group]
    rails = len({view.grid.rail_of[leaf] for leaf in view.grid.groups[one.group]})
    named = [node for node in nodes if not says_nothing(node)]
    also = [node for node in nodes if says_nothing(node)]
    ports, unknown = hidden(view, view.grid.groups[one.group], claimed(view))
    if ports:
        also.append(f"{counted(ports, 'anonymous port')} of about {counted(unknown, 'node')}")
    return (
        f"; {counted(len(named), 'named node')} therefore {have(len(named))} {rails} of"
        f" {len(_regular(view)[1])} rails: {hosts(named)}"
        + (f"; so {have(len(also))} {' and '.join(also)}" if also else "")
    )


def _empty(view: FabricView) -> list[str]:
    """Leaves on which nothing computes that could be seen.

    One with other hosts alone is theirs, unless the leaf of a rail is absent, which it may be.
    """
    nodes = {EndKind.COMPUTE, EndKind.ANONYMOUS}
    linked = {end for link in view.topology.links for end in (link.lower, link.upper)}
    kinds = {leaf: {port.kind for port in view.ends.get(leaf, ())} for leaf in view.leaves}
    idle = [leaf for leaf, there in kinds.items() if leaf in linked and nodes.isdisjoint(there)]
    bare = [leaf for leaf in idle if EndKind.OTHER not in kinds[leaf]]
    of_others = [leaf for leaf in idle if EndKind.OTHER in kinds[leaf]]
    return [*bare, *of_others[: max(0, len(view.absent) - len(bare))]]


def leaf_empty(view: FabricView) -> Iterator[Evidence]:
    """Rule `leaf-empty`: a switch that is cabled as leaves are, and no node hangs on it."""
    empty = _empty(view)
    for at, leaf in enumerate(empty):
        why = ""
        if at < len(view.absent):
            one = view.absent[at]
            why = f"; it may be that of {rail_words(view, one.rail)}{_without(view, one)}"
        others = len(view.leaves) - len(empty)
        yield Evidence(leaf, f"no node has a NIC on it, as on {others} other leaves{why}")
