"""Reported energies against the truth of simulated sensors; all of it is synthetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hpckit.account.energy_sums import sum_of_boards
from tests.fakes.energy_truth import (
    GAIN_SIGMA,
    SENSINGS,
    counter_job,
    integrated_job,
    reading_half_width,
)
from tests.fakes.sensors import WAVEFORMS, late_by_chance, slow_by_chance
from tests.sizes import size

SEEDS = size(quick=24, whole=200)
"""`make bench SUITE=account` takes 1,000."""
MOST_OFF = {0.02: 0.2, 0.025: 0.2, 0.1: 0.4}
"""By the counter's period: a load in step with it is cut off anywhere."""


def off(jobs: list[tuple[float, float]]) -> np.ndarray:
    """Errors as shares of the truth."""
    return np.array([abs(value / truth - 1) for truth, value in jobs])


@pytest.mark.parametrize("waveform", ["constant", "ramp", "walk"])
@pytest.mark.parametrize("has_samples", [False, True])
@pytest.mark.parametrize(("length_s", "most"), [(10.0, 0.01), (1.0, 0.05)])
def test_a_counter_tells_the_energy(
    length_s: float, most: float, has_samples: bool, waveform: str
) -> None:
    """Of steady loads, ramps and walks: 1 % at ten seconds, 5 % at one, in each job."""
    jobs = [counter_job(seed, waveform, length_s, has_samples=has_samples) for seed in range(SEEDS)]
    errors = off([(truth, energy.value_j or 0) for truth, energy in jobs])
    assert errors.max() <= most


@pytest.mark.parametrize("length_s", [1.0, 10.0])
@pytest.mark.parametrize("has_samples", [False, True])
def test_a_counter_says_how_far_it_may_be_off(length_s: float, has_samples: bool) -> None:
    """What ± has besides the gain holds the truth of a counter without one in 95 % of jobs.

    Of loads in step with it too.
    """
    held = []
    for seed in range(SEEDS):
        waveform = list(WAVEFORMS)[seed % len(WAVEFORMS)]
        truth, energy = counter_job(seed, waveform, length_s, has_samples=has_samples)
        held.append(abs((energy.value_j or 0) - truth) <= reading_half_width(energy))
    assert np.mean(held) >= 0.95


@pytest.mark.parametrize("length_s", [1.0, 10.0])
@pytest.mark.parametrize("boards", [1, 8])
def test_a_counter_is_as_good_as_its_board(boards: int, length_s: float) -> None:
    """The stated ± holds the truth of boards with a gain in 95 % of jobs, of several boards too."""
    held = []
    for seed in range(SEEDS):
        waveform = list(WAVEFORMS)[seed % len(WAVEFORMS)]
        gains = np.random.default_rng(10_000 + seed).normal(1, GAIN_SIGMA, boards)
        jobs = [
            counter_job(SEEDS * board + seed, waveform, length_s, has_samples=False, gain=gain)
            for board, gain in enumerate(gains.tolist())
        ]
        total = sum_of_boards(energy for _, energy in jobs)
        off_j = (total.value_j or 0) - sum(truth for truth, _ in jobs)
        held.append(abs(off_j) <= (total.plus_minus_j or 0))
    assert np.mean(held) >= 0.95


@pytest.mark.parametrize(
    "busy", [{"late_ns": late_by_chance}, {"took_ns": slow_by_chance}], ids=["late", "slow"]
)
@pytest.mark.parametrize("update_s", [0.02, 0.025, 0.1])
def test_a_counter_that_was_read_late_is_still_a_counter(
    update_s: float, busy: dict[str, Any]
) -> None:
    """Where one question or answer in five comes late, no energy is a multiple, and the ± holds."""
    held = []
    for seed in range(SEEDS):
        waveform = list(WAVEFORMS)[seed % len(WAVEFORMS)]
        truth, energy = counter_job(
            seed, waveform, 1.0, has_samples=False, update_s=update_s, **busy
        )
        off_j = abs((energy.value_j or 0) - truth)
        assert off_j <= MOST_OFF[update_s] * truth
        assert (energy.plus_minus_j or truth) <= 0.5 * truth
        held.append(off_j <= (energy.plus_minus_j or 0))
    assert np.mean(held) >= 0.95


@pytest.mark.parametrize("mode", SENSINGS)
def test_an_integral_says_how_far_it_may_be_off(mode: str) -> None:
    """The stated 95 % interval holds the truth in 95 % of 1,000 seeds over all waveforms."""
    held = []
    for seed in range(SEEDS):
        waveform = list(WAVEFORMS)[seed % len(WAVEFORMS)]
        truth, energy = integrated_job(seed, waveform, SENSINGS[mode])
        held.append(abs((energy.value_j or 0) - truth) <= (energy.plus_minus_j or 0))
    assert np.mean(held) >= 0.95


def test_loads_in_step_with_the_sensor_are_within_the_interval() -> None:
    """What a sensor of 25 in 100 ms cannot see of a load in step with it is in its ±."""
    jobs = [
        integrated_job(seed, "aliasing", SENSINGS["instant 25/100 ms 10 Hz"])
        for seed in range(SEEDS // 2)
    ]
    held = [abs((e.value_j or 0) - truth) <= (e.plus_minus_j or 0) for truth, e in jobs]
    assert np.mean(held) >= 0.95
