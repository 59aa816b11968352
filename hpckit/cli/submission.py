"""What a job that is submitted by itself and one of a chain have in common at the terminal."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from hpckit.model.site import SubmitterKind

if TYPE_CHECKING:
    from hpckit.app.prepare import PreparedJob
    from hpckit.app.submit import Submission
    from hpckit.model.order_plan import OrderPlan
    from hpckit.model.slurm import JobStatus


def interrupt_on_signals() -> None:
    """SIGTERM and a closed session undo or complete a submission as Ctrl-C does.

    Not where one is ignored: under nohup(1) a closed session changes nothing.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


def submission_document(
    job: PreparedJob, submission: Submission | None, status: JobStatus | None
) -> dict[str, object]:
    """`hpckit.submission/1`: a job, its submission where it was submitted, how it ended."""
    from hpckit.model.tree import to_tree

    return {
        "schema": "hpckit.submission/1",
        "job_id": None if submission is None else submission.job_id,
        "name": job.effective.spec.name,
        "site": job.site.name,
        "folder": None if submission is None else str(submission.folder),
        "script_sha256": job.script.sha256,
        "cluster": None if submission is None else submission.entry.cluster,
        "held_back": [] if submission is None else list(submission.environment.held_back),
        "sbatch_defaults": []
        if submission is None
        else list(submission.environment.sbatch_defaults),
        "words": [] if submission is None else list(submission.words),
        "notes": [to_tree(note) for note in (job if submission is None else submission).notes],
        "state": None if status is None else str(status.state),
        "exit_code": None if status is None else status.exit_code,
        "exit_signal": None if status is None else status.exit_signal,
        "reason": None if status is None else status.reason,
    }


def size_of(job: PreparedJob) -> str:
    """What a job asks for, in a few words."""
    spec = job.effective.spec
    parts = [f"{spec.resources.nodes} node" + ("s" if spec.resources.nodes > 1 else "")]
    parts.append(f"{spec.ntasks_per_node} rank" + ("s" if spec.ntasks_per_node > 1 else ""))
    if spec.resources.gpus_per_node:
        gpus = spec.resources.gpus_per_node
        parts.append(f"{gpus} GPU" + ("s" if gpus > 1 else ""))
    slurm = job.site.submitter is SubmitterKind.SLURM
    default = "the partition's time limit" if slurm else "no time limit"
    words = [" × ".join(parts), spec.resources.time_limit or default]
    for name in ("partition", "account", "qos") if slurm else ():
        value = getattr(spec.slurm, name)
        if value is not None:
            words.append(f"{name} {value}")
    return " · ".join(words)


def place_words(job: PreparedJob, order: OrderPlan | None) -> str | None:
    """What is done about the places of ranks, in a few words; None for nothing."""
    parts = []
    if order is not None:
        leaves = len({*order.locality.domain_of.values()})
        parts.append(f"nodes ordered at start, by {order.source} ({leaves} leaves)")
    if job.plan.place is not None and job.plan.place.bind:
        near = " near its GPU" if job.effective.spec.resources.gpus_per_node else ""
        parts.append(f"each rank bound to cores{near}")
    return " · ".join(parts) or None


def comm_words(job: PreparedJob) -> str | None:
    """What is set for communication, in a few words; None for a job without GPUs that sets none."""
    from hpckit.model.comm import SettingOrigin

    settings = job.plan.communication
    own = [one.name for one in settings if one.origin is SettingOrigin.JOB]
    derived = [one.name for one in settings if one.origin is not SettingOrigin.JOB]
    parts = [f"{' '.join(own)} by the job"] if own else []
    if job.plan.profile is not None:
        parts.append(job.plan.profile.path)
    if derived:
        parts.append(f"{' '.join(derived)} (reasons: in the script)")
    elif job.plan.profile is None and job.effective.spec.resources.gpus_per_node:
        parts.append(f"nothing{' else' if own else ''} set: {_library(job)} finds what it needs")
    return " · ".join(parts) or None


def _library(job: PreparedJob) -> str:
    facts = job.comm.facts
    name = "NCCL" if facts.library is None else facts.library.upper()
    return name if facts.version is None else f"{name} {facts.version}"


def advice_words(job: PreparedJob) -> str:
    """What of a report's advice the job has, in a few words."""
    from hpckit.model.origin import OriginKind

    report_id = "" if job.source.advised is None else job.source.advised.report_id
    applied = [one for one in job.effective.origins if one.origin is OriginKind.REPORT]
    if not applied:
        return f"report {report_id} changes nothing here"
    values = " · ".join(f"{one.key} {one.value}" for one in applied)
    return f"{values}   by report {report_id}"
