"""submitit's SlurmExecutor as a thin backend: our script text, our name for its file, our sbatch.

What submitit 1.5 does otherwise and must not here: it reads the job id out of any line of
sbatch's output, drops a subclass's script for arrays, and takes SLURM_CONF away (docs/adr/0004).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpckit.adapters.pip_line import pip_line
from hpckit.errors import StorageFailed, ToolMissing
from hpckit.parse.sbatch import parse_sbatch


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptSubmission:
    """A script and how it is handed over, as a file of this name.

    `sbatch` runs an argument list and gives its stdout; `options` are those of the command line.
    """

    folder: Path
    file_name: str
    text: str
    options: Sequence[str]
    sbatch: Callable[[Sequence[str]], str]


def submit_through_submitit(submission: ScriptSubmission) -> str:
    """Write the submission file and have it submitted; gives what sbatch printed.

    Raises StorageFailed when the file cannot be written, ToolMissing without submitit, ParseError
    for output that holds no job id, and whatever `sbatch` raises.
    """
    try:
        from submitit.slurm.slurm import SlurmExecutor, SlurmJob
    except ImportError as error:
        raise ToolMissing(
            f"submitit cannot be imported: {error}", hint=pip_line("submitit")
        ) from error
    printed: list[str] = []

    class ScriptExecutor(SlurmExecutor):
        """Submits one script that is there already."""

        @classmethod
        def affinity(cls) -> int:
            # Positive, so that submitit takes it without srun: what is missing shows when called.
            return 1

        def submit_script(self) -> SlurmJob[Any]:
            self._throttle()
            return self._submit_command("")

        def _make_submission_file_text(self, command: str, uid: str) -> str:
            return submission.text

        def _make_submission_command(self, submission_file_path: Path) -> list[str]:
            return ["sbatch", "--parsable", *submission.options, str(submission_file_path)]

        @staticmethod
        def _get_job_id_from_submission_command(string: bytes | str) -> str:
            return parse_sbatch(string if isinstance(string, str) else string.decode())[0]

        def _submit_command(self, command: str) -> SlurmJob[Any]:
            path = self.folder / submission.file_name
            _write(path, self._make_submission_file_text(command, submission.file_name))
            printed.append(submission.sbatch(self._make_submission_command(path)))
            job_id = self._get_job_id_from_submission_command(printed[-1])
            return SlurmJob(folder=self.folder, job_id=job_id, tasks=[0])

    ScriptExecutor(submission.folder).submit_script()
    return printed[-1]


def _write(path: Path, text: str) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
    except FileExistsError as error:
        raise StorageFailed(f"the job in {path.parent} has been submitted already") from error
    except OSError as error:
        raise StorageFailed(f"{path} cannot be written: {error.strerror}") from error
