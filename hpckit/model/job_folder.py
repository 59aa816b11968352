"""What the files of a job folder are called; docs/reference/job-folder.md describes them."""

from __future__ import annotations

import re
from typing import Final

INTENT_FILE: Final = "intent.json"
EFFECTIVE_FILE: Final = "effective.json"
SITE_FILE: Final = "site.json"
PLAN_FILE: Final = "plan.json"
JOB_FILE: Final = "job.toml"
SCRIPT_FILE: Final = "job.sbatch"
AGENT_FILE: Final = "hpckit-injob.pyz"
SUBMITTED_FILE: Final = "submitted.json"
RUN_FILE: Final = "run.json"
RESULT_FILE: Final = "result.json"
CANCEL_FILE: Final = "cancel.json"
SUBMITIT_FOLDER: Final = "submitit"
LOGS_FOLDER: Final = "logs"

_SUBMISSION_FILE = re.compile(r"submission-([0-9a-f]{32})\.sbatch")


def submission_file(submission: str) -> str:
    """The name under which a script is handed to sbatch: squeue and sacct give it back."""
    return f"submission-{submission}.sbatch"


def submission_in(command: str) -> str | None:
    """The uuid of the submission that a job's command names, None for somebody else's script.

    The last one: a folder above may be called so too.
    """
    named = _SUBMISSION_FILE.findall(command)
    return named[-1] if named else None


def log_file(rank: int | None, task: int | None = None) -> str:
    """Path of a log below the job folder: merged (rank None) or one rank's, of an array task."""
    if rank is None:
        name = "job.log" if task is None else f"job-{task}.log"
        return f"{LOGS_FOLDER}/{name}"
    folder = LOGS_FOLDER if task is None else f"{LOGS_FOLDER}/array-{task}"
    return f"{folder}/rank-{rank}.log"
