"""All accounts of a job in one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hpckit.adapters.parquet_archive import ArchivedFile
from hpckit.app.accounts import Gathered, SampleStore
from hpckit.errors import StorageFailed
from hpckit.model.account_files import account_folder

if TYPE_CHECKING:
    from hpckit.adapters.parquet_archive import ParquetArchive


def archive(
    gathered: Gathered,
    store: SampleStore,
    writer: ParquetArchive,
    path: Path,
    progress: Callable[[int, int], None],
) -> tuple[int, int]:
    """Write the archive; gives the GPU samples in it, and its bytes.

    A file that cannot be read, or repeats another, is left out, as the report says. Raises
    StorageFailed where there is none at all, and what `writer` raises.
    """
    ledgers: dict[str, str] = {}
    topologies: dict[str, str] = {}
    incarnations = gathered.found.incarnations
    for files in incarnations:
        folder = account_folder(str(files.restart or 0)).rpartition("/")[2]
        ledgers |= _texts(store.ledger, files.ledgers, folder)
        topologies |= _texts(store.topology, files.topologies, folder)
    kept = {span.path for one in gathered.evidence for span in one.spans}
    named = [(files.restart, one) for files in incarnations for one in files.samples if one in kept]
    if not named:
        raise StorageFailed("there are no samples to be written as Parquet")
    sources = [
        ArchivedFile(
            name=one.name if restart is None else f"restart-{restart}/{one.name}",
            restart=restart,
            pieces=partial(_pieces, store, one),
        )
        for restart, one in named
    ]
    return writer.write(path, ledgers, _told(sources, progress), topologies)


def _texts(read: Callable[[Path], bytes], paths: Sequence[Path], folder: str) -> dict[str, str]:
    texts = {}
    for one in paths:
        try:
            texts[f"{folder}/{one.name}"] = read(one).decode("utf-8", "replace")
        except StorageFailed:
            continue
    return texts


def _pieces(store: SampleStore, path: Path) -> Iterator[bytes]:
    try:
        yield from store.pieces(path)
    except StorageFailed:
        return


def _told(sources: list[ArchivedFile], progress: Callable[[int, int], None]) -> list[ArchivedFile]:
    """The files, which say when they are begun."""

    def pieces(place: int, one: ArchivedFile) -> Iterator[bytes]:
        progress(place, len(sources))
        yield from one.pieces()

    return [
        ArchivedFile(name=one.name, restart=one.restart, pieces=partial(pieces, place, one))
        for place, one in enumerate(sources)
    ]
