"""JSON documents that tell of a fabric: hpckit's own, and snapshots of nodes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from hpckit.errors import ConfigError
from hpckit.model.fabric import FABRIC_SCHEMA, ClusterTopology, FabricSource
from hpckit.model.hardware import TOPOLOGY_SCHEMA, NodeTopology
from hpckit.model.nvlink_domains import nvlink_blocks, nvlink_domain
from hpckit.parse.cloud_topology import is_cloud_topology, parse_cloud_topology
from hpckit.parse.document import convert
from hpckit.parse.fabric_damage import refuse_damage, refuse_twins
from hpckit.parse.json_objects import JsonObject, json_objects

_FABRIC_BESIDE: Final = ("schema", "hpckit")
_NODE_BESIDE: Final = ("schema", "hpckit", "findings")
_HOST: Final = re.compile(r"""^[ \t]*([^\s:"{}\[\],]+):(?=[ \t]*\{)""", re.MULTILINE)
_EXPECTED: Final = (
    f'the schema "{FABRIC_SCHEMA}" of hpckit fabric show --json, "{TOPOLOGY_SCHEMA}" of hpckit'
    " inspect --json on each node, or a cloud's list of instances"
)

_LEAST: Final = 1.0
_MOST: Final = 1e15

T = TypeVar("T")


def parse_fabric_json(text: str, name: str) -> tuple[ClusterTopology, ...]:
    """The topologies in JSON: one object, a list of them, or one a line.

    Snapshots of nodes make one topology together. Raises ParseError.
    """
    return _topologies(json_objects(text, name))


def parse_host_lines(text: str, name: str) -> tuple[ClusterTopology, ...]:
    """The same for lines `host: {…}`, as pdsh gathers a cloud's metadata; the host is the name.

    Raises ParseError.
    """
    hosts = [match[1] for match in _HOST.finditer(text)]
    # What is left is JSON, and each thing where it was.
    objects = json_objects(_HOST.sub(lambda match: " " * len(match[0]), text), name)
    if len(objects) != len(hosts):
        message = f"{len(hosts)} hosts and {len(objects)} objects"
        raise objects[0].refuse("", message, "one object on each line, behind its host")
    named = [
        replace(one, tree={"node": host, **one.tree})
        for host, one in zip(hosts, objects, strict=True)
    ]
    return _topologies(named)


def _topologies(objects: Sequence[JsonObject]) -> tuple[ClusterTopology, ...]:
    if not objects:
        return ()
    if is_cloud_topology(objects):
        return (parse_cloud_topology(objects),)
    schemas = {_schema(one): one for one in objects}
    if set(schemas) == {FABRIC_SCHEMA}:
        found = tuple(_topology(one) for one in objects)
        refuse_twins(found, objects)
        return found
    if set(schemas) == {TOPOLOGY_SCHEMA}:
        return (_domains(objects),)
    for schema, one in schemas.items():
        if schema not in {FABRIC_SCHEMA, TOPOLOGY_SCHEMA}:
            raise one.refuse("schema", f"got {schema[:60]!r}", _EXPECTED)
    raise objects[0].refuse("schema", "fabrics and nodes in one text", "objects of one schema")


def _schema(one: JsonObject) -> str:
    schema = one.tree.get("schema")
    if schema is None:
        raise one.refuse("", 'there is no "schema" that says what this is', _EXPECTED)
    return str(schema)


def _topology(one: JsonObject) -> ClusterTopology:
    body = {key: value for key, value in one.tree.items() if key not in _FABRIC_BESIDE}
    found = _converted(one, body, ClusterTopology)
    known = {switch.name for switch in found.switches}
    named = [name for link in found.links for name in (link.lower, link.upper)]
    for name in (*named, *(port.switch for port in found.ports)):
        if name not in known:
            raise one.refuse("switches", f"there is no switch {name[:60]!r}", "every switch named")
    refuse_damage(found, one)
    speeds = [cable.bytes_per_s for link in found.links for cable in link.cables or ()]
    for speed in (*speeds, *(port.bytes_per_s for port in found.ports)):
        if speed is not None and not _LEAST <= speed <= _MOST:
            raise one.refuse("bytes_per_s", f"got {speed}", "bytes in a second, from 1")
    return found


def _domains(objects: Sequence[JsonObject]) -> ClusterTopology:
    nodes: list[tuple[str, NodeTopology]] = []
    said: dict[str, str | None] = {}
    for one in objects:
        body = {key: value for key, value in one.tree.items() if key not in _NODE_BESIDE}
        node = _converted(one, body, NodeTopology)
        if node.host.name is None:
            raise one.refuse("host.name", "this snapshot names no node", "the node's name")
        domain = nvlink_domain(node)
        before = said.setdefault(node.host.name, domain)
        if before != domain:
            message = f"{node.host.name} is in {domain or 'none'}, and before in {before or 'none'}"
            raise one.refuse("fabric", message, "one NVLink domain a node")
        nodes.append((node.host.name, node))
    blocks = nvlink_blocks(nodes)
    if not blocks:
        message = f"none of the {len(nodes)} nodes here names an NVLink domain"
        raise objects[0].refuse("fabric", message, "GPUs with a cluster_uuid and a clique_id")
    unplaced = tuple(name for name, domain in said.items() if domain is None)
    return ClusterTopology(source=FabricSource.INSPECT, blocks=blocks, unplaced=unplaced)


def _converted(one: JsonObject, body: dict[str, Any], cls: type[T]) -> T:
    try:
        return convert(body, cls, one.name)
    except ConfigError as error:
        raise one.refuse(
            error.key or "", error.reason, "what docs/reference/json.md lists"
        ) from None
    except RecursionError:
        raise one.refuse("", "nested too deeply", _EXPECTED) from None
