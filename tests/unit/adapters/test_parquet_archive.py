"""Accounts as Parquet: what is in the file, how large it is, and that it comes back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hpckit.account_ports import ArchivedFile
from hpckit.adapters.account_store import FileSampleStore
from hpckit.adapters.parquet_archive import ParquetArchive
from hpckit.adapters.parquet_store import ParquetStore
from hpckit.app.archive import archive
from hpckit.errors import StorageFailed
from hpckit.model.series import SampleChunk
from hpckit.parse.samples import SampleReader
from tests.fakes.account_files import Columns, MadeJob, write_accounts, write_topology
from tests.fakes.machines import dgx_h100

pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")


def noisy(at_s: NDArray[np.float64], gpu: int) -> Columns:
    """A GPU whose every gauge jitters as that of a training does; synthetic."""
    random = np.random.default_rng(gpu)
    count = len(at_s)
    return {
        "util_pct": random.integers(80, 101, count),
        "mem_util_pct": random.integers(30, 60, count),
        "temp_c": 60 + random.integers(0, 4, count),
        "power_mw": random.normal(550_000, 40_000, count),
        "sm_mhz": 1755 + 15 * random.integers(-4, 5, count),
        "sm_active_pct100": random.normal(9000, 300, count),
        "tensor_active_pct100": random.normal(5500, 800, count),
        "dram_active_pct100": random.normal(4200, 500, count),
        "sw_power_cap_ms": np.cumsum(random.integers(0, 60, count)),
        "processes": np.full(count, 1),
    }


def written(folder: Path, job: MadeJob) -> tuple[Path, int, int]:
    """The archive of a made-up job, the samples in it and its bytes."""
    write_accounts(folder, job)
    store = FileSampleStore()
    path = folder / "job.parquet"
    counts = archive(store.find(folder), store, ParquetArchive(), path, lambda _done, _of: None)
    return (path, *counts)


def chunks(store: FileSampleStore | ParquetStore, folder: Path) -> Iterator[SampleChunk]:
    """All chunks of all sample files."""
    for files in store.find(folder).incarnations:
        for path in files.samples:
            yield from SampleReader(store.pieces(path))


def test_an_archived_sample_has_thirty_bytes_at_most(tmp_path: Path) -> None:
    """Noisy samples of 8 GPUs, with host columns, ledgers and metadata."""
    _, samples, size_bytes = written(tmp_path, MadeJob(duration_s=600, hz=10, shape=noisy))
    assert samples == 8 * 6001
    assert size_bytes / samples <= 30


def test_topologies_come_back_as_they_were(tmp_path: Path) -> None:
    """An archive has the nodes' topologies, by incarnation, to the last byte."""
    place = write_accounts(tmp_path, MadeJob(gpus=1, duration_s=3))
    before = write_topology(place, "n000", dgx_h100()).read_bytes()
    store, path = FileSampleStore(), tmp_path / "job.parquet"
    archive(store.find(tmp_path), store, ParquetArchive(), path, lambda _done, _of: None)
    again = ParquetStore(path)
    (files,) = again.find(path).incarnations
    assert (files.restart, [again.topology(one) for one in files.topologies]) == (0, [before])


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    """Each GPU's rows, their times and the host's are the same after the way there and back."""
    path, _, _ = written(tmp_path, MadeJob(gpus=3, duration_s=900, hz=2, shape=noisy))
    before = list(chunks(FileSampleStore(), tmp_path))
    after = list(chunks(ParquetStore(path), path))
    for name in ("energy_mj", "power_mw", "gpu", "sm_active_pct100", "pcie_tx_mib"):
        assert np.array_equal(
            np.concatenate([one.gpu[name] for one in before]),
            np.concatenate([one.gpu[name] for one in after]),
        )
    for times in ("gpu_ns", "host_ns"):
        assert np.array_equal(
            np.concatenate([getattr(one, times) for one in before]),
            np.concatenate([getattr(one, times) for one in after]),
        )
    assert np.array_equal(
        np.concatenate([one.host for one in before]), np.concatenate([one.host for one in after])
    )
    assert before[0].meta == after[0].meta
    assert [one for chunk in after for one in chunk.events] == [
        one for chunk in before for one in chunk.events
    ]


def test_other_tools_find_names_times_and_nulls(tmp_path: Path) -> None:
    """The node, the UUID and the time stand in each row, and "not measured" is null."""

    def shape(at_s: NDArray[np.float64], gpu: int) -> Columns:
        return {**noisy(at_s, gpu), "temp_c": np.full(len(at_s), 0xFF)}

    path, _, _ = written(tmp_path, MadeJob(gpus=2, duration_s=10, shape=shape))
    table = pq.read_table(path)
    gpus = table.filter(table["gpu_uuid"].is_valid())
    assert set(gpus["node"].to_pylist()) == {"n000"}
    assert gpus["temp_c"].null_count == len(gpus)
    assert gpus["power_mw"].null_count == 0
    assert str(table.schema.field("time_ns").type) == "timestamp[ns, tz=UTC]"
    uuids = gpus["gpu_uuid"].to_pylist()
    assert uuids == sorted(uuids)


def test_incarnations_stay_apart(tmp_path: Path) -> None:
    """The files of each restart, and its ledgers, come back under it."""
    write_accounts(tmp_path, MadeJob(gpus=1, duration_s=5, restart=1, begins_s=60))
    path, _, _ = written(tmp_path, MadeJob(gpus=1, duration_s=5))
    found = ParquetStore(path).find(path)
    assert [(one.restart, len(one.ledgers), len(one.samples)) for one in found.incarnations] == [
        (0, 1, 1),
        (1, 1, 1),
    ]
    text = ParquetStore(path).ledger(found.incarnations[1].ledgers[0])
    assert json.loads(text.split(b"\n")[0])["rank"] == 0


def test_an_archive_without_samples_is_refused(tmp_path: Path) -> None:
    """Ledgers alone are no reason for one, and nothing is left behind."""
    with pytest.raises(StorageFailed, match="there are no samples"):
        written(tmp_path, MadeJob(gpus=1, duration_s=5, samples=False))
    assert not (tmp_path / "job.parquet").exists()


def test_a_parquet_file_of_another_is_refused(tmp_path: Path) -> None:
    """A table that somebody else wrote has not the metadata."""
    import pyarrow as pa

    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(StorageFailed, match=r"has no hpckit\.archive/1"):
        ParquetStore(path).find(path)


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """What reading raises ends the writing, and the file is not there."""

    def pieces() -> Iterator[bytes]:
        raise StorageFailed("the disk is gone")

    source = ArchivedFile(name="node-n.samples", restart=0, pieces=pieces)
    with pytest.raises(StorageFailed, match="the disk is gone"):
        ParquetArchive().write(tmp_path / "x.parquet", {}, [source])
    assert [one for one in tmp_path.iterdir() if one.is_file()] == []
