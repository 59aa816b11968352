"""Energies that are reported of simulated sensors, and their truth. Everything here is synthetic.

`make bench SUITE=account ARGS='--only truth'` prints how far they are apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from hpckit.account.energy import GpuEnergyFold
from hpckit.account.energy_sums import GAIN_FRAC
from hpckit.account.samples import SampledGpu
from hpckit.account.values import Energy
from tests.fakes import sensors as fake
from tests.fakes.series import columns_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensing:
    """How power is measured: the sensor's class, what NVML calls it, and the sampler's ticks."""

    window_s: float
    update_s: float
    power: str
    period_s: float
    jitter_frac: float
    name: str = "NVIDIA H100 80GB HBM3"


SENSINGS: Final = {
    "average 1 Hz": Sensing(
        window_s=1.0, update_s=0.1, power="average", period_s=1.0, jitter_frac=0.02
    ),
    "average 10 Hz": Sensing(
        window_s=1.0, update_s=0.1, power="average", period_s=0.1, jitter_frac=0.02
    ),
    "instant 25/100 ms 10 Hz": Sensing(
        window_s=0.025, update_s=0.1, power="instant", period_s=0.1, jitter_frac=0.5
    ),
    "instant 100/100 ms 10 Hz": Sensing(
        window_s=0.1, update_s=0.1, power="instant", period_s=0.1, jitter_frac=0.5,
        name="NVIDIA GeForce RTX 3090",
    ),
}  # fmt: skip
GAIN_SIGMA: Final = 0.05


def reading_half_width(energy: Energy) -> float:
    """What is left of ± without the board's gain: how far off the readings may be."""
    own_j = (energy.plus_minus_j or 0.0) - energy.unseen_j
    gain_j = GAIN_FRAC * (energy.value_j or 0.0)
    return math.sqrt(max(0.0, own_j**2 - gain_j**2)) + energy.unseen_j


def counter_job(
    seed: int, waveform: str, length_s: float, *, has_samples: bool, update_s: float = 0.1,
    gain: float = 1.0, late_ns: fake.Late = fake.late_by_little, took_ns: fake.Late = fake.at_once,
) -> tuple[float, Energy]:  # fmt: skip
    """The truth of a job and what is reported: ledger at both ends."""
    rng = np.random.default_rng(seed)
    begin_s, end_s = 20.0, 20.0 + length_s
    wave = fake.WAVEFORMS[waveform](rng, begin_s, end_s)
    counter = fake.FakeCounter(update_s=update_s, phase_s=rng.uniform(0, update_s), gain=gain)
    ends, read, seen = counter.rank(rng, wave, begin_s, end_s, late_ns=late_ns, took_ns=took_ns)
    marks = [one.monotonic_ns for one in ends]
    gpu = SampledGpu(
        uuid=fake.UUID, index=0, energy="counter", power="average",
        power_limit_w=fake.LIMIT_W if has_samples else None,
    )  # fmt: skip
    fold = GpuEnergyFold(gpu, [*ends, *read], marks, updates=seen, period_s=1.0)
    if has_samples:
        at_s = fake.ticks(rng, begin_s - 3, end_s + 2, 1.0)
        sensor = fake.FakeSensor(window_s=1.0, update_s=0.1, phase_s=rng.uniform(0, 0.1), gain=gain)
        power_w = sensor.read_w(wave, at_s)
        fold.add(fake.times_ns(at_s), columns_of(fake.rows(power_w, counter.read_mj(wave, at_s))))
    return wave.between(begin_s, end_s), fold.result().energy


def integrated_job(seed: int, waveform: str, sensing: Sensing) -> tuple[float, Energy]:
    """The same without a counter: the gain of the board is drawn, samples begin before the job."""
    rng = np.random.default_rng(seed)
    begin_s = 20.0
    end_s = begin_s + float(np.exp(rng.uniform(np.log(10), np.log(120))))
    wave = fake.WAVEFORMS[waveform](rng, begin_s, end_s)
    sensor = fake.FakeSensor(
        window_s=sensing.window_s, update_s=sensing.update_s,
        phase_s=rng.uniform(0, sensing.update_s), gain=rng.normal(1, GAIN_SIGMA),
    )  # fmt: skip
    at_s = fake.ticks(rng, begin_s - 3, end_s + 2, sensing.period_s, sensing.jitter_frac)
    gpu = SampledGpu(
        uuid=fake.UUID, index=0, name=sensing.name, power=sensing.power,
        power_limit_w=fake.LIMIT_W,
    )  # fmt: skip
    marks = [fake.moment_ns(begin_s), fake.moment_ns(end_s)]
    fold = GpuEnergyFold(gpu, [], marks, period_s=sensing.period_s)
    fold.add(fake.times_ns(at_s), columns_of(fake.rows(sensor.read_w(wave, at_s), None)))
    return wave.between(begin_s, end_s), fold.result().energy
