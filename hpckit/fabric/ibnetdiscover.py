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
from typing import Final, NoReturn

from hpckit.core.errors import ParseError
from hpckit.core.excerpt import refusal, refuse_text
from hpckit.core.late import regex
from hpckit.core.text import pasted_lines
from hpckit.core.values import maker
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
# What it prints without options is the first of each alternative: twice as fast.
_BLANK: Final = r"[ \t\r\f\v]"
_S: Final = rf"{_BLANK}*+"
"""Possessive: several runs side by side would take a long line's length squared."""
_X: Final = "[0-9a-fA-F]{1,16}"
_ID: Final = '"([SHR]-[0-9a-f]{16})"'
_LID: Final = r"lid [0-9]{1,6}(?: lmc [0-9]{1,3})?"
_EXT_AND_GUID: Final = rf"(?:\[ext [0-9]{{1,5}}\])?{_S}(?:\({_X}\))?{_S}"
_PORT: Final = regex(
    rf"^\[([1-9][0-9]{{0,4}})\](?:\t|{_EXT_AND_GUID})"
    r"\"([SHR]-[0-9a-f]{16}\"\[[1-9][0-9]{0,4})\]"
    rf"(?:(?:\t\t# (?:\"|{_LID} \")|\({_X}\) \t\t# \"|{_EXT_AND_GUID}#{_S}(?:{_LID} {_S})?\")"
    r"([^\"]*(?:\"[^\"\n]*)*?)\"(?: lid [0-9]{1,6} (?=[0-9?])"
    rf"|(?:{_BLANK}{_S}lid [0-9]{{1,6}})?(?:{_BLANK}{_S}(?=[0-9?])|(?=\s)))"
    r"([0-9]x\S{1,12}|(?:[0-9]{2}x|\?\?)\S{1,12}|)"
    r"(?:\n|(?: s=[0-9]{1,5} w=[0-9]{1,5} v=[0-9]{1,5}(?: e=[0-9]{1,5})?)?"
    rf"(?: slot [0-9]{{1,5}}| \(scp\))?{_S}\n)|{_EXT_AND_GUID}\n)",
    re.ASCII | re.MULTILINE,
)
"""Its groups are those of `_Port`. A description may hold quotation marks."""
_BESIDES: Final = (
    rf"{_S}(?:#.*)?|Chassis [0-9]{{1,5}}(?: \(guid 0x{_X}\))?{_S}"
    rf"|Hostname: .*|Non-Chassis Nodes{_S}|ibwarn: .*|src/\w+\.c:[0-9]+;.*"
)
_FACT: Final = (
    rf"(?:sysimgguid ?= ?0x({_X})|(?:vendid|devid|switchguid|caguid|rtguid) ?= ?0x{_X})"
    rf"(?:\({_X}\))?{_S}(?:#.*)?"
)
_BLOCK: Final = regex(
    rf"^((?:\n?vendid=0x{_X}\ndevid=0x{_X}\n)?+(?:(?:{_FACT}|{_BESIDES})\n)*+"
    rf"(?:(Switch|Ca|Rt){_BLANK}{_S}([0-9]{{1,5}}){_BLANK}{_S}{_ID}"
    rf"(?:(?:\t\t# |{_S}#{_S})\"(.*)\"(?:\n|(?:{_BLANK}{_S}(?:enhanced|base) port 0"
    rf"(?: {_LID})?| \(scp\))?{_S}\n)|{_S}\n)|))((?:\[.*\n)*+)",
    re.ASCII | re.MULTILINE,
)
"""What is said of a device, the device, and the lines of its ports; any of them may be missing."""
_IS_FACT: Final = regex(r"^[a-z]+ ?= ?0x", re.ASCII | re.MULTILINE)
_FIRST_ID: Final = regex(
    rf"^((?:\[|Switch|Ca|Rt)[^\"\n]*\"[SHR]-)({_X})\"{_S}", re.ASCII | re.MULTILINE
)
_QUOTED: Final = regex(r"^[ \t]{0,3}>", re.MULTILINE)
_KINDS: Final = {"Switch": "S", "Ca": "H", "Rt": "R"}
_ID_LEN: Final = len("S-0123456789abcdef")
_PORT_AT: Final = _ID_LEN + len('"[')
_QUOTE: Final = 40
EXPECTED: Final = (
    "the output of ibnetdiscover without options, as root on a host of the fabric:"
    ' vendid=, devid=, Switch 40 "S-…", [1] "H-…"[1]; ibsim files have another format'
)

_Block = tuple[str, str, str, str, str, str, str]
"""All before ports; sysimgguid, word, count of ports, ID and description; the lines of ports."""
_Port = tuple[str, str, str, str]
"""A line of a port: its number, the far end, its description, the speed; empty is not said.

An end is a device's ID and a port of it as the text has them: `S-0123456789abcdef"[12`.
"""
_NO_BLOCK: Final = ("", "", "", "1", "", "", "")


class _Discovered:
    """The devices that have a block, by GUID, and the line of each end.

    Raises ParseError for a line that is none of the format, and for ends that contradict others.
    """

    def __init__(self, text: str, tool: str) -> None:
        is_pasted = "\x1b" in text or "\r" in text or (">" in text and bool(_QUOTED.search(text)))
        text = ("\n".join(pasted_lines(text)) if is_pasted else text) + "\n"
        self._text, self._tool = text, tool
        self.owners: list[str] = []
        self._keys: list[str] = []
        self._ports: list[_Port] = []
        self.devices: dict[str, _Block] = {}
        self.ends: dict[str, _Port] = {}
        if not self._read(text):
            text = _FIRST_ID.sub(lambda found: f'{found[1]}{found[2].lower():0>16}"', text)
            if not self._read(text):
                self._refuse(text.split("\n"))
        if len(self.ends) < len(self._keys):
            self._keep_first_lines()

    def _read(self, text: str) -> bool:
        """Return whether every line is of the format, and every device of one kind."""
        self.devices = {}
        self.owners = owners = []
        lines: list[str] = []
        size, own = 0, ""
        for block in _BLOCK.findall(text):
            head, _, word, _, id_, _, ports = block
            size += len(head) + len(ports)
            if word:
                own = id_
                is_same = self.devices.setdefault(own[2:], block)[4] == own
                if not is_same or _KINDS[word] != own[0]:
                    return False
            elif _IS_FACT.search(head):
                own = ""
            if ports:
                owners += [own] * ports.count("\n")
                lines.append(ports)
        self._ports = _PORT.findall("".join(lines))
        is_whole = size == len(text) and len(self._ports) == len(owners) and "" not in owners
        if is_whole:
            ends = zip(owners, self._ports, strict=True)
            self._keys = [f'{own}"[{port}' for own, (port, _, _, _) in ends]
            self.ends = dict(zip(self._keys, self._ports, strict=True))
        return is_whole

    def _refuse(self, lines: list[str]) -> NoReturn:
        """Raise the error of the first line of no form; those of ports come after all others."""
        own, unread, kinds = "", 0, dict[str, str]()
        for line_no, line in enumerate(lines, start=1):
            if line.startswith("["):
                if not own:
                    raise self._refused("a port before any device", line_no)
                unread = unread or (0 if _PORT.fullmatch(f"{line}\n") else line_no)
            elif (match := _BLOCK.fullmatch(f"{line}\n")) is None:
                raise self._no_line(line_no)
            elif match[3]:
                own = match[5]
                if not _KINDS[match[3]] == own[0] == kinds.setdefault(own[2:], own[0]):
                    message = f"0x{own[2:]} is a {match[3]} here and another kind elsewhere"
                    raise self._refused(f"{message} in the text", line_no)
            elif _IS_FACT.match(line):
                own = ""
        raise self._no_line(unread)

    def _refused(self, message: str, line_no: int) -> ParseError:
        line = self._text.split("\n")[line_no - 1].expandtabs()
        return refusal(message, tool=self._tool, line_no=line_no, line=line, expected=EXPECTED)

    def _no_line(self, line_no: int) -> ParseError:
        words = " ".join(self._text.split("\n")[line_no - 1][: _QUOTE * 4].split())
        short = words if len(words) <= _QUOTE else f"{words[:_QUOTE]}…"
        return self._refused(f"{short!r} is not a line of ibnetdiscover", line_no)

    def _keep_first_lines(self) -> None:
        """Keep the first line of each end. Raises ParseError where another has another far end."""
        self.ends = {}
        for at, (key, end) in enumerate(zip(self._keys, self._ports, strict=True)):
            known = self.ends.setdefault(key, end)
            if known[1] != end[1]:
                raise self._wrong_end(f"port {end[0]} has another end", at, key)
        self.owners = [key[:_ID_LEN] for key in self.ends]

    def _wrong_end(self, message: str, at: int, other: str = "") -> ParseError:
        """Return the error for a line of a port, which contradicts that of another end."""
        ports = [at for at, line in enumerate(self._text.split("\n"), 1) if line.startswith("[")]
        if other:
            message += f" in line {ports[self._keys.index(other)]}"
        return self._refused(message, ports[at])

    def check(self, key: str, far: str) -> None:
        """Raise ParseError where an end and its far end do not name each other."""
        device, back = self.devices.get(far[2:_ID_LEN]), self.ends.get(far)
        if device is not None and device[4][0] != far[0]:
            message = f"0x{far[2:_ID_LEN]} is {far[0]}- here, but its block is of another kind"
            raise self._wrong_end(message, self._keys.index(key))
        if back is not None and back[1] != key:
            (guid, port), (back_guid, back_port) = _end(far), _end(back[1])
            message = f"port {port} of {guid} leads to port {back_port} of {back_guid}"
            raise self._wrong_end(message, self._keys.index(key), far)


def _end(key: str) -> tuple[str, int]:
    """Return the GUID of a device, and the port."""
    return f"0x{key[2:_ID_LEN]}", int(key[_PORT_AT:])


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
_NODE: Final = regex(
    r"(?![cC][oO]|[iI][nN]|[bB][lL]|[mM][tT])[A-Za-z0-9][A-Za-z0-9._-]{0,252}[0-9]", re.ASCII
)
"""A name that is no maker's: of those in a number all begin so."""
_MODEL: Final = regex(r"MT[0-9]{4,6}", re.ASCII)
_BOX: Final = regex(r"MF0;(?P<name>[^;:]*)(?::(?P<place>.*))?", re.ASCII)


@lru_cache(maxsize=256)
def link_bytes_per_s(speed: str | None) -> float | None:
    """What `4xNDR` carries in one direction, its encoding taken off; None for unknown words."""
    match = _SPEED.fullmatch(speed) if speed else None
    lane = _LANE_GBIT_PER_S.get(match[2]) if match else None
    return int(match[1]) * lane * (1e9 / 8) or None if match and lane else None


@lru_cache(maxsize=4096)
def _is_maker(word: str) -> bool:
    return _MAKER.fullmatch(word) is not None


@lru_cache(maxsize=4096)
def _is_nic(word: str) -> bool:
    return _WORD.fullmatch(word) is not None and _HAS_NUMBER.search(word) is not None


_End = tuple[EndKind, str | None, str | None]
_COMPUTE: Final = EndKind.COMPUTE


def described(description: str) -> _End:
    """What hangs there, its node and NIC: `n01 mlx5_0` and `n01 HCA-1` say it.

    What firmware comes with does not. A lone word is a node that does not name its NIC.
    """
    node, _, nic = description.partition(" ")
    if _is_nic(nic) and _NODE.fullmatch(node):
        return _COMPUTE, node, nic
    words = description.split()
    kind = _kind(description, words)
    if kind is not _COMPUTE:
        return kind, None, None
    return kind, words[0], words[1] if words[1:] else None


def _kind(description: str, words: list[str]) -> EndKind:
    if "aggregation node" in description.lower():
        return EndKind.AGGREGATION
    if all(map(_is_maker, words)):
        return EndKind.ANONYMOUS
    # `Quantum Mellanox Technologies` ends in a maker's name, and in no NIC's.
    is_of_maker = _is_maker(words[-1]) and not _HAS_NUMBER.search(words[-1])
    if _MODEL.fullmatch(words[0]) or is_of_maker:
        return EndKind.ANONYMOUS
    if _WORD.fullmatch(words[0]) and not words[2:] and all(map(_is_nic, words[1:])):
        return EndKind.COMPUTE
    return EndKind.OTHER


def switch_names(descriptions: Mapping[str, str]) -> dict[str, str]:
    """A name for each switch, by its ID: of its description where that names it alone.

    `MF0;leaf01:MQM9700/U1` is leaf01; where a box has several switches, their place in it is
    added. A description of several words is the model's and not a name.
    """
    boxes = {id_: _box(text) for id_, text in descriptions.items()}
    count = Counter(name for name, _ in boxes.values() if name)
    places = Counter(f"{name}/{place}" for name, place in boxes.values())
    found = {}
    for id_, (name, place) in boxes.items():
        placed = f"{name}/{place}"
        if name and count[name] == 1:
            found[id_] = name
        elif name and place and places[placed] == 1 and placed not in count:
            found[id_] = placed
        else:
            found[id_] = id_
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
                name=names[id_],
                level=levels[names[id_]],
                guid=f"0x{id_[2:]}",
                description=description or None,
                ports=int(found.devices[id_[2:]][3]) if id_[2:] in found.devices else None,
            )
            for id_, description in descriptions.items()
        ),
        links=_links(cables, levels),
        ports=tuple(ports),
    )


def _descriptions(found: _Discovered) -> dict[str, str]:
    """What each switch is called, by ID; of those without a block, what others call them."""
    own = {block[4]: block[5] for block in found.devices.values() if block[2] == "Switch"}
    ends: Mapping[str, _Port] = found.ends if all(own.values()) else {}
    for _, far, description, _ in [line for line in found.ends.values() if line[1] not in ends]:
        if far[0] == "S" and not own.get(far[:_ID_LEN]):
            own[far[:_ID_LEN]] = description
    return own


_Host = tuple[str, str, str, str, str]
"""A switch and its port, the end of the host there, what the switch calls it, the speed."""
_Line = tuple[str, str, int, int, str]
"""A cable between two switches: their names, its ports on them, its speed."""


def _cables_and_ports(
    found: _Discovered, names: Mapping[str, str]
) -> tuple[list[_Line], list[HostPort]]:
    """Return each cable at a switch once: to the switch that the text has later, or to a host."""
    cables: list[_Line] = []
    hosts: list[_Host] = []
    seen: set[str] = set()
    get = found.ends.get
    for (key, (port, far, text, speed)), own in zip(found.ends.items(), found.owners, strict=True):
        back = get(far)
        if back is None or back[1] != key:
            found.check(key, far)
        if own in names:
            rate = speed if link_bytes_per_s(speed) else _speed(speed, back)
            if far[0] != "S":
                hosts.append((names[own], port, far, text, rate))
            elif far not in seen:
                seen.add(key)
                other, far_port = names[far[:_ID_LEN]], int(far[_PORT_AT:])
                cables.append((names[own], other, int(port), far_port, rate))
        elif back is None and far[0] == "S":
            hosts.append((names[far[:_ID_LEN]], far[_PORT_AT:], key, "", speed))
    return cables, list(_host_ports(found.devices, hosts))


def _host_ports(devices: Mapping[str, _Block], hosts: Iterable[_Host]) -> Iterator[HostPort]:
    make = maker(HostPort)
    for switch, port, end, text, speed in hosts:
        guid = end[2:_ID_LEN]
        head, system, word, count, _, own, _ = devices.get(guid, _NO_BLOCK)
        if head.rfind("sysimgguid") < head.rfind("vendid"):
            system = ""  # of a device before, whose own line is not there
        words = text or own
        kind, node, nic = described(words)
        if node is None and own and described(own)[1] is not None:
            words = own
            kind, node, nic = described(own)
        if word == "Rt":
            kind, node, nic = EndKind.OTHER, None, None
        yield make(
            node=node,
            switch=switch,
            switch_port=int(port),
            nic=nic,
            guid="0x" + guid,
            description=words or None,
            speed=speed or None,
            bytes_per_s=link_bytes_per_s(speed),
            kind=kind,
            nic_port=None if count == "1" else int(end[_PORT_AT:]),
            adapter="0x" + system.zfill(16).lower() if system else None,
        )


def _speed(speed: str, back: _Port | None) -> str:
    """The rate that is known of the two ends' words; where none is, the first."""
    other = back[3] if back else ""
    return other if link_bytes_per_s(other) else speed or other


def _levels(
    names: Mapping[str, str], cables: list[_Line], ports: list[HostPort]
) -> dict[str, int | None]:
    beside: defaultdict[str, set[str]] = defaultdict(set)
    for one, other, _, _, _ in cables:
        if one != other:
            beside[one].add(other)
            beside[other].add(one)
    hosts = Counter(port.switch for port in ports if port.kind in NODE_ENDS)
    return switch_levels({name: frozenset(beside[name]) for name in names.values()}, hosts)


def _links(cables: list[_Line], levels: Mapping[str, int | None]) -> tuple[SwitchLink, ...]:
    """The cables by the switches that they join, the lower first, in the order of the text."""
    pairs: defaultdict[tuple[str, str], list[Cable]] = defaultdict(list)
    make, join = maker(Cable), maker(SwitchLink)
    for one, other, port, far_port, speed in cables:
        if (levels[one] or 0) > (levels[other] or 0) or (other, one) in pairs:
            one, other, port, far_port = other, one, far_port, port  # noqa: PLW2901
        cable = make(
            lower_port=port,
            upper_port=far_port,
            speed=speed or None,
            bytes_per_s=link_bytes_per_s(speed),
        )
        pairs[one, other].append(cable)
    return tuple(
        join(lower=lower, upper=upper, cables=tuple(cables))
        for (lower, upper), cables in pairs.items()
    )
