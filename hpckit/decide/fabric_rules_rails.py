"""What is odd about where nodes hang: leaves that are absent, NICs on another's rail, or none."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from hpckit.core.findings import Evidence
from hpckit.decide.fabric_anonymous import claimed
from hpckit.decide.fabric_ends import FEWEST_PEERS, name_shape
from hpckit.decide.fabric_rule import (
    FabricView,
    hosts,
    rail_words,
)
from hpckit.decide.finding_rule import have
from hpckit.model.fabric import HostPort
from hpckit.model.words import counted

_HALF: Final = 0.5
_QUARTER: Final = 0.25
_FEW: Final = 2


class _Stray(NamedTuple):
    """A NIC that hangs elsewhere than the others of its column in its group."""

    node: str
    port: HostPort
    rail: int
    leaves: tuple[str, ...]


def _strays(view: FabricView) -> list[_Stray]:
    """The strays of kinds of nodes that follow the rails: most of a kind, and more than one NIC.

    A rail of which more than a quarter are astray follows no groups, as one for storage may not.
    """
    found = [one for one in _all_strays(view) if not _has_one_nic(view, one.node)]
    kinds = Counter(map(name_shape, view.grid.nodes))
    astray = Counter(map(name_shape, {one.node for one in found}))
    loose = {kind for kind, nodes in astray.items() if nodes > _HALF * kinds[kind]}
    of_rail = Counter(
        view.grid.rail_of_column(port.column)
        for ports in view.grid.nodes.values()
        for port in ports
    )
    strays = Counter(one.rail for one in found)
    free = {rail for rail, n in strays.items() if n > max(_FEW, _QUARTER * of_rail[rail])}
    return [
        one
        for one in found
        if one.rail not in free
        and ((kind := name_shape(one.node)) not in loose or kinds[kind] < FEWEST_PEERS)
    ]


def _has_one_nic(view: FabricView, node: str) -> bool:
    return len(view.grid.nodes[node]) == 1 and node not in view.lacking


def _all_strays(view: FabricView) -> list[_Stray]:
    grid = view.grid
    found = []
    for node, ports in grid.nodes.items():
        for port, column in ports:
            rail = grid.rail_of_column(column)
            if rail is None or port.switch not in grid.rail_of:
                continue
            leaves = grid.cell(grid.home[node], rail)
            is_other_rail = grid.rail_of[port.switch] != rail
            if is_other_rail or (leaves and port.switch not in leaves):
                found.append(_Stray(node, port, rail, leaves))
    return found


def _swapped(strays: Iterable[_Stray]) -> list[list[_Stray]]:
    """The strays by node, and those of two nodes together that hang in each other's place."""
    by_node: defaultdict[str, list[_Stray]] = defaultdict(list)
    for one in strays:
        by_node[one.node].append(one)
    found: list[list[_Stray]] = []
    single: list[list[_Stray]] = []
    for group in by_node.values():
        (found if len(group) > 1 else single).append(group)
    waiting: dict[tuple[str, str], list[_Stray]] = {}
    for group in single:
        (one,) = group
        place = one.leaves[0] if one.leaves else ""
        twin = waiting.pop((place, one.port.switch), None)
        if twin is None:
            waiting[one.port.switch, place] = group
            found.append(group)
        else:
            twin.append(one)
    return found


def rails_swapped(view: FabricView) -> Iterator[Evidence]:
    """Rule `rails-swapped`: NICs that hang in each other's place."""
    for group in _swapped(_strays(view)):
        if _is_exchange(group):
            nodes = dict.fromkeys(one.node for one in group)
            yield Evidence(
                hosts(nodes),
                f"{' and '.join(_hangs(view, one) for one in group)}: they hang in each other's"
                f" place; {_others(view, group)}",
            )


def nic_misplaced(view: FabricView) -> Iterator[Evidence]:
    """Rule `nic-misplaced`: a NIC on another leaf than its like, and none in its place."""
    for group in _swapped(_strays(view)):
        if not _is_exchange(group):
            for one in group:
                where = f", which is {one.leaves[0]} here" if one.leaves else ""
                yield Evidence(
                    f"{one.node} {one.port.nic}" if one.port.nic else one.node,
                    f"{_hangs(view, one)}, and its like on {rail_words(view, one.rail)}{where};"
                    f" {_others(view, [one])}",
                )


def _is_exchange(group: list[_Stray]) -> bool:
    there = sorted(one.port.switch for one in group)
    own = sorted(next(iter(one.leaves), "") for one in group)
    return len(group) > 1 and there == own


def _hangs(view: FabricView, one: _Stray) -> str:
    nic = f"{one.node} {one.port.nic}" if one.port.nic else one.node
    rail = view.grid.rail_of[one.port.switch]
    port = f" port {one.port.switch_port}" if one.port.switch_port is not None else ""
    return f"{nic} hangs on {one.port.switch}{port}, rail {rail}"


def _others(view: FabricView, group: list[_Stray]) -> str:
    """How many of the same kind hang where they should."""
    strays = {one.node for one in group}
    count = sum(
        view.grid.rail_of_column(port.column) == group[0].rail
        and view.grid.rail_of.get(port.port.switch) == group[0].rail
        for node, ports in view.grid.nodes.items()
        if node not in strays
        for port in ports
    )
    return f"{count} others of {rail_words(view, group[0].rail)} hang on it"


def rails_fewer(view: FabricView) -> Iterator[Evidence]:
    """Rule `rails-fewer`: a node without a NIC that its peers have; alike nodes are one finding.

    Where enough anonymous ports hang in these places, they are what is wrong.
    """
    hidden = {node for nodes in claimed(view).values() for node in nodes}
    found: defaultdict[tuple[int, frozenset[int]], list[str]] = defaultdict(list)
    for node, lacks in view.lacking.items():
        if node not in hidden:
            found[view.grid.home[node], lacks].append(node)
    for (group, lacks), nodes in found.items():
        ports = len(view.grid.nodes[nodes[0]])
        yield Evidence(
            hosts(nodes),
            f"{counted(len(nodes), 'node')} {have(len(nodes))} {ports} of the {ports + len(lacks)}"
            f" NICs that peers have; {_lacking(view, group, lacks)}",
        )


def _lacking(view: FabricView, group: int, lacks: frozenset[int]) -> str:
    grid = view.grid
    rails = {rail for column in lacks if (rail := grid.rail_of_column(column)) is not None}
    if not rails:
        return f"{counted(len(lacks), 'NIC')} of theirs {have(len(lacks))} no link here"
    leaves = [leaf for rail in sorted(rails) for leaf in grid.cell(group, rail)]
    words = f"none on {', '.join(rail_words(view, rail) for rail in sorted(rails))}"
    hidden = sum(map(view.anonymous, leaves))
    maybe = f"; it may be among the {hidden} anonymous ports there" if hidden else ""
    return f"{words}: {', '.join(leaves)}{maybe}"
