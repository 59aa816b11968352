"""Trees and blocks: what hpckit writes for Slurm is read back as it was."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from hpckit.fabric.slurm_files import parse_topology_conf, parse_topology_yaml
from hpckit.fabric.slurm_writer import topology_conf_text, topology_yaml_text
from hpckit.fabric.topology import ClusterTopology
from hpckit.placement.request import slurm_order
from hpckit.slurm.values import SlurmVersion
from tests.fakes.fabric_scenes import as_slurm_sees, blocks, tree

NAME = "x"
HOSTS = st.from_regex(r"[a-z]{1,3}(-?[0-9]{1,4}){0,2}(-ib)?", fullmatch=True)
SWITCHES = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.:/@+-]{0,12}", fullmatch=True)


@st.composite
def trees(draw: st.DrawFn) -> ClusterTopology:
    """A tree of up to three levels, each leaf with nodes of its own."""
    hosts = draw(st.lists(HOSTS, min_size=1, max_size=12, unique=True))
    names = draw(st.lists(SWITCHES, min_size=len(hosts) + 5, max_size=20, unique=True))
    uppers, names = names[:4], names[4:]
    leaves: dict[str, list[str]] = {}
    for host in hosts:
        leaves.setdefault(draw(st.sampled_from(names[:4])), []).append(host)
    parents = {leaf: draw(st.sampled_from(uppers[:3])) for leaf in leaves}
    if draw(st.booleans()):
        parents |= dict.fromkeys(sorted(set(parents.values())), uppers[3])
    return tree(parents, leaves)


@st.composite
def sets_of_blocks(draw: st.DrawFn) -> ClusterTopology:
    """Blocks of one size, with sizes to plan by."""
    hosts = draw(st.lists(HOSTS, min_size=1, max_size=12, unique=True))
    size = draw(st.integers(1, len(hosts)))
    names = draw(st.lists(SWITCHES, min_size=12, max_size=12, unique=True))
    members = {
        names[at // size]: hosts[at : at + size] for at in range(0, len(hosts) - size + 1, size)
    }
    return blocks(members, tuple(size * 2**level for level in range(draw(st.integers(0, 3)))))


@given(trees() | sets_of_blocks())
def test_what_is_written_is_read_back(given_: ClusterTopology) -> None:
    """In both formats, and so is what was read back."""
    seen = as_slurm_sees(given_)
    found = parse_topology_conf(topology_conf_text(given_), NAME)
    assert as_slurm_sees(found) == seen
    assert parse_topology_conf(topology_conf_text(found), NAME) == found
    named = dataclasses.replace(found, name="a")
    (again,) = parse_topology_yaml(topology_yaml_text([named]), NAME)
    assert as_slurm_sees(again) == seen
    assert again.block_sizes == given_.block_sizes


@given(trees() | sets_of_blocks())
def test_slurms_order_is_of_the_nodes_alone(given_: ClusterTopology) -> None:
    """It is a permutation, the same whatever order the nodes are given in."""
    for version in (SlurmVersion(24, 11), SlurmVersion(26, 5)):
        order = slurm_order(given_.nodes, version, given_)
        assert order is not None
        assert sorted(order) == sorted(given_.nodes)
        assert slurm_order(given_.nodes[::-1], version, given_) == order
