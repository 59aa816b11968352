"""Whether advice came true, by the report of the job that took it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from hpckit.account.advice.advice import advise, with_advice
from hpckit.account.advice.outcome import advice_document, advice_findings, outcomes
from hpckit.account.values import AdviceOutcome, JobReport, Share
from hpckit.spec.job import JobSpec
from hpckit.spec.slurm_options import SlurmOptions
from tests.fakes.measured_jobs import GIB, energy, gpu, job, node, report, unused

SPEC = job(gpus_per_node=4, mem="64G", time_limit="4:00:00")
BEFORE = report(
    gpus=[gpu(index=0), gpu(index=1), unused(index=2), unused(index=3)],
    nodes=(node(mem_peak_bytes=10 * GIB, mem_kernel_peak_bytes=10 * GIB, cpus=8),),
)
ADVICE = advise(BEFORE, SPEC)
DOCUMENT = advice_document(BEFORE, SPEC, ADVICE, [one.key for one in ADVICE])
TAKEN = with_advice(SPEC, ADVICE)


def became(after: JobReport) -> dict[tuple[str, str], AdviceOutcome]:
    """What became of the advice, by key and quantity."""
    found = outcomes(DOCUMENT, after, TAKEN)
    return {(one.key.removeprefix("resources."), one.quantity): one for one in found}


GOOD = report(gpus=[gpu(index=0), gpu(index=1)], nodes=(node(mem_peak_bytes=11 * GIB, cpus=8),))


def test_advice_that_came_true_is_held() -> None:
    """The same run on half the GPUs holds all of it, with both numbers."""
    found = became(GOOD)
    assert {key: one.held for key, one in found.items()} == {
        ("gpus_per_node", "gpu_s"): True,
        ("gpus_per_node", "energy_j"): True,
        ("mem", "mem_peak_bytes"): True,
        ("time_limit", "elapsed_s"): True,
    }
    gpus = found["gpus_per_node", "gpu_s"]
    assert (gpus.report, gpus.predicted, gpus.measured) == ("4242", 7200.0, 7200.0)
    assert gpus.before == 14400.0


def test_a_run_of_another_length_neither_holds_nor_breaks_a_saving() -> None:
    """Half the GPUs for twice or a tenth of the time: it did more, or less, or was slowed down."""
    for elapsed_s, word in ((7200.0, "100% longer"), (360.0, "90% less")):
        gpus = [gpu(index=at, held_s=elapsed_s) for at in range(2)]
        found = became(report(elapsed_s=elapsed_s, gpus=gpus))
        for quantity in ("gpu_s", "energy_j"):
            one = found["gpus_per_node", quantity]
            assert one.held is None
            assert f"it took {word}" in one.because


def test_a_run_whose_length_is_not_known_tells_nothing() -> None:
    """Advice of a document without a length has no baseline to hold."""
    document = {**DOCUMENT, "baseline": {**DOCUMENT["baseline"], "elapsed_s": None}}
    found = outcomes(document, GOOD, TAKEN)
    assert {one.held for one in found if one.quantity == "gpu_s"} == {None}


CPU_J = replace(GOOD.energy, gpu=replace(GOOD.energy.gpu, value_j=None))
SHORT = report(elapsed_s=360.0, gpus=[gpu(index=at, held_s=360.0) for at in range(4)])


@pytest.mark.parametrize(
    ("after", "key", "quantity", "held", "because"),
    [
        # Half the GPUs for the same time, and as many joules.
        (
            report(gpus=[gpu(index=at, energy=energy(2e6)) for at in range(2)]),
            "gpus_per_node",
            "energy_j",
            False,
            "against the run before the advice",
        ),
        # A tenth of the time on all four GPUs is no saving that the advice made.
        (SHORT, "gpus_per_node", "gpu_s", False, "held 4 GPUs, the advice was 2"),
        (SHORT, "gpus_per_node", "energy_j", False, "held 4 GPUs"),
        (
            replace(GOOD, job=replace(GOOD.job, state="TIMEOUT")),
            "time_limit",
            "elapsed_s",
            False,
            "was too little: TIMEOUT",
        ),
        (
            replace(GOOD, nodes=(node(mem_peak_bytes=13 * GIB, oom_kills=1),)),
            "mem",
            "mem_peak_bytes",
            False,
            "was too little",
        ),
        (replace(GOOD, energy=CPU_J), "gpus_per_node", "energy_j", None, "not measured"),
        *(
            (replace(GOOD, job=replace(GOOD.job, state="CANCELLED")), *one, None, "CANCELLED")
            for one in became(GOOD)
        ),
    ],
)
def test_what_became_of_it(
    after: JobReport, key: str, quantity: str, held: bool | None, because: str
) -> None:
    """A total that did not fall and a limit that was too little break it; else nothing tells."""
    one = became(after)[key, quantity]
    assert one.held is held
    assert because in one.because


def test_only_advice_that_was_taken_has_an_outcome() -> None:
    """What an option of the command line stood over predicts nothing."""
    document = advice_document(BEFORE, SPEC, ADVICE, ["resources.mem"])
    assert {one.key for one in outcomes(document, GOOD, TAKEN)} == {"resources.mem"}


def test_a_run_that_was_cut_off_predicts_no_duration() -> None:
    """How long a job takes that its limit ended is not known, and is not predicted."""
    cut = replace(BEFORE, job=replace(BEFORE.job, state="TIMEOUT"))
    document = advice_document(cut, SPEC, ADVICE, ["resources.time_limit"])
    (found,) = outcomes(document, GOOD, TAKEN)
    assert (found.quantity, found.predicted, found.held) == ("elapsed_s", None, True)


def test_the_duration_is_the_one_that_the_report_begins_with() -> None:
    """What Slurm counts before the first rank is part of it, as it is of the limit."""
    late = replace(GOOD, started_s=GOOD.started_s - 5.0)
    assert became(late)["time_limit", "elapsed_s"].measured == late.ended_s - late.started_s


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
