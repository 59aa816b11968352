"""Branches of a network's tree in the words that people read, the same in text and in pictures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

from hpckit.core.hostlist import fold_hosts, natural_order
from hpckit.core.text import visible
from hpckit.fabric.domain_names import domain_kind, names_in, short_names, up_rate
from hpckit.fabric.domains import Branch
from hpckit.fabric.locality import ROOT

_NAME: Final = 36
_LONG: Final = 400
_SWITCHES: Final = {1: "leaf switches", 2: "spines"}


def branch_name(branch: Branch, most: int = _NAME) -> str:
    """`leaf leaf07`, `32 leaves leaf[01-32]`; of the rest `… and 37 more leaves`."""
    count = len(branch.domains)
    if branch.is_rest:
        return f"… and {count} more {domain_kind(branch.of, count)}"
    if count == 1:
        inside = names_in(branch.of.name)
        name = short_names(inside, most)
        if name.endswith(_further(inside)):
            # The switches of one domain are no domains of their own.
            several = _SWITCHES.get(branch.of.level, "switches")
            return f"{len(inside)} {several}, {_first(inside, most)}"
        # Who stands outermost needs no word for it.
        return name if branch.of.parent == ROOT else f"{domain_kind(branch.of)} {name}"
    names = short_names(branch.names, most)
    if names.endswith(_further(branch.names)):
        return f"{count} {domain_kind(branch.of, count)}, {_first(branch.names, most)}"
    return f"{count} {domain_kind(branch.of, count)} {names}"


def _further(names: Sequence[str]) -> str:
    """How `short_names` ends where it tells the first name alone."""
    return f" + {len(set(names)) - 1}"


def _first(names: Sequence[str], most: int) -> str:
    """The first of names that have no short form: `A10-IBSPINE-01 and others`."""
    first = min(names, key=natural_order)
    return f"{short_names((first,), most)} and others"


def branch_count(branch: Branch) -> str:
    """`32 nodes`; of several `12 to 30 nodes each`, or `8 below each, 32 nodes each`."""
    least, most = branch.sizes
    size = f"{least}" if least == most else f"{least} to {most}"
    word = "node" if most == 1 else "nodes"
    if len(branch.domains) == 1:
        return f"{size} {word}"
    below = "" if branch.per_parent == len(branch.domains) else f"{branch.per_parent} below each, "
    return f"{below}{size} {word} each"


def branch_up(branch: Branch) -> tuple[str, ...]:
    """`12.8 Tb/s up`, or nothing where that is not told or nothing leads out."""
    rate = branch.of.uplink_bytes_per_s
    if branch.is_rest or rate is None or branch.of.parent == ROOT:
        return ()
    return (f"{up_rate(rate)} up{'' if len(branch.domains) == 1 else ' each'}",)


def branch_nodes(branch: Branch, most: int) -> str:
    """The names of the nodes in no domain below, folded, in at most `most` characters."""
    text = fold_hosts(branch.own_nodes)
    if len(visible(text, most + 1)) <= most:
        return visible(text, most)
    return short_names(branch.own_nodes, most)


def branch_about(branch: Branch) -> str:
    """A branch in one sentence."""
    parts = (branch_name(branch, _LONG), branch_count(branch), *branch_up(branch))
    nodes = () if branch.is_rest or not branch.own_nodes else (branch_nodes(branch, _LONG),)
    return ", ".join(chain(parts, nodes))
