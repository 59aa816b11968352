"""Rows by GPU, columns as numbers, and the steps of counters."""

from __future__ import annotations

import numpy as np
import pytest

from hpckit.account.compare.spread import measured
from hpckit.account.rows import rows_by_gpu
from hpckit.account.samples import GPU_DTYPE, SampleChunk, SampledGpu, SampleMeta


def chunk(places: list[int], gpus: int = 3) -> SampleChunk:
    """Rows of these GPUs; the time of each is its place."""
    rows = np.zeros(len(places), GPU_DTYPE)
    rows["gpu"] = places
    rows["power_mw"] = np.arange(len(places))
    named = tuple(SampledGpu(uuid=f"GPU-{place}", index=place) for place in range(gpus))
    return SampleChunk(
        meta=SampleMeta(node="n1", hz=1, gpus=named),
        gpu_ns=np.arange(len(places), dtype=np.int64),
        gpu=rows,
        host_ns=np.zeros(0, np.int64),
        host=np.zeros((0, 0), np.uint64),
        realtime_offset_ns=0,
        boottime_offset_ns=0,
    )


@pytest.mark.parametrize(
    "places",
    [
        [],
        [0],
        [0, 1, 2, 0, 1, 2],
        [2, 0, 2, 0],
        [0, 0, 1, 2],
        [0, 1, 2, 1, 0, 2],
        [1, 0, 1],
        [2, 2],
    ],
)
def test_each_gpu_has_its_rows_in_order(places: list[int]) -> None:
    """In turn or not: every row comes once, with its own time."""
    found = {place: times.tolist() for place, times, _ in rows_by_gpu(chunk(places))}
    expected = {one: [at for at, it in enumerate(places) if it == one] for one in set(places)}
    assert found == expected
    for _, times, rows in rows_by_gpu(chunk(places)):
        assert rows["power_mw"].tolist() == times.tolist()


def test_rows_in_turn_are_not_copied() -> None:
    """What samplers write is looked at where it lies."""
    data = chunk([0, 1, 2] * 5)
    assert all(np.shares_memory(rows, data.gpu) for _, _, rows in rows_by_gpu(data))


@pytest.mark.parametrize("name", ["power_mw", "energy_mj", "util_pct", "sm_mhz"])
def test_all_ones_are_not_measured(name: str) -> None:
    """The largest number of a column is NaN, and 0 is 0."""
    rows = np.zeros(3, GPU_DTYPE)
    rows[name][1] = np.iinfo(rows[name].dtype).max
    rows[name][2] = 7
    assert measured(rows, name).tolist() == pytest.approx([0, np.nan, 7], nan_ok=True)
