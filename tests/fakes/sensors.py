"""Synthetic GPUs: power over time whose energy is known exactly, seen through sensors.

Sensors are as accounting.md §3.2 describes them: a reading is the mean of a window, renewed every
so often, times the board's gain. The counter is the energy at its last renewal, in whole mJ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpckit.account.ledger import EnergyReading
from hpckit.account.sample_format import GPU_COLUMNS, MISSING
from hpckit.account.samples import GPU_DTYPE
from hpckit.injob.counter import (
    AFTER_NS,
    AFTER_STEP_NS,
    AfterEnd,
    CounterTrack,
    readings_of,
    updates_of,
)

if TYPE_CHECKING:
    from hpckit.injob.counter import Reading

Floats = NDArray[np.float64]

UUID: Final = "GPU-synthetic"
IDLE_W: Final = 100.0
BUSY_W: Final = 600.0
LIMIT_W: Final = 700.0
_CHANCE_FREE: Final = 0.8
ORIGIN_NS: Final = 5_000_000_000_000
"""CLOCK_MONOTONIC at second 0."""


@dataclass(frozen=True, slots=True)
class Waveform:
    """Power in W, constant from each of `at_s` to the next; before and behind as at the ends."""

    at_s: Floats
    power_w: Floats

    def energy_j(self, at_s: Floats) -> Floats:
        """The energy from the first moment to each of these, exactly."""
        done_j = np.concatenate(([0.0], np.cumsum(np.diff(self.at_s) * self.power_w[:-1])))
        left = np.clip(np.searchsorted(self.at_s, at_s, side="right") - 1, 0, None)
        energy: Floats = done_j[left] + self.power_w[left] * (at_s - self.at_s[left])
        return energy

    def energy_at(self, at_s: float) -> float:
        """The energy from the first moment to this one."""
        return float(self.energy_j(np.array([at_s]))[0])

    def between(self, begin_s: float, end_s: float) -> float:
        """The energy between two moments."""
        begin_j, end_j = self.energy_j(np.array([begin_s, end_s]))
        return float(end_j - begin_j)


Maker = Callable[[np.random.Generator, float, float], Waveform]
Late = Callable[[np.random.Generator], int]


def _framed(inner: Waveform, begin_s: float, end_s: float) -> Waveform:
    """An idle GPU, the load from `begin_s` to `end_s`, and an idle GPU again."""
    is_in = (inner.at_s > begin_s) & (inner.at_s < end_s)
    first = max(0, int(np.searchsorted(inner.at_s, begin_s, side="right")) - 1)
    at_s = np.concatenate(([begin_s - 60, begin_s], inner.at_s[is_in], [end_s]))
    power_w = np.concatenate(([IDLE_W, inner.power_w[first]], inner.power_w[is_in], [IDLE_W]))
    return Waveform(at_s, power_w)


def constant(rng: np.random.Generator, begin_s: float, end_s: float) -> Waveform:
    """One power all along."""
    level_w = rng.uniform(IDLE_W, BUSY_W)
    return _framed(Waveform(np.array([begin_s]), np.array([level_w])), begin_s, end_s)


def ramp(rng: np.random.Generator, begin_s: float, end_s: float) -> Waveform:
    """From one power to another, in steps of 10 ms."""
    at_s = np.arange(begin_s, end_s, 0.01)
    low, high = rng.uniform(IDLE_W, BUSY_W, 2)
    return _framed(Waveform(at_s, np.linspace(low, high, len(at_s))), begin_s, end_s)


def _square(period_s: float, rng: np.random.Generator, begin_s: float, end_s: float) -> Waveform:
    duty = rng.uniform(0.2, 0.8)
    starts = np.arange(begin_s - rng.uniform(0, period_s), end_s, period_s)
    at_s = np.column_stack((starts, starts + duty * period_s)).ravel()
    return _framed(Waveform(at_s, np.tile([BUSY_W, IDLE_W], len(starts))), begin_s, end_s)


def square(rng: np.random.Generator, begin_s: float, end_s: float) -> Waveform:
    """Busy and idle in turn, with any period from 20 ms to a minute."""
    return _square(float(np.exp(rng.uniform(np.log(0.02), np.log(60)))), rng, begin_s, end_s)


def aliasing(rng: np.random.Generator, begin_s: float, end_s: float) -> Waveform:
    """A square wave in step with what looks at it: 50, 100, 200 ms, 1 or 2 s, or very near."""
    period_s = float(rng.choice([0.05, 0.1, 0.2, 1.0, 2.0])) * float(rng.choice([1, 1, 1.001]))
    return _square(period_s, rng, begin_s, end_s)


def walk(rng: np.random.Generator, begin_s: float, end_s: float) -> Waveform:
    """A random walk in steps of 50 ms, held between idle and busy."""
    at_s = np.arange(begin_s, end_s, 0.05)
    steps_w = np.cumsum(rng.normal(0, 20, len(at_s))) + rng.uniform(0, 2 * BUSY_W)
    span_w = BUSY_W - IDLE_W
    folded_w = np.abs((steps_w % (2 * span_w)) - span_w)
    return _framed(Waveform(at_s, IDLE_W + folded_w), begin_s, end_s)


def bursts(rng: np.random.Generator, begin_s: float, end_s: float) -> Waveform:
    """Idle, and now and then busy for 5 ms to 2 s."""
    count = max(1, int((end_s - begin_s) * rng.uniform(0.1, 3)))
    starts = np.sort(rng.uniform(begin_s, end_s, count))
    lengths = np.exp(rng.uniform(np.log(0.005), np.log(2), count))
    ends = np.minimum(starts + lengths, np.append(starts[1:], end_s))
    at_s = np.column_stack((starts, ends)).ravel()
    is_new = np.concatenate(([True], np.diff(at_s) > 0))
    power_w = np.tile([BUSY_W, IDLE_W], count)
    inner = Waveform(
        np.concatenate(([begin_s], at_s[is_new])), np.concatenate(([IDLE_W], power_w[is_new]))
    )
    return _framed(inner, begin_s, end_s)


WAVEFORMS: Final[dict[str, Maker]] = {
    "constant": constant,
    "ramp": ramp,
    "square": square,
    "aliasing": aliasing,
    "walk": walk,
    "bursts": bursts,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeSensor:
    """A sensor: each reading is the mean of `window_s`, renewed every `update_s` from `phase_s`."""

    window_s: float
    update_s: float
    phase_s: float = 0.0
    gain: float = 1.0

    def read_w(self, waveform: Waveform, at_s: Floats) -> Floats:
        """What it says at these moments."""
        renewed_s = _renewed(at_s, self.update_s, self.phase_s)
        mean_j = waveform.energy_j(renewed_s) - waveform.energy_j(renewed_s - self.window_s)
        read: Floats = self.gain * mean_j / self.window_s
        return read


class Watched(NamedTuple):
    """What a rank's ledger has of a counter: at both ends, in between, and changes seen in time."""

    ends: list[EnergyReading]
    readings: list[EnergyReading]
    updates: list[EnergyReading]


def late_by_little(rng: np.random.Generator) -> int:
    """How late a question is on a machine with CPUs to spare, in ns."""
    return round(rng.uniform(50e3, 500e3))


def at_once(_rng: np.random.Generator) -> int:
    """What a driver takes that has nothing else to do."""
    return 0


def slow_by_chance(rng: np.random.Generator) -> int:
    """What a driver takes that one in five times works for others first."""
    return 0 if rng.random() < _CHANCE_FREE else round(rng.exponential(60e6))


def late_by_chance(rng: np.random.Generator) -> int:
    """How late it is where one in five finds the CPU taken."""
    return late_by_little(rng) if rng.random() < _CHANCE_FREE else round(rng.exponential(15e6))


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeCounter:
    """An energy counter that is renewed every `update_s` from `phase_s`, times the board's gain."""

    update_s: float = 0.1
    phase_s: float = 0.0
    base_mj: int = 987_654_321
    gain: float = 1.0

    def read_mj(self, waveform: Waveform, at_s: Floats) -> NDArray[np.uint64]:
        """What it says at these moments."""
        renewed_s = _renewed(at_s, self.update_s, self.phase_s)
        millijoules = np.floor(1000 * self.gain * waveform.energy_j(renewed_s)) + self.base_mj
        return millijoules.astype(np.uint64)

    def reading(self, waveform: Waveform, at_s: float) -> EnergyReading:
        """One reading, as a ledger has it."""
        value = int(self.read_mj(waveform, np.array([at_s]))[0])
        return EnergyReading(uuid=UUID, monotonic_ns=moment_ns(at_s), energy_mj=value)

    def rank(
        self,
        rng: np.random.Generator,
        waveform: Waveform,
        begin_s: float,
        end_s: float,
        *,
        late_ns: Late = late_by_little,
        took_ns: Late = at_once,
    ) -> Watched:
        """What a rank's entry has of the counter when each of its questions is late.

        The driver takes `took_ns` for each but the first and the last, and answers at the end.

        It asks as the real one does: hpckit/injob/counter.py.
        """
        now_ns = moment_ns(begin_s)

        def ask() -> tuple[Reading, int]:
            nonlocal now_ns
            begun_ns, took = now_ns, took_ns(rng)
            now_ns += took
            return {**said(), "monotonic_ns": begun_ns + took // 2}, took

        def said() -> Reading:
            renewed_s = _renewed_at((now_ns - ORIGIN_NS) / 1e9, self.update_s, self.phase_s)
            value = math.floor(1000 * self.gain * waveform.energy_at(renewed_s)) + self.base_mj
            return {"uuid": UUID, "monotonic_ns": now_ns, "energy_mj": value, "refused": None}

        def later(at_ns: int) -> int:
            return at_ns + late_ns(rng)

        first, end_ns = said(), moment_ns(end_s)
        track = CounterTrack(ask, first)
        while later(max(track.due_ns, now_ns)) < end_ns:
            now_ns = later(max(track.due_ns, now_ns))
            track.poll()
        now_ns = max(end_ns, now_ns)
        last = said()
        after = AfterEnd(ask, last)
        after.is_done = after.is_done or track.knows(end_ns)
        while not after.is_done and now_ns + AFTER_STEP_NS < end_ns + AFTER_NS:
            now_ns = later(now_ns + AFTER_STEP_NS)
            after.poll()
        changes = [*track.changes(), *after.changes()]
        return Watched(
            [EnergyReading(**one) for one in (first, last)],
            [EnergyReading(**one) for one in (*readings_of(changes), *after.still())],
            [EnergyReading(**one) for one in updates_of(changes)],
        )


def _renewed_at(at_s: float, update_s: float, phase_s: float) -> float:
    return math.floor((at_s - phase_s) / update_s) * update_s + phase_s


def _renewed(at_s: Floats, update_s: float, phase_s: float) -> Floats:
    renewed: Floats = np.floor((at_s - phase_s) / update_s) * update_s + phase_s
    return renewed


def moment_ns(at_s: float) -> int:
    """A moment of CLOCK_MONOTONIC."""
    return ORIGIN_NS + round(at_s * 1e9)


def times_ns(at_s: Floats) -> NDArray[np.int64]:
    """Moments of CLOCK_MONOTONIC."""
    moments: NDArray[np.int64] = ORIGIN_NS + np.round(at_s * 1e9).astype(np.int64)
    return moments


def ticks(
    rng: np.random.Generator, begin_s: float, end_s: float, period_s: float, jitter_frac: float = 0
) -> Floats:
    """When a sampler looks: at a random phase, each tick off by up to `jitter_frac` of a period."""
    at_s = np.arange(begin_s + rng.uniform(0, period_s), end_s, period_s)
    jittered: Floats = at_s + period_s * jitter_frac * rng.uniform(-0.5, 0.5, len(at_s))
    return jittered


def rows(power_w: Floats | None, energy_mj: NDArray[np.uint64] | None) -> NDArray[np.void]:
    """GPU records with power and counter; all other columns are "not measured"."""
    count = len(power_w) if power_w is not None else len(energy_mj if energy_mj is not None else ())
    table = np.zeros(count, GPU_DTYPE)
    for column in GPU_COLUMNS:
        if column.kind in {"gauge", "counter"}:
            table[column.name] = MISSING[GPU_DTYPE[column.name].itemsize]
    if power_w is not None:
        table["power_mw"] = np.round(1000 * power_w)
    if energy_mj is not None:
        table["energy_mj"] = energy_mj
    return table
