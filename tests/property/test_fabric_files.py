"""Files that tell of a fabric: any text is a topology or a ParseError, and soon."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hpckit.core.errors import ParseError
from hpckit.core.fields import to_tree
from hpckit.fabric.file import parse_fabric
from hpckit.fabric.slurm_files import parse_topology_conf, parse_topology_yaml
from hpckit.fabric.slurm_live import parse_scontrol_topology, parse_topology_addr
from hpckit.fabric.topology import (
    FABRIC_SCHEMA,
    Block,
    Cable,
    ClusterTopology,
    EndKind,
    FabricSource,
    HostPort,
    Rail,
    Switch,
    SwitchLink,
)
from hpckit.slurm.values import TopologyKind

NAME = "fabric"
TOKENS = """
SwitchName= Level= LinkSpeed= Nodes= Switches= BlockName= BlockSizes= BlockIndex= AggregatedBlock=
BlockSize= a b c[1-3] c[3-1] c[ [] a,b 1 2,4 0 \\ # , switch.node block.node a.b.c n1 . {} [ { ] } "
é 0x1 "schema": "NetworkNodes": "InstanceId": "i-1" "Instances": ["a","b"] "rackId": "clusterUUID":
"resourceStatus": "name": "physicalHost": "/a/b/c" "PrivateDnsName": "items": null
"hpckit.fabric/1" 5e797fc6-0f46-421a-8724-0e102c0f7230
"""
BLANKS = (" ", " ", "\n", "\n", "\r", "\ufeff", "\u2028", "\x1c", "\x00", "9" * 30, "- topology: ")
WORDS = st.sampled_from(
    [*TOKENS.split(), *BLANKS, "  tree:\n", '"source": "aws"', "h1: "],
)
TEXTS = st.text(max_size=60) | st.lists(WORDS, max_size=20).map("".join)
NAMES = st.text(min_size=1, max_size=6)
NUMBERS = st.none() | st.integers(0, 2**31)
RATES = st.none() | st.floats(1, 1e12)
MAYBE = st.none() | NAMES


def with_switches(topology: ClusterTopology) -> ClusterTopology:
    """The same with every switch that a cable or a port names."""
    known = {switch.name for switch in topology.switches}
    named = [name for link in topology.links for name in (link.lower, link.upper)]
    named += [port.switch for port in topology.ports]
    more = [Switch(name=name) for name in dict.fromkeys(named) if name not in known]
    return replace(topology, switches=(*topology.switches, *more))


def few(values: st.SearchStrategy[Any], **more: Any) -> st.SearchStrategy[tuple[Any, ...]]:
    """None, one or two of them."""
    return st.lists(values, max_size=2, **more).map(tuple)


def words(*names: str) -> dict[str, st.SearchStrategy[str | None]]:
    """Fields that are a name or not told."""
    return dict.fromkeys(names, MAYBE)


def by_name(part: Switch | Block) -> str:
    """What is there once."""
    return part.name


SWITCHES = st.builds(
    Switch,
    name=NAMES,
    level=st.none() | st.integers(0, 64),
    ports=NUMBERS,
    **words("guid", "description", "link_speed"),
)
CABLES = st.builds(
    Cable,
    lower_port=NUMBERS,
    upper_port=NUMBERS,
    speed=MAYBE,
    bytes_per_s=RATES,
    is_active=st.booleans(),
)
LINKS = st.builds(SwitchLink, lower=NAMES, upper=NAMES, cables=st.none() | few(CABLES)).filter(
    lambda link: link.cables is not None or link.lower < link.upper
)
PORTS = st.builds(
    HostPort,
    switch=NAMES,
    switch_port=NUMBERS,
    bytes_per_s=RATES,
    kind=st.sampled_from(EndKind),
    **words("node", "nic", "guid", "description", "speed"),
)
BLOCKS = st.builds(
    Block,
    name=NAMES,
    nodes=few(NAMES, unique=True),
    index=NUMBERS,
    size=NUMBERS,
    domain=MAYBE,
    is_aggregated=st.booleans(),
)
RAILS = st.builds(Rail, index=st.integers(0, 9), switches=st.just(("a",)), nics=st.just(("b",)))
TOPOLOGIES = st.builds(
    ClusterTopology,
    source=st.sampled_from(FabricSource),
    name=MAYBE,
    plugin=st.none() | st.sampled_from(TopologyKind),
    is_default=st.booleans(),
    switches=few(SWITCHES, unique_by=by_name),
    links=few(LINKS),
    ports=few(PORTS),
    blocks=few(BLOCKS, unique_by=by_name),
    block_sizes=few(st.integers(1, 99)),
    rails=few(RAILS),
    planes=st.just(()) | st.just((("a", "b"), ("c",))),
    partitions=few(NAMES),
    unplaced=few(NAMES, unique=True),
).map(with_switches)


def document(topology: ClusterTopology) -> str:
    """The topology as `hpckit fabric` writes it."""
    return json.dumps({"schema": FABRIC_SCHEMA, **to_tree(topology)})


@given(TEXTS)
@example("SwitchName=a Nodes=b\\")
@example('{"schema": "hpckit.fabric/1", "source": "aws", "name": "\\ud800"}')
@example('{"items":' * 900 + "{}" + "}" * 900)
@example('[{"NetworkNodes": {}}]')
@example("[[[[]]]]")
@example("topology: \x00")
@example('topology: "\\UFFFFFFFF"')
@example("%YAML 1." + "9" * 5000 + "\n---\ntopology: a")
@example("[" * 100_000)
@example('{"a":' * 100_000)
@example("[" + "9" * 10_000 + "]")
@example("[NaN]")
def test_any_text_is_a_topology_or_a_parse_error(text: str) -> None:
    """No text ends in anything but a value or a ParseError, whatever reads it."""
    for read in (parse_fabric, parse_topology_conf, parse_topology_addr, parse_topology_yaml):
        with suppress(ParseError):
            read(text, NAME)
    with suppress(ParseError):
        parse_scontrol_topology(text)


@given(st.lists(TOPOLOGIES, min_size=1, max_size=3, unique_by=lambda one: one.name or one))
def test_documents_are_read_back(topologies: list[ClusterTopology]) -> None:
    """What hpckit writes as hpckit.fabric/1 is read as it was: one object a line, or a list."""
    lines = [document(one) for one in topologies]
    assert parse_fabric("\n".join(lines), NAME) == tuple(topologies)
    assert parse_fabric(f"[{','.join(lines)}]", NAME) == tuple(topologies)


@given(TOPOLOGIES, st.data())
def test_an_added_key_is_refused(topology: ClusterTopology, data: st.DataObject) -> None:
    """At any depth, and the error names it."""
    tree = json.loads(document(topology))
    tables = [tree]
    for table in tables:
        for value in table.values():
            items = value if isinstance(value, list) else []
            tables += [item for item in items if isinstance(item, dict)]
    data.draw(st.sampled_from(tables))["more"] = 1
    with pytest.raises(ParseError, match="more: unknown key"):
        parse_fabric(json.dumps(tree), NAME)


@pytest.mark.parametrize(
    "text",
    [
        "SwitchName=a Nodes=" + "[" * 100_000,
        "topology: " + "[" * 100_000,
        "topology: " + "{a: " * 50_000,
        "topology: &a [" + "*a, " * 50_000,
        "".join(f"SwitchName=s{i} Switches=s{(i + 1) % 3000}\n" for i in range(3000)),
        '{"items":' * 50_000,
        '{"items":[' * 400 + '{"rackId":"r","node":"n"}' + "]}" * 400,
    ],
    ids=range(7),
)
def test_no_depth_is_too_much(text: str) -> None:
    """What nests, or leads round, thousands of times is read or refused."""
    with suppress(ParseError):
        parse_fabric(text, NAME)
