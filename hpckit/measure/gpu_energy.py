"""What the fold of one GPU says: its energy between any two marks, with its provenance."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from hpckit.measure.cells import COLUMNS
from hpckit.measure.power import GAIN_SIGMA_FRAC
from hpckit.measure.rows import Floats, Times
from hpckit.model.account import Energy, EnergySource

_Z95: Final = 1.96
_T95: Final = 2.09
"""Student's t: the spread of gains is itself known from some twenty kinds of board."""
GAIN_FRAC: Final = _T95 * GAIN_SIGMA_FRAC / (1 - _T95 * GAIN_SIGMA_FRAC)
"""Half width of the gain's interval: a reading is gain × truth, so the truth lies farther up."""
DISAGREE_FRAC: Final = 0.2
_DISAGREE_S: Final = 1.0
"""Counter and integral differ by as much as this time's energy at the edges of any interval."""
_ENDS: Final = 2
_LEAST_COVERED: Final = 0.995


class Counts(Struct, frozen=True, kw_only=True):
    """What was wrong with a GPU's rows, how often.

    `duplicates`: rows of a time that was there; `backwards`: of a time before it; `glitches`:
    counter readings that their neighbours contradict; `impossible`: steps of the counter above
    the power limit × 1.2; `no_power`: readings of power that no GPU draws.
    """

    rows: int = 0
    resets: int = 0
    frozen: int = 0
    gaps: int = 0
    duplicates: int = 0
    backwards: int = 0
    suspends: int = 0
    glitches: int = 0
    impossible: int = 0
    no_power: int = 0


class GpuEnergy(Struct, frozen=True, kw_only=True):
    """The energy of one GPU in one boot.

    `joules` and the like are by `marks_ns`. `energy` is that from the first mark to the last;
    `counter_j` and `integral_j` are what each of both says of it, None where it is not whole.
    """

    uuid: str
    scope: str
    marks_ns: Times
    columns: NDArray[np.float64]
    edge_variance_j2: Floats
    counts: Counts
    most_w: float
    is_split: bool = False

    @property
    def joules(self) -> Floats:
        """The energy from an origin to each mark: differences are those of the times between."""
        energy: Floats = self.columns[0]
        return energy

    @property
    def energy(self) -> Energy:
        """From the first mark to the last."""
        if len(self.marks_ns) < _ENDS:
            return Energy(value_j=None, scope=self.scope, because="no time is asked for")
        return self.energy_between(int(self.marks_ns[0]), int(self.marks_ns[-1]))

    @property
    def counter_j(self) -> float | None:
        """The counter's part of the window that power covers too."""
        return self._whole("counter_j")

    @property
    def integral_j(self) -> float | None:
        """The integral of the power over the same time as `counter_j`, else over the window."""
        return self._whole("checked_j" if self.counter_j is not None else "integral_j")

    def joules_at(self, at_ns: int) -> float:
        """The energy from an origin to a mark. Raises ValueError for a moment that is no mark."""
        return float(self.columns[0, self._place(at_ns)])

    def energy_between(self, a_ns: int, b_ns: int) -> Energy:
        """From one mark to a later one. Raises ValueError for a moment that is no mark."""
        first, last = self._place(a_ns), self._place(b_ns)
        step = self._step(first, last)
        time_s = (b_ns - a_ns) / 1e9
        covered = min(1.0, max(0.0, step["covered_s"]) / time_s) if time_s > 0 else 1.0
        if covered <= 0 and step["energy_j"] <= 0:
            return Energy(value_j=None, scope=self.scope, because=self._why_nothing())
        half_j = self._half_width(step, first, last)
        return Energy(
            value_j=max(0.0, step["energy_j"]),
            plus_minus_j=None if self.is_split else half_j,
            unseen_j=0.0 if self.is_split else max(0.0, step["unseen_j"]),
            source=_source(step),
            coverage_frac=1.0 if covered > _LEAST_COVERED else covered,
            scope=self.scope,
            because=self._because(step, time_s, covered),
        )

    def _place(self, at_ns: int) -> int:
        place = int(np.searchsorted(self.marks_ns, at_ns))
        if place == len(self.marks_ns) or int(self.marks_ns[place]) != at_ns:
            raise ValueError(f"{at_ns} is none of the marks that were given before the rows")
        return place

    def _step(self, first: int, last: int) -> dict[str, float]:
        difference = self.columns[:, last] - self.columns[:, first]
        return dict(zip(COLUMNS, difference.tolist(), strict=True))

    def _half_width(self, step: dict[str, float], first: int, last: int) -> float:
        edges_j2 = float(self.edge_variance_j2[first] + self.edge_variance_j2[last])
        random_j = _Z95 * math.sqrt(max(0.0, edges_j2 + step["variance_j2"]))
        # No meter has shown that the counter's gain is another than that of the power it sums up.
        gain_j = GAIN_FRAC * abs(step["energy_j"])
        half_j = math.hypot(random_j, gain_j) + max(0.0, step["unseen_j"])
        if _is_disputed(step, self._power_w()):
            half_j = max(half_j, abs(step["counter_j"] - step["checked_j"]))
        return half_j

    def _power_w(self) -> float:
        time_s = (int(self.marks_ns[-1]) - int(self.marks_ns[0])) / 1e9
        return self._step(0, -1)["energy_j"] / time_s if time_s > 0 else 0.0

    def _whole(self, name: str) -> float | None:
        if len(self.marks_ns) < _ENDS:
            return None
        step = self._step(0, -1)
        has_any = step["counter_j"] > 0 if name != "integral_j" else step["integral_s"] > 0
        return step[name] if has_any else None

    def _why_nothing(self) -> str:
        if self.counts.rows:
            return "no reading of the counter and none of the power lies in this time"
        return "the counter was not seen to move, and there is no sample"

    def _because(self, step: dict[str, float], time_s: float, covered: float) -> str:
        parts = [_made_of(step)]
        if covered <= _LEAST_COVERED:
            parts.append(f"{100 * covered:.0f} % of the time is measured")
        if _is_disputed(step, self._power_w()):
            parts.append(
                f"counter and power disagree: {step['counter_j']:.0f} J against"
                f" {step['checked_j']:.0f} J"
            )
        if step["energy_j"] > self.most_w * (time_s + 0.1):
            parts.append("above the power limit × 1.2: not to be believed")
        if self.is_split:
            parts.append("of the whole GPU, which MIG splits: the job's share of it is not known")
        if self.scope == "module":
            parts.append("of the module: CPU and memory are in it")
        parts += _told(self.counts)
        return "; ".join(parts)


def _source(step: dict[str, float]) -> EnergySource:
    integrated, total = abs(step["integrated_j"]), abs(step["energy_j"])
    if integrated <= 0.01 * total:
        return EnergySource.COUNTER
    return EnergySource.INTEGRATED if integrated >= 0.999 * total else EnergySource.MIXED


def _made_of(step: dict[str, float]) -> str:
    source = _source(step)
    gain = f"the board's gain is unknown to ± {100 * GAIN_SIGMA_FRAC:.0f} % (standard deviation)"
    if source is EnergySource.COUNTER:
        return f"difference of the driver's counter, {gain}"
    unseen = "" if step["unseen_j"] <= 0 else "; ± holds what the sensor does not see"
    if source is EnergySource.INTEGRATED:
        return f"integral of the power, {gain}{unseen}"
    share = 100 * step["integrated_j"] / step["energy_j"] if step["energy_j"] else 0.0
    return f"the counter, and for {share:.0f} % the integral of the power, {gain}{unseen}"


def _told(counts: Counts) -> list[str]:
    words = (
        (counts.resets, "reset of the counter", "resets of the counter"),
        (counts.frozen, "time in which the counter stood still", "times the counter stood still"),
        (counts.impossible, "impossible step of the counter", "impossible steps of the counter"),
        (counts.gaps, "gap in the samples", "gaps in the samples"),
        (counts.suspends, "suspend", "suspends"),
    )
    return [f"{count} {one if count == 1 else many}" for count, one, many in words if count]


def _is_disputed(step: dict[str, float], power_w: float) -> bool:
    counter_j, checked_j = step["counter_j"], step["checked_j"]
    if counter_j <= 0 and checked_j <= 0:
        return False
    apart_j = abs(counter_j - checked_j)
    return apart_j > DISAGREE_FRAC * max(counter_j, checked_j) + _DISAGREE_S * abs(power_w) / 2
