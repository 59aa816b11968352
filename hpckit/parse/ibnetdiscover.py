"""`ibnetdiscover`: the switches of an InfiniBand fabric, their cables, and where nodes hang.

Source: ibnetdiscover(8); rdma-core, infiniband-diags/ibnetdiscover.c.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

from hpckit.model.fabric import (
    Cable,
    ClusterTopology,
    EndKind,
    FabricSource,
    HostPort,
    Switch,
    SwitchLink,
)
from hpckit.parse.excerpt import refuse_text
from hpckit.parse.ibnet_levels import switch_levels
from hpckit.parse.ibnet_lines import EXPECTED, Discovered, Far, read_lines, switch_ends
from hpckit.parse.ibnet_words import End, described, link_bytes_per_s, switch_names

TOOL: Final = "ibnetdiscover"
_NODES: Final = frozenset({EndKind.COMPUTE, EndKind.ANONYMOUS})


def parse_ibnetdiscover(text: str, name: str = TOOL) -> ClusterTopology:
    """The fabric that `ibnetdiscover` printed; `name` is what errors call the text.

    Each cable is there once, though both its ends list it; one that a single end lists counts too.
    A switch that only others name is there without its ports. Raises ParseError for a line that is
    none of the format, for ends that contradict each other, and where there is no switch.
    """
    found = read_lines(text, name)
    descriptions = _descriptions(found)
    if not descriptions:
        lines = text.split("\n")
        raise refuse_text("there is no switch in it", tool=name, lines=lines, expected=EXPECTED)
    names = switch_names(descriptions)
    cables, ports = _cables_and_ports(found, names)
    levels = _levels(names, cables, ports)
    return ClusterTopology(
        source=FabricSource.IBNETDISCOVER,
        switches=tuple(
            Switch(
                name=names[guid],
                level=levels[names[guid]],
                guid=guid,
                description=description or None,
                ports=found.devices[guid].ports if guid in found.devices else None,
            )
            for guid, description in descriptions.items()
        ),
        links=_links(cables, levels),
        ports=tuple(ports),
    )


def _descriptions(found: Discovered) -> dict[str, str]:
    """What each switch is called, by GUID; of those without a block, what others call them."""
    own = {
        guid: device.description or ""
        for guid, device in found.devices.items()
        if device.kind == "S"
    }
    for far in found.ends.values():
        if far.kind == "S" and not own.get(far.guid):
            own[far.guid] = far.description or ""
    return own


class _Line(NamedTuple):
    """A cable between two switches, by their names and ports."""

    ends: tuple[str, str]
    ports: tuple[int, int]
    speed: str | None


def _cables_and_ports(
    found: Discovered, names: Mapping[str, str]
) -> tuple[list[_Line], list[HostPort]]:
    cables: list[_Line] = []
    ports: list[HostPort] = []
    for guid, port, far, other, far_port, back in switch_ends(found):
        speed = _speed(far, back)
        if other in names:
            ends = (names[guid], names[other])
            cables.append(_Line(ends, (port, far_port), speed))
        else:
            text = far.description if far and far.description else ""
            ports.append(_host_port(found, (names[guid], port), (other, far_port), text, speed))
    return cables, ports


def _speed(*lines: Far | None) -> str | None:
    """The rate that is known of the two ends' words; where none is, the first."""
    words = [line.speed for line in lines if line is not None and line.speed]
    if len(set(words)) <= 1:
        return words[0] if words else None
    return next((word for word in words if link_bytes_per_s(word)), words[0])


def _host_port(
    found: Discovered, at: tuple[str, int], far: tuple[str, int], text: str, speed: str | None
) -> HostPort:
    """`text` is what the switch calls the host; its own block may say more."""
    guid, far_port = far
    device = found.devices.get(guid)
    own = device.description if device and device.description else ""
    end, words = described(text or own), text or own
    if end.node is None and own and described(own).node is not None:
        end, words = described(own), own
    if device is not None and device.kind == "R":
        end = End(EndKind.OTHER)
    has_several = device is not None and (device.ports or 0) > 1
    return HostPort(
        node=end.node,
        switch=at[0],
        switch_port=at[1],
        nic=end.nic,
        guid=guid,
        description=words or None,
        speed=speed,
        bytes_per_s=link_bytes_per_s(speed),
        kind=end.kind,
        nic_port=far_port if has_several else None,
        adapter=device.system if device else None,
    )


def _levels(
    names: Mapping[str, str], cables: list[_Line], ports: list[HostPort]
) -> dict[str, int | None]:
    beside: defaultdict[str, set[str]] = defaultdict(set)
    for cable in cables:
        one, other = cable.ends
        if one != other:
            beside[one].add(other)
            beside[other].add(one)
    hosts = Counter(port.switch for port in ports if port.kind in _NODES)
    return switch_levels({name: frozenset(beside[name]) for name in names.values()}, hosts)


def _links(cables: list[_Line], levels: Mapping[str, int | None]) -> tuple[SwitchLink, ...]:
    """The cables by the switches that they join, the lower first, in the order of the text."""
    pairs: dict[tuple[str, str], list[Cable]] = {}
    for (one, other), (port, far_port), speed in cables:
        if (levels[one] or 0) > (levels[other] or 0) or (other, one) in pairs:
            one, other, port, far_port = other, one, far_port, port  # noqa: PLW2901
        cable = Cable(
            lower_port=port,
            upper_port=far_port,
            speed=speed,
            bytes_per_s=link_bytes_per_s(speed),
        )
        pairs.setdefault((one, other), []).append(cable)
    return tuple(
        SwitchLink(lower=lower, upper=upper, cables=tuple(cables))
        for (lower, upper), cables in pairs.items()
    )
