"""Accounts as Parquet: what is in the file, how large it is, and that it comes back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hpckit.account.gather import gather
from hpckit.account.parquet.archive import archive
from hpckit.account.parquet.store import ParquetStore
from hpckit.account.sample_format import Block, encode_block, read_blocks
from hpckit.account.samples import SampleChunk
from hpckit.account.store import FileSampleStore
from hpckit.core.errors import StorageFailed
from tests.fakes.account_files import Columns, MadeJob, write_accounts, write_topology
from tests.fakes.machines import dgx_h100

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
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


def written(folder: Path, job: MadeJob | None = None) -> tuple[Path, int, int]:
    """The archive of what lies in a folder, or of a made-up job, its samples and its bytes."""
    if job is not None:
        write_accounts(folder, job)
    store, path = FileSampleStore(), folder / "job.parquet"
    counts = archive(gather(store, store.find(folder)), store, path, lambda _done, _of: None)
    return (path, *counts)


def chunks(store: FileSampleStore | ParquetStore, folder: Path) -> Iterator[SampleChunk]:
    """All chunks of all sample files."""
    for files in store.find(folder).incarnations:
        for path in files.samples:
            yield from store.samples(path)


def test_an_archived_sample_has_thirty_bytes_at_most(tmp_path: Path) -> None:
    """Noisy samples of 8 GPUs, with host columns, ledgers and metadata."""
    _, samples, size_bytes = written(tmp_path, MadeJob(duration_s=600, hz=10, shape=noisy))
    assert samples == 8 * 6001
    assert size_bytes / samples <= 30


def test_topologies_come_back_as_they_were(tmp_path: Path) -> None:
    """An archive has the nodes' topologies, by incarnation, to the last byte."""
    place = write_accounts(tmp_path, MadeJob(gpus=1, duration_s=3))
    before = write_topology(place, "n000", dgx_h100()).read_bytes()
    path, _, _ = written(tmp_path)
    again = ParquetStore(path)
    (files,) = again.find(path).incarnations
    assert (files.restart, [again.text(one) for one in files.topologies]) == (0, [before])


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
    text = ParquetStore(path).text(found.incarnations[1].ledgers[0])
    assert json.loads(text.split(b"\n")[0])["rank"] == 0


def test_an_archive_without_samples_is_refused(tmp_path: Path) -> None:
    """Ledgers alone are no reason for one, and nothing is left behind."""
    with pytest.raises(StorageFailed, match="no samples"):
        written(tmp_path, MadeJob(gpus=1, duration_s=5, samples=False))
    assert not (tmp_path / "job.parquet").exists()


def test_a_parquet_file_of_another_is_refused(tmp_path: Path) -> None:
    """A table that somebody else wrote has not the metadata."""
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(StorageFailed, match=r"has no hpckit\.archive/1"):
        ParquetStore(path).find(path)


def changed(path: Path, table: Any, segment: Mapping[str, object], rows: int) -> Path:
    """The archive with another table, in row groups of so many rows, and a changed segment."""
    document = json.loads(pq.ParquetFile(path).metadata.metadata[b"hpckit"])
    document["segments"][0].update(segment)
    other = path.with_name("other.parquet")
    with pq.ParquetWriter(other, table.schema, compression="zstd") as writer:
        writer.write_table(table, row_group_size=rows)
        writer.add_key_value_metadata({"hpckit": json.dumps(document)})
    return other


@pytest.mark.parametrize("late", ["realtime_ns", "boottime_ns"])
def test_clocks_behind_the_monotonic_one_come_back(tmp_path: Path, late: str) -> None:
    """A machine that does not know the time yet is archived and read like another."""
    place = write_accounts(tmp_path, MadeJob(gpus=1, duration_s=5))
    path = place / "node-n000.samples"
    blocks = [one for one in read_blocks(path.read_bytes()) if isinstance(one, Block)]
    moved = [
        one.header._replace(**{late: one.header.monotonic_ns - 5_000 * 10**9}) for one in blocks
    ]
    data = zip(moved, blocks, strict=True)
    path.write_bytes(b"".join(encode_block(head, bytes(one.payload)) for head, one in data))
    archived, _, _ = written(tmp_path)
    (before,) = chunks(FileSampleStore(), tmp_path)
    after = [one for one in chunks(ParquetStore(archived), archived) if len(one.gpu_ns)]
    assert after[0].gpu_ns.tolist() == before.gpu_ns.tolist()
    assert after[0].realtime_offset_ns == before.realtime_offset_ns
    assert after[0].boottime_offset_ns == before.boottime_offset_ns


def test_a_clock_that_no_header_holds_is_damage(tmp_path: Path) -> None:
    """Offsets of an archive are checked as its rows are."""
    path, _, _ = written(tmp_path, MadeJob(gpus=1, duration_s=5))
    other = changed(path, pq.read_table(path), {"realtime_offset_ns": 2**70}, 100)
    with pytest.raises(StorageFailed, match="is damaged"):
        list(chunks(ParquetStore(other), other))


def test_no_column_of_texts_is_read(tmp_path: Path) -> None:
    """A text of a MiB costs a small file nothing in each of its rows, and memory all of it."""
    path, _, _ = written(tmp_path, MadeJob(gpus=1, duration_s=5, ledgers=False))
    table = pq.read_table(path)
    table = table.filter(table["gpu_uuid"].is_valid())
    other = changed(path, table.drop_columns(["gpu_uuid", "node"]), {}, 100)
    assert sum(len(chunk.gpu) for chunk in chunks(ParquetStore(other), other)) == len(table)


@pytest.mark.parametrize(
    ("name", "value"),
    [("power_mw", float("nan")), ("power_mw", -7), ("gpu_index", None), ("gpu_index", 1.5)],
)
def test_a_column_of_another_kind_is_damage(tmp_path: Path, name: str, value: object) -> None:
    """Numbers that the format does not have are not made into some that it has."""
    path, _, _ = written(tmp_path, MadeJob(gpus=1, duration_s=5, ledgers=False))
    table = pq.read_table(path)
    table = table.filter(table["gpu_uuid"].is_valid())
    kind = pa.float64() if value is None else None
    column = pa.array([value] * len(table), kind)
    other = changed(path, table.set_column(table.schema.get_field_index(name), name, column), {}, 9)
    with pytest.raises(StorageFailed, match="is damaged"):
        list(chunks(ParquetStore(other), other))


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    """A FIFO that nobody writes to is not waited for."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with pytest.raises(StorageFailed, match="regular file"):
        ParquetStore(path).find(path)
