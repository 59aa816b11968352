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
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jinja2
from markupsafe import Markup
from msgspec import Struct

from hpckit.errors import RenderError
from hpckit.model.account import JobReport
from hpckit.model.gpu_ranks import ranks_by_gpu
from hpckit.model.report_page import NodePicture, PageParts, PlotLibrary
from hpckit.report import page_view
from hpckit.report.energy_words import is_about_gpus
from hpckit.report.finding_groups import grouped
from hpckit.report.heat_map import heat_map
from hpckit.report.page_tables import tables
from hpckit.report.page_words import clean, clock_time, gpu_words
from hpckit.report.plot_choice import chosen_gpus
from hpckit.report.plot_data import plot_data
from hpckit.report.plot_panels import PlotGroup, gpu_group
from hpckit.report.plot_svg import group_svg
from hpckit.report.rank_plots import rank_groups

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


class _Drawn(Struct, frozen=True, kw_only=True):
    key: str
    title: str
    about: str
    svg: Markup
    shades: tuple[str, ...]


def _drawn(group: PlotGroup) -> _Drawn:
    return _Drawn(
        key=group.key,
        title=group.title,
        about=group.about,
        svg=Markup(group_svg(group)),  # noqa: S704  escaped where it is drawn
        shades=tuple(sorted({shade.kind for shade in group.shades})),
    )


def _texts(report: JobReport) -> dict[str, Any]:
    word, look = page_view.state(report)
    job = report.job
    many = [f"{job.gpus} GPUs" if job.gpus != 1 else "1 GPU"]
    many.append(f"{job.nodes} nodes" if job.nodes != 1 else "1 node")
    return {
        "title": page_view.title(report),
        "state": word,
        "state_look": look,
        "size": " on ".join(many),
        "times": f"{clock_time(report.started_s)} to {clock_time(report.ended_s)}",
        "synthetic": job.synthetic and bool(report.gpus),
        "folder": clean(job.folder or ""),
        "facts": page_view.facts(report),
        "has_gpus": is_about_gpus(report),
        "pieces": page_view.pieces(report.waste),
        "findings": page_view.findings(grouped(report.findings)),
        "advice": page_view.advice(report.advice),
        "missing": [clean(sentence) for sentence in report.missing[:100]],
        "bars": page_view.rank_bars(report.ranks),
        "ranks": len(report.ranks),
        "tables": tables(report),
        "conservation": page_view.conservation(report.energy.conservation),
    }


def _gpu_plots(report: JobReport) -> list[PlotGroup]:
    ranks = ranks_by_gpu(report)
    found = []
    for at, (gpu, because) in enumerate(chosen_gpus(report)):
        of = ranks.get((gpu.restart, gpu.node, gpu.uuid), ())
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
    return {"svg": Markup(found.svg), "title": found.title, "note": found.note}  # noqa: S704


def _picture(picture: NodePicture) -> dict[str, Any]:
    names = [clean(name) for name in picture.nodes[:_MOST_NAMED]]
    more = len(picture.nodes) - len(names)
    text = ", ".join(names) + (f" and {more} more" if more else "")
    return {"nodes": text, "svg": Markup(picture.svg)}  # noqa: S704  of hpckit.draw, escaped there


def _scripts(plots: PlotLibrary, texts: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """The scripts of the page, and why there are none."""
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
