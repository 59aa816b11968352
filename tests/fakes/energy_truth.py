"""How far reported energies are from the truth, on simulated sensors: the table of the bench.

`python -m tests.fakes.energy_truth [seeds]` prints it. Everything here is synthetic.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from hpckit.measure.energy import GpuEnergyFold
from hpckit.model.account import Energy
from hpckit.model.series import SampledGpu
from tests.fakes import sensors as fake


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthRow:
    """One kind of measurement over many seeds; errors and half widths as shares of the truth."""

    mode: str
    waveform: str
    seeds: int
    worst_frac: float
    rms_frac: float
    covered_frac: float
    half_width_frac: float


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


def counter_job(
    seed: int, waveform: str, length_s: float, *, has_samples: bool, update_s: float = 0.1
) -> tuple[float, Energy]:
    """The truth of a job and what is reported: ledger at both ends."""
    rng = np.random.default_rng(seed)
    begin_s, end_s = 20.0, 20.0 + length_s
    wave = fake.WAVEFORMS[waveform](rng, begin_s, end_s)
    counter = fake.FakeCounter(update_s=update_s, phase_s=rng.uniform(0, update_s))
    ends, seen = counter.rank(rng, wave, begin_s, end_s)
    marks = [one.monotonic_ns for one in ends]
    gpu = SampledGpu(
        uuid=fake.UUID, index=0, energy="counter", power="average",
        power_limit_w=fake.LIMIT_W if has_samples else None,
    )  # fmt: skip
    fold = GpuEnergyFold(gpu, ends, marks, updates=seen, period_s=1.0)
    if has_samples:
        at_s = fake.ticks(rng, begin_s - 3, end_s + 2, 1.0)
        sensor = fake.FakeSensor(window_s=1.0, update_s=0.1, phase_s=rng.uniform(0, 0.1))
        power_w = sensor.read_w(wave, at_s)
        fold.add(fake.times_ns(at_s), fake.rows(power_w, counter.read_mj(wave, at_s)))
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
    fold.add(fake.times_ns(at_s), fake.rows(sensor.read_w(wave, at_s), None))
    return wave.between(begin_s, end_s), fold.result().energy


def truth_table(seeds: int = 1000) -> Iterator[TruthRow]:
    """A row for each way to measure and each waveform."""
    for length_s in (1.0, 2.0, 10.0, 60.0):
        for has_samples in (False, True):
            mode = f"counter {length_s:g} s" + (", samples at 1 Hz" if has_samples else "")
            for waveform in fake.WAVEFORMS:
                jobs = [
                    counter_job(seed, waveform, length_s, has_samples=has_samples)
                    for seed in range(seeds)
                ]
                yield _row(mode, waveform, jobs)
    for mode, sensing in SENSINGS.items():
        for waveform in fake.WAVEFORMS:
            jobs = [integrated_job(seed, waveform, sensing) for seed in range(seeds)]
            yield _row(mode, waveform, jobs)


def _row(mode: str, waveform: str, jobs: list[tuple[float, Energy]]) -> TruthRow:
    truth = np.array([true_j for true_j, _ in jobs])
    value = np.array([np.nan if e.value_j is None else e.value_j for _, e in jobs])
    half = np.array([np.nan if e.plus_minus_j is None else e.plus_minus_j for _, e in jobs])
    off = (value - truth) / truth
    return TruthRow(
        mode=mode,
        waveform=waveform,
        seeds=len(jobs),
        worst_frac=float(np.abs(off).max()),
        rms_frac=float(np.sqrt(np.mean(off**2))),
        covered_frac=float(np.mean(np.abs(value - truth) <= half)),
        half_width_frac=float(np.median(half / truth)),
    )


def main(seeds: int) -> None:
    """Print the table."""
    sys.stdout.write("synthetic sensors; % of the truth\n")
    head = (
        f"{'mode':32} {'waveform':10} {'worst':>7} {'rms':>7} {'covered':>8} {'half width':>10}\n"
    )
    sys.stdout.write(head)
    for row in truth_table(seeds):
        figures = (row.worst_frac, row.rms_frac, row.covered_frac, row.half_width_frac)
        worst, rms, covered, half = (100 * figure for figure in figures)
        sys.stdout.write(
            f"{row.mode:32} {row.waveform:10} {worst:7.2f} {rms:7.2f} {covered:8.1f} {half:10.2f}\n"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
