"""`hpckit check`: what is wrong with a script before it queues, as far as its text tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from hpckit.comm.lint import lint_text
from hpckit.comm.lint_rule import LintFacts
from hpckit.core.errors import ParseError
from hpckit.core.findings import Finding, Level, Notice, Severity, SourcedFinding, gravest_first
from hpckit.script.admission import in_own_options
from hpckit.script.plan import Option
from hpckit.script.releases import Program, lint
from hpckit.slurm.release import SlurmVersion, TopologyKind
from hpckit.slurm.request import Request
from hpckit.slurm.sbatch import explain_refusal
from hpckit.spec.tokens import tokens_in

_SEVERITIES = {
    Level.ERROR: Severity.ERROR,
    Level.NOTE: Severity.NOTE,
    Level.OK: Severity.NOTE,
}


def check_script(
    text: str,
    request: Request,
    obstacles: Sequence[Finding] = (),
    version: SlurmVersion | None = None,
    topology: TopologyKind | None = None,
) -> tuple[Finding, ...]:
    """Return what is wrong with a script and what it asks for, the gravest first.

    `obstacles` is what a cluster has against the request, `version` the release that runs it, None
    where it is not known. Raises nothing: a script that its reader does not follow has a note.
    """
    found: list[Finding] = [*_tokens(text), *_options(request, version, topology), *obstacles]
    found += _communication(text, request)
    return tuple(gravest_first(sorted(found, key=lambda one: getattr(one, "line_no", None) or 0)))


def _tokens(text: str) -> Iterator[SourcedFinding]:
    for line_no, line in enumerate(text.splitlines(), start=1):
        for token in islice(tokens_in(line), 1):
            yield SourcedFinding(
                rule="secret",
                severity=Severity.ERROR,
                subject="secret",
                because=f"what looks like a secret ({token.kind}) stands in the script, and so in "
                "Slurm's records",
                remedy="export it in the shell, and name it: --secret NAME of hpckit submit",
                source="docs/reference/environment.md",
                line_no=line_no,
            )


def _options(
    request: Request, version: SlurmVersion | None, topology: TopologyKind | None
) -> Iterator[SourcedFinding]:
    options = [Option(name=name, value=asked.value) for name, asked in request.options.items()]
    for notice in lint(options, Program.SBATCH, version, topology):
        name = notice.subject.removeprefix("--").partition("=")[0].partition(" ")[0]
        severity = _SEVERITIES[notice.level]
        if version is None and severity is Severity.ERROR:
            severity = Severity.WARNING  # some release refuses it
        yield SourcedFinding(
            rule="slurm-option",
            severity=severity,
            subject=notice.subject,
            because=notice.text,
            remedy=notice.remedy or "leave it out",
            source=notice.source or "sbatch(1)",
            line_no=request.line_no(name),
        )


def _communication(text: str, request: Request) -> Iterator[Finding]:
    facts = LintFacts(nodes=request.nodes if request.says_nodes else None)
    try:
        yield from lint_text(text.encode(), "the script", nccl=None, facts=facts)
    except ParseError as error:
        yield SourcedFinding(
            rule="unread",
            severity=Severity.NOTE,
            subject="script",
            because=f"the settings of communication were not looked at: {error.message}",
            remedy="bash -n says whether it is shell",
            source="docs/reference/lint-rules.md",
            line_no=error.line_no,
        )


def without_lines(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return findings about a script that was rendered: its lines are nobody's to change."""
    return tuple(
        replace(one, line_no=None, remedy=in_own_options(one.remedy))
        if isinstance(one, SourcedFinding) and type(one) is SourcedFinding
        else one
        for one in findings
    )


def as_finding(notice: Notice) -> SourcedFinding:
    """Return what a check of a job file noticed, as a finding."""
    return SourcedFinding(
        rule=notice.subject.removeprefix("--").replace(" ", "-"),
        severity=_SEVERITIES[notice.level],
        subject=notice.subject,
        because=notice.text,
        remedy=notice.remedy or "",
        source=notice.source or "",
    )


def refusal(words: str, request: Request) -> SourcedFinding:
    """Return what sbatch itself said against a script, a warning beside --nodelist.

    `--test-only` refuses a list of fewer nodes than --nodes, which a submission fills up (24.11).
    """
    return SourcedFinding(
        rule="sbatch-refuses",
        severity=Severity.WARNING if "nodelist" in request.options else Severity.ERROR,
        subject="sbatch",
        because=words,
        remedy=explain_refusal(words) or "ask for something else",
        source="sbatch(1), --test-only",
    )
