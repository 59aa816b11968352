"""The answers of a plan as lines: the verdict first, reasons beside it, the next command last."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hpckit.core.text import Line, Style, columns, wrapped_lines
from hpckit.core.units import counted, format_duration, short_bytes, short_time
from hpckit.planner.accelerators import ACCELERATORS, Accelerator
from hpckit.planner.answer import Answer, Bill, explained, unvalidated
from hpckit.planner.fit import (
    BYTES_OF,
    TRAINING_BYTES,
    Change,
    Serving,
    Verdict,
    gpus_that_hold,
    most_tokens,
    serving_terms,
    verdict,
)
from hpckit.planner.layout import Layout
from hpckit.planner.machine import Machine
from hpckit.planner.memory import Term
from hpckit.planner.model import ModelShape, active_parameters, parameters
from hpckit.planner.power import Facility, Range, air_m3_per_s, water_l_per_min
from hpckit.planner.table import UNITS, Evaluation

_LABEL: Final = 9
_BAR: Final = 24
_SHORT_BAR: Final = 12
_OTHERS: Final = ("H100-SXM5-80GB", "H200-SXM-141GB", "B200-SXM-180GB", "MI300X")
"""Cards that are named beside one on which a model does not fit."""
_AIR_RISE_K: Final = 15.0
_WATER_RISE_K: Final = 10.0
_STYLES: Final = {
    Verdict.FITS: Style.PLAIN,
    Verdict.TIGHT: Style.WARNING,
    Verdict.NO: Style.ERROR,
}


def labelled(label: str, text: str, style: Style = Style.PLAIN) -> Line:
    """Return a line with its label."""
    return Line(text=f" {label:<{_LABEL}} {text}".rstrip(), style=style)


def gigabytes(size_bytes: float) -> str:
    """Return bytes in GB with three digits, in TB from a thousand on."""
    return short_bytes(size_bytes)


def count_words(number: float) -> str:
    """Return a number of parameters as people say it: `70.6 billion`."""
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{number / size:.4g} {word}"
    return f"{number:.0f}"


def bar(part: float, whole: float, width: int = _BAR) -> str:
    """Return a bar whose length is a part of a whole, in eighths of a column."""
    eighths = round(8 * width * min(1.0, part / whole)) if whole else 0
    full, rest = divmod(eighths, 8)
    return "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")


def model_words(model: ModelShape) -> str:
    """Return the model's name and size."""
    total, active = parameters(model), active_parameters(model)
    of = f", {count_words(active)} active" if active != total else ""
    return f"{model.name} · {count_words(total)} parameters{of}"


def term_lines(terms: Sequence[Term], width: int, *, most: int | None = None) -> Iterator[Line]:
    """Yield a line a term, the largest first: its size, its bar, its formula where it has room.

    Those after the first `most` are one line together.
    """
    rows = sorted(terms, key=lambda term: -term.bytes_)
    shown, rest = (rows, []) if most is None else (rows[:most], rows[most:])
    longest = max((columns(term.name) for term in rows), default=0)
    for term in shown:
        drawn = bar(term.bytes_, rows[0].bytes_, _SHORT_BAR)
        head = f"   {term.name:<{longest}}  {gigabytes(term.bytes_):>8}  {drawn:<{_SHORT_BAR}}  "
        yield Line(text=(head + cut(term.formula, width - columns(head))).rstrip())
    if rest:
        size, names = sum(term.bytes_ for term in rest), ", ".join(term.name for term in rest)
        head = f"   {'the rest':<{longest}}  {gigabytes(size):>8}  "
        yield Line(text=head + cut(names, width - columns(head)))


def cut(text: str, room: int) -> str:
    """Return a text that ends in an ellipsis where it has no room."""
    return text if columns(text) <= room else text[: max(0, room - 1)].rstrip() + "…"


def explained_terms(terms: Sequence[Term], width: int) -> Iterator[Line]:
    """Yield each term with its whole formula and its source."""
    for term in sorted(terms, key=lambda term: -term.bytes_):
        head = f"   {gigabytes(term.bytes_):>8}  {term.name}: "
        words = f"{term.formula} [{term.source}]"
        yield from wrapped_lines(words, width, first=head, further=" " * 13)


def answer_lines(
    made: Answer,
    *,
    width: int,
    command: str,
    explain: bool = False,
    crossing: Sequence[str] = (),
) -> list[Line]:
    """Return whether a run fits, how fast it is, and what is better.

    `crossing` says which groups of ranks leave a switch.
    """
    question, layout = made.question, made.question.layout
    card, usable = made.machine.accelerator, made.machine.accelerator.memory_bytes
    title = f" {model_words(question.model)} · {layout.gpus} × {card.name}"
    stage = f", stage {made.memory.stage.index} of {layout.pipeline}" if layout.pipeline > 1 else ""
    said = made.verdict
    lines = [
        Line(text=title, style=Style.TITLE),
        labelled(
            said,
            f"{gigabytes(made.memory.device_bytes)} of {gigabytes(usable)} on the fullest"
            f" GPU{stage} · {layout.words()}",
            _STYLES[said],
        ),
    ]
    terms = [*made.memory.terms, *made.memory.outside]
    lines += explained_terms(terms, width) if explain else term_lines(terms, width, most=_TERMS)
    if said is Verdict.NO:
        lines.append(_change_line(made.change))
        return fitted_lines([*lines, *_ends(made, command)], width)
    if said is Verdict.TIGHT:
        words = "over 90 % of GPU memory: set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
        lines.append(labelled("note", words))
    lines += _speed_lines(made)
    lines += _hidden_lines(made)
    lines += [labelled("fabric", words) for words in crossing]
    lines += _ranking_lines(made, explain=explain)
    lines += _run_lines(made)
    return fitted_lines([*lines, *_ends(made, command)], width)


def fitted_lines(lines: Iterable[Line], width: int) -> list[Line]:
    """Return lines of which those that are too long go on under their text.

    The last, a command, is left whole: it is there to be copied.
    """
    *rows, last = lines
    found = []
    for line in rows:
        if columns(line.text) <= width:
            found.append(line)
            continue
        head, text = line.text[: _LABEL + 2], line.text[_LABEL + 2 :]
        is_labelled = head[1:2] != " " or not head.strip()
        first, further = (head, " " * (_LABEL + 2)) if is_labelled else ("   ", "     ")
        words = text if is_labelled else line.text
        found += wrapped_lines(words, width, first=first, further=further, style=line.style)
    return [*found, last]


_TERMS: Final = 4
_SHOWN: Final = 3
_LONG_S: Final = 2 * 86400
_MANY_DAYS: Final = 100
_KNIFE_EDGE: Final = 0.5
"""Of a step: from here on hidden communication decides the time on a slower network."""
_LEVELS: Final = {
    "tensor": lambda layout: layout.tensor,
    "context": lambda layout: layout.tensor * layout.context,
    "expert": lambda layout: layout.expert_split,
    "data": lambda layout: layout.gpus,
    "shards": lambda layout: layout.gpus,
    "pipeline sends": lambda layout: layout.gpus,
}
"""Term → the GPUs that a group of it spans, in the usual order of ranks."""


def level_of(term: str, layout: Layout, machine: Machine) -> str:
    """Return the slowest link that a term's communication passes, in brackets; "" for none."""
    if term not in _LEVELS:
        return ""
    link = machine.accelerator.link if machine.accelerator.link_bytes_per_s else "PCIe"
    return f" ({link})" if _LEVELS[term](layout) <= machine.link_gpus else " (network)"


def _speed_lines(made: Answer) -> Iterator[Line]:
    speed, layout, machine = made.speed, made.question.layout, made.machine
    time = speed.time
    yield labelled(
        "step",
        f"{short_time(time.step_s)} ± {100 * speed.uncertainty_frac:.0f} % · "
        f"{speed.tokens_per_s:,.0f} tokens/s · MFU {100 * speed.mfu_frac:.0f} %"
        f" ({100 * speed.causal_mfu_frac:.0f} % with causal attention counted half)",
    )
    longest = max(columns(name + level_of(name, layout, machine)) for name, _ in time.terms)
    for name, seconds in sorted(time.terms, key=lambda term: -term[1])[:_TERMS]:
        part = seconds / time.step_s
        label = name + level_of(name, layout, machine)
        drawn = bar(part, 1.0)
        yield Line(
            text=f"   {label:<{longest}}  {short_time(seconds):>8}  {drawn:<{_BAR}}"
            f" {100 * part:4.1f} %".rstrip()
        )


def _hidden_lines(made: Answer) -> Iterator[Line]:
    hidden, time = made.speed.hidden_s, made.speed.time
    if hidden > _KNIFE_EDGE * time.step_s:
        words = f"{short_time(hidden)} of weight transfers overlap with compute; a slower network"
        yield labelled("note", f"{words} would expose them")


def _ranking_lines(made: Answer, *, explain: bool) -> Iterator[Line]:
    ranking, own = made.ranking, made.question.layout
    others = [row for row in ranking.best if row.layout != own]
    counts = f"{ranking.fitting} of {counted(ranking.valid, 'layout')} fit"
    if not others:
        yield labelled("layouts", counts if ranking.valid > 1 else "no other layout is possible")
        return
    best, step_s = others[0], made.speed.time.step_s
    faster = step_s / best.time.step_s - 1
    if faster > 0.02:  # noqa: PLR2004  within the model's own error below
        words = f"{best.layout.words()} would be {100 * faster:.0f} % faster"
        yield labelled("better", words, Style.WARNING)
        return
    yield labelled("layouts", f"{counts}; next best:")
    first = next((row for row in ranking.best if row.layout == own), ranking.best[0])
    for row in others[: 3 * _SHOWN if explain else _SHOWN]:
        slower = row.time.step_s / step_s - 1
        why = f"   {explained(first, row)}" if explain else ""
        took = f"{short_time(row.time.step_s):>8} {100 * slower:+5.1f} %"
        size = gigabytes(row.memory.device_bytes)
        yield Line(text=f"   {row.layout.words():<34} {took}  {size:>8}{why}")


def _run_lines(made: Answer) -> Iterator[Line]:
    honest, energy = made.honest, made.energy
    if honest is not None and made.reliability is not None:
        interval = _days(honest.interval_s)
        failing = f"a failure every {_days(honest.mtbf_s)}"
        if made.tokens is not None:
            yield labelled(
                "time",
                f"{count_words(made.tokens)} tokens: {_days(honest.ideal_s)}, with failures"
                f" {_days(honest.expected_s)} ({100 * honest.ettr_frac:.1f} % of it is training)",
            )
        yield labelled("failures", f"{failing}; a checkpoint every {interval}"
                       f" ({format_duration(made.reliability.checkpoint_s)} each)")  # fmt: skip
    if energy is not None:
        pue = energy.facility_w / energy.it_w
        words = (
            f"{watts(energy.it_w)} for nodes ({energy.gpu_share_w:.0f} W per GPU),"
            f" {watts(energy.facility_w)} with the building (PUE {pue:.3g})"
        )
        if made.tokens is not None:
            words += f" · {energy.facility_kwh / 1e3:.4g} MWh"
        yield labelled("power", words + _bill_words(made.bill))
    else:
        yield labelled("power", f"unknown: no rated power for {made.machine.accelerator.name}")


def _bill_words(bill: Bill | None) -> str:
    if bill is None:
        return ""
    cost = "" if bill.cost is None else f" · costs {bill.cost:,.0f} {bill.currency}".rstrip()
    return cost + ("" if bill.co2_kg is None else f" · {bill.co2_kg / 1e3:.3g} t CO2")


def _days(seconds: float) -> str:
    if seconds == math.inf:
        return "never"
    if seconds < _LONG_S:
        return format_duration(seconds)
    days = seconds / 86400
    return f"{days:,.0f} days" if days >= _MANY_DAYS else f"{days:.3g} days"


def _ends(made: Answer, command: str) -> Iterator[Line]:
    yield from _note_lines(made.question.model.notes)
    if made.machine.accelerator.note is not None:
        card = made.machine.accelerator
        yield labelled("note", f"{card.name}: {card.note}")
    question = made.question
    unsure = unvalidated(question.model, question.training, question.layout, made.machine)
    if unsure:
        yield labelled("note", f"no published run validates the time for {', '.join(unsure)}")
    if made.question.assumed:
        yield labelled("assumed", " ".join(made.question.assumed), Style.FAINT)
    yield labelled("next", command)


def _change_line(change: Change | None) -> Line:
    if change is None:
        return labelled("change", "no change makes it fit: GPUs with more memory are needed")
    size = gigabytes(change.memory.device_bytes)
    return labelled("change", f"{change.options}   ({size}: fits)")


def _note_lines(notes: Iterable[str]) -> Iterator[Line]:
    for note in notes:
        yield labelled("note", note)


def serving_lines(
    model: ModelShape, serving: Serving, accelerator: Accelerator, *, width: int
) -> list[Line]:
    """Return whether a model that answers fits, and how many tokens have room."""
    terms = serving_terms(model, serving)
    total, usable = sum(term.bytes_ for term in terms), accelerator.memory_bytes
    said = verdict(total, usable)
    split = serving.tensor * serving.pipeline
    lines = [
        Line(
            text=f" {model_words(model)} · inference on {split} × {accelerator.name}",
            style=Style.TITLE,
        ),
        labelled(
            said,
            f"{gigabytes(total)} of {gigabytes(usable)} per GPU · "
            f"{counted(serving.batch, 'request')} of {serving.context} tokens",
            _STYLES[said],
        ),
        *term_lines(terms, width),
    ]
    tokens = most_tokens(model, serving, usable)
    if tokens:
        requests = tokens // serving.context
        words = f"{tokens} tokens of KV cache: {counted(requests, 'request')} of {serving.context}"
        lines.append(labelled("room", words))
    else:
        need = gpus_that_hold(terms[0].bytes_ * split, accelerator)
        lines.append(labelled("change", f"--gpus {need} --tp {min(need, model.heads)}"))
    return fitted_lines([*lines, *_note_lines(model.notes)], width)


def rough_lines(
    count: float, dtype: str, accelerator: Accelerator | None, width: int
) -> list[Line]:
    """Return what a number of parameters alone tells: weights, what holds and trains them."""
    each = BYTES_OF[dtype]
    size = count * each
    kind = f" · {accelerator.name}" if accelerator else ""
    lines = [
        Line(text=f" {count_words(count)} parameters · {dtype}{kind}", style=Style.TITLE),
        labelled("weights", f"{gigabytes(size)} = {count_words(count)} × {each:g} bytes"),
    ]
    if accelerator is not None:
        usable = accelerator.memory_bytes
        said = verdict(size, usable)
        words = f"one {accelerator.name}: {gigabytes(usable)} as its driver reports"
        if said is Verdict.NO:
            words += f"; the weights alone need {size / usable:.3g}"
        lines.append(labelled("", f"{said} {words}", _STYLES[said]))
    states = count * TRAINING_BYTES
    lines.append(
        labelled(
            "training",
            f"{gigabytes(states)} with Adam in mixed precision ({TRAINING_BYTES} bytes per "
            "parameter), plus activations",
        )
    )
    lines += _cards_that_hold(size, states, accelerator)
    gpu = accelerator.name if accelerator else "GPU"
    lines.append(
        labelled("next", f"hpckit plan CONFIG.json --gpu '{gpu}'   (exact, from the model's shape)")
    )
    return fitted_lines(lines, width)


def _cards_that_hold(size: float, states: float, first: Accelerator | None) -> Iterator[Line]:
    cards = [first] if first else []
    cards += [row for row in ACCELERATORS if row.name in _OTHERS and row is not first]
    yield Line(text=f"   {'at least':<20}{'to serve':>10}{'to train':>10}", style=Style.FAINT)
    for card in cards:
        serve, train = gpus_that_hold(size, card), gpus_that_hold(states, card)
        yield Line(text=f"   {card.name:<20}{serve:>8} ×{train:>8} ×")


def watts(value: float) -> str:
    """Return a power with three digits: `4 MW`, `10.2 kW`."""
    for size, unit in ((1e9, "GW"), (1e6, "MW"), (1e3, "kW")):
        if value >= size * 0.9995:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} W"


def _range(power: Range) -> str:
    least, most = watts(power.least), watts(power.most)
    if least == most:
        return least
    if least.rpartition(" ")[2] == most.rpartition(" ")[2]:
        least = least.rpartition(" ")[0]
    return f"{least}–{most}"


def facility_lines(gpus: int, gpu_w: float, found: Facility, kind: str, width: int) -> list[Line]:
    """Return what a number of GPUs, their machines and the building draw, and the heat."""
    it = found.it_w
    air = air_m3_per_s(it.middle, _AIR_RISE_K)
    water = water_l_per_min(it.middle, _WATER_RISE_K)
    heat = found.heat_btu_per_h
    lines = [
        Line(text=f" {gpus} × {kind} · {gpu_w:g} W each", style=Style.TITLE),
        labelled("GPUs", f"{watts(found.gpus_w)} = {gpus} × {gpu_w:g} W, all busy"),
        labelled(
            "machines",
            f"{_range(it)}   (× 1.20–1.29: node power over GPU rating in MLPerf power runs)",
        ),
        labelled(
            "building",
            f"{_range(found.facility_w)}   (PUE 1.1, large providers, to 1.58, world average;"
            " --pue)",
        ),
        labelled(
            "heat",
            f"{_range(it)} to remove = {heat.least / 1e6:.3g}–{heat.most / 1e6:.3g} million BTU/h",
        ),
        labelled(
            "cooling",
            f"{air:,.0f} m³/s of air at +{_AIR_RISE_K:g} K, or {water:,.0f} L/min of"
            f" water at +{_WATER_RISE_K:g} K",
        ),
        labelled(
            "per year", f"{it.least * 8.76e-6:.3g}–{it.most * 8.76e-6:.3g} GWh for the machines"
        ),
    ]
    return fitted_lines(lines, width)  # fmt: skip


_WORST: Final = 12


def evaluation_lines(found: Evaluation, *, width: int) -> list[Line]:
    """Return the errors of a table: the mean, the worst rows, the baseline beside them."""
    mean, worst = 100 * found.mean_abs_error_frac, 100 * found.max_abs_error_frac
    lines = [
        Line(text=f" {counted(len(found.rows), 'row')} predicted", style=Style.TITLE),
        labelled("error", f"{mean:.2f} % on average, {worst:.1f} % at most"),
    ]
    if len(found.rows) > 1:
        naive = 100 * found.naive_mean_abs_error_frac
        words = f"{naive:.2f} % on average with one efficiency fitted to this table"
        lines.append(labelled("baseline", words))
    rows = sorted(found.rows, key=lambda row: -abs(row.error_frac))
    if len(rows) > _WORST:
        lines.append(Line(text=f"   the worst {_WORST} of {len(rows)}:", style=Style.FAINT))
    for row in rows[:_WORST]:
        run = row.run
        text = (
            f"   {100 * row.error_frac:+6.1f} %  predicted {row.predicted:,.4g}, published"
            f" {run.published:,.4g} {UNITS[run.target]} · {run.label} · {row.layout.words()}"
        )
        lines.append(Line(text=cut(text, width)))
    if found.ignored:
        lines.append(labelled("ignored", f"columns {', '.join(found.ignored)[: width - 20]}"))
    for line_no, why in found.skipped[:3]:
        lines.append(labelled("skipped", f"line {line_no}: {why}", Style.WARNING))
    if len(found.skipped) > 3:  # noqa: PLR2004
        lines.append(labelled("skipped", f"{len(found.skipped)} rows in all"))
    return lines
