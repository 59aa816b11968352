"""What a GPU did in the time before each sample: nothing, waiting, or work.

Classes of GPU-seconds, from accounting.md §3.6; a measured zero and no measurement are told apart
throughout, and nothing is said to be waste that the columns do not show to be waste:

- no process: the driver counts no process that computes, and no kernel ran. `processes` is not
  measured on some GPUs (MIG, AMD); a GPU on which no kernel runs is then idle.
- idle: there is a process, and utilization is 0: not one kernel in the driver's last 1/6 to 1 s.
- spin: utilization is high, and next to nothing was computed or moved. Where GPM is measured
  (Hopper and newer): tensor cores and DRAM nearly idle and few SMs busy, as a kernel of NCCL holds
  few of them (at most 32 or 64 channels of one block each; a GPU has 100 to 150 SMs), while a
  kernel that computes without tensor cores fills them. DRAM may be busier while NVLink or PCIe
  carry data: that is communication. Without GPM: memory is hardly read or written
  (nvmlUtilization_t.memory), and the power stays near that of the same GPU without a process or a
  kernel in this job. Limits: a kernel that computes on few SMs looks like a spin, as does one
  thread that walks through a list; a spin that overlaps with computation is useful; without GPM,
  of a GPU that was never seen idle nothing tells its idle power, and such time is unknown where the
  power is so low that it may be that of a spin.
- useful: the rest of the time in which kernels ran, however few: a low utilization is not waste.
- unknown: no sample, or no column that tells a spin from work.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpckit.account.rows import Column, Columns
from hpckit.account.sample_time import Stretch
from hpckit.account.values import Share

NO_PROCESS: Final = 0
IDLE: Final = 1
USEFUL: Final = 2
SPIN: Final = 3
UNKNOWN: Final = 4
QUIET: Final = 5
"""Kernels ran, GPM is missing and memory is quiet: the power will tell (`PowerLevels`)."""
STATES: Final = 6

SPIN_UTIL_PCT: Final = 90
"""A kernel that waits is there all the time; below this the time between kernels prevails."""
SPIN_TENSOR_PCT100: Final = 100
"""1 %: a reduction has no use for tensor cores; a training step is at 10 % and more."""
SPIN_DRAM_PCT100: Final = 500
"""5 %: waiting polls a flag in memory; what copies or computes from memory is well above."""
TRANSFER_DRAM_PCT100: Final = 3000
"""30 %: an all-reduce over NVLink at full rate reads and writes memory at some 25 % of its rate."""
TRANSFER_MIB_PER_S: Final = 4096.0
"""From this rate over NVLink or PCIe the memory's traffic is taken to be that of a transfer."""
SPIN_SM_PCT100: Final = 3500
"""35 %: 32 channels on 132 SMs are 24 %; a kernel that computes wants all of them."""
RUNS_SM_PCT100: Final = 50
"""0.5 %: what counts as a kernel where utilization is not measured (MIG)."""
QUIET_MEM_UTIL_PCT: Final = 5
"""nvmlUtilization_t.memory of a kernel that waits."""
QUIET_POWER_FRAC: Final = 0.15
"""How far above its idle level, as a part of the way to its limit, a GPU's power is when its
kernels wait: H100 SXM 70 W idle and 700 W limit → 165 W; A100 SXM 55 W and 400 W → 107 W."""
IDLE_MOST_FRAC: Final = 0.3
"""Of its limit, what a GPU draws at rest at most, where that was not seen: H100 SXM 70 of 700 W,
A100 SXM 55 of 400 W, T4 10 to 17 of 70 W, each some more with a context."""

_NONE8: Final = 0xFF
_NONE16: Final = 0xFFFF
_NONE32: Final = 0xFFFF_FFFF
_NO_LIMIT: Final = "without GPM and a power limit, spinning looks like work"
_NEVER_STILL: Final = (
    "without GPM, detecting spinning needs the idle power, and the GPU was never idle"
)

States = NDArray[np.uint8]


def states_of(rows: Columns, transfer: NDArray[np.bool_] | None) -> States:
    """The state of each row; `rows` are its columns, `transfer` says where links were busy."""
    util = rows["util_pct"]
    ran, still = _ran(util, rows["sm_active_pct100"])
    has_process = rows["processes"] != 0
    # By arithmetic, which takes a tenth of the time of masks: never both ran and still.
    states: States = UNKNOWN - ran * np.uint8(UNKNOWN - USEFUL) - still * np.uint8(UNKNOWN - IDLE)
    states *= has_process | ran  # NO_PROCESS is 0
    high = ran & (util >= SPIN_UTIL_PCT)
    if high.any():
        _split(states, high, rows, transfer)
    return states


def time_by_state(states: States, weight_us: NDArray[np.int64]) -> NDArray[Any]:
    """The time of these samples in each state."""
    runs = np.flatnonzero(states[1:] != states[:-1]) + 1
    begins = np.concatenate(([0], runs))
    return np.bincount(states[begins], np.add.reduceat(weight_us, begins), STATES)


def _ran(util: Column, sm_active: Column) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Where a kernel ran, and where none did; neither where nothing tells."""
    still = util == 0
    missing = util == _NONE8
    if not missing.any():
        return ~still, still
    told = missing & (sm_active != _NONE16)
    runs = sm_active >= RUNS_SM_PCT100
    return (~still & ~missing) | (told & runs), still | (told & ~runs)


def _split(
    states: States,
    high: NDArray[np.bool_],
    rows: Columns,
    transfer: NDArray[np.bool_] | None,
) -> None:
    tensor, dram = rows["tensor_active_pct100"], rows["dram_active_pct100"]
    sm_active = rows["sm_active_pct100"]
    with_gpm = high & (tensor != _NONE16) & (dram != _NONE16) & (sm_active != _NONE16)
    few = with_gpm & (tensor < SPIN_TENSOR_PCT100) & (sm_active < SPIN_SM_PCT100)
    if few.any():
        calm = dram < SPIN_DRAM_PCT100
        if transfer is not None:
            calm |= transfer & (dram < TRANSFER_DRAM_PCT100)
        states[calm & few] = SPIN
    left = high & ~with_gpm
    if left.any():
        mem_util = rows["mem_util_pct"]
        quiet = (mem_util <= QUIET_MEM_UTIL_PCT) | (mem_util == _NONE8)
        states[left & quiet & (rows["power_mw"] != _NONE32)] = QUIET


def waiting_w(still_w: float, limit_w: float) -> float:
    """The most that a GPU draws whose kernels wait, by what it draws without any."""
    return still_w + QUIET_POWER_FRAC * max(0.0, limit_w - still_w)


class PowerLevels:
    """Tells, at the end, which of the quiet time was a spin: by the power in it, W by W."""

    _WATTS: Final = 4096

    def __init__(self) -> None:
        self._quiet_us = np.zeros(self._WATTS)
        self._still_mw: int | None = None

    def add(self, states: States, power_mw: Column, weight_us: NDArray[np.int64]) -> None:
        """More samples. The idle level is the least power of those without process or kernel."""
        still = (states <= IDLE) & (power_mw != _NONE32)
        if still.any():
            least = int(power_mw[still].min())
            self._still_mw = least if self._still_mw is None else min(self._still_mw, least)
        quiet = states == QUIET
        if quiet.any():
            watts = np.minimum(power_mw[quiet] // 1000, self._WATTS - 1).astype(np.int64)
            self._quiet_us += np.bincount(watts, weight_us[quiet], self._WATTS)

    def spin_us(self, limit_w: float | None) -> int:
        """How much of the quiet time was a spin; 0 where no idle level or no limit is known."""
        if self._still_mw is None or limit_w is None:
            return 0
        return self._quiet_below_us(self._still_mw / 1000, limit_w)

    def untold_us(self, limit_w: float | None) -> int:
        """How much of it may be a spin or work: no idle level is known, and the power is low."""
        if self._still_mw is not None or limit_w is None:
            return 0
        return self._quiet_below_us(IDLE_MOST_FRAC * limit_w, limit_w)

    def why_no_spin(self, limit_w: float | None) -> str | None:
        """Why a spin in the quiet time could not be seen; None where there is nothing to see."""
        if limit_w is None and self._quiet_us.any():
            return _NO_LIMIT
        return _NEVER_STILL if self.untold_us(limit_w) else None

    def _quiet_below_us(self, still_w: float, limit_w: float) -> int:
        most_w = waiting_w(still_w, limit_w)
        return int(self._quiet_us[: int(most_w) + 1].sum())


WINDOW_S: Final = 60.0
"""From this length a stretch is worth naming; reading a checkpoint is mostly shorter."""
WINDOW_FRAC: Final = 0.05
"""… or from this part of the job, for short ones."""
LULL_FRAC: Final = 0.05
"""Two stretches are one if what lies between is shorter than this part of the first: a GPU that is
asked for a moment every minute does nothing all the same."""
MOST_WINDOWS: Final = 64
"""The longest are kept."""

_PIECES: Final = 4
"""A piece counts from this part of a window on: then their number has a bound."""


class IdleRun(NamedTuple):
    """A stretch in µs after the beginning; `state` is NO_PROCESS or IDLE."""

    state: int
    from_us: int
    until_us: int
    is_late: bool = False


class IdleWindows:
    """Collects the stretches of one GPU that was held for `held_us`."""

    def __init__(self, held_us: int, period_us: int, gap_us: int) -> None:
        self._held_us = held_us
        self._gap_us = gap_us
        window_us = min(WINDOW_S * 1e6, WINDOW_FRAC * held_us)
        self.least_us = max(gap_us, int(window_us))
        self._piece_us = max(2 * period_us, self.least_us // _PIECES)
        self._open: IdleRun | None = None
        self._other_us = 0
        self._pieces: list[IdleRun] = []

    def add(self, states: States, stretch: Stretch) -> None:
        """More samples, one at least."""
        others = np.flatnonzero(states > IDLE)
        if len(others):
            self._other_us = int(stretch.at_us[others[-1]])
        new = np.empty(len(states), np.bool_)
        new[0] = self._open is None or self._open.state != int(states[0])
        new[1:] = states[1:] != states[:-1]
        new |= stretch.has_gap
        starts = np.flatnonzero(new)
        if self._open is not None and (not len(starts) or starts[0]):
            end = (int(starts[0]) if len(starts) else len(states)) - 1
            self._open = self._open._replace(until_us=int(stretch.at_us[end]))
        if not len(starts):
            return
        ends = np.append(starts[1:], len(states)) - 1
        begins, stops = stretch.from_us[starts], stretch.at_us[ends]
        kinds = states[starts]
        if self._open is not None and self._is_piece(self._open):
            self._pieces.append(self._open)
        long = (kinds[:-1] <= IDLE) & (stops[:-1] - begins[:-1] >= self._piece_us)
        for at in np.flatnonzero(long):
            self._pieces.append(IdleRun(int(kinds[at]), int(begins[at]), int(stops[at])))
        self._open = IdleRun(int(kinds[-1]), int(begins[-1]), int(stops[-1]))

    def found(self, tail_us: int, *, as_idle: bool = False) -> tuple[IdleRun, ...]:
        """The windows in their order; `as_idle` where the count of processes is not to be trusted.

        `tail_us` is the time after the last sample for which that one stands.
        """
        pieces = list(self._pieces)
        if self._open is not None and self._is_piece(self._open):
            pieces.append(self._open._replace(until_us=self._open.until_us + tail_us))
        if as_idle:
            pieces = [piece._replace(state=IDLE) for piece in pieces]
        inside = [
            run._replace(from_us=max(0, run.from_us), until_us=min(run.until_us, self._held_us))
            for run in pieces
        ]
        held = [run for run in inside if run.until_us > run.from_us]
        long = [run for run in _joined(held) if run.until_us - run.from_us >= self.least_us]
        longest = sorted(long, key=lambda run: run.from_us - run.until_us)[:MOST_WINDOWS]
        in_order = sorted(longest, key=lambda run: run.from_us)
        return tuple(run._replace(is_late=self._is_late(run, tail_us)) for run in in_order)

    def _is_piece(self, run: IdleRun) -> bool:
        return run.state <= IDLE and run.until_us - run.from_us >= self._piece_us

    def _is_late(self, run: IdleRun, tail_us: int) -> bool:
        """Whether nothing else came after it, and samples reach to the end."""
        seen_us = 0 if self._open is None else self._open.until_us + tail_us
        return self._other_us <= run.until_us and seen_us >= self._held_us - self._gap_us


def _joined(pieces: list[IdleRun]) -> list[IdleRun]:
    runs: list[IdleRun] = []
    for piece in pieces:
        last = runs[-1] if runs else None
        if last is not None and last.state == piece.state:
            lull = piece.from_us - last.until_us
            if lull <= LULL_FRAC * (last.until_us - last.from_us):
                runs[-1] = last._replace(until_us=piece.until_us)
                continue
        runs.append(piece)
    return runs


KIND_OF_STATE: Final = {NO_PROCESS: "no-process", IDLE: "idle"}


_US: Final = 1e6

Span = tuple[int, int]


class StateSpans:
    """Collects the time in each state of one GPU, in spans of µs after the beginning.

    `spans_us` are by what the caller knows them by.
    """

    def __init__(self, spans_us: Mapping[Span, Span]) -> None:
        self._watched = spans_us
        self._state_us = {span: np.zeros(STATES) for span in spans_us.values()}

    def add(self, states: States, stretch: Stretch, state_us: NDArray[Any]) -> None:
        """More samples, one at least; `state_us` is the time of all of them in each state."""
        first_us, last_us = int(stretch.from_us[0]), int(stretch.at_us[-1])
        for begin_us, end_us in self._state_us:
            if begin_us >= last_us or end_us <= first_us:
                continue
            inside_us = state_us
            if begin_us > first_us or end_us < last_us:
                until = np.minimum(stretch.at_us, end_us)
                inside = np.maximum(0, until - np.maximum(stretch.from_us, begin_us))
                inside_us = time_by_state(states, inside)
            self._state_us[begin_us, end_us] += inside_us

    def add_tail(self, state: int, from_us: int, tail_us: int) -> None:
        """The time after the last sample, for which that one stands."""
        for (begin_us, end_us), state_us in self._state_us.items():
            state_us[state] += max(0, min(from_us + tail_us, end_us) - max(from_us, begin_us))

    def useful_fracs(
        self, all_us: NDArray[np.float64], waste: Share
    ) -> Mapping[Span, float | None]:
        """The useful part of each span, of what is known of it; None where that is nothing.

        `all_us` are the states of all the time and `waste` what was made of them: what became of
        its quiet time becomes of that of each span.
        """
        quiet_us = float(all_us[QUIET]) or 1.0
        useful = (waste.useful_gpu_s * _US - float(all_us[USEFUL])) / quiet_us
        spin = (waste.spin_gpu_s * _US - float(all_us[SPIN])) / quiet_us
        found: dict[Span, float | None] = {}
        for span, at_us in self._watched.items():
            state_us = self._state_us[at_us]
            useful_us = state_us[USEFUL] + useful * state_us[QUIET]
            known_us = state_us[:USEFUL].sum() + useful_us + state_us[SPIN] + spin * state_us[QUIET]
            found[span] = min(1.0, float(useful_us / known_us)) if known_us > 0 else None
        return found
