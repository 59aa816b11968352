"""What Slurm says when asked about many jobs at once: one squeue a cluster, and one sacct."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hpckit.adapters.slurm_cli import SlurmCli
from hpckit.decide.job_status import Answers, own_records
from hpckit.errors import HpckitError, ToolFailed
from hpckit.model.slurm import JobEntry, JobRecord, JobState
from hpckit.parse.sbatch import refusal_words

_SINCE_MARGIN_S = 60.0

Records = Mapping[str, Sequence[JobRecord]]
"""Submission → the records of its job."""


@dataclass(slots=True)
class SlurmView:
    """The records of some jobs of one cluster, and what kept others from being told.

    `has_accounts` is False where no accounts are kept.
    """

    queue: Records = field(default_factory=dict)
    accounts: Records = field(default_factory=dict)
    has_accounts: bool = True
    queue_problem: str | None = None
    accounts_problem: str | None = None

    @property
    def answers(self) -> Answers:
        """Which of Slurm's daemons have answered."""
        return Answers(
            queue=self.queue_problem is None,
            accounts=self.accounts_problem is None,
            has_accounts=self.has_accounts,
            problem=self.queue_problem or self.accounts_problem,
        )


def look(slurm: SlurmCli, jobs: Sequence[JobEntry], cluster: str | None) -> SlurmView:
    """Ask about these jobs; what goes wrong is in the view."""
    view = SlurmView()
    try:
        view.queue = _grouped(jobs, slurm.queue(cluster))
    except HpckitError as error:
        view.queue_problem = _sentence(error)
    left = [job for job in jobs if _is_open(view.queue.get(job.submission, ()))]
    confirmed = [job for job in left if job.is_whole]
    unconfirmed = [job for job in left if not job.is_whole]
    if confirmed:
        ids = list(dict.fromkeys(job_id for job in confirmed for job_id in job.job_ids))
        _ask_accounts(view, confirmed, lambda: slurm.accounts(ids, cluster))
    if unconfirmed and view.has_accounts:
        since_s = min(job.created_s for job in unconfirmed) - _SINCE_MARGIN_S
        _ask_accounts(view, unconfirmed, lambda: slurm.accounts_since(since_s, cluster))
    return view


def _ask_accounts(
    view: SlurmView,
    jobs: Sequence[JobEntry],
    question: Callable[[], Sequence[JobRecord] | None],
) -> None:
    try:
        records = question()
    except HpckitError as error:
        view.accounts_problem = _sentence(error)
        return
    if records is None:
        view.has_accounts = False
        return
    view.accounts = {**view.accounts, **_grouped(jobs, records)}


def _grouped(jobs: Sequence[JobEntry], records: Sequence[JobRecord]) -> Records:
    named: dict[str, list[JobRecord]] = {}
    for record in records:
        if record.submission is not None:
            named.setdefault(record.submission, []).append(record)
    return {job.submission: own_records(job, named.get(job.submission, ())) for job in jobs}


def _is_open(records: Sequence[JobRecord]) -> bool:
    """Whether squeue leaves something open: it lists no exit codes, and not every ended task."""
    if not records:
        return True
    if any(not record.state.is_final for record in records):
        return False
    if any(record.task_index is not None for record in records):
        return True
    return records[0].state is not JobState.COMPLETED


def _sentence(error: HpckitError) -> str:
    if isinstance(error, ToolFailed):
        return f"{error.argv[0]} failed: {refusal_words(error.stderr) or error.returncode}"
    return error.message
