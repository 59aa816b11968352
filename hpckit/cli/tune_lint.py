"""`hpckit tune --lint FILE`: what is wrong with the communication settings of a file."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from hpckit.cli import output
from hpckit.cli.inspect_screen import fail_code
from hpckit.cli.job_options import typed_words

if TYPE_CHECKING:
    from hpckit.app.prepare import JobSource
    from hpckit.app.tune import Tuned
    from hpckit.cli.cmd_tune import TuneOptions
    from hpckit.model.comm_lint import LintFacts, LintFinding
    from hpckit.model.hardware import NodeTopology

LINT_SCHEMA = "hpckit.lint/1"


def lint_file(options: TuneOptions, file: str, tuned: Tuned, source: JobSource) -> int:
    """Print what is wrong; gives the exit code. Raises ParseError, StorageFailed."""
    from hpckit import wiring
    from hpckit.app.lint import lint_text

    data, name = wiring.read_capture(file)
    facts = tuned.facts
    findings = lint_text(
        data, name, nccl=facts.version, library=facts.library, facts=_facts(tuned, source.topology)
    )
    if options.as_json:
        output.document(_document(name, tuned, findings))
    else:
        _say(options, name, findings)
    return fail_code(findings, options.fail_on)


def _facts(tuned: Tuned, topology: NodeTopology | None) -> LintFacts:
    """Where the settings are to hold; of nodes that nobody named the number is not known."""
    from hpckit.model.comm_lint import LintFacts

    nodes = tuned.facts.nodes if tuned.are_nodes_said else None
    if topology is None:
        return LintFacts(plugin=tuned.facts.plugin, nodes=nodes, derived=tuned.derived)
    interfaces = [name for nic in topology.nics for name in nic.netdevs]
    devices = [nic.name for nic in topology.nics if nic.kind is not None]
    return LintFacts(
        interfaces=tuple(interfaces) or None,
        nics=tuple(devices) or None,
        plugin=tuned.facts.plugin,
        nodes=nodes,
        is_vm=topology.host.is_virtual_machine,
        derived=tuned.derived,
    )


def _say(options: TuneOptions, name: str, findings: tuple[LintFinding, ...]) -> None:
    from hpckit.cli.inspect_screen import say, screen_width
    from hpckit.report.comm_lint_text import comm_lint_lines

    job = [] if options.job is None else [options.job]
    words = ["hpckit", "tune", *job, "--lint", str(options.lint), *typed_words(options)]
    words += [] if options.fabric is None else ["--fabric", options.fabric]
    words += ["--json", *(["--", *options.command] if options.command else [])]
    is_again = "-" not in (options.lint, options.job, options.topology, options.fabric)
    command = shlex.join(words) if is_again else None
    say(comm_lint_lines(findings, name=name, width=screen_width(), command=command))


def _document(name: str, tuned: Tuned, findings: tuple[LintFinding, ...]) -> dict[str, object]:
    """`hpckit.lint/1`, as docs/reference/json.md describes it."""
    import hpckit
    from hpckit.core.findings import finding_trees

    keys = ("rule", "severity", "because", "remedy", "source", "date", "since")
    version = tuned.facts.version
    return {
        "schema": LINT_SCHEMA,
        "hpckit": hpckit.__version__,
        "file": name,
        "nccl": None if version is None else str(version),
        "findings": finding_trees(findings, keys, line="line_no", name="subject"),
    }
