"""`hpckit report --compare`: two jobs, their samples, and what they were asked to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpckit.app.accounts import Gathered, SampleSpan, SampleStore
from hpckit.errors import HpckitError, ParseError, StorageFailed
from hpckit.measure.compare import ComparedSide, compare_ranks
from hpckit.measure.compare import compare as compared
from hpckit.measure.compare_used import last_restart
from hpckit.model.account import JobReport
from hpckit.model.comparison import Comparison
from hpckit.model.job_folder import EFFECTIVE_FILE
from hpckit.model.series import SampleChunk
from hpckit.parse.samples import SampleReader

if TYPE_CHECKING:
    from hpckit.adapters.job_folder import FileJobFolders

_NOT_THE_RECIPE = frozenset({"name", "schema"})


def compare(a: ComparedSide, b: ComparedSide) -> Comparison:
    """B against A: their GPUs, or their ranks where neither has a GPU that was measured.

    Raises HpckitError where one of them has.
    """
    with_gpus = [bool(side.report.gpus) for side in (a, b)]
    if not any(with_gpus):
        return compare_ranks(a, b)
    if not all(with_gpus):
        name, side, other = ("A", a, "B") if with_gpus[1] else ("B", b, "A")
        why = side.report.energy.gpu.because
        raise HpckitError(
            f"got no measured GPU in {name}{f' ({why})' if why else ''}, and some in {other}; "
            "expected GPUs in both, or in neither",
            hint="compare two jobs of one kind; of each alone: hpckit report JOB, or --from FOLDER",
        )
    return compared(a, b)


def side_of(
    report: JobReport, gathered: Gathered, store: SampleStore, folders: FileJobFolders
) -> ComparedSide:
    """One side of a comparison: samples of the last incarnation; the recipe from the job folder."""
    folder, last = report.job.folder, last_restart(report)
    evidence = [one for one in gathered.evidence if one.restart == last]
    said = [life.start.world_size for one in evidence for life in one.lives]
    return ComparedSide(
        report=report,
        chunks=_chunks([span for one in evidence for span in one.spans], store),
        recipe=None if folder is None else recipe_of(Path(folder), folders),
        world_size=max((one for one in said if one is not None), default=None),
    )


def _chunks(spans: Sequence[SampleSpan], store: SampleStore) -> Iterator[SampleChunk]:
    """What can be read of the files that the report is of: its `missing` says what cannot."""
    for span in spans:
        with suppress(StorageFailed, ParseError):
            yield from SampleReader(store.pieces(span.path))


def recipe_of(folder: Path, folders: FileJobFolders) -> Mapping[str, str] | None:
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
