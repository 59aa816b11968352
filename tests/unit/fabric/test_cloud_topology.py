"""What clouds tell of where instances are."""

from __future__ import annotations

import json

import pytest

from hpckit.core.errors import ParseError
from hpckit.fabric.clouds import parse_azure_domains, parse_azure_sharp
from hpckit.fabric.file import parse_fabric
from hpckit.fabric.slurm_files import parse_topology_conf
from hpckit.fabric.topology import ClusterTopology, FabricSource
from tests.corpus import corpus_file
from tests.fakes.fabric_values import blocks, leaves, levels, parents
from tests.fakes.slurm_records import RECORDS

AWS = "aws-instance-topology-2016-11-15"
GCP = "gcp-instances-v1"
OCI = "oci-rdma-topology-2"
AZURE = "azure-cyclecloud-4"
UUID = "5e797fc6-0f46-421a-8724-0e102c0f723"


def of(tool: str, case: str) -> ClusterTopology:
    """The one topology of a record."""
    (path,) = (RECORDS / tool / case).glob("output.*")
    (found,) = parse_fabric(path.read_text(), path.name)
    return found


def test_aws() -> None:
    """Network nodes are given from the top down; an instance without any is nowhere."""
    found = of(AWS, "synthetic-six")
    assert (found.source, found.plugin) == (FabricSource.AWS, None)
    assert leaves(found) == {
        "nn-low0": ["i-00", "i-01"], "nn-low1": ["i-02", "i-03"], "nn-low2": ["i-04", "i-05"],
    }  # fmt: skip
    assert levels(found)["nn-top"] == 2
    assert ("nn-low1", "nn-mid0") in parents(found)
    assert ("nn-mid1", "nn-top") in parents(found)


def test_aws_with_names_and_ultraservers() -> None:
    """Names are those of describe-instances beside it, and a capacity block is an NVLink domain."""
    found = of(AWS, "synthetic-ultraserver")
    assert blocks(found) == {
        "cb-0": ["ip-10-0-0-0", "ip-10-0-0-1"], "cb-1": ["ip-10-0-0-2", "ip-10-0-0-3"],
    }  # fmt: skip
    assert {block.domain for block in found.blocks} == {"cb-0", "cb-1"}
    assert levels(found)["nn-1"] == 3


def test_gcp() -> None:
    """A sub-block is one of its block, whatever its id is elsewhere."""
    found = of(GCP, "synthetic-six")
    assert found.source is FabricSource.GCP
    assert leaves(found) == {
        "c1/b0/s0": ["a3-0", "a3-1"], "c1/b0/s1": ["a3-2", "a3-3"], "c1/b1/s0": ["a3-4", "a3-5"],
    }  # fmt: skip
    assert levels(found)["c1"] == 2
    assert leaves(of(GCP, "synthetic-metadata")) == {"c1/r0": ["h0", "h1"], "c1/r1": ["h2", "h3"]}


def test_oci() -> None:
    """Local blocks below network blocks below islands, and GPU memory fabrics."""
    found = of(OCI, "synthetic-pdsh")
    assert found.source is FabricSource.OCI
    assert list(leaves(found).values()) == [["n0", "n1"], ["n2", "n3"]]
    assert sorted(levels(found).values(), key=str) == [0, 0, 1, 2]
    assert [block.nodes for block in found.blocks] == [("n0", "n1"), ("n2", "n3")]
    assert leaves(of(OCI, "synthetic-compute-hosts")) == {"l0": ["n0", "n1"], "l1": ["n2", "n3"]}
    assert leaves(of(OCI, "synthetic-host")) == {"r0": ["n0", "n1"], "r1": ["n2", "n3"]}


@pytest.mark.parametrize("case", ["synthetic-domains", "synthetic-lines"])
def test_azure_domains(case: str) -> None:
    """Hosts by clusterUUID and cliqueId, as JSON and as text."""
    found = of(AZURE, case)
    assert found.source is FabricSource.AZURE
    assert blocks(found) == {f"{UUID}0.32766": ["h0", "h2"], f"{UUID}1.32766": ["h1", "h3"]}


def test_azure_sharp() -> None:
    """Each port hangs on its switch, by the name of its host; switches above have no port."""
    found = of(AZURE, "synthetic-sharp")
    assert leaves(found) == {
        "ibsw1": ["h0", "h1"], "ibsw2": ["h0", "h1"], "ibsw3": ["h2", "h3"], "ibsw4": ["h2", "h3"],
    }  # fmt: skip
    assert levels(found) == {"ibsw1": 0, "ibsw2": 0, "ibsw3": 0, "ibsw4": 0, "ibsw5": 1}
    assert parents(found) == [(f"ibsw{number}", "ibsw5") for number in range(1, 5)]
    assert found.ports[0].guid == "0x155dfffd33ff00"


def test_the_public_capture_has_the_torsets_that_were_published_with_it() -> None:
    """Hosts whose ports share a switch are the groups of slurm_topology.txt."""
    folder = corpus_file("slurm-topology/azure-cyclecloud")
    files = ("nodes_guids.txt", "topology.txt")
    (found,) = parse_fabric("\n".join((folder / name).read_text() for name in files), "azure")
    published = parse_topology_conf((folder / "slurm_topology.txt").read_text(), "x")
    wanted = {frozenset(nodes) for nodes in leaves(published).values()}
    assert {frozenset(nodes) for nodes in leaves(found).values()} == wanted
    assert len(found.ports) == 128


def test_hosts_are_told_at_different_depths() -> None:
    """Each hangs on the innermost of what is told of it; one of which nothing is, on nothing."""
    (found,) = parse_fabric(
        json.dumps(
            [
                {"node": f"n{at}", "customerHPCIslandId": "i", "customerNetworkBlock": block,
                 "customerLocalBlock": local}
                for at, (block, local) in enumerate([("b", "l"), ("b", None), (None, None)])
            ]
            + [{"node": "n3", "customerHPCIslandId": None}]
        ),
        "oci.json",
    )  # fmt: skip
    assert leaves(found) == {"l": ["n0"], "b": ["n1"], "i": ["n2"]}
    assert levels(found) == {"l": 0, "b": 1, "i": 2}
    assert found.unplaced == ("n3",)


def test_a_sub_block_without_its_block_is_one() -> None:
    """Of its cluster, and no block of the same id."""
    places = [{"subblock": "s1"}, {"subblock": "s2"}, {"block": "s1"}]
    (found,) = parse_fabric(
        json.dumps(
            [
                {
                    "name": f"n{at}",
                    "resourceStatus": {"physicalHostTopology": {"cluster": "c"} | one},
                }
                for at, one in enumerate(places)
            ]
        ),
        "gcp.json",
    )
    assert leaves(found) == {"c//s1": ["n0"], "c//s2": ["n1"], "c/s1": ["n2"]}
    assert {upper for _, upper in parents(found)} == {"c"}


def test_a_cluster_of_zeros_is_no_nvlink_domain() -> None:
    """A GPU without such a fabric has it; its host is nowhere."""
    zeros = "00000000-0000-0000-0000-000000000000"
    given = [{"node": "n1", "clusterUUID": zeros, "cliqueId": 0},
             {"node": "n2", "clusterUUID": "u", "cliqueId": 1}]  # fmt: skip
    (found,) = parse_fabric(json.dumps(given), "azure.json")
    assert (blocks(found), found.unplaced) == ({"u.1": ["n2"]}, ("n1",))
    lines = parse_azure_domains(f"n1: {zeros}_0\nn2: {UUID}0_1\n", "x")
    assert (blocks(lines), lines.unplaced) == ({f"{UUID}0.1": ["n2"]}, ("n1",))


def host(**words: object) -> str:
    """One host of AWS, with other words."""
    return json.dumps({"InstanceId": "i-1", "NetworkNodes": ["a", "b"], **words})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (host(NetworkNodes=None), "no location for any of the 1 hosts"),
        (host(NetworkNodes="a"), "NetworkNodes: got text; expected a list"),
        (host(NetworkNodes=[1]), "NetworkNodes: got a list; expected a list of strings"),
        (host(InstanceId=None), "a host without a name; expected one of node, host"),
        (host(InstanceId=["i"]), "InstanceId: got a list; expected text"),
        (host() + host(NetworkNodes=["a", "c"]), "i-1 is at a > c here, at a > b before"),
        (host() + host(InstanceId="i-2", NetworkNodes=["c", "b"]), "b is below a and, for i-2"),
        (
            '{"node": "n", "clusterUUID": "0-0", "cliqueId": 0}',
            "no location for any of the 1 hosts",
        ),
        (host() + '{"node": "n", "rackId": "r"}', "a host with the keys node, rackId"),
        (host() + '{"node": "n", "clusterUUID": "u"}', "a host with the keys node, clusterUUID"),
        ('[{"node": "n", "physicalHost": "c/r"}]', "got 'c/r'; expected /cluster/rack/host"),
        ('[{"node": "n", "resourceStatus": 1}]', "got a number; expected an object"),
        ('[{"clusterUUID": true, "node": "n"}]', "got true or false"),
        ("n1: {}\nn2: {}\n", 'no "schema" key'),
        ('n1: {"rdmaTopologyData": {}}\n{"rackId": "r"}\n', "1 hosts and 2 objects"),
        ('n1: {"rdmaTopologyData": {}}\nn2 is down\n', "Expecting value"),
        ('{"Instances": []}', 'no "schema" key'),
        ("[]", "no fabric found"),
    ],
)
def test_what_is_not_understood_is_an_error(text: str, words: str) -> None:
    """The error says what was got and what was expected."""
    with pytest.raises(ParseError, match=words):
        parse_fabric(text, "cloud.json")


@pytest.mark.parametrize(
    ("text", "line_no", "words"),
    [
        (f"h1: {UUID}0\n\nh2\n", 3, "is not a host with its domain"),
        (f"h1: {UUID}0\nh1: {UUID}1\n", 2, "h1 is at .* here, at .* before"),
        ("h1: 00000000-0000-0000-0000-000000000000\n", 1, "no location for any of the 1 hosts"),
    ],
)
def test_domains_that_contradict_each_other(text: str, line_no: int, words: str) -> None:
    """The error names the line."""
    with pytest.raises(ParseError, match=words) as caught:
        parse_azure_domains(text, "x")
    assert caught.value.line_no == line_no


@pytest.mark.parametrize(
    ("text", "line_no", "words"),
    [
        ("h1: 0x1\nh2: 0x01\n", 2, "0x1 belongs to both h1 and h2"),
        ("h1: 0x1\nSwitchName=a Nodes=0x1,0x2\n", 2, "0x2 is not among the 1 host GUIDs"),
        ("h1: 0x1\nSwitchName=a Nodes=0x1\nSwitchName=a Switches=b\n", 3, "b is not among the 1"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a\n", 1, "leads to no port"),
        ("h1: 0x1\nSwitchName=a\n", 2, "is neither a host nor a switch"),
    ],
)
def test_switches_that_cannot_be(text: str, line_no: int, words: str) -> None:
    """The error names the line and the numbers."""
    with pytest.raises(ParseError, match=words) as caught:
        parse_azure_sharp(text, "x")
    assert caught.value.line_no == line_no


def test_a_network_node_that_stands_twice_in_a_row_is_one() -> None:
    """AWS does not say that they differ."""
    (found,) = parse_fabric(host(NetworkNodes=["a", "b", "b"]), "aws.json")
    assert leaves(found) == {"b": ["i-1"]}
