"""The report as one HTML file that needs nothing else: no network, no font, no other file.

Its Content-Security-Policy (W3C, CSP level 3) allows the scripts and the style sheet in it by their
digests, pictures from data: URIs, and nothing else: no request, no eval, no inline handler. BokehJS
makes style elements while it draws, whose texts cannot be known before; they carry the page's
nonce, which our own script gives to them, so that nothing else may style the page.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import jinja2
from markupsafe import Markup
from msgspec import Struct, field, structs

from hpckit.account.finding import ReportFinding, grouped
from hpckit.account.page.figures import (
    NOT_MEASURED,
    addends,
    behind_words,
    clean,
    clock_time,
    duration,
    energy_words,
    gpu_hours,
    gpu_words,
    joules,
    percent,
    saving_words,
    significant,
    source_words,
)
from hpckit.account.page.heat_map import chosen_gpus, heat_map
from hpckit.account.page.phrases import why_unknown
from hpckit.account.page.plots import PlotGroup, gpu_group, group_svg, plot_data, rank_groups
from hpckit.account.page.screen import is_about_gpus
from hpckit.account.page.tables import tables
from hpckit.account.values import (
    GPUS_ALONE,
    Advice,
    Conservation,
    Cost,
    Energy,
    JobReport,
    RankAccount,
    Share,
    ranks_by_gpu,
)
from hpckit.core.errors import RenderError
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


class PlotLibrary(Struct, frozen=True, kw_only=True):
    """A library that draws in the browser: the whole of its JavaScript; None where it is missing.

    Without `script`, `because` says why, and what would change it.
    """

    name: str
    version: str | None = None
    script: str | None = None
    because: str = ""


class PageParts(Struct, frozen=True, kw_only=True):
    """What a page is made of besides its report.

    `texts` are the templates by name (`report/page.html.j2`, `report/report.css`,
    `report/plots.js`); `hpckit` is the version that makes the page.
    """

    texts: Mapping[str, str]
    pictures: tuple[NodePicture, ...] = ()
    plots: PlotLibrary = field(default_factory=lambda: PlotLibrary(name="none"))
    hpckit: str = ""


NO_JOB: Final = "samples"
"""What stands for a job's name where `hpckit sample` measured without one, as on the screen."""
_MOST_FINDINGS: Final = 100
_MOST_BARS: Final = 64
_MOST_PICTURES: Final = 4
_KNOWN_ENDS: Final = {"COMPLETED": "good", "RUNNING": "plain", "PENDING": "plain"}


Values = dict[str, Any]
"""What the template shows, by the names that it has there."""


def title(report: JobReport) -> str:
    """`llama-8b 4242_7`: what the job is called; `samples` of no job."""
    job = report.job
    number = clean(job.job_id) if job.job_id else ""
    if number and job.array_task is not None:
        number = f"{number}_{job.array_task}"
    parts = [clean(job.name) if job.name else "", number]
    return " ".join(part for part in parts if part) or NO_JOB


def state(report: JobReport) -> tuple[str, str]:
    """Slurm's word for how the job is or ended, and how it looks; samples of no job have none."""
    job = report.job
    if job.state is None and title(report) == NO_JOB:
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
    limit = "" if limit_s is None else f"of at most {format_time_limit(round(limit_s))}"
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
        about = "GPU energy before a requeue, less what a checkpoint kept of it"
        yield _fact("lost to restarts, at most", joules(energy.lost_gpu_j), about)


def _energy(name: str, energy: Energy) -> Values:
    return _fact(name, energy_words(energy), source_words(energy))


def _cost(cost: Cost) -> Iterator[Values]:
    """What the energy costs, each of what, if not of all; the first also what factors lack."""
    because = clean(cost.because)
    alone = GPUS_ALONE if cost.is_of_gpus else ""
    found = []
    if cost.facility_j is not None:
        pue = "of the facility" if cost.pue is None else f"at PUE {significant(cost.pue)}"
        found.append((f"energy {pue}", joules(cost.facility_j)))
    if cost.price is not None:
        found.append(("cost of energy", f"{cost.price:.2f} {clean(cost.currency or '')}".rstrip()))
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
        ("useful", "useful", "kernels ran and did work", waste.useful_gpu_s),
        ("spin", "communicating", "kernels ran and mostly waited", waste.spin_gpu_s),
        ("idle", "idle", "a process held it, no kernel ran", waste.idle_gpu_s),
        ("none", "no process", "held, and nothing computed on it", waste.no_process_gpu_s),
        ("unknown", NOT_MEASURED, "no sample says", waste.unknown_gpu_s),
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


def advice(found: Sequence[Advice]) -> tuple[Values, ...]:
    """Changes to the job file, each as `key: now → proposed`."""
    return tuple(
        {
            "subject": clocks(
                f"{clean(one.key)}: {clean(one.now or 'not set')} → {clean(one.proposed)}"
            ),
            "because": clean(one.because),
            "cost": saving_words(one.saving),
        }
        for one in found[:_MOST_FINDINGS]
    )


def rank_bars(ranks: Sequence[RankAccount]) -> tuple[Values, ...]:
    """How busy each rank was and how far behind; of many, those that are the farthest behind."""
    known = [one for one in ranks if one.busy_frac is not None or one.behind_frac is not None]
    if not known:
        return ()
    shown = list(ranks)
    if len(shown) > _MOST_BARS:
        worst = sorted(known, key=lambda one: -(one.behind_frac or 0.0))[:_MOST_BARS]
        shown = sorted(worst, key=lambda one: (one.restart, one.rank))
    has_runs = len({one.restart for one in ranks}) > 1
    return tuple(_bar(one, f"run {one.restart}" if has_runs else "") for one in shown)


def _bar(rank: RankAccount, run: str) -> Values:
    """A rank's busy share as a bar; `busy` and `behind` in percent of the bar, "" unmeasured."""
    busy, behind = rank.busy_frac, rank.behind_frac
    parts = [run, f"busy {percent(busy)}", f"behind {behind_words(behind)}"]
    return {
        "name": f"rank {rank.rank}",
        "busy": "" if busy is None else f"{min(max(busy, 0), 1) * 100:.2f}",
        "behind": f"{min(max(behind, 0), 1) * 100:.2f}" if behind else "",
        "text": " · ".join(filter(None, parts)),
    }


def conservation(found: Conservation | None) -> str:
    """The sum of the ranks and what no rank used, beside the sum of the GPUs."""
    if found is None:
        return ""
    ranks, rest, gpus = addends(found.ranks_j, found.idle_remainder_j, found.gpus_j)
    over = joules(found.error_j)
    return f"ranks {ranks} + idle remainder {rest} = GPUs {gpus}, left over {over}"


PAGE: Final = "report/page.html.j2"
STYLE: Final = "report/report.css"
SCRIPTS: Final = ("report/styles.js", "report/plots.js")
"""What runs before the plotting library, and after it."""
_MOST_NAMED: Final = 8
_END_OF_SCRIPT: Final = re.compile(r"</(?:script|style)|<!--", re.IGNORECASE)


def report_html(
    report: JobReport, parts: PageParts, cache: jinja2.BytecodeCache | None = None
) -> str:
    """The page; `cache` keeps the compiled template, and changes nothing but the time.

    Raises RenderError with the template that is missing or at fault.
    """
    for name in (PAGE, STYLE, *SCRIPTS):
        if name not in parts.texts:
            raise RenderError("there is no such template", template=name)
    scripts, lacks = _scripts(parts.plots, parts.texts)
    gpus, ranks = _gpu_plots(report), rank_groups(report)
    data = plot_data([*gpus, *ranks]) if scripts else ""
    style = parts.texts[STYLE]
    seed = f"{data}{report.job!r}{report.findings!r}{report.energy!r}"
    nonce = hashlib.sha256(seed.encode(errors="replace")).hexdigest()[:32]
    values = {
        "csp": _policy(scripts, style, nonce if scripts else None),
        "nonce": nonce if scripts else None,
        "style": Markup(style),  # noqa: S704  hpckit's own text, or the operator's
        "scripts": [Markup(script) for script in scripts],  # noqa: S704  the same, and bokeh's
        "data": Markup(data),  # noqa: S704  JSON without <, > and &
        "gpu_plots": [_drawn(group) for group in gpus],
        "rank_plots": [_drawn(group) for group in ranks],
        "plots_left_out": _left_out(report, len(gpus)),
        "heat": _heat(report),
        "pictures": [_picture(one) for one in parts.pictures],
        "lacks": lacks,
        "plots": parts.plots,
        "hpckit": parts.hpckit,
        **_texts(report),
    }
    return _rendered(parts.texts[PAGE], values, cache)


def _drawn(group: PlotGroup) -> dict[str, Any]:
    return {
        "key": group.key,
        "title": group.title,
        "about": group.about,
        "svg": Markup(group_svg(group)),  # noqa: S704  escaped where it is drawn
        "shades": sorted({shade.kind for shade in group.shades}),
    }


def _texts(report: JobReport) -> dict[str, Any]:
    word, look = state(report)
    job = report.job
    many = (
        f"{number} {noun}" + ("" if number == 1 else "s")
        for number, noun in ((job.gpus, "GPU"), (job.nodes, "node"))
    )
    return {
        "title": title(report),
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
        "advice": advice(report.advice),
        "missing": [clean(sentence) for sentence in report.missing[:100]],
        "bars": rank_bars(report.ranks),
        "ranks": len(report.ranks),
        "tables": tables(report),
        "conservation": conservation(report.energy.conservation),
    }


def _gpu_plots(report: JobReport) -> list[PlotGroup]:
    ranks = ranks_by_gpu(report)
    found = []
    for at, (gpu, because) in enumerate(chosen_gpus(report)):
        of = ranks.get(gpu.place, ())
        about = f"rank {', '.join(map(str, of[:_MOST_NAMED]))}" if of else "no rank"
        if gpu.restart:
            about += f", run {gpu.restart}"
        if because:
            about += f" · {because}"
        found.append(gpu_group(gpu, f"gpu-{at}", report.started_s, (gpu_words(gpu), about)))
    return [group for group in found if group.panels]


def _left_out(report: JobReport, shown: int) -> str:
    bare = sum(not gpu.curves for gpu in report.gpus)
    parts = []
    if bare:
        parts.append(f"{bare} of {len(report.gpus)} GPUs have no samples over time")
    if shown < len(report.gpus) - bare:
        parts.append(f"{shown} of {len(report.gpus)} GPUs are drawn: findings and extremes")
    return "; ".join(parts)


def _heat(report: JobReport) -> dict[str, Any] | None:
    found = heat_map(report.gpus) if len(report.gpus) > 1 else None
    if found is None:
        return None
    return {**structs.asdict(found), "svg": Markup(found.svg)}  # noqa: S704  escaped there


def _picture(picture: NodePicture) -> dict[str, Any]:
    names = [clean(name) for name in picture.nodes[:_MOST_NAMED]]
    more = len(picture.nodes) - len(names)
    text = ", ".join(names) + (f" and {more} more" if more else "")
    return {"nodes": text, "svg": Markup(picture.svg)}  # noqa: S704  escaped where it is drawn


def _scripts(plots: PlotLibrary, texts: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    if plots.script is None:
        return (), f"Plots cannot be zoomed: {plots.because}" if plots.because else ""
    before, after = (texts[name] for name in SCRIPTS)
    scripts = (before, plots.script, after)
    if any(map(_END_OF_SCRIPT.search, scripts)):
        return (), f"Plots cannot be zoomed: {plots.name} {plots.version} does not fit into a page"
    return scripts, ""


def _policy(scripts: Sequence[str], style: str, nonce: str | None) -> str:
    digests = " ".join(_digest(script) for script in scripts) or "'none'"
    styles = _digest(style) + (f" 'nonce-{nonce}'" if nonce else "")
    return (
        f"default-src 'none'; script-src {digests}; style-src {styles}; img-src data:; "
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


def node_pictures(topologies: Mapping[str, NodeTopology]) -> tuple[NodePicture, ...]:
    """A picture of each kind of node, by the names of the nodes; the largest kinds, at most four.

    Odd findings of a node are marked in it as `hpckit inspect` marks them.
    """
    answers = [
        NodeAnswer(node=node, topology=topology, findings=tuple(node_findings(topology)))
        for node, topology in topologies.items()
    ]
    return tuple(
        NodePicture(nodes=group.nodes, svg=node_svg(group.topology, group.findings))
        for group in group_alike(answers)[:_MOST_PICTURES]
    )
