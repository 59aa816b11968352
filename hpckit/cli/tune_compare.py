"""`hpckit tune --compare LOG`: a run of nccl-tests or a job beside what its machine should give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpckit.cli import output
from hpckit.cli.inspect_screen import fail_code

if TYPE_CHECKING:
    from hpckit.app.compare_run import ComparedRun
    from hpckit.app.tune import Tuned
    from hpckit.cli.cmd_tune import TuneOptions
    from hpckit.model.hardware import NodeTopology

COMPARED_SCHEMA = "hpckit.nccl-run/1"
_TOO_LARGE = "NCCL_DEBUG_FILE=nccl.%h.%p writes a file a rank; those of a few nodes tell most"


def compare_log(
    options: TuneOptions, file: str, tuned: Tuned, topology: NodeTopology | None
) -> int:
    """Print what ran, and what explains a shortfall. Raises ParseError, StorageFailed."""
    from hpckit import wiring
    from hpckit.app.compare_run import compare_run

    data, name = wiring.read_capture(file, size_hint=_TOO_LARGE)
    settings = tuple((setting.name, setting.value) for setting in tuned.env.settings)
    compared = compare_run(data, tuned.facts, tuned.site.platform, topology, settings)
    if options.as_json:
        output.document(_document(name, compared))
    else:
        _say(compared)
    return fail_code(compared.findings, options.fail_on)


def _say(compared: ComparedRun) -> None:
    from hpckit.cli.inspect_screen import say, screen_width
    from hpckit.report.nccl_run_text import nccl_run_lines

    lines = nccl_run_lines(
        compared.run,
        compared.findings,
        predicted=compared.predicted,
        unpredicted=compared.unpredicted,
        width=screen_width(),
    )
    say(lines)


def _document(name: str, compared: ComparedRun) -> dict[str, object]:
    """`hpckit.nccl-run/1`, as docs/reference/json.md describes it."""
    import hpckit
    from hpckit.core.findings import finding_trees
    from hpckit.model.tree import to_tree

    keys = ("rule", "severity", "because", "remedy", "source", "line_no")
    return {
        "schema": COMPARED_SCHEMA,
        "hpckit": hpckit.__version__,
        "file": name,
        "findings": finding_trees(compared.findings, keys),
        "predicted": dict(compared.predicted),
        "unpredicted": compared.unpredicted,
        "run": to_tree(compared.run),
    }
