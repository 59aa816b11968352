"""The useful share of GPUs' time as a series: what the report's classes are, moment by moment."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from hpckit.measure.rows import Rows, Times, counter_steps
from hpckit.measure.spread import Floats
from hpckit.measure.states import (
    IDLE,
    QUIET,
    TRANSFER_MIB_PER_S,
    UNKNOWN,
    USEFUL,
    States,
    states_of,
    waiting_w,
)
from hpckit.model.series import SampledGpu

_COLUMNS: Final = (
    "util_pct", "mem_util_pct", "processes", "power_mw", "sm_active_pct100",
    "tensor_active_pct100", "dram_active_pct100",
)  # fmt: skip
_LINKS: Final = ("nvlink_tx_mib", "nvlink_rx_mib", "pcie_tx_mib", "pcie_rx_mib")


class WaitingPower:
    """Up to which power a GPU whose memory is quiet waits; by the least that it had when still."""

    def __init__(self) -> None:
        self._still_w: dict[str, float] = {}
        self._limit_w: dict[str, float] = {}

    def add(self, gpu: SampledGpu, states: States, power_w: Floats) -> None:
        """More samples of a GPU."""
        if gpu.power_limit_w is not None:
            self._limit_w[gpu.uuid] = gpu.power_limit_w
        still_w = power_w[(states <= IDLE) & np.isfinite(power_w)]
        if len(still_w):
            before_w = self._still_w.get(gpu.uuid, np.inf)
            self._still_w[gpu.uuid] = min(before_w, float(still_w.min()))

    def of(self, uuid: str) -> float:
        """In W; below any power where nothing tells."""
        if uuid not in self._still_w or uuid not in self._limit_w:
            return -np.inf
        return waiting_w(self._still_w[uuid], self._limit_w[uuid])


def states_in(times: Times, rows: Rows) -> States:
    """The state of each row of a GPU."""
    columns = {name: np.ascontiguousarray(rows[name]) for name in _COLUMNS}
    return states_of(columns, _transfer(times, rows))


def shares_of(states: States) -> tuple[Floats, Floats]:
    """Of each row whether it is useful, and whether its power has to tell; NaN is not known."""
    known = states != UNKNOWN
    useful: Floats = np.where(known, states == USEFUL, np.nan)
    quiet: Floats = np.where(known, states == QUIET, np.nan)
    return useful, quiet


def useful_shares(useful: Floats, quiet: Floats, power_w: Floats | None, waiting: Floats) -> Floats:
    """The useful share of each GPU's (row's) moments; `waiting` is WaitingPower of each."""
    if power_w is None or not np.nansum(quiet):
        return useful
    works = ~(power_w <= waiting[:, None])
    shares: Floats = useful + quiet * works
    return shares


def _transfer(times: Times, rows: Rows) -> NDArray[np.bool_] | None:
    """Where NVLink or PCIe carried so much that memory is busy with it."""
    if len(rows) <= 1:
        return None
    grown = np.stack([counter_steps(rows, name) for name in _LINKS])
    least_mib = np.diff(times) / 1e9 * TRANSFER_MIB_PER_S
    busy = np.zeros(len(rows), np.bool_)
    busy[1:] = (np.where(np.isfinite(grown), grown, 0.0) >= np.maximum(least_mib, 1.0)).any(axis=0)
    return busy
