"""Energies of GPUs whatever their rows hold, and their conservation over ranks."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hpckit.account.energy import GpuEnergyFold
from hpckit.account.energy_sums import GpuEnergy, RankClaim, attribute, marks_of
from hpckit.account.ledger import EnergyReading
from hpckit.account.samples import SampledGpu
from tests.fakes import sensors as fake
from tests.fakes.series import columns_of

WINDOW = (fake.moment_ns(0), fake.moment_ns(60))
MOST_J = 1.2 * fake.LIMIT_W

millis = st.integers(-10_000, 70_000)
odd_counter = st.one_of(
    st.integers(0, 40_000_000), st.integers(0, 2**64 - 1), st.just(2**64 - 1), st.just(0)
)
odd_power = st.one_of(st.integers(0, 700_000), st.integers(0, 2**32 - 1))
row = st.tuples(millis, odd_counter, odd_power)
kinds = st.sampled_from([("counter", "average"), ("counter", None), (None, "instant")])


def rows_of(table: list[tuple[int, int, int]]) -> np.ndarray:
    """GPU records of these counters and powers."""
    rows = fake.rows(np.zeros(len(table)), np.zeros(len(table), np.uint64))
    rows["energy_mj"] = np.array([one[1] for one in table], np.uint64)
    rows["power_mw"] = np.array([one[2] for one in table], np.uint32)
    return rows


def folded(
    table: list[tuple[int, int, int]],
    marks_ns: tuple[int, ...],
    kind: tuple[str | None, str | None],
    cuts: list[int],
    readings: list[EnergyReading],
) -> GpuEnergy:
    """A fold over these rows in the order of time, cut anywhere."""
    table = sorted({one[0]: one for one in table}.values())
    gpu = SampledGpu(
        uuid=fake.UUID, index=0, energy=kind[0], power=kind[1], power_limit_w=fake.LIMIT_W
    )
    fold = GpuEnergyFold(gpu, readings, marks_ns, updates=readings[:2], period_s=1.0)
    times = fake.times_ns(np.array([one[0] / 1000 for one in table]))
    for part in np.split(np.arange(len(table)), sorted(cut % (len(table) + 1) for cut in cuts)):
        fold.add(times[part], columns_of(rows_of(table)[part]))
    return fold.result()


readings = st.lists(
    st.builds(
        lambda at, value: EnergyReading(
            uuid=fake.UUID, monotonic_ns=fake.moment_ns(at / 1000), energy_mj=value
        ),
        millis,
        st.one_of(st.none(), odd_counter),
    ),
    max_size=4,
)


@given(st.lists(row, max_size=30), kinds, st.lists(st.integers(0, 30), max_size=3), readings)
def test_no_rows_give_a_negative_or_impossible_energy(
    table: list[tuple[int, int, int]],
    kind: tuple[str | None, str | None],
    cuts: list[int],
    readings: list[EnergyReading],
) -> None:
    """Resets, wraps, frozen and lost counters, wrong clocks: 0 ≤ energy ≤ limit × 1.2 × time."""
    marks = tuple(fake.moment_ns(at_s) for at_s in (0, 7.3, 7.4, 30, 60))
    result = folded(table, marks, kind, cuts, readings)
    steps = np.diff(result.joules)
    assert np.isfinite(result.joules).all()
    assert (steps >= -1e-6).all()
    energy = result.energy
    if energy.value_j is not None:
        too_much = energy.value_j > MOST_J * 60.5
        assert not too_much or "implausible" in energy.because
        assert math.isfinite(energy.plus_minus_j or 0)
        assert (energy.plus_minus_j or 0) >= 0
        assert 0 <= energy.coverage_frac <= 1


@given(
    st.lists(st.tuples(st.integers(0, 60_000), st.integers(0, 20_000)), min_size=1, max_size=8),
    st.lists(st.sets(st.sampled_from(["a", "b", "c"])), min_size=8, max_size=8),
    st.lists(row, max_size=20),
)
def test_ranks_and_remainder_are_the_gpus(
    spans: list[tuple[int, int]], held: list[set[str]], table: list[tuple[int, int, int]]
) -> None:
    """Σ ranks + idle remainder = Σ GPUs for any lives, shares, restarts and kills."""
    claims = [
        RankClaim(
            rank=at, gpus=tuple(sorted(gpus)), started_ns=fake.moment_ns(begin / 1000),
            ended_ns=fake.moment_ns((begin + length) / 1000),
        )
        for at, ((begin, length), gpus) in enumerate(zip(spans, held, strict=False))
    ]  # fmt: skip
    marks = marks_of(claims, WINDOW)
    gpus = {uuid: folded(table, marks, ("counter", "average"), [], []) for uuid in ("a", "b")}
    found = attribute(gpus, claims, WINDOW).conservation
    assert abs(found.error_j) <= 1e-6 * max(1.0, found.gpus_j)
    assert found.ranks_j >= -1e-6
    assert found.idle_remainder_j >= -1e-6


@given(st.lists(st.integers(1, 2999), max_size=6), st.sampled_from([1, 40, 3000]))
def test_energies_of_consecutive_times_add_up(cuts: list[int], base: int) -> None:
    """Any marks between do not change the energy of the whole."""
    at_s = np.arange(0, 30, 0.01)
    rows = fake.rows(np.full(3000, 200.0), (base + np.floor(20 * at_s) * 10_000).astype(np.uint64))
    marks = tuple(sorted({fake.moment_ns(cut / 100) for cut in [0, 3000, *cuts]}))
    gpu = SampledGpu(uuid=fake.UUID, index=0, energy="counter", power="average")
    fold = GpuEnergyFold(gpu, [], marks)
    fold.add(fake.times_ns(at_s), columns_of(rows))
    result = fold.result()
    parts = [result.energy_between(a, b).value_j or 0 for a, b in pairwise(marks)]
    assert math.isclose(math.fsum(parts), result.energy.value_j or 0)
