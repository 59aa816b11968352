"""The files that `hpckit report` writes beside what it prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hpckit.cli import output

if TYPE_CHECKING:
    from collections.abc import Callable

    from hpckit.cli.report_made import MadeReport


def write_parquet(made: MadeReport, path: Path, progress: Callable[[int, int], None]) -> None:
    """Write all samples, and say where. Raises StorageFailed, ToolMissing."""
    from hpckit import wiring
    from hpckit.app.archive import archive

    samples, size_bytes = archive(
        made.gathered, made.store, wiring.account_archive(), path, progress
    )
    each = f", {size_bytes / samples:.0f} bytes each" if samples else ""
    output.talk(f"wrote {_name(path)}: {samples:,} GPU samples{each}")


def write_html(made: MadeReport, path: Path) -> None:
    """Write the page, and say where. Raises StorageFailed, RenderError."""
    from msgspec.structs import replace

    import hpckit
    from hpckit import wiring
    from hpckit.app.report_pictures import node_pictures
    from hpckit.app.report_topologies import node_topologies
    from hpckit.app.sites import load_templates
    from hpckit.model.report_page import PageParts
    from hpckit.report.html import report_html

    topologies, unread = node_topologies(made.store, made.gathered.found)
    missing = tuple(dict.fromkeys((*made.report.missing, *unread)))
    parts = PageParts(
        texts=load_templates(wiring.resources()).texts,
        pictures=node_pictures(topologies),
        plots=wiring.plot_library(),
        hpckit=hpckit.__version__,
    )
    report = replace(made.report, missing=missing)
    page = report_html(report, parts, wiring.template_cache()).encode()
    with wiring.whole_file(path) as file:
        file.write(page)
    output.talk(f"wrote {_name(path)}: {len(page) / 1e6:.1f} MB, complete in itself")
    if parts.plots.because:
        output.talk(f"note  its plots are drawings without zoom: {parts.plots.because}")


def _name(path: Path) -> str:
    """The file's name on one line: a terminal is not steered by it."""
    return output.one_line(str(path))
