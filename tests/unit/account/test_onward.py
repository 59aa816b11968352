"""Samples of a node in the order of time."""

from __future__ import annotations

import numpy as np

from hpckit.account.rows import Onward
from hpckit.account.samples import GPU_DTYPE, SampleChunk, SampledGpu, SampleMeta


def chunk(rows: list[tuple[int, int]], host_ns: list[int], gpus: int = 2) -> SampleChunk:
    """Rows of these GPUs at these times, and the times of the host's."""
    data = np.zeros(len(rows), GPU_DTYPE)
    data["gpu"] = [place for place, _ in rows]
    named = tuple(SampledGpu(uuid=f"GPU-{place}", index=place) for place in range(gpus))
    return SampleChunk(
        meta=SampleMeta(node="n1", hz=1, gpus=named),
        gpu_ns=np.array([at for _, at in rows], np.int64),
        gpu=data,
        host_ns=np.array(host_ns, np.int64),
        host=np.zeros((len(host_ns), 0), np.uint64),
        realtime_offset_ns=0,
        boottime_offset_ns=0,
    )


def taken(onward: Onward, one: SampleChunk, shift_ns: int = 0) -> tuple[list[tuple[int, int]], int]:
    """GPU and time of the rows that are left, and how many the host has."""
    left = onward.of(one, shift_ns)
    rows = zip(left.gpu["gpu"].tolist(), left.gpu_ns.tolist(), strict=True)
    return list(rows), len(left.host_ns)


def test_what_was_there_before_is_left_out_by_gpu() -> None:
    """A GPU that was not there before loses nothing; the host's rows are counted by themselves."""
    onward = Onward()
    onward.of(chunk([(0, 1), (0, 2)], [1, 2], gpus=1), 0)
    again = chunk([(0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (1, 3)], [2, 3])
    assert taken(onward, again) == ([(1, 1), (1, 2), (0, 3), (1, 3)], 1)
    assert onward.left_out == 3


def test_times_are_those_of_the_nodes_clock() -> None:
    """After a boot the clock begins anew, and the shift says how far it is behind."""
    onward = Onward()
    onward.of(chunk([(0, 100)], [100], gpus=1), 0)
    assert taken(onward, chunk([(0, 1)], [1], gpus=1), 100) == ([(0, 1)], 1)


def test_a_row_that_is_there_twice_in_a_row_is_taken_once() -> None:
    """As in a file whose rows were put in order: both GPUs have one time, and each twice."""
    onward = Onward()
    rows = [(0, 1), (0, 1), (1, 1), (1, 1), (0, 2), (1, 2), (0, 2), (1, 2)]
    assert taken(onward, chunk(rows, [1, 1, 2]))[0] == [(0, 1), (1, 1), (0, 2), (1, 2)]
    assert onward.left_out == 5


def test_a_gpu_without_rows_in_a_chunk_goes_on_where_it_was() -> None:
    """What another GPU's rows say of the time is not said of it."""
    onward = Onward()
    onward.of(chunk([(0, 1), (1, 1), (0, 5)], []), 0)
    onward.of(chunk([(0, 9)], []), 0)
    assert taken(onward, chunk([(1, 2), (0, 9), (1, 9)], []))[0] == [(1, 2), (1, 9)]
    assert onward.left_out == 1
