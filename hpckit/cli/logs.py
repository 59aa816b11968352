"""`hpckit logs`: what a job printed."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hpckit import wiring
from hpckit.cli import output
from hpckit.cli.job_argument import (
    id_of,
    job_argument,
    not_known,
    pace_of,
    task_has_ended,
)
from hpckit.core.errors import HpckitError, StorageFailed

if TYPE_CHECKING:
    from hpckit.jobs.logs import FileJobLogs, Piece
    from hpckit.jobs.track import TrackTools
    from hpckit.slurm.values import JobEntry, JobStatus
    from hpckit.spec.job_folder import LogName


_SEVERAL = 2


def _ranks(
    _ctx: click.Context, _param: click.Parameter, text: str | None
) -> tuple[int, ...] | None:
    from hpckit.core.index_list import expand_indices

    try:
        ranks = None if text is None else expand_indices(text)
    except ValueError as error:
        raise click.BadParameter(f"got {text!r}, expected a list such as 0-3,7") from error
    if ranks == ():
        raise click.BadParameter("an empty list")
    return ranks


@click.command("logs")
@job_argument
@click.option("-f", "--follow", is_flag=True, help="Follow until the job has ended.")
@click.option(
    "--rank", "ranks", metavar="LIST", callback=_ranks, help="Print only these ranks: 0-3,7."
)
@click.option("--node", metavar="NAME", help="Print only the ranks on this node.")
@click.option(
    "--prefix/--no-prefix",
    default=None,
    help="Print the rank before each line. [default: on a terminal]",
)
@click.option(
    "--tail",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Print the last N lines, with --rank or --node of each rank.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the paths of the logs as one JSON document."
)
def logs_command(
    job_id: str | None,
    *,
    follow: bool,
    ranks: tuple[int, ...] | None,
    node: str | None,
    prefix: bool | None,
    tail: int | None,
    as_json: bool,
) -> None:
    """Print the output of JOB_ID (default: the newest job).

    4242_7 is one task of a job array. 4242+1 or 4242+trainer is one component of a heterogeneous
    job (rank 0, unless --rank names another).
    """
    from hpckit.jobs.logs import FileJobLogs, read_log
    from hpckit.jobs.track import find_task

    tools = wiring.track_tools()
    entry, task = find_task(tools.index, job_id)
    logs = FileJobLogs()
    _refuse_what_cannot_be(entry, logs, task)
    if follow and tail is not None:
        raise click.UsageError("--follow and --tail exclude each other")
    if as_json:
        output.document(_document(entry, logs, task))
        return
    names = _named(entry, task, _on_node(entry, node, task, ranks))
    printed = _printing(logs, names, prefix, follow=follow)
    if follow:
        _follow(entry, names, tools, printed)
    else:
        for name in names:  # one that is missing is refused before another is printed
            read_log(logs, name, entry.job_id, has_ended=entry.state.is_final)
        _write(_so_far(logs, names, tail, printed))


def _named(entry: JobEntry, task: int | None, ranks: tuple[int, ...] | None) -> Sequence[LogName]:
    """The logs that are meant: those of ranks, or the merged one. Raises HpckitError."""
    from hpckit.spec.job_folder import LogName

    first, *others = ranks or (None,)
    folder = Path(entry.folder)
    return [LogName(folder=folder, rank=rank, task=task)
            for rank in (_rank_of(entry, first), *others)]  # fmt: skip


def _on_node(
    entry: JobEntry, node: str | None, task: int | None, ranks: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """The ranks that are meant, those on a node. Raises HpckitError for a node without ranks."""
    if node is None:
        return ranks
    from hpckit.jobs.logs import ranks_on

    there = ranks_on(Path(entry.folder), node.split(".")[0], task)
    both = tuple(rank for rank in there if ranks is None or rank in ranks)
    if not both:
        raise HpckitError(f"no such rank of {entry.job_id} reported from node {node}")
    return both


_Printing = Callable[[Iterable["Piece"]], Iterator[bytes]]


def _as_it_is(pieces: Iterable[Piece]) -> Iterator[bytes]:
    return (chunk for _, chunk in pieces)


def _printing(
    logs: FileJobLogs, names: Sequence[LogName], prefix: bool | None, *, follow: bool
) -> _Printing:
    """What puts ranks before the lines of several, where that is asked for.

    Somebody who follows a log may begin before the ranks do.
    """
    from hpckit.jobs.logs import RankLabels, labelled_lines

    log, wanted = names[0], sys.stdout.isatty() if prefix is None else prefix
    if log.rank is not None:
        if len(names) < _SEVERAL and not prefix:
            return _as_it_is
        width = len(str(max(name.rank or 0 for name in names))) + 1 if wanted else 0
        return lambda pieces: labelled_lines(pieces, None, width=width)

    def find() -> dict[int, Path]:
        ranks = logs.ranks(log.folder, log.task)
        return {rank: logs.path(replace(log, rank=rank)) for rank in ranks}

    labels = RankLabels(find(), find if follow else None)
    if not wanted or not (follow or labels.width):
        return _as_it_is
    return lambda pieces: labelled_lines(pieces, labels)


def _so_far(
    logs: FileJobLogs, names: Sequence[LogName], tail: int | None, printed: _Printing
) -> Iterator[bytes]:
    """What each log holds, or its last lines."""
    for log in names:
        # Whose the lines of a merged log are is known from its beginning on.
        is_whole = tail is None or (log.rank is None and printed is not _as_it_is)
        offset = 0 if tail is None or is_whole else logs.tail_offset(log, tail)
        lines = printed((log, chunk) for chunk in logs.read(log, offset))
        yield from deque(lines, tail) if tail is not None and is_whole else lines


def _rank_of(entry: JobEntry, rank: int | None) -> int | None:
    """The rank that is meant: a component has no merged log, the whole job no ranks of its own."""
    from hpckit.jobs.local_record import component_names

    if entry.is_component:
        return rank or 0
    names = () if rank is None else component_names(Path(entry.folder))
    if names:
        reason = f"job {entry.job_id} has components, each with its own ranks"
        raise HpckitError(reason, hint=f"hpckit logs {entry.job_id}+{names[0]} --rank {rank}")
    return rank


def _refuse_what_cannot_be(entry: JobEntry, logs: FileJobLogs, task: int | None) -> None:
    """Raise HpckitError for a job without a folder, and for the task of one that has no tasks."""
    folder = Path(entry.folder)
    if not wiring.job_folders().is_folder(folder):
        raise StorageFailed(
            f"the folder of {entry.job_id} is gone, with its logs: {folder}",
            hint="is its file system mounted on this host? If the folder was removed, `hpckit jobs "
            "--rebuild` drops the job",
        )
    if task is not None and not logs.tasks(folder) and _is_array(folder) is False:
        from hpckit.jobs.status import no_array

        raise no_array(entry, task, f"hpckit logs {entry.job_id}")


def _document(entry: JobEntry, logs: FileJobLogs, task: int | None) -> dict[str, object]:
    from hpckit.spec.job_folder import LogName, log_file

    folder = Path(entry.folder)
    has_log = task is not None or not _is_array(folder)
    return {
        "schema": "hpckit.logs/1",
        "job_id": entry.job_id,
        "task": task,
        "log": str(logs.path(LogName(folder=folder, task=task))) if has_log else None,
        "ranks": {
            str(number): str(folder / log_file(number, task)) for number in logs.ranks(folder, task)
        },
        "tasks": {
            str(number): str(logs.path(LogName(folder=folder, task=number)))
            for number in logs.tasks(folder)
        },
    }


def _is_array(folder: Path) -> bool | None:
    """Whether each of the job's tasks has a merged log, and the job has none; None if not known."""
    try:
        effective = wiring.job_folders().read_json(folder, "effective.json")
        return effective["job"]["slurm"].get("array") is not None
    except (HpckitError, KeyError, TypeError, AttributeError):
        return None


def _follow(
    entry: JobEntry, names: Sequence[LogName], tools: TrackTools, printed: _Printing
) -> None:
    from hpckit.jobs.logs import FileJobLogs, follow_logs
    from hpckit.jobs.track import job_status
    from hpckit.spec.pace import SubmitterKind

    pace, task = pace_of(entry), names[0].task
    lost: list[JobStatus] = []

    def has_ended() -> bool:
        status = job_status(entry, tools)
        if task_has_ended(status, task):
            return True
        if status.is_lost:
            lost.append(status)
        return status.is_lost

    pieces = follow_logs(
        FileJobLogs(),
        names,
        tools.clock,
        job_id=entry.job_id,
        poll_interval_s=pace.poll_interval_s,
        back_off=pace.submitter is SubmitterKind.SLURM,
        has_ended=has_ended,
    )
    try:
        _write(printed(pieces))
    except KeyboardInterrupt:
        shown = id_of(entry.job_id, task)
        raise KeyboardInterrupt(f"the job goes on: hpckit logs -f {shown}") from None
    except HpckitError as error:
        if not lost:
            raise
        raise HpckitError(f"{not_known(entry, lost[0])}; {error.message}") from error
    if lost:
        raise HpckitError(not_known(entry, lost[0]))


def _write(chunks: Iterator[bytes]) -> None:
    for chunk in chunks:
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
