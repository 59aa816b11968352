"""What the numbers of a ledger and of a META block can be; what lies beyond is left out, and said.

Both are files that anybody may have written. JSON has numbers of any size, and Python's reader NaN
and infinities besides: none may reach arithmetic. Clocks have bounds of their own, where readers
can leave out the one record that is beyond them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hpckit.model.ledger import EnergyReading, RankEnd, RankStart
from hpckit.model.rules import InvalidValue
from hpckit.model.series import HostColumn, SampledGpu, SampleMeta

_SHOWN = 24


class Bound(NamedTuple):
    """The least and the largest that a number can be, and what stands for one that is neither.

    None is "missing", where the field may be; a required number has no substitute.
    """

    least: float
    most: float
    instead: float | None = None


AMOUNT: Final = Bound(0, 2**63 - 1)
"""Bytes and millijoules: what a signed 64-bit number holds."""
NUMBER: Final = Bound(0, 2**31 - 1)
"""Ranks, processes, tasks."""
_CPU_S: Final = Bound(0, 1e12)  # 30 years of 1000 CPUs

BOUNDS: Final[Mapping[type, Mapping[str, Bound]]] = {
    SampleMeta: {
        "hz": Bound(1e-4, 1e4, 1.0),
        "array_task": NUMBER,
        "restart": Bound(0, 2**31 - 1, 0),
        "cpus": Bound(0, 2**20),
        "memory_limit_bytes": AMOUNT,
    },
    SampledGpu: {
        "index": Bound(0, 2**16, -1),
        "power_limit_w": Bound(0, 1e5),
        "memory_bytes": Bound(0, 2**50),
        "max_sm_mhz": Bound(1, 2**16),
    },
    HostColumn: {"wraps_at": Bound(1, 2**64)},
    RankStart: {
        "rank": NUMBER,
        "local_rank": NUMBER,
        "world_size": NUMBER,
        "pid": NUMBER,
        "nvml_init_ms": Bound(0, 1e9),
    },
    RankEnd: {
        "pid": NUMBER,
        "exit_code": Bound(-(2**31), 2**31 - 1),
        "cpu_user_s": _CPU_S,
        "cpu_system_s": _CPU_S,
        "max_rss_bytes": AMOUNT,
        "read_chars_bytes": AMOUNT,
        "write_chars_bytes": AMOUNT,
        "read_bytes": AMOUNT,
        "write_bytes": AMOUNT,
    },
    EnergyReading: {"energy_mj": AMOUNT},
}
"""By record and field: every number of these records but clocks (`_ns`), as msgspec reads it."""

_PARTS: Final[Mapping[type, Mapping[str, type]]] = {
    SampleMeta: {"gpus": SampledGpu, "host_columns": HostColumn},
    RankStart: {"gpus": EnergyReading},
    RankEnd: {"gpus": EnergyReading, "updates": EnergyReading, "readings": EnergyReading},
}
_MAY_BE_NONE: Final = {
    (cls, name) for cls in BOUNDS for name, of in cls.__annotations__.items() if "None" in of
}


class LeftOut(NamedTuple):
    """A number that cannot be: its path such as `gpus[3].memory_bytes`, its record, and why."""

    path: str
    record: dict[str, Any]
    why: str


def leave_out(tree: dict[str, Any], cls: type, path: str = "") -> list[LeftOut]:
    """Replace what cannot be in the JSON of a record, and say what that was.

    Raises InvalidValue for a number that the record cannot be without.
    """
    found = []
    for name, bound in BOUNDS[cls].items():
        value = tree.get(name)
        if not isinstance(value, (int, float)) or bound.least <= value <= bound.most:
            continue
        if bound.instead is None and (cls, name) not in _MAY_BE_NONE:
            raise InvalidValue(path + name, _shown(value), _range(bound))
        tree[name] = bound.instead
        why = f"it is {_shown(value)}, which cannot be: {_range(bound)} is expected"
        found.append(LeftOut(path + name, tree, why))
    for name, part in _PARTS.get(cls, {}).items():
        items = tree.get(name)
        for at, item in enumerate(items if isinstance(items, list) else ()):
            if isinstance(item, dict):
                found += leave_out(item, part, f"{path}{name}[{at}].")
    return found


def _shown(value: float) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} digits)"


def _range(bound: Bound) -> str:
    return f"{bound.least:g} to {bound.most:g}"
