"""`--from-report`: the advice of a measured job for the one that is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpckit.model.advised import AdvisedJob

_MOST_BYTES = 1024**2


def advised(wanted: str) -> AdvisedJob:
    """Return the advice of the job with this id, or that a job folder has in its `advice.json`.

    Raises HpckitError for a job that is not known or has no accounts, ConfigError for a file that
    is no advice.
    """
    from hpckit import wiring
    from hpckit.app.advice import advised_job
    from hpckit.cli.cmd_report import ReportOptions
    from hpckit.cli.report_made import made_report

    if wanted.endswith(".json"):
        return _read(wanted)
    report = made_report(ReportOptions(job_id=wanted), lambda _done, _of: None).report
    return advised_job(report, Path(report.job.folder or "."), wiring.job_folders())


def _read(wanted: str) -> AdvisedJob:
    from hpckit.app.advice import read_advice
    from hpckit.errors import ConfigError

    try:
        with Path(wanted).open("rb") as file:
            return read_advice(file.read(_MOST_BYTES).decode(), wanted)
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 text: {error}", source=wanted) from error
    except OSError as error:
        raise ConfigError(
            f"cannot be read: {error.strerror}",
            source=wanted,
            hint="give the id of a job, or the advice.json of a job folder",
        ) from error
