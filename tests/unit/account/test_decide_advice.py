"""What a measured job says about the next one's request: each rule, and what comes near it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from hpckit.account.advice.advice import advise, values_of, with_advice
from hpckit.account.advice.rules import sensible_limit_s
from hpckit.account.values import Advice, JobReport, ReportedJob, Share
from hpckit.spec.job import JobSpec, MeshAxis
from hpckit.spec.slurm_options import SlurmOptions
from tests.fakes.measured_jobs import (
    GIB,
    gpu,
    incarnation,
    job,
    node,
    rank,
    report,
    unused,
)


def only(measured: JobReport, spec: JobSpec) -> Advice:
    """The one advice that there is."""
    (advice,) = advise(measured, spec)
    return advice


# --- time ----------------------------------------------------------------------------------------


def test_a_limit_far_above_the_run_is_lowered() -> None:
    """A run of 41:07 under an hour asks for 50 minutes next time."""
    advice = only(report(elapsed_s=2467), job(time_limit="1:00:00"))
    assert (advice.key, advice.now, advice.proposed) == (
        "resources.time_limit",
        "1:00:00",
        "0:50:00",
    )
    assert advice.saving == {"limit_s": 600}
    assert advice.because.startswith("it took 41:07 of 1:00:00; ")


def test_a_limit_near_the_run_stays() -> None:
    """A run of 46 minutes under an hour changes nothing."""
    assert advise(report(elapsed_s=46 * 60), job(time_limit="1:00:00")) == ()


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED", "NODE_FAIL", "RUNNING", None])
def test_only_a_completed_run_lowers_anything(state: str | None) -> None:
    """What ended otherwise, or still runs, does not show what a whole run needs."""
    measured = report(
        state, elapsed_s=60, nodes=(node(mem_kernel_peak_bytes=GIB, cpus_enough=1.0, cpus=8),)
    )
    spec = job(time_limit="8:00:00", mem="64G", cpus_per_task=8)
    assert advise(measured, spec) == ()


def test_a_requeued_run_needs_the_time_of_all_its_parts() -> None:
    """Three hours lost and one hour to the end ask for the margin over four."""
    measured = report(
        elapsed_s=3600,
        incarnations=(incarnation(0, 3 * 3600, is_lost=True), incarnation(1, 3600)),
    )
    assert only(measured, job(time_limit="12:00:00")).proposed == "5:00:00"


def test_the_jobs_time_counts_and_not_the_samplers() -> None:
    """Of 70 minutes the accounts have the last ten: an hour of staging came before them."""
    measured = report(elapsed_s=4200, incarnations=(incarnation(0, 600),))
    assert only(measured, job(time_limit="4:00:00")).proposed == "1:30:00"


def test_what_came_after_the_last_account_counts() -> None:
    """A requeued job that copied results for an hour after its last rank needs that hour too."""
    runs = (incarnation(0, 3600, is_lost=True), incarnation(1, 3600))
    measured = report(elapsed_s=7200, incarnations=runs)
    assert only(measured, job(time_limit="12:00:00")).proposed == "3:45:00"


def test_a_timeout_asks_for_more() -> None:
    """A run that its limit ended gets half as much again, and no saving is claimed."""
    advice = only(report("TIMEOUT", elapsed_s=3600), job(time_limit="1:00:00"))
    assert (advice.proposed, advice.saving) == ("1:30:00", {})


def test_a_short_limit_is_not_called_half_as_much_again() -> None:
    """Three seconds become five minutes, as limits are rounded up: at least is said."""
    advice = only(report("TIMEOUT", elapsed_s=3), job(time_limit="0:03"))
    assert advice.proposed == "0:05:00"
    assert "at least half as much again, rounded up" in advice.because


def test_a_job_that_asks_for_a_signal_runs_into_its_limit_on_purpose() -> None:
    """With --signal a timeout is the way to the next checkpoint."""
    spec = job(time_limit="1:00:00", more={"slurm": SlurmOptions(signal="USR1@120")})
    assert advise(report("TIMEOUT", elapsed_s=3600), spec) == ()


def test_one_task_does_not_speak_for_an_array() -> None:
    """Other tasks may need more than the measured one."""
    spec = job(time_limit="8:00:00", more={"slurm": SlurmOptions(array="0-9")})
    assert advise(report(elapsed_s=60), spec) == ()


def test_the_partitions_limit_counts_where_none_was_said() -> None:
    """A limit that Slurm reports is the one that was held."""
    measured = report(
        elapsed_s=60, job=ReportedJob(job_id="1", state="COMPLETED", time_limit_s=86400.0)
    )
    assert only(measured, job()).now is None


def test_no_limit_known_is_no_advice() -> None:
    """A limit that nobody knows is not compared with anything."""
    assert advise(report(elapsed_s=60), job()) == ()


@pytest.mark.parametrize(
    ("needed_s", "limit_s"),
    [(1, 300), (301, 600), (3600, 3600), (3601, 4500), (22000, 23400), (90000, 90000)],
)
def test_limits_are_round_numbers(needed_s: float, limit_s: int) -> None:
    """5 minutes up to an hour, then quarters, halves and whole hours; never below the need."""
    assert sensible_limit_s(needed_s) == limit_s


# --- memory --------------------------------------------------------------------------------------


def test_memory_far_above_the_peak_is_lowered() -> None:
    """A peak of 10 GiB of 64 asks for 13, on each of two nodes."""
    measured = report(
        nodes=(
            node("n1", mem_kernel_peak_bytes=10 * GIB),
            node("n2", mem_kernel_peak_bytes=8 * GIB),
        )
    )
    advice = only(measured, job(nodes=2, mem="64G"))
    assert (advice.key, advice.proposed) == ("resources.mem", "13G")
    assert advice.saving == {"mem_bytes": 2 * 51 * GIB}


def test_memory_keeps_the_key_that_the_job_has() -> None:
    """With memory by GPU the peak is shared among the node's GPUs."""
    measured = report(
        nodes=(node(mem_kernel_peak_bytes=10 * GIB),), gpus=[gpu(index=i) for i in range(4)]
    )
    advice = only(measured, job(gpus_per_node=4, ntasks_per_node=4, mem_per_gpu="32G"))
    assert (advice.key, advice.proposed) == ("resources.mem_per_gpu", "3328M")


@pytest.mark.parametrize(
    "resources",
    [
        {"mem": "0"},
        {"mem": "64G", "exclusive": True},
        {"exclusive": True},
        {"mem": "13G"},
        {},
    ],
)
def test_memory_that_is_forced_or_fits_stays(resources: dict[str, Any]) -> None:
    """A whole node's memory is no waste, nor is a request near the peak, nor a default."""
    assert advise(report(nodes=(node(mem_kernel_peak_bytes=10 * GIB),)), job(**resources)) == ()


def test_memory_needs_the_peak_of_every_node() -> None:
    """A node whose peak nobody read may have been the one that needs it."""
    some = report(nodes=(node("n1", mem_kernel_peak_bytes=GIB), node("n2")))
    lost = report(nodes=(node("n1", mem_kernel_peak_bytes=GIB),))
    assert advise(some, job(nodes=2, mem="64G")) == ()
    assert advise(lost, job(nodes=2, mem="64G")) == ()


def test_samples_alone_lower_no_memory() -> None:
    """What comes and goes between two samples is not in them: 40 GiB seen may be 190 needed."""
    measured = report(nodes=(node(mem_peak_bytes=40 * GIB),))
    assert advise(measured, job(mem="200G")) == ()


def test_the_kernels_peak_is_what_must_fit() -> None:
    """A peak that no sample saw keeps its memory."""
    seen = node(mem_peak_bytes=40 * GIB, mem_kernel_peak_bytes=190 * GIB)
    assert advise(report(nodes=(seen,)), job(mem="200G")) == ()
    seen = node(mem_peak_bytes=40 * GIB, mem_kernel_peak_bytes=80 * GIB)
    assert only(report(nodes=(seen,)), job(mem="200G")).proposed == "100G"


def test_a_peak_below_that_of_a_process_is_not_the_jobs() -> None:
    """Where one process had more than the kernel's peak of the group no less memory is advised."""
    measured = report(
        nodes=(node(mem_kernel_peak_bytes=10 * GIB),),
        ranks=(replace(rank(), max_rss_bytes=30 * GIB),),
    )
    assert advise(measured, job(mem="64G")) == ()


@pytest.mark.parametrize("state", ["OUT_OF_MEMORY", "FAILED", "COMPLETED"])
def test_a_killed_process_asks_for_more_memory(state: str) -> None:
    """Whatever the job made of it, what the kernel killed lacked memory."""
    measured = report(state, nodes=(node(mem_kernel_peak_bytes=16 * GIB, oom_kills=1),))
    assert only(measured, job(mem="16G")).proposed == "24G"


def test_a_peak_at_the_limit_alone_is_no_lack() -> None:
    """Page cache fills what there is: without a kill nothing more is asked."""
    measured = report("FAILED", nodes=(node(mem_kernel_peak_bytes=16 * GIB, oom_kills=0),))
    assert advise(measured, job(mem="16G")) == ()


def test_more_than_a_default_is_asked_by_name() -> None:
    """A job that said no memory gets `mem` above the limit that its node had."""
    measured = report("OUT_OF_MEMORY", nodes=(node(mem_limit_bytes=8 * GIB, oom_kills=1),))
    advice = only(measured, job())
    assert (advice.key, advice.now, advice.proposed) == ("resources.mem", None, "12G")


# --- CPUs ----------------------------------------------------------------------------------------


def test_idle_cpus_are_given_back() -> None:
    """Ranks for which 2 of 16 CPUs are enough ask for 3."""
    measured = report(nodes=(node(cpus_enough=4.0, cpus=32),))
    advice = only(measured, job(ntasks_per_node=2, cpus_per_task=16))
    assert (advice.key, advice.now, advice.proposed) == ("resources.cpus_per_task", "16", "3")
    assert advice.saving == {"cpu_s": 13 * 2 * 3600.0}


def test_a_mean_gives_no_cpus_back() -> None:
    """What kept all CPUs busy for a twentieth of the time has a mean of 2, and needs them."""
    mean_s = 3600 * (0.05 * 32 + 0.95 * 0.5)
    measured = report(nodes=(node(cpu_s=mean_s, cpus=32, cpus_enough=26.7),))
    assert advise(measured, job(cpus_per_task=32)) == ()
    unknown = report(nodes=(node(cpu_s=mean_s, cpus=32),))
    assert advise(unknown, job(cpus_per_task=32)) == ()


def test_the_busiest_rank_counts() -> None:
    """One rank that keeps 10 CPUs busy keeps 15 for all."""
    measured = report(
        nodes=(node(cpus_enough=11.0, cpus=32),), ranks=(rank(0, cpu_s=10 * 3600.0), rank(1))
    )
    assert advise(measured, job(ntasks_per_node=2, cpus_per_task=16)) == ()


def test_ranks_that_are_alike_share_the_need() -> None:
    """Four ranks of the same CPU time for which 8 CPUs are enough ask for 3 each."""
    ranks = tuple(rank(number, cpu_s=(1.0 + number / 20) * 3600) for number in range(4))
    measured = report(nodes=(node(cpus_enough=8.0, cpus=64),), ranks=ranks)
    assert only(measured, job(ntasks_per_node=4, cpus_per_task=16)).proposed == "3"


def test_bursts_may_be_of_one_rank() -> None:
    """Where one rank did more than the others, all that these did not use may be its need."""
    ranks = tuple(rank(number, cpu_s=(2.0 if number == 0 else 0.5) * 3600) for number in range(4))
    measured = report(nodes=(node(cpus_enough=8.0, cpus=64),), ranks=ranks)
    assert only(measured, job(ntasks_per_node=4, cpus_per_task=16)).proposed == "10"


def test_fewer_cpus_come_without_a_shorter_time() -> None:
    """How long the job takes on fewer CPUs the next run shows; until then its limit stays."""
    measured = report(elapsed_s=600, nodes=(node(elapsed_s=600, cpus_enough=2.0, cpus=32),))
    advice = only(measured, job(cpus_per_task=32, time_limit="8:00:00"))
    assert advice.key == "resources.cpus_per_task"
    assert advice.because.endswith("the time limit stays until a run on these has shown its time")
    assert only(measured, job(cpus_per_task=3, time_limit="8:00:00")).key == "resources.time_limit"


def test_a_rank_keeps_one_cpu() -> None:
    """However little it did, a rank runs on a CPU."""
    measured = report(nodes=(node(cpus_enough=0.01, cpus=8),))
    assert only(measured, job(cpus_per_task=8)).proposed == "1"


@pytest.mark.parametrize("resources", [{"exclusive": True}, {"mem_per_cpu": "2G"}])
def test_cpus_that_carry_something_stay(resources: dict[str, Any]) -> None:
    """Whole nodes have all CPUs, and memory by CPU would shrink with them."""
    measured = report(nodes=(node(cpus_enough=0.01, cpus=8),))
    assert advise(measured, job(cpus_per_task=8, **resources)) == ()


def test_throttled_cpus_are_too_few() -> None:
    """A tenth of the CPU time held back asks for half as many again."""
    measured = report("FAILED", nodes=(node(cpu_s=4 * 3600.0, cpus=4, cpu_throttled_s=1440.0),))
    assert only(measured, job(cpus_per_task=4)).proposed == "6"


def test_a_moment_of_throttling_is_nothing() -> None:
    """Below 5 % of the CPU time nothing is asked."""
    measured = report(nodes=(node(cpu_s=4 * 3600.0, cpus=4, cpu_throttled_s=100.0),))
    assert advise(measured, job(cpus_per_task=4)) == ()


# --- GPUs ----------------------------------------------------------------------------------------

_HALF_USED = [gpu(index=0), gpu(index=1), unused(index=2), unused(index=3)]


def test_gpus_without_a_process_are_dropped() -> None:
    """Two of four GPUs never used, by one rank: two are asked for, with what they cost."""
    advice = only(report(gpus=_HALF_USED), job(gpus_per_node=4))
    assert (advice.key, advice.proposed) == ("resources.gpus_per_node", "2")
    assert advice.saving == {"gpu_s": 7200.0, "energy_j": 2000.0}


def test_ranks_as_many_as_gpus_keep_them() -> None:
    """Fewer GPUs would leave a rank without one."""
    spec = job("torchrun", gpus_per_node=4)
    assert advise(report(gpus=_HALF_USED), spec) == ()


def test_the_busiest_node_decides() -> None:
    """A node that uses all of its GPUs keeps them for all nodes."""
    gpus = [*_HALF_USED, *(gpu("n2", index=i) for i in range(4))]
    assert advise(report(gpus=gpus), job(nodes=2, gpus_per_node=4)) == ()


def test_processes_that_nobody_looked_for_are_not_missing() -> None:
    """Where processes could not be read, or a GPU has no account, nothing is dropped."""
    blind = [gpu(index=0), unused(index=1, refused={"processes": "NVML_ERROR_NO_PERMISSION"})]
    gappy = [gpu(index=0), gpu(index=1, waste=Share(no_process_gpu_s=3000.0, unknown_gpu_s=600.0))]
    for gpus in (blind, gappy, _HALF_USED[:3]):
        assert advise(report(gpus=gpus), job(gpus_per_node=4 if len(gpus) > 2 else 2)) == ()


def test_a_short_look_at_a_gpu_is_a_use() -> None:
    """A GPU that had a process for 2 % of the time was needed."""
    brief = gpu(index=1, waste=Share(no_process_gpu_s=3528.0, useful_gpu_s=72.0))
    assert advise(report(gpus=[gpu(index=0), brief]), job(gpus_per_node=2)) == ()


def test_all_gpus_unused_is_for_a_person() -> None:
    """A job none of whose GPUs had a process is not changed without one."""
    assert advise(report(gpus=[unused(index=0)]), job(gpus_per_node=1)) == ()


def test_a_node_without_ranks_is_dropped() -> None:
    """Of two nodes one had neither a rank nor a process."""
    measured = report(gpus=[gpu("n1"), unused("n2")], ranks=(rank(node="n1"),))
    advice = only(measured, job(nodes=2, gpus_per_node=1))
    assert (advice.key, advice.proposed) == ("resources.nodes", "1")


@pytest.mark.parametrize(
    "spec",
    [
        job("torchrun", nodes=2, gpus_per_node=1),
        job(nodes=2, gpus_per_node=1, more={"parallel": {MeshAxis.DATA: 2}}),
    ],
)
def test_nodes_that_the_launch_counts_on_stay(spec: JobSpec) -> None:
    """A world size or a mesh over all nodes is not changed."""
    measured = report(gpus=[gpu("n1"), unused("n2")], ranks=(rank(node="n1"),))
    assert advise(measured, spec) == ()


def test_memory_by_gpu_must_hold_the_peak() -> None:
    """GPUs whose memory share the job needs are not dropped."""
    measured = report(gpus=_HALF_USED, nodes=(node(mem_kernel_peak_bytes=30 * GIB),))
    spec = job(gpus_per_node=4, mem_per_gpu="10G")
    assert advise(measured, spec) == ()
    roomy = replace(measured, nodes=(node(mem_kernel_peak_bytes=15 * GIB),))
    assert only(roomy, spec).key == "resources.gpus_per_node"


# --- together ------------------------------------------------------------------------------------


def test_memory_is_by_the_gpus_that_are_left() -> None:
    """Where GPUs go and memory is by GPU, the rest must hold it all."""
    measured = report(gpus=_HALF_USED, nodes=(node(mem_kernel_peak_bytes=10 * GIB),))
    advice = advise(measured, job(gpus_per_node=4, mem_per_gpu="64G"))
    assert values_of(advice) == {"resources.gpus_per_node": 2, "resources.mem_per_gpu": "7G"}


def test_a_clean_job_gets_no_advice() -> None:
    """A job that asks for what it needs is left alone."""
    measured = report(
        elapsed_s=3000,
        gpus=[gpu(index=i, held_s=3000) for i in range(4)],
        nodes=(node(elapsed_s=3000, cpus_enough=12.0, cpus=16, mem_kernel_peak_bytes=50 * GIB),),
    )
    spec = job(gpus_per_node=4, ntasks_per_node=4, cpus_per_task=4, mem="64G", time_limit="1:00:00")
    assert advise(measured, spec) == ()


def test_advice_that_was_taken_is_not_given_again() -> None:
    """The same use under the advised request asks for nothing more."""
    measured = report(
        elapsed_s=600,
        gpus=_HALF_USED,
        nodes=(node(elapsed_s=600, cpus_enough=1.0, cpus=32, mem_kernel_peak_bytes=10 * GIB),),
    )
    spec = job(gpus_per_node=4, cpus_per_task=32, mem="256G", time_limit="1-00:00:00")
    advice = advise(measured, spec)
    assert len(advice) == 3
    later, smaller = replace(measured, gpus=tuple(_HALF_USED[:2])), with_advice(spec, advice)
    time = only(later, smaller)
    assert time.key == "resources.time_limit"
    assert advise(later, with_advice(smaller, (time,))) == ()
