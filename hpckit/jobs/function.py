"""A Python function as a job: the files that its job folder has of it, and what it finds there.

Source: submitit 1.5.4, core/utils.py, core/job_environment.py, core/submission.py.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar, Final

from submitit.core import utils
from submitit.slurm.slurm import SlurmJobEnvironment

from hpckit.core.trust import must_be_ours

NAME: Final = "hpckit"
"""The executor's, by which submitit finds both."""


class FunctionPaths(utils.JobPaths):
    """Where a job folder has a function, its results and its output.

    `index` is the task of a job array, counted over all its parts; None without one. Both streams
    of a rank are in its one log.
    """

    def __init__(
        self, folder: Path | str, job_id: str | None, task_id: int | None, index: int | None
    ) -> None:
        super().__init__(folder, job_id=job_id, task_id=task_id)
        self._index = index

    @property
    def folder(self) -> Path:
        """The job folder."""
        return self._folder

    @property
    def submission_file(self) -> Path:
        """The script."""
        from hpckit.spec.job_folder import SCRIPT_FILE

        return self._folder / SCRIPT_FILE

    @property
    def submitted_pickle(self) -> Path:
        """The function, its arguments, and after a checkpoint where it goes on."""
        return self._folder / pickle_name(self._index)

    @property
    def result_pickle(self) -> Path:
        """What the function returned, or how it failed, as this rank wrote it."""
        task = "" if self._index is None else f"-{self._index}"
        return self._folder / f"result{task}-{self.task_id}.pkl"

    @property
    def stdout(self) -> Path:
        """The rank's log; the batch script's where no rank has begun."""
        from hpckit.jobs.logs import FileJobLogs
        from hpckit.spec.job_folder import LogName

        logs = FileJobLogs()
        path = logs.path(LogName(folder=self._folder, rank=self.task_id, task=self._index))
        return path if path.exists() else logs.path(LogName(folder=self._folder, task=self._index))

    @property
    def stderr(self) -> Path:
        """The same log."""
        return self.stdout


class _InJob(FunctionPaths):
    """The same inside a job, where both files are written under another name and then renamed.

    submitit refuses to write where that other name is there, as an attempt leaves it that was
    ended while it wrote: it is removed when the path is asked for.
    """

    @property
    def submitted_pickle(self) -> Path:
        """The function's file, free to be written."""
        return _freed(super().submitted_pickle)

    @property
    def result_pickle(self) -> Path:
        """The result's file, free to be written."""
        return _freed(super().result_pickle)


def _freed(path: Path) -> Path:
    path.with_suffix(f"{path.suffix}.save_tmp").unlink(missing_ok=True)
    return path


def pickle_name(index: int | None) -> str:
    """Return the name of a function's file in the job folder, of an array task's with its index."""
    return "function.pkl" if index is None else f"function-{index}.pkl"


class HpckitJobEnvironment(SlurmJobEnvironment):
    """What a function finds out about its job: `submitit.JobEnvironment()` inside one."""

    _env: ClassVar[dict[str, str]] = {
        **SlurmJobEnvironment._env,
        "num_tasks": "WORLD_SIZE",
        "global_rank": "RANK",
        "local_rank": "LOCAL_RANK",
        "node": "NODE_RANK",
    }

    @classmethod
    def name(cls) -> str:
        """The executor's name."""
        return NAME

    @property
    def raw_job_id(self) -> str:
        """The scheduler's id, or that of a job on this machine."""
        return os.environ.get("HPCKIT_JOB_ID") or super().raw_job_id

    @property
    def paths(self) -> utils.JobPaths:
        """The files of this rank. Raises Untrusted where somebody else could change them."""
        folder, index = Path(os.environ["HPCKIT_JOB_FOLDER"]), self.array_task_id
        must_be_ours(folder)
        offset = int(os.environ.get("HPCKIT_ARRAY_OFFSET") or 0)
        of_array = None if index is None else offset + int(index)
        return _InJob(folder, self.job_id, self.global_rank, of_array)

    def _requeue(self, countdown: int) -> None:
        if "SLURM_JOB_ID" not in os.environ:
            raise utils.UncompletedJobError("a local job cannot be requeued: there is no queue")
        super()._requeue(countdown)
