"""hpckit.account.host: what host columns say of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from hpckit.account.host import HostFold, HostUsage
from hpckit.account.samples import GPU_DTYPE, HostColumn, SampleChunk, SampleMeta
from hpckit.account.values import EnergySource
from tests.fakes.series import SECOND_NS, times_of

NONE = 2**64 - 1
Columns = Mapping[str, Sequence[int]]


def chunk(columns: Columns, *, start_s: float = 0.0, **meta: Any) -> SampleChunk:
    """Host samples a second apart; gauges are those that are not counters by their name."""
    made = [
        HostColumn(name=name, kind="gauge" if name.endswith(("_bytes_g", "_uw")) else "counter")
        for name in columns
    ]
    return chunk_of(made, list(columns.values()), start_s=start_s, **meta)


def chunk_of(
    columns: Sequence[HostColumn],
    values: Sequence[Sequence[int]],
    *,
    start_s: float = 0.0,
    **meta: Any,
) -> SampleChunk:
    """Host samples a second apart of these columns."""
    host = np.array(values, np.uint64).T.reshape(-1, len(columns))
    return SampleChunk(
        meta=SampleMeta(node="n1", hz=1.0, host_columns=tuple(columns), **meta),
        gpu_ns=np.empty(0, np.int64),
        gpu=np.empty(0, GPU_DTYPE),
        host_ns=times_of(len(host), start_s=start_s),
        host=host,
        realtime_offset_ns=0,
        boottime_offset_ns=0,
    )


def usage(*chunks: SampleChunk, held_s: float = 10.0) -> HostUsage:
    """Of chunks within ten seconds."""
    fold = HostFold(1.0, 0, int(held_s * SECOND_NS))
    for one in chunks:
        fold.add(one)
    return fold.result()


def gauge(name: str, values: Sequence[int], **meta: Any) -> SampleChunk:
    """One gauge."""
    return chunk_of([HostColumn(name=name, kind="gauge")], [values], **meta)


@pytest.mark.parametrize("name", ["job_cpu_us", "cgroup.cpu_usage_us"])
def test_cpu_seconds(name: str) -> None:
    """CPU seconds are by how much the counter grew, in either spelling of its name."""
    assert usage(chunk({name: [5_000_000, 6_000_000, 9_500_000]})).cpu_s == 4.5


def test_the_sampler_is_left_out() -> None:
    """The sampler's own CPU time is not the job's."""
    found = usage(chunk({"job_cpu_us": [0, 4_000_000], "sampler_step_cpu_us": [0, 500_000]}))
    assert (found.cpu_s, found.sampler_cpu_s) == (3.5, 0.5)


def test_a_counter_over_chunks() -> None:
    """Growth between two chunks counts."""
    first, second = chunk({"job_cpu_us": [0, 10**6]}), chunk({"job_cpu_us": [3 * 10**6]}, start_s=2)
    assert usage(first, second).cpu_s == 3


def test_a_column_that_is_not_measured_yet() -> None:
    """Samples before a column was there are left out."""
    assert usage(chunk({"job_cpu_us": [NONE, NONE, 10**6, 2 * 10**6]})).cpu_s == 1


def test_enough_cpus() -> None:
    """How many CPUs are enough comes from how fast the counter grew."""
    found = usage(chunk({"job_cpu_us": [at * 3_000_000 for at in range(11)]}))
    assert found.cpus_enough == pytest.approx(3 / 1.01)


def test_never_measured() -> None:
    """A column that was never measured is None, not 0."""
    found = usage(chunk({"job_cpu_us": [NONE, NONE], "job_oom_kills": [NONE, NONE]}))
    assert (found.cpu_s, found.cpus_enough, found.oom_kills) == (None, None, None)


def test_no_kill_is_zero() -> None:
    """A counter of kills that stands still is 0."""
    assert usage(chunk({"job_oom_kills": [0, 0]})).oom_kills == 0


def test_throttled() -> None:
    """Throttled seconds are those of the control group."""
    assert usage(chunk({"job_cpu_throttled_us": [0, 250_000]})).cpu_throttled_s == 0.25


def test_memory_with_and_without_page_cache() -> None:
    """The most of the working set's samples and the kernel's own peak are told apart."""
    columns = [
        HostColumn(name="job_memory_bytes", kind="gauge"),
        HostColumn(name="job_memory_peak_bytes", kind="gauge"),
    ]
    found = usage(chunk_of(columns, [[10, 70, 30], [500, 500, 500]]))
    assert (found.mem_peak_bytes, found.mem_kernel_peak_bytes) == (70, 500)


def test_a_peak_is_no_working_set() -> None:
    """Where only the peak is there nothing is said of memory without page cache."""
    found = usage(gauge("job_memory_peak_bytes", [500, 600]))
    assert (found.mem_peak_bytes, found.mem_kernel_peak_bytes) == (None, 600)


def test_pressure() -> None:
    """Pressure is the part of the time in which the total grew."""
    found = usage(chunk({"job_psi_memory_full_us": [0, 100_000, 500_000]}))
    assert found.psi_frac == {"memory_full": 0.25}


def test_pressure_of_the_node() -> None:
    """The node's pressure stands in for the job's under its own name."""
    found = usage(chunk({"node_psi_io_full_us": [0, 500_000]}))
    assert found.psi_frac == {"node_io_full": 0.5}


@pytest.mark.parametrize("name", ["ib_mlx5_0_1_tx_bytes", "ib.mlx5_0.1.tx_bytes"])
def test_network(name: str) -> None:
    """A NIC's traffic is named by device, port and direction."""
    assert usage(chunk({name: [100, 350]})).network_bytes == {"mlx5_0.1.tx_bytes": 250}


def test_rapl() -> None:
    """Packages and DRAM add up; cores are in the packages."""
    columns = {
        "rapl_0_package_0_uj": [0, 9_000_000],
        "rapl_0_0_core_uj": [0, 5_000_000],
        "rapl_0_1_dram_uj": [0, 1_000_000],
    }
    energy = usage(chunk(columns, exclusive=True)).energy
    assert (energy.value_j, energy.scope) == (10, "cpu")


def test_rapl_wraps() -> None:
    """A counter that begins again at its range has grown."""
    column = HostColumn(name="rapl.package-0.energy_uj", kind="counter", wraps_at=1000_000_000)
    made = chunk_of([column], [[999_000_000, 2_000_000]], exclusive=True)
    assert usage(made).energy.value_j == 3


def test_a_counter_that_was_set_back() -> None:
    """Of a counter that was set back what it shows since counts."""
    column = HostColumn(name="rapl.package-0.energy_uj", kind="counter", wraps_at=1000_000_000)
    made = chunk_of([column], [[400_000_000, 2_000_000]], exclusive=True)
    assert usage(made).energy.value_j == 2


def test_cray() -> None:
    """Cray's counter is the whole node, and is preferred."""
    columns = {"node_energy_j": [100, 700], "rapl_0_package_0_uj": [0, 9_000_000]}
    energy = usage(chunk(columns, exclusive=True)).energy
    assert (energy.value_j, energy.scope) == (600, "node")


def test_hwmon_is_integrated() -> None:
    """Power of a Grace socket over time is its energy."""
    made = gauge("hwmon_grace_power_socket_0_uw", [100_000_000, 200_000_000], exclusive=True)
    energy = usage(made).energy
    assert (energy.value_j, energy.source) == (150, EnergySource.INTEGRATED)


def test_a_gap_in_a_gauge_is_not_covered() -> None:
    """Energy is of the time that was measured, and coverage says how much that is."""
    power = "hwmon_module_power_socket_0_uw"
    parts = [gauge(power, [100_000_000] * 2, start_s=at, exclusive=True) for at in (0.0, 9.0)]
    energy = usage(*parts).energy
    assert (energy.value_j, energy.coverage_frac) == (200, 0.2)


def test_a_shared_node_has_no_energy_of_the_job() -> None:
    """On a node that others use too no energy is given, with the reason."""
    energy = usage(chunk({"node_energy_j": [100, 700]}, exclusive=False)).energy
    assert (energy.value_j, "other jobs" in energy.because) == (None, True)


def test_no_meter() -> None:
    """Without a meter there is no energy, and it is said why."""
    energy = usage(chunk({"job_cpu_us": [0, 1]})).energy
    assert (energy.value_j, energy.because) == (
        None,
        "no readable meter",
    )


def test_no_samples() -> None:
    """Without samples of the host nothing is known, and that is said."""
    found = usage()
    assert (found.cpu_s, found.energy.value_j, found.missing) == (
        None,
        None,
        ("there are no samples of the host",),
    )


def test_refused_sources_are_told() -> None:
    """Why a source is not there is passed on."""
    made = chunk({"job_cpu_us": [0, 1]}, host_refused={"rapl": "energy_uj is root's alone"})
    assert usage(made).missing == ("rapl: energy_uj is root's alone",)


def test_samples_outside_are_left_out() -> None:
    """What a counter grew after the job counts for nobody."""
    grown = [at * 1_000_000 for at in range(20)]
    assert usage(chunk({"job_cpu_us": grown}), held_s=5).cpu_s == 5
