"""Made-up series of samples: rows of a GPU that computes as a clean job does, changed at will."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hpckit.account.sample_format import GPU_COLUMNS, MISSING
from hpckit.account.samples import GPU_DTYPE, SampledGpu
from hpckit.account.values import Energy, GpuAccount, Share

SECOND_NS: Final = 1_000_000_000

H100: Final = SampledGpu(
    uuid="GPU-1",
    index=0,
    name="synthetic H100",
    power_limit_w=700.0,
    memory_bytes=80 << 30,
    max_sm_mhz=1980,
    energy="counter",
    power="average",
)
"""A GPU of a synthetic sample file."""

BUSY: Final = {
    "util_pct": 98,
    "mem_util_pct": 40,
    "temp_c": 62,
    "power_mw": 620_000,
    "mem_used_mib": 60_000,
    "sm_mhz": 1980,
    "mem_mhz": 2619,
    "event_reasons": 0,
    "sm_active_pct100": 8500,
    "tensor_active_pct100": 4500,
    "dram_active_pct100": 3500,
    "processes": 1,
}
"""A training step on a GPU with GPM; counters stand still."""

STILL: Final = {
    "util_pct": 0,
    "mem_util_pct": 0,
    "power_mw": 75_000,
    "sm_active_pct100": 0,
    "tensor_active_pct100": 0,
    "dram_active_pct100": 0,
}
IDLE: Final = {**BUSY, **STILL}
EMPTY: Final = {**IDLE, "processes": 0, "mem_used_mib": 0}
SPIN: Final = {
    **BUSY,
    "util_pct": 100,
    "mem_util_pct": 1,
    "power_mw": 140_000,
    "sm_active_pct100": 1800,
    "tensor_active_pct100": 0,
    "dram_active_pct100": 50,
}
GPM: Final = ("sm_active_pct100", "tensor_active_pct100", "dram_active_pct100")
NO_GPM: Final = dict.fromkeys(GPM, 0xFFFF)
COUNTERS: Final = tuple(column.name for column in GPU_COLUMNS if column.kind == "counter")
STANDING: Final = dict.fromkeys(COUNTERS, 1000)

ACCOUNT: Final = GpuAccount(
    uuid="GPU-1",
    node="n1",
    index=0,
    name="synthetic H100",
    restart=0,
    held_s=0.0,
    energy=Energy(value_j=None),
    waste=Share(),
)
"""Its account, of which nothing is known yet."""


def missing_row() -> dict[str, int]:
    """A row of which nothing is measured."""
    return {
        column.name: 0 if column.kind in ("time", "index") else MISSING[_bytes_of(column.name)]
        for column in GPU_COLUMNS
    }


def columns_of(rows: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """The rows of a GPU by column, as folds take them."""
    return {name: rows[name] for name in rows.dtype.names or ()}


def rows_of(states: Iterable[dict[str, int]]) -> NDArray[Any]:
    """A row for each; columns that it does not name are not measured."""
    made = [tuple({**missing_row(), **state}.values()) for state in states]
    return np.array(made, dtype=GPU_DTYPE)


def times_of(count: int, *, period_s: float = 1.0, start_s: float = 1.0) -> NDArray[np.int64]:
    """The moments of so many samples, a period apart, the first `start_s` after 0."""
    return ((np.arange(count) * period_s + start_s) * SECOND_NS).astype(np.int64)


def _bytes_of(name: str) -> int:
    return GPU_DTYPE[name].itemsize
