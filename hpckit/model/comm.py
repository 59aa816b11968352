"""The communication environment of a job: which variables are set, to what, and why.

Words are NCCL's and RCCL's; sources are named by whoever decides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hpckit.core.findings import SourcedFinding

TUNE_SCHEMA: Final = "hpckit.tune/1"

OVERLAY_PATTERN: Final = r"[a-z0-9][a-z0-9.-]*"
VERSION_EXPECTED: Final = "a release of NCCL or RCCL such as 2.27 or 2.27.3"
_RELEASE: Final = re.compile(r"v?(\d{1,2})\.(\d{1,2})(?:\.(\d{1,3}))?([.+-]\S*)?", re.ASCII)


class CommLibrary(StrEnum):
    """Whose collectives a job's GPUs use."""

    NCCL = "nccl"
    RCCL = "rccl"


class NetPlugin(StrEnum):
    """What carries the collectives over the network in place of NCCL's own sockets and verbs."""

    AWS_OFI = "aws-ofi-nccl"
    TCPX = "tcpx"
    TCPXO = "tcpxo"
    GIB = "gib"
    HPCX = "hpcx"
    NONE = "none"


@dataclass(frozen=True, slots=True, order=True)
class NcclVersion:
    """A release of NCCL, or of RCCL, which counts as NCCL does; `micro` 0 where only the line is.

    A build's own suffix (`2.18.5+cuda12.2`) is left out.
    """

    major: int
    minor: int
    micro: int = 0

    def __str__(self) -> str:
        """Give the version as NCCL prints it, such as 2.27.3; of a line alone 2.27."""
        line = f"{self.major}.{self.minor}"
        return f"{line}.{self.micro}" if self.micro else line

    @classmethod
    def of(cls, text: str) -> NcclVersion:
        """Read `2.27`, `2.27.3` or `2.27.3+cuda12.9`. Raises ValueError for anything else."""
        match = _RELEASE.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"expected {VERSION_EXPECTED}, got {text!r}")
        return cls(int(match[1]), int(match[2]), int(match[3] or 0))

    @classmethod
    def of_code(cls, code: int) -> NcclVersion:
        """Read what ncclGetVersion gives: 22703, before 2.9 with one digit less (2708).

        Source: nccl.h, NCCL_VERSION. Raises ValueError for what is no such number.
        """
        if 1000 <= code < 10000:  # noqa: PLR2004  2.8.4 is 2804
            return cls(code // 1000, code % 1000 // 100, code % 100)
        if 20000 <= code < 100000:  # noqa: PLR2004
            return cls(code // 10000, code % 10000 // 100, code % 100)
        raise ValueError(f"expected NCCL_VERSION_CODE such as 22703, got {code}")


class SettingOrigin(StrEnum):
    """Who decided a variable."""

    RULE = "rule"
    SITE = "site"
    OVERLAY = "overlay"
    JOB = "job"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommSetting:
    """One variable that the script exports.

    `because` is one sentence for the comment beside it, `source` the document that it stands on,
    `rule` the name of the rule or of the overlay. `date` is when the source was read or published
    (`2026-11`). `warning` is what speaks against a value that the user chose. In a value that
    `is_expanded`, `${SLURM_JOB_ID}` is the job's; in any other nothing is expanded. One that
    `yields` is exported where nothing else has set it by then.
    """

    name: str
    value: str
    because: str
    source: str
    origin: SettingOrigin
    rule: str
    date: str | None = None
    warning: str | None = None
    is_expanded: bool = False
    yields: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommProfile:
    """A shell file of the provider that the script sources, and the variables that it needs."""

    path: str
    because: str
    source: str
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommLeft:
    """A variable that is not exported although a rule or a source has a value for it, and why."""

    name: str
    value: str
    because: str
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommEnv:
    """The communication environment of a job on its nodes: empty is the best answer.

    `settings` are in the order in which a script exports them; `notes` say what no variable
    changes, and what is not known.
    """

    settings: tuple[CommSetting, ...] = ()
    profile: CommProfile | None = None
    left: tuple[CommLeft, ...] = ()
    notes: tuple[SourcedFinding, ...] = ()
