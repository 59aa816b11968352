"""When a counter was written, by what a rank's entry saw of it."""

from __future__ import annotations

import numpy as np
import pytest

from hpckit.account.counter import Clockwork, Readings, clockwork_of, knots_of


def readings(*rows: tuple[float, float, bool]) -> Readings:
    """Readings of these moments and energies; True is a change that was seen."""
    at_s, energy_j, is_update = zip(*rows, strict=True)
    return Readings(np.array(at_s), np.array(energy_j), np.array(is_update))


def seen(*at_s: float, before_s: float = 0.002) -> Readings:
    """Changes of a counter of 100 ms and 1 J, each with the reading that was just before it."""
    rows = [(one - before_s, float(round(10 * one) - 1), False) for one in at_s]
    rows += [(one, float(round(10 * one)), True) for one in at_s]
    return readings(*sorted(rows))


def clockwork() -> Clockwork:
    """That of a counter that was seen to change at 31 ms of each 100."""
    return clockwork_of(seen(0.031, 0.131, 0.231, 0.331, 0.731, 0.831))


def test_a_period_is_told_by_changes_that_are_periods_apart() -> None:
    """Changes between which others were not looked for tell it too."""
    found = clockwork()
    assert found.period_s == pytest.approx(0.1)
    assert found.sigma_s < 0.0003


def test_changes_of_which_others_lie_between_are_no_period() -> None:
    """A counter whose every second change was missed has no period of twice the length."""
    found = clockwork_of(seen(0.031, 0.231, 0.431, 0.631))
    assert found.period_s == pytest.approx(0.1)
    assert found.sigma_s == 0


def test_a_counter_that_stood_still_has_no_longer_period() -> None:
    """A number that was read for a second was not renewed; the others tell the period."""
    rows = ((2.0, 90.0, False), (3.0, 90.0, False), (4.0, 99.0, False))
    both = Readings.joined((seen(0.031, 0.131, 0.231), readings(*rows)))
    assert clockwork_of(both).period_s == pytest.approx(0.1, abs=0.002)


def test_older_ledgers_tell_no_phase() -> None:
    """They lack what was read before a change: whether one was missed cannot be known."""
    found = clockwork_of(readings((0.031, 1.0, True), (0.131, 2.0, True), (0.231, 3.0, True)))
    assert found.period_s == pytest.approx(0.1)
    assert found.sigma_s == 0


def test_a_reading_is_one_period_before_the_update_that_follows() -> None:
    """What the end read was written a period before the change that was seen after it."""
    rows = ((0.831, 1.0, True), (0.931, 2.0, True), (1.010, 2.0, False), (1.031, 3.0, True))
    knots = knots_of(readings(*rows), clockwork())
    assert knots.at_s[-2:] == pytest.approx([0.930, 1.030], abs=0.001)


def test_a_reading_that_was_in_phase_is_as_old_as_the_clockwork_says() -> None:
    """Of a reading between two updates the age follows from those before."""
    knots = knots_of(readings((0.831, 1.0, True), (1.010, 2.0, False)), clockwork())
    assert knots.at_s[-1] == pytest.approx(0.930, abs=0.004)
