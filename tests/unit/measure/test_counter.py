"""When a counter was written, by what a rank's entry saw of it."""

from __future__ import annotations

import numpy as np
import pytest

from hpckit.measure.counter import Readings, clockwork_of, knots_of

SEEN_S = np.array([0.031, 0.131, 0.231, 0.331, 0.731, 0.831])


def readings(*rows: tuple[float, float, bool]) -> Readings:
    """Readings of these moments and energies; True is a change that was seen."""
    at_s, energy_j, is_update = zip(*rows, strict=True)
    return Readings(np.array(at_s), np.array(energy_j), np.array(is_update))


def test_a_period_is_told_by_changes_that_are_periods_apart() -> None:
    """Changes between which others were not looked for tell it too."""
    assert clockwork_of(SEEN_S).period_s == pytest.approx(0.1)


def test_a_reading_is_one_period_before_the_update_that_follows() -> None:
    """What the end read was written a period before the change that was seen after it."""
    rows = ((0.831, 1.0, True), (0.931, 2.0, True), (1.010, 2.0, False), (1.031, 3.0, True))
    knots = knots_of(readings(*rows), clockwork_of(SEEN_S))
    assert knots.at_s[-2:] == pytest.approx([0.930, 1.030], abs=0.001)


def test_a_reading_that_was_in_phase_is_as_old_as_the_clockwork_says() -> None:
    """Of a reading between two updates the age follows from those before."""
    knots = knots_of(readings((0.831, 1.0, True), (1.010, 2.0, False)), clockwork_of(SEEN_S))
    assert knots.at_s[-1] == pytest.approx(0.930, abs=0.004)


def test_a_counter_that_stays_had_just_changed() -> None:
    """Where it was about to change, or just had: one that is the same 45 ms later just had."""
    rows = ((0.831, 1.0, True), (0.9295, 2.0, False), (0.9745, 2.0, False))
    knots = knots_of(readings(*rows), clockwork_of(SEEN_S))
    assert knots.at_s[-1] == pytest.approx(0.9295, abs=0.003)
