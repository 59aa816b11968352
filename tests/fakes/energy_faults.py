"""What goes wrong with readings of a GPU, put into the rows of a simulated job. All synthetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpckit.account.energy import GpuEnergyFold
from hpckit.account.energy_sums import GpuEnergy
from hpckit.account.samples import SampledGpu
from tests.fakes import sensors as fake

MOST_LENGTH_S: Final = 120.0
_WHOLE: Final = 2**64
_NOTHING: Final = 0xFFFF_FFFF


class Readings(NamedTuple):
    """Rows of one GPU and when they were taken; an injection changes them in place or replaces."""

    times_ns: NDArray[np.int64]
    rows: NDArray[np.void]


Injection = Callable[[np.random.Generator, Readings], Readings]


def _stretch(rng: np.random.Generator, count: int) -> slice:
    first, last = sorted(rng.integers(0, count + 1, 2))
    return slice(int(first), int(last))


def _places(rng: np.random.Generator, count: int) -> NDArray[np.int64]:
    return rng.integers(0, count, rng.integers(1, max(2, count // 10)))


def reset(rng: np.random.Generator, seen: Readings) -> Readings:
    """The counter begins anew at a moment."""
    at = int(rng.integers(1, len(seen.rows)))
    seen.rows["energy_mj"][at:] -= seen.rows["energy_mj"][at]
    return seen


def frozen(rng: np.random.Generator, seen: Readings) -> Readings:
    """The counter stands still for a while, then goes on from where it stood, or leaps."""
    part = _stretch(rng, len(seen.rows))
    if part.start < part.stop:
        stood = seen.rows["energy_mj"][part.start]
        if rng.random() < 0.5:
            missed_mj = int(seen.rows["energy_mj"][part.stop - 1]) - int(stood)
            seen.rows["energy_mj"][part.stop :] -= np.uint64(missed_mj % _WHOLE)
        seen.rows["energy_mj"][part] = stood
    return seen


def wrapped(rng: np.random.Generator, seen: Readings) -> Readings:
    """The counter runs over its end, at 2³² or at 2⁶⁴."""
    whole = int(rng.choice([32, 64]))
    middle = int(seen.rows["energy_mj"][rng.integers(0, len(seen.rows))])
    moved = [(int(one) - middle) % 2**whole for one in seen.rows["energy_mj"]]
    seen.rows["energy_mj"] = np.array(moved, np.uint64)
    return seen


def leaps(rng: np.random.Generator, seen: Readings) -> Readings:
    """The counter leaps up by what no GPU can draw."""
    at = int(rng.integers(0, len(seen.rows)))
    seen.rows["energy_mj"][at:] += np.uint64(rng.integers(10**9, 10**15))
    return seen


def nonsense(rng: np.random.Generator, seen: Readings) -> Readings:
    """Some numbers of the counter, and some of the power, are any."""
    for at in _places(rng, len(seen.rows)):
        seen.rows["energy_mj"][at] = rng.integers(0, _WHOLE, dtype=np.uint64)
    for at in _places(rng, len(seen.rows)):
        seen.rows["power_mw"][at] = rng.integers(0, _NOTHING)
    return seen


def missing(rng: np.random.Generator, seen: Readings) -> Readings:
    """For a while the driver says nothing of counter, power or both."""
    seen.rows["energy_mj"][_stretch(rng, len(seen.rows))] = _WHOLE - 1
    seen.rows["power_mw"][_stretch(rng, len(seen.rows))] = _NOTHING
    return seen


def gap(rng: np.random.Generator, seen: Readings) -> Readings:
    """For a while there are no rows."""
    kept = np.delete(np.arange(len(seen.rows)), _stretch(rng, len(seen.rows)))
    return Readings(seen.times_ns[kept], seen.rows[kept])


_ALL = (reset, frozen, wrapped, leaps, nonsense, missing, gap)
FAULTS: Final[dict[str, Injection]] = {one.__name__: one for one in _ALL}


def faulty_job(seed: int, fault: str) -> tuple[float, float, GpuEnergy]:
    """The truth and the length of a job with one injection, or three of them for `several`.

    Counter, power or both are there.
    """
    rng = np.random.default_rng(seed)
    begin_s = 20.0
    end_s = begin_s + float(np.exp(rng.uniform(0, np.log(MOST_LENGTH_S))))
    wave = fake.WAVEFORMS[str(rng.choice(list(fake.WAVEFORMS)))](rng, begin_s, end_s)
    at_s = fake.ticks(rng, begin_s - 3, end_s + 2, 1.0)
    sensor = fake.FakeSensor(window_s=1.0, update_s=0.1, phase_s=rng.uniform(0, 0.1))
    counter = fake.FakeCounter(phase_s=rng.uniform(0, 0.1))
    seen = Readings(
        fake.times_ns(at_s), fake.rows(sensor.read_w(wave, at_s), counter.read_mj(wave, at_s))
    )
    names = rng.choice(list(FAULTS), 3, replace=False) if fault == "several" else [fault]
    for name in names:
        if len(seen.rows) > 1:
            seen = FAULTS[str(name)](rng, seen)
    energy, power = [("counter", "average"), ("counter", None), (None, "average")][seed % 3]
    gpu = SampledGpu(
        uuid=fake.UUID, index=0, energy=energy, power=power, power_limit_w=fake.LIMIT_W
    )
    ends = [counter.reading(wave, one) for one in (begin_s, end_s)] if seed % 2 else []
    marks = [fake.moment_ns(begin_s), fake.moment_ns(end_s)]
    fold = GpuEnergyFold(gpu, ends, marks, period_s=1.0)
    half = int(rng.integers(0, len(seen.rows) + 1))
    fold.add(seen.times_ns[:half], seen.rows[:half])
    fold.add(seen.times_ns[half:], seen.rows[half:])
    return wave.between(begin_s, end_s), end_s - begin_s, fold.result()
