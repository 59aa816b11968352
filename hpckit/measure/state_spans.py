"""What a GPU did in parts of the time that it was held, such as those in which a rank had it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hpckit.measure.sample_time import Stretch
from hpckit.measure.states import QUIET, SPIN, STATES, USEFUL, States
from hpckit.model.account import Share

_US: Final = 1e6

Span = tuple[int, int]


class StateSpans:
    """Collects the time in each state of one GPU, in spans of µs after the beginning."""

    def __init__(self, spans_us: Sequence[Span]) -> None:
        self._state_us = {span: np.zeros(STATES) for span in spans_us}

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
                inside_us = np.bincount(states, inside, STATES)
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
        for span, state_us in self._state_us.items():
            useful_us = state_us[USEFUL] + useful * state_us[QUIET]
            known_us = state_us[:USEFUL].sum() + useful_us + state_us[SPIN] + spin * state_us[QUIET]
            found[span] = min(1.0, float(useful_us / known_us)) if known_us > 0 else None
        return found
