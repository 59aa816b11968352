"""What the report's page is made of besides the report: pictures of nodes, a plotting library."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


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
