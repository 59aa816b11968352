"""hpckit.account.usage: GPU-seconds by class, throttling, traffic and windows of made-up series."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from hpckit.account.samples import SampledGpu
from hpckit.account.usage import GpuUsage, GpuUsageFold
from tests.fakes.series import (
    BUSY,
    EMPTY,
    H100,
    IDLE,
    NO_GPM,
    SECOND_NS,
    SPIN,
    STANDING,
    rows_of,
    times_of,
)

Row = dict[str, int]
MIB = 1 << 20


def usage(rows: Iterable[Row], *, gpu: SampledGpu = H100, held_s: float | None = None) -> GpuUsage:
    """Of rows a second apart, the first one second after the GPU was taken."""
    made = rows_of(rows)
    end_s = len(made) if held_s is None else held_s
    fold = GpuUsageFold(gpu, 1.0, 0, int(end_s * SECOND_NS))
    fold.add(times_of(len(made)), made)
    return fold.result()


def counted(name: str, values: Iterable[int]) -> list[Row]:
    """Busy rows in which a counter has these values."""
    return [{**BUSY, **STANDING, name: value} for value in values]


def test_a_training_step_is_useful() -> None:
    """The seconds of a GPU whose tensor cores and memory are at work are useful."""
    assert usage([BUSY] * 10).waste.useful_gpu_s == 10


def test_no_process() -> None:
    """The seconds without a process and without a kernel are those of no process."""
    assert usage([EMPTY] * 4 + [BUSY] * 6).waste.no_process_gpu_s == 4


def test_idle() -> None:
    """The seconds with a process and without a kernel are idle."""
    assert usage([IDLE] * 4 + [BUSY] * 6).waste.idle_gpu_s == 4


def test_idle_without_a_count_of_processes() -> None:
    """Where processes are not counted a GPU without a kernel is idle."""
    row = {name: value for name, value in EMPTY.items() if name != "processes"}
    assert usage([row] * 4).waste.idle_gpu_s == 4


def test_hidden_processes() -> None:
    """A count of processes that is 0 while kernels run is not believed, and that is said."""
    found = usage([EMPTY] * 4 + [{**BUSY, "processes": 0}] * 6)
    assert (found.waste.idle_gpu_s, list(found.refused)) == (4, ["processes"])


def test_a_process_that_has_just_ended() -> None:
    """One sample of kernels without a process, as after a process has ended, changes nothing."""
    found = usage([BUSY] * 20 + [{**BUSY, "processes": 0}] + [EMPTY] * 9)
    assert (found.waste.no_process_gpu_s, found.refused) == (9, {})


def test_spin_by_gpm() -> None:
    """High utilization with idle tensor cores and memory and few busy SMs is a spin."""
    assert usage([SPIN] * 3 + [BUSY] * 7).waste.spin_gpu_s == 3


def test_a_kernel_without_tensor_cores_is_no_spin() -> None:
    """A kernel that fills the SMs is useful, though it uses neither tensor cores nor memory."""
    assert usage([{**SPIN, "sm_active_pct100": 9000}] * 3).waste.useful_gpu_s == 3


def test_low_utilization_is_no_spin() -> None:
    """Below 90 % utilization nothing is a spin, and what ran is useful."""
    assert usage([{**SPIN, "util_pct": 89}] * 3).waste.useful_gpu_s == 3


def test_memory_at_work_is_no_spin() -> None:
    """A kernel that reads memory is useful when the links are silent."""
    row = {**SPIN, **STANDING, "dram_active_pct100": 2000}
    assert usage([row] * 3).waste.useful_gpu_s == 3


def test_memory_at_work_for_a_transfer_is_communication() -> None:
    """Memory that is busy while NVLink carries 10 GiB/s serves communication."""
    row = {**SPIN, **STANDING, "dram_active_pct100": 2000}
    rows = [{**row, "nvlink_tx_mib": at * 10 * 1024} for at in range(4)]
    assert usage(rows).waste.spin_gpu_s == 3


def test_spin_by_power() -> None:
    """Without GPM, kernels at a power near that of the same GPU at rest are a spin."""
    rows = [EMPTY] * 3 + [SPIN] * 4 + [BUSY] * 3
    assert usage([{**row, **NO_GPM} for row in rows]).waste.spin_gpu_s == 4


def test_a_spin_that_cannot_be_seen_is_no_work() -> None:
    """Without GPM and without an idle moment a low power is a spin or work: it is unknown."""
    found = usage([{**SPIN, **NO_GPM}] * 5)
    assert (found.waste.unknown_gpu_s, found.waste.total_gpu_s) == (5, 5)
    assert "never seen at rest" in found.refused["spin"]


def test_a_high_power_is_work() -> None:
    """Of a GPU that was never idle what no GPU draws at rest is that of a kernel that computes."""
    found = usage([{**SPIN, **NO_GPM, "power_mw": 350_000}] * 5)
    assert (found.waste.useful_gpu_s, dict(found.refused)) == (5, {})


def test_without_a_limit_no_power_is_low() -> None:
    """Where no limit tells what a low power is, kernels are useful, and that is said."""
    found = usage([{**SPIN, **NO_GPM}] * 5, gpu=replace(H100, power_limit_w=None))
    assert found.waste.useful_gpu_s == 5
    assert "without a power limit" in found.refused["spin"]


def test_mig_by_gpm() -> None:
    """Where utilization is not measured SM activity tells whether a kernel ran."""
    rows = [{**row, "util_pct": 255} for row in [IDLE] * 2 + [BUSY] * 3]
    waste = usage(rows).waste
    assert (waste.idle_gpu_s, waste.useful_gpu_s) == (2, 3)


def test_nothing_measured_is_unknown() -> None:
    """Rows of which nothing is measured are unknown time, not idle time."""
    found = usage([{}] * 5)
    assert (found.waste.unknown_gpu_s, found.waste.total_gpu_s) == (5, 5)


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


def test_no_samples() -> None:
    """Without a sample all of the held time is unknown."""
    assert usage([], held_s=30).waste.unknown_gpu_s == 30


def test_a_gap_is_unknown() -> None:
    """Of a gap of ten periods the last one is that of the sample after it, the rest unknown."""
    made = rows_of([BUSY] * 10)
    times = times_of(10)
    times[5:] += 9 * SECOND_NS
    fold = GpuUsageFold(H100, 1.0, 0, 19 * SECOND_NS)
    fold.add(times, made)
    assert fold.result().waste.unknown_gpu_s == 9


def test_the_end_without_samples_is_unknown() -> None:
    """When samples stop long before the end nothing is said of the rest."""
    found = usage([IDLE] * 100, held_s=400)
    assert (found.waste.unknown_gpu_s, [one.is_late for one in found.windows]) == (300, [False])


def test_means_are_weighted_by_time() -> None:
    """A sample that stands for two seconds counts twice."""
    fold = GpuUsageFold(H100, 1.0, 0, 3 * SECOND_NS)
    rows = rows_of([{**BUSY, "power_mw": 300_000}, {**BUSY, "power_mw": 600_000}])
    fold.add(np.array([SECOND_NS, 3 * SECOND_NS]), rows)
    assert fold.result().power_mean_w == pytest.approx(500)


def test_a_lone_sample_has_a_mean() -> None:
    """The mean of one sample at the very beginning is that sample."""
    fold = GpuUsageFold(H100, 1.0, SECOND_NS, 2 * SECOND_NS)
    fold.add(times_of(1), rows_of([BUSY]))
    assert fold.result().util_mean_pct == 98


def test_missing_values_are_left_out_of_a_mean() -> None:
    """A mean is that of the samples that measured the column."""
    rows = [BUSY, {**BUSY, "util_pct": 255}, {**BUSY, "util_pct": 50}]
    assert usage(rows).util_mean_pct == 74


def test_memory_peak() -> None:
    """The memory peak is the largest sample, in bytes."""
    rows = [{**BUSY, "mem_used_mib": value} for value in (10, 70_000, 20)]
    assert usage(rows).mem_peak_bytes == 70_000 * MIB


def test_mfu_proxy() -> None:
    """The proxy is tensor activity × SM clock / the largest SM clock."""
    rows = [{**BUSY, "tensor_active_pct100": 5000, "sm_mhz": 990}] * 3
    assert usage(rows).mfu_proxy_frac == pytest.approx(0.25)


def test_mfu_proxy_without_the_largest_clock() -> None:
    """Where the largest clock is not known there is no proxy."""
    assert usage([BUSY] * 3, gpu=replace(H100, max_sm_mhz=None)).mfu_proxy_frac is None


def test_mfu_proxy_above_one_is_withheld() -> None:
    """A largest clock below the clocks that were seen is none, and nothing is divided by it."""
    found = usage([BUSY] * 3, gpu=replace(H100, max_sm_mhz=1))
    assert found.mfu_proxy_frac is None
    assert "largest SM clock is not 1 MHz" in found.refused["mfu_proxy_frac"]


def test_traffic() -> None:
    """Traffic is by how much the counter grew."""
    assert usage(counted("nvlink_tx_mib", [5, 10, 25])).nvlink_tx_bytes == 20 * MIB


def test_traffic_over_the_largest_number() -> None:
    """A counter that passes its largest number has grown."""
    rows = counted("pcie_rx_mib", [2**32 - 6, 2**32 - 2, 3])
    assert usage(rows).pcie_rx_bytes == 9 * MIB


def test_traffic_across_a_reset() -> None:
    """Of a counter that begins again what it shows since counts."""
    assert usage(counted("pcie_rx_mib", [1000, 1500, 7, 10])).pcie_rx_bytes == 510 * MIB


def test_traffic_before_the_job() -> None:
    """What a counter grew before the GPU was taken is not the job's."""
    rows = rows_of(counted("nvlink_tx_mib", [0, 100, 200, 300]))
    fold = GpuUsageFold(H100, 1.0, int(2.5 * SECOND_NS), 4 * SECOND_NS)
    fold.add(times_of(4), rows)
    assert fold.result().nvlink_tx_bytes == 150 * MIB


def test_traffic_through_a_hole() -> None:
    """A sample that missed the counter takes nothing away: the next one has it all."""
    rows = counted("nvlink_tx_mib", [5, 0xFFFF_FFFF, 25])
    assert usage(rows).nvlink_tx_bytes == 20 * MIB


def test_throttling_by_counters() -> None:
    """Throttled seconds are those of the cumulative counter, whatever the bits say."""
    rows = counted("sw_thermal_ms", [0, 250, 500, 1500])
    rows = [{**row, "event_reasons": 0x20} for row in rows]
    assert usage(rows).throttling.thermal_s == 1.5


def test_the_first_sample_of_a_counter_is_no_share_of_time() -> None:
    """What held the clocks at that moment says nothing of the time before it."""
    rows = counted("sw_power_cap_ms", [at * 250 for at in range(30)])
    found = usage([{**row, "event_reasons": 0x4} for row in rows])
    (capped,) = [one for one in found.curves if one.name == "throttled_by_power_cap"]
    assert set(power_of(capped.highs)) == {25.0}


def test_throttling_of_software_and_hardware() -> None:
    """Of heat that both counters count the time counts once."""
    rows = [
        {**BUSY, **STANDING, "sw_thermal_ms": 400 * at, "hw_thermal_ms": 300 * at}
        for at in range(4)
    ]
    assert usage(rows).throttling.thermal_s == pytest.approx(1.2)


def test_throttling_across_a_reset() -> None:
    """A counter of throttling that begins again never gives more than what it shows."""
    assert (
        usage(counted("sw_power_cap_ms", [90_000, 90_100, 40, 90])).throttling.power_cap_s == 0.19
    )


def test_throttling_by_bits() -> None:
    """Where the GPU has no such counters the bits at each sample tell."""
    rows = [{**BUSY, "event_reasons": bits} for bits in (0, 0x4, 0x44, 0x80)]
    found = usage(rows).throttling
    assert (found.power_cap_s, found.thermal_s, found.power_brake_s) == (2, 1, 1)


def test_a_late_window() -> None:
    """A stretch of ten idle minutes that reaches to the end is a window, and late."""
    (window,) = usage([BUSY] * 100 + [IDLE] * 600).windows
    assert (window.kind, window.started_s, window.ended_s, window.is_late) == (
        "idle",
        100,
        700,
        True,
    )


def test_an_early_window() -> None:
    """A stretch after which the GPU worked again is not late."""
    (window,) = usage([EMPTY] * 100 + [BUSY] * 600).windows
    assert (window.kind, window.is_late) == ("no-process", False)


def test_a_short_stretch_is_no_window() -> None:
    """Half a minute of a long job is not worth naming."""
    assert usage([BUSY] * 3600 + [IDLE] * 30 + [BUSY] * 3600).windows == ()


def test_a_blip_does_not_cut_a_window() -> None:
    """One busy second within ten idle minutes leaves them one window."""
    (window,) = usage([IDLE] * 300 + [BUSY] + [IDLE] * 300).windows
    assert window.ended_s - window.started_s == 601


def test_half_a_minute_of_work_cuts_a_window() -> None:
    """Work that is a seventh of the idle stretch before it parts two windows."""
    assert len(usage([IDLE] * 200 + [BUSY] * 30 + [IDLE] * 200).windows) == 2


def test_alternation_is_no_window() -> None:
    """A GPU that works every other second has no idle window."""
    assert usage([IDLE, BUSY] * 400).windows == ()


def test_idle_then_left_is_late() -> None:
    """An idle stretch after which the process ended is late as well, however short the rest."""
    (window,) = usage([BUSY] * 100 + [IDLE] * 600 + [EMPTY] * 20).windows
    assert (window.kind, window.is_late) == ("idle", True)


def test_windows_are_on_the_wall_clock() -> None:
    """Windows are in seconds since the epoch."""
    fold = GpuUsageFold(H100, 1.0, 0, 100 * SECOND_NS, realtime_offset_ns=50 * SECOND_NS)
    fold.add(times_of(100), rows_of([IDLE] * 100))
    assert fold.result().windows[0].started_s == 50


def test_curves_are_thinned() -> None:
    """A curve has at most as many points as asked for, and the extremes stay in its envelope."""
    rows = [{**BUSY, "power_mw": 900_000 if at == 777 else 400_000} for at in range(5000)]
    fold = GpuUsageFold(H100, 1.0, 0, 5000 * SECOND_NS, points=50)
    fold.add(times_of(5000), rows_of(rows))
    power = fold.result().curves[0]
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
    fold.add(times, rows_of([BUSY] * 20))
    assert fold.result().curves[0].values.count(None) == 1


def test_no_curves() -> None:
    """With 0 points there are no curves."""
    fold = GpuUsageFold(H100, 1.0, 0, 9 * SECOND_NS, points=0)
    fold.add(times_of(9), rows_of([BUSY] * 9))
    assert fold.result().curves == ()
