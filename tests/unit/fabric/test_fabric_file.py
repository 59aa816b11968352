"""Files that tell of a fabric are known by their content."""

from __future__ import annotations

import bz2
import dataclasses
import gzip
import json
import lzma

import pytest

from hpckit.core.errors import ParseError, SchedulerUnreachable
from hpckit.core.fields import to_tree
from hpckit.core.hostlist import expand_hosts
from hpckit.fabric.file import fabric_of_slurm, fabric_text, parse_fabric, read_fabric
from hpckit.fabric.slurm_files import parse_topology_conf
from hpckit.fabric.topology import FABRIC_SCHEMA, FabricSource, nvlink_domain
from hpckit.node.topology import TOPOLOGY_SCHEMA, Gpu, GpuFabric, Host, NodeTopology, Source
from tests.corpus import corpus_file
from tests.fakes.cluster_probe import FakeClusterProbe
from tests.fakes.fabric_scenes import FABRICS
from tests.fakes.fabric_values import blocks
from tests.fakes.slurm_records import RECORDS

FILES = {
    "topology-conf-26.05/synthetic-tree/topology.conf": FabricSource.TOPOLOGY_CONF,
    "topology-conf-26.05/synthetic-blocks/topology.conf": FabricSource.TOPOLOGY_CONF,
    "topology-yaml-26.05.5/topoconf/output.txt": FabricSource.TOPOLOGY_YAML,
    "topology-yaml-26.05.5/synthetic-kinds/topology.yaml": FabricSource.TOPOLOGY_YAML,
    "scontrol-topology-22.05.8/tree/output.txt": FabricSource.SCONTROL,
    "scontrol-topology-26.05.5/block/output.txt": FabricSource.SCONTROL,
    "topology-addr-24.11.5/tree/output.txt": FabricSource.TOPOLOGY_ADDR,
    "topology-addr-26.05.5/block/output.txt": FabricSource.TOPOLOGY_ADDR,
    "aws-instance-topology-2016-11-15/synthetic-six/output.json": FabricSource.AWS,
    "gcp-instances-v1/synthetic-metadata/output.json": FabricSource.GCP,
    "oci-rdma-topology-2/synthetic-pdsh/output.txt": FabricSource.OCI,
    "azure-cyclecloud-4/synthetic-lines/output.txt": FabricSource.AZURE,
    "azure-cyclecloud-4/synthetic-sharp/output.txt": FabricSource.AZURE,
}
TREE = "SwitchName=leaf1 Nodes=n[1-2]\n"
UUID = "7e2b1c9a-0f4d-4d6e-9a51-3f0b2c1d4e5f"


@pytest.mark.parametrize("path", FILES)
def test_a_format_is_known_by_its_content(path: str) -> None:
    """Each of the records, whatever its file is called, and with what Windows puts around it."""
    text = (RECORDS / path).read_text()
    found = parse_fabric(text, "fabric")
    assert {one.source for one in found} == {FILES[path]}
    assert parse_fabric("\ufeff" + text.replace("\n", "\r\n"), "fabric") == found


def snapshot(name: str | None, domain: str | None, gpus: int = 4) -> str:
    """What `hpckit inspect --json` prints of a node whose GPUs are in an NVLink domain."""
    fabric = GpuFabric(state="COMPLETED", cluster_uuid=domain, clique_id=1) if domain else None
    node = NodeTopology(
        source=Source(format="nvml"),
        host=Host(name=name),
        gpus=tuple(Gpu(index=index, fabric=fabric) for index in range(gpus)),
    )
    return json.dumps({"schema": TOPOLOGY_SCHEMA, "hpckit": "1", **to_tree(node), "findings": []})


def test_snapshots_of_nodes_tell_nvlink_domains() -> None:
    """One a line, in a list, or alone; a node whose GPUs name no domain is in none."""
    given = [snapshot("t1", UUID), snapshot("t2", "other"), snapshot("t3", UUID)]
    given.append(snapshot("n", None))
    (found,) = parse_fabric("\n".join(given), "nodes.json")
    assert found.source is FabricSource.INSPECT
    assert blocks(found) == {f"{UUID}.1": ["t1", "t3"], "other.1": ["t2"]}
    assert [block.domain for block in found.blocks] == [f"{UUID}.1", "other.1"]
    assert parse_fabric(f"[{','.join(given)}]", "nodes.json") == (found,)
    (alone,) = parse_fabric(given[0], "node.json")
    assert alone.nodes == ("t1",)


def test_the_domain_of_most_gpus_is_the_nodes() -> None:
    """So that a GPU that is not in its fabric yet moves no node."""
    inside = Gpu(index=0, fabric=GpuFabric(cluster_uuid="a", clique_id=0))
    other = dataclasses.replace(inside, index=1, fabric=GpuFabric(cluster_uuid="b", clique_id=0))
    third = dataclasses.replace(other, index=2)
    node = NodeTopology(source=Source(format="nvml"), gpus=(inside, other, third))
    assert nvlink_domain(node) == "b.0"
    assert nvlink_domain(dataclasses.replace(node, gpus=(inside, other))) == "a.0"
    unnamed = Gpu(index=0, fabric=GpuFabric(cluster_uuid="a"))
    assert nvlink_domain(dataclasses.replace(node, gpus=(unnamed,))) is None


def changed(**words: object) -> str:
    """The document of a tree of two levels, with other words."""
    return json.dumps({"schema": FABRIC_SCHEMA, **to_tree(FABRICS["two levels"]), **words})


FABRIC = changed()


def links(*pairs: tuple[str, str]) -> str:
    """The same with other links."""
    return changed(links=[{"lower": lower, "upper": upper} for lower, upper in pairs])


def named(kind: str, *names: str) -> str:
    """The same with switches or blocks of these names and nothing else."""
    beside: dict[str, object] = {"links": [], "ports": []}
    nodes: dict[str, object] = {"nodes": []} if kind == "blocks" else {}
    return changed(**beside, **{kind: [{"name": name, **nodes} for name in names]})


DAMAGED = [
    (links(("leaf2", "x")), "no switch 'x' here; expected every switch listed"),
    (named("switches", "a", "a"), "switches: 'a' appears 2 times; expected unique names"),
    (named("blocks", "b", "b"), "blocks: 'b' appears 2 times"),
    (changed(ports=[{"node": "n", "switch": "leaf2", "bytes_per_s": 0}]), "got 0.0; expected byte"),
    (snapshot("n", UUID) + snapshot("n", "other"), "n is at other.1 here, at .* before; expected"),
    (snapshot("n", UUID) + snapshot("n", None), "n is at no location here, at 7e2b"),
]


@pytest.mark.parametrize(("text", "words"), DAMAGED, ids=range(len(DAMAGED)))
def test_what_is_damaged_is_an_error(text: str, words: str) -> None:
    """No source tells of such a fabric."""
    with pytest.raises(ParseError, match=words):
        parse_fabric(text, "file")


@pytest.mark.parametrize(
    ("text", "line_no", "words"),
    [
        ("", 1, "no fabric found; expected topology.conf, topology.yaml, scontrol"),
        ("\n\nhello\n", 3, "no fabric found"),
        (snapshot(None, UUID), 1, "host.name: no node name in this snapshot"),
        (
            snapshot("n", None),
            1,
            "no location for any of the 1 hosts here; expected .* GPUs with a",
        ),
        (snapshot("n", UUID) + "\n" + FABRIC, 1, "fabrics and nodes in one file"),
        (FABRIC + '\n{"schema": "hpckit.nodes/1"}', 2, "got 'hpckit.nodes/1'"),
        (
            FABRIC.replace('"level": 0', '"level": "low"'),
            1,
            r"switches\[0\].level: got text, expected",
        ),
        ('{"schema": "hpckit.fabric/1"}', 1, "source: is missing"),
        ('[{"name": "x"}]', 1, 'no "schema" key; expected the schema'),
        (FABRIC + "\n{", 2, "Expecting property name"),
        ("[1]", 1, "got int"),
        (
            '{"schema": "hpckit.fabric/1", "source": "aws", "name": "\\ud800"}',
            1,
            "half a surrogate",
        ),
        ('{"schema": "hpckit.fabric/1", "source": NaN}', 1, "NaN is not a number"),
    ],
    ids=range(13),
)
def test_what_is_not_understood_is_an_error(text: str, line_no: int, words: str) -> None:
    """The error says what was got and what was expected."""
    with pytest.raises(ParseError, match=words) as caught:
        parse_fabric(text, "file")
    assert (caught.value.tool, caught.value.line_no) == ("file", line_no)


@pytest.mark.parametrize(
    "encoded",
    [
        gzip.compress(TREE.encode()),
        lzma.compress(TREE.encode()),
        bz2.compress(TREE.encode()),
        TREE.encode("utf-16"),
        gzip.compress(TREE.encode("utf-16")),
    ],
    ids=["gzip", "xz", "bzip2", "UTF-16", "gzip of UTF-16"],
)
def test_a_text_may_be_compressed_or_of_windows(encoded: bytes) -> None:
    """It is the text."""
    assert fabric_text(encoded, "f").replace("\ufeff", "") == TREE


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x7fELF\x02\x01\x00\x00", r"this is a binary file, not text; expected an unpacked text"),
        (gzip.compress(bytes(1024)), "this is an archive, not text"),
    ],
    ids=["program", "archive"],
)
def test_what_is_no_text_is_not_printed(data: bytes, words: str) -> None:
    """Its bytes are shown as numbers."""
    with pytest.raises(ParseError, match=words) as caught:
        fabric_text(data, "file")
    assert caught.value.line.startswith(data[:4].hex(" "))


def test_the_files_of_another_tool_are_named() -> None:
    """Those of ibsim begin as ibnetdiscover's do; the line is there, and which command is meant."""
    path = corpus_file("ib-fabric/ibsim-net.txt")
    with pytest.raises(ParseError, match="is not a line of ibnetdiscover") as caught:
        parse_fabric(path.read_text(), path.name)
    assert "the output of ibnetdiscover" in str(caught.value)
    assert "'Switch 8 \"Switch1\"'" in str(caught.value)
    assert "ibsim" in str(caught.value)


HEADS = """\
SwitchName=l1 Nodes=gpu[1-8]
SwitchName=l2 Nodes=gpu[9-16],head1,gw[1-2]
SwitchName=io Nodes=login1
SwitchName=top Switches=l[1-2]
"""


def test_every_node_that_slurm_lists_computes() -> None:
    """Whatever its name is."""
    (found,) = read_fabric(HEADS.encode(), "topology.conf")
    assert set(found.nodes) == {*expand_hosts("gpu[1-16]"), "head1", "gw1", "gw2", "login1"}


def test_slurm_and_a_file_of_the_same_are_one_fabric() -> None:
    """With what is worked out of it too: here two parts that nothing joins."""
    (of_file,) = read_fabric(HEADS.encode(), "topology.conf")
    topologies = (parse_topology_conf(HEADS, "topology.conf"),)
    probe = FakeClusterProbe(SchedulerUnreachable("not asked"), topologies=topologies)
    assert fabric_of_slurm(probe) == (of_file,)
    assert of_file.planes == (("l1", "l2", "top"), ("io",))


def test_a_key_that_stands_twice_is_an_error() -> None:
    """JSON would keep the last of them."""
    text = (
        '{"Instances": [{"InstanceId": "i-1", "NetworkNodes": ["t", "l"]},\n'
        '{"InstanceId": "i-2", "NetworkNodes": ["t", "l"],\n "NetworkNodes": ["t", "k"]}]}'
    )
    with pytest.raises(ParseError, match="the key 'NetworkNodes' is twice"):
        parse_fabric(text, "aws.json")
