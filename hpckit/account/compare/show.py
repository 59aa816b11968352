"""Two jobs compared, on one screen: what differs, what does not, what could not be told."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from msgspec import Struct

from hpckit.core.fields import to_tree
from hpckit.core.quantities import number, plural
from hpckit.core.text import wrapped
from hpckit.core.units import format_duration

# `hpckit.comparison/1`. Differences are B less A, ratios B by A; every interval is of 95 %.

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


class _Title(NamedTuple):
    """What a quantity is called here, its unit, and the factor to it."""

    name: str
    unit: str
    factor: float = 1.0


_SHOWN: Final = {
    "elapsed_s": _Title("duration", "s"),
    "cpu_s": _Title("CPU time", "s"),
    "max_rss_bytes": _Title("largest process", "MiB", 1 / 2**20),
    "energy_per_gpu_hour_j": _Title("energy", "Wh/GPU-hour", 1 / 3600),
    "power_w": _Title("power", "W"),
    "power_at_equal_temperature_w": _Title(" at equal temp.", "W"),
    "temperature_c": _Title("temperature", "°C"),
    "useful_frac": _Title("useful (known time)", "%", 100.0),
    "utilization_pct": _Title("utilization", "%"),
    "sm_mhz": _Title("SM clock", "MHz"),
    "tensor_active_frac": _Title("tensor active", "%", 100.0),
    "dram_active_frac": _Title("DRAM active", "%", 100.0),
    "thermal_throttled_frac": _Title("thermal throttling", "%", 100.0),
    "power_capped_frac": _Title("at power cap", "%", 100.0),
}
"""In this order."""
_NAMED: Final = {"power_at_equal_temperature_w": "power at equal temp."}
"""Away from the row of power."""
_BRIEF: Final = dict.fromkeys(("elapsed_s", "cpu_s", "max_rss_bytes"), "one run each")
_NO_RATIO: Final = frozenset(
    {"temperature_c"} | {name for name in _SHOWN if name.endswith("_frac")}
)
"""A part of a part, or of degrees above ice, says nothing."""
_LEGEND: Final = "no change seen (x): 8 of 10 such pairs would have shown a true difference of x"
_NAME: Final = 23
_VALUE: Final = 6
_MOST_RECIPE: Final = 3


def comparison_document(comparison: Comparison, version: str) -> dict[str, Any]:
    """`hpckit.comparison/1`."""
    return {"schema": COMPARISON_SCHEMA, "hpckit": version, **to_tree(comparison)}


def comparison_lines(comparison: Comparison, *, width: int = 80) -> list[str]:
    """The screen, a line each."""
    lines = [
        *_cut([f" A  {_job(comparison.a)}", f" B  {_job(comparison.b)}"], width),
        *_recipe(comparison, width),
        f" {'':<{_NAME}} {'A':>{_VALUE}} {'B':>{_VALUE}}  B − A (95 %)",
    ]
    by_name = {one.name: one for one in comparison.quantities}
    shown = [(by_name[name], title) for name, title in _SHOWN.items() if name in by_name]
    unsaid: dict[str, list[str]] = {}
    said: set[str] = set()
    for one, title in shown:
        row, is_whole = _row(one, title, width)
        if not is_whole:
            unsaid.setdefault(one.because, []).append(_NAMED.get(one.name, title.name))
        if row:
            lines.append(row)
            said.add(one.verdict)
    for place, (because, titles) in enumerate(unsaid.items()):
        why = f": {because}" if because else ""
        lines += _labelled("" if place else "unknown", f"{', '.join(titles)}{why}", width)
    legend = [_LEGEND] if Verdict.NOT_SEEN in said else []
    for place, note in enumerate((*legend, *comparison.notes)):
        lines += _labelled("" if place else "note", note, width)
    return lines


def _job(job: ComparedJob) -> str:
    words = " ".join(word for word in (job.name, job.job_id) if word) or "samples"
    size = f"{plural(job.gpus, 'GPU')} on {plural(job.nodes, 'node')}"
    state = f"{job.state} in " if job.state else ""
    made_up = " · synthetic" if job.synthetic and job.gpus else ""
    return f"{words} · {state}{format_duration(max(0.0, job.elapsed_s))} · {size}{made_up}"


def _recipe(comparison: Comparison, width: int) -> list[str]:
    if comparison.recipe is None:
        return _labelled("recipe", "unknown: one of the jobs has no readable effective.json", width)
    if not comparison.recipe:
        return _labelled("recipe", "the same", width)
    shown = list(comparison.recipe[:_MOST_RECIPE])
    if len(comparison.recipe) > _MOST_RECIPE:
        shown.append(f"and {len(comparison.recipe) - _MOST_RECIPE} more in --json")
    lines = [_labelled("" if place else "recipe", one, width) for place, one in enumerate(shown)]
    return [line for one in lines for line in one]


def _row(one: ComparedQuantity, title: _Title, width: int) -> tuple[str, bool]:
    if one.a is None and one.b is None:
        return "", False
    values = ["–" if side is None else number(side * title.factor) for side in (one.a, one.b)]
    name = f"{title.name}, {title.unit}"
    line = f" {name:<{_NAME}} {values[0]:>{_VALUE}} {values[1]:>{_VALUE}}"
    if one.difference is not None:
        line += f"  {_apart(one, title.factor):<{15}}"
    whole = f"{line}  {_said(one, title.factor)}".rstrip()
    if len(whole) <= width:
        return whole, True
    is_known = one.verdict is not Verdict.NOT_KNOWN
    return _cut([whole if is_known else f"{line}  unknown"], width)[0], is_known


def _apart(one: ComparedQuantity, factor: float) -> str:
    """The difference and half of its interval, which is as wide on both sides."""
    apart = one.difference
    if apart is None:
        return ""
    if apart.high is None:
        return _signed(apart.value * factor)
    return f"{_signed(apart.value * factor)} ± {number((apart.high - apart.value) * factor)}"


def _said(one: ComparedQuantity, factor: float) -> str:
    if one.verdict is Verdict.NOT_KNOWN:
        return one.because if one.difference is None else _BRIEF.get(one.name, one.because)
    if one.verdict is Verdict.DIFFERS:
        has_ratio = one.ratio is not None and one.name not in _NO_RATIO
        share = f" {_signed((one.ratio.value - 1) * 100)} %" if one.ratio and has_ratio else ""
        return f"differs{share}"
    if one.smallest_seen:
        return f"no change seen ({number(one.smallest_seen * factor)})"
    return "no change seen"


def _signed(value: float) -> str:
    text = number(abs(value))
    if not float(text):
        return "0"
    return f"−{text}" if value < 0 else f"+{text}"


def _labelled(label: str, text: str, width: int) -> list[str]:
    return list(wrapped(tuple(text.split(" ")), width, first=f" {label:<10} ", further=" " * 12))


def _cut(lines: Sequence[str], width: int) -> list[str]:
    return [line if len(line) <= width else f"{line[: width - 1]}…" for line in lines]
