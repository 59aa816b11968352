"""hpckit.measure.findings: each rule holds for what it is about, and not for what is near it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from hpckit.measure.finding_rules import RULES
from hpckit.measure.findings import report_findings, report_findings_page
from hpckit.measure.stragglers import stragglers
from hpckit.model.account import GpuAccount, JobReport, Share, Throttling, Window
from hpckit.model.report_finding import ReportFinding
from tests.fakes.measured import GIB, HELD_S, gpu, gpus, node, rank, report, run, shares


def found(made: JobReport) -> tuple[ReportFinding, ...]:
    """With the stragglers of the report itself."""
    return report_findings(made, stragglers(made.gpus))


def rules(**changes: Any) -> list[str]:
    """The rules that hold for the clean report with changes."""
    return [one.rule for one in found(report(**changes))]


def odd_gpu(**changes: Any) -> list[str]:
    """The rules that hold where the last of four GPUs is changed."""
    return rules(gpus=gpus(**changes))


def odd_node(**changes: Any) -> list[str]:
    """The rules that hold where the node is changed."""
    return rules(nodes=(node(**changes),))


def window(start_s: float, end_s: float = HELD_S, kind: str = "idle") -> tuple[Window, ...]:
    """One window; late if it reaches to the end."""
    return (Window(kind=kind, started_s=start_s, ended_s=end_s, is_late=end_s == HELD_S),)


def starved_gpus() -> tuple[GpuAccount, ...]:
    """Four GPUs that are idle a tenth of the time."""
    return tuple(gpu(index, waste=shares(idle=100)) for index in range(4))


def test_a_clean_job_has_no_finding() -> None:
    """Of a job that did nothing wrong nothing is found."""
    assert rules() == []


def test_gpu_never_used() -> None:
    """A GPU without a process all the time is never used, and idle besides is not said."""
    assert odd_gpu(waste=shares(no_process=HELD_S)) == ["gpu-never-used"]


def test_what_a_gpu_that_was_never_used_cost() -> None:
    """It cost its GPU-seconds and its energy."""
    (one,) = found(report(gpus=gpus(waste=shares(no_process=HELD_S))))
    assert (one.subject, one.wasted_gpu_s, one.wasted_j) == ("GPU3 on n1", HELD_S, 600_000.0)


def test_of_a_machine_without_a_job_none_is_spoken_of() -> None:
    """What was sampled by hand had no job, no ranks and no logs."""
    by_hand = replace(report().job, job_id=None)
    (one,) = found(report(job=by_hand, gpus=gpus(waste=shares(no_process=HELD_S))))
    assert one.because == "no process computed on it in the 16:40 that was sampled"
    assert one.remedy == "nothing, where nothing was to run there; else see why it did not start"
    (one,) = found(report(job=by_hand, gpus=gpus(waste=shares(idle=HELD_S))))
    assert one.because.startswith("no kernel ran on it in the 16:40 that was sampled, while")


def test_gpus_of_a_node_are_named_together() -> None:
    """Several GPUs of a node that were never used are one finding."""
    empty = [gpu(index, waste=shares(no_process=HELD_S)) for index in (1, 2)]
    (one,) = found(report(gpus=(gpu(0), *empty, gpu(3))))
    assert one.subject == "GPU1-2 on n1"


def test_a_gpu_used_late_was_used() -> None:
    """A GPU that a process used for a tenth of the time was used."""
    assert odd_gpu(waste=shares(no_process=900.0)) == []


def test_gpu_idle() -> None:
    """A GPU that processes had open and on which nothing ran is idle."""
    assert odd_gpu(waste=shares(idle=HELD_S)) == ["gpu-idle"]


def test_low_utilization_is_no_finding() -> None:
    """Low utilization with full-ish memory is no finding: it may be needed for its memory."""
    low = [gpu(index, util_mean_pct=8.0, mem_peak_bytes=72 * GIB) for index in range(4)]
    assert rules(gpus=tuple(low)) == []


def test_late_idle() -> None:
    """GPUs that do nothing in the last third of the job are late-idle."""
    late = [gpu(index, waste=shares(idle=330), windows=window(670)) for index in range(4)]
    (one,) = found(report(gpus=tuple(late)))
    assert (one.rule, one.wasted_gpu_s) == ("late-idle", 4 * 330)


def test_a_last_checkpoint_is_not_late_idle() -> None:
    """40 s at the end of a quarter of an hour are not worth a word."""
    late = [gpu(index, waste=shares(idle=40), windows=window(960)) for index in range(4)]
    assert rules(gpus=tuple(late)) == []


@pytest.mark.parametrize(("held_s", "late_s", "is_found"), [(33.0, 7.0, False), (26.0, 12.0, True)])
def test_late_idle_of_a_short_job(held_s: float, late_s: float, *, is_found: bool) -> None:
    """A program that takes seconds to end is none; ten seconds that are a fifth of a job are."""
    share = Share(useful_gpu_s=held_s - late_s, idle_gpu_s=late_s)
    late = (Window(kind="idle", started_s=held_s - late_s, ended_s=held_s, is_late=True),)
    made = [gpu(index, held_s=held_s, waste=share, windows=late) for index in range(2)]
    assert rules(gpus=tuple(made)) == (["late-idle"] if is_found else [])


def test_late_idle_of_a_long_job() -> None:
    """A quarter of an hour at the end is late-idle however long the job was."""
    day_s = 86_400.0
    share = Share(useful_gpu_s=day_s - 1000, idle_gpu_s=1000)
    late = (Window(kind="idle", started_s=day_s - 1000, ended_s=day_s, is_late=True),)
    made = [gpu(index, held_s=day_s, waste=share, windows=late) for index in range(2)]
    assert rules(gpus=tuple(made)) == ["late-idle"]


def test_idle_stretch() -> None:
    """GPUs that wait for a third of the job before they work stand in a stretch."""
    early = [gpu(at, waste=shares(no_process=330), windows=window(0, 330)) for at in range(4)]
    assert rules(gpus=tuple(early)) == ["idle-stretch"]


def test_loading_is_no_stretch() -> None:
    """A tenth of the job in which data are loaded is no stretch."""
    early = [gpu(at, waste=shares(no_process=100), windows=window(0, 100)) for at in range(4)]
    assert rules(gpus=tuple(early)) == []


def test_idle_often() -> None:
    """GPUs that rest 30 % of the time in short pauses are found."""
    assert rules(gpus=tuple(gpu(at, waste=shares(idle=300)) for at in range(4))) == ["idle-often"]


def test_a_full_memory_is_not_punished() -> None:
    """GPUs that rest often and are needed for their memory are no finding."""
    made = [gpu(at, waste=shares(idle=300), mem_peak_bytes=74 * GIB) for at in range(4)]
    assert rules(gpus=tuple(made)) == []


def test_spin() -> None:
    """Two fifths of the time in kernels that wait are worth a word."""
    assert rules(gpus=tuple(gpu(at, waste=shares(spin=400)) for at in range(4))) == ["spin"]


def test_communication_is_no_spin() -> None:
    """A fifth of the time in communication is usual."""
    assert rules(gpus=tuple(gpu(at, waste=shares(spin=200)) for at in range(4))) == []


ONE_LINE = 90
"""Characters that a wide screen has beside the label."""


def test_straggler() -> None:
    """A GPU that works while the others wait is the straggler, by the name of its rank."""
    waiting = [gpu(index, waste=shares(idle=200)) for index in range(3)]
    (one,) = found(report(gpus=(*waiting, gpu(3, waste=shares(idle=20)))))
    assert (one.rule, one.subject) == ("straggler", "rank 3, GPU3 on n1")


def test_a_straggler_that_ranks_share() -> None:
    """All ranks of a shared GPU are named, each once."""
    waiting = [gpu(index, waste=shares(idle=200)) for index in range(3)]
    shared = [rank(number, gpus=("GPU-3",)) for number in (3, 7, 3)]
    made = report(gpus=(*waiting, gpu(3, waste=shares(idle=20))), ranks=tuple(shared))
    assert [one.subject for one in found(made)] == ["ranks 3,7, GPU3 on n1"]


@pytest.mark.parametrize(("thermal_s", "what"), [(0.0, "balance"), (300.0, "mend the")])
def test_what_to_do_about_a_straggler(thermal_s: float, what: str) -> None:
    """Where nothing measured explains a straggler its rank's work is looked at, not its node."""
    made = [gpu(index, waste=shares(idle=200)) for index in range(3)]
    odd = gpu(3, waste=shares(idle=20), throttling=Throttling(thermal_s=thermal_s))
    remedies = [one.remedy for one in found(report(gpus=(*made, odd))) if one.rule == "straggler"]
    assert [one.startswith(what) for one in remedies] == [True]
    assert len(remedies[0]) <= ONE_LINE


def test_thermal_throttling() -> None:
    """Heat that holds clocks down a tenth of the time is found."""
    assert odd_gpu(throttling=Throttling(thermal_s=100)) == ["thermal-throttling"]


def test_a_moment_of_heat() -> None:
    """Heat for 2 % of the time is no finding."""
    assert odd_gpu(throttling=Throttling(thermal_s=20)) == []


def test_power_brake() -> None:
    """A power brake for 2 % of the time is found."""
    assert odd_gpu(throttling=Throttling(power_brake_s=20)) == ["power-brake"]


def test_power_cap_is_normal() -> None:
    """GPUs whose power limit holds them all the time are no finding."""
    capped = [gpu(at, throttling=Throttling(power_cap_s=990)) for at in range(4)]
    assert rules(gpus=tuple(capped)) == []


def test_power_cap_uneven() -> None:
    """A GPU that its limit holds far longer than its peers is found."""
    assert odd_gpu(throttling=Throttling(power_cap_s=900)) == ["power-cap-uneven"]


def test_gpu_memory_high() -> None:
    """GPUs with 96 % of their memory in use are near their limit."""
    full = tuple(gpu(index, mem_peak_bytes=int(76.8 * GIB)) for index in range(4))
    assert rules(gpus=full) == ["gpu-memory-high"]


def test_gpu_memory_at_ninety_percent() -> None:
    """90 % of the memory is what frameworks reserve."""
    assert rules(gpus=tuple(gpu(at, mem_peak_bytes=72 * GIB) for at in range(4))) == []


def test_gpu_memory_uneven() -> None:
    """A GPU that needs a quarter of its memory more than its peers is found."""
    made = [gpu(index, mem_peak_bytes=40 * GIB) for index in range(3)]
    assert rules(gpus=(*made, gpu(3, mem_peak_bytes=60 * GIB))) == ["gpu-memory-uneven"]


def test_memory_of_a_pipeline() -> None:
    """A tenth more memory on one GPU is usual."""
    assert odd_gpu(mem_peak_bytes=68 * GIB) == []


def test_oom_kill() -> None:
    """A kill by the kernel is an error, and full memory is not said besides."""
    assert odd_node(oom_kills=2, mem_peak_bytes=199 * GIB) == ["oom-kill"]


def test_host_memory_high() -> None:
    """A host's memory that was nearly full is found."""
    assert odd_node(mem_peak_bytes=195 * GIB) == ["host-memory-high"]


def test_host_memory_without_a_limit() -> None:
    """Without a limit nothing is near it."""
    assert odd_node(mem_limit_bytes=None) == []


def test_cpu_quota() -> None:
    """A quota that holds the job back for a tenth of its CPUs' time is found."""
    assert odd_node(cpu_throttled_s=3200.0) == ["cpu-starved"]


def test_a_moment_of_a_quota_on_many_cpus() -> None:
    """The kernel adds throttled time up over CPUs: 100 s of 32 CPUs in 1000 s are 0.3 %."""
    assert odd_node(cpu_throttled_s=100.0) == []


def test_a_quota_on_unknown_cpus() -> None:
    """How large a part of an unknown number of CPUs' time was held back cannot be said."""
    assert odd_node(cpu_throttled_s=3200.0, cpus=None) == []


def test_cpu_starved() -> None:
    """Threads that wait for CPUs beside idle GPUs are found."""
    nodes = (node(psi_frac={"cpu_some": 0.6}),)
    assert rules(nodes=nodes, gpus=starved_gpus()) == ["cpu-starved"]


def test_busy_cpus_beside_busy_gpus() -> None:
    """Threads that wait for CPUs while the GPUs are busy are no finding."""
    assert odd_node(psi_frac={"cpu_some": 0.6}) == []


def test_io_wait() -> None:
    """A job that waits for files beside idle GPUs is found."""
    nodes = (node(psi_frac={"io_full": 0.3}),)
    assert rules(nodes=nodes, gpus=starved_gpus()) == ["io-wait"]


def test_io_beside_busy_gpus() -> None:
    """Waiting for files that costs no GPU time is no finding."""
    assert odd_node(psi_frac={"io_full": 0.3}) == []


def test_memory_pressure() -> None:
    """A job that waits for memory a tenth of the time is found."""
    assert odd_node(psi_frac={"memory_full": 0.1}) == ["memory-pressure"]


def test_restarts_lost() -> None:
    """What ran before a requeue is lost at most: how much a checkpoint kept is not known."""
    (one,) = found(report(incarnations=(run(0, is_lost=True), run(1))))
    assert (one.rule, one.wasted_gpu_s, one.wasted_j) == ("restarts-lost", None, None)
    assert one.because == "at most 16:40 were lost"


def test_counter_disagrees() -> None:
    """A counter that has twice what the power gives is found."""
    assert odd_gpu(integral_j=300_000.0) == ["counter-disagrees"]


def test_a_sensor_that_is_a_tenth_off() -> None:
    """A tenth between counter and power is what sensors have."""
    assert odd_gpu(integral_j=545_000.0) == []


def test_samples_missing() -> None:
    """A node without samples beside one with samples is named."""
    lost = node("n2", samples=0, missing=("the node was lost",))
    assert rules(nodes=(node(), lost)) == ["samples-missing"]


def test_nodes_that_were_lost_are_named_together() -> None:
    """Nodes without samples for one reason are one finding."""
    lost = [node(name, samples=0, missing=("nothing",)) for name in ("n2", "n3")]
    (only,) = found(report(nodes=(node(), *lost)))
    assert (only.rule, only.subject) == ("samples-missing", "n[2-3]")


def test_no_sampler() -> None:
    """Where no node has samples none were meant to be taken."""
    blind = [gpu(index, waste=Share(unknown_gpu_s=HELD_S)) for index in range(4)]
    assert rules(gpus=tuple(blind), nodes=(node(samples=0),)) == []


def test_coverage_low() -> None:
    """A GPU of which a third of the time is unknown is named."""
    assert odd_gpu(waste=shares(unknown=330, idle=20)) == ["coverage-low"]


def test_a_gpu_that_no_account_names() -> None:
    """A node of which samples name fewer GPUs than were asked for is named."""
    assert odd_node(unseen_gpus=2) == ["coverage-low"]


def test_samples_that_do_not_tell_a_spin() -> None:
    """A GPU with samples of which nothing is known is named, with the reason."""
    blind = gpus(waste=Share(unknown_gpu_s=HELD_S), refused={"spin": "without GPM"})
    (only,) = found(report(gpus=blind))
    assert (only.rule, only.because.rpartition(": ")[2]) == ("coverage-low", "without GPM")


def test_missing_data_is_no_waste() -> None:
    """Of a GPU of which nearly all is unknown only that is said."""
    assert odd_gpu(waste=Share(unknown_gpu_s=900, no_process_gpu_s=100)) == ["coverage-low"]


def test_a_short_job() -> None:
    """Of a GPU that was held for five seconds nothing is said."""
    brief = Share(no_process_gpu_s=5)
    assert rules(gpus=(gpu(0, held_s=5.0, waste=brief),), ranks=()) == []


def test_the_gravest_first() -> None:
    """Errors come before warnings, and those before notes."""
    changed = report(
        gpus=gpus(waste=shares(idle=HELD_S), mem_peak_bytes=79 * GIB), nodes=(node(oom_kills=1),)
    )
    assert [one.severity for one in found(changed)] == ["error", "warning", "note"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_rule_is_on_the_page(rule: Any) -> None:
    """The reference page has a row for each rule."""
    assert f"| `{rule.name}` | {rule.severity} |" in report_findings_page()
