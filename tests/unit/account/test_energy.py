"""The energy of a GPU: counter, integral, and everything that goes wrong with both."""

from __future__ import annotations

import numpy as np
import pytest

from hpckit.account.energy import GpuEnergyFold
from hpckit.account.energy_sums import GpuEnergy
from hpckit.account.ledger import EnergyReading
from hpckit.account.samples import SampledGpu
from hpckit.account.values import EnergySource
from tests.fakes import sensors as fake
from tests.fakes.series import columns_of

SECONDS = np.arange(0.0, 61.0)
WATTS = 300.0


def gpu(**more: object) -> SampledGpu:
    """A GPU with counter and one-second power."""
    fields: dict[str, object] = {
        "uuid": fake.UUID, "index": 0, "energy": "counter", "power": "average",
        "power_limit_w": fake.LIMIT_W, **more,
    }  # fmt: skip
    return SampledGpu(**fields)  # type: ignore[arg-type]


def counter_mj(at_s: fake.Floats, base: int = 10**9) -> np.ndarray:
    """A counter at 300 W."""
    return (base + np.round(1000 * WATTS * at_s)).astype(np.uint64)


def folded(
    at_s: fake.Floats = SECONDS,
    power_w: fake.Floats | None = None,
    energy_mj: np.ndarray | None = None,
    *,
    of: SampledGpu | None = None,
    marks_s: tuple[float, ...] = (10.0, 50.0),
    readings: tuple[EnergyReading, ...] = (),
    chunks: int = 1,
) -> GpuEnergy:
    """What a fold says of these samples."""
    marks = [fake.moment_ns(one) for one in marks_s]
    fold = GpuEnergyFold(of or gpu(), readings, marks, period_s=1.0)
    rows = fake.rows(power_w, energy_mj) if len(at_s) else fake.rows(np.zeros(0), None)
    for part in np.array_split(np.arange(len(at_s)), chunks):
        fold.add(fake.times_ns(at_s[part]), columns_of(rows[part]))
    return fold.result()


def reading(at_s: float, joules: float) -> EnergyReading:
    """A ledger's reading."""
    return EnergyReading(
        uuid=fake.UUID, monotonic_ns=fake.moment_ns(at_s), energy_mj=round(1000 * joules)
    )


def steady(value: float = WATTS) -> fake.Floats:
    """The same power in all samples."""
    return np.full(len(SECONDS), value)


def test_the_counter_is_taken_where_there_is_one() -> None:
    """A difference of the counter is the energy, whole, of the GPU, and as good as its board."""
    energy = folded(power_w=steady(), energy_mj=counter_mj(SECONDS)).energy
    assert energy.source is EnergySource.COUNTER
    assert energy.value_j == pytest.approx(12_000, rel=1e-6)
    assert (energy.coverage_frac, energy.scope) == (1.0, "gpu")
    assert energy.plus_minus_j == pytest.approx(0.117 * 12_000, rel=0.05)
    assert "gain uncertain by ± 5 %" in energy.because


@pytest.mark.parametrize("jumps", [0, 1])
def test_a_long_time_without_marks_is_all_counted(jumps: int) -> None:
    """What lies between two marks counts whole, but for a step that no GPU can have made."""
    at_s = np.arange(0.0, 80_000.0)
    power_w = np.where(at_s < 60_000, WATTS, WATTS / 3)
    energy_mj = counter_mj(np.minimum(at_s, 60_000) + np.maximum(at_s - 60_000, 0) / 3)
    energy_mj[40_000:] += np.uint64(jumps * 10**9)
    found = folded(at_s, power_w, energy_mj, marks_s=(10.0, 60_000.0, 79_000.0), chunks=16)
    energies_s = [one / WATTS for one in np.diff(found.joules)]
    assert energies_s == pytest.approx([59_990, 19_000 / 3], abs=1)
    assert found.counts["impossible"] == jumps


@pytest.mark.parametrize("energy", ["counter", None])
def test_a_gpu_that_mig_splits_is_counted_whole(energy: str | None) -> None:
    """The driver has no counter and no power of a slice: the GPU's is told as such, without ±."""
    found = folded(power_w=steady(), energy_mj=counter_mj(SECONDS), of=gpu(energy=energy, mig=True))
    assert found.energy.value_j == pytest.approx(12_000, rel=1e-3)
    assert (found.energy.plus_minus_j, found.energy.scope) == (None, "split-gpu")
    assert found.energy.because.count("MIG") == 1


def test_two_readings_of_the_ledger_are_enough() -> None:
    """Without a sample the ledger's two readings give the energy."""
    nothing = np.zeros(0)
    readings = (reading(10, 0), reading(50, 12_000))
    energy = folded(nothing, readings=readings).energy
    assert energy.source is EnergySource.COUNTER
    assert energy.value_j == pytest.approx(12_000, rel=1e-3)


def test_power_is_integrated_where_there_is_no_counter() -> None:
    """Without a counter the power's integral has the gain in its ±."""
    energy = folded(power_w=steady(), of=gpu(energy=None)).energy
    assert energy.source is EnergySource.INTEGRATED
    assert energy.value_j == pytest.approx(12_000)
    assert energy.plus_minus_j == pytest.approx(0.117 * 12_000, rel=0.05)


@pytest.mark.parametrize("readings", [(), (reading(10, 7),)])
def test_nothing_is_not_zero(readings: tuple[EnergyReading, ...]) -> None:
    """Without a reading, or with one alone, there is no value, and a reason."""
    energy = folded(np.zeros(0), readings=readings).energy
    assert energy.value_j is None
    assert energy.because


def changed(*steps: tuple[slice | list[int], object]) -> np.ndarray:
    """A counter at 300 W with other numbers in some places."""
    counter = counter_mj(SECONDS)
    for where, values in steps:
        counter[where] = values
    return counter


RESET = changed((slice(30, None), counter_mj(SECONDS[30:] - 30, base=0)))
STILL_MJ = int(counter_mj(SECONDS)[20])
LATER_MJ = counter_mj(SECONDS)[30:]


@pytest.mark.parametrize(
    ("counter", "counts", "within"),
    [
        (RESET, {"resets": 1}, 0.01),
        # While power says otherwise a frozen counter counts as none …
        (
            changed((slice(20, 30), STILL_MJ), (slice(30, None), LATER_MJ - np.uint64(3_000_000))),
            {"frozen": 1},
            0.01,
        ),
        # … but one that is renewed each ten seconds is right in the end.
        (counter_mj(10 * np.floor(SECONDS / 10)), {"frozen": 0}, 0.05),
        (counter_mj(np.minimum(SECONDS, 20)), {"resets": 0}, 0.02),  # it stops for good
        # The step after a cell that is known by power is not believed for that cell as well.
        (
            changed((slice(21, 23), STILL_MJ), ([23], STILL_MJ + 20_000)),
            {"frozen": 1, "impossible": 1},
            1e-3,
        ),
        (
            changed((slice(30, None), LATER_MJ + np.uint64(10**12))),
            {"impossible": 1},
            0.01,
        ),
        (changed(([20, 30], (10**15, 3))), {"resets": 0}, 1e-6),
    ],
)
def test_a_counter_that_errs_is_integrated_over(
    counter: np.ndarray, counts: dict[str, int], within: float
) -> None:
    """What it did is counted, and power tells that time."""
    result = folded(power_w=steady(), energy_mj=counter)
    assert {name: result.counts[name] for name in counts} == counts
    assert result.energy.value_j == pytest.approx(12_000, rel=within)
    fills = within in (0.01, 0.02)
    assert result.energy.source is EnergySource.MIXED or not fills


def test_a_reset_without_power_lowers_the_coverage() -> None:
    """What neither counter nor power says is not made up."""
    energy = folded(energy_mj=RESET).energy
    assert energy.coverage_frac == pytest.approx(39 / 40, abs=0.01)
    assert energy.value_j == pytest.approx(39 * WATTS, rel=0.01)


def test_what_a_frozen_counter_makes_up_for_counts_where_no_power_tells_it() -> None:
    """Without a curve the step is all that is known of the time in which it stood still."""
    result = folded(energy_mj=changed((slice(21, 23), STILL_MJ), ([23], STILL_MJ + 2_000)))
    assert (result.counts["frozen"], result.counts["impossible"]) == (1, 0)
    assert result.energy.value_j == pytest.approx(12_000, rel=1e-3)


@pytest.mark.parametrize("old_s", [{30.001: 29.98}, {30.01: 29.97, 30.02: 29.98}])
def test_older_readings_beside_newer_are_no_reset(old_s: dict[float, float]) -> None:
    """Processes that read at the same time may read numbers out of order, also two in a row."""
    old = tuple(reading(at_s, 10**6 + of_s * WATTS) for at_s, of_s in old_s.items())
    result = folded(power_w=steady(), energy_mj=counter_mj(SECONDS), readings=old)
    assert result.counts["resets"] == 0
    assert result.energy.value_j == pytest.approx(12_000, rel=1e-3)


def test_a_counter_that_catches_up_is_believed() -> None:
    """A step that is too much for the time since a number was read is that of the time before."""
    missed = (reading(30.497, 600 * 30.1), reading(30.502, 600 * 30.5))
    at_mj = np.round(1000 * 600 * SECONDS).astype(np.uint64)
    result = folded(power_w=steady(600.0), energy_mj=at_mj, readings=missed)
    assert result.counts["impossible"] == 0
    assert result.energy.value_j == pytest.approx(24_000, rel=1e-6)


def test_a_gap_is_bridged_and_said() -> None:
    """Without a counter a hole lowers the coverage, widens ± and is filled by its ends."""
    kept = (SECONDS < 20) | (SECONDS >= 30)
    result = folded(SECONDS[kept], steady()[kept], of=gpu(energy=None))
    whole = folded(power_w=steady(), of=gpu(energy=None)).energy
    assert result.counts["gaps"] == 1
    assert result.energy.coverage_frac == pytest.approx(0.725, abs=0.05)
    assert result.energy.value_j == pytest.approx(12_000)
    assert (result.energy.plus_minus_j or 0) > 1.5 * (whole.plus_minus_j or 0)


def test_samples_that_end_early_leave_the_rest_unmeasured() -> None:
    """Behind the last sample nothing is made up."""
    energy = folded(SECONDS[:31], steady()[:31], of=gpu(energy=None)).energy
    assert energy.coverage_frac == pytest.approx(0.5, abs=0.1)
    assert energy.value_j == pytest.approx(20 * WATTS, rel=0.2)


def test_disagreement_of_counter_and_power_is_said() -> None:
    """A counter that says half of what the power does is flagged, and ± holds both (zeus#181)."""
    result = folded(power_w=steady(2 * WATTS), energy_mj=counter_mj(SECONDS))
    assert result.counter_j == pytest.approx(12_000, rel=0.01)
    assert result.integral_j == pytest.approx(24_000, rel=0.01)
    assert (result.energy.plus_minus_j or 0) >= 11_000
    assert "disagree" in result.energy.because
    energy = folded(power_w=steady(1.1 * WATTS), energy_mj=counter_mj(SECONDS)).energy
    assert "disagree" not in energy.because


def test_long_series_are_worked_through_as_they_come() -> None:
    """A hundred thousand rows in chunks of any size give what they give at once."""
    at_s = np.arange(0, 10_000, 0.1)
    power = np.full(len(at_s), WATTS)
    marks = (10.0, 4321.05, 9_000.0)
    once = folded(at_s, power, counter_mj(at_s), marks_s=marks)
    parts = folded(at_s, power, counter_mj(at_s), marks_s=marks, chunks=13)
    assert np.diff(parts.joules) == pytest.approx(np.diff(once.joules))
    assert np.diff(once.joules) == pytest.approx(WATTS * np.diff(marks), rel=1e-5)


@pytest.mark.parametrize("has_power", [True, False])
def test_a_lost_gpu_is_measured_until_then(has_power: bool) -> None:
    """A GPU that fell off the bus has no readings any more, and coverage says so."""
    power, counter = steady(), counter_mj(SECONDS)
    power[30:], counter[30:] = np.nan, np.iinfo(np.uint64).max
    rows = fake.rows(np.where(np.isnan(power), 0, power), counter)
    rows["power_mw"][30:] = 0xFFFF_FFFF
    if not has_power:
        rows["power_mw"] = 0xFFFF_FFFF
    marks = [fake.moment_ns(10), fake.moment_ns(50)]
    fold = GpuEnergyFold(gpu(), [], marks, period_s=1.0)
    fold.add(fake.times_ns(SECONDS), columns_of(rows))
    energy = fold.result().energy
    assert energy.value_j == pytest.approx(19 * WATTS, rel=0.2)
    assert energy.coverage_frac == pytest.approx(0.5, abs=0.1)
