"""Any fabric as what Slurm can say: a tree of switches, or blocks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hpckit.decide.locality import locality_of
from hpckit.errors import RenderError
from hpckit.model.cluster import TopologyKind
from hpckit.model.fabric import ClusterTopology, HostPort, Switch, SwitchLink
from hpckit.model.hostlist import natural_order
from hpckit.model.locality import ROOT, Domain, Locality
from hpckit.model.words import counted

_OWN_TREES = frozenset({TopologyKind.TREE, TopologyKind.BLOCK, TopologyKind.FLAT})


def slurm_tree(topology: ClusterTopology) -> ClusterTopology:
    """The topology with one way from each node to the top, as topology/tree wants it.

    Leaves of several rails become one switch, and so does what joins them; each says in its
    description which switches it stands for. Blocks alone become topology/block. What Slurm itself
    told is as it was. Nodes on a switch above others get a leaf of their own. Raises RenderError
    where no block has a node.
    """
    if topology.blocks and (topology.plugin is TopologyKind.BLOCK or not topology.switches):
        _refuse_empty(topology)
    if topology.plugin in _OWN_TREES:
        return topology
    if not topology.switches:
        return _blocks(topology)
    return _tree(topology, _with_leaves(locality_of(replace(topology, blocks=()))))


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
    kept = [i for i in range(len(locality.domains)) if i in parents or held[i]]
    nodes = sorted(locality.domain_of, key=natural_order)
    levels = _heights(locality)
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
