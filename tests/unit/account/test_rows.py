"""Rows by GPU, columns as numbers, and the steps of counters."""

from __future__ import annotations

import numpy as np
import pytest

from hpckit.account.rows import counter_steps, measured, median, rows_by_gpu
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


def counters(*values: int, name: str = "sw_power_cap_ms") -> np.ndarray:
    """Rows with these values of a counter."""
    rows = np.zeros(len(values), GPU_DTYPE)
    rows[name] = values
    return rows


def test_a_counter_that_wraps_grew() -> None:
    """Past its largest number a counter goes on from 0."""
    assert counter_steps(counters(2**32 - 10, 5), "sw_power_cap_ms").tolist() == [15]


def test_a_counter_that_began_anew_has_no_step() -> None:
    """A reset is NaN, and never a negative number."""
    steps = counter_steps(counters(5000, 0, 7), "sw_power_cap_ms")
    assert steps.tolist() == pytest.approx([np.nan, 7], nan_ok=True)


def test_a_step_above_what_can_be_is_none() -> None:
    """With a limit, a reset is told from a wrap of any size."""
    steps = counter_steps(counters(3_000_000_000, 0, 7), "sw_power_cap_ms", 2000.0)
    assert steps.tolist() == pytest.approx([np.nan, 7], nan_ok=True)


def test_a_step_needs_both_ends() -> None:
    """From or to "not measured" there is no step."""
    steps = counter_steps(counters(1, 2**32 - 1, 3, 4), "sw_power_cap_ms")
    assert steps.tolist() == pytest.approx([np.nan, np.nan, 1], nan_ok=True)


@pytest.mark.parametrize("count", [1, 2, 9, 10])
def test_a_median_is_that_of_numpy(count: int) -> None:
    """Of an even count it is the mean of the two in the middle."""
    values = np.random.default_rng(count).normal(size=count)
    assert median(values) == np.median(values)
