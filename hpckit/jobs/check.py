"""`hpckit check`: what is wrong with a script before it queues, as far as its text tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from hpckit.comm.lint import lint_text
from hpckit.comm.lint_rule import LintFacts
from hpckit.core.errors import ParseError
from hpckit.core.findings import Finding, Level, Notice, Severity, SourcedFinding, gravest_first
from hpckit.core.process import scrubbed
from hpckit.core.units import parse_slurm_limit_s, parse_slurm_mem_bytes
from hpckit.core.values import dataclass
from hpckit.jobs.limits import Known, LimitsProbe, Told
from hpckit.jobs.slurm_submit import script_file
from hpckit.script.admission import find_obstacles, in_own_options
from hpckit.script.earlier import Earlier, changes, earlier, own_hosts
from hpckit.script.plan import Option
from hpckit.script.releases import Program, lint
from hpckit.script.trial import Trial
from hpckit.slurm.release import SlurmVersion
from hpckit.slurm.request import KNOWN, MEM_OPTIONS, Request, passed_over, read_request
from hpckit.slurm.sbatch import explain_refusal
from hpckit.slurm.text import array_ranges
from hpckit.slurm.values import SlurmConfig
from hpckit.spec.tokens import masked, tokens_in

_SEVERITIES = {
    Level.ERROR: Severity.ERROR,
    Level.NOTE: Severity.NOTE,
    Level.OK: Severity.NOTE,
}


_MOST_REFUSED = 20
_MOST_QUESTIONS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was found, what was not looked at, when it starts and what would start it earlier.

    `config` is that of the cluster that was asked, None where none was.
    """

    findings: tuple[Finding, ...]
    notes: tuple[Notice, ...] = ()
    start_s: float | None = None
    earlier: tuple[Earlier, ...] = ()
    config: SlurmConfig | None = None


def check(
    text: str, variables: Mapping[str, str], probe: LimitsProbe | None, *, is_own: bool = True
) -> Checked:
    """Return what would keep a script from running, and when it would start.

    `variables` is the environment that sbatch is to have; without a `probe` no cluster is asked. A
    script that is not the user's own is one that hpckit rendered. Raises ParseError for a script of
    which more than twenty lines are no options, StorageFailed where it cannot be laid down.
    """
    request, refused = read_script(text, variables)
    told = Told(None, None, ()) if probe is None else probe.told(request)
    if probe is None or told.known is None:
        found = check_script(text, request, refused, is_own=is_own)
        return Checked(findings=found, notes=told.notes)
    obstacles = _obstacles(request, told.known)
    if has_errors(obstacles):
        # What is remembered may have changed.
        again = probe.told(request, fresh=True)
        if again.known is not None:
            told, obstacles = again, _obstacles(request, again.known)
    found = check_script(text, request, (*refused, *obstacles), told.config, is_own=is_own)
    checked = Checked(findings=found, notes=told.notes, config=told.config)
    if has_errors(found) or told.known is None:
        return checked
    with script_file(text) as path:
        trial = Trial(
            slurm=probe.slurm,
            script=path,
            request=request,
            environment={**scrubbed(variables), **_inputs(variables)},
            # hpckit itself submits an array in parts that Slurm takes.
            always=("--array=0",) if not is_own and request.array_size > 1 else (),
            own_hosts=own_hosts(request, told.known.cluster),
        )
        tried = changes(request, told.known.cluster, told.known.user, told.known.now_s)
        start_s, better = earlier(trial.start_s, tried, told.known.now_s, _MOST_QUESTIONS)
    if trial.refused:
        found = (_without_secrets(refusal(trial.refused)), *found)
    return replace(checked, findings=found, start_s=start_s, earlier=better)


def _obstacles(request: Request, known: Known) -> tuple[SourcedFinding, ...]:
    return find_obstacles(request, known.cluster, known.user, known.now_s)


def _inputs(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in variables.items()
        if name.startswith("SBATCH_") or name == "SLURM_CLUSTERS"
    }


def has_errors(findings: Sequence[Finding]) -> bool:
    """Return whether one of the findings is an error."""
    return any(one.severity is Severity.ERROR for one in findings)


def read_script(text: str, variables: Mapping[str, str]) -> tuple[Request, tuple[Finding, ...]]:
    """Return what a script asks for, and the lines of it that sbatch does not take."""
    lines, refused = text.split("\n"), list[Finding]()
    while True:
        try:
            return read_request("\n".join(lines), variables), tuple(refused)
        except ParseError as error:
            if len(refused) == _MOST_REFUSED:
                raise
            lines[error.line_no - 1] = "#"
            refused.append(_finding("slurm-option", error.what, error.expected, error.line_no))


def _finding(
    rule: str, because: str, remedy: str, line_no: int | None, severity: Severity = Severity.ERROR
) -> SourcedFinding:
    return SourcedFinding(
        rule=rule,
        severity=severity,
        subject="script",
        because=because,
        remedy=remedy,
        source="sbatch(1)",
        line_no=line_no,
    )


def check_script(
    text: str,
    request: Request,
    obstacles: Sequence[Finding] = (),
    config: SlurmConfig | None = None,
    *,
    is_own: bool = True,
) -> tuple[Finding, ...]:
    """Return what is wrong with a script and what it asks for, the gravest first.

    `obstacles` is what a cluster has against the request, `config` that of the cluster, None where
    it is not known. A script that is not the user's own is one that hpckit rendered, and whose
    settings were looked at then. Raises nothing: what its reader does not follow has a note.
    """
    config = config or SlurmConfig()
    found: list[Finding] = [*_options(request, config.version), *obstacles]
    if is_own:
        found += (*_tokens(text), *_lines(text), *_values(request, config.max_array_size))
        found += _communication(text, request)
    by_line = sorted(found, key=lambda one: getattr(one, "line_no", None) or 0)
    return tuple(_without_secrets(one) for one in gravest_first(by_line))


def _without_secrets(one: Finding) -> Finding:
    because, remedy, subject = (masked(text) for text in (one.because, one.remedy, one.subject))
    return replace(one, because=because, remedy=remedy, subject=subject)


def _lines(text: str) -> Iterator[SourcedFinding]:
    """Lines that do not do what they look like."""
    if "\r\n" in text:
        remedy = "sed -i 's/\\r$//' FILE"
        yield _finding("dos-lines", "sbatch refuses DOS line ends (CRLF)", remedy, 1)
    if "\0" in text:
        yield _finding(
            "nul-bytes", "sbatch refuses a script with NUL bytes", "save it as a plain text file", 1
        )
    late, pbs = passed_over(text)
    if late:
        because = "sbatch does not read #SBATCH lines after the first command"
        remedy = "move the line above the first command"
        yield _finding("late-option", because, remedy, late[0], Severity.WARNING)
    if pbs:
        because = "sbatch also obeys #PBS lines, which are not checked here"
        remedy = "use #SBATCH lines instead, or --ignore-pbs"
        yield _finding("pbs-option", because, remedy, pbs[0], Severity.WARNING)


def _values(request: Request, max_array_size: int | None) -> Iterator[SourcedFinding]:
    """Values that are none, and tasks of an array that Slurm does not number so high."""
    for name, parse, kind, example in (
        *((one, parse_slurm_limit_s, "time", "2:00:00") for one in ("time", "time-min")),
        *((one, parse_slurm_mem_bytes, "memory size", "4000M") for one in MEM_OPTIONS),
    ):
        said = request.text(name)
        try:
            if said is not None and said not in ("UNLIMITED", "INFINITE"):
                parse(said)
        except ValueError:
            because = f"--{name}={said} is not a valid {kind}"
            yield _finding(
                "value", because, f"for example --{name}={example}", request.line_no(name)
            )
    array = request.text("array")
    last = max((tasks[-1] for tasks in _ranges(array)), default=0)
    if array and max_array_size and last >= max_array_size:
        because = (
            f"the highest task number here is {max_array_size - 1} (MaxArraySize - 1), not {last}"
        )
        remedy = (
            f"--array=0-{max_array_size - 1}; or use a job file: hpckit submit splits its array"
        )
        yield _finding("array-size", because, remedy, request.line_no("array"))


def _ranges(array: str | None) -> Sequence[range]:
    try:
        return array_ranges(array) if array else ()
    except (ValueError, OverflowError):
        return ()


def _tokens(text: str) -> Iterator[SourcedFinding]:
    for line_no, line in enumerate(text.split("\n"), start=1):
        for token in islice(tokens_in(line), 1):
            yield SourcedFinding(
                rule="secret",
                severity=Severity.ERROR,
                subject="secret",
                because=f"this looks like a secret ({token.kind}); Slurm's records keep the script",
                remedy="remove it and export it in the shell before sbatch, or use hpckit submit "
                "--secret NAME",
                source="docs/reference/environment.md",
                line_no=line_no,
            )


def _options(request: Request, version: SlurmVersion | None) -> Iterator[SourcedFinding]:
    for name in request.not_sbatchs_own:
        import difflib

        near = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.8)
        meant = f"did you mean --{near[0]}? " if near else ""
        because = f"sbatch has no option --{name}; only a SPANK plugin of the site could accept it"
        remedy = f"{meant}srun --help lists the options of plugins"
        yield _finding("slurm-option", because, remedy, request.line_no(name), Severity.WARNING)
    options = [Option(name=name, value=asked.value) for name, asked in request.options.items()]
    for notice in lint(options, Program.SBATCH, version):
        name = notice.subject.removeprefix("--").partition("=")[0].partition(" ")[0]
        severity = _SEVERITIES[notice.level]
        if version is None and severity is Severity.ERROR:
            severity = Severity.WARNING  # some release refuses it
        yield SourcedFinding(
            rule="slurm-option",
            severity=severity,
            subject=notice.subject,
            because=notice.text,
            remedy=notice.remedy or "remove it",
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
            because=f"the communication settings were not checked: {error.message}",
            remedy="check the syntax with bash -n",
            source="docs/reference/lint-rules.md",
            line_no=error.line_no,
        )


def without_lines(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return findings about a script that was rendered: its lines are nobody's to change."""
    return tuple(
        replace(one, line_no=None, remedy=in_own_options(one.remedy))
        if isinstance(one, SourcedFinding)
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


_UNSURE = "Requested node configuration is not available"


def refusal(words: str) -> SourcedFinding:
    """Return what `sbatch --test-only` says against a script that no rule here is against.

    A warning for a configuration of nodes that is not there: `--test-only` of 24.11 says so of a
    `--nodelist` that is shorter than `--nodes`, and where a QOS lifts a partition's MaxNodes.
    """
    return SourcedFinding(
        rule="sbatch-refuses",
        severity=Severity.WARNING if _UNSURE in words else Severity.ERROR,
        subject="sbatch",
        because=" ".join(words.split()),
        remedy=explain_refusal(words) or "change the request",
        source="sbatch(1), --test-only",
    )
