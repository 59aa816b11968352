"""Laws of hpckit.account.usage: GPU-seconds are conserved, whatever is sampled or how it is cut."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from numpy.typing import NDArray

import hpckit.account.rows as rows_module
from hpckit.account.rules import report_findings
from hpckit.account.sample_format import GPU_COLUMNS, MISSING
from hpckit.account.samples import GPU_DTYPE, SampleChunk, SampleMeta
from hpckit.account.stragglers import stragglers
from hpckit.account.usage import GpuUsageFold
from hpckit.account.values import GpuAccount
from tests.fakes.measured import gpu, report, shares
from tests.fakes.series import ACCOUNT, BUSY, EMPTY, H100, IDLE, NO_GPM, SECOND_NS, SPIN, rows_of
from tests.sizes import costly

STATES: tuple[dict[str, int], ...] = (
    BUSY,
    EMPTY,
    IDLE,
    SPIN,
    {},
    {**SPIN, **NO_GPM},
    {**BUSY, **NO_GPM, "processes": 255},
)
MOST_ROWS = 40
STEPS_S = np.array([0.0, 0.3, 1.0, 1.0, 1.0, 1.0, 2.5, 9.0])


def any_rows(rng: np.random.Generator, count: int) -> NDArray[Any]:
    """Rows of states, and in some any number: missing, small, or whatever fits."""
    made = rows_of(STATES)[rng.integers(0, len(STATES), count)]
    for column in GPU_COLUMNS:
        most = MISSING[GPU_DTYPE[column.name].itemsize]
        odd = rng.random(count) < rng.choice([0.0, 0.1, 1.0])
        kinds = rng.integers(0, 3, count)
        anything = rng.integers(0, most, count, dtype=np.uint64, endpoint=True)
        small = rng.integers(0, 256, count, dtype=np.uint64)
        values = np.select([kinds == 0, kinds == 1], [np.uint64(most), small], anything)
        made[column.name][odd] = values[odd].astype(GPU_DTYPE[column.name])
    return made


@st.composite
def series(draw: st.DrawFn) -> tuple[NDArray[np.int64], NDArray[Any], int]:
    """Times, rows and when the GPU was given back, before or after the last of them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.integers(0, MOST_ROWS))
    steps = rng.choice(STEPS_S, count)
    times = ((np.cumsum(steps) - draw(st.integers(0, 5))) * SECOND_NS).astype(np.int64)
    return times, any_rows(rng, count), draw(st.integers(1, 100)) * SECOND_NS


def chunk_of(times: NDArray[np.int64], made: NDArray[Any]) -> SampleChunk:
    """A piece of the file of a node with one GPU."""
    made = made.copy()
    made["gpu"] = 0
    none = np.zeros(0, np.int64)
    return SampleChunk(
        meta=SampleMeta(node="n1", hz=1.0, gpus=(H100,)), gpu_ns=times, gpu=made, host_ns=none,
        host=none.view(np.uint64)[:, None], realtime_offset_ns=0, boottime_offset_ns=0,
    )  # fmt: skip


def fold_of(
    times: NDArray[np.int64], made: NDArray[Any], end_ns: int, cuts: list[int] | None = None
) -> GpuUsageFold:
    """The fold of a series that comes in pieces."""
    fold = GpuUsageFold(H100, 1.0, 0, end_ns)
    fold.watch([(0, end_ns), (end_ns // 3, end_ns // 2)])
    borders = [0, *sorted(cuts or []), len(made)]
    blocks = rows_module.RowBlocks()
    pieces = (chunk_of(times[a:b], made[a:b]) for a, b in itertools.pairwise(borders))
    for block in itertools.chain(*map(blocks.filled, pieces), blocks.rest()):
        fold.add(*block[1:])
    return fold


def folded(*made: Any) -> GpuAccount:
    """What is known of a series."""
    return fold_of(*made).result(ACCOUNT)


@given(series())
def test_seconds_are_conserved(made: tuple[NDArray[np.int64], NDArray[Any], int]) -> None:
    """The classes add up to the held time, and none is negative."""
    waste = folded(*made).waste
    parts = structs.astuple(waste)
    assert min(parts) >= 0
    assert abs(sum(parts) - made[2] / 1e9) < 1e-5


@given(series())
def test_a_span_of_all_the_time_is_all_of_it(
    made: tuple[NDArray[np.int64], NDArray[Any], int],
) -> None:
    """What is useful of a span that is the held time is what is useful of the GPU."""
    fold = fold_of(*made)
    found = fold.result(ACCOUNT)
    known_s = found.waste.total_gpu_s - found.waste.unknown_gpu_s
    frac = fold.useful_fracs[0, made[2]]
    if known_s < 1e-6:
        assert frac is None
    else:
        assert frac is not None
        assert abs(frac * known_s - found.waste.useful_gpu_s) < 1e-5


@given(series(), st.data())
def test_cuts_do_not_matter(
    made: tuple[NDArray[np.int64], NDArray[Any], int], data: st.DataObject
) -> None:
    """The result is the same however the rows are cut into chunks."""
    cuts = data.draw(st.lists(st.integers(0, len(made[1])), max_size=6))
    assert folded(*made, cuts) == folded(*made)


@given(series())
def test_throttling_fits_in_the_held_time(
    made: tuple[NDArray[np.int64], NDArray[Any], int],
) -> None:
    """No throttling is longer than the GPU was held, whatever the counters do."""
    throttling = folded(*made).throttling
    known = [value for value in structs.astuple(throttling) if value is not None]
    assert all(0 <= value <= made[2] / 1e9 for value in known)


@given(series())
def test_windows_are_inside(made: tuple[NDArray[np.int64], NDArray[Any], int]) -> None:
    """Windows lie in the held time, in order and apart."""
    found = folded(*made).windows
    ends = [moment for one in found for moment in (one.started_s, one.ended_s)]
    assert ends == sorted(ends)
    assert all(0 <= moment <= made[2] / 1e9 for moment in ends)


@given(series())
def test_curves_are_in_their_envelopes(
    made: tuple[NDArray[np.int64], NDArray[Any], int],
) -> None:
    """Each point of a curve lies between its low and its high, and time goes on."""
    for curve in folded(*made).curves:
        assert list(curve.at_s) == sorted(curve.at_s)
        for low, value, high in zip(curve.lows, curve.values, curve.highs, strict=True):
            if value is not None and low is not None and high is not None:
                assert low - 1e-6 * abs(low) <= value <= high + 1e-6 * abs(high)


@costly(0.2)
@given(st.integers(0, 2**32), st.integers(2, 5))
def test_blocks_do_not_matter(seed: int, blocks: int) -> None:
    """Over more rows than a block has the seconds are those of the rows one by one."""
    rng = np.random.default_rng(seed)
    count = blocks * rows_module.BLOCK_ROWS // 2 + int(rng.integers(0, 100))
    made = rows_of(STATES)[rng.integers(0, 4, count)]
    times = (np.arange(count) + 1) * SECOND_NS
    waste = folded(times, made, count * SECOND_NS).waste
    idle = int((made["util_pct"] == 0).sum())
    assert waste.idle_gpu_s + waste.no_process_gpu_s == idle


@given(st.permutations([0, 20, 60, 300, 310, 700]))
def test_the_order_of_gpus_does_not_matter(idle: list[int]) -> None:
    """Findings and stragglers are the same in whatever order the GPUs come."""
    made = [gpu(idle_s, waste=shares(idle=idle_s)) for idle_s in dict.fromkeys(idle)]
    ordered = sorted(made, key=lambda one: one.index or 0)
    assert stragglers(made) == stragglers(ordered)
    found = [report_findings(report(gpus=tuple(one)), stragglers(one)) for one in (made, ordered)]
    assert found[0] == found[1]
