"""What Azure's CycleCloud gathers for Slurm: lines of text of hosts, and SHARP's switches.

Source: cyclecloud-slurm, slurmcc/topology.py: nodes_clusterUUIDs.txt has `host: clusterUUID`, or
with `_cliqueId` behind it; nodes_guids.txt has `host: 0xGUID` for each port; topology.txt is what
`sharp_cmd topology` writes, with the GUIDs of ports as nodes and, of each switch, those it is
cabled to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hpckit.model.fabric import (
    HIGHEST_LEVEL,
    Block,
    ClusterTopology,
    FabricSource,
    HostPort,
    Switch,
    SwitchLink,
)
from hpckit.model.nvlink_domains import is_cluster
from hpckit.parse.slurm_text import Place

_DOMAIN: Final = re.compile(
    r"(?P<host>[^\s:]+): *(?P<uuid>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
    r"(?:[_ ](?P<clique>\d{1,10}))?",
    re.ASCII | re.I,
)
_GUID: Final = re.compile(r"(?P<host>[^\s:]+): *0x0*(?P<guid>[0-9a-f]{1,16})", re.ASCII | re.I)
_SWITCH: Final = re.compile(r"SwitchName=(?P<name>\S+) (?P<key>Nodes|Switches)=(?P<list>\S+)")
_EXPECTED: Final = "host: 0xGUID, or SwitchName=… Nodes=0xGUID,… or SwitchName=… Switches=…"


@dataclass(slots=True)
class _Sharp:
    """What the lines said; a GUID without the zeros in front of it."""

    host_of: dict[str, str] = field(default_factory=dict)
    guids: dict[str, tuple[Place, list[str]]] = field(default_factory=dict)
    cabled: dict[str, dict[str, Place]] = field(default_factory=dict)


def parse_azure_domains(text: str, name: str) -> ClusterTopology:
    """The NVLink domains of lines `host: clusterUUID`; `name` is the file's, for errors.

    A clusterUUID of zeros is none. Raises ParseError for another line, for a host in two domains,
    and where no host is in one.
    """
    lines: dict[str, tuple[str, int]] = {}
    first = Place(name, 1, text.split("\n", 1)[0])
    for line_no, line in enumerate(text.split("\n"), start=1):
        place = Place(name, line_no, line.rstrip())
        if not line.strip():
            continue
        match = _DOMAIN.fullmatch(line.strip())
        if match is None:
            raise place.refuse("is no host with its domain", "host: clusterUUID")
        domain = _domain(match)
        before = lines.setdefault(match["host"], (domain, line_no))
        if before[0] != domain:
            here, there = domain or "no domain", before[0] or "no domain"
            message = f"{match['host']} is in {here}, and in {there} on line {before[1]}"
            raise place.refuse(message, "one domain a host")
    members: dict[str, list[str]] = {}
    for host, (domain, _) in lines.items():
        members.setdefault(domain, []).append(host)
    unplaced = members.pop("", [])
    if not members:
        message = f"none of the {len(unplaced)} hosts here is in an NVLink domain"
        raise first.refuse(message, "a clusterUUID that is not all zeros")
    blocks = (Block(name=one, nodes=tuple(nodes), domain=one) for one, nodes in members.items())
    return ClusterTopology(
        source=FabricSource.AZURE, blocks=tuple(blocks), unplaced=tuple(unplaced)
    )


def _domain(match: re.Match[str]) -> str:
    """The NVLink domain of a line, empty where it names none."""
    if not is_cluster(match["uuid"]):
        return ""
    return match["uuid"].casefold() + (f".{match['clique']}" if match["clique"] else "")


def parse_azure_sharp(text: str, name: str) -> ClusterTopology:
    """The switches of a topology.txt and, in the same text, the hosts of a nodes_guids.txt.

    Switches with ports on them have level 0, others their distance to the nearest such. Raises
    ParseError for another line, a GUID of no host or of two, and a switch that is nowhere.
    """
    read = _Sharp()
    for line_no, line in enumerate(text.split("\n"), start=1):
        words = line.strip()
        if words and not words.startswith("#"):
            _read_line(read, words, Place(name, line_no, line.rstrip()))
    levels = _levels(read)
    ports = [
        HostPort(node=_host(read, guid, place), switch=switch, guid=f"0x{guid}")
        for switch, (place, guids) in read.guids.items()
        for guid in guids
    ]
    links = {
        tuple(sorted((one, other), key=lambda switch: (levels[switch], switch))): None
        for one, others in read.cabled.items()
        for other in others
    }
    return ClusterTopology(
        source=FabricSource.AZURE,
        switches=tuple(Switch(name=switch, level=level) for switch, level in levels.items()),
        links=tuple(SwitchLink(lower=lower, upper=upper) for lower, upper in links),
        ports=tuple(ports),
    )


def _read_line(read: _Sharp, words: str, place: Place) -> None:
    if found := _GUID.fullmatch(words):
        guid = found["guid"].casefold()
        if read.host_of.setdefault(guid, found["host"]) != found["host"]:
            message = f"0x{guid} is of {read.host_of[guid]} and of {found['host']}"
            raise place.refuse(message, "one host a GUID")
        return
    match = _SWITCH.fullmatch(words)
    if match is None:
        raise place.refuse("is no host and no switch", _EXPECTED)
    names = match["list"].split(",")
    if match["key"] == "Switches":
        read.cabled.setdefault(match["name"], {}).update(dict.fromkeys(names, place))
        return
    guids = [re.sub(r"^0x0*", "", guid.casefold()) for guid in names]
    read.guids.setdefault(match["name"], (place, []))[1].extend(guids)


def _host(read: _Sharp, guid: str, place: Place) -> str:
    if guid not in read.host_of:
        message = f"0x{guid} is none of the {len(read.host_of)} GUIDs of hosts here"
        raise place.refuse(message, "a line host: 0xGUID for each, as in nodes_guids.txt")
    return read.host_of[guid]


def _levels(read: _Sharp) -> Mapping[str, int]:
    near: dict[str, set[str]] = {name: set() for name in [*read.guids, *read.cabled]}
    for one, others in read.cabled.items():
        for other, place in others.items():
            if other not in near:
                raise place.refuse(f"{other} is none of the {len(near)} switches here", _EXPECTED)
            near[one].add(other)
            near[other].add(one)
    levels = dict.fromkeys(read.guids, 0)
    ready = list(levels)
    for name in ready:  # grows while it is walked
        for other in sorted(near[name]):
            if other not in levels:
                levels[other] = levels[name] + 1
                ready.append(other)
    _refuse_far(read, levels)
    lost = next((name for name in near if name not in levels), None)
    if lost is not None:
        place = next(iter(read.cabled[lost].values()))
        raise place.refuse(f"no port is reached from switch {lost}", "SwitchName=… Nodes=0xGUID,…")
    return levels


def _refuse_far(read: _Sharp, levels: Mapping[str, int]) -> None:
    far = next((name for name, level in levels.items() if level > HIGHEST_LEVEL), None)
    if far is not None:
        message = f"switch {far} is {levels[far]} cables from the nearest port"
        raise next(iter(read.cabled[far].values())).refuse(message, f"at most {HIGHEST_LEVEL}")
