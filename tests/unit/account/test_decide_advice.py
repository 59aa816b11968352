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


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED", "NODE_FAIL", "RUNNING", None])
def test_only_a_completed_run_lowers_anything(state: str | None) -> None:
    """What ended otherwise, or still runs, does not show what a whole run needs."""
    measured = report(
        state, elapsed_s=60, nodes=(node(mem_kernel_peak_bytes=GIB, cpus_enough=1.0, cpus=8),)
    )
    spec = job(time_limit="8:00:00", mem="64G", cpus_per_task=8)
    assert advise(measured, spec) == ()


REQUEUED = (incarnation(0, 3600, is_lost=True), incarnation(1, 3600))


@pytest.mark.parametrize(
    ("measured", "limit", "proposed"),
    [
        # Three hours lost and one to the end ask for the margin over four.
        (
            report(
                elapsed_s=3600,
                incarnations=(incarnation(0, 3 * 3600, is_lost=True), incarnation(1, 3600)),
            ),
            "12:00:00",
            "5:00:00",
        ),
        # Of 70 minutes the accounts have the last ten: an hour of staging came before them.
        (report(elapsed_s=4200, incarnations=(incarnation(0, 600),)), "4:00:00", "1:30:00"),
        # A requeued job that copied results for an hour after its last rank needs that hour too.
        (report(elapsed_s=7200, incarnations=REQUEUED), "12:00:00", "3:45:00"),
    ],
)
def test_all_of_a_jobs_time_counts(measured: JobReport, limit: str, proposed: str) -> None:
    """That of all its runs, and what came before the first account and after the last."""
    assert only(measured, job(time_limit=limit)).proposed == proposed


@pytest.mark.parametrize(
    ("measured", "spec"),
    [
        (report(elapsed_s=46 * 60), job(time_limit="1:00:00")),
        (report(elapsed_s=60), job()),  # a limit that nobody knows
        # With --signal a timeout is the way to the next checkpoint.
        (
            report("TIMEOUT", elapsed_s=3600),
            job(time_limit="1:00:00", more={"slurm": SlurmOptions(signal="USR1@120")}),
        ),
        # Other tasks of an array may need more than the measured one.
        (
            report(elapsed_s=60),
            job(time_limit="8:00:00", more={"slurm": SlurmOptions(array="0-9")}),
        ),
    ],
)
def test_a_limit_stays(measured: JobReport, spec: JobSpec) -> None:
    """Where the run is near it, or does not speak for the next."""
    assert advise(measured, spec) == ()


def test_a_timeout_asks_for_more() -> None:
    """A run that its limit ended gets half as much again, and no saving is claimed."""
    advice = only(report("TIMEOUT", elapsed_s=3600), job(time_limit="1:00:00"))
    assert (advice.proposed, advice.saving) == ("1:30:00", {})


def test_a_short_limit_is_not_called_half_as_much_again() -> None:
    """Three seconds become five minutes, as limits are rounded up: at least is said."""
    advice = only(report("TIMEOUT", elapsed_s=3), job(time_limit="0:03"))
    assert advice.proposed == "0:05:00"
    assert "at least 1.5× that, rounded up" in advice.because


def test_the_partitions_limit_counts_where_none_was_said() -> None:
    """A limit that Slurm reports is the one that was held."""
    measured = report(
        elapsed_s=60, job=ReportedJob(job_id="1", state="COMPLETED", time_limit_s=86400.0)
    )
    assert only(measured, job()).now is None


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


TEN = report(nodes=(node(mem_kernel_peak_bytes=10 * GIB),))


@pytest.mark.parametrize(
    ("measured", "resources"),
    [
        *((TEN, one) for one in ({"mem": "0"}, {"mem": "64G", "exclusive": True})),
        *((TEN, one) for one in ({"exclusive": True}, {"mem": "13G"}, {})),
        # A node whose peak nobody read, or that left nothing, may have been the one that needs it.
        (
            report(nodes=(node("n1", mem_kernel_peak_bytes=GIB), node("n2"))),
            {"nodes": 2, "mem": "64G"},
        ),
        (report(nodes=(node("n1", mem_kernel_peak_bytes=GIB),)), {"nodes": 2, "mem": "64G"}),
        # What comes and goes between two samples is not in them.
        (report(nodes=(node(mem_peak_bytes=40 * GIB),)), {"mem": "200G"}),
        (
            report(nodes=(node(mem_peak_bytes=40 * GIB, mem_kernel_peak_bytes=190 * GIB),)),
            {"mem": "200G"},
        ),
        # A process that had more than the peak of the group: the peak is not the job's.
        (replace(TEN, ranks=(replace(rank(), max_rss_bytes=30 * GIB),)), {"mem": "64G"}),
        # Page cache fills what there is: without a kill nothing more is asked.
        (
            report("FAILED", nodes=(node(mem_kernel_peak_bytes=16 * GIB, oom_kills=0),)),
            {"mem": "16G"},
        ),
    ],
)
def test_memory_stays(measured: JobReport, resources: dict[str, Any]) -> None:
    """Where it is forced, fits, or its need is not known of the whole job."""
    assert advise(measured, job(**resources)) == ()


@pytest.mark.parametrize("state", ["OUT_OF_MEMORY", "FAILED", "COMPLETED"])
def test_a_killed_process_asks_for_more_memory(state: str) -> None:
    """Whatever the job made of it, what the kernel killed lacked memory."""
    measured = report(state, nodes=(node(mem_kernel_peak_bytes=16 * GIB, oom_kills=1),))
    assert only(measured, job(mem="16G")).proposed == "24G"


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


MEAN_S = 3600 * (0.05 * 32 + 0.95 * 0.5)
BURSTS = report(nodes=(node(cpu_s=MEAN_S, cpus=32, cpus_enough=26.7),))
LITTLE = report(nodes=(node(cpus_enough=0.01, cpus=8),))


def throttled(throttled_s: float) -> JobReport:
    """Four CPUs that were held back for so long in an hour."""
    made = node(cpu_s=4 * 3600.0, cpus=4, cpu_throttled_s=throttled_s)
    return report("FAILED", nodes=(made,))


def of_ranks(enough: float, cpus: int, *busy: float) -> JobReport:
    """Ranks that kept so many CPUs busy on average."""
    ranks = tuple(rank(number, cpu_s=rate * 3600.0) for number, rate in enumerate(busy))
    return report(nodes=(node(cpus_enough=enough, cpus=cpus),), ranks=ranks)


@pytest.mark.parametrize(
    ("measured", "resources", "proposed"),
    [
        # What kept all CPUs busy for a twentieth of the time has a mean of 2, and needs them.
        (BURSTS, {"cpus_per_task": 32}, None),
        (report(nodes=(node(cpu_s=MEAN_S, cpus=32),)), {"cpus_per_task": 32}, None),
        # The busiest rank counts, be it by its mean or by bursts that may be its alone.
        (of_ranks(11.0, 32, 10.0, 0.0), {"ntasks_per_node": 2, "cpus_per_task": 16}, None),
        (of_ranks(8.0, 64, 1.0, 1.05, 1.1, 1.15), {"ntasks_per_node": 4, "cpus_per_task": 16}, "3"),
        (of_ranks(8.0, 64, 2.0, 0.5, 0.5, 0.5), {"ntasks_per_node": 4, "cpus_per_task": 16}, "10"),
        (LITTLE, {"cpus_per_task": 8}, "1"),
        # Whole nodes have all CPUs, and memory by CPU would shrink with them.
        (LITTLE, {"cpus_per_task": 8, "exclusive": True}, None),
        (LITTLE, {"cpus_per_task": 8, "mem_per_cpu": "2G"}, None),
        (throttled(1440.0), {"cpus_per_task": 4}, "6"),
        (throttled(100.0), {"cpus_per_task": 4}, None),
    ],
)
def test_cpus_of_a_rank(
    measured: JobReport, resources: dict[str, Any], proposed: str | None
) -> None:
    """Those that the busiest needs with a margin, more where a quota held it back; None: as is."""
    assert [one.proposed for one in advise(measured, job(**resources))] == (
        [] if proposed is None else [proposed]
    )


def test_fewer_cpus_come_without_a_shorter_time() -> None:
    """How long the job takes on fewer CPUs the next run shows; until then its limit stays."""
    measured = report(elapsed_s=600, nodes=(node(elapsed_s=600, cpus_enough=2.0, cpus=32),))
    advice = only(measured, job(cpus_per_task=32, time_limit="8:00:00"))
    assert advice.key == "resources.cpus_per_task"
    assert advice.because.endswith(
        "keep the time limit until a run on fewer CPUs shows how long it takes"
    )
    assert only(measured, job(cpus_per_task=3, time_limit="8:00:00")).key == "resources.time_limit"


# --- GPUs ----------------------------------------------------------------------------------------

_HALF_USED = [gpu(index=0), gpu(index=1), unused(index=2), unused(index=3)]


def test_gpus_without_a_process_are_dropped() -> None:
    """Two of four GPUs never used, by one rank: two are asked for, with what they cost."""
    advice = only(report(gpus=_HALF_USED), job(gpus_per_node=4))
    assert (advice.key, advice.proposed) == ("resources.gpus_per_node", "2")
    assert advice.saving == {"gpu_s": 7200.0, "energy_j": 2000.0}


BLIND = [gpu(index=0), unused(index=1, refused={"processes": "NVML_ERROR_NO_PERMISSION"})]
GAPPY = gpu(index=1, waste=Share(no_process_gpu_s=3000.0, unknown_gpu_s=600.0))
BRIEF = gpu(index=1, waste=Share(no_process_gpu_s=3528.0, useful_gpu_s=72.0))
ONE_NODE = report(gpus=[gpu("n1"), unused("n2")], ranks=(rank(node="n1"),))


@pytest.mark.parametrize(
    ("measured", "spec"),
    [
        # Fewer GPUs would leave a rank without one; a node that uses all keeps them for all.
        (report(gpus=_HALF_USED), job("torchrun", gpus_per_node=4)),
        (
            report(gpus=[*_HALF_USED, *(gpu("n2", index=i) for i in range(4))]),
            job(nodes=2, gpus_per_node=4),
        ),
        # Processes could not be read, a part is not known, or a GPU has no account.
        (report(gpus=BLIND), job(gpus_per_node=2)),
        (report(gpus=[gpu(index=0), GAPPY]), job(gpus_per_node=2)),
        (report(gpus=_HALF_USED[:3]), job(gpus_per_node=4)),
        (report(gpus=[gpu(index=0), BRIEF]), job(gpus_per_node=2)),  # a look of 2 % is a use
        (report(gpus=[unused(index=0)]), job(gpus_per_node=1)),  # none used: for a person
        # A world size or a mesh over all nodes.
        (ONE_NODE, job("torchrun", nodes=2, gpus_per_node=1)),
        (ONE_NODE, job(nodes=2, gpus_per_node=1, more={"parallel": {MeshAxis.DATA: 2}})),
    ],
)
def test_gpus_and_nodes_stay(measured: JobReport, spec: JobSpec) -> None:
    """Where the launch counts on them, or nobody knows that they were not used."""
    assert advise(measured, spec) == ()


def test_a_node_without_ranks_is_dropped() -> None:
    """Of two nodes one had neither a rank nor a process."""
    advice = only(ONE_NODE, job(nodes=2, gpus_per_node=1))
    assert (advice.key, advice.proposed) == ("resources.nodes", "1")


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
