"""What a job measured beside what was predicted of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final

from hpckit.core.late import regex
from hpckit.core.text import Line, Style
from hpckit.core.units import short_time
from hpckit.core.values import dataclass
from hpckit.planner.answer import Answer
from hpckit.planner.power import FULL_OVER_GPU
from hpckit.planner.show import gigabytes, labelled

_MEGATRON: Final = regex(r"elapsed time per iteration \(ms\): ([0-9.]+)")
_TORCHTITAN: Final = regex(r"\btps: ([0-9,]+)")
_PLAIN: Final = regex(r"\b(?:step_time|iter_time|time/step)[:=] ?([0-9.]+) ?s?\b", re.ASCII)
"""Megatron-LM's, torchtitan's (tokens a second and GPU), and a plain `step_time: 1.23 s`."""
_FIRST_FRAC: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a job's report and log tell; None is not told.

    `step_s` is the median without the first fifth of the steps, `power_w` a GPU's mean.
    """

    step_s: float | None = None
    steps: int = 0
    power_w: float | None = None
    peak_bytes: float | None = None


def step_times(text: Iterable[str], tokens_per_step_and_gpu: float) -> Sequence[float]:
    """Return the times of steps that lines of a training log tell, in seconds."""
    found = []
    for line in text:
        if match := _MEGATRON.search(line):
            found.append(float(match[1]) / 1e3)
        elif match := _TORCHTITAN.search(line):
            found.append(tokens_per_step_and_gpu / float(match[1].replace(",", "")))
        elif match := _PLAIN.search(line):
            found.append(float(match[1]))
    return found


def settled(times: Sequence[float]) -> float | None:
    """Return the median of step times after the first fifth, None for no times."""
    rest = times[len(times) // _FIRST_FRAC :]
    return median(rest) if rest else None


def compared_lines(made: Answer, measured: Measured) -> list[Line]:
    """Return the prediction beside the measured figures, and what to say for this cluster."""
    speed, layout = made.speed, made.question.layout
    lines = [
        Line(
            text=f" {made.question.model.name} · {layout.gpus} ×"
            f" {made.machine.accelerator.name} · {layout.words()}",
            style=Style.TITLE,
        ),
        Line(text=f"   {'':<12}{'predicted':>12}{'measured':>12}", style=Style.FAINT),
    ]
    rows = (
        ("step", speed.time.step_s, measured.step_s, short_time),
        ("memory", made.memory.device_bytes, measured.peak_bytes, gigabytes),
        ("GPU power", _gpu_w(made), measured.power_w, _watts),
    )
    for name, predicted, seen, words in rows:
        shown = "unknown" if seen is None else words(seen)
        told = "unknown" if predicted is None else words(predicted)
        error = f"{100 * (predicted / seen - 1):+7.1f} %" if seen and predicted else ""
        lines.append(Line(text=f"   {name:<12}{told:>12}{shown:>12}{error}"))
    if measured.step_s is None:
        words_ = "no step time in the log (Megatron-LM, torchtitan, or step_time: SECONDS)"
        lines.append(labelled("note", words_))
    else:
        scale = measured.step_s / speed.time.step_s * made.machine.step_scale
        lines.append(labelled("note", f"median of {measured.steps} steps"))
        lines.append(
            labelled(
                "next",
                f"set [planner] step_scale = {scale:.3g} in the site file to match these times",
            )
        )
    return lines


def _gpu_w(made: Answer) -> float | None:
    return None if made.energy is None else made.energy.gpu_share_w / FULL_OVER_GPU


def _watts(value: float) -> str:
    return f"{value:.0f} W"
