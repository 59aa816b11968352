"""What a report's screen says of findings, advice and its outcomes, in as few lines as it gets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Final

from hpckit.core.findings import gravest_first
from hpckit.model.account import Advice, AdviceOutcome, JobReport
from hpckit.model.report_finding import ReportFinding, sentence
from hpckit.report.finding_groups import grouped
from hpckit.report.quantities import clocks, energy, gpu_time, quantity
from hpckit.report.screen import Block, labelled, row

_MOST_FINDINGS: Final = 8
_GOOD_FINDINGS: Final = 4
_MOST_LINES: Final = 5
_SPARE_LINES: Final = 9
_MOST_WORDS: Final = 80
_LONG_LIST: Final = 60
_MOST_ADVICE: Final = 4
_MOST_ADVICE_LINES: Final = 3
_MOST_SENTENCES: Final = 3
_SPARE_OF_EACH: Final = 4
_ANY: Final = 99
_LEAST_WORDS: Final = 5
_QUANTITIES: Final = {
    "cpu_s": "CPU time",
    "gpu_s": "GPU time",
    "elapsed_s": "duration",
    "energy_j": "GPU energy",
    "mem_peak_bytes": "memory",
}
"""What was predicted, by its name in AdviceOutcome."""
_MORE: Final = "and {} more in --json"


# --- findings ------------------------------------------------------------------------------------


def finding_block(report: JobReport, width: int, weight: int) -> Block:
    """The findings, the worst first: ever more of them, then ever more of their evidence.

    What to do is never cut; the evidence is. Costs are in the units of the job's own.
    """
    ordered = gravest_first(report.findings)
    ordered = list(grouped([_without_repeats(one, ordered) for one in ordered]))
    shown = [_with_short_subject(one) for one in ordered[:_MOST_FINDINGS]]
    evidence = [tuple(_ever_less(one.because, _cost(one, report))) for one in shown]
    in_lines = {
        (at, most): _finding(one, evidence[at], width, most)
        for at, one in enumerate(shown)
        for most in range(2, _SPARE_LINES + 1)
    }
    forms: list[list[str]] = []
    spare: set[int] = set()
    good = 0
    for count in range(1, len(shown) + 1):
        usual = _MOST_LINES if count == len(shown) else 3
        for least, longer in product(range(2, _SPARE_LINES), range(count + 1)):
            sizes = [least + (at < longer) for at in range(count)]
            lines = [line for at, most in enumerate(sizes) for line in in_lines[at, most]]
            if least < usual:
                good = len(forms) if count <= _GOOD_FINDINGS else good
            else:
                spare.add(len(forms))
            forms.append([*labelled("found", lines), *_more(len(ordered) - count, width)])
    return Block(forms=forms or [[]], good=good, weight=weight, spare=frozenset(spare))


def _more(count: int, width: int) -> list[str]:
    return row("", _MORE.format(count).split(" "), width, most=1) if count else []


def _without_repeats(finding: ReportFinding, findings: Sequence[ReportFinding]) -> ReportFinding:
    """The finding without the evidence that another on the same thing has, with its own remedy."""
    if not any(clause.rule for clause in finding.evidence):
        return finding
    others = {one.rule for one in findings if one.about.is_of(finding.about)}
    kept = tuple(clause for clause in finding.evidence if clause.rule not in others)
    return replace(finding, because=sentence(kept), evidence=kept)


def _with_short_subject(finding: ReportFinding) -> ReportFinding:
    """The finding with the number of its nodes or ranks where their list takes a line or more."""
    return replace(finding, subject=finding.about.told(_LONG_LIST) or finding.subject)


def _finding(finding: ReportFinding, evidence: Sequence[str], width: int, most: int) -> list[str]:
    """In so many lines with as much of the evidence as they hold; in more for a long remedy."""
    subject = f"{finding.subject}: " if finding.subject else ""
    remedy = f" → {finding.remedy}" if finding.remedy else ""
    lines: list[str] = []
    for told in evidence:
        text = f"{finding.severity} {subject}{told}{remedy}"
        lines = row("", text.split(" "), width, most=_ANY)
        if len(lines) <= most:
            break
    return lines


def _ever_less(because: str, cost: str) -> Iterator[str]:
    """The evidence with what it cost, then ever fewer words of it, at last without the cost."""
    words = because.split(" ")
    if len(words) <= _MOST_WORDS:
        yield f"{because}{cost}"
    for count in range(min(len(words) - 1, _MOST_WORDS), _LEAST_WORDS, -1):
        yield f"{_begun(words[:count])}{cost}"
    yield because if len(words) <= _LEAST_WORDS else _begun(words[:_LEAST_WORDS])


def _begun(words: Sequence[str]) -> str:
    return f"{' '.join(words).rstrip(',;:')} …"


def _cost(finding: ReportFinding, report: JobReport) -> str:
    """What it cost, in the units that the job's own GPU time and energy have."""
    gpu_s, spent_j = finding.wasted_gpu_s, finding.wasted_j
    cost = [gpu_time(gpu_s, like_s=report.waste.total_gpu_s)] if gpu_s else []
    cost += [energy(spent_j, like_j=report.energy.gpu.value_j or 0.0)] if spent_j else []
    return f" ({', '.join(cost)})" if cost else ""


# --- advice --------------------------------------------------------------------------------------


def advice_block(advice: Sequence[Advice], width: int, weight: int) -> Block:
    """What to change, all of it on a line or two; with the reasons where there is room."""
    if not advice:
        return Block(forms=[[]], good=0, weight=weight)
    changes = [_change(one) for one in advice]
    short = [text if not at else f"· {text}" for at, text in enumerate(changes[:_MOST_ADVICE])]
    left = len(advice) - len(short)
    short += [f"· {_MORE.format(left)}"] if left else []
    forms = [row("advice", short, width, most=2)]
    for most in range(1, _MOST_ADVICE_LINES + _SPARE_OF_EACH + 1):
        rows = [
            row("", clocks(f"{change}: {one.because}").split(" "), width, most=most)
            for change, one in zip(changes, advice[:_MOST_ADVICE], strict=False)
        ]
        lines = [line for one in rows for line in one]
        forms.append([*labelled("advice", lines), *_more(left, width)])
    spare = frozenset(range(_MOST_ADVICE_LINES + 1, len(forms)))
    return Block(forms=forms, good=1, weight=weight, spare=spare)


def _change(advice: Advice) -> str:
    was = f"{advice.now} → " if advice.now is not None else ""
    return clocks(f"{advice.key} {was}{advice.proposed}")


def outcome_block(outcomes: Sequence[AdviceOutcome], width: int, weight: int) -> Block:
    """Whether what an earlier report predicted came true."""
    return _sentences("advised", [_outcome(one) for one in outcomes], width, weight)


def _outcome(outcome: AdviceOutcome) -> str:
    words = {True: "held", False: "broken", None: "cannot tell"}[outcome.held]
    said = f"by report {outcome.report}: {outcome.key} {outcome.proposed}: {words}"
    return clocks(f"{said}, {_course(outcome)}{outcome.because}")


def _course(outcome: AdviceOutcome) -> str:
    """What became of the quantity: `CPU time 12:27 → 1:33 (predicted 1:33), `."""
    if outcome.measured is None:
        return ""

    def told(value: float) -> str:
        return quantity(outcome.quantity, value)

    name = _QUANTITIES.get(outcome.quantity, outcome.quantity)
    was = "" if outcome.before is None else f"{told(outcome.before)} → "
    predicted = "" if outcome.predicted is None else f" (predicted {told(outcome.predicted)})"
    # What a limit is advised by is what it is to be in the next run.
    predicted = "" if outcome.predicted == outcome.before else predicted
    return f"{name} {was}{told(outcome.measured)}{predicted}, "


def missing_block(missing: Sequence[str], width: int, weight: int) -> Block:
    """What is not in the report, a sentence each."""
    return _sentences("missing", missing, width, weight)


def _sentences(label: str, texts: Sequence[str], width: int, weight: int) -> Block:
    """Ever more sentences, from the first in a line to three in two or three lines."""
    forms: list[list[str]] = []
    spare: set[int] = set()
    for count in range(1, min(len(texts), _MOST_SENTENCES) + 1):
        for most in range(1, _MOST_SENTENCES + _SPARE_OF_EACH + 1):
            rows = [row("", one.split(" "), width, most=most) for one in texts[:count]]
            lines = [line for one in rows for line in one]
            if most > _MOST_SENTENCES:
                spare.add(len(forms))
            forms.append([*labelled(label, lines), *_more(len(texts) - count, width)])
    return Block(forms=forms or [[]], good=1, weight=weight, spare=frozenset(spare))
