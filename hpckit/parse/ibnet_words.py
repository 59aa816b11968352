"""What the words in an InfiniBand fabric mean: node descriptions, and widths with rates.

Sources: rdma-ndd(8), whose node description is the host's name and the device's; InfiniBand
Architecture Specification 1, PortInfo: LinkSpeedActive, LinkSpeedExtActive.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from hpckit.model.fabric import EndKind

_GIGA_BYTES: Final = 1e9 / 8
_LANE_GBIT_PER_S: Final = MappingProxyType(
    {
        "SDR": 2.0,  # 2.5 GT/s of 8b/10b, as DDR and QDR have it
        "DDR": 4.0,
        "QDR": 8.0,
        "FDR10": 10.0,
        "FDR": 14.0625 * 64 / 66,
        "EDR": 25.0,
        "HDR": 50.0,
        "NDR": 100.0,
        "XDR": 200.0,
    }
)
_SPEED: Final = re.compile(r"([0-9]{1,2})[xX]([A-Z]{3}(?:10)?)", re.ASCII)

_AGGREGATION: Final = re.compile(r"\baggregation node\b", re.IGNORECASE)
_WORD: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9_])?", re.ASCII)
_HAS_NUMBER: Final = re.compile(r"[0-9]", re.ASCII)
_MAKER: Final = re.compile(
    r"(?:mellanox|technologies|nvidia|voltaire|qlogic|intel|topspin|cisco|ibm|sun|hewlett|infiniband"
    r"|connect-?x-?[0-9]*(?:vpi|lx|dx|ex)?|connect-?ib|infinihost[0-9]*|bluefield-?[0-9]*"
    r"|mt[0-9]{4,6}|hca|hfi|adapter|corporation|inc\.?|corp\.?)",
    re.IGNORECASE | re.ASCII,
)
_BOX: Final = re.compile(r"MF0;(?P<name>[^;:]*)(?::(?P<place>.*))?", re.ASCII)


class End(NamedTuple):
    """What a description says of the port of a host."""

    kind: EndKind
    node: str | None = None
    nic: str | None = None


@lru_cache(maxsize=256)
def link_bytes_per_s(speed: str | None) -> float | None:
    """What `4xNDR` carries in one direction, its encoding taken off; None for unknown words."""
    match = _SPEED.fullmatch(speed) if speed else None
    lane = _LANE_GBIT_PER_S.get(match[2]) if match else None
    return int(match[1]) * lane * _GIGA_BYTES or None if match and lane else None


def described(description: str) -> End:
    """Whose port it is: `n01 mlx5_0` and `n01 HCA-1` say it, what firmware comes with does not.

    A lone word is a node that does not name its NIC.
    """
    words = description.split()
    if _AGGREGATION.search(description):
        return End(EndKind.AGGREGATION)
    if not words or all(map(_MAKER.fullmatch, words)):
        return End(EndKind.ANONYMOUS)
    if re.fullmatch(r"MT[0-9]{4,6}", words[0], re.ASCII) or _is_of_maker(words):
        return End(EndKind.ANONYMOUS)
    if not _WORD.fullmatch(words[0]) or len(words) > 2:  # noqa: PLR2004  a node and its NIC
        return End(EndKind.OTHER)
    if len(words) == 1:
        return End(EndKind.COMPUTE, words[0])
    if _WORD.fullmatch(words[1]) and _HAS_NUMBER.search(words[1]):
        return End(EndKind.COMPUTE, words[0], words[1])
    return End(EndKind.OTHER)


def _is_of_maker(words: list[str]) -> bool:
    """`Quantum Mellanox Technologies`: it ends in a maker's name, and in no NIC's."""
    return bool(_MAKER.fullmatch(words[-1])) and not _HAS_NUMBER.search(words[-1])


def switch_names(descriptions: Mapping[str, str]) -> dict[str, str]:
    """A name for each switch, by its GUID: of its description where that names it alone.

    `MF0;leaf01:MQM9700/U1` is leaf01; where a box has several switches, their place in it is
    added. A description of several words is the model's and not a name.
    """
    boxes = {guid: _box(text) for guid, text in descriptions.items()}
    count = Counter(name for name, _ in boxes.values() if name)
    places = Counter(f"{name}/{place}" for name, place in boxes.values())
    found = {}
    for guid, (name, place) in boxes.items():
        placed = f"{name}/{place}"
        if name and count[name] == 1:
            found[guid] = name
        elif name and place and places[placed] == 1 and placed not in count:
            found[guid] = placed
        else:
            found[guid] = f"S-{guid.removeprefix('0x')}"
    return found


def _box(description: str) -> tuple[str, str]:
    match = _BOX.fullmatch(description)
    if match is None:
        words = description.split()
        is_name = len(words) == 1 and not _MAKER.fullmatch(words[0])
        return (words[0] if is_name and not words[0].startswith("S-") else "", "")
    name, place = match["name"].strip(), (match["place"] or "").strip()
    _, _, inside = place.partition("/")
    is_clear = not re.search(r"\s", name) and not name.startswith("S-")
    return name if is_clear else "", inside if not re.search(r"\s", inside) else ""
