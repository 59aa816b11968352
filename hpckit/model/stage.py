"""A chain: the stages of one job file, each a job that waits for the one before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpckit.model.rules import matching

if TYPE_CHECKING:
    from hpckit.model.slurm import JobId

STAGES_KEY = "stages"
STAGE_NAME_PATTERN = r"[A-Za-z0-9_.-]+"
stage_name_rule = matching(STAGE_NAME_PATTERN, "a name of letters, digits, _, . and -")


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlace:
    """Where a job stands in its chain: the uuid of the chain, and the jobs that must end well."""

    chain: str
    stage: str
    stages: tuple[str, ...]
    after: tuple[JobId, ...] = ()

    @property
    def is_first(self) -> bool:
        """Whether it waits for no other stage."""
        return self.stage == self.stages[0]
