"""topology.yaml for a cluster of several topologies, Slurm 25.05 and later."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from hpckit.errors import RenderError
from hpckit.model.cluster import TopologyKind
from hpckit.model.fabric import ClusterTopology
from hpckit.model.hostlist import fold_hosts
from hpckit.render.slurm_topology import SlurmNames, block_rows, block_sizes, kind_of, switch_rows

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.\-\[\],/@+]*", re.ASCII)
_WORDS: Final = frozenset(
    {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}
)


def topology_yaml_text(topologies: Sequence[ClusterTopology]) -> str:
    """The file that gives a cluster these topologies, the first default being the default.

    One without a name is called by its plugin. It has no place for a LinkSpeed. Names are those of
    `topology_conf_text`. Raises RenderError as it does, and where two are called alike.
    """
    if not topologies:
        raise RenderError("there is no topology to write")
    given = [one.name or str(kind_of(one)) for one in topologies]
    twin = next((name for name in given if given.count(name) > 1), None)
    if twin is not None:
        raise RenderError(f"{given.count(twin)} topologies are called {twin}; each needs its name")
    names = SlurmNames()
    names.add(given)
    default = next((at for at, one in enumerate(topologies) if one.is_default), 0)
    lines = ["---"]
    for at, (name, topology) in enumerate(zip(given, topologies, strict=True)):
        lines += [f"# {note}" for note in names.note(name)]
        lines.append(f"- topology: {_text(names[name])}")
        lines.append(f"  cluster_default: {str(at == default).lower()}")
        lines += _body(topology)
    return "".join(f"{line}\n" for line in lines)


def _body(topology: ClusterTopology) -> Iterator[str]:
    kind = kind_of(topology)
    if kind is TopologyKind.FLAT:
        yield "  flat: true"
    elif kind is TopologyKind.TREE:
        yield from _tree(topology)
    else:
        yield from _blocks(topology)


def _tree(topology: ClusterTopology) -> Iterator[str]:
    rows, notes = switch_rows(topology)
    yield "  tree:"
    yield from (f"    # left out: {note}" for note in notes)
    yield "    switches:"
    for row in rows:
        yield from (f"      # {note}" for note in row.notes)
        yield f"      - switch: {_text(row.name)}"
        below = row.children or row.nodes
        yield f"        {'children' if row.children else 'nodes'}: {_text(fold_hosts(below))}"


def _blocks(topology: ClusterTopology) -> Iterator[str]:
    yield "  block:"
    sizes = block_sizes(topology)
    if sizes:
        yield "    block_sizes:"
        yield from (f"      - {size}" for size in sizes)
    yield "    blocks:"
    for row in block_rows(topology):
        yield from (f"      # {note}" for note in row.notes)
        yield f"      - block: {_text(row.name)}"
        yield f"        nodes: {_text(fold_hosts(row.nodes))}"


def _text(word: str) -> str:
    """A word as YAML reads it back, as text."""
    is_plain = _PLAIN.fullmatch(word) is not None and word.casefold() not in _WORDS
    return word if is_plain else f'"{word}"'
