"""Two jobs compared by synthetic samples whose truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hpckit.measure.compare import ComparedSide, compare
from hpckit.measure.compare_series import series_of
from hpckit.model.account import Share
from hpckit.model.comparison import ComparedQuantity, Comparison, Verdict
from tests.fakes.random_series import STARTED_S, Floats, ar1, chunk_of, job_power
from tests.unit.decide.measured import energy, gpu, report

TICKS = 600


def side(
    columns: dict[str, Floats],
    *,
    first: str = "GPU-",
    recipe: dict[str, str] | None = None,
    **of_gpu: Any,
) -> ComparedSide:
    """A job of TICKS seconds with these samples."""
    count = next(iter(columns.values())).shape[0]
    gpus = [gpu(first, index, float(TICKS), **of_gpu) for index in range(count)]
    return ComparedSide(
        report=report(elapsed_s=float(TICKS), gpus=gpus),
        chunks=[chunk_of(columns, first=first)],
        recipe=recipe,
    )


def power(seed: int, watts: float = 0.0, gpus: int = 4) -> dict[str, Floats]:
    """Samples of power, `watts` above 500 W."""
    rng = np.random.default_rng(seed)
    return {"power_mw": 1000 * (job_power(rng, np.zeros(gpus), TICKS, 0.7) + watts)}


def quantity(comparison: Comparison, name: str) -> ComparedQuantity:
    """One quantity of a comparison."""
    (found,) = (one for one in comparison.quantities if one.name == name)
    return found


def test_a_real_difference_is_seen_with_its_size() -> None:
    """50 W more is called different, and the interval holds the 50 W."""
    found = quantity(compare(side(power(1)), side(power(2, 50.0))), "power_w")
    assert found.verdict is Verdict.DIFFERS
    assert found.difference is not None
    assert found.ratio is not None
    assert found.difference.low is not None
    assert found.difference.high is not None
    assert found.difference.low < 50 < found.difference.high
    assert found.ratio.value == pytest.approx(1.1, abs=0.01)


def test_no_difference_says_what_would_have_been_seen() -> None:
    """Two runs of the same truth do not differ, and a difference of 50 W would have shown."""
    found = quantity(compare(side(power(1)), side(power(2))), "power_w")
    assert found.verdict is Verdict.NOT_SEEN
    assert found.smallest_seen is not None
    assert 0 < found.smallest_seen < 50


def test_the_same_gpus_are_told_apart_from_others() -> None:
    """On the same boards the method says so."""
    same = compare(side(power(1)), side(power(2)))
    other = compare(side(power(1)), side(power(2), first="GPU-b"))
    assert "the same GPUs" in quantity(same, "power_w").method
    assert "clusters" in quantity(other, "power_w").method


def test_what_was_not_measured_has_no_verdict() -> None:
    """Clocks that neither has are not known, and not 0."""
    found = quantity(compare(side(power(1)), side(power(2))), "sm_mhz")
    assert (found.a, found.b, found.verdict) == (None, None, Verdict.NOT_KNOWN)


def test_what_was_measured_is_not_called_unmeasured() -> None:
    """Beside values the reason is that they are too few or change too slowly for an interval."""
    ramp = np.broadcast_to(np.linspace(50.0, 70.0, TICKS)[:, None], (TICKS, 4)).T
    a, b = ({**power(seed), "temp_c": ramp} for seed in (1, 2))
    found = quantity(compare(side(a), side(b)), "temperature_c")
    assert found.a is not None
    assert found.because == "too short or too even in A"


def test_power_is_compared_at_equal_temperature() -> None:
    """What 10 °C more explain of the power is no difference at equal temperature."""
    rng = np.random.default_rng(5)
    sides = []
    for warmer in (0.0, 4.0):
        heat = 60 + warmer + 4 * ar1(rng, 4, TICKS, 0.7)
        noise = 2 * ar1(rng, 4, TICKS, 0.3)
        sides.append(side({"temp_c": heat, "power_mw": 1000 * (200 + 5 * np.round(heat) + noise)}))
    comparison = compare(*sides)
    assert quantity(comparison, "power_w").verdict is Verdict.DIFFERS
    at_equal = quantity(comparison, "power_at_equal_temperature_w")
    assert at_equal.difference is not None
    assert abs(at_equal.difference.value) < 5
    assert "% of the time" in at_equal.method


def test_temperatures_that_never_meet_are_said() -> None:
    """At 50 and at 80 °C nothing is equal."""
    sides = []
    for heat in (50.0, 80.0):
        rng = np.random.default_rng(int(heat))
        sides.append(
            side({"temp_c": np.full((2, TICKS), heat), **power(int(rng.integers(9)), gpus=2)})
        )
    found = quantity(compare(*sides), "power_at_equal_temperature_w")
    assert (found.difference, found.verdict) == (None, Verdict.NOT_KNOWN)
    assert "0% of the time" in found.because


def test_throttling_is_a_share_of_the_time() -> None:
    """Half a second of every second by a counter is one half; by flags it is what they say."""
    ticks = np.tile(np.arange(TICKS) * 500.0, (2, 1))
    found = series_of([chunk_of({"sw_thermal_ms": ticks})], STARTED_S, STARTED_S + TICKS, 2)
    assert np.nanmean(found.matrices["thermal_throttled_frac"]) == pytest.approx(0.5)
    flags = np.tile(np.where(np.arange(TICKS) % 2, 0x24, 0), (2, 1)).astype(np.float64)
    found = series_of([chunk_of({"event_reasons": flags})], STARTED_S, STARTED_S + TICKS, 2)
    assert np.nanmean(found.matrices["thermal_throttled_frac"]) == pytest.approx(0.5, abs=0.01)


def test_the_first_seconds_are_left_out() -> None:
    """What a start does is in no mean."""
    values = np.full((1, TICKS), 500e3)
    values[:, :10] = 0
    found = series_of([chunk_of({"power_mw": values})], STARTED_S, STARTED_S + TICKS, 1)
    assert found.skipped_s == 10
    assert np.nanmean(found.matrices["power_w"]) == pytest.approx(500.0)


def test_energy_has_the_error_of_its_measurement() -> None:
    """10 % more joules of counters known to 1 % differ; known to 20 % they do not."""

    def pair(error: float) -> ComparedQuantity:
        sides = []
        for seed, joules in ((1, 1e5), (2, 1.1e5)):
            known = energy(joules)
            known = type(known)(value_j=joules, plus_minus_j=error * joules)
            sides.append(side(power(seed), energy=known))
        return quantity(compare(*sides), "energy_per_gpu_hour_j")

    assert pair(0.01).verdict is Verdict.DIFFERS
    assert pair(0.2).verdict is Verdict.NOT_SEEN


def test_useful_shares_are_of_what_is_known() -> None:
    """Time without samples is in neither part of the share."""
    waste = Share(useful_gpu_s=300.0, idle_gpu_s=100.0, unknown_gpu_s=200.0)
    found = quantity(
        compare(side(power(1), waste=waste), side(power(2), waste=waste)), "useful_frac"
    )
    assert found.a == pytest.approx(0.75)
    assert found.verdict is Verdict.NOT_SEEN


def test_one_run_each_has_no_interval_of_its_duration() -> None:
    """Two numbers, and why no more."""
    found = quantity(compare(side(power(1)), side(power(2))), "elapsed_s")
    assert found.verdict is Verdict.NOT_KNOWN
    assert found.difference is not None
    assert found.difference.low is None


def test_what_was_asked_differently_is_said() -> None:
    """Each key with both values; nothing where the recipes are one; None where one is not known."""
    small, large = {"resources.nodes": "1"}, {"resources.nodes": "2"}
    first = side(power(1), recipe=small)
    assert compare(first, side(power(2), recipe=large)).recipe == ("resources.nodes: 1 → 2",)
    assert compare(first, side(power(2), recipe=small)).recipe == ()
    assert compare(first, side(power(2))).recipe is None
