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
from itertools import groupby
from typing import Any, Final

from hpckit.model.fabric import ClusterTopology, FabricSource
from hpckit.model.nvlink_domains import is_cluster
from hpckit.parse.json_objects import JsonObject, kind_of
from hpckit.parse.placed_hosts import PlacedHost, placed_topology

_NAMES: Final = ("node", "host", "hostname", "nodeName")
_LISTS: Final = ("Instances", "Reservations", "items", "data", "hosts", "instances")
_OCI_LEVELS: Final = ("hpcisland", "networkblock", "localblock")
_HOST_PATH: Final = re.compile(r"/?([^/]+)/([^/]+)/([^/]+)")
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
            expected = "hosts of one cloud, as hpckit.parse.cloud_topology lists them"
            raise one.refuse("", f"a host with the keys {keys or '(none)'}", expected)
        hosts.append(_READ[found](one, words, names))
    if source is None or not hosts:
        raise objects[0].refuse("", "no host in it", "a list of hosts")
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


def _aws(one: JsonObject, words: _Words, names: Mapping[str | None, _Words]) -> PlacedHost:
    nodes = words["NetworkNodes"]
    if nodes is None:
        nodes = []
    if not isinstance(nodes, list) or not all(isinstance(node, str) for node in nodes):
        raise one.refuse("NetworkNodes", f"got {kind_of(nodes)}", "a list of texts")
    if "" in nodes:
        raise one.refuse("NetworkNodes", "got a text that is empty", "the id of a network node")
    instance = _text(one, words, "InstanceId")
    named = {**names.get(instance, {}), **words}
    name = _name(one, named, "PrivateDnsName", "InstanceId")
    is_dns = name == named.get("PrivateDnsName")
    return PlacedHost(
        node=name.partition(".")[0] if is_dns else name,
        above=tuple(node for node, _ in groupby(nodes)),
        domain=_text(one, words, "CapacityBlockId"),
        told=one,
    )


def _azure(one: JsonObject, words: _Words, names: object) -> PlacedHost:
    del names
    by_key = {key.casefold(): value for key, value in words.items()}
    uuid, clique = _text(one, by_key, _UUID), _text(one, by_key, "cliqueid")
    domain = None
    if is_cluster(uuid):
        domain = f"{uuid}.{clique}" if clique else uuid
    return PlacedHost(node=_name(one, words, "name", "vmId"), above=(), domain=domain, told=one)


def _gcp(one: JsonObject, words: _Words, names: object) -> PlacedHost:
    del names
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
    return PlacedHost(node=_name(one, words, "name", "id"), above=above, told=one)


def _oci(one: JsonObject, words: _Words, names: object) -> PlacedHost:
    del names
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
        told=one,
    )


def _oci_key(key: str) -> str:
    """`customerHPCIslandId`, `hpc-island-id` and `computeHpcIslandId` are hpcisland."""
    bare = re.sub(r"[^a-z0-9]", "", key.casefold())
    return bare.removeprefix("customer").removeprefix("compute").removesuffix("id")


_Read = Callable[[JsonObject, _Words, Mapping[str | None, _Words]], PlacedHost]
_READ: Final[Mapping[FabricSource, _Read]] = {
    FabricSource.AWS: _aws,
    FabricSource.AZURE: _azure,
    FabricSource.GCP: _gcp,
    FabricSource.OCI: _oci,
}
