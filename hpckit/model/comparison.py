"""Two measured jobs side by side, with what their samples can and cannot tell: a value.

`hpckit.comparison/1`. Differences are B less A, ratios B by A; every interval is of 95 %.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

COMPARISON_SCHEMA: Final = "hpckit.comparison/1"


class Verdict(StrEnum):
    """What can be said of a quantity; `not-known` where it was not measured often enough."""

    DIFFERS = "differs"
    NOT_SEEN = "no-difference-seen"
    NOT_KNOWN = "not-known"


class Interval(Struct, frozen=True, kw_only=True):
    """A value and its 95 % interval, None where there is none."""

    value: float
    low: float | None = None
    high: float | None = None


class ComparedQuantity(Struct, frozen=True, kw_only=True):
    """One quantity of both jobs; its unit is at the end of the name.

    `smallest_seen` is the smallest true difference that such samples would have shown in 8 of 10
    cases. `method` says what the interval is made of, `because` why there is none.
    """

    name: str
    a: float | None
    b: float | None
    difference: Interval | None = None
    ratio: Interval | None = None
    smallest_seen: float | None = None
    verdict: Verdict = Verdict.NOT_KNOWN
    method: str = ""
    because: str = ""


class ComparedJob(Struct, frozen=True, kw_only=True):
    """One of the two jobs."""

    job_id: str | None
    name: str | None
    state: str | None
    nodes: int
    gpus: int
    elapsed_s: float
    synthetic: bool = False


class Comparison(Struct, frozen=True, kw_only=True):
    """Two jobs compared.

    `recipe` names what was asked differently, a sentence each; None: nobody knows what was asked.
    `notes` are what a reader must know of the intervals.
    """

    a: ComparedJob
    b: ComparedJob
    recipe: tuple[str, ...] | None
    quantities: tuple[ComparedQuantity, ...]
    notes: tuple[str, ...] = ()
