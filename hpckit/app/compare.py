"""`hpckit report --compare`: two jobs, their samples, and what they were asked to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from hpckit.account_ports import FoundAccounts, SampleStore
from hpckit.errors import HpckitError, ParseError, StorageFailed
from hpckit.measure.compare import ComparedSide
from hpckit.measure.compare import compare as compared
from hpckit.model.account import JobReport
from hpckit.model.comparison import Comparison
from hpckit.model.job_folder import EFFECTIVE_FILE
from hpckit.model.series import SampleChunk
from hpckit.parse.samples import SampleReader
from hpckit.ports import JobFolders

_NOT_THE_RECIPE = frozenset({"name", "schema"})


def compare(a: ComparedSide, b: ComparedSide) -> Comparison:
    """B against A. Raises HpckitError for a job without any sample or account of a GPU."""
    for side in (a, b):
        if not side.report.gpus:
            raise HpckitError(
                f"nothing of job {side.report.job.job_id} can be compared: no GPU was measured",
                hint=f"hpckit report {side.report.job.job_id or 'JOB'} says what is missing",
            )
    return compared(a, b)


def side_of(
    report: JobReport, found: FoundAccounts, store: SampleStore, folders: JobFolders
) -> ComparedSide:
    """One side of a comparison: samples of the last incarnation; the recipe from the job folder."""
    folder = report.job.folder
    return ComparedSide(
        report=report,
        chunks=_chunks(found, store, last_restart(report)),
        recipe=None if folder is None else recipe_of(Path(folder), folders),
    )


def _chunks(found: FoundAccounts, store: SampleStore, restart: int) -> Iterator[SampleChunk]:
    """What can be read of them: the report's `missing` says what cannot."""
    for files in found.incarnations:
        for path in files.samples:
            with suppress(StorageFailed, ParseError):
                for chunk in SampleReader(store.pieces(path)):
                    if chunk.meta.restart == restart:
                        yield chunk


def last_restart(report: JobReport) -> int:
    """The incarnation that a comparison is of."""
    runs, gpus = report.incarnations, report.gpus
    return max((*(one.restart for one in runs), *(one.restart for one in gpus)), default=0)


def recipe_of(folder: Path, folders: JobFolders) -> Mapping[str, str] | None:
    """What a job was asked to be, by dotted key as JSON text; None where its folder does not say.

    Its name is not part of it.
    """
    try:
        origins: Any = folders.read_json(folder, EFFECTIVE_FILE).get("origins")
    except StorageFailed:
        return None
    if not isinstance(origins, list):
        return None
    return {
        str(one["key"]): str(one["value"])
        for one in origins
        if isinstance(one, dict) and {"key", "value"} <= one.keys()
        if one["key"] not in _NOT_THE_RECIPE
    }
