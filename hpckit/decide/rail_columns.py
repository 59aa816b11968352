"""Which NICs of different nodes are each other's counterparts, though they be called differently.

`HCA-1`, `HCA-2`, `HCA-5` and `HCA-6` on one node are `mlx5_0`, `mlx5_1`, `mlx5_4` and `mlx5_5` on
another: names of one kind are told by their numbers, two kinds by the steps between them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from hpckit.model.fabric import HostPort

_NUMBERED: Final = re.compile(r"(.*?)([0-9]{1,9})([^0-9]*)", re.ASCII | re.DOTALL)
_RARE: Final = 10
"""A NIC that a tenth of the nodes or fewer have is a name of its own, no column."""

Place = tuple[int, int]
"""The number in a NIC's name, and its port."""


class NicKey(NamedTuple):
    """A NIC's port by its name; `stem` is the name without its number."""

    stem: str
    place: Place


def nic_keys(ports: Iterable[HostPort]) -> list[NicKey]:
    """The keys of one node's ports; where NICs have no names they are told by their GUIDs."""
    listed = list(ports)
    unnamed = sorted(
        (port.guid or "", port.nic_port or 0, at)
        for at, port in enumerate(listed)
        if port.nic is None
    )
    order = {at: place for place, (_, _, at) in enumerate(unnamed)}
    return [_key(port, order.get(at, 0)) for at, port in enumerate(listed)]


def _key(port: HostPort, place: int) -> NicKey:
    if port.nic is None:
        return NicKey("", (place, 0))
    match = _NUMBERED.fullmatch(port.nic)
    if match is None:
        return NicKey(port.nic, (0, port.nic_port or 0))
    return NicKey(f"{match[1]}#{match[3]}", (int(match[2]), port.nic_port or 0))


def columns_of(nodes: Mapping[str, Iterable[NicKey]]) -> dict[NicKey, int]:
    """The column of each NIC that is not rare: the same for counterparts, from 0, in order."""
    kinds: dict[str, Counter[Place]] = {}
    for keys in nodes.values():
        for key in set(keys):
            kinds.setdefault(key.stem, Counter())[key.place] += 1
    usual = {stem: _usual(count) for stem, count in kinds.items()}
    if not usual:
        return {}
    weight = {stem: (len(usual[stem]), count.total()) for stem, count in kinds.items()}
    first = max(usual, key=lambda stem: (weight[stem], stem))
    columns = {place: column for column, place in enumerate(usual[first])}
    return {
        NicKey(stem, place): column
        for stem, places in usual.items()
        for place, column in _aligned(places, columns).items()
    }


def _usual(count: Counter[Place]) -> list[Place]:
    most = max(count.values())
    return sorted(place for place, nodes in count.items() if nodes * _RARE > most)


def _aligned(places: list[Place], columns: Mapping[Place, int]) -> dict[Place, int]:
    """The columns of NICs whose numbers may be counted from another start."""
    starts = sorted({number - places[0][0] for number, _ in columns}, key=abs)
    for start in starts:
        moved = [(number + start, port) for number, port in places]
        if all(place in columns for place in moved):
            return {place: columns[to] for place, to in zip(places, moved, strict=True)}
    return {place: column for column, place in enumerate(places)}
