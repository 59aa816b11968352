"""A release of Slurm, and how it places nodes: all that a site file says in Slurm's terms.

By itself, so that reading a site file does not load the values of jobs.
"""

from __future__ import annotations

import re
from enum import StrEnum

from hpckit.core.late import regex
from hpckit.core.values import dataclass

_RELEASE = regex(r"(\d\d)\.(\d\d)(?:\.(\d{1,2}))?", re.ASCII)

VERSION_EXPECTED = "a Slurm release such as 24.11 or 24.11.5"


@dataclass(frozen=True, slots=True, order=True)
class SlurmVersion:
    """A release of Slurm, a line called by year and month and the maintenance release in it.

    `micro` is 0 where only the line is known; a packager's number or a release candidate's is
    left out.
    """

    major: int
    minor: int
    micro: int = 0

    def __str__(self) -> str:
        """Give the version as Slurm writes it, such as 22.05.8."""
        return f"{self.line}.{self.micro}"

    @property
    def line(self) -> str:
        """The release line, such as 22.05."""
        return f"{self.major:02d}.{self.minor:02d}"

    @classmethod
    def of(cls, text: str) -> SlurmVersion:
        """Read `24.11` or `24.11.5`. Raises ValueError for anything else."""
        match = _RELEASE.fullmatch(text)
        if match is None:
            raise ValueError(f"expected {VERSION_EXPECTED}, got {text!r}")
        return cls(int(match[1]), int(match[2]), int(match[3] or 0))


class TopologyKind(StrEnum):
    """Which topology plugin places the nodes of a job. Source: slurm.conf(5), TopologyPlugin."""

    TREE = "tree"
    BLOCK = "block"
    FLAT = "flat"
