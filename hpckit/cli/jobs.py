"""`hpckit jobs`, `status`, `wait` and `cancel`: the life of submitted jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from math import isnan
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from hpckit import wiring
from hpckit.cli import output
from hpckit.cli.job_argument import (
    asking,
    failed_rows,
    help_for,
    id_of,
    job_argument,
    limit_of,
    log_task,
    many_jobs_argument,
    named_components,
    pace_of,
    picked,
    placed_rows,
    required_job_argument,
    resources_of,
    say_open,
    served,
    status_document,
    wait_at_terminal,
)
from hpckit.core.errors import HpckitError
from hpckit.core.units import counted, format_duration, format_indices

if TYPE_CHECKING:
    from hpckit.jobs.chain import Chain, StageLine
    from hpckit.jobs.index import SqliteJobIndex
    from hpckit.jobs.track import TrackTools
    from hpckit.slurm.values import JobDetail, JobEntry, JobState, JobStatus, StepRecord


_SIGNALS = ("TERM", "INT", "HUP", "USR1", "USR2", "KILL")
_SHORT_STATES = {"PD": "PENDING", "R": "RUNNING", "CG": "COMPLETING", "CD": "COMPLETED",
                 "F": "FAILED", "CA": "CANCELLED", "CANCELED": "CANCELLED", "TO": "TIMEOUT",
                 "NF": "NODE_FAIL", "OOM": "OUT_OF_MEMORY", "PR": "PREEMPTED"}  # fmt: skip
_MARGIN_S = 10.0
_NO_JOBS = (
    " no jobs yet · next: hpckit submit JOB; hpckit jobs --rebuild finds jobs by their folders"
)


@click.command("cancel")
@required_job_argument
@click.option("--signal", "signal_name", type=click.Choice(_SIGNALS, case_sensitive=False),
              help="Send this signal instead of cancelling.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def cancel_command(
    ctx: click.Context, /, job_id: str, *, signal_name: str | None, as_json: bool
) -> None:
    """Cancel JOB_ID, or send it a signal. ID_TASK is one task of an array.

    Processes get TERM, and KILL after the site's or Slurm's KillWait.
    """
    from hpckit.jobs.track import after_status, find_task, job_status

    tools = wiring.track_tools()
    entry, task = find_task(tools.index, job_id)
    if entry.is_component:
        whole = entry.job_id.partition("+")[0]
        reason = f"Slurm cancels a heterogeneous job as a whole, and {job_id} is a component"
        raise HpckitError(reason, hint=f"hpckit cancel {whole}")
    pace = pace_of(entry)
    with asking(tools) as asked:
        asked.submitter_of(entry).cancel(entry, signal_name, task)
    if signal_name is None and task is None:
        timeout_s = pace.kill_wait_s + _MARGIN_S
        status = wait_at_terminal([entry], tools, timeout_s=timeout_s)[0]
    else:
        with asking(tools) as asked:
            status = job_status(entry, asked)
    entry = after_status(entry, status)
    if as_json:
        output.document(status_document(entry, status))
    else:
        output.result(output.headline(entry.job_id, entry.name, output.outcome(status)))
    if signal_name is None and task is None and not status.state.is_final:
        output.talk(f" {entry.job_id} has not ended: {status.state}")
        ctx.exit(1)


def _states(_ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> frozenset[str]:
    """Return Slurm's states, each by its name or squeue's short one. Raises BadParameter."""
    from hpckit.slurm.values import JobState

    words = [word for text in texts for word in text.upper().split(",")]
    states = frozenset(_SHORT_STATES.get(word, word) for word in words)
    if unknown := sorted(states - set(JobState)):
        import difflib

        near = difflib.get_close_matches(unknown[0], JobState, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        common = ", ".join(sorted(set(_SHORT_STATES.values())))
        raise click.BadParameter(f"no state {unknown[0]!r}; {meant}for example {common}")
    return states


@click.command("jobs")
@click.option("-n", "limit", type=click.IntRange(1, 1_000_000), default=20, show_default=True,
              help="Maximum number of jobs.")  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="List all jobs.")
@click.option("--state", "states", multiple=True, metavar="STATE", callback=_states,
              help="Only jobs in this state.")  # fmt: skip
@click.option("--name", "name", metavar="TEXT", help="Only jobs whose name contains TEXT.")
@click.option("--site", "site", metavar="NAME", help="Only jobs of this site.")
@click.option("--rebuild", is_flag=True, help="Rebuild the index from the job folders first.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def jobs_command(*, rebuild: bool, as_json: bool, **params: Any) -> None:
    """List jobs, newest first."""
    from hpckit.jobs.track import list_jobs

    wanted = SimpleNamespace(**params)
    if rebuild:
        _rebuild()
    is_filtered = bool(wanted.states or wanted.name or wanted.site)
    most = None if wanted.everything or is_filtered else wanted.limit
    with asking(wiring.track_tools()) as tools:
        now_s = tools.clock.now_s()
        rows = [row for row in list_jobs(tools, most) if _is_wanted(*row, wanted)]
    limited = rows if wanted.everything else rows[: wanted.limit]
    is_cut, rows = len(limited) < len(rows) or len(rows) == most, limited
    if as_json:
        output.document(
            {"schema": "hpckit.jobs/1", "jobs": [_row(entry, status) for entry, status in rows]}
        )
        return
    if not rows:
        output.talk(" no such jobs" if is_filtered else _NO_JOBS)
        return
    _list(rows, now_s)
    if is_cut:
        output.talk(f" newest {wanted.limit} · all: hpckit jobs --all")
    _say_unknown(rows)


def _list(rows: Sequence[tuple[JobEntry, JobStatus]], now_s: float) -> None:
    """Print a row for each job; a column of GPUs where one has some."""
    sizes = [_size(entry) for entry, _ in rows]
    has_gpus = any(gpus not in ("", "0") for _, gpus in sizes)
    head = ("NODES", "GPUS") if has_gpus else ("NODES",)
    output.table(
        ("JOB_ID", "NAME", "SITE", *head, "SUBMITTED", "ELAPSED", "STATE", "EXIT"),
        [
            (
                entry.job_id,
                entry.name,
                entry.site,
                *size[: len(head)],
                f"{datetime.fromtimestamp(entry.created_s):%m-%d %H:%M}",
                _elapsed(entry, status, now_s),
                output.state_word(status.state),
                "" if status.exit_code is None else str(status.exit_code),
            )
            for (entry, status), size in zip(rows, sizes, strict=True)
        ],
    )


def _size(entry: JobEntry) -> tuple[str, str]:
    """Return the nodes and all GPUs that a job asked for."""
    asked = resources_of(entry)
    nodes, per_node = asked.get("nodes"), asked.get("gpus_per_node")
    gpus = nodes * per_node if isinstance(nodes, int) and isinstance(per_node, int) else None
    return "" if nodes is None else str(nodes), "" if gpus is None else str(gpus)


def _elapsed(entry: JobEntry, status: JobStatus, now_s: float) -> str:
    """Return how long a job has run; of one that ended long ago as its folder has it."""
    started_s, ended_s = status.started_s, status.ended_s
    if started_s is None and status.state.is_final:
        try:
            result = wiring.job_folders().read_json(Path(entry.folder), "result.json")
            started_s, ended_s = result["started_s"], result["ended_s"]
        except (HpckitError, KeyError):
            return ""
    ended_s = ended_s if status.state.is_final else now_s
    if started_s is None or ended_s is None:
        return ""
    return format_duration(max(0.0, ended_s - started_s))


def _is_wanted(entry: JobEntry, status: JobStatus, wanted: SimpleNamespace) -> bool:
    return (
        (not wanted.states or status.state in wanted.states)
        and (not wanted.name or wanted.name in entry.name)
        and (not wanted.site or wanted.site == entry.site)
    )


def _say_unknown(rows: Sequence[tuple[JobEntry, JobStatus]]) -> None:
    """One line for each reason why something is not known."""
    reasons = [status.reason for _, status in rows if status.state == "UNKNOWN"]
    for reason in dict.fromkeys(reasons):
        count = reasons.count(reason)
        text = reason if count == 1 else re.sub(r"\blists? it\b", r"list them", reason or "")
        output.talk(f" note  {count} UNKNOWN: {text}")


def _row(entry: JobEntry, status: JobStatus) -> dict[str, object]:
    return {
        **picked(entry, "job_id", "submission", "cluster", "name", "site", "folder"),
        "submitted_s": entry.created_s,
        **picked(status, "state", "exit_code", "reason", "slurm_reason"),
    }


def _rebuild() -> None:
    from hpckit.jobs.track import rebuild

    tools = wiring.track_tools()
    roots, left_out, damage = _roots(tools)
    count, wrong = rebuild(tools, roots)
    output.talk(f" index rebuilt: {count} jobs from {', '.join(map(str, roots))}")
    if damage is not None:
        output.talk(f" note  {damage}: kept as jobs.sqlite.damaged")
    for sentence in (*left_out, *wrong):
        output.talk(f" note  skipped: {sentence}")


def _roots(tools: TrackTools) -> tuple[list[Path], list[str], str | None]:
    """The job roots of today's sites and of the jobs in the index.

    Then what could not be told, and what is wrong with the index.
    """
    from hpckit.jobs.sites import list_sites, load_site
    from hpckit.jobs.submit import expand_job_root

    caller = wiring.caller()
    roots, wrong = set(), []
    resources = wiring.resources()
    for found in list_sites(resources):
        if found.tree is None:
            continue
        try:
            roots.add(expand_job_root(load_site(resources, found.name).job_root, caller))
        except HpckitError as error:
            # hpckit brings sites of clusters that are elsewhere.
            if not resources.is_packaged(found.path):
                wrong.append(f"site {found.name}: {error.message}")
    entries, damage = tools.index.readable()
    roots |= {Path(entry.folder).parent for entry in entries}
    return sorted(roots), wrong, damage


_STEPS_SHOWN = 6
_LOG_LINES = 3
_ENDED_WELL = (None, 0, 128 + 15, 128 + 9)


@click.command("status")
@job_argument
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def status_command(job_id: str | None, *, as_json: bool) -> None:
    """Show the state of JOB_ID (default: the newest job), and why it is pending.

    ID_TASK is one task of a job array, as Slurm writes it: 4242_7.
    """
    from hpckit.jobs.chain import chain_status
    from hpckit.jobs.status import status_of_task
    from hpckit.jobs.track import after_status, find_task, job_detail

    tools = wiring.track_tools()
    entry, task = find_task(tools.index, job_id)
    pace_of(entry)
    with asking(tools) as asked:
        chain = chain_status(entry, asked)
        status = chain.status_of(entry)
        entry = after_status(entry, status)
        if task is not None:
            status = status_of_task(entry, status, task)
        detail = job_detail(entry, status, asked, task)
    if as_json:
        document = status_document(entry, status, task, detail)
        output.document({**document, "chain": chain_document(chain)})
        return
    now_s = tools.clock.now_s()
    shown = id_of(entry.job_id, task)
    output.result(output.headline(shown, entry.name, _how(entry, status, now_s)))
    output.labelled(
        [
            *chain_row(chain),
            *_why_it_waits(status, shown, now_s),
            *_tasks(status),
            *_components(entry, status),
            *_serves(entry, status, now_s),
            *_steps(detail),
            *_requeued(entry, status, task),
            *placed_rows(entry, status, task),
            *failed_rows(entry, status, task),
            *_output(entry, status, task),
            *_where(entry, status, shown),
        ]
    )


def _how(entry: JobEntry, status: JobStatus, now_s: float) -> str:
    text = output.outcome(status, now_s)
    if status.state == "RUNNING" and status.started_s is not None and (limit := limit_of(entry)):
        state, dot, rest = text.partition(" · ")
        text = f"{state.replace(' for ', ' ')} of {limit}{dot}{rest}"
    if status.state.is_waiting:
        text += f" · submitted {format_duration(now_s - entry.created_s)} ago"
    return text


def _output(entry: JobEntry, status: JobStatus, task: int | None) -> Iterator[tuple[str, str]]:
    """The last line of a job that runs, the last lines of one that failed."""
    from hpckit.jobs.logs import FileJobLogs
    from hpckit.spec.job_folder import LogName

    runs, failed = status.state == "RUNNING", status.state.is_final and status.state != "COMPLETED"
    if entry.is_component or not (runs or (failed and status.started_s is not None)):
        return
    task = log_task(status) if task is None else task
    log = LogName(folder=Path(entry.folder), rank=0 if runs else None, task=task)
    lines = FileJobLogs().tail(log, 1 if runs else _LOG_LINES, is_own=runs)
    if lines:
        label = "rank 0: " if runs else ""
        yield "last" if runs else "log", "\n".join(label + output.log_line(line) for line in lines)


def chain_row(chain: Chain) -> Iterator[tuple[str, str]]:
    """The row of `hpckit status` about a chain; none for a job by itself."""
    if chain.stages[0][0].chain is not None:
        yield "chain", " → ".join(_stage_words(line) for line in chain.lines)


def _stage_words(line: StageLine) -> str:
    if line.job_id is None:
        return f"{line.name} ({line.reason})"
    code = f" {line.exit_code}" if line.exit_code else ""
    never = " (not started)" if line.never_began else ""
    return f"{line.name} {line.job_id} {output.state_word(line.state)}{code}{never}"


def chain_document(chain: Chain) -> list[dict[str, object]] | None:
    """The stages of a chain, for `hpckit.status/1`; None for a job by itself."""
    if chain.stages[0][0].chain is None:
        return None
    names = ("stage=name", "job_id", "state", "exit_code", "reason")
    return [picked(line, *names) for line in chain.lines]


def _why_it_waits(status: JobStatus, shown: str, now_s: float) -> Iterator[tuple[str, str]]:
    told = help_for(status, shown)
    if told is None:
        return
    never = "; it does not start as it stands" if told.hopeless else ""
    yield "why", output.prose(told.meaning + never)
    # The row of the start says what this command would.
    command = f"expected start: squeue --start -j {shown}"
    if helps := (told.help or "").removesuffix(command).rstrip("; "):
        yield "help", output.prose(helps)
    if told.hopeless:
        return
    if status.expected_start_s is not None:
        start = datetime.fromtimestamp(status.expected_start_s)
        in_s = status.expected_start_s - now_s
        when = f" (in {format_duration(in_s)})" if in_s > 0 else ""
        yield "start", f"expected {start:%Y-%m-%d %H:%M:%S}{when}"
    else:
        yield "start", "Slurm has made no estimate yet"


def _tasks(status: JobStatus) -> Iterator[tuple[str, str]]:
    groups: dict[tuple[JobState, int | None], list[int]] = {}
    for task in status.tasks:
        if task.task_index is not None:
            groups.setdefault((task.state, task.exit_code or None), []).append(task.task_index)
    lines = [
        f"{output.state_word(state)}  {format_indices(indices)}"
        + (f"  exit code {code}" if code else "")
        for (state, code), indices in groups.items()
    ]
    if lines:
        yield "tasks", "\n".join(lines)


def _components(entry: JobEntry, status: JobStatus) -> Iterator[tuple[str, str]]:
    """A row for each component: its id, how it is, and where."""
    for name, record in named_components(entry, status):
        words = [record.job_id, output.state_word(record.state)]
        if record.state.is_final and record.reason:
            words[1] = record.reason
            if record.exit_code not in _ENDED_WELL:
                words.append(f"exit code {record.exit_code}")
        words += [f"exit code {record.exit_code}"] if record.state == "FAILED" else []
        yield name, "  ".join([*words, record.nodelist or ""])


def _requeued(entry: JobEntry, status: JobStatus, task: int | None) -> Iterator[tuple[str, str]]:
    from hpckit.jobs.local_record import requeues

    count = requeues(Path(entry.folder), log_task(status) if task is None else task)
    if count:
        yield "requeued", f"{counted(count, 'time')} · hpckit report has each run"


def _serves(entry: JobEntry, status: JobStatus, now_s: float) -> Iterator[tuple[str, str]]:
    """Where the job's server answers, and how a laptop gets there."""
    from hpckit.jobs.local_record import read_intent

    found = served(entry, status)
    if found is None:
        return
    yield "serves", f"{found.url}  ready for {format_duration(now_s - found.ready_s)}"
    intent = read_intent(Path(entry.folder))
    if intent is not None and intent.submitter_host and not entry.job_id.startswith("L"):
        way = f"{found.port}:{found.host}:{found.port} {intent.submitter_host}"
        yield "tunnel", f"ssh -N -L {way}   (from a laptop, by the login node's own name)"


def _steps(detail: JobDetail | None) -> Iterator[tuple[str, str]]:
    """Which steps ended badly, the first ones of many."""
    steps = () if detail is None else detail.steps
    bad = [_step(s) for s in steps if s.state.is_final and s.state != "COMPLETED"]
    if bad:
        left = len(bad) - _STEPS_SHOWN
        more = [f"{left} more"] if left > 0 else []
        yield "steps", output.prose(" · ".join([*bad[:_STEPS_SHOWN], *more]))


def _step(step: StepRecord) -> str:
    code = "" if step.exit_code is None else f" {step.exit_code}"
    nodes = f" on {step.nodelist}" if step.nodelist and step.step_id.isdecimal() else ""
    return f"{step.step_id} {step.state}{code}{nodes}"


def _where(entry: JobEntry, status: JobStatus, shown: str) -> Iterator[tuple[str, str]]:
    if status.nodelist:
        yield "nodes", status.nodelist
    yield "folder", entry.folder
    if status.state.is_waiting:
        yield "next", f"hpckit wait {entry.job_id} · hpckit cancel {shown}"
    elif not status.state.is_final or status.started_s is not None:
        over = status.state.is_final or status.is_lost
        logs = f"hpckit logs {'' if over else '-f '}{id_of(shown, log_task(status))}"
        has_report = status.state == "COMPLETED" and not entry.is_component
        yield "next", f"hpckit report {shown} · {logs}" if has_report else logs


@click.command("wait")
@many_jobs_argument
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Maximum time in seconds.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def wait_command(
    ctx: click.Context, job_ids: tuple[str, ...], *, timeout_s: float | None, as_json: bool
) -> None:
    """Wait until all JOB_IDs have ended (default: the newest job).

    Exit 0 if all completed, 7 if Slurm has not answered for an hour, else 1.
    """
    from hpckit.jobs.track import after_status

    if timeout_s is not None and isnan(timeout_s):
        raise click.UsageError("--timeout needs a number of seconds", ctx)
    from hpckit.jobs.chain import with_reasons

    tools = wiring.track_tools()
    jobs = [_whole_job(tools.index, job_id) for job_id in job_ids or (None,)]
    entries = list({entry.submission: entry for entry in jobs}.values())
    begun_s = tools.clock.now_s()
    statuses = wait_at_terminal(entries, tools, timeout_s=timeout_s)
    waited_s = tools.clock.now_s() - begun_s
    ended = [
        (after_status(entry, status), status)
        for entry, status in zip(entries, with_reasons(entries, statuses, tools), strict=True)
    ]
    if as_json:
        documents = [status_document(entry, status) for entry, status in ended]
        several = {"schema": "hpckit.statuses/1", "jobs": documents}
        output.document(several if len(job_ids) > 1 else documents[0])
    else:
        for entry, status in ended:
            output.result(output.headline(entry.job_id, entry.name, output.outcome(status)))
    ctx.exit(
        say_open(ended, timeout_s if timeout_s is not None and waited_s >= timeout_s else None)
    )


def _whole_job(index: SqliteJobIndex, wanted: str | None) -> JobEntry:
    from hpckit.jobs.track import find_task

    entry, task = find_task(index, wanted)
    if task is not None:
        raise HpckitError(
            f"wait takes whole jobs; {wanted} is one task of an array",
            hint=f"hpckit wait {entry.job_id}",
        )
    return entry
