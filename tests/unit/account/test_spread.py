"""How well samples tell a mean."""

from __future__ import annotations

import numpy as np
import pytest

from hpckit.account.compare.spread import (
    Lack,
    Spread,
    spread_of,
    t_power,
    t_quantile,
    variance_of_mean,
)
from tests.fakes.random_series import ar1, job_power


@pytest.mark.parametrize(
    ("df", "quantile"),
    [(1, 12.706), (3, 3.182), (7, 2.365), (25, 2.060), (200, 1.972), (1e12, 1.96)],
)
def test_quantiles_are_those_of_the_tables(df: float, quantile: float) -> None:
    """Student's t to 1 %, also between the rows that are kept."""
    assert t_quantile(df) == pytest.approx(quantile, rel=0.01)
    assert t_power(df) > t_quantile(df)


def test_samples_that_hang_together_tell_less() -> None:
    """An AR(1) process of 0.9 has a variance of the mean that is 19 times as large."""
    variances = [
        variance_of_mean(ar1(np.random.default_rng(seed), 1, 2000, 0.9)[0])[0] for seed in range(50)
    ]
    assert np.mean(variances) == pytest.approx(19 / 2000, rel=0.25)


def test_a_swing_does_not_hide_its_mean() -> None:
    """Steps of 44 s that swing by 50 W leave the mean of ten minutes known to a few watts."""
    at = np.arange(300) * 2.0
    noise = np.random.default_rng(1).standard_normal(300)
    variance, df = variance_of_mean(50 * np.sin(at / 7) + noise)
    assert t_quantile(df) * np.sqrt(variance) < 8


def test_what_gpus_share_counts_once() -> None:
    """Eight GPUs that swing together tell no more than one."""
    rng = np.random.default_rng(1)
    swing = 10 * ar1(rng, 1, 1000, 0.5)
    one = spread_of(500 + swing, same_boards=True)
    eight = spread_of(np.repeat(500 + swing, 8, axis=0), same_boards=True)
    assert isinstance(one, Spread)
    assert isinstance(eight, Spread)
    assert eight.variance == pytest.approx(one.variance)


def test_boards_that_differ_widen_the_interval() -> None:
    """Between four boards 20 W apart is more than their samples explain, unless they are known."""
    rng = np.random.default_rng(1)
    power = job_power(rng, np.array([-30.0, -10.0, 10.0, 30.0]), 600, 0.5)
    others, same = spread_of(power, same_boards=False), spread_of(power, same_boards=True)
    assert isinstance(others, Spread)
    assert isinstance(same, Spread)
    assert others.variance > 50 * same.variance
    assert others.df == pytest.approx(3, abs=0.2)


def test_a_short_or_sluggish_series_has_no_spread() -> None:
    """Fifteen moments, or a hundred that are worth three, tell nothing."""
    rng = np.random.default_rng(1)
    slow = np.cumsum(rng.standard_normal((1, 100)), axis=1)
    for matrix in (rng.standard_normal((1, 15)), slow, np.full((2, 100), np.nan)):
        assert isinstance(spread_of(matrix, same_boards=True), Lack)
