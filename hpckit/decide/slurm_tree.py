"""Any fabric as what Slurm can say: a tree of switches, or blocks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hpckit.decide.fabric_ends import says_nothing
from hpckit.decide.locality import locality_of
from hpckit.errors import RenderError
from hpckit.model.cluster import TopologyKind
from hpckit.model.fabric import ClusterTopology, EndKind, HostPort, Switch, SwitchLink
from hpckit.model.hostlist import fold_hosts, natural_order
from hpckit.model.locality import ROOT, Domain, Locality
from hpckit.model.words import counted

_MOST_HOSTS = 100
_OWN_TREES = frozenset({TopologyKind.TREE, TopologyKind.BLOCK, TopologyKind.FLAT})


def slurm_tree(topology: ClusterTopology) -> ClusterTopology:
    """The topology with one way from each node to the top, as topology/tree wants it.

    Leaves of several rails become one switch, and so does what joins them; each says in its
    description which switches it stands for. Blocks alone become topology/block. Nodes whose names
    say nothing are left out; those on a switch above others get a leaf of their own. What Slurm
    itself told is as it was. Raises RenderError where no block has a node.
    """
    if topology.blocks and (topology.plugin is TopologyKind.BLOCK or not topology.switches):
        _refuse_empty(topology)
    if topology.plugin in _OWN_TREES:
        return topology
    if not topology.switches:
        return _blocks(topology)
    ports = tuple(port for port in topology.ports if not (port.node and says_nothing(port.node)))
    named = replace(topology, blocks=(), ports=ports)
    return _tree(topology, _with_leaves(locality_of(named)))


def _refuse_empty(topology: ClusterTopology) -> None:
    blocks = [block for block in topology.blocks if not block.is_aggregated]
    if not any(block.nodes for block in blocks):
        count = counted(len(blocks), "block")
        raise RenderError(f"there is no node in {count}, so there is nothing to write for Slurm")


def _with_leaves(locality: Locality) -> Locality:
    """One more domain for nodes beside others: a switch of Slurm has nodes or switches."""
    above = {domain.parent for domain in locality.domains}
    domains = list(locality.domains)
    leaves: dict[int, int] = {}
    of_node = dict(locality.domain_of)
    for node, at in locality.domain_of.items():
        if at in above and at not in leaves:
            leaves[at] = len(domains)
            name = f"{domains[at].name}, nodes on no switch below it"
            domains.append(Domain(name=name, level=domains[at].level - 1, parent=at))
        of_node[node] = leaves.get(at, at)
    return replace(locality, domains=tuple(domains), domain_of=of_node)


def left_out(topology: ClusterTopology) -> tuple[str, ...]:
    """What hangs on a network and is not in its `slurm_tree`, a phrase each."""
    if topology.plugin in _OWN_TREES or not topology.switches:
        return ()
    compute = [port for port in topology.ports if port.kind is EndKind.COMPUTE]
    named = [port.node for port in compute if port.node]
    nothing = sorted(filter(says_nothing, set(named)), key=natural_order)
    nameless = sum(port.kind is EndKind.ANONYMOUS for port in topology.ports)
    nameless += len(compute) - len(named)
    others = {port.node for port in topology.ports if port.kind is EndKind.OTHER and port.node}
    found = []
    if nothing:
        ports = sum(node in nothing for node in named)
        found.append(
            f"{', '.join(nothing)}, {counted(ports, 'port')}: Slurm cannot know such a name"
        )
    if nameless:
        found.append(f"{counted(nameless, 'port')} of adapters that name no node")
    if others:
        found.append(f"{counted(len(others), 'host')} taken for no compute node: {_hosts(others)}")
    return tuple(found)


def _hosts(names: set[str]) -> str:
    return fold_hosts(sorted(names, key=natural_order)[:_MOST_HOSTS])


def _blocks(topology: ClusterTopology) -> ClusterTopology:
    sizes = [len(block.nodes) for block in topology.blocks]
    return replace(
        topology,
        plugin=TopologyKind.BLOCK,
        block_sizes=topology.block_sizes or ((min(sizes),) if sizes else ()),
    )


def _tree(topology: ClusterTopology, locality: Locality) -> ClusterTopology:
    names = _names(locality)
    parents = {domain.parent for domain in locality.domains}
    held = Counter(locality.domain_of.values())
    levels = _heights(locality)
    kept = sorted(
        (i for i in range(len(locality.domains)) if i in parents or held[i]),
        key=lambda i: (levels[i], natural_order(names[i])),
    )
    nodes = sorted(locality.domain_of, key=natural_order)
    return ClusterTopology(
        source=topology.source,
        name=topology.name,
        plugin=TopologyKind.TREE,
        switches=tuple(
            Switch(name=names[i], level=levels[i], description=locality.domains[i].name)
            for i in kept
        ),
        links=tuple(
            SwitchLink(lower=names[i], upper=names[locality.domains[i].parent])
            for i in kept
            if locality.domains[i].parent != ROOT
        ),
        ports=tuple(HostPort(node=node, switch=names[locality.domain_of[node]]) for node in nodes),
    )


def _heights(locality: Locality) -> dict[int, int]:
    """How far each domain is above its lowest one. Domains below others come first in the list."""
    found = dict.fromkeys(range(len(locality.domains)), 0)
    for i in sorted(found, key=lambda at: locality.domains[at].level):
        parent = locality.domains[i].parent
        if parent != ROOT:
            found[parent] = max(found[parent], found[i] + 1)
    return found


def _names(locality: Locality) -> list[str]:
    """Short names, in the order of what they stand for: leaf1, leaf2, …, spine1, …."""
    heights = _heights(locality)
    order = sorted(
        range(len(locality.domains)), key=lambda i: natural_order(locality.domains[i].name)
    )
    counts: Counter[int] = Counter()
    found = [""] * len(locality.domains)
    for i in order:
        height = heights[i]
        counts[height] += 1
        found[i] = f"{_WORDS[min(height, len(_WORDS) - 1)]}{counts[height]}"
        if height >= len(_WORDS):
            found[i] = f"level{height}-{counts[height]}"
    return found


_WORDS = ("leaf", "spine", "core")
