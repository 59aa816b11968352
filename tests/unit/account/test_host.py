"""hpckit.account.host: what host columns say of a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from hpckit.account.host import HostFold
from hpckit.account.samples import GPU_DTYPE, HostColumn, SampleChunk, SampleMeta
from hpckit.account.values import EnergySource, NodeAccount
from tests.fakes import measured_jobs
from tests.fakes.series import SECOND_NS, times_of

NONE = 2**64 - 1
Columns = Mapping[str, Sequence[int]]


def chunk(columns: Columns, *, start_s: float = 0.0, **meta: Any) -> SampleChunk:
    """Host samples a second apart; power and memory are gauges."""
    made = [
        HostColumn(
            name=name, kind="gauge" if name.startswith("job_memory") or "_uw" in name else "counter"
        )
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


def usage(*chunks: SampleChunk, held_s: float = 10.0) -> NodeAccount:
    """Of chunks within ten seconds."""
    fold = HostFold(chunks[0].meta, 1.0, 0, int(held_s * SECOND_NS))
    for one in chunks:
        fold.add(one)
    return fold.result(measured_jobs.node())


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ({"job_cpu_us": [5_000_000, 6_000_000, 9_500_000]}, {"cpu_s": 4.5}),
        # The sampler's own CPU time is not the job's.
        (
            {"job_cpu_us": [0, 4_000_000], "sampler_step_cpu_us": [0, 500_000]},
            {"cpu_s": 3.5, "sampler_cpu_s": 0.5},
        ),
        ({"job_cpu_us": [NONE, NONE, 10**6, 2 * 10**6]}, {"cpu_s": 1}),
        (
            {"job_cpu_us": [NONE, NONE], "job_oom_kills": [NONE, NONE]},
            {"cpu_s": None, "cpus_enough": None, "oom_kills": None},
        ),
        ({"job_oom_kills": [0, 0]}, {"oom_kills": 0}),
        (
            {"job_cpu_us": [at * 3_000_000 for at in range(11)]},
            {"cpus_enough": pytest.approx(3 / 1.01)},
        ),
        ({"job_cpu_throttled_us": [0, 250_000]}, {"cpu_throttled_s": 0.25}),
        (
            {"job_memory_bytes": [10, 70, 30], "job_memory_peak_bytes": [500, 500, 500]},
            {"mem_peak_bytes": 70, "mem_kernel_peak_bytes": 500},
        ),
        # A peak with page cache says nothing of memory without it.
        (
            {"job_memory_peak_bytes": [500, 600]},
            {"mem_peak_bytes": None, "mem_kernel_peak_bytes": 600},
        ),
        ({"job_psi_memory_full_us": [0, 100_000, 500_000]}, {"psi_frac": {"memory_full": 0.25}}),
        ({"node_psi_io_full_us": [0, 500_000]}, {"psi_frac": {"node_io_full": 0.5}}),
        ({"ib_mlx5_0_1_tx_bytes": [100, 350]}, {"network_bytes": {"mlx5_0.1.tx_bytes": 250}}),
    ],
)
def test_what_columns_say(columns: Columns, found: dict[str, Any]) -> None:
    """What grew, was the most, or held the job back; what was never measured is None, not 0."""
    made = usage(chunk(columns))
    assert {name: getattr(made, name) for name in found} == found


def test_samples_are_of_the_time_that_was_held() -> None:
    """Growth between two chunks counts, that after the job for nobody."""
    first, second = chunk({"job_cpu_us": [0, 10**6]}), chunk({"job_cpu_us": [3 * 10**6]}, start_s=2)
    assert usage(first, second).cpu_s == 3
    grown = [at * 1_000_000 for at in range(20)]
    assert usage(chunk({"job_cpu_us": grown}), held_s=5).cpu_s == 5


RAPL = {"rapl_0_package_0_uj": [0, 9_000_000]}


@pytest.mark.parametrize(
    ("columns", "value_j", "scope"),
    [
        # Packages and DRAM add up; cores are in the packages.
        (
            {**RAPL, "rapl_0_0_core_uj": [0, 5_000_000], "rapl_0_1_dram_uj": [0, 1_000_000]},
            10,
            "cpu",
        ),
        ({"node_energy_j": [100, 700], **RAPL}, 600, "node"),  # Cray's is the whole node
        ({"hwmon_grace_power_socket_0_uw": [100_000_000, 200_000_000]}, 150, "cpu"),
    ],
)
def test_the_best_meter_is_taken(columns: Columns, value_j: float, scope: str) -> None:
    """Its counter's growth, or its power over time, with what that includes."""
    energy = usage(chunk(columns, exclusive=True)).energy
    assert (energy.value_j, energy.scope) == (value_j, scope)
    is_gauge = next(iter(columns)).endswith("_uw")
    assert energy.source is (EnergySource.INTEGRATED if is_gauge else EnergySource.COUNTER)


@pytest.mark.parametrize(("first_uj", "joules"), [(999_000_000, 3), (400_000_000, 2)])
def test_a_counter_that_shows_less_than_before(first_uj: int, joules: float) -> None:
    """It began again at its range; of one that was set back what it shows since counts."""
    column = HostColumn(name="rapl_0_package_0_uj", kind="counter", wraps_at=1000_000_000)
    made = chunk_of([column], [[first_uj, 2_000_000]], exclusive=True)
    assert usage(made).energy.value_j == joules


@pytest.mark.parametrize(
    ("columns", "exclusive", "because"),
    [
        ({"node_energy_j": [100, 700]}, False, "other jobs"),
        ({"job_cpu_us": [0, 1]}, True, "no readable meter"),
    ],
)
def test_no_energy_of_the_job(columns: Columns, exclusive: bool, because: str) -> None:
    """Of a node that others use too, and of one without a meter, with the reason."""
    energy = usage(chunk(columns, exclusive=exclusive)).energy
    assert (energy.value_j, because in energy.because) == (None, True)


def test_a_gap_in_a_gauge_is_not_covered() -> None:
    """Energy is of the time that was measured, and coverage says how much that is."""
    power = "hwmon_module_power_socket_0_uw"
    parts = [chunk({power: [100_000_000] * 2}, start_s=at, exclusive=True) for at in (0.0, 9.0)]
    energy = usage(*parts).energy
    assert (energy.value_j, energy.coverage_frac) == (200, 0.2)


def test_a_source_that_is_not_there() -> None:
    """Why it is not is said."""
    made = chunk({"job_cpu_us": [0, 1]}, host_refused={"rapl": "only root may read energy_uj"})
    assert usage(made).missing == ("rapl: only root may read energy_uj",)
