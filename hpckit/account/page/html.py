"""The report as one HTML file that needs nothing else: no network, no font, no other file.

Its Content-Security-Policy (W3C, CSP level 3) allows the scripts and the style sheet in it by their
digests, pictures from data: URIs, and nothing else: no request, no eval, no inline handler. Plots
are SVG that needs no script; the script adds a cursor and copies commands.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

import jinja2
from markupsafe import Markup
from msgspec import Struct, structs

from hpckit.account.advice.advice import options_text
from hpckit.account.finding import ReportFinding, grouped
from hpckit.account.page.figures import (
    NO_JOB,
    NOT_MEASURED,
    addends,
    clean,
    clock_time,
    duration,
    energy_words,
    gpu_hours,
    job_title,
    joules,
    percent,
    saving_words,
    significant,
    source_words,
)
from hpckit.account.page.heat_map import heat_map
from hpckit.account.page.job_on_node import job_pictures
from hpckit.account.page.phrases import why_unknown
from hpckit.account.page.plots import FEW, SHOWN_H, Plot, TimeAxis, marks, plots, time_axis
from hpckit.account.page.screen import is_about_gpus
from hpckit.account.page.tables import tables
from hpckit.account.page.timeline import timeline
from hpckit.account.page.unusual import unusual_gpus
from hpckit.account.values import (
    GPUS_ALONE,
    Advice,
    Conservation,
    Cost,
    Energy,
    JobReport,
    Share,
)
from hpckit.core.errors import RenderError
from hpckit.core.late import regex
from hpckit.core.quantities import clocks, mass
from hpckit.core.units import format_time_limit
from hpckit.node.answers import NodeAnswer, group_alike
from hpckit.node.picture.picture import node_svg
from hpckit.node.rules.rules import node_findings
from hpckit.node.topology import NodeTopology


class NodePicture(Struct, frozen=True, kw_only=True):
    """A kind of node as an SVG file in itself, and the nodes of the job that are of that kind."""

    nodes: tuple[str, ...]
    svg: str


class PageParts(Struct, frozen=True, kw_only=True):
    """What a page is made of besides its report.

    `texts` are the templates by name (`report/page.html.j2`, `report/report.css`,
    `report/page.js`); `commands` submit the job again, each with the advice of that place, and the
    last with all of it; `hpckit` is the version that makes the page.
    """

    texts: Mapping[str, str]
    pictures: tuple[NodePicture, ...] = ()
    commands: tuple[str, ...] = ()
    hpckit: str = ""


_MOST_FINDINGS: Final = 100
_MOST_PICTURES: Final = 4
_KNOWN_ENDS: Final = {"COMPLETED": "good", "RUNNING": "plain", "PENDING": "plain"}


Values = dict[str, Any]
"""What the template shows, by the names that it has there."""


def state(report: JobReport) -> tuple[str, str]:
    """Slurm's word for how the job is or ended, and how it looks; samples of no job have none."""
    job = report.job
    if job.state is None and job_title(report) == NO_JOB:
        return "", "plain"
    if job.state is None:
        return "state unknown", "plain"
    look = _KNOWN_ENDS.get(job.state, "bad")
    word = clean(job.state)
    return (f"{word}, exit code {job.exit_code}" if job.exit_code else word), look


def _fact(name: str, value: str, about: str = "") -> Values:
    return {"name": name, "value": value, "about": about, "missing": value == NOT_MEASURED}


def facts(report: JobReport) -> Iterator[Values]:
    """Return the answers that stand first: a name, its value, and what it rests on."""
    job, energy, waste = report.job, report.energy, report.waste
    limit_s = job.time_limit_s
    limit = "" if limit_s is None else f"time limit {format_time_limit(round(limit_s))}"
    yield _fact("took", duration(report.ended_s - report.started_s), limit)
    has_gpus = is_about_gpus(report)
    if has_gpus:
        yield _energy("GPU energy", energy.gpu)
    yield _energy("node energy", energy.node)
    useful = waste.useful_gpu_s / waste.total_gpu_s if waste.is_measured else None
    hours = gpu_hours(waste.total_gpu_s)
    if has_gpus:
        about = f"of {hours}" if useful is not None else why_unknown(report.gpus, hours)
        yield _fact("useful", percent(useful), about)
    yield from _cost(report.cost)
    if energy.lost_gpu_j:
        about = "GPU energy before a requeue; checkpoints may have saved part of the work"
        yield _fact("lost to restarts (at most)", joules(energy.lost_gpu_j), about)


def _energy(name: str, energy: Energy) -> Values:
    return _fact(name, energy_words(energy), source_words(energy))


def _cost(cost: Cost) -> Iterator[Values]:
    """What the energy costs, each of what, if not of all; the first also what factors lack."""
    because = clean(cost.because)
    alone = GPUS_ALONE if cost.is_of_gpus else ""
    found = []
    if cost.facility_j is not None:
        pue = "with cooling" if cost.pue is None else f"at PUE {significant(cost.pue)}"
        found.append((f"energy {pue}", joules(cost.facility_j)))
    if cost.price is not None:
        found.append(("energy cost", f"{cost.price:.2f} {clean(cost.currency or '')}".rstrip()))
    if cost.co2_g is not None:
        found.append(("carbon", f"{mass(cost.co2_g, significant)} CO2e"))
    for at, (name, value) in enumerate(found):
        yield _fact(name, value, alone if at else because)


def pieces(waste: Share) -> tuple[Values, ...]:
    """GPU-hours by what they were spent for, but no time; `first` and `width` are percent."""
    total = waste.total_gpu_s
    if total <= 0:
        return ()
    named = (
        ("useful", "useful", "kernels did useful work", waste.useful_gpu_s),
        ("spin", "communicating", "kernels ran but mostly waited", waste.spin_gpu_s),
        ("idle", "idle", "a process had the GPU open, no kernel ran", waste.idle_gpu_s),
        ("none", "no process", "allocated, but no process used it", waste.no_process_gpu_s),
        ("unknown", NOT_MEASURED, "no samples", waste.unknown_gpu_s),
    )
    found: list[Values] = []
    first = 0.0
    for look, name, about, spent in named:
        width = max(spent, 0.0) / total * 100
        if width > 0:
            found.append(
                {
                    "look": look,
                    "name": name,
                    "about": about,
                    "hours": gpu_hours(spent),
                    "share": percent(spent / total),
                    "first": f"{first:.3f}",
                    "width": f"{width:.3f}",
                }
            )
        first += width
    return tuple(found)


def findings(found: Sequence[ReportFinding]) -> tuple[Values, ...]:
    """Findings in the report's order, at most 100."""
    return tuple(
        {
            "severity": one.severity,
            "subject": clean(one.subject),
            "because": clean(one.because),
            "remedy": clean(one.remedy),
            "cost": ", ".join(
                words(wasted)
                for words, wasted in ((gpu_hours, one.wasted_gpu_s), (joules, one.wasted_j))
                if wasted is not None
            ),
        }
        for one in found[:_MOST_FINDINGS]
    )


def advice(found: Sequence[Advice], commands: Sequence[str]) -> tuple[Values, ...]:
    """Changes to the job file, each as `key: now → proposed`, with a command to paste.

    Where it is unknown how the job was submitted the command is the option alone.
    """
    return tuple(
        {
            "subject": clocks(
                f"{clean(one.key)}: {clean(one.now or 'not set')} → {clean(one.proposed)}"
            ),
            "because": clean(one.because),
            "cost": saving_words(one.saving),
            "command": clean(command or options_text((one,))),
        }
        for one, command in zip_longest(found[:_MOST_FINDINGS], commands[: len(found)])
    )


def conservation(found: Conservation | None) -> str:
    """The sum of the ranks and what no rank used, beside the sum of the GPUs."""
    if found is None:
        return ""
    ranks, rest, gpus = addends(found.ranks_j, found.idle_remainder_j, found.gpus_j)
    over = joules(found.error_j)
    return f"ranks {ranks} + idle remainder {rest} = GPUs {gpus}, difference {over}"


PAGE: Final = "report/page.html.j2"
STYLE: Final = "report/report.css"
SCRIPT: Final = "report/page.js"
_STYLE_IN: Final = regex(r"<style[^>]*>(.*?)</style>", re.DOTALL)
_MOST_NAMED: Final = 8


def report_html(
    report: JobReport, parts: PageParts, cache: jinja2.BytecodeCache | None = None
) -> str:
    """The page; `cache` keeps the compiled template, and changes nothing but the time.

    Raises RenderError with the template that is missing or at fault.
    """
    for name in (PAGE, STYLE, SCRIPT):
        if name not in parts.texts:
            raise RenderError("template not found", template=name)
    style, script = parts.texts[STYLE], parts.texts[SCRIPT]
    values = {
        "csp": _policy(script, [style, *_styles_in(parts.pictures)]),
        "style": Markup(style),  # noqa: S704  hpckit's own text, or the admins'
        "script": Markup(script),  # noqa: S704  the same
        "pictures": [_picture(one) for one in parts.pictures],
        "hpckit": parts.hpckit,
        **_drawn(report),
        **_texts(report),
        "advice": advice(report.advice, parts.commands),
        "all_advice": clean(parts.commands[-1])
        if len(report.advice) > 1 and parts.commands
        else "",
    }
    return _rendered(parts.texts[PAGE], values, cache)


def _drawn(report: JobReport) -> Values:
    """What is over time, on one axis."""
    axis = time_axis(report)
    named, more = unusual_gpus(report)
    found, zeros = plots(report, axis, named)
    bare = sum(not gpu.curves for gpu in report.gpus)
    notes = [f"{bare} of {len(report.gpus)} GPUs have no samples over time"] if bare else []
    notes += [f"0 throughout: {', '.join(zeros)}"] if zeros else []
    return {
        "axis": axis,
        "marks": Markup(axis.svg()),  # noqa: S704  numbers alone
        "named": list(named.values()),
        "more_unusual": more,
        "gpus_drawn": len({(gpu.node, gpu.uuid) for gpu in report.gpus if gpu.curves}),
        "few": FEW,
        "height": SHOWN_H,
        "plots": [_plot(one) for one in found],
        "plot_notes": notes,
        "heat": _heat(report, axis),
        "timeline": timeline(report, axis),
    }


def _plot(plot: Plot) -> Values:
    return {
        **structs.asdict(plot),
        "about": plot.about,
        "curves": Markup(plot.curves),  # noqa: S704  numbers alone
        "marks": Markup(marks(plot.ticks, SHOWN_H)),  # noqa: S704  escaped there
    }


def _texts(report: JobReport) -> dict[str, Any]:
    word, look = state(report)
    job = report.job
    many = (
        f"{number} {noun}" + ("" if number == 1 else "s")
        for number, noun in ((job.gpus, "GPU"), (job.nodes, "node"))
    )
    return {
        "title": job_title(report),
        "state": word,
        "state_look": look,
        "size": " on ".join(many),
        "times": f"{clock_time(report.started_s)} to {clock_time(report.ended_s)}",
        "synthetic": job.synthetic and bool(report.gpus),
        "folder": clean(job.folder or ""),
        "facts": facts(report),
        "has_gpus": is_about_gpus(report),
        "pieces": pieces(report.waste),
        "findings": findings(grouped(report.findings)),
        "missing": [clean(sentence) for sentence in report.missing[:100]],
        "tables": tables(report),
        "conservation": conservation(report.energy.conservation),
    }


def _heat(report: JobReport, axis: TimeAxis) -> Values | None:
    found = heat_map(report.gpus, axis) if len(report.gpus) > 1 else None
    if found is None:
        return None
    return {**structs.asdict(found), "rows": Markup(found.rows)}  # noqa: S704  escaped there


def _picture(picture: NodePicture) -> dict[str, Any]:
    names = [clean(name) for name in picture.nodes[:_MOST_NAMED]]
    more = len(picture.nodes) - len(names)
    text = ", ".join(names) + (f" and {more} more" if more else "")
    return {"nodes": text, "svg": Markup(picture.svg)}  # noqa: S704  escaped where it is drawn


def _styles_in(pictures: Sequence[NodePicture]) -> list[str]:
    """The style sheets of pictures that have their own, such as for the dark."""
    return [style for one in pictures for style in _STYLE_IN.findall(one.svg)]


def _policy(script: str, styles: Sequence[str]) -> str:
    return (
        f"default-src 'none'; script-src {_digest(script)}; "
        f"style-src {' '.join(dict.fromkeys(map(_digest, styles)))}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _rendered(text: str, values: dict[str, Any], cache: jinja2.BytecodeCache | None) -> str:
    environment = jinja2.Environment(
        loader=jinja2.DictLoader({PAGE: text}),
        bytecode_cache=cache,
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    try:
        return environment.get_template(PAGE).render(values)
    except jinja2.TemplateSyntaxError as error:
        where = f"{PAGE} line {error.lineno}"
        raise RenderError(str(error.message), template=where) from error
    except Exception as error:  # a template is somebody's program, and may fail in any way
        raise RenderError(f"{type(error).__name__}: {error}", template=PAGE) from error


def node_pictures(
    report: JobReport, topologies: Mapping[str, NodeTopology]
) -> tuple[NodePicture, ...]:
    """Return at most four pictures: of nodes whose GPUs have findings, with their ranks.

    Without such a finding it is one node; of a job without GPUs one of each kind of node, with
    the findings of `hpckit inspect`.
    """
    if report.gpus:
        pictures = job_pictures(report, topologies, _MOST_PICTURES)
        return tuple(NodePicture(nodes=(node,), svg=svg) for node, svg in pictures)
    answers = [
        NodeAnswer(node=node, topology=topology, findings=tuple(node_findings(topology)))
        for node, topology in topologies.items()
    ]
    return tuple(
        NodePicture(nodes=group.nodes, svg=node_svg(group.topology, group.findings))
        for group in group_alike(answers)[:_MOST_PICTURES]
    )
