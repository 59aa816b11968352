"""What clouds tell of where instances are, as JSON: AWS, Azure, GCP and OCI.

AWS: `aws ec2 describe-instance-topology`: InstanceId, NetworkNodes from the top of the network
down, CapacityBlockId of an UltraServer (EC2 API reference, InstanceTopology; user guide, "How
Amazon EC2 topology works"); names from PrivateDnsName beside them or of
`aws ec2 describe-instances` in the same file. Azure: clusterUUID and cliqueId as nvidia-smi -q has
them (cyclecloud-slurm, slurmcc/topology.py). GCP: resourceStatus.physicalHostTopology with cluster,
block and subblock, else physicalHost, /cluster/rack/host (Compute API, ResourceStatus). OCI:
customerHPCIslandId, customerNetworkBlock, customerLocalBlock and customerGpuMemoryFabric of
/opc/v2/host/rdmaTopologyData, networkBlockId and rackId of /opc/v2/host, or hpcIslandId,
networkBlockId, localBlockId and gpuMemoryFabricId of the Core Services' ComputeHost.

A host is called by the first of `node`, `host`, `hostname`, the cloud's own name and its id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import groupby
from typing import Any, Final

from hpckit.core.errors import ParseError
from hpckit.core.foreign_text import JsonObject, kind_of
from hpckit.core.late import regex
from hpckit.core.values import dataclass
from hpckit.fabric.topology import (
    Block,
    ClusterTopology,
    FabricSource,
    HostPort,
    Switch,
    SwitchLink,
    is_cluster,
    steps_from,
)
from hpckit.slurm.text import Place

# --- What Azure's CycleCloud gathers for Slurm. Source: cyclecloud-slurm, slurmcc/topology.py:
# nodes_clusterUUIDs.txt has `host: clusterUUID`, or with `_cliqueId` behind it; nodes_guids.txt has
# `host: 0xGUID` for each port; topology.txt is what `sharp_cmd topology` writes, with the GUIDs of
# ports as nodes and, of each switch, those it is cabled to.
_DOMAIN: Final = regex(
    r"(?P<host>[^\s:]+): *(?P<uuid>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
    r"(?:[_ ](?P<clique>\d{1,10}))?",
    re.ASCII | re.I,
)
_GUID: Final = regex(r"(?P<host>[^\s:]+): *0x0*(?P<guid>[0-9a-f]{1,16})", re.ASCII | re.I)
_SWITCH: Final = regex(r"SwitchName=(?P<name>\S+) (?P<key>Nodes|Switches)=(?P<list>\S+)")
_EXPECTED: Final = "host: 0xGUID, or SwitchName=… Nodes=0xGUID,… or SwitchName=… Switches=…"


@dataclass(slots=True)
class _Sharp:
    host_of: dict[str, str] = field(default_factory=dict)
    guids: dict[str, tuple[Place, list[str]]] = field(default_factory=dict)
    cabled: dict[str, dict[str, Place]] = field(default_factory=dict)


def parse_azure_domains(text: str, name: str) -> ClusterTopology:
    """The NVLink domains of lines `host: clusterUUID`; `name` is the file's, for errors.

    A clusterUUID of zeros is none. Raises ParseError for another line, for a host in two domains,
    and where no host is in one.
    """
    hosts: list[PlacedHost] = []
    for line_no, line in enumerate(text.split("\n"), start=1):
        place = Place(name, line_no, line.rstrip())
        if not line.strip():
            continue
        match = _DOMAIN.fullmatch(line.strip())
        if match is None:
            raise place.refuse("is not a host with its domain", "host: clusterUUID")
        domain = _azure_domain(match["uuid"].casefold(), match["clique"])
        hosts.append(PlacedHost(node=match["host"], refuse=place.refuse, domain=domain))
    return placed_topology(hosts, FabricSource.AZURE)


def _azure_domain(uuid: str | None, clique: str | None) -> str | None:
    if not is_cluster(uuid):
        return None
    return f"{uuid}.{clique}" if clique else uuid


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
    ports: list[HostPort] = []
    for switch, (place, guids) in read.guids.items():
        for guid in guids:
            if guid not in read.host_of:
                message = f"0x{guid} is not among the {len(read.host_of)} host GUIDs here"
                raise place.refuse(message, "a line host: 0xGUID for each, as in nodes_guids.txt")
            ports.append(HostPort(node=read.host_of[guid], switch=switch, guid=f"0x{guid}"))
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
            message = f"0x{guid} belongs to both {read.host_of[guid]} and {found['host']}"
            raise place.refuse(message, "one host per GUID")
        return
    match = _SWITCH.fullmatch(words)
    if match is None:
        raise place.refuse("is neither a host nor a switch", _EXPECTED)
    names = match["list"].split(",")
    if match["key"] == "Switches":
        read.cabled.setdefault(match["name"], {}).update(dict.fromkeys(names, place))
        return
    guids = [re.sub(r"^0x0*", "", guid.casefold()) for guid in names]
    read.guids.setdefault(match["name"], (place, []))[1].extend(guids)


def _levels(read: _Sharp) -> Mapping[str, int]:
    near: dict[str, set[str]] = {name: set() for name in [*read.guids, *read.cabled]}
    for one, others in read.cabled.items():
        for other, place in others.items():
            if other not in near:
                raise place.refuse(f"{other} is not among the {len(near)} switches here", _EXPECTED)
            near[one].add(other)
            near[other].add(one)
    beside = {name: sorted(others) for name, others in near.items()}
    levels = steps_from(dict.fromkeys(read.guids, 0), beside)
    for name, cables in read.cabled.items():
        if name not in levels:
            message = f"switch {name} leads to no port"
            raise next(iter(cables.values())).refuse(message, "SwitchName=… Nodes=0xGUID,…")
    return levels


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedHost:
    """A host with what is above it, the outermost first, and its NVLink domain, if they are told.

    `refuse` makes the error at what says so, of a message and of what was expected.
    """

    node: str
    refuse: Callable[[str, str], ParseError]
    above: tuple[str, ...] = ()
    domain: str | None = None


def placed_topology(hosts: Sequence[PlacedHost], source: FabricSource) -> ClusterTopology:
    """One switch for each thing that is above hosts, and a block for each NVLink domain.

    A host hangs on the innermost of what is told of it, which may be above others. One of which
    nothing is told is in neither, and `unplaced`. Raises ParseError for a host that is told twice
    in different ways, for something that is below two others, and where no place is told at all.
    """
    if not any(host.above or host.domain for host in hosts):
        message = f"no location for any of the {len(hosts)} hosts here"
        expected = "a cloud's topology of running instances, or GPUs with a cluster and a clique"
        raise hosts[0].refuse(message, expected)
    said: dict[str, PlacedHost] = {}
    height: dict[str, int] = {}
    parent: dict[str, str] = {}
    members: dict[str, dict[str, None]] = {}
    for host in hosts:
        before = said.setdefault(host.node, host)
        if (before.above, before.domain) != (host.above, host.domain):
            message = f"{host.node} is at {_place(host)} here, at {_place(before)} before"
            raise host.refuse(message, "one location per host")
        for level, name in enumerate(reversed(host.above)):
            height[name] = max(level, height.get(name, 0))
        for upper, lower in zip(host.above, host.above[1:], strict=False):
            if parent.setdefault(lower, upper) != upper:
                message = f"{lower} is below {parent[lower]} and, for {host.node}, below {upper}"
                raise host.refuse(message, "one parent each")
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


def _place(host: PlacedHost) -> str:
    return " > ".join((*host.above, *([host.domain] if host.domain else []))) or "no location"


_NAMES: Final = ("node", "host", "hostname", "nodeName")
_LISTS: Final = ("Instances", "Reservations", "items", "data", "hosts", "instances")
_OCI_LEVELS: Final = ("hpcisland", "networkblock", "localblock")
_HOST_PATH: Final = regex(r"/?([^/]+)/([^/]+)/([^/]+)")
_UUID: Final = "clusteruuid"

_Words = Mapping[str, Any]


def is_cloud_topology(objects: Sequence[JsonObject]) -> bool:
    """Whether the first object that is no list of others is a host as a cloud describes it."""
    for one in objects:
        if "schema" not in one.tree:
            return any(_source(words) for words in _hosts(one.tree))
    return False


def parse_cloud_topology(objects: Sequence[JsonObject]) -> ClusterTopology:
    """The topology of the hosts in JSON objects, all of one cloud.

    Raises ParseError for a host of none of them, one of another than the first, one without a
    name, and a value that is no text.
    """
    told = [(one, words) for one in objects for words in _hosts(one.tree)]
    sources = [_source(words) for _, words in told]
    source = next((found for found in sources if found is not None), None)
    names = {_text(one, words, "InstanceId"): words for one, words in told if _is_named(words)}
    hosts: list[PlacedHost] = []
    for (one, words), found in zip(told, sources, strict=True):
        if found is None and _is_named(words):
            continue
        if found is None or found is not source:
            keys = ", ".join(list(words)[:8])
            expected = "hosts of one cloud: AWS, Azure, GCP or OCI"
            raise one.refuse("", f"a host with the keys {keys or '(none)'}", expected)
        named = names.get(_text(one, words, "InstanceId"), {})
        hosts.append(_READ[found](one, {**named, **words}))
    if source is None or not hosts:
        raise objects[0].refuse("", "no host found", "a list of hosts")
    return placed_topology(hosts, source)


def _hosts(tree: object) -> Iterator[_Words]:
    """The hosts in an object: itself, or those of its lists, however deep."""
    rest = [tree]
    while rest:
        one = rest.pop()
        if isinstance(one, list):
            rest += reversed(one)
        elif isinstance(one, dict):
            inner = [one[key] for key in _LISTS if isinstance(one.get(key), (list, dict))]
            rest += inner
            if not inner:
                yield one


def _source(words: _Words) -> FabricSource | None:
    keys = {_oci_key(key) for key in words}
    if "NetworkNodes" in words:
        return FabricSource.AWS
    if {"resourceStatus", "physicalHostTopology", "physicalHost", "physical_host"} & set(words):
        return FabricSource.GCP
    if _UUID in {key.casefold() for key in words}:
        return FabricSource.AZURE
    return FabricSource.OCI if {*_OCI_LEVELS, "rdmatopologydata"} & keys else None


def _is_named(words: _Words) -> bool:
    return "InstanceId" in words and "PrivateDnsName" in words


def _text(one: JsonObject, words: _Words, *keys: str) -> str | None:
    """The text of the first key that has one; numbers are text here."""
    for key in keys:
        value = words.get(key)
        if value is None or value == "":
            continue
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise one.refuse(key, f"got {kind_of(value)}", "text")
        return str(value)
    return None


def _name(one: JsonObject, words: _Words, *own: str) -> str:
    name = _text(one, words, *_NAMES, *own)
    if name is None:
        raise one.refuse("", "a host without a name", f"one of {', '.join((*_NAMES, *own))}")
    return name


def _table(one: JsonObject, words: _Words, key: str) -> _Words | None:
    value = words.get(key)
    if value is not None and not isinstance(value, dict):
        raise one.refuse(key, f"got {kind_of(value)}", "an object")
    return value


def _aws(one: JsonObject, words: _Words) -> PlacedHost:
    nodes = [] if words["NetworkNodes"] is None else words["NetworkNodes"]
    if not isinstance(nodes, list) or not all(isinstance(node, str) for node in nodes):
        raise one.refuse("NetworkNodes", f"got {kind_of(nodes)}", "a list of strings")
    name = _name(one, words, "PrivateDnsName", "InstanceId")
    is_dns = name == words.get("PrivateDnsName")
    return PlacedHost(
        node=name.partition(".")[0] if is_dns else name,
        above=tuple(node for node, _ in groupby(nodes)),
        domain=_text(one, words, "CapacityBlockId"),
        refuse=partial(one.refuse, ""),
    )


def _azure(one: JsonObject, words: _Words) -> PlacedHost:
    by_key = {key.casefold(): value for key, value in words.items()}
    uuid, clique = _text(one, by_key, _UUID), _text(one, by_key, "cliqueid")
    return PlacedHost(
        node=_name(one, words, "name", "vmId"),
        refuse=partial(one.refuse, ""),
        domain=_azure_domain(uuid, clique),
    )


def _gcp(one: JsonObject, words: _Words) -> PlacedHost:
    status = _table(one, words, "resourceStatus") or words
    place = _table(one, status, "physicalHostTopology")
    parts: list[str | None] = []
    if place is not None:
        parts = [_text(one, place, key) for key in ("cluster", "block", "subblock")]
    elif (path := _text(one, status, "physicalHost", "physical_host")) is not None:
        match = _HOST_PATH.fullmatch(path)
        if match is None:
            raise one.refuse("physicalHost", f"got {path[:60]!r}", "/cluster/rack/host")
        parts = [match[1], match[2]]
    # Ids below the cluster are its own; one that is not told leaves its place empty.
    ids = [part or "" for part in parts]
    above = tuple("/".join(ids[: at + 1]) for at, part in enumerate(parts) if part)
    node = _name(one, words, "name", "id")
    return PlacedHost(node=node, refuse=partial(one.refuse, ""), above=above)


def _oci(one: JsonObject, words: _Words) -> PlacedHost:
    inner = _table(one, words, "rdmaTopologyData") or {}
    by_key = {_oci_key(key): value for key, value in {**words, **inner}.items() if value}
    levels = [_text(one, by_key, key) for key in _OCI_LEVELS]
    if levels[-1] is None:  # without rdmaTopologyData the host knows its rack alone
        levels[-1] = _text(one, by_key, "rack")
    own = ("displayName", "display-name", "instanceId", "instance-id", "id")
    return PlacedHost(
        node=_name(one, words, *own),
        above=tuple(level for level in levels if level),
        domain=_text(one, by_key, "gpumemoryfabric"),
        refuse=partial(one.refuse, ""),
    )


def _oci_key(key: str) -> str:
    """`customerHPCIslandId`, `hpc-island-id` and `computeHpcIslandId` are hpcisland."""
    bare = re.sub(r"[^a-z0-9]", "", key.casefold())
    return bare.removeprefix("customer").removeprefix("compute").removesuffix("id")


_READ: Final[Mapping[FabricSource, Callable[[JsonObject, _Words], PlacedHost]]] = {
    FabricSource.AWS: _aws,
    FabricSource.AZURE: _azure,
    FabricSource.GCP: _gcp,
    FabricSource.OCI: _oci,
}
