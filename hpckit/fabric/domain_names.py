"""Domains of a network in the words that people read, the same in text and in pictures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from hpckit.core.hostlist import expand_hosts, fold_hosts, natural_order
from hpckit.core.text import figure, visible
from hpckit.core.units import counted, format_indices
from hpckit.fabric.locality import ROOT, Domain, Locality
from hpckit.node.words import as_float

_DIGITS: Final = re.compile(r"([0-9]{1,9})", re.ASCII)
_TERA: Final = 1000
_BLOCK, _LEAF = 0, 1
_NVLINK_WORDS: Final = ("NVLink domain", "NVLink domains")
_LEVEL_WORDS: Final = {_BLOCK: ("block", "blocks"), _LEAF: ("leaf", "leaves")}
_FEW: Final = 3
_LONGEST: Final = 4000


def domain_kind(domain: Domain, count: int = 1) -> str:
    """Return what a domain is called: `leaf`, `leaves`, `block`, `NVLink domain`, `pod`."""
    above = ("top", "tops") if domain.parent == ROOT else ("pod", "pods")
    words = _NVLINK_WORDS if domain.is_nvlink else _LEVEL_WORDS.get(domain.level, above)
    return words[count != 1]


def leaf_of(locality: Locality, node: str) -> int:
    """The leaf, or the block, that a node is in, ROOT where none is told of it.

    It is above an NVLink domain; a switch above leaves is none.
    """
    for at in locality.path(node):
        domain = locality.domains[at]
        if not domain.is_nvlink:
            return at if domain.level <= _LEAF else ROOT
    return ROOT


def place_kind(locality: Locality, nodes: Sequence[str]) -> str:
    """What the lowest domains of these nodes are called together, in the plural."""
    homes = {locality.domain_of[node] for node in nodes if node in locality.domain_of}
    kinds = {domain_kind(locality.domains[at], 2) for at in homes}
    return kinds.pop() if len(kinds) == 1 else "domains" if kinds else "leaves"


def where_words(locality: Locality, nodes: Sequence[str]) -> str:
    """Where these nodes are: `on 8 leaves`, `in 8 NVLink domains on 4 leaves`.

    Where some are in NVLink domains, `on 2 leaves, 2 nodes in one NVLink domain`.
    """
    known = [node for node in nodes if node in locality.domain_of]
    inside = [node for node in known if locality.domains[locality.domain_of[node]].is_nvlink]
    near = {locality.domain_of[node] for node in inside}
    leaves = {leaf_of(locality, node) for node in inside} - {ROOT}
    leaves |= {locality.domain_of[node] for node in known} - near
    on = f"on {_counted_kinds(locality, leaves)}" if leaves else ""
    if near and len(inside) == len(known):
        where = f"in {_counted_kinds(locality, near)} {on}".rstrip()
    elif near:
        where = f"{on}, {counted(len(inside), 'node')} in {_counted_kinds(locality, near)}"
    else:
        where = on or "on no leaf"
    lost = len(nodes) - len(known)
    return f"{where}, {lost} of them unknown" if lost else where


def _counted_kinds(locality: Locality, domains: Iterable[int]) -> str:
    """`8 leaves`, `one leaf`, `3 leaves and one pod`."""
    counts = Counter(
        (domain_kind(locality.domains[at]), domain_kind(locality.domains[at], 2))
        for at in sorted(domains, key=lambda at: (locality.domains[at].level, at))
    )
    return " and ".join(
        f"one {single}" if count == 1 else f"{count} {several}"
        for (single, several), count in counts.items()
    )


def domain_name(name: str, most: int = 40) -> str:
    """A domain's name in at most `most` characters; of leaves of several rails what they share."""
    return short_names(names_in(name), most)


def names_in(name: str) -> tuple[str, ...]:
    """The switches that a domain's name folds; the name itself where it is no host list."""
    try:
        return expand_hosts(name, separators=",") or (name,)
    except ValueError:
        return (name,)


def short_names(names: Sequence[str], most: int) -> str:
    """Names that differ in numbers as one, `leaf-[01-04]-07`; else all of three, or first … last.

    What is longer than `most` characters becomes the first and how many more there are, and of a
    name its end.
    """
    ordered = sorted(dict.fromkeys(names), key=natural_order)
    if not ordered:
        return ""
    folded = ordered[0] if len(ordered) == 1 else _folded(ordered)
    if folded is not None and len(visible(folded, most + 1)) <= most:
        return visible(folded, most)
    is_few = len(ordered) <= _FEW
    ends = ", ".join(ordered) if is_few else f"{ordered[0]} … {ordered[-1]}"
    if len(ordered) > 1 and len(visible(ends, most + 1)) <= most:
        return visible(ends, most)
    if folded is not None:
        return _end(folded, most)
    further = f" + {len(ordered) - 1}"
    return _end(ordered[0], max(2, most - len(further))) + further


def folded_names(names: Sequence[str]) -> str:
    """All names, in as few words as there are: `leaf-[01-04]-07`, else Slurm's list of them."""
    ordered = sorted(dict.fromkeys(names), key=natural_order)
    return (_folded(ordered) if ordered else None) or fold_hosts(ordered)


def _end(name: str, most: int) -> str:
    """The end of a name that is too long: names of one network differ there."""
    shown = visible(name, _LONGEST)
    return shown if len(shown) <= most else "…" + shown[len(shown) - most + 1 :]


def _folded(names: Sequence[str]) -> str | None:
    """The names as one with brackets for the numbers that vary, where they are a whole grid."""
    parts = [_DIGITS.split(name) for name in names]
    if len({len(part) for part in parts}) > 1:
        return None
    columns = [sorted(set(column)) for column in zip(*parts, strict=True)]
    size = 1
    for at, column in enumerate(columns):
        size *= len(column)
        if len(column) > 1 and (at % 2 == 0 or len({len(number) for number in column}) > 1):
            return _of_one_stem(parts, columns)
    if size != len(names):
        return _of_one_stem(parts, columns)
    texts = []
    for column in columns:
        width = len(column[0]) if column[0].startswith("0") else 0
        is_one = len(column) == 1
        texts.append(column[0] if is_one else f"[{format_indices(map(int, column), width)}]")
    return "".join(texts)


def _of_one_stem(parts: Sequence[Sequence[str]], columns: Sequence[Sequence[str]]) -> str | None:
    """Names that differ in one number alone, of any lengths."""
    varying = [at for at, column in enumerate(columns) if len(column) > 1]
    if len(varying) != 1 or varying[0] % 2 == 0:
        return None
    at = varying[0]
    if any(number != str(int(number)) for number in columns[at]):
        return None
    first = parts[0]
    indices = format_indices(map(int, columns[at]))
    return "".join(first[:at]) + f"[{indices}]" + "".join(first[at + 1 :])


def up_rate(bytes_per_s: float) -> str:
    """What leads out of a domain, as makers of switches give it: `800 Gb/s`, `12.8 Tb/s`."""
    giga = as_float(bytes_per_s) * 8 / 1e9
    return f"{figure(giga / _TERA, 1)} Tb/s" if giga >= _TERA else f"{figure(giga, 1)} Gb/s"
