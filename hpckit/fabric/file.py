"""A file that describes a cluster's network, whatever its format, and what Slurm says now."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hpckit.core.document import convert
from hpckit.core.errors import ConfigError
from hpckit.core.excerpt import refusal, refuse_text
from hpckit.core.foreign_text import JsonObject, json_objects
from hpckit.core.late import regex
from hpckit.fabric.clouds import (
    PlacedHost,
    is_cloud_topology,
    parse_azure_domains,
    parse_azure_sharp,
    parse_cloud_topology,
    placed_topology,
)
from hpckit.fabric.rails import with_rails
from hpckit.fabric.slurm_files import parse_topology_conf, parse_topology_yaml
from hpckit.fabric.slurm_live import parse_scontrol_topology, parse_topology_addr
from hpckit.fabric.slurm_writer import slurm_tree, topology_conf_text, topology_yaml_text
from hpckit.fabric.topology import (
    FABRIC_SCHEMA,
    ClusterTopology,
    FabricSource,
    nvlink_domain,
)
from hpckit.node.topology import TOPOLOGY_SCHEMA, NodeTopology

if TYPE_CHECKING:
    from hpckit.fabric.ask import FabricProbe


_NODE_BESIDE: Final = ("schema", "hpckit", "findings")
_HOST: Final = regex(r"""^[ \t]*([^\s:"{}\[\],]+):(?=[ \t]*\{)""", re.MULTILINE)
_EXPECTED: Final = (
    f'the schema "{FABRIC_SCHEMA}" (hpckit fabric show --json) or "{TOPOLOGY_SCHEMA}" (hpckit'
    " inspect --json on each node), or a cloud's list of instances"
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
        raise objects[0].refuse("", message, "one object per line, after its host")
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
    nameless = next((one for one in objects if one.tree.get("schema") is None), None)
    if nameless is not None:
        raise nameless.refuse("", 'no "schema" key', _EXPECTED)
    schemas = {str(one.tree["schema"]): one for one in objects}
    if set(schemas) == {FABRIC_SCHEMA}:
        return tuple(_topology(one) for one in objects)
    if set(schemas) == {TOPOLOGY_SCHEMA}:
        return (_domains(objects),)
    for schema, one in schemas.items():
        if schema not in {FABRIC_SCHEMA, TOPOLOGY_SCHEMA}:
            raise one.refuse("schema", f"got {schema[:60]!r}", _EXPECTED)
    raise objects[0].refuse("schema", "fabrics and nodes in one file", "objects of one schema")


def _topology(told: JsonObject) -> ClusterTopology:
    body = {key: value for key, value in told.tree.items() if key not in ("schema", "hpckit")}
    found = _converted(told, body, ClusterTopology)
    switches = [switch.name for switch in found.switches]
    known = set(switches)
    named = [name for link in found.links for name in (link.lower, link.upper)]
    for name in (*named, *(port.switch for port in found.ports)):
        if name not in known:
            raise told.refuse("switches", f"no switch {name[:60]!r} here", "every switch listed")
    for what, names in (("switches", switches), ("blocks", [block.name for block in found.blocks])):
        for name, count in Counter(names).items():
            if count > 1:
                raise told.refuse(what, f"{name[:60]!r} appears {count} times", "unique names")
    speeds = [cable.bytes_per_s for link in found.links for cable in link.cables or ()]
    for speed in (*speeds, *(port.bytes_per_s for port in found.ports)):
        if speed is not None and not _LEAST <= speed <= _MOST:
            raise told.refuse("bytes_per_s", f"got {speed}", "bytes per second, 1 or more")
    return found


def _domains(objects: Sequence[JsonObject]) -> ClusterTopology:
    hosts = []
    for told in objects:
        body = {key: value for key, value in told.tree.items() if key not in _NODE_BESIDE}
        node = _converted(told, body, NodeTopology)
        if node.host.name is None:
            raise told.refuse("host.name", "no node name in this snapshot", "the node's name")
        refuse = partial(told.refuse, "fabric")
        hosts.append(PlacedHost(node=node.host.name, refuse=refuse, domain=nvlink_domain(node)))
    return placed_topology(hosts, FabricSource.INSPECT)


def _converted(one: JsonObject, body: dict[str, Any], cls: type[T]) -> T:
    try:
        return convert(body, cls, one.name)
    except ConfigError as error:
        raise one.refuse(
            error.key or "", error.reason, "the keys in docs/reference/json.md"
        ) from None
    except RecursionError:
        raise one.refuse("", "nested too deeply", _EXPECTED) from None


EXPECTED: Final = (
    "topology.conf, topology.yaml, scontrol show topology, ibnetdiscover, lines of "
    "SLURM_TOPOLOGY_ADDR, or JSON of hpckit or a cloud"
)

_COMPRESSED: Final = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")

_Parse = Callable[[str, str], ClusterTopology | tuple[ClusterTopology, ...]]


def fabric_text(data: bytes, name: str) -> str:
    """The text of a file, which may be compressed with gzip, bzip2 or xz, or be UTF-16.

    Raises ParseError for what is no text, such as an archive.
    """
    if data.startswith(_COMPRESSED):
        # Loaded when used: few files are compressed.
        from hpckit.core.archives import compressed_text

        data = compressed_text(data) or data
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if data.startswith(_COMPRESSED) or b"\0" in data[:8192]:
        what = "an archive" if data.startswith(_COMPRESSED) else "a binary file"
        raise refusal(
            f"this is {what}, not text",
            tool=name,
            line_no=1,
            line=f"{data[:16].hex(' ')} …",
            expected=f"an unpacked text file: {EXPECTED}",
        )
    return data.decode("utf-8", "replace")


def parse_fabric(text: str, name: str) -> tuple[ClusterTopology, ...]:
    """The topologies in a file, at least one; `name` is the file's, for errors.

    Raises ParseError for what is none of EXPECTED.
    """
    body = text.removeprefix("\ufeff")
    for looks, parse in _FORMATS:
        if looks.search(body):
            if found := parse(body, name):
                return found if isinstance(found, tuple) else (found,)
            break
    raise refuse_text("no fabric found", tool=name, lines=body.split("\n"), expected=EXPECTED)


def _ibnetdiscover(text: str, name: str) -> ClusterTopology:
    # Loaded when used: the longest of them, and few files need it.
    from hpckit.fabric.ibnetdiscover import parse_ibnetdiscover

    return parse_ibnetdiscover(text, name)


_FORMATS: Final[tuple[tuple[re.Pattern[str], _Parse], ...]] = (
    (regex(r"\A\s*[\[{]"), parse_fabric_json),
    (regex(r"\A\s*[^\s:]+: +\{"), parse_host_lines),
    (regex(r"\A\s*[^\s:]+: *[0-9a-fA-F]{8}-"), parse_azure_domains),
    (regex(r"^[^\s:]+: *0x[0-9a-fA-F]+\s*$", re.MULTILINE), parse_azure_sharp),
    (
        regex(
            r"\A\s*(?:SwitchName=[^\n]* Level|(?:BlockName|AggregatedBlock)=[^\n]* BlockIndex)=\d"
        ),
        parse_scontrol_topology,
    ),
    (regex(r"^(?:vendid=|(?:Switch|Ca|Rt)[ \t]+\d+[ \t]+\")", re.MULTILINE), _ibnetdiscover),
    (
        regex(r"^[ \t]*(?:SwitchName|BlockName|BlockSizes)[ \t]*[-*+/]?=", re.MULTILINE | re.I),
        parse_topology_conf,
    ),
    (regex(r"^(?:- +)?topology *:|^---[ \t\r]*$|^%YAML ", re.MULTILINE), parse_topology_yaml),
    (
        regex(r"^[ \t]*\S+[ \t]+\S+[ \t]+(?:(?:switch|block)\.)*node[ \t\r]*$", re.MULTILINE),
        parse_topology_addr,
    ),
)
"""What a text looks like, and what reads it; the first that fits."""


def read_fabric(data: bytes, name: str) -> tuple[ClusterTopology, ...]:
    """The topologies that a file tells of, at least one. Raises ParseError."""
    return tuple(with_rails(one) for one in parse_fabric(fabric_text(data, name), name))


def fabric_of_slurm(probe: FabricProbe, *, fresh: bool = False) -> tuple[ClusterTopology, ...]:
    """The topologies that Slurm has, at least one.

    Raises ConfigError where it has none, AdapterError where it does not answer.
    """
    found = tuple(probe.topologies(None, fresh=fresh))
    if not found:
        raise ConfigError(
            "Slurm has no switches or blocks here (TopologyPlugin is flat)",
            hint="give a FILE: ibnetdiscover output, a topology.conf or a cloud's JSON",
        )
    return tuple(with_rails(one) for one in found)


def choose(topologies: Sequence[ClusterTopology], name: str | None, source: str) -> ClusterTopology:
    """The topology of this name, or of the partition of this name, or the default one.

    Raises ConfigError where there is none.
    """
    if name is not None:
        for one in topologies:
            if name == one.name or name in one.partitions:
                return one
        named = ", ".join(one.name for one in topologies if one.name) or "one unnamed topology"
        raise ConfigError(
            f"{source} has no topology {name!r}", key="--topology", hint=f"it has {named}"
        )
    defaults = [one for one in topologies if one.is_default]
    return (defaults or list(topologies))[0]


def export_text(topologies: Sequence[ClusterTopology], format_: str) -> str:
    """The topologies as Slurm reads them: topology.conf or topology.yaml. Raises RenderError."""
    trees = [slurm_tree(one) for one in topologies]
    return topology_yaml_text(trees) if format_ == "topology.yaml" else topology_conf_text(trees[0])
