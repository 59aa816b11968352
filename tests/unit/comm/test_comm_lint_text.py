from __future__ import annotations

from hpckit.comm.lint_rule import LintFinding, comm_lint_lines
from hpckit.core.findings import Severity


def finding(
    line_no: int = 3,
    severity: Severity = Severity.NOTE,
    *,
    subject: str = "NCCL_DEBUG",
    because: str = "it is chatty",
    remedy: str = "leave it out",
) -> LintFinding:
    """A finding about NCCL_DEBUG."""
    return LintFinding(
        rule="nccl-debug-info", line_no=line_no, severity=severity, subject=subject,
        because=because, remedy=remedy, source="env.rst", date="2026-11",
    )  # fmt: skip


def texts(*findings: LintFinding, width: int = 80, command: str | None = None) -> list[str]:
    """The lines of the screen."""
    shown = comm_lint_lines(findings, name="job.sh", width=width, command=command)
    return [line.text for line in shown]


def test_a_finding_has_its_line_and_its_fix() -> None:
    """The count comes first, then what is wrong on which line, what to do, and what shows more."""
    assert texts(finding(), command="hpckit tune --lint job.sh --json") == [
        "job.sh: 1 note",
        "note     line 3 NCCL_DEBUG: it is chatty",
        "         fix: leave it out",
        "next  hpckit tune --lint job.sh --json",
    ]


def test_nothing_to_change() -> None:
    """A file without findings says so, and offers nothing."""
    assert texts(command="hpckit tune --lint job.sh --json") == ["job.sh: nothing to change"]


def test_the_gravest_come_first() -> None:
    """Errors stand before warnings and notes, whatever their lines."""
    shown = texts(finding(1), finding(2, Severity.WARNING), finding(3, Severity.ERROR))
    assert shown[0] == "job.sh: 1 error, 1 warning, 1 note"
    assert [line.split()[0] for line in shown[1::2]] == ["error", "warn", "note"]


def test_lines_fit() -> None:
    """No line is wider than it may be."""
    long = finding(because="a word and another one " * 9, remedy="leave it out " * 9)
    assert max(len(line) for line in texts(long, width=50)) <= 50


def test_many_findings_are_counted() -> None:
    """Of very many the rest is counted."""
    assert "… 5 more: --json has them all" in texts(*(finding(at) for at in range(1, 36)))


def test_a_name_hides_nothing() -> None:
    """What a terminal would obey is shown as escapes, and is in no command."""
    shown = texts(finding(subject="NCCL_\x1b[2J"), command="hpckit tune --lint \x1b")
    assert not any("\x1b" in line for line in shown)
    assert not any(line.startswith("next") for line in shown)
