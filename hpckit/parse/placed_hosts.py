"""Hosts of which a cloud says what is above each, put together to one topology."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hpckit.model.fabric import (
    HIGHEST_LEVEL,
    Block,
    ClusterTopology,
    FabricSource,
    HostPort,
    Switch,
    SwitchLink,
)
from hpckit.parse.json_objects import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedHost:
    """A host with what is above it, the outermost first, and its NVLink domain, if they are told.

    `told` is the object that says so, for errors.
    """

    node: str
    above: tuple[str, ...]
    told: JsonObject
    domain: str | None = None


def placed_topology(hosts: Sequence[PlacedHost], source: FabricSource) -> ClusterTopology:
    """One switch for each thing that is above hosts, and a block for each NVLink domain.

    A host hangs on the innermost of what is told of it, which may be above others. One of which
    nothing is told is in neither, and `unplaced`. Raises ParseError for a host that is told twice
    in different ways, for something that is below two others or below itself, for more than
    HIGHEST_LEVEL levels, and where no place is told at all.
    """
    _refuse_contradictions(hosts)
    if not any(host.above or host.domain for host in hosts):
        message = f"none of the {len(hosts)} hosts here has a place"
        raise hosts[0].told.refuse("", message, "what the cloud tells of running instances")
    height: dict[str, int] = {}
    parent: dict[str, str] = {}
    members: dict[str, dict[str, None]] = {}
    for host in hosts:
        _refuse_deep(host)
        for level, name in enumerate(reversed(host.above)):
            height[name] = max(level, height.get(name, 0))
        for upper, lower in zip(host.above, host.above[1:], strict=False):
            if parent.setdefault(lower, upper) != upper:
                message = f"{lower} is below {parent[lower]} and, for {host.node}, below {upper}"
                raise host.told.refuse("", message, "one place above each")
            _refuse_ring(host, lower, parent)
        if host.domain:
            members.setdefault(host.domain, {})[host.node] = None
    ports = {(host.node, host.above[-1]): None for host in hosts if host.above}
    return ClusterTopology(
        source=source,
        switches=tuple(Switch(name=name, level=level) for name, level in height.items()),
        links=tuple(SwitchLink(lower=lower, upper=upper) for lower, upper in parent.items()),
        ports=tuple(HostPort(node=node, switch=switch) for node, switch in ports),
        blocks=tuple(
            Block(name=domain, nodes=tuple(nodes), domain=domain)
            for domain, nodes in members.items()
        ),
        unplaced=tuple(
            dict.fromkeys(host.node for host in hosts if not host.above and not host.domain)
        ),
    )


def _refuse_deep(host: PlacedHost) -> None:
    if len(host.above) > HIGHEST_LEVEL + 1:
        message = f"{host.node} is below {len(host.above)} others"
        raise host.told.refuse("", message, f"at most {HIGHEST_LEVEL + 1}")


def _refuse_ring(host: PlacedHost, name: str, parent: Mapping[str, str]) -> None:
    way = [name]
    while way[-1] in parent:
        way.append(parent[way[-1]])
        if way[-1] == name:
            message = f"{name} is below itself, with what is told of {host.node}"
            raise host.told.refuse("", f"{message}: {' < '.join(way)}", "none below itself")


def _refuse_contradictions(hosts: Sequence[PlacedHost]) -> None:
    said: dict[str, PlacedHost] = {}
    for host in hosts:
        before = said.setdefault(host.node, host)
        if (before.above, before.domain) != (host.above, host.domain):
            message = f"{host.node} is at {_place(host)}, and before at {_place(before)}"
            raise host.told.refuse("", message, "one place a host")


def _place(host: PlacedHost) -> str:
    return " > ".join((*host.above, *([host.domain] if host.domain else []))) or "no place"
