"""`hpckit show`: what was submitted."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hpckit import wiring
from hpckit.cli import output
from hpckit.cli.job_argument import (
    asking,
    help_for,
    id_of,
    job_argument,
    log_task,
    many_jobs_argument,
    named_components,
    picked,
    required_job_argument,
    say_open,
    served,
    site_of,
    status_document,
    wait_at_terminal,
)
from hpckit.core.errors import HpckitError
from hpckit.core.units import format_duration, format_indices
from hpckit.spec.folder_in_job import COMPONENTS_FOLDER

if TYPE_CHECKING:
    from hpckit.injob.runner import RunOptions
    from hpckit.jobs.chain import Chain, StageLine
    from hpckit.jobs.index import SqliteJobIndex
    from hpckit.jobs.track import TrackTools
    from hpckit.slurm.values import JobDetail, JobEntry, JobState, JobStatus, StepRecord


_SIGNALS = ("TERM", "INT", "HUP", "USR1", "USR2", "KILL")
_MARGIN_S = 10.0


@click.command("cancel")
@required_job_argument
@click.option("--signal", "signal_name", type=click.Choice(_SIGNALS, case_sensitive=False),
              help="Only send this signal to the job.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def cancel_command(
    ctx: click.Context, /, job_id: str, *, signal_name: str | None, as_json: bool
) -> None:
    """End JOB_ID (a local id may be shortened; or ID_TASK for one task of an array).

    TERM comes first, and KILL for what is left after the site's or Slurm's KillWait.
    """
    from hpckit.jobs.track import after_status, find_task, job_status

    tools = wiring.track_tools()
    entry, task = find_task(tools.index, job_id)
    if entry.is_component:
        whole = entry.job_id.partition("+")[0]
        reason = f"Slurm ends a heterogeneous job as a whole, and {job_id} is a component"
        raise HpckitError(reason, hint=f"hpckit cancel {whole}")
    site = site_of(entry)
    with asking(tools) as asked:
        asked.submitter_of(entry).cancel(entry, signal_name, task)
    if signal_name is None and task is None:
        timeout_s = site.kill_wait_s + _MARGIN_S
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
        output.talk(f" {entry.job_id} has not ended yet: {status.state}")
        ctx.exit(1)


@click.command("jobs")
@click.option("-n", "limit", type=click.IntRange(1, 1_000_000), default=20, show_default=True,
              help="How many at most.")  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="All of them.")
@click.option("--rebuild", is_flag=True, help="Fill the index from the job folders first.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def jobs_command(*, limit: int, everything: bool, rebuild: bool, as_json: bool) -> None:
    """List jobs, newest first."""
    from hpckit.jobs.track import list_jobs

    if rebuild:
        _rebuild()
    with asking(wiring.track_tools()) as tools:
        rows = list_jobs(tools, None if everything else limit)
    if as_json:
        output.document(
            {"schema": "hpckit.jobs/1", "jobs": [_row(entry, status) for entry, status in rows]}
        )
        return
    if not rows:
        output.talk(" no job has been submitted yet · next: hpckit submit JOB")
        return
    output.table(
        ("JOB_ID", "NAME", "SITE", "SUBMITTED", "STATE", "EXIT"),
        [
            (
                entry.job_id,
                entry.name,
                entry.site,
                f"{datetime.fromtimestamp(entry.created_s):%Y-%m-%d %H:%M:%S}",
                output.state_word(status.state),
                "" if status.exit_code is None else str(status.exit_code),
            )
            for entry, status in rows
        ],
    )
    if not everything and len(rows) == limit:
        output.talk(f" the newest {limit}; hpckit jobs --all lists every one")
    _say_unknown(rows)


def _say_unknown(rows: Sequence[tuple[JobEntry, JobStatus]]) -> None:
    """One line for each reason why something is not known."""
    reasons = [status.reason for _, status in rows if status.state == "UNKNOWN"]
    for reason in dict.fromkeys(reasons):
        output.talk(f" note  {reasons.count(reason)} UNKNOWN: {reason}")


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
        output.talk(f" note  {damage}: it is beside the new one, as jobs.sqlite.damaged")
    for sentence in (*left_out, *wrong):
        output.talk(f" note  left out: {sentence}")


def _roots(tools: TrackTools) -> tuple[list[Path], list[str], str | None]:
    """The job roots of today's sites and of the jobs in the index.

    Then what could not be told, and what is wrong with the index.
    """
    from hpckit.jobs.sites import list_sites
    from hpckit.jobs.submit import expand_job_root

    caller = wiring.caller()
    roots, wrong = set(), []
    resources = wiring.resources()
    for found in list_sites(resources):
        if found.site is None:
            continue
        try:
            roots.add(expand_job_root(found.site.job_root, caller))
        except HpckitError as error:
            # hpckit brings sites of clusters that are elsewhere.
            if not resources.is_packaged(found.path):
                wrong.append(f"site {found.site.name}: {error.message}")
    entries, damage = tools.index.readable()
    roots |= {Path(entry.folder).parent for entry in entries}
    return sorted(roots), wrong, damage


_RUN = re.compile(r"^ *hpckit_run=\(.* run (.*--)\)$", re.MULTILINE)
_COMMAND = re.compile(r'^(?:exec )?"\$\{hpckit_run\[@\]\}" (.*?)(?: &)?$', re.MULTILINE)
_COMPONENTS = re.compile(r'^ *exec "\$\{hpckit\[@\]\}" run (.*?) -- (srun .*)$', re.MULTILINE)
_AGENT = '"${agent[@]}"'


@click.command("show")
@job_argument
@click.option("--script", is_flag=True, help="Print the script as it was submitted.")
@click.option("--runner", is_flag=True, help="Print what the runner does for it, as commands.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def show_command(job_id: str | None, *, script: bool, runner: bool, as_json: bool) -> None:
    """Show the job JOB_ID (the newest job without one)."""
    from hpckit.jobs.track import find_job

    entry = find_job(wiring.job_index(), job_id)
    folder = Path(entry.folder)
    folders = wiring.job_folders()
    text = folders.read(folder.parents[1] if entry.is_component else folder, "job.sbatch")
    if script and not as_json:
        click.echo(text, nl=False)
        return
    if runner and not as_json:
        click.echo("\n".join(_runner_commands(text, entry.folder)))
        return
    effective = folders.read_json(folder, "effective.json", "digest", "origins")
    intent = folders.read_json(folder, "intent.json", "script_sha256")
    if as_json:
        output.document(
            {
                "schema": "hpckit.job-record/1",
                **picked(entry, "job_id", "name", "site", "folder", "submitted_s=created_s"),
                "script_sha256": str(intent["script_sha256"]),
                "script": text,
                "effective": effective,
            }
        )
        return
    _show(entry, effective, str(intent["script_sha256"]))


def _show(entry: JobEntry, effective: Mapping[str, Any], script_sha256: str) -> None:
    output.labelled(
        [
            ("job", f"{entry.job_id}   {output.one_line(entry.name)}   site {entry.site}"),
            ("folder", entry.folder),
            ("script", f"job.sbatch   sha256 {script_sha256[:12]}"),
            ("digest", str(effective["digest"])[:12]),
        ]
    )
    output.table(
        ("KEY", "VALUE", "FROM"), [output.origin_row(**one) for one in effective["origins"]]
    )
    output.labelled([("next", f"hpckit show {entry.job_id} --script")])


def _runner_commands(script: str, folder: str) -> Iterator[str]:
    """Give what the runner of a script does, a line each. Raises HpckitError."""
    from hpckit.injob.runner import read_options

    joined = re.sub(r" *\\\n *", " ", script)
    if components := _COMPONENTS.findall(joined):
        for run, command in components:
            yield from _component_commands(run, command, folder)
        return
    run, command = _RUN.search(script), _COMMAND.search(joined)
    read = read_options([*shlex.split(run[1]), "srun"]) if run else None
    if read is None or command is None:
        raise HpckitError(
            "the script of this job does not start hpckit's runner",
            hint="hpckit show --script prints the script",
        )
    options = read[0]
    rank = f"{_AGENT} rank {_rank_options(script)} --"
    words = command[1].replace('"${hpckit_rank[@]}"', rank).split(" ")
    yield f"export HPCKIT_JOB_FOLDER={shlex.quote(folder)}"
    yield 'agent=("${HPCKIT_PYTHON:-python3}" -I "$HPCKIT_JOB_FOLDER/hpckit-injob.pyz")'
    yield from _local_commands(options, words) if options.local else _step_commands(options, words)
    task = "${SLURM_ARRAY_TASK_ID:+array-$SLURM_ARRAY_TASK_ID/}"
    yield "# where that fails, its code is that of the first rank that failed:"
    yield f'read -r code _ <"$HPCKIT_JOB_FOLDER/logs/{task}failed-${{SLURM_RESTART_COUNT:-0}}"'


def _component_commands(run: str, command: str, folder: str) -> Iterator[str]:
    """Give what the runner of a component does, once `injob components` lets it begin."""
    from hpckit.injob.runner import option_of, read_options

    read = read_options([*shlex.split(run), "--", "srun"])
    words = command.replace('"${hpckit[@]}"', _AGENT).split(" ")
    if read is None:
        return
    options = read[0]
    own = shlex.quote(f"{folder}/{COMPONENTS_FOLDER}/{options.component}")
    group = option_of(words, "--het-group")
    yield f"# {options.component}: SLURM_* are those of its group, SLURM_*_HET_GROUP_{group}"
    yield f"export HPCKIT_JOB_FOLDER={own}"
    yield f'agent=("${{HPCKIT_PYTHON:-python3}}" -I {shlex.quote(folder)}/hpckit-injob.pyz)'
    yield "# injob components says when it begins and where the others are, and ends its step"
    yield from _step_commands(options, words)


def _rank_options(script: str) -> str:
    options = re.search(r" rank (--from \S+.*) --\)", script)
    return "--from slurm" if options is None else options[1]


def _step_commands(options: RunOptions, words: Sequence[str]) -> Iterator[str]:
    from hpckit.injob.runner import (
        option_of,
        ordered,
        sampler_command,
        sampler_step,
        through_entry,
    )

    is_ordered = options.order and words[0] == "srun"
    yield 'nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")'
    if options.order or options.bind:
        task = "${SLURM_ARRAY_TASK_ID:+array-$SLURM_ARRAY_TASK_ID/}"
        restart = "restart-${SLURM_RESTART_COUNT:-0}"
        yield f"export HPCKIT_PLACE=$HPCKIT_JOB_FOLDER/place/{task}{restart}"
    for name, is_on in (("HPCKIT_BIND", options.bind), ("HPCKIT_STRICT", options.strict)):
        if is_on:
            yield f"export {name}=1"
    if is_ordered:
        tasks = option_of(words, "--ntasks-per-node")
        plan = '"$HPCKIT_JOB_FOLDER/order.json"'
        yield f'hosts=$({_AGENT} order {plan} {tasks} "$HPCKIT_PLACE" <<<"$nodes")'
    yield "export MASTER_ADDR=${nodes%%$'\\n'*}"
    task = option_of(words, "--het-group") or "${SLURM_ARRAY_TASK_ID:-}"
    yield f'export MASTER_PORT=$({_AGENT} port --job-id "$SLURM_JOB_ID" --array-task "{task}")'
    yield from _serve_commands(options)
    if options.hz is not None:
        step = sampler_step(option_of(words, "--nodes"), option_of(words, "--het-group"))
        sampler = sampler_command([_AGENT], step, '"$HPCKIT_JOB_FOLDER"', options.hz, None)
        yield "# the sampler, without what the job asks for each task (SLURM_CPU*, SLURM_MEM*, …)"
        yield from _background(sampler)
    yield "# USR1 and USR2 are handed to the step, which has scancel's TERM from Slurm"
    words = through_entry(words, [_AGENT])
    if not is_ordered:
        yield " ".join(words)
        return
    yield f"SLURM_HOSTFILE=$hosts HPCKIT_ORDERED=1 {' '.join(ordered(words))}"
    yield "# without an order (hosts is empty), or where srun refuses it before any rank began:"
    numbered = "" if options.keep_numbers else "HPCKIT_RANK_MAP=$hosts "
    yield f"{numbered}{' '.join(words)}"


def _serve_commands(options: RunOptions) -> Iterator[str]:
    if options.serve is not None:
        yield f"# it looks at the server ({options.serve}) twice a second until that answers, and"
        yield "# leaves its address in serve-*; idle, or on TERM, it ends the step by scancel"


def _local_commands(options: RunOptions, words: Sequence[str]) -> Iterator[str]:
    from hpckit.injob.runner import sampler_command

    yield f'export MASTER_ADDR=127.0.0.1 MASTER_PORT=$({_AGENT} port --job-id "$HPCKIT_JOB_ID")'
    if options.hz is not None:
        sampler = sampler_command([_AGENT], (), '"$HPCKIT_JOB_FOLDER"', options.hz, None)
        yield from _background(["setsid", *sampler[sampler.index(_AGENT) :], "--parent", '"$$"'])
    yield "# TERM, INT, HUP, USR1 and USR2 are handed to the ranks"
    if options.kill_wait_s is not None:
        yield f"# the first that fails ends the others: TERM, after {options.kill_wait_s} s KILL"
    size = f"WORLD_SIZE={options.ranks} LOCAL_WORLD_SIZE={options.ranks} NODE_RANK=0"
    for rank in range(options.ranks or 0):
        yield f"RANK={rank} LOCAL_RANK={rank} {size} {' '.join(words)} &"
    if options.ranks is None:
        yield " ".join(words)


def _background(words: Sequence[str]) -> Iterator[str]:
    yield "export HPCKIT_LEDGER=1"
    yield f'{" ".join(words)} </dev/null >>"$HPCKIT_JOB_FOLDER/logs/sampler.log" 2>&1 &'


_STEPS_SHOWN = 6
_ENDED_WELL = (None, 0, 128 + 15, 128 + 9)


@click.command("status")
@job_argument
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def status_command(job_id: str | None, *, as_json: bool) -> None:
    """Say how the job JOB_ID is (the newest job without one).

    ID_TASK is one task of a job array, as Slurm writes it: 4242_7.
    """
    from hpckit.jobs.chain import chain_status
    from hpckit.jobs.status import status_of_task
    from hpckit.jobs.track import after_status, find_task, job_detail

    tools = wiring.track_tools()
    entry, task = find_task(tools.index, job_id)
    site_of(entry)
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
            *_where(entry, status, shown),
        ]
    )


def _how(entry: JobEntry, status: JobStatus, now_s: float) -> str:
    text = output.outcome(status, now_s)
    if status.state.is_waiting:
        text += f" · submitted {format_duration(now_s - entry.created_s)} ago"
    return text


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
    if told.help is not None:
        yield "help", output.prose(told.help)
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
        yield "next", f"hpckit logs {'' if over else '-f '}{id_of(shown, log_task(status))}"


@click.command("wait")
@many_jobs_argument
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0), help="Seconds at most.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def wait_command(
    ctx: click.Context, job_ids: tuple[str, ...], *, timeout_s: float | None, as_json: bool
) -> None:
    """Wait until all JOB_IDs have ended (the newest job without one).

    Exit 0 if all completed, 7 if Slurm has not answered for an hour, else 1.
    """
    from hpckit.jobs.track import after_status

    if timeout_s is not None and isnan(timeout_s):
        raise click.UsageError("--timeout is a number of seconds", ctx)
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
            f"hpckit waits for whole jobs, and {wanted} is one task of an array",
            hint=f"hpckit wait {entry.job_id}",
        )
    return entry
