"""Whether two values of a communication variable say the same."""

from __future__ import annotations

import re
from typing import Final

LEVELS: Final = ("LOC", "PIX", "PXB", "PHB", "SYS")
"""The words of NCCL's old numbers for levels: 0 is LOC, 4 and more are SYS."""
_LEVELED: Final = frozenset(("NCCL_NET_GDR_LEVEL", "NCCL_P2P_LEVEL"))
_DEVICES: Final = frozenset(("NCCL_IB_HCA", "UCX_NET_DEVICES"))
_INTERFACES: Final = frozenset(("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"))


def says_the_same(name: str, value: str, derived: str) -> bool:
    """Whether a value does what hpckit's does: a number written otherwise, a list in another order.

    Of interfaces, names that all begin as hpckit's do are a narrower list of the same network.
    """
    one, other = value.strip(), derived.strip()
    if one == other:
        return True
    if name in _INTERFACES:
        return not other.startswith(("^", "=")) and _begin(one.removeprefix("="), other)
    if name in _DEVICES:
        return _listed(one) == _listed(other)
    if name == "NCCL_NET":
        return one.casefold() == other.casefold()
    return _plain(name, one) == _plain(name, other)


def level_of(value: str) -> str | None:
    """The word of a level that is a number: digits are read from the start; None without any."""
    match = re.match(r"\d{1,4}", value.strip(), re.ASCII)
    return None if match is None else LEVELS[min(int(match[0]), len(LEVELS) - 1)]


def _begin(names: str, beginnings: str) -> bool:
    """Whether each name of a list begins as one of another list does."""
    allowed = tuple(word for word in beginnings.split(",") if word)
    return all(name.startswith(allowed) for name in names.split(","))


def _listed(value: str) -> tuple[str, list[str]]:
    """What stands before a list of devices (`=`, `^`), and its names in order."""
    names = value.lstrip("^=")
    return value[: len(value) - len(names)], sorted(names.split(","))


def _plain(name: str, value: str) -> str:
    if name in _LEVELED:
        return level_of(value) or value
    return str(int(value)) if re.fullmatch(r"\d{1,18}", value, re.ASCII) else value
