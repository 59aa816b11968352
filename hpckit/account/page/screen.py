"""What a report's screen says of findings, advice and its outcomes, in as few lines as it gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Final

from hpckit.account.finding import ReportFinding, grouped, report_sentence
from hpckit.account.page.phrases import (
    cpu_parts,
    gpu_parts,
    gpu_remarks,
    rank_parts,
    throttling_parts,
)
from hpckit.account.values import (
    GPUS_ALONE,
    SPLIT_GPU,
    Advice,
    AdviceOutcome,
    Cost,
    Energy,
    EnergyLack,
    JobReport,
)
from hpckit.core.finding_lines import SEVERITY_WORDS
from hpckit.core.findings import gravest_first
from hpckit.core.quantities import (
    clocks,
    energy,
    energy_sum,
    gpu_time,
    mass,
    memory,
    number,
    percent,
    plural,
    quantity,
    whole_sum,
)
from hpckit.core.text import Block, dotted, fitted, labelled, names_shown, row
from hpckit.core.units import format_duration

_SCOPES: Final = {
    "module": " module (CPU and memory included)",
    SPLIT_GPU: ", whole GPUs (all MIG instances)",
}
_ROUNDING_FRAC: Final = 0.001
_BRIEF: Final[Mapping[EnergyLack, str]] = {
    EnergyLack.METER: "no meter",
    EnergyLack.SAMPLES: "not sampled",
    EnergyLack.OWN_METER: "other jobs may share it",
    EnergyLack.SLURM_PLUGIN: "",
}
"""Reasons that are told in fewer words, or not at all, than in --json."""
_SITE_FILE: Final = "set [energy] in the site file"


def energy_parts(report: JobReport) -> list[str]:
    """Energy of the GPUs and nodes with its provenance, then what it costs."""
    gpu, node = report.energy.gpu, report.energy.node
    if not is_about_gpus(report):
        return dotted(_node_and_cost(node, report.cost))
    parts = [_provenance(gpu, "GPU"), *_held_by_ranks(report)]
    return [*parts, *(f"· {part}" for part in _node_and_cost(node, report.cost))]


def is_about_gpus(report: JobReport) -> bool:
    """Whether the job had GPUs, or wanted some of which none was seen."""
    return bool(report.gpus or report.job.gpus or report.job.gpus_because)


def _node_and_cost(node: Energy, cost: Cost) -> list[str]:
    """What the nodes took and what it cost; what both lack for want of one table is said once."""
    if node.value_j is not None:
        return [_provenance(node, "node"), *_energy_cost(cost)]
    why, costs = _briefly(node), _energy_cost(cost)
    if any(one.is_all_keys for one in node.reasons) and costs == [f"cost unknown: {_SITE_FILE}"]:
        return [f"node, cost unknown: {why}"]
    return [f"node unknown: {why}", *costs]


def _briefly(node: Energy) -> str:
    """Why a node's energy is not known, on a line: what to do ends it, --json names the keys."""
    kinds = {one.kind for one in node.reasons}
    words: list[str] = []
    for reason in node.reasons:
        if reason.is_all_keys:
            return "; ".join([*words, _SITE_FILE])
        is_said = reason.kind is EnergyLack.OWN_SHARE and EnergyLack.OWN_METER in kinds
        if not is_said and (brief := _BRIEF.get(reason.kind, str(reason))):
            words.append(brief)
    return "; ".join(words) or node.because or "nothing was measured"


def _held_by_ranks(report: JobReport) -> list[str]:
    """How the GPUs' energy adds up; it is said where rounding does not explain a difference."""
    held = report.energy.conservation
    if held is None or not report.ranks or report.energy.gpu.value_j is None:
        return []
    gpu = report.energy.gpu
    all_j = (held.ranks_j, held.idle_remainder_j, held.error_j)
    ranks, rest, error = energy_sum(all_j, report.energy.gpu.value_j, gpu.plus_minus_j)
    parts = [f"= ranks {ranks} + {rest} outside ranks"]
    if abs(held.error_j) > _ROUNDING_FRAC * max(held.gpus_j, 1.0):
        parts.append(f"(sum differs by {error})")
    return parts


def _provenance(one: Energy, what: str) -> str:
    if one.value_j is None:
        return f"{what} unknown: {one.because or 'nothing was measured'}"
    source = str(one.source) if one.source is not None else "source unknown"
    covered = f", {percent(one.coverage_frac)} covered" if one.scope != "node" else ""
    scope = _SCOPES.get(one.scope, "")
    return f"{energy(one.value_j, one.plus_minus_j)} {what}{scope} ({source}{covered})"


def _energy_cost(cost: Cost) -> list[str]:
    """Energy with cooling, carbon and price; first what of, where that is not all of the job."""
    parts = []
    if cost.facility_j is not None and cost.pue is not None:
        parts.append(f"{energy(cost.facility_j)} at PUE {cost.pue:g}")
    if cost.co2_g is not None:
        parts.append(f"{mass(cost.co2_g)} CO2e")
    if cost.price is not None:
        parts.append(f"{number(cost.price)} {cost.currency or '(no currency)'}")
    if not parts:
        return [f"cost unknown: {_SITE_FILE}"] if cost.absent else []
    if cost.is_of_gpus:
        parts[0] = f"{GPUS_ALONE}: {parts[0]}"
    return [*parts, cost.lack] if cost.lack else parts


_Least = tuple[int, str]


def memory_parts(report: JobReport) -> list[str]:
    """The most memory of a GPU, and what a node had at least, beside what there was."""
    parts = []
    used = [one for one in report.gpus if one.mem_peak_bytes is not None]
    if used:
        top = max(used, key=lambda one: one.mem_peak_bytes or 0)
        of = _of(top.mem_peak_bytes or 0, top.mem_bytes)
        parts.append(f"GPU {of} ({top.label} on {top.node})")
    known = [*_sampled(report), *_processes(report)]
    if known:
        parts.append(max(known, key=lambda one: one[0])[1])
    kills = sum(one.oom_kills or 0 for one in report.nodes)
    if kills:
        parts.append(f"{'1 process' if kills == 1 else f'{kills:,} processes'} OOM-killed")
    return dotted(parts)


def _sampled(report: JobReport) -> Iterator[_Least]:
    """Of each node what samples saw: what comes and goes between two of them is not in it."""
    for one in report.nodes:
        if one.mem_peak_bytes is not None:
            of = _of(one.mem_peak_bytes, one.mem_limit_bytes)
            yield one.mem_peak_bytes, f"node at least {of} ({one.node})"


def _processes(report: JobReport) -> Iterator[_Least]:
    """Of each rank its largest process by the kernel: its node had as much at some moment."""
    limits = {(one.node, one.restart): one.mem_limit_bytes for one in report.nodes}
    for one in report.ranks:
        if one.max_rss_bytes is None:
            continue
        limit_bytes = limits.get((one.node, one.restart))
        size = _of(one.max_rss_bytes, limit_bytes)
        if limit_bytes:
            text = f"node at least {size} (a process of rank {one.rank}, {one.node})"
        else:
            text = f"largest process {size} (rank {one.rank})"
        yield one.max_rss_bytes, text


def _of(used_bytes: int, all_bytes: int | None) -> str:
    """`57 of 75 GiB`, `445 MiB of 64 GiB`."""
    used = memory(used_bytes)
    if not all_bytes:
        return used
    of_all = memory(all_bytes)
    return f"{used.removesuffix(of_all[-4:])} of {of_all}"


_GOOD_FINDINGS: Final = 4
_MOST_LINES: Final = 5
_SPARE_LINES: Final = 9
_MOST_WORDS: Final = 80
_MOST_ADVICE: Final = 4
_MOST_ADVICE_LINES: Final = 3
_MOST_SENTENCES: Final = 3
_SPARE_OF_EACH: Final = 4
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


def finding_block(report: JobReport, width: int, weight: int) -> Block:
    """The findings, the worst first: ever more of them, then ever more of their evidence.

    What to do is never cut; the evidence is. Costs are in the units of the job's own.
    """
    ordered = gravest_first(report.findings)
    ordered = list(grouped([_without_repeats(one, ordered) for one in ordered]))
    shown = [replace(one, subject=one.about.told(60) or one.subject) for one in ordered[:8]]
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
            forms.append([*lines, *_more(len(ordered) - count, width)])
    return Block(forms=forms or [[]], good=good, weight=weight, spare=frozenset(spare))


def _more(count: int, width: int) -> list[str]:
    return row("", _MORE.format(count).split(" "), width, most=1) if count else []


def _without_repeats(finding: ReportFinding, findings: Sequence[ReportFinding]) -> ReportFinding:
    """The finding without the evidence that another on the same thing has, with its own remedy."""
    if not any(clause.rule for clause in finding.evidence):
        return finding
    others = {one.rule for one in findings if one.about.is_of(finding.about)}
    kept = tuple(clause for clause in finding.evidence if clause.rule not in others)
    return replace(finding, because=report_sentence(kept), evidence=kept)


def _finding(finding: ReportFinding, evidence: Sequence[str], width: int, most: int) -> list[str]:
    """In so many lines with as much of the evidence as they hold; in more for a long remedy."""
    subject = f"{finding.subject}: " if finding.subject else ""
    remedy = f" → {finding.remedy}" if finding.remedy else ""
    lines: list[str] = []
    for told in evidence:
        text = f"{subject}{told}{remedy}"
        lines = row(SEVERITY_WORDS[finding.severity], text.split(" "), width, most=99)
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
    gpu_s, spent_j = finding.wasted_gpu_s, finding.wasted_j
    cost = [gpu_time(gpu_s, like_s=report.waste.total_gpu_s)] if gpu_s else []
    cost += [energy(spent_j, like_j=report.energy.gpu.value_j or 0.0)] if spent_j else []
    return f" ({', '.join(cost)})" if cost else ""


def advice_block(advice: Sequence[Advice], width: int, weight: int) -> Block:
    """What to change, all of it on a line or two; with the reasons where there is room."""
    if not advice:
        return Block(forms=[[]], good=0, weight=weight)
    changes = [_change(one) for one in advice]
    short = dotted(changes[:_MOST_ADVICE])
    left = len(advice) - len(short)
    short += [f"· {_MORE.format(left)}"] if left else []
    forms = [row("advice", short, width, most=3)]
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
    words = {True: "confirmed", False: "wrong", None: "unclear"}
    told = [
        f"by report {one.report}: {one.key} {one.proposed}: {words[one.held]}, "
        f"{_course(one)}{one.because}"
        for one in outcomes
    ]
    return _sentences("advised", [clocks(text) for text in told], width, weight)


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


SCREEN_LINES: Final = 22
"""A terminal of 24 lines shows the command and the next prompt as well."""
_SPARE: Final = 6
"""So many lines more a row may have where nothing else is on them."""
_BEHIND_S: Final = 1.0
_RUNNING: Final = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED"})


def is_running(report: JobReport) -> bool:
    """Whether there will be more of this job than the report has."""
    return report.job.state in _RUNNING


def report_lines(
    report: JobReport,
    *,
    width: int = 80,
    next_commands: Sequence[str] = (),
    now_s: float | None = None,
) -> list[str]:
    """The screen, a line each, at most SCREEN_LINES of `width` columns; commands are never cut.

    `now_s` is the time of day: a running job is older than what was measured of it last.

    What there is no room for is counted at the end of its row; --json has it.
    """
    head = row("", headline(report, now_s), width, most=3, is_head=True)
    head += row("", _verdict(report), width, most=1, is_head=True)
    tail = _next(next_commands)
    rows = [_block(*row_of, width=width) for row_of in _rows(report)]
    blocks = [
        rows[0],
        _gpu_block(report, width),
        *rows[1:],
        finding_block(report, width, weight=10),
        advice_block(report.advice, width, weight=9),
        outcome_block(report.outcomes, width, weight=4),
        _sentences("missing", report.missing, width, weight=3),
    ]
    room = SCREEN_LINES - len(head) - len(tail)
    lines = fitted(blocks, room)
    if len(lines) > room:
        lines = [*lines[: room - 1], " …        more in --json"]
    return [*head, *lines, *tail]


def component_lines(
    reports: Mapping[str, JobReport],
    *,
    width: int = 80,
    next_commands: Sequence[str] = (),
    now_s: float | None = None,
) -> list[str]:
    """Return the screen of a heterogeneous job: what each component was, had and left unused."""
    lines: list[str] = []
    for name, report in reports.items():
        lines += row(name, headline(report, now_s), width, most=2)
        used = gpu_parts(report) if is_about_gpus(report) else cpu_parts(report)
        for parts in (energy_parts(report), used):
            lines += row("", parts, width, most=2)
        if report.findings:
            words = plural(len(report.findings), "finding")
            lines += row("", [f"{words}, first: {report.findings[0].subject}"], width, most=1)
    return [*lines, *_next(next_commands)]


def _next(commands: Sequence[str]) -> list[str]:
    """A line a command, none broken: they are there to be copied."""
    return [f" {'' if at else 'next':<8} {command}" for at, command in enumerate(commands)]


_BAR: Final = 32
"""Columns of a bar that is full."""
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_BARS: Final = (
    ("useful", "useful_gpu_s"),
    ("spinning", "spin_gpu_s"),
    ("idle", "idle_gpu_s"),
    ("empty", "no_process_gpu_s"),
    ("unknown", "unknown_gpu_s"),
)
"""What GPUs did → the seconds of it."""
_LEAST_BAR_FRAC: Final = 0.005
_STANDS_OUT_FRAC: Final = 0.1


def _verdict(report: JobReport) -> list[str]:
    """Return in a line what the GPU time was worth; none where it is unknown."""
    waste, findings = report.waste, report.findings
    if not report.gpus or not waste.is_measured:
        return []
    total_s = waste.total_gpu_s
    wasted_s = total_s - waste.useful_gpu_s - waste.unknown_gpu_s
    parts = [
        f"{percent(waste.useful_gpu_s / total_s)} of GPU time useful",
        f"{gpu_time(wasted_s, like_s=total_s).split(' ')[0]} of {gpu_time(total_s)} wasted",
        plural(len(findings), "finding") if findings else "no findings",
    ]
    return dotted(parts)


def _gpu_block(report: JobReport, width: int) -> Block:
    """What the GPUs did: in words on a line, with room as bars."""
    forms = [row("GPUs", gpu_parts(report), width, most=most) for most in (1, 2, 3)]
    if bars := [_bar(*bar, width=width) for bar in _bars(report)]:
        forms += [
            [*bars, *row("GPUs", dotted(gpu_remarks(report)), width, most=most)]
            for most in (1, 2, 3)
        ]
    return Block(forms=forms, good=3 if bars else 2, weight=12)


def _bars(report: JobReport) -> Iterator[tuple[str, float, str]]:
    """Yield what GPUs did, which part of the time, and the GPUs that did it more than others."""
    total_s = report.waste.total_gpu_s
    if not report.waste.is_measured:
        return
    for word, key in _BARS:
        frac = getattr(report.waste, key) / total_s
        if frac < _LEAST_BAR_FRAC and word != "useful":
            continue
        more = [
            one.label
            for one in report.gpus
            if one.waste.total_gpu_s > 0
            and getattr(one.waste, key) / one.waste.total_gpu_s > frac + _STANDS_OUT_FRAC
        ]
        yield word, frac, names_shown(more, 2) if more and word != "useful" else ""


def _bar(word: str, frac: float, note: str, *, width: int) -> str:
    """Return a bar with its name before it, its share and a note behind it."""
    full = min(_BAR, width - 24)
    eighths = round(8 * full * min(frac, 1.0))
    drawn = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
    return f" {word:<8} {drawn:<{full}} {percent(frac):>5}  {note}".rstrip()[:width]


def _rows(report: JobReport) -> list[tuple[str, list[str], int, int]]:
    return [
        ("energy", energy_parts(report), 4, 5),
        ("CPUs", cpu_parts(report), 2, 6),
        ("ranks", rank_parts(report), 3, 7),
        ("memory", memory_parts(report), 2, 2),
        ("clocks", throttling_parts(report), 2, 1),
    ]


def _block(label: str, parts: list[str], most: int, weight: int, *, width: int) -> Block:
    least = most // 2
    forms = [row(label, parts, width, most=lines) for lines in range(least, most + _SPARE + 1)]
    spare = frozenset(range(most - least + 1, len(forms)))
    return Block(forms=forms, good=0, weight=weight, spare=spare)


def headline(report: JobReport, now_s: float | None = None) -> list[str]:
    """What the report is about: job, state, time, size."""
    job = report.job
    name = " ".join(word for word in (job.name, job.job_id) if word)
    if job.array_task is not None and not (job.job_id or "").endswith(f"_{job.array_task}"):
        name += f" task {job.array_task}"
    parts = [name or "samples", *_state(report, now_s), *_size(report), *_requeues(report)]
    if job.synthetic and report.gpus:
        parts.append("synthetic: measured by a fake driver")
    return dotted([part for part in parts if part])


def _size(report: JobReport) -> list[str]:
    """GPUs and nodes; where no GPU was seen, whether one was wanted."""
    job = report.job
    nodes = plural(job.nodes, "node")
    if job.gpus:
        return [f"{plural(job.gpus, 'GPU')} on {nodes}"]
    if not job.gpus_because:
        return [f"no GPUs on {nodes}"]
    asked = f" ({job.gpus_asked:,} requested)" if job.gpus_asked else ""
    return [f"GPUs not measured: {job.gpus_because}{asked}", nodes]


def _state(report: JobReport, now_s: float | None) -> list[str]:
    job = report.job
    measured_s = max(0.0, report.ended_s - report.started_s)
    took = format_duration(measured_s)
    if is_running(report):
        age_s = measured_s if now_s is None else max(measured_s, now_s - report.started_s)
        until = [f"measured until {took}"] if age_s - measured_s >= _BEHIND_S else []
        return [f"{job.state} for {format_duration(age_s)}", *until]
    code = f", exit code {job.exit_code}" if job.exit_code else ""
    return [f"{job.state} in {took}{code}" if job.state else took]


def _requeues(report: JobReport) -> list[str]:
    lost = [one for one in report.incarnations if one.is_lost]
    if not lost:
        return []
    lost_s = format_duration(sum(one.ended_s - one.started_s for one in lost))
    times = "once" if len(lost) == 1 else f"{len(lost)} times"
    lost_j = whole_sum(one.gpu_energy.value_j for one in lost)
    joules = "" if lost_j is None else f" and {energy(lost_j)}"
    return [f"requeued {times} (at most {lost_s}{joules} lost)"]
