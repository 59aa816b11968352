"""What is certainly damaged in a JSON document of a fabric: no source tells of such a one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from hpckit.model.fabric import HIGHEST_LEVEL, ClusterTopology
from hpckit.parse.json_objects import JsonObject


def refuse_damage(found: ClusterTopology, one: JsonObject) -> None:
    """Raise ParseError for a level outside 0 to HIGHEST_LEVEL, for names that are empty or twice.

    So too for a switch above itself, where cables are not told: cables may well lead in a ring.
    """
    for switch in found.switches:
        if switch.level is not None and not 0 <= switch.level <= HIGHEST_LEVEL:
            message = f"switch {switch.name[:60]} has level {switch.level}"
            raise one.refuse("level", message, f"0, where nodes hang, to {HIGHEST_LEVEL}")
    _refuse_names(one, "switches", [switch.name for switch in found.switches])
    _refuse_names(one, "blocks", [block.name for block in found.blocks])
    for block in found.blocks:
        _refuse_names(one, "nodes", block.nodes)
    if any(port.node == "" for port in found.ports) or found.name == "":
        what = "name" if found.name == "" else "ports"
        raise one.refuse(what, "a name is empty", "a name, or null for none")
    _refuse_rings(one, found)


def refuse_twins(found: Sequence[ClusterTopology], objects: Sequence[JsonObject]) -> None:
    """Raise ParseError where two topologies have one name: none could be chosen by it."""
    seen: set[str] = set()
    for topology, one in zip(found, objects, strict=True):
        if topology.name in seen:
            raise one.refuse("name", f"{topology.name[:60]!r} is there twice", "names of their own")
        if topology.name is not None:
            seen.add(topology.name)


def _refuse_names(one: JsonObject, what: str, names: Iterable[str]) -> None:
    for name, count in Counter(names).items():
        if not name:
            raise one.refuse(what, "a name is empty", "a name for each")
        if count > 1:
            raise one.refuse(what, f"{name[:60]!r} is there {count} times", "each once")


def _refuse_rings(one: JsonObject, found: ClusterTopology) -> None:
    """Take away the switches that nothing is below, until none is left that can be."""
    links = {(link.lower, link.upper) for link in found.links if link.cables is None}
    below = dict.fromkeys((switch.name for switch in found.switches), 0)
    above: dict[str, list[str]] = {}
    for lower, upper in links:
        below[upper] += 1
        above.setdefault(lower, []).append(upper)
    ready = [name for name, count in below.items() if not count]
    for name in ready:  # grows while it is walked
        for upper in above.get(name, ()):
            below[upper] -= 1
            if not below[upper]:
                ready.append(upper)
    if len(ready) < len(below):
        down = {upper: lower for lower, upper in links if below[lower]}
        at, way = next(name for name in below if below[name]), dict[str, None]()
        while at not in way:
            way[at] = None
            at = down[at]
        count = len(way) - list(way).index(at)
        message = f"switch {at[:60]} is below itself, {count} of {len(below)} in a ring"
        raise one.refuse("links", message, "no switch below itself")
