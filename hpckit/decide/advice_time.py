"""The time limit: what the run took and a margin, or more after a timeout."""

from __future__ import annotations

from math import ceil

from hpckit.decide.advice_run import MeasuredRun, is_worth_it
from hpckit.model.account import Advice
from hpckit.units import format_duration, format_time_limit

KEY = "resources.time_limit"
TIME_MARGIN = 1.2
"""Runs of one job differ by node and by what shares the network and file system."""
LEAST_SLACK_S = 300.0
"""What a start may take that the measurement does not see: prolog, image pull, slow file system."""
LEAST_TIME_SAVING_FRAC = 0.15
"""Less than for the other keys: a shorter limit costs nothing, and backfills sooner."""
AFTER_TIMEOUT = 1.5
"""A run that was cut off shows only that it needs more; half as much again is a first try."""
MOST_S = 365 * 86400
_STEPS = ((3600, 300), (6 * 3600, 900), (86400, 1800), (MOST_S, 3600))
"""Up to so long, in steps of so much: 50 minutes, 2:15:00, 7:30:00, 1-03:00:00."""


def time_advice(run: MeasuredRun) -> tuple[Advice, ...]:
    """Another time limit, where the run speaks for one."""
    limit_s = run.limit_s
    if limit_s is None:
        return ()
    if run.report.job.state == "TIMEOUT":
        return _more(run, limit_s)
    if not run.may_shrink:
        return ()
    elapsed_s = run.elapsed_s
    proposed_s = sensible_limit_s(max(elapsed_s * TIME_MARGIN, elapsed_s + LEAST_SLACK_S))
    if elapsed_s <= 0 or not is_worth_it(limit_s, proposed_s, LEAST_TIME_SAVING_FRAC):
        return ()
    restarts = len(run.report.incarnations) - 1
    together = f" in {restarts + 1} runs together" if restarts > 0 else ""
    because = (
        f"it took {format_duration(elapsed_s)}{together} of {format_time_limit(round(limit_s))}; "
        "a shorter limit fits into more gaps of the queue, so it may start sooner"
    )
    return (_advice(run, proposed_s, because, {"limit_s": limit_s - proposed_s}),)


def _more(run: MeasuredRun, limit_s: float) -> tuple[Advice, ...]:
    """None for a job that asks for a signal before its end: running into the limit is its way."""
    if run.spec.slurm.signal is not None:
        return ()
    proposed_s = sensible_limit_s(limit_s * AFTER_TIMEOUT)
    if proposed_s <= limit_s:
        return ()
    because = (
        f"the time limit of {format_time_limit(round(limit_s))} ended it; how much it lacked is "
        "not known, so this is at least half as much again, rounded up"
    )
    return (_advice(run, proposed_s, because, {}),)


def sensible_limit_s(seconds: float) -> int:
    """A time limit of at least so many seconds, rounded up as a person would write it."""
    step = next((step for up_to, step in _STEPS if seconds <= up_to), 3600)
    return min(ceil(seconds / step) * step, MOST_S)


def _advice(run: MeasuredRun, seconds: int, because: str, saving: dict[str, float]) -> Advice:
    return Advice(
        key=KEY,
        now=run.spec.resources.time_limit,
        proposed=format_time_limit(seconds),
        because=because,
        saving=saving,
    )
