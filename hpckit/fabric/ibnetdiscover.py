"""`ibnetdiscover`: the switches of an InfiniBand fabric, their cables, and where nodes hang.

Source: ibnetdiscover(8); rdma-core, infiniband-diags/ibnetdiscover.c.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from statistics import median
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import Struct

from hpckit.core.errors import ParseError
from hpckit.core.excerpt import refusal, refuse_text
from hpckit.core.late import regex
from hpckit.core.text import pasted_lines
from hpckit.fabric.topology import (
    NODE_ENDS,
    Cable,
    ClusterTopology,
    EndKind,
    FabricSource,
    HostPort,
    Switch,
    SwitchLink,
)

# --- How far each switch of a fabric is from nodes: 0 where they hang, one more a cable upwards.
_ALIKE: Final = 0.5
"""The share of its neighbours by which a switch is told for a leaf with no or few nodes."""

_FEWER: Final = 2
_BESIDE: Final = 2
_FEW: Final = 4
_EMPTY_FRAC: Final = 0.25
_HIGHEST: Final = 3
"""The top of four tiers; what is further away is a leaf of its own."""

Neighbours = Mapping[str, frozenset[str]]


def switch_levels(neighbours: Neighbours, hosts: Mapping[str, int]) -> dict[str, int | None]:
    """The level of each switch by name, None where no cable leads to one with nodes.

    `hosts` counts the ports of nodes on each. A spine on which a manager hangs stays a spine, and a
    leaf whose nodes are all away a leaf.
    """
    leaves, doubtful = _with_nodes(neighbours, hosts)
    levels = _distances(neighbours, leaves)
    shapes = {neighbours[name] for name in leaves}
    alike = [
        name
        for name, level in levels.items()
        if level == _BESIDE and _is_alike(neighbours[name], shapes)
    ]
    more = [name for name in doubtful if levels[name] is None or (levels[name] or 0) > _HIGHEST]
    if len(alike) < _EMPTY_FRAC * len(leaves):  # as many as that are a tier of their own
        more += alike
    else:
        more += [name for name in alike if name in doubtful]
    return _distances(neighbours, [*leaves, *more]) if more else levels


def _with_nodes(neighbours: Neighbours, hosts: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """The switches that are leaves by their nodes, and those with so few that they may be above."""
    usual = median([hosts[name] for name in neighbours if hosts.get(name)] or [0])
    leaves: list[str] = []
    doubtful: list[str] = []
    for name in neighbours:
        count = hosts.get(name, 0)
        if count and not _is_above(neighbours[name], count, hosts):
            is_beside = any(hosts.get(one) for one in neighbours[name])
            are_few = not is_beside and count <= _FEW and count * _FEWER <= usual
            (doubtful if are_few else leaves).append(name)
    return leaves, doubtful


def _distances(neighbours: Neighbours, leaves: Iterable[str]) -> dict[str, int | None]:
    """One more than the switches below; one cable that skips a level does not count as one."""
    levels: dict[str, int | None] = dict.fromkeys(neighbours)
    edge = list(leaves)
    level = 0
    while edge:
        levels.update(dict.fromkeys(edge, level))
        below = Counter(
            other for name in edge for other in neighbours[name] if levels[other] is None
        )
        edge = [name for name in below if not _is_above(neighbours[name], below[name], below)]
        level += 1
    return levels


def _is_above(mine: frozenset[str], count: int, below: Mapping[str, int]) -> bool:
    """Whether it is beside several that have more than twice as many below them."""
    beside = [below[one] for one in mine if below.get(one)]
    return len(beside) >= _BESIDE and count * _FEWER < median(beside)


def _is_alike(mine: frozenset[str], shapes: Iterable[frozenset[str]]) -> bool:
    return any(len(mine & other) > _ALIKE * len(mine | other) for other in shapes)


# --- The lines. Source: rdma-core, infiniband-diags/ibnetdiscover.c: out_ids, out_switch, out_ca,
# out_switch_port, out_ca_port, dump_topology; with those of --grouping, --full and --max_hops.
_ID: Final = r"\"([SHR])-([0-9a-fA-F]{1,16})\""
_EXT: Final = r"(?:\[ext [0-9]{1,5}\])?"
_BLANK: Final = r"[ \t\r\f\v]"
_S: Final = rf"{_BLANK}*+"
"""Possessive: several runs side by side would take a long line's length squared."""
_LID: Final = r"lid [0-9]{1,6}(?: lmc [0-9]{1,3})?"
_GUID_HERE: Final = r"(?:\([0-9a-fA-F]{1,16}\))?"
_PORT: Final = regex(
    rf"^\[([0-9]{{1,5}})\]{_EXT}{_S}{_GUID_HERE}{_S}{_ID}{_S}\[([0-9]{{1,5}})\]{_EXT}{_S}"
    rf"{_GUID_HERE}{_S}(?:#{_S}(?:{_LID} )?{_S}\"(.*)\"(?:{_BLANK}{_S}lid [0-9]{{1,6}})?"
    rf"(?:{_BLANK}{_S}((?:[0-9]{{1,2}}x|\?\?)\S{{1,12}}))?"
    r"(?: s=[0-9]{1,5} w=[0-9]{1,5} v=[0-9]{1,5}(?: e=[0-9]{1,5})?)?"
    rf"(?: slot [0-9]{{1,5}}| \(scp\))?)?{_S}$",
    re.ASCII | re.MULTILINE,
)
_BESIDES: Final = (
    rf"{_S}(?:#.*)?|Chassis [0-9]{{1,5}}(?: \(guid 0x[0-9a-fA-F]{{1,16}}\))?{_S}"
    rf"|Hostname: .*|Non-Chassis Nodes{_S}|ibwarn: .*|src/\w+\.c:[0-9]+;.*"
)
_FACT: Final = (
    r"(?:vendid|devid|sysimgguid|switchguid|caguid|rtguid) ?= ?0x[0-9a-fA-F]{1,16}"
    rf"(?:\([0-9a-fA-F]{{1,16}}\))?{_S}(?:#.*)?"
)
_DEVICE: Final = regex(
    rf"((?:(?:{_FACT}|{_BESIDES})\n)*+)"
    rf"(?:(Switch|Ca|Rt){_BLANK}{_S}([0-9]{{1,5}}){_BLANK}{_S}{_ID}{_S}"
    rf"(?:#{_S}\"(.*)\"(?:{_BLANK}{_S}(?:enhanced|base) port 0(?: {_LID})?| \(scp\))?)?{_S}\n)?"
    r"((?:\[.*\n)*+)",
    re.ASCII,
)
"""What is said of a device, the device, and the lines of its ports; any of them may be missing."""
_SYSTEM: Final = regex(r"^(vendid|sysimgguid) ?= ?0x([0-9a-fA-F]+)", re.ASCII | re.MULTILINE)
_IS_FACT: Final = regex(r"^[a-z]+ ?= ?0x", re.ASCII | re.MULTILINE)
_QUOTED: Final = regex(r"^[ \t]{0,3}>", re.MULTILINE)
_KINDS: Final = {"Switch": "S", "Ca": "H", "Rt": "R"}
_QUOTE: Final = 40
EXPECTED: Final = (
    "the output of ibnetdiscover without options, as root on a host of the fabric:"
    ' vendid=, devid=, Switch 40 "S-…", [1] "H-…"[1]; ibsim files have another format'
)


class Device(Struct, frozen=True, gc=False):
    """A switch, adapter or router; `kind` is S, H or R, a GUID 16 digits behind 0x."""

    kind: str
    guid: str
    ports: int | None = None
    description: str | None = None
    system: str | None = None


class Far(Struct, frozen=True, gc=False):
    """What a port leads to, in the words of its own line; `at` is which line of a port that is."""

    kind: str
    guid: str
    port: int
    description: str | None
    speed: str | None
    at: int

    @property
    def end(self) -> tuple[str, str, int]:
        """Which device it is, and which port of it."""
        return self.kind, self.guid, self.port


_CableEnds = tuple[str, int, Far | None, str, int, Far | None]


class _Discovered:
    """The devices that have a block, by GUID, and what leads where, by GUID and port.

    Raises ParseError for a line that is none of the format.
    """

    def __init__(self, text: str, tool: str) -> None:
        self.devices: dict[str, Device] = {}
        self.ends: dict[tuple[str, int], Far] = {}
        is_pasted = "\x1b" in text or "\r" in text or (">" in text and bool(_QUOTED.search(text)))
        self._text = ("\n".join(pasted_lines(text)) if is_pasted else text) + "\n"
        self._tool = tool
        owners, lines = self._read_blocks()
        self._add_ends(owners, _PORT.findall(lines))

    def _read_blocks(self) -> tuple[list[str], str]:
        """Return the lines of all ports, and for each the GUID of the device that it is of."""
        owners: list[str] = []
        ports: list[str] = []
        own, system, at = "", None, 0
        for match in _DEVICE.finditer(self._text):
            if match.start() != at or match.end() == at:
                break
            head, word, count, kind, guid, description, lines = match.groups()
            for fact, number in _SYSTEM.findall(head):
                system = None if fact == "vendid" else _guid(number)
            if word:
                own = _guid(guid)
                self._add_device(word, Device(kind, own, int(count), description, system), match)
                system = None
            elif _IS_FACT.search(head):
                own = ""
            if lines and not own:
                raise self._refused("a port before any device", match.start(7))
            owners += [own] * lines.count("\n")
            ports.append(lines)
            at = match.end()
        if at < len(self._text):
            raise self._no_line(at)
        return owners, "".join(ports)

    def _refused(self, message: str, start: int) -> ParseError:
        """Return the error for the line that starts there."""
        line_no = self._text.count("\n", 0, start) + 1
        line = self._text[start:].split("\n", 1)[0].expandtabs()
        return refusal(message, tool=self._tool, line_no=line_no, line=line, expected=EXPECTED)

    def _no_line(self, start: int) -> ParseError:
        words = " ".join(self._text[start : start + _QUOTE * 4].split("\n", 1)[0].split())
        short = words if len(words) <= _QUOTE else f"{words[:_QUOTE]}…"
        return self._refused(f"{short!r} is not a line of ibnetdiscover", start)

    def _add_device(self, word: str, device: Device, match: re.Match[str]) -> None:
        known = self.devices.setdefault(device.guid, device)
        if device.kind != _KINDS[word] or known.kind != device.kind:
            message = f"{device.guid} is a {word} here and another kind elsewhere in the text"
            raise self._refused(message, match.start(2))

    def _add_ends(self, owners: list[str], ends: list[tuple[str, ...]]) -> None:
        if len(ends) < len(owners):
            lines = re.finditer(r"^\[.*$", self._text, re.MULTILINE)
            raise self._no_line(next(one.start() for one in lines if not _PORT.match(one[0])))
        if not ends:
            return
        near, kinds, guids, ports, descriptions, speeds = zip(*ends, strict=True)
        named = {guid: _guid(guid) for guid in set(guids)}
        places = map(named.__getitem__, guids)
        fars = map(Far, kinds, places, map(int, ports), descriptions, speeds, range(len(ends)))
        for own, far in zip(zip(owners, map(int, near), strict=True), fars, strict=True):
            known = self.ends.setdefault(own, far)
            if known is not far and known.end != far.end:
                raise self._wrong_end(f"port {own[1]} has another end", far, known)

    def _wrong_end(self, message: str, far: Far, other: Far | None = None) -> ParseError:
        starts = [one.start() for one in re.finditer(r"^\[", self._text, re.MULTILINE)]
        if other is not None:
            message += f" in line {self._text.count(chr(10), 0, starts[other.at]) + 1}"
        return self._refused(message, starts[far.at])

    def cables(self) -> Iterator[_CableEnds]:
        """Yield each cable at a switch once: its end there and the far end, and what each says.

        Of a cable between switches the first in the text is first. Raises ParseError for ends that
        do not name each other.
        """
        for (guid, port), far in self.ends.items():
            back = self.ends.get((far.guid, far.port))
            device = self.devices.get(far.guid)
            if device is not None and device.kind != far.kind:
                message = f"{far.guid} is {far.kind}- here, but its block is of another kind"
                raise self._wrong_end(message, far)
            if back is not None and (back.guid, back.port) != (guid, port):
                message = f"port {far.port} of {far.guid} leads to port {back.port} of {back.guid}"
                raise self._wrong_end(message, far, back)
            if self.devices[guid].kind == "S":
                if far.kind != "S" or back is None or far.at <= back.at:
                    yield guid, port, far, far.guid, far.port, back
            elif far.kind == "S" and back is None:
                yield far.guid, far.port, back, guid, port, far


def _guid(text: str) -> str:
    return "0x" + text.zfill(16).lower()


# --- Words. Sources: rdma-ndd(8), whose node description is the host's name and the device's;
# InfiniBand Architecture Specification 1, PortInfo: LinkSpeedActive, LinkSpeedExtActive.
_LANE_GBIT_PER_S: Final = MappingProxyType(
    {
        "SDR": 2.0,  # 2.5 GT/s of 8b/10b, as DDR and QDR have it
        "DDR": 4.0,
        "QDR": 8.0,
        "FDR10": 10.0,
        "FDR": 14.0625 * 64 / 66,
        "EDR": 25.0,
        "HDR": 50.0,
        "NDR": 100.0,
        "XDR": 200.0,
    }
)
_SPEED: Final = regex(r"([0-9]{1,2})[xX]([A-Z]{3}(?:10)?)", re.ASCII)

_WORD: Final = regex(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9_])?", re.ASCII)
_HAS_NUMBER: Final = regex(r"[0-9]", re.ASCII)
_MAKER: Final = regex(
    r"(?:mellanox|technologies|nvidia|voltaire|qlogic|intel|topspin|cisco|ibm|sun|hewlett|infiniband"
    r"|connect-?x-?[0-9]*(?:vpi|lx|dx|ex)?|connect-?ib|infinihost[0-9]*|bluefield-?[0-9]*"
    r"|mt[0-9]{4,6}|hca|hfi|adapter|corporation|inc\.?|corp\.?)",
    re.IGNORECASE | re.ASCII,
)
_MODEL: Final = regex(r"MT[0-9]{4,6}", re.ASCII)
_BOX: Final = regex(r"MF0;(?P<name>[^;:]*)(?::(?P<place>.*))?", re.ASCII)


class End(NamedTuple):
    """What a description says of the port of a host."""

    kind: EndKind
    node: str | None = None
    nic: str | None = None


@lru_cache(maxsize=256)
def link_bytes_per_s(speed: str | None) -> float | None:
    """What `4xNDR` carries in one direction, its encoding taken off; None for unknown words."""
    match = _SPEED.fullmatch(speed) if speed else None
    lane = _LANE_GBIT_PER_S.get(match[2]) if match else None
    return int(match[1]) * lane * (1e9 / 8) or None if match and lane else None


@lru_cache(maxsize=4096)
def _is_maker(word: str) -> bool:
    return _MAKER.fullmatch(word) is not None


def described(description: str) -> End:
    """Whose port it is: `n01 mlx5_0` and `n01 HCA-1` say it, what firmware comes with does not.

    A lone word is a node that does not name its NIC.
    """
    words = description.split()
    if "aggregation node" in description.lower():
        return End(EndKind.AGGREGATION)
    if all(map(_is_maker, words)):
        return End(EndKind.ANONYMOUS)
    # `Quantum Mellanox Technologies` ends in a maker's name, and in no NIC's.
    is_of_maker = _is_maker(words[-1]) and not _HAS_NUMBER.search(words[-1])
    if _MODEL.fullmatch(words[0]) or is_of_maker:
        return End(EndKind.ANONYMOUS)
    if not _WORD.fullmatch(words[0]) or len(words) > 2:  # noqa: PLR2004  a node and its NIC
        return End(EndKind.OTHER)
    if len(words) == 1:
        return End(EndKind.COMPUTE, words[0])
    if _WORD.fullmatch(words[1]) and _HAS_NUMBER.search(words[1]):
        return End(EndKind.COMPUTE, words[0], words[1])
    return End(EndKind.OTHER)


def switch_names(descriptions: Mapping[str, str]) -> dict[str, str]:
    """A name for each switch, by its GUID: of its description where that names it alone.

    `MF0;leaf01:MQM9700/U1` is leaf01; where a box has several switches, their place in it is
    added. A description of several words is the model's and not a name.
    """
    boxes = {guid: _box(text) for guid, text in descriptions.items()}
    count = Counter(name for name, _ in boxes.values() if name)
    places = Counter(f"{name}/{place}" for name, place in boxes.values())
    found = {}
    for guid, (name, place) in boxes.items():
        placed = f"{name}/{place}"
        if name and count[name] == 1:
            found[guid] = name
        elif name and place and places[placed] == 1 and placed not in count:
            found[guid] = placed
        else:
            found[guid] = f"S-{guid.removeprefix('0x')}"
    return found


def _box(description: str) -> tuple[str, str]:
    match = _BOX.fullmatch(description)
    if match is None:
        words = description.split()
        is_name = len(words) == 1 and not _is_maker(words[0])
        return (words[0] if is_name and not words[0].startswith("S-") else "", "")
    name, place = match["name"].strip(), (match["place"] or "").strip()
    _, _, inside = place.partition("/")
    is_clear = not re.search(r"\s", name) and not name.startswith("S-")
    return name if is_clear else "", inside if not re.search(r"\s", inside) else ""


def parse_ibnetdiscover(text: str, name: str = "ibnetdiscover") -> ClusterTopology:
    """The fabric that `ibnetdiscover` printed; `name` is what errors call the text.

    Each cable is there once, though both its ends list it; one that a single end lists counts too.
    A switch that only others name is there without its ports. Raises ParseError for a line that is
    none of the format, for ends that contradict each other, and where there is no switch.
    """
    found = _Discovered(text, name)
    descriptions = _descriptions(found)
    if not descriptions:
        lines = text.split("\n")
        raise refuse_text("no switch found", tool=name, lines=lines, expected=EXPECTED)
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


def _descriptions(found: _Discovered) -> dict[str, str]:
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


_Line = tuple[tuple[str, str], tuple[int, int], str | None]
"""A cable between two switches: their names, its ports on them, its speed."""


def _cables_and_ports(
    found: _Discovered, names: Mapping[str, str]
) -> tuple[list[_Line], list[HostPort]]:
    cables: list[_Line] = []
    ports: list[HostPort] = []
    for guid, port, far, other, far_port, back in found.cables():
        speed = _speed(far, back)
        if other in names:
            cables.append(((names[guid], names[other]), (port, far_port), speed))
        else:
            text = far.description if far and far.description else ""
            ports.append(_host_port(found, (names[guid], port), (other, far_port), text, speed))
    return cables, ports


def _speed(*lines: Far | None) -> str | None:
    """The rate that is known of the two ends' words; where none is, the first."""
    words = [line.speed for line in lines if line is not None and line.speed]
    for word in words:
        if link_bytes_per_s(word):
            return word
    return words[0] if words else None


def _host_port(
    found: _Discovered, at: tuple[str, int], far: tuple[str, int], text: str, speed: str | None
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
    for (one, other), *_ in cables:
        if one != other:
            beside[one].add(other)
            beside[other].add(one)
    hosts = Counter(port.switch for port in ports if port.kind in NODE_ENDS)
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
