"""Which NCCL or RCCL a job will load, as far as metadata and file names tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hpckit.model.comm import CommLibrary, NcclVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclWhere:
    """Where a job runs, as far as it matters for what it loads.

    `environment` is the job's, and `set_by` says which of its keys sets a variable. `python` is a
    virtual environment, a conda prefix or an interpreter; None is the first on PATH. `program` is
    what the job starts where that is no Python. `account_home` is the home folder of the account,
    which NCCL before 2.30 takes in place of HOME.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    set_by: Mapping[str, str] = field(default_factory=dict)
    python: str | None = None
    program: str | None = None
    workdir: str | None = None
    account_home: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclCandidate:
    """A library that a job may load.

    `how` is what leads to it (`LD_LIBRARY_PATH`), `version_from` where its version was read, or
    why it is not known. `lost` is why it is not the one that counts.
    """

    library: CommLibrary
    path: str
    how: str
    version: NcclVersion | None = None
    version_from: str = ""
    lost: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundNccl:
    """What a job will load; `chosen` None is that it is not known, and `because` says why."""

    chosen: NcclCandidate | None
    because: str
    others: tuple[NcclCandidate, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def version(self) -> NcclVersion | None:
        """The version that will be loaded, None where it is not known."""
        return self.chosen.version if self.chosen else None

    @property
    def library(self) -> CommLibrary | None:
        """Whose it is."""
        return self.chosen.library if self.chosen else None
