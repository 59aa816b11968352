"""topology.conf for topology/tree or topology/block. Source: topology.conf(5)."""

from __future__ import annotations

from collections.abc import Iterator

from hpckit.errors import RenderError
from hpckit.model.cluster import TopologyKind
from hpckit.model.fabric import ClusterTopology
from hpckit.model.hostlist import fold_hosts
from hpckit.model.slurm_topology import LINK_SPEED
from hpckit.render.slurm_topology import block_rows, block_sizes, kind_of, switch_rows


def topology_conf_text(topology: ClusterTopology) -> str:
    """The file that makes Slurm place jobs by this topology.

    A name that Slurm does not take is another, and a comment says which. A switch that leads to no
    node is left out. Raises RenderError for what is no tree and has no blocks.
    """
    kind = kind_of(topology)
    if kind is TopologyKind.FLAT:
        raise RenderError(
            "a flat topology has no topology.conf; TopologyPlugin=topology/flat is it"
        )
    lines = _tree(topology) if kind is TopologyKind.TREE else _blocks(topology)
    return "".join(f"{line}\n" for line in lines)


def _tree(topology: ClusterTopology) -> Iterator[str]:
    rows, notes = switch_rows(topology)
    yield from (f"# left out: {note}" for note in notes)
    for row in rows:
        yield from (f"# {note}" for note in row.notes)
        words = [f"SwitchName={row.name}"]
        if row.link_speed is not None and LINK_SPEED.fullmatch(row.link_speed):
            words.append(f"LinkSpeed={row.link_speed}")
        below = row.children or row.nodes
        words.append(f"{'Switches' if row.children else 'Nodes'}={fold_hosts(below)}")
        yield " ".join(words)


def _blocks(topology: ClusterTopology) -> Iterator[str]:
    for row in block_rows(topology):
        yield from (f"# {note}" for note in row.notes)
        yield f"BlockName={row.name} Nodes={fold_hosts(row.nodes)}"
    sizes = block_sizes(topology)
    if sizes:
        yield f"BlockSizes={','.join(map(str, sizes))}"
