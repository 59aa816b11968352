"""Where a value of the effective job came from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hpckit.model.job import JobSpec


class OriginKind(StrEnum):
    """The layers of a job, strongest first."""

    COMMAND_LINE = "command line"
    REPORT = "report"
    JOB = "job"
    SITE = "site"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOrigin:
    """One value of the effective job: its dotted key, the value as JSON text, its layer.

    `detail` names the option, the report or the site; it never holds a path, so that the effective
    job is the same on every machine.
    """

    key: str
    value: str
    origin: OriginKind
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveJob:
    """A job with all defaults resolved, the origin of each value, and its digest.

    `digest` is the SHA-256 of the canonical JSON of `spec`, in hex.
    """

    spec: JobSpec
    origins: tuple[ValueOrigin, ...]
    digest: str
