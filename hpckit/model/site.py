"""The site file `hpckit.site/1` as a value: what is true of a cluster, whoever submits there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hpckit.model.rules import between, check_fields, key, matching, one_line

SITE_SCHEMA = "hpckit.site/1"
SITE_NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.-]*"
TEMPLATE_NAME_PATTERN = r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*"
NO_SITE = "none"


class SubmitterKind(StrEnum):
    """What starts a job at a site."""

    SLURM = "slurm"
    LOCAL = "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSpec:
    """A site: how jobs are started there, where their folders lie, and defaults for jobs."""

    schema: str = key(
        f'The format of this file: `"{SITE_SCHEMA}"`.',
        check=lambda value: None if value == SITE_SCHEMA else f'"{SITE_SCHEMA}"',
        const=SITE_SCHEMA,
    )
    name: str = key(
        "Name of the site; the file is called `<name>.toml`.",
        check=matching(SITE_NAME_PATTERN, "letters, digits, dot, dash and underscore"),
    )
    description: str = key(
        "One line for `hpckit sites list`.",
        default="",
        check=lambda text: one_line(text) if text else None,
    )
    submitter: SubmitterKind = key(
        "`slurm`, or `local`: this machine without a scheduler.", default=SubmitterKind.SLURM
    )
    template: str = key(
        "The script template, a file under `templates/`.",
        default="base.sbatch.j2",
        check=matching(TEMPLATE_NAME_PATTERN, "a template name such as base.sbatch.j2"),
    )
    job_root: str = key(
        "Folder of the job folders, on a file system that all nodes share; `~` and `$NAME` are "
        "expanded when a job is submitted.",
        default="~/hpckit-jobs",
        check=one_line,
    )
    poll_interval_s: float = key(
        "Seconds between two questions for a job's state while something waits for it.",
        default=15.0,
        check=between(0.05, 3600),
        minimum=0.05,
    )
    kill_wait_s: float = key(
        "Seconds between SIGTERM and SIGKILL when a local job is cancelled or out of time, as "
        "Slurm's KillWait.",
        default=30.0,
        check=between(0, 3600),
        minimum=0,
    )
    job: Mapping[str, Any] = key(
        "Defaults for any key of a job file, in the same tables.", factory=dict
    )

    def __post_init__(self) -> None:
        check_fields(self)


def generic_site() -> SiteSpec:
    """The site of somebody who named none: Slurm as its manual describes it, no defaults."""
    return SiteSpec(
        schema=SITE_SCHEMA, name=NO_SITE, description="No site file: what Slurm itself decides"
    )
