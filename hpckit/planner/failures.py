"""The time that failures take: how often to write a checkpoint, and what is left of the time.

Interval: Young (1974) and Daly (2006, doi:10.1016/j.future.2004.11.016, eq. 20, first order).
Expected time: a job of many intervals, each failure costing the restart and half an interval.
Rate: Llama 3's 54 days on 16,384 H100 had 419 unplanned interruptions (arXiv:2407.21783, table 5):
one in 50,700 GPU-hours.
"""

from __future__ import annotations

import math
from typing import Final

from hpckit.core.values import dataclass

MTTF_GPU_H: Final = 50_700.0
"""Mean GPU-hours between interruptions of a job (Llama 3, §3.3.4)."""
RESTART_S: Final = 600.0
"""To notice, requeue, start and load; chosen by us (MegaScale: under 15 minutes)."""
CHECKPOINT_BYTES_PER_PARAMETER: Final = 14.0
"""Weights in 16 bits and the optimizer's fp32 states: BLOOM's 2.3 TB are 13."""
STORE_BYTES_PER_S: Final = 2e9
"""What a node writes to the parallel file system; chosen by us, `--checkpoint-s` says better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """How often a job is interrupted and what that costs; all are stated or assumed.

    `checkpoint_s` is what training waits for a checkpoint.
    """

    mttf_gpu_h: float = MTTF_GPU_H
    checkpoint_s: float
    restart_s: float = RESTART_S


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWithFailures:
    """A run's time with failures; `ettr_frac` is the part of it that trains."""

    ideal_s: float
    interval_s: float
    mtbf_s: float
    failures: float
    expected_s: float

    @property
    def ettr_frac(self) -> float:
        """Return the effective training time ratio."""
        return self.ideal_s / self.expected_s


def checkpoint_s(parameters: float, nodes: int) -> float:
    """Return how long a checkpoint takes when each node writes its share."""
    return CHECKPOINT_BYTES_PER_PARAMETER * parameters / (STORE_BYTES_PER_S * nodes)


def checkpoint_interval_s(checkpoint_s: float, mtbf_s: float) -> float:
    """Return the interval that loses least: √(2 · checkpoint · mean time between failures)."""
    return math.sqrt(2 * checkpoint_s * mtbf_s)


def time_with_failures(ideal_s: float, gpus: int, reliability: Reliability) -> TimeWithFailures:
    """Return how long a run takes on so many GPUs when they fail as stated.

    A share c/τ goes to checkpoints; each failure costs half an interval and the restart. A run
    shorter than its interval writes one at its end.
    """
    mtbf_s = reliability.mttf_gpu_h * 3600 / gpus
    cost_s = reliability.checkpoint_s
    interval_s = min(checkpoint_interval_s(cost_s, mtbf_s), max(ideal_s, cost_s))
    working_s = ideal_s * (1 + cost_s / interval_s)
    lost_frac = (interval_s / 2 + reliability.restart_s) / mtbf_s
    # Failures go on while lost work is done again; beyond this a run does not end.
    expected_s = working_s / (1 - lost_frac) if lost_frac < 1 else math.inf
    return TimeWithFailures(
        ideal_s=ideal_s,
        interval_s=interval_s,
        mtbf_s=mtbf_s,
        failures=expected_s / mtbf_s,
        expected_s=expected_s,
    )
