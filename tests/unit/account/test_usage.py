"""hpckit.account.usage: GPU-seconds by class, throttling, traffic and windows of made-up series."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from hpckit.account.samples import GPU_DTYPE, SampledGpu
from hpckit.account.usage import GpuUsageFold, LastUse
from hpckit.account.values import GpuAccount
from tests.fakes.series import (
    ACCOUNT,
    BUSY,
    EMPTY,
    H100,
    IDLE,
    NO_GPM,
    SECOND_NS,
    SPIN,
    STANDING,
    columns_of,
    rows_of,
    times_of,
)

Row = dict[str, int]
MIB = 1 << 20


def usage(
    rows: Iterable[Row], *, gpu: SampledGpu = H100, held_s: float | None = None
) -> GpuAccount:
    """Of rows a second apart, the first one second after the GPU was taken."""
    made = rows_of(rows)
    end_s = len(made) if held_s is None else held_s
    fold = GpuUsageFold(gpu, 1.0, 0, int(end_s * SECOND_NS))
    fold.add(times_of(len(made)), columns_of(made))
    return fold.result(ACCOUNT)


UNCOUNTED = {name: value for name, value in EMPTY.items() if name != "processes"}
MOVING = {**SPIN, **STANDING, "dram_active_pct100": 2000}


@pytest.mark.parametrize(
    ("rows", "kind", "seconds"),
    [
        ([BUSY] * 10, "useful", 10),
        ([EMPTY] * 4 + [BUSY] * 6, "no_process", 4),
        ([IDLE] * 4 + [BUSY] * 6, "idle", 4),
        ([UNCOUNTED] * 4, "idle", 4),
        ([SPIN] * 3 + [BUSY] * 7, "spin", 3),
        # A kernel that fills the SMs works, though it uses neither tensor cores nor memory.
        ([{**SPIN, "sm_active_pct100": 9000}] * 3, "useful", 3),
        ([{**SPIN, "util_pct": 89}] * 3, "useful", 3),
        ([MOVING] * 3, "useful", 3),
        # … but memory that is busy while NVLink carries 10 GiB/s serves communication.
        ([{**MOVING, "nvlink_tx_mib": at * 10 * 1024} for at in range(4)], "spin", 3),
        # Without GPM: a power near that of the same GPU at rest.
        ([{**row, **NO_GPM} for row in [EMPTY] * 3 + [SPIN] * 4 + [BUSY] * 3], "spin", 4),
        # MIG: SM activity tells whether a kernel ran.
        ([{**row, "util_pct": 255} for row in [IDLE] * 2 + [BUSY] * 3], "idle", 2),
        ([{}] * 5, "unknown", 5),
    ],
)
def test_what_a_second_was_spent_on(rows: list[Row], kind: str, seconds: int) -> None:
    """Each second is of one class; time of which nothing is measured is unknown, not idle."""
    waste = usage(rows).waste
    assert (getattr(waste, f"{kind}_gpu_s"), waste.total_gpu_s) == (seconds, len(rows))


def test_hidden_processes() -> None:
    """A count of processes that is 0 while kernels run is not believed, and that is said."""
    found = usage([EMPTY] * 4 + [{**BUSY, "processes": 0}] * 6)
    assert (found.waste.idle_gpu_s, list(found.refused)) == (4, ["processes"])


def test_a_process_that_has_just_ended() -> None:
    """One sample of kernels without a process, as after a process has ended, changes nothing."""
    found = usage([BUSY] * 20 + [{**BUSY, "processes": 0}] + [EMPTY] * 9)
    assert (found.waste.no_process_gpu_s, found.refused) == (9, {})


def test_a_spin_that_cannot_be_seen_is_no_work() -> None:
    """Without GPM and without an idle moment a low power is a spin or work: it is unknown."""
    found = usage([{**SPIN, **NO_GPM}] * 5)
    assert (found.waste.unknown_gpu_s, found.waste.total_gpu_s) == (5, 5)
    assert "never idle" in found.refused["spin"]


def test_a_high_power_is_work() -> None:
    """Of a GPU that was never idle what no GPU draws at rest is that of a kernel that computes."""
    found = usage([{**SPIN, **NO_GPM, "power_mw": 350_000}] * 5)
    assert (found.waste.useful_gpu_s, dict(found.refused)) == (5, {})


def test_without_a_limit_no_power_is_low() -> None:
    """Where no limit tells what a low power is, kernels are useful, and that is said."""
    found = usage([{**SPIN, **NO_GPM}] * 5, gpu=replace(H100, power_limit_w=None))
    assert found.waste.useful_gpu_s == 5
    assert "without GPM and a power limit" in found.refused["spin"]


def test_nothing_measured_is_none() -> None:
    """A column that was never measured is None, not 0."""
    found = usage([{}] * 5)
    assert [
        found.util_mean_pct,
        found.power_max_w,
        found.mem_peak_bytes,
        found.mfu_proxy_frac,
        found.nvlink_tx_bytes,
        found.throttling.thermal_s,
    ] == [None] * 6


def test_measured_zero_is_zero() -> None:
    """A counter that stands still is 0, not None."""
    found = usage([{**BUSY, **STANDING}] * 5)
    assert (found.nvlink_tx_bytes, found.throttling.thermal_s) == (0, 0.0)


def test_a_gap_is_unknown() -> None:
    """Of a gap of ten periods the last one is that of the sample after it, the rest unknown."""
    made = rows_of([BUSY] * 10)
    times = times_of(10)
    times[5:] += 9 * SECOND_NS
    fold = GpuUsageFold(H100, 1.0, 0, 19 * SECOND_NS)
    fold.add(times, columns_of(made))
    assert fold.result(ACCOUNT).waste.unknown_gpu_s == 9


def test_the_end_without_samples_is_unknown() -> None:
    """When samples stop long before the end nothing is said of the rest."""
    found = usage([IDLE] * 100, held_s=400)
    assert (found.waste.unknown_gpu_s, [one.is_late for one in found.windows]) == (300, [False])


def test_means_are_weighted_by_time() -> None:
    """A sample that stands for two seconds counts twice."""
    fold = GpuUsageFold(H100, 1.0, 0, 3 * SECOND_NS)
    rows = rows_of([{**BUSY, "power_mw": 300_000}, {**BUSY, "power_mw": 600_000}])
    fold.add(np.array([SECOND_NS, 3 * SECOND_NS]), columns_of(rows))
    assert fold.result(ACCOUNT).power_mean_w == pytest.approx(500)


def test_a_lone_sample_has_a_mean() -> None:
    """The mean of one sample at the very beginning is that sample."""
    fold = GpuUsageFold(H100, 1.0, SECOND_NS, 2 * SECOND_NS)
    fold.add(times_of(1), columns_of(rows_of([BUSY])))
    assert fold.result(ACCOUNT).util_mean_pct == 98


def test_memory_peak() -> None:
    """The memory peak is the largest sample, in bytes."""
    rows = [{**BUSY, "mem_used_mib": value} for value in (10, 70_000, 20)]
    assert usage(rows).mem_peak_bytes == 70_000 * MIB


def test_mfu_proxy() -> None:
    """The proxy is tensor activity × SM clock / the largest SM clock."""
    rows = [{**BUSY, "tensor_active_pct100": 5000, "sm_mhz": 990}] * 3
    assert usage(rows).mfu_proxy_frac == pytest.approx(0.25)


def test_mfu_proxy_above_one_is_withheld() -> None:
    """A largest clock below the clocks that were seen is none, and nothing is divided by it."""
    found = usage([BUSY] * 3, gpu=replace(H100, max_sm_mhz=1))
    assert found.mfu_proxy_frac is None
    assert "maximum SM clock is not 1 MHz" in found.refused["mfu_proxy_frac"]


@pytest.mark.parametrize(
    ("name", "values", "mib"),
    [
        ("nvlink_tx_mib", [5, 10, 25], 20),
        ("pcie_rx_mib", [2**32 - 6, 2**32 - 2, 3], 9),
        ("pcie_rx_mib", [1000, 1500, 7, 10], 510),
        ("nvlink_tx_mib", [5, 0xFFFF_FFFF, 25], 20),
    ],
)
def test_traffic(name: str, values: list[int], mib: int) -> None:
    """By how much the counter grew: over its largest number, from a reset on, across a hole."""
    found = usage([{**BUSY, **STANDING, name: value} for value in values])
    assert getattr(found, name.replace("_mib", "_bytes")) == mib * MIB


def test_traffic_before_the_job() -> None:
    """What a counter grew before the GPU was taken is not the job's."""
    row = {**BUSY, **STANDING}
    rows = rows_of([{**row, "nvlink_tx_mib": 100 * at} for at in range(4)])
    fold = GpuUsageFold(H100, 1.0, int(2.5 * SECOND_NS), 4 * SECOND_NS)
    fold.add(times_of(4), columns_of(rows))
    assert fold.result(ACCOUNT).nvlink_tx_bytes == 150 * MIB


@pytest.mark.parametrize(
    ("columns", "bits", "cause", "seconds"),
    [
        ({"sw_thermal_ms": (0, 250, 500, 1500)}, (0x20,) * 4, "thermal", 1.5),
        # Of heat that both counters count the time counts once.
        (
            {"sw_thermal_ms": (0, 400, 800, 1200), "hw_thermal_ms": (0, 300, 600, 900)},
            (0,) * 4,
            "thermal",
            1.2,
        ),
        # One that begins again never gives more than what it shows.
        ({"sw_power_cap_ms": (90_000, 90_100, 40, 90)}, (0,) * 4, "power_cap", 0.19),
        ({}, (0, 0x4, 0x44, 0x80), "power_cap", 2),
        ({}, (0, 0x4, 0x44, 0x80), "thermal", 1),
        ({}, (0, 0x4, 0x44, 0x80), "power_brake", 1),
    ],
)
def test_throttling(
    columns: dict[str, tuple[int, ...]], bits: tuple[int, ...], cause: str, seconds: float
) -> None:
    """Seconds are those of the counters whatever the bits say; of the bits where there are none."""
    still = STANDING if columns else {}
    rows = [
        {**BUSY, **still, "event_reasons": on, **{name: of[at] for name, of in columns.items()}}
        for at, on in enumerate(bits)
    ]
    assert getattr(usage(rows).throttling, f"{cause}_s") == pytest.approx(seconds)


def test_the_first_sample_of_a_counter_is_no_share_of_time() -> None:
    """What held the clocks at that moment says nothing of the time before it."""
    row = {**BUSY, **STANDING, "event_reasons": 0x4}
    found = usage([{**row, "sw_power_cap_ms": at * 250} for at in range(30)])
    (capped,) = [one for one in found.curves if one.name == "throttled_by_power_cap"]
    assert set(power_of(capped.highs)) == {25.0}


@pytest.mark.parametrize(
    ("rows", "windows"),
    [
        ([BUSY] * 100 + [IDLE] * 600, [("idle", 100, 700, True)]),
        ([EMPTY] * 100 + [BUSY] * 600, [("no-process", 0, 100, False)]),
        ([BUSY] * 3600 + [IDLE] * 30 + [BUSY] * 3600, []),
        ([IDLE] * 300 + [BUSY] + [IDLE] * 300, [("idle", 0, 601, True)]),
        # Work that is a seventh of the idle stretch before it parts two windows.
        (
            [IDLE] * 200 + [BUSY] * 30 + [IDLE] * 200,
            [("idle", 0, 200, False), ("idle", 230, 430, True)],
        ),
        ([IDLE, BUSY] * 400, []),
        # An idle stretch after which the process ended is late, however short the rest.
        ([BUSY] * 100 + [IDLE] * 600 + [EMPTY] * 20, [("idle", 100, 700, True)]),
    ],
)
def test_windows(rows: list[Row], windows: list[tuple[str, float, float, bool]]) -> None:
    """A long stretch in which nothing ran has a kind, its ends, and is late or not."""
    found = usage(rows).windows
    assert [(one.kind, one.started_s, one.ended_s, one.is_late) for one in found] == windows


def test_windows_are_on_the_wall_clock() -> None:
    """Windows are in seconds since the epoch."""
    fold = GpuUsageFold(H100, 1.0, 0, 100 * SECOND_NS, realtime_offset_ns=50 * SECOND_NS)
    fold.add(times_of(100), columns_of(rows_of([IDLE] * 100)))
    assert fold.result(ACCOUNT).windows[0].started_s == 50


def test_curves_are_thinned() -> None:
    """A curve has at most as many points as asked for, and the extremes stay in its envelope."""
    rows = [{**BUSY, "power_mw": 900_000 if at == 777 else 400_000} for at in range(5000)]
    fold = GpuUsageFold(H100, 1.0, 0, 5000 * SECOND_NS, points=50)
    fold.add(times_of(5000), columns_of(rows_of(rows)))
    power = fold.result(ACCOUNT).curves[0]
    assert (power.name, len(power.at_s), max(power_of(power.highs))) == ("power", 50, 900)


def power_of(values: Iterable[Any]) -> list[float]:
    """Those that are there."""
    return [value for value in values if value is not None]


def test_a_short_job_keeps_its_points() -> None:
    """A job of fewer samples than points is drawn as it was sampled."""
    curve = usage([{**BUSY, "util_pct": at} for at in range(30)]).curves[1]
    assert curve.values == tuple(float(at) for at in range(30))


def test_a_gap_in_a_curve_is_none() -> None:
    """Between points with a gap of samples between them there is a None."""
    times = times_of(20)
    times[10:] += 30 * SECOND_NS
    fold = GpuUsageFold(H100, 1.0, 0, 50 * SECOND_NS)
    fold.add(times, columns_of(rows_of([BUSY] * 20)))
    assert fold.result(ACCOUNT).curves[0].values.count(None) == 1


NOT_MEASURED = 255


def use(processes: list[int], util: list[int], stretch: tuple[int, int]) -> tuple[bool, int | None]:
    """What is found of rows at 0, 1, 2 …, given one at a time and at once, which must agree."""
    rows = np.zeros(len(processes), GPU_DTYPE)
    rows["processes"], rows["util_pct"] = processes, util
    times = np.arange(len(rows), dtype=np.int64)
    at_once, one_by_one = LastUse(*stretch), LastUse(*stretch)
    at_once.add(times, rows)
    for at in range(len(rows)):
        one_by_one.add(times[at : at + 1], rows[at : at + 1])
    found, same = ((one.was_used, one.gone_ns) for one in (at_once, one_by_one))
    assert found == same
    return found


@pytest.mark.parametrize(
    ("processes", "util", "stretch", "gone_ns"),
    [
        ([0, 1, 1, 0, 0, 0], [0, 90, 0, 40, 0, 0], (0, 99), 4),  # the first row without both
        ([1, 0, 0, 1, 0], [9, 0, 0, 9, 0], (0, 99), 4),  # what is gone for good
        ([1, 1, 1, 1], [90, 90, 0, 0], (0, 99), None),  # used to the end
        ([0, 0, 0, 0], [90, 90, 0, 0], (0, 99), None),  # hidden: kernels without a process
        ([1, 1, NOT_MEASURED, NOT_MEASURED], [90, 90, 0, 0], (0, 99), None),  # not counted
        ([0, 0], [0, 0], (0, 99), None),
        ([1, 1, 0, 0, 1], [9, 9, 0, 0, 9], (1, 3), 2),  # not what others did before and behind
    ],
)
def test_when_a_gpu_was_left(
    processes: list[int], util: list[int], stretch: tuple[int, int], gone_ns: int | None
) -> None:
    """With its last process and kernel in a stretch; nothing is gone without a row showing it."""
    was_used = any(processes) or any(util)
    assert use(processes, util, stretch) == (was_used, gone_ns)
