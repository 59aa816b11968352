"""Stretches in which a GPU was held and did nothing, found while the samples pass by."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hpckit.measure.sample_time import Stretch
from hpckit.measure.states import IDLE, NO_PROCESS, States

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
        self._close()
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
        held = [one for one in map(self._inside, pieces) if one.until_us > one.from_us]
        long = [run for run in _joined(held) if run.until_us - run.from_us >= self.least_us]
        longest = sorted(long, key=lambda run: run.from_us - run.until_us)[:MOST_WINDOWS]
        in_order = sorted(longest, key=lambda run: run.from_us)
        return tuple(run._replace(is_late=self._is_late(run, tail_us)) for run in in_order)

    def _close(self) -> None:
        if self._open is not None and self._is_piece(self._open):
            self._pieces.append(self._open)

    def _is_piece(self, run: IdleRun) -> bool:
        return run.state <= IDLE and run.until_us - run.from_us >= self._piece_us

    def _inside(self, run: IdleRun) -> IdleRun:
        return run._replace(from_us=max(0, run.from_us), until_us=min(run.until_us, self._held_us))

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
