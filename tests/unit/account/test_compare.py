"""Two jobs compared by synthetic samples whose truth is known."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from hpckit.account.compare.compare import ComparedSide, compare
from hpckit.account.compare.show import ComparedQuantity, Comparison, Verdict
from hpckit.account.compare.spread import series_of
from hpckit.account.values import SPLIT_GPU, Energy, Share
from tests.fakes.measured_jobs import energy, gpu, report
from tests.fakes.random_series import STARTED_S, Floats, ar1, chunk_of, job_power

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


def test_what_was_measured_is_not_called_unmeasured() -> None:
    """Beside values the reason is that they change too slowly, with how much more is needed."""
    ramp = np.broadcast_to(np.linspace(50.0, 70.0, TICKS)[:, None], (TICKS, 4)).T
    a, b = ({**power(seed), "temp_c": ramp} for seed in (1, 2))
    found = quantity(compare(side(a), side(b)), "temperature_c")
    assert found.a is not None
    assert found.because == "A and B are too short for such slow changes: add about 49 min each"


def short(seconds: int, *, first: str = "GPU-", slow: bool = False) -> ComparedSide:
    """A job of so many seconds, whose power changes from sample to sample, or hardly at all."""
    given = {"power_mw": 1000 * np.linspace(400.0, 600.0, seconds)[None]} if slow else power(1)
    columns = {name: values[:1, :seconds] for name, values in given.items()}
    return ComparedSide(
        report=report(elapsed_s=float(seconds), gpus=[gpu(first, 0, float(seconds))]),
        chunks=[chunk_of(columns)],
    )


@pytest.mark.parametrize(
    ("a", "b", "because"),
    [
        (short(20), short(20), "A and B were sampled for too short a time: add 16 s each"),
        (side(power(1, gpus=1)), short(20), "B was sampled for too short a time: add 16 s"),
        (
            short(50, slow=True),
            short(20),
            "A is too short for such slow changes: add about 62 min; "
            "B was sampled for too short a time: add 16 s",
        ),
    ],
)  # fmt: skip
def test_what_is_too_short_says_how_much_more(
    a: ComparedSide, b: ComparedSide, because: str
) -> None:
    """Too few moments and too slow ones are told apart, of both jobs where both lack it."""
    assert quantity(compare(a, b), "power_w").because == because


def test_energy_says_what_its_samples_lack() -> None:
    """Where there are samples the reason is not that there are none."""
    sides = [replace(accounted(1), chunks=short(20).chunks) for _ in range(2)]
    found = quantity(compare(*sides), "energy_per_gpu_hour_j")
    assert found.because == "A and B were sampled for too short a time: add 25 s each"


def test_equal_temperature_says_which_lacks_it() -> None:
    """Both where both have no temperature; and that they are short where that is it."""
    found = quantity(compare(side(power(1)), side(power(2))), "power_at_equal_temperature_w")
    assert found.because == "power or temperature was not measured in A and B"
    brief = [
        side({"temp_c": np.full((4, 20), 60.0), "power_mw": power(seed)["power_mw"][:, :20]})
        for seed in (1, 2)
    ]
    found = quantity(compare(*brief), "power_at_equal_temperature_w")
    assert found.because.startswith("A and B were sampled for too short a time")


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


def accounted(
    seed: int,
    watts: float = 0.0,
    *,
    gpus: int = 4,
    half_frac: float = 0.117,
    unseen_frac: float = 0.0,
) -> ComparedSide:
    """A job whose report has what its samples say: GPUs that step together, and at times wait."""
    rng = np.random.default_rng(seed)
    common = ar1(rng, 1, TICKS, 0.9)
    power_w = 500 + watts + 12 * common + 2 * rng.standard_normal((gpus, TICKS))
    util = np.where(common < -1.0, 0.0, 98.0) * np.ones((gpus, 1))
    made = side({"power_mw": 1000 * power_w, "util_pct": util})
    accounts = []
    for gpu_power, gpu_util, one in zip(power_w, util, made.report.gpus, strict=True):
        joules, useful_s = float(gpu_power.sum()), float((gpu_util > 0).sum())
        known = Energy(
            coverage_frac=1.0,
            value_j=joules,
            plus_minus_j=half_frac * joules,
            unseen_j=unseen_frac * joules,
        )
        waste = Share(useful_gpu_s=useful_s, idle_gpu_s=TICKS - useful_s)
        accounts.append(replace(one, energy=known, waste=waste))
    report = replace(made.report, gpus=tuple(accounts))
    return replace(made, report=report)


@functools.cache
def same_twice() -> tuple[Comparison, ...]:
    """Pairs of jobs of one process."""
    return tuple(compare(accounted(at), accounted(100 + at)) for at in range(40))


@pytest.mark.parametrize("name", ["energy_per_gpu_hour_j", "useful_frac"])
def test_the_same_job_twice_does_not_differ(name: str) -> None:
    """What all GPUs of a job share is in the interval: of 40 pairs of one process 1 in 20 differs.

    By chance more than 5 of 40 do in 1 of 70 cases.
    """
    found = [quantity(one, name) for one in same_twice()]
    assert sum(one.verdict is Verdict.DIFFERS for one in found) <= 5
    assert all(one.smallest_seen is not None for one in found)


def test_energy_is_as_sure_as_the_power() -> None:
    """Both rows are of one quantity, and say the same of it."""
    comparison = compare(accounted(1), accounted(2, 10.0))
    energy_row, power_row = (
        quantity(comparison, name) for name in ("energy_per_gpu_hour_j", "power_w")
    )
    assert energy_row.verdict is power_row.verdict is Verdict.DIFFERS
    assert energy_row.smallest_seen == pytest.approx(3600 * (power_row.smallest_seen or 0), rel=0.3)


def test_what_the_sensors_do_not_see_may_be_the_difference() -> None:
    """10 % more joules differ, but not where a fifth of them is what no sensor saw."""
    seen, unseen = (
        quantity(
            compare(accounted(1, unseen_frac=frac), accounted(2, 50.0, unseen_frac=frac)),
            "energy_per_gpu_hour_j",
        )
        for frac in (0.0, 0.2)
    )
    assert (seen.verdict, unseen.verdict) == (Verdict.DIFFERS, Verdict.NOT_SEEN)


def test_one_board_beside_another_may_differ_by_its_gain() -> None:
    """The gain of 12 % cancels on the same board, and not on another."""
    same, other = accounted(1, gpus=1), accounted(2, 50.0, gpus=1)
    moved = [replace(one, uuid="GPU-other") for one in other.report.gpus]
    chunks = [
        replace(
            one,
            meta=replace(one.meta, gpus=(replace(one.meta.gpus[0], uuid="GPU-other"),)),
        )
        for one in other.chunks
    ]
    elsewhere = replace(other, report=replace(other.report, gpus=tuple(moved)), chunks=chunks)
    found = [
        quantity(compare(same, one), "energy_per_gpu_hour_j").verdict for one in (other, elsewhere)
    ]
    assert found == [Verdict.DIFFERS, Verdict.NOT_SEEN]


def told(made: ComparedSide, *energies: Energy) -> ComparedSide:
    """The same job with other energies in its report."""
    pairs = zip(made.report.gpus, energies, strict=True)
    gpus = tuple(replace(one, energy=energy) for one, energy in pairs)
    return replace(made, report=replace(made.report, gpus=gpus))


def test_a_difference_that_no_sample_shows_is_none() -> None:
    """10 % more joules with the same power are of the start, or of what was not sampled."""
    first, second = accounted(1), accounted(2)
    known = [one.energy for one in second.report.gpus]
    more = [replace(one, value_j=1.1 * (one.value_j or 0.0)) for one in known]
    found = quantity(compare(first, told(second, *more)), "energy_per_gpu_hour_j")
    assert found.verdict is Verdict.NOT_SEEN


def test_energy_is_of_the_time_in_which_it_was_measured() -> None:
    """A GPU that was held for twice as long as it was measured took no less for it."""
    first, second = accounted(1), accounted(2)
    known = [replace(one.energy, coverage_frac=0.5) for one in second.report.gpus]
    halved = [replace(one, value_j=0.5 * (one.value_j or 0.0)) for one in known]
    whole = quantity(compare(first, second), "energy_per_gpu_hour_j").b
    half = quantity(compare(first, told(second, *halved)), "energy_per_gpu_hour_j").b
    assert half == pytest.approx(whole)


def test_energy_without_samples_has_no_verdict() -> None:
    """Two counters tell how much, and not how it went over time."""
    bare = [replace(accounted(seed), chunks=()) for seed in (1, 2)]
    found = quantity(compare(*bare), "energy_per_gpu_hour_j")
    assert (found.verdict, found.difference) == (Verdict.NOT_KNOWN, None)
    assert found.a is not None
    assert found.because == "no samples over time in A and B"


def test_energy_that_is_not_known_how_well_has_no_verdict() -> None:
    """A GPU that MIG splits has a number without ±; one without a number has no mean."""
    first = accounted(1)
    for value_j, word in ((1e5, "uncertainty of the energy"), (None, "not measured in B")):
        second = told(
            first, *(Energy(value_j=value_j, coverage_frac=1.0) for _ in first.report.gpus)
        )
        found = quantity(compare(first, second), "energy_per_gpu_hour_j")
        assert found.verdict is Verdict.NOT_KNOWN
        assert word in found.because


def test_useful_shares_are_of_what_is_known() -> None:
    """Time without samples is in neither part of the share."""
    waste = Share(useful_gpu_s=300.0, idle_gpu_s=100.0, unknown_gpu_s=200.0)
    found = quantity(
        compare(side(power(1), waste=waste), side(power(2), waste=waste)), "useful_frac"
    )
    assert found.a == pytest.approx(0.75)


def test_waiting_with_a_quiet_memory_is_told_by_its_power() -> None:
    """As in the report: near the power of a still GPU kernels wait, above they work."""
    still, waits, works = (np.repeat(value, 200) for value in (70e3, 90e3, 500e3))
    columns = {
        "power_mw": np.concatenate((still, waits, works))[None, :],
        "util_pct": np.repeat([0.0, 100.0, 100.0], 200)[None, :],
        "mem_util_pct": np.zeros((1, TICKS)),
    }
    chunk = chunk_of(columns)
    limited = replace(chunk.meta.gpus[0], power_limit_w=700.0)
    chunk = replace(chunk, meta=replace(chunk.meta, gpus=(limited,)))
    found = series_of([chunk], STARTED_S, STARTED_S + TICKS, 1).matrices["useful_frac"]
    assert np.nanmean(found) == pytest.approx(1 / 3, abs=0.02)


def test_a_busy_link_makes_waiting_of_moderate_traffic() -> None:
    """As in the report: few SMs and 10 % of DRAM are a transfer where NVLink carries data."""
    ticks = np.tile(np.arange(TICKS, dtype=np.float64), (1, 1))
    quiet = {
        "util_pct": np.full((1, TICKS), 100.0),
        "sm_active_pct100": np.full((1, TICKS), 2000.0),
        "tensor_active_pct100": np.zeros((1, TICKS)),
        "dram_active_pct100": np.full((1, TICKS), 1000.0),
    }
    for moved, share in ((0.0, 1.0), (10_000.0, 0.0)):
        chunk = chunk_of({**quiet, "nvlink_tx_mib": moved * ticks})
        found = series_of([chunk], STARTED_S, STARTED_S + TICKS, 1).matrices["useful_frac"]
        assert np.nanmean(found) == pytest.approx(share, abs=0.01)


def test_energy_of_split_gpus_is_said_to_be_of_the_whole() -> None:
    """A note says what else is in the energy."""
    split = replace(energy(1e5), scope=SPLIT_GPU, plus_minus_j=None)
    notes = compare(side(power(1), energy=split), side(power(2))).notes
    assert any("MIG" in note for note in notes)
    assert not any("MIG" in note for note in compare(side(power(1)), side(power(2))).notes)


def test_what_was_asked_differently_is_said() -> None:
    """Each key with both values; nothing where the recipes are one; None where one is not known."""
    small, large = {"resources.nodes": "1"}, {"resources.nodes": "2"}
    first = side(power(1), recipe=small)
    assert compare(first, side(power(2), recipe=large)).recipe == ("resources.nodes: 1 → 2",)
    assert compare(first, side(power(2), recipe=small)).recipe == ()
    assert compare(first, side(power(2))).recipe is None
