"""Advice in words, for what no key says or a person must decide."""

from __future__ import annotations

import pytest

from hpckit.decide.advice_words import advice_findings
from hpckit.model.account import JobReport, Share, Throttling, Window
from hpckit.model.job import JobSpec, LauncherKind
from hpckit.model.slurm_options import SlurmOptions
from tests.unit.decide.measured import GIB, STARTED_S, gpu, job, node, report, unused


def rules(measured: JobReport, spec: JobSpec) -> list[str]:
    """The rules that fired."""
    return [one.rule for one in advice_findings(measured, spec)]


def test_unused_gpus_that_the_ranks_count_on_are_words() -> None:
    """Torchrun starts a rank a GPU: why one uses none is to be looked at."""
    gpus = [gpu(index=0), unused(index=1)]
    (found,) = advice_findings(report(gpus=gpus), job(LauncherKind.TORCHRUN, gpus_per_node=2))
    assert (found.rule, found.wasted_gpu_s) == ("gpus-never-used", 3600.0)


def test_a_job_that_used_no_gpu_is_asked_whether_it_needs_one() -> None:
    """No key is changed for it."""
    (found,) = advice_findings(report(gpus=[unused()]), job(gpus_per_node=1))
    assert "ask for no GPUs" in found.remedy


def test_unused_gpus_of_a_patch_are_no_words() -> None:
    """What the patch says is not said twice."""
    assert rules(report(gpus=[gpu(index=0), unused(index=1)]), job(gpus_per_node=2)) == []


@pytest.mark.parametrize(("late_s", "fires"), [(900.0, True), (200.0, False)])
def test_a_late_idle_end_could_be_a_stage(late_s: float, fires: bool) -> None:
    """The last quarter of an hour without work is; three minutes are a checkpoint."""
    end_s = STARTED_S + 3600
    window = Window(kind="idle", started_s=end_s - late_s, ended_s=end_s, is_late=True)
    found = rules(report(gpus=[gpu(windows=(window,))]), job(gpus_per_node=1))
    assert ("end-earlier" in found) == fires


@pytest.mark.parametrize(
    ("peak", "idle_s", "fires"), [(30, 1200.0, True), (60, 1200.0, False), (30, 100.0, False)]
)
def test_a_batch_could_grow_where_gpus_wait(peak: int, idle_s: float, fires: bool) -> None:
    """Half the memory free and a third of the time idle; neither alone."""
    waste = Share(idle_gpu_s=idle_s, useful_gpu_s=3600 - idle_s)
    gpus = [gpu(mem_peak_bytes=peak * GIB, mem_bytes=80 * GIB, waste=waste)]
    assert ("batch-could-grow" in rules(report(gpus=gpus), job(gpus_per_node=1))) == fires


def test_one_gpu_at_its_power_cap_is_named() -> None:
    """Three at the cap for a tenth of the time, one for half of it."""
    caps = [360.0, 360.0, 360.0, 1800.0]
    gpus = [gpu(index=i, throttling=Throttling(power_cap_s=cap)) for i, cap in enumerate(caps)]
    (found,) = advice_findings(report(gpus=gpus), job(gpus_per_node=4))
    assert (found.rule, found.subject) == ("power-capped-above-peers", "GPU3 on n1")


def test_all_gpus_at_their_power_cap_is_boost() -> None:
    """Time at the power cap is normal where all have it."""
    gpus = [gpu(index=i, throttling=Throttling(power_cap_s=3000.0)) for i in range(4)]
    assert rules(report(gpus=gpus), job(gpus_per_node=4)) == []


def test_a_timeout_after_a_signal_is_said() -> None:
    """The job was told, and had not ended."""
    spec = job(time_limit="1:00:00", more={"slurm": SlurmOptions(signal="USR1@120")})
    assert rules(report("TIMEOUT"), spec) == ["limit-after-signal"]


def test_out_of_a_whole_nodes_memory_needs_other_nodes() -> None:
    """More of mem=0 there is not."""
    measured = report("OUT_OF_MEMORY", nodes=(node(oom_kills=1),))
    assert rules(measured, job(mem="0")) == ["node-memory-exhausted"]
    assert rules(measured, job(mem="64G")) == []
