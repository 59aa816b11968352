"""What a scheduler would do with a job, asked without queueing it."""

from __future__ import annotations

from dataclasses import dataclass

from hpckit.core.errors import PlanError
from hpckit.core.findings import Notice
from hpckit.jobs.draft import Caller, request_of
from hpckit.jobs.prepare import PreparedJob
from hpckit.jobs.submit import SubmitTools, draft_of
from hpckit.spec.options import StagePlace
from hpckit.spec.site import SubmitterKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A job that the scheduler would take: its words, a line each, and what checks found."""

    words: tuple[str, ...]
    notes: tuple[Notice, ...]


def try_out(
    job: PreparedJob, caller: Caller, tools: SubmitTools, place: StagePlace | None = None
) -> Trial:
    """Check the job and have the scheduler look at it; nothing is written, queued or recorded.

    Of an array in parts each kind of part is tried once. Raises JobRefused, SchedulerRefused and
    what else a submission raises; PlanError at a site without a scheduler.
    """
    if job.site.submitter is SubmitterKind.LOCAL:
        raise PlanError(
            f"site {job.site.name} has no scheduler to ask",
            have="this machine alone",
            need="a scheduler for --test-only",
            hint="--dry-run shows the script, or use a site with Slurm",
        )
    draft = draft_of(job, caller, tools, place)
    kinds = {part.expression: part for part in draft.parts}
    words: list[str] = []
    for part in kinds.values() or (None,):
        request = request_of(draft, part, None, tools.clock.now_s())
        words += tools.submitter.test(request, job.script.text)
    return Trial(words=tuple(words), notes=draft.notes)
