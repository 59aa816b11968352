"""What a GPU was used for, folded over its samples a chunk at a time in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from hpckit.account.activity import (
    IDLE,
    KIND_OF_STATE,
    NO_PROCESS,
    QUIET,
    SPIN,
    STATES,
    TRANSFER_MIB_PER_S,
    UNKNOWN,
    USEFUL,
    IdleWindows,
    PowerLevels,
    StateSpans,
    states_of,
    time_by_state,
)
from hpckit.account.rows import (
    ALL,
    MOST_POINTS,
    Columns,
    Counter,
    CurveTable,
    GaugeTable,
    Rows,
    Series,
    Table,
    ThrottlingFold,
    Times,
    measured_mask,
)
from hpckit.account.sample_time import NS_PER_US, SampleTime, Stretch
from hpckit.account.samples import SampledGpu
from hpckit.account.values import GpuAccount, Share, Window

MIB: Final = 1 << 20

MOST_MIB_PER_S: Final = 4e12 / MIB
"""What no NVLink or PCIe of a GPU carries in one direction (NVLink 5: 0.9 TB/s)."""

DISTRUST_FRAC: Final = 0.1
"""Kernels without any process for more of the busy time than this: the processes are hidden (by a
container, or those of another user), and their count says nothing."""

_SERIES: Final = {
    "power_mw": Series("power", "W", 1e-3),
    "util_pct": Series("util", "%"),
    "mem_used_mib": Series("memory", "B", MIB),
    "temp_c": Series("temp", "°C"),
    "sm_mhz": Series("sm_clock", "MHz"),
    "slowed": Series("throttled", "%"),
    "capped": Series("throttled_by_power_cap", "%"),
}
_GPM: Final = ("sm", "tensor", "dram")
_GAUGES: Final = (*_SERIES, *(f"{name}_active_pct100" for name in _GPM), "proxy")
_LINKS: Final = ("nvlink_tx", "nvlink_rx", "pcie_tx", "pcie_rx")
_PROXY_BEYOND: Final = "above 1: the GPU's maximum SM clock is not {} MHz"
_PROCESSES_HIDDEN: Final = "kernels ran but no process was visible: processes are hidden"


class GpuUsageFold:
    """Folds a GPU's samples, in order, a block at a time (`hpckit.account.rows.RowBlocks`).

    `begin_ns` and `end_ns` are on the samples' clock (CLOCK_MONOTONIC), between which the GPU was
    held. `realtime_offset_ns` turns it into that of the windows; curves begin `origin_s` after the
    report's start, and have `points` points at most, 0 for none.
    """

    def __init__(
        self,
        gpu: SampledGpu,
        period_s: float,
        begin_ns: int,
        end_ns: int,
        *,
        realtime_offset_ns: int = 0,
        origin_s: float = 0.0,
        points: int = MOST_POINTS,
    ) -> None:
        self._gpu = gpu
        self._begin_ns = begin_ns
        self.useful_fracs: Mapping[tuple[int, int], float | None] = {}
        """With the result the useful part of what is known of each watched span, by its ends."""
        self._spans = StateSpans({})
        self._began_s = (begin_ns + realtime_offset_ns) / 1e9
        self._origin_s = origin_s
        self._time = SampleTime(period_s, begin_ns, end_ns)
        self._held_us = self._time.held_us
        self._state_us = np.zeros(STATES)
        self._hidden_us = 0
        self._last_state: int | None = None
        self._levels = PowerLevels()
        self._gauges = GaugeTable(_GAUGES)
        self._links = {f"{name}_mib": Counter(MOST_MIB_PER_S, self._held_us) for name in _LINKS}
        self._windows = IdleWindows(self._held_us, self._time.period_us, self._time.gap_us)
        self._throttling = ThrottlingFold(self._held_us)
        pieces = min(points, max(1, 2 * self._held_us // self._time.period_us))
        self._curves = CurveTable(tuple(_SERIES.values()), self._held_us, pieces)
        self._are_drawn = points > 0

    def watch(self, spans_ns: Iterable[tuple[int, int]]) -> None:
        """Tell apart what it does in these spans (first and last ns); before any row is added."""
        begin = self._begin_ns
        self._spans = StateSpans(
            {(a, b): ((a - begin) // NS_PER_US, (b - begin) // NS_PER_US) for a, b in spans_ns}
        )

    def add(self, times_ns: NDArray[np.int64], rows: Columns) -> None:
        """The GPU's next rows, one at least, by column, and their times."""
        stretch = self._time.add(times_ns)
        states = states_of(rows, self._transfer(stretch, rows))
        self._windows.add(states, stretch)
        state_us = time_by_state(states, stretch.weight_us)
        self._state_us += state_us
        self._spans.add(states, stretch, state_us)
        if not int(rows["processes"].min()):
            ran = (rows["processes"] == 0) & (states != NO_PROCESS) & (states != UNKNOWN)
            self._hidden_us += int(stretch.weight_us[ran].sum())
        self._levels.add(states, rows["power_mw"], stretch.weight_us)
        throttled = self._throttling.add(rows, stretch, drawn=self._are_drawn)
        table = Table(_GAUGES, {**rows, **throttled, "proxy": _proxy(rows)})
        self._gauges.add(table, stretch.weight_us)
        if self._are_drawn:
            self._curves.add(table, stretch.at_us)
        self._last_state = int(states[-1])

    def _transfer(self, stretch: Stretch, rows: Columns) -> NDArray[np.bool_] | None:
        """Where NVLink or PCIe carried so much that memory is busy with it."""
        moved: NDArray[np.int32] | None = None
        for name, counter in self._links.items():
            grown = counter.add(rows[name], stretch.at_us)
            if grown is not None and int(grown.max()) > 0:
                moved = grown if moved is None else np.maximum(moved, grown)
        if moved is None:
            return None
        least = stretch.apart_us * (TRANSFER_MIB_PER_S / 1e6)
        return moved >= least if moved.max() >= least.min() else None

    def result(self, account: GpuAccount) -> GpuAccount:
        """The GPU's account with what it did, of all rows; gauges are means over the sampled time.

        `refused` also says, by column, why something that the samples have was not used, and at
        `spin` why none could be seen.
        """
        state_us, tail_us = self._state_us.copy(), self._time.tail_us()
        if self._last_state is not None:
            state_us[self._last_state] += tail_us
            self._spans.add_tail(self._last_state, max(0, self._time.last_us or 0), tail_us)
        ran_us = float(state_us[[USEFUL, SPIN, QUIET]].sum())
        is_hidden = self._hidden_us > DISTRUST_FRAC * ran_us
        mean, most = self._gauges.mean, self._gauges.most
        waste = self._share(state_us, is_hidden=is_hidden)
        self.useful_fracs = self._spans.useful_fracs(state_us, waste)
        return replace(
            account,
            waste=waste,
            throttling=self._throttling.throttling(),
            util_mean_pct=mean("util_pct"),
            power_mean_w=mean("power_mw", 1e-3),
            power_max_w=most("power_mw", 1e-3),
            temp_max_c=most("temp_c"),
            sm_mean_mhz=mean("sm_mhz"),
            mem_peak_bytes=_bytes(most("mem_used_mib")),
            **{f"{name}_active_frac": mean(f"{name}_active_pct100", 1e-4) for name in _GPM},
            mfu_proxy_frac=self._mfu_proxy(),
            **{f"{name}_bytes": _bytes(self._links[f"{name}_mib"].total) for name in _LINKS},
            windows=self._found(tail_us, is_hidden=is_hidden),
            curves=self._curves.curves(self._origin_s, self._time.gap_us)
            if self._are_drawn
            else (),
            refused={**account.refused, **self._refused(is_hidden=is_hidden)},
        )

    def _refused(self, *, is_hidden: bool) -> dict[str, str]:
        refused = {"processes": _PROCESSES_HIDDEN} if is_hidden else {}
        why = self._levels.why_no_spin(self._gpu.power_limit_w)
        if why is not None:
            refused["spin"] = why
        if (self._mfu_proxy(most=math.inf) or 0.0) > 1.0:
            refused["mfu_proxy_frac"] = _PROXY_BEYOND.format(self._gpu.max_sm_mhz)
        return refused

    def _mfu_proxy(self, most: float = 1.0) -> float | None:
        """Tensor active × SM clock / largest SM clock: the OFU of arXiv 2605.20799.

        A proxy of model FLOPs utilization: it counts what the tensor cores did, needed or not, and
        nothing that is computed without them. None where it is beyond `most`.
        """
        largest = self._gpu.max_sm_mhz
        proxy = self._gauges.mean("proxy", 1 / largest) if largest else None
        return None if proxy is None or proxy > most else proxy

    def _share(self, state_us: NDArray[np.float64], *, is_hidden: bool) -> Share:
        spun_us = self._levels.spin_us(self._gpu.power_limit_w)
        none_us, idle_us = int(state_us[NO_PROCESS]), int(state_us[IDLE])
        if is_hidden:
            none_us, idle_us = 0, none_us + idle_us
        spin_us = int(state_us[SPIN]) + spun_us
        untold_us = self._levels.untold_us(self._gpu.power_limit_w)
        useful_us = int(state_us[USEFUL] + state_us[QUIET]) - spun_us - untold_us
        told_us = none_us + idle_us + spin_us + useful_us
        return Share(
            no_process_gpu_s=none_us / 1e6,
            idle_gpu_s=idle_us / 1e6,
            spin_gpu_s=spin_us / 1e6,
            useful_gpu_s=useful_us / 1e6,
            unknown_gpu_s=(self._held_us - told_us) / 1e6,
        )

    def _found(self, tail_us: int, *, is_hidden: bool) -> tuple[Window, ...]:
        return tuple(
            Window(
                kind=KIND_OF_STATE[run.state],
                started_s=self._began_s + run.from_us / 1e6,
                ended_s=self._began_s + run.until_us / 1e6,
                is_late=run.is_late,
            )
            for run in self._windows.found(tail_us, as_idle=is_hidden)
        )


def _proxy(rows: Columns) -> NDArray[np.float64] | None:
    """Tensor active × SM clock in MHz; None where one of them is measured nowhere."""
    tensor, clock = rows["tensor_active_pct100"], rows["sm_mhz"]
    masks = measured_mask(tensor), measured_mask(clock)
    if any(mask is not ALL and not mask.any() for mask in masks):
        return None
    work: NDArray[np.float64] = tensor * (clock * 1e-4)
    for mask in masks:
        if mask is not ALL:
            work[~mask] = np.nan
    return work


def _bytes(mib: float | None) -> int | None:
    return None if mib is None else int(mib) * MIB


JUDGED_S: Final = 10.0
"""Of a GPU that was held for less nothing is said: starting a framework takes as long."""
KNOWN_FRAC: Final = 0.5
"""… nor of one of which less of the time is known: missing data is no finding about a job
(job_defense_shield#13)."""


def known_s(gpu: GpuAccount) -> float:
    """For how long it is known what a GPU did."""
    return gpu.waste.total_gpu_s - gpu.waste.unknown_gpu_s


def is_judged(gpu: GpuAccount) -> bool:
    """Whether enough is known of it."""
    known = known_s(gpu)
    return known >= JUDGED_S and known >= KNOWN_FRAC * gpu.held_s


_NONE: Final = 0xFF


class LastUse:
    """Finds the last use of one GPU in a stretch of time, first and last moment in it.

    A use is a process or a kernel; utilization lags by its second. `was_used` is whether there was
    one.
    """

    def __init__(self, first_ns: int, last_ns: int) -> None:
        self._first_ns, self._last_ns = first_ns, last_ns
        self._had_process = False
        self._gone_ns: int | None = None
        self.was_used = False

    @property
    def gone_ns(self) -> int | None:
        """When it was seen to be gone for good.

        None where something used it to the end, and where nothing tells: processes are not counted,
        are hidden (kernels run without any), or there are no samples behind the last use.
        """
        return self._gone_ns if self._had_process else None

    def add(self, times_ns: Times, rows: Rows) -> None:
        """The GPU's next rows, one at least, and their times."""
        if self._last_ns < int(times_ns.min()) or self._first_ns > int(times_ns.max()):
            return
        inside = (times_ns >= self._first_ns) & (times_ns <= self._last_ns)
        processes, util = rows["processes"], rows["util_pct"]
        counted = inside & (processes != _NONE) & (processes > 0)
        used = counted | (inside & (util != _NONE) & (util > 0))
        empty = inside & (processes == 0) & ~used
        self._had_process |= bool(counted.any())
        uses = np.flatnonzero(used)
        if len(uses):
            self.was_used, self._gone_ns = True, None
            empty[: uses[-1]] = False
        gone = np.flatnonzero(empty)
        if self.was_used and self._gone_ns is None and len(gone):
            self._gone_ns = int(times_ns[gone[0]])
