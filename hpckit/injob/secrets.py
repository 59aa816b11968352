"""The secrets of a job: read from its folder for the ranks alone, and removed at its end."""

from __future__ import annotations

import json
import os

from hpckit.core.talk import reason, say

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = "secrets.json"
_USED = "secrets.used."


class Secrets:
    """The values, and the file that holds them."""

    def __init__(self, env: Mapping[str, str]) -> None:
        """Read the file; SystemExit where that cannot be done, as the command cannot do without."""
        self._folder = env.get("HPCKIT_JOB_FOLDER", "")
        self._task = env.get("SLURM_ARRAY_TASK_ID", "")
        self._tasks = env.get("SLURM_ARRAY_TASK_COUNT", "")
        try:
            if not self._folder:
                raise FileNotFoundError("only hpckit submit creates it, not sbatch")
            with open(f"{self._folder}/{FILE}", encoding="utf-8") as file:
                self.values: dict[str, str] = json.load(file)["values"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            why = reason(error) if isinstance(error, OSError) else "it is damaged"
            say(f"the command was not started, because it has no secrets: {FILE}: {why}")
            raise SystemExit(1) from None

    def forget(self) -> None:
        """Remove the file; of a job array the last of its tasks does."""
        try:
            if self._task and self._tasks.isdigit():
                mark = f"{self._folder}/{_USED}{self._task}"
                os.close(os.open(mark, os.O_CREAT | os.O_WRONLY, 0o600))
                used = [name for name in os.listdir(self._folder) if name.startswith(_USED)]
                if len(used) < int(self._tasks):
                    return
                for name in used:
                    os.unlink(f"{self._folder}/{name}")
            os.unlink(f"{self._folder}/{FILE}")
        except OSError as error:
            say(f"warning: {FILE} could not be removed: {reason(error)}")
