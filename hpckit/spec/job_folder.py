"""What the files of a job folder are called; docs/reference/job-folder.md describes them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from hpckit.core.late import regex
from hpckit.core.values import dataclass

INTENT_FILE: Final = "intent.json"
EFFECTIVE_FILE: Final = "effective.json"
SITE_FILE: Final = "site.json"
JOB_FILE: Final = "job.toml"
ADVICE_FILE: Final = "advice.json"
TOPOLOGY_FILE: Final = "topology.json"
SCRIPT_FILE: Final = "job.sbatch"
AGENT_FILE: Final = "hpckit-injob.pyz"
SUBMITTED_FILE: Final = "submitted.json"
SECRETS_FILE: Final = "secrets.json"
RUN_FILE: Final = "run.json"
EFFECTIVE_SCHEMA: Final = "hpckit.effective-job/1"
RESULT_FILE: Final = "result.json"
RESULT_SCHEMA: Final = "hpckit.result/1"
LOCAL_RESULT_SCHEMA: Final = "hpckit.local-result/1"
CANCEL_FILE: Final = "cancel.json"
SUBMITIT_FOLDER: Final = "submitit"
LOGS_FOLDER: Final = "logs"

_TASK_LOG = regex(r"job-(?:(\d+)\+)?(\d+)\.log", re.ASCII)


def task_log(task: str, array_offset: int = 0) -> str:
    """Path of the merged log of a part's task, or of all with sbatch's `%a` for the task."""
    part = f"{array_offset}+" if array_offset else ""
    return f"{LOGS_FOLDER}/job-{part}{task}.log"


def task_of_log(name: str) -> int | None:
    """The task, counted in the whole array, whose merged log a file is; None for any other."""
    match = _TASK_LOG.fullmatch(name)
    return int(match[1] or 0) + int(match[2]) if match else None


def log_file(rank: int | None, task: int | None = None) -> str:
    """Path of a log below the job folder: merged (rank None) or one rank's, of an array task.

    The merged log of a task in a part of an array is called otherwise (`task_log`).
    """
    if rank is None:
        return f"{LOGS_FOLDER}/job.log" if task is None else task_log(str(task))
    folder = LOGS_FOLDER if task is None else f"{LOGS_FOLDER}/array-{task}"
    return f"{folder}/rank-{rank}.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogName:
    """One log of a job folder: of one rank or, None, merged; of one task of a job array."""

    folder: Path
    rank: int | None = None
    task: int | None = None
