"""Advice in words, for what no key says or a person must decide."""

from __future__ import annotations

import pytest

from hpckit.account.advice.outcome import advice_findings
from hpckit.account.values import JobReport, Share
from hpckit.spec.job import JobSpec
from hpckit.spec.slurm_options import SlurmOptions
from tests.fakes.measured_jobs import GIB, gpu, job, node, report


def rules(measured: JobReport, spec: JobSpec) -> list[str]:
    """The rules that fired."""
    return [one.rule for one in advice_findings(measured, spec)]


@pytest.mark.parametrize(
    ("peak", "idle_s", "fires"), [(30, 1200.0, True), (60, 1200.0, False), (30, 100.0, False)]
)
def test_a_batch_could_grow_where_gpus_wait(peak: int, idle_s: float, fires: bool) -> None:
    """Half the memory free and a third of the time idle; neither alone."""
    waste = Share(idle_gpu_s=idle_s, useful_gpu_s=3600 - idle_s)
    gpus = [gpu(mem_peak_bytes=peak * GIB, mem_bytes=80 * GIB, waste=waste)]
    assert ("batch-could-grow" in rules(report(gpus=gpus), job(gpus_per_node=1))) == fires


def test_a_timeout_after_a_signal_is_said() -> None:
    """The job was told, and had not ended."""
    spec = job(time_limit="1:00:00", more={"slurm": SlurmOptions(signal="USR1@120")})
    assert rules(report("TIMEOUT"), spec) == ["limit-after-signal"]


def test_out_of_a_whole_nodes_memory_needs_other_nodes() -> None:
    """More of mem=0 there is not."""
    measured = report("OUT_OF_MEMORY", nodes=(node(oom_kills=1),))
    assert rules(measured, job(mem="0")) == ["node-memory-exhausted"]
    assert rules(measured, job(mem="64G")) == []
