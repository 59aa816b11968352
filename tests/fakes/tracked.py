"""Jobs to be tracked: their folders, and a submitter that says what it is told to say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hpckit.slurm.values import JobEntry, JobId, JobState, JobStatus, SubmitRequest
from tests.fakes.submitter import FakeSubmitter
from tests.fakes.world import entry_of

RUNS = JobStatus(job_id=JobId("4242"), state=JobState.RUNNING)
UNSEEN = JobStatus(job_id=JobId("4242"), state=JobState.UNKNOWN, reason="slurmctld is down")
LOST = replace(UNSEEN, is_lost=True, reason="how it ended is unknown")


class ToldSubmitter(FakeSubmitter):
    """Says of every job what it was told to say; the last word stays."""

    def __init__(self, *answers: JobStatus) -> None:
        super().__init__()
        self._answers = list(answers)

    def statuses(self, jobs: Sequence[JobEntry]) -> Mapping[str, JobStatus]:
        """The next of the answers, for each job."""
        self.asked.append([job.job_id for job in jobs])
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return {job.submission: answer for job in jobs}


def running(submitter: FakeSubmitter, folder: Path, job_id: str = "Laa") -> JobEntry:
    """A job that runs until the test ends it."""
    entry = entry_of(job_id, folder, created_s=5.0)
    intended(entry)
    (folder / "job.sbatch").write_text("sleep 1\n")
    submitter.submit(
        SubmitRequest(
            submission=entry.submission,
            job_id=entry.job_id,
            folder=folder,
            script="sleep 1\n",
            workdir=folder,
            environment={},
            time_limit_s=None,
            kill_wait_s=1.0,
            begun_s=5.0,
        )
    )
    return entry


def intended(entry: JobEntry) -> None:
    """The folder of a job, with its intent.json."""
    folder = Path(entry.folder)
    folder.mkdir(parents=True)
    intent = {
        "uuid": entry.submission,
        "job_id": entry.job_id,
        "name": entry.name,
        "site": entry.site,
        "created_s": entry.created_s,
    }
    (folder / "intent.json").write_text(json.dumps(intent))
