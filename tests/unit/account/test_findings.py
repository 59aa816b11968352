"""hpckit.account.rules: each rule holds for what it is about, and not for what is near it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from hpckit.account.finding import ReportFinding
from hpckit.account.rules import RULES, report_findings
from hpckit.account.rules_checks import ReportRule
from hpckit.account.stragglers import stragglers
from hpckit.account.values import GpuAccount, JobReport, Share, Throttling, Window
from tests.fakes.measured import GIB, HELD_S, gpu, gpus, node, rank, report, run, shares

DAY_S = 86_400.0
ONE_LINE = 90
"""Characters that a wide screen has beside the label."""


def found(made: JobReport) -> tuple[ReportFinding, ...]:
    """With the stragglers of the report itself."""
    return report_findings(made, stragglers(made.gpus))


def four(**changes: Any) -> dict[str, Any]:
    """Four GPUs that are all changed."""
    return {"gpus": tuple(gpu(index, **changes) for index in range(4))}


def odd_gpu(**changes: Any) -> dict[str, Any]:
    """Four GPUs of which the last is changed."""
    return {"gpus": gpus(**changes)}


def odd_node(**changes: Any) -> dict[str, Any]:
    """A node that is changed."""
    return {"nodes": (node(**changes),)}


def window(start_s: float, end_s: float = HELD_S, held_s: float = HELD_S) -> tuple[Window, ...]:
    """One window in which nothing ran; late if it reaches to the end."""
    return (Window(kind="idle", started_s=start_s, ended_s=end_s, is_late=end_s == held_s),)


def late(held_s: float, late_s: float) -> dict[str, Any]:
    """Two GPUs that do nothing in their last seconds."""
    share = Share(useful_gpu_s=held_s - late_s, idle_gpu_s=late_s)
    windows = window(held_s - late_s, held_s, held_s)
    return odd(*(gpu(at, held_s=held_s, waste=share, windows=windows) for at in range(2)))


def odd(*made: GpuAccount) -> dict[str, Any]:
    """These GPUs."""
    return {"gpus": made}


STARVED = four(waste=shares(idle=100))
"""GPUs that are idle a tenth of the time."""
WAITING = tuple(gpu(index, waste=shares(idle=200)) for index in range(3))
SMALL = tuple(gpu(index, mem_peak_bytes=40 * GIB) for index in range(3))

CASES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "gpu-never-used": (
        [odd_gpu(waste=shares(no_process=HELD_S))],
        [odd_gpu(waste=shares(no_process=900.0))],
    ),
    "gpu-idle": (
        [odd_gpu(waste=shares(idle=HELD_S))],
        # Low utilization with full-ish memory: it may be needed for its memory.
        [four(util_mean_pct=8.0, mem_peak_bytes=72 * GIB)],
    ),
    # A last checkpoint is none, nor is a program that takes seconds to end; of a short job ten
    # seconds that are a fifth of it are, and a quarter of an hour however long the job was.
    "late-idle": (
        [four(waste=shares(idle=330), windows=window(670)), late(26, 12), late(DAY_S, 1000)],
        [four(waste=shares(idle=40), windows=window(960)), late(33, 7)],
    ),
    "idle-stretch": (
        [four(waste=shares(no_process=330), windows=window(0, 330))],
        [four(waste=shares(no_process=100), windows=window(0, 100))],  # loading data
    ),
    "idle-often": (
        [four(waste=shares(idle=300))],
        [four(waste=shares(idle=300), mem_peak_bytes=74 * GIB)],  # needed for their memory
    ),
    "spin": ([four(waste=shares(spin=400))], [four(waste=shares(spin=200))]),
    "straggler": ([odd(*WAITING, gpu(3, waste=shares(idle=20)))], []),
    "thermal-throttling": (
        [odd_gpu(throttling=Throttling(thermal_s=100))],
        [odd_gpu(throttling=Throttling(thermal_s=20))],
    ),
    "power-brake": ([odd_gpu(throttling=Throttling(power_brake_s=20))], []),
    "power-cap-uneven": (
        [odd_gpu(throttling=Throttling(power_cap_s=900))],
        [four(throttling=Throttling(power_cap_s=990))],  # a limit that holds all is normal
    ),
    # 90 % of the memory is what frameworks reserve.
    "gpu-memory-high": (
        [four(mem_peak_bytes=int(76.8 * GIB))],
        [four(mem_peak_bytes=72 * GIB)],
    ),
    "gpu-memory-uneven": (
        [odd(*SMALL, gpu(3, mem_peak_bytes=60 * GIB))],
        [odd_gpu(mem_peak_bytes=68 * GIB)],  # as in a pipeline
    ),
    "oom-kill": ([odd_node(oom_kills=2, mem_peak_bytes=199 * GIB)], []),
    "host-memory-high": (
        [odd_node(mem_peak_bytes=195 * GIB)],
        [odd_node(mem_limit_bytes=None)],
    ),
    # The kernel adds throttled time up over CPUs: 100 s of 32 CPUs in 1000 s are 0.3 %.
    "cpu-starved": (
        [odd_node(cpu_throttled_s=3200.0), {**odd_node(psi_frac={"cpu_some": 0.6}), **STARVED}],
        [
            odd_node(cpu_throttled_s=100.0),
            odd_node(cpu_throttled_s=3200.0, cpus=None),
            odd_node(psi_frac={"cpu_some": 0.6}),
        ],
    ),
    "io-wait": (
        [{**odd_node(psi_frac={"io_full": 0.3}), **STARVED}],
        [odd_node(psi_frac={"io_full": 0.3})],
    ),
    "memory-pressure": ([odd_node(psi_frac={"memory_full": 0.1})], []),
    "restarts-lost": ([{"incarnations": (run(0, is_lost=True), run(1))}], []),
    "counter-disagrees": (
        [odd_gpu(integral_j=300_000.0)],
        [odd_gpu(integral_j=545_000.0)],  # a tenth is what sensors have
    ),
    # Where no node has samples none were meant to be taken.
    "samples-missing": (
        [{"nodes": (node(), node("n2", samples=0, missing=("the node was lost",)))}],
        [{**four(waste=Share(unknown_gpu_s=HELD_S)), **odd_node(samples=0)}],
    ),
    # Of a GPU of which nearly all is unknown only that is said, of one held for 5 s nothing.
    "coverage-low": (
        [
            odd_gpu(waste=shares(unknown=330, idle=20)),
            odd_gpu(waste=Share(unknown_gpu_s=900, no_process_gpu_s=100)),
            odd_node(unseen_gpus=2),
        ],
        [{**odd(gpu(0, held_s=5.0, waste=Share(no_process_gpu_s=5))), "ranks": ()}],
    ),
}
"""Rule → changes of the clean report with which it alone holds, and near misses without any."""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_holds_in_its_cases_alone(rule: ReportRule) -> None:
    """Each rule has a case, in which it is all that is found; of its near misses nothing is."""
    fires, misses = CASES[rule.name]
    for changes in fires:
        assert [one.rule for one in found(report(**changes))] == [rule.name]
    for changes in misses:
        assert found(report(**changes)) == ()


def test_what_a_gpu_that_was_never_used_cost() -> None:
    """It cost its GPU-seconds and its energy."""
    (one,) = found(report(gpus=gpus(waste=shares(no_process=HELD_S))))
    assert (one.subject, one.wasted_gpu_s, one.wasted_j) == ("GPU3 on n1", HELD_S, 600_000.0)


def test_idling_in_between_is_told_from_idling_before() -> None:
    """What would help differs: data prepared beforehand, or a look at the loader."""
    begun_s = report().started_s
    for start_s, where, what in ((5.0, "before it worked", "earlier job"),
                                 (300.0, "between its work", "data loader")):  # fmt: skip
        windows = window(begun_s + start_s, begun_s + start_s + 330)
        (one,) = found(report(**four(waste=shares(idle=330), windows=windows)))
        assert where in one.because
        assert what in one.remedy


def test_of_a_machine_without_a_job_none_is_spoken_of() -> None:
    """What was sampled by hand had no job, no ranks and no logs."""
    by_hand = replace(report().job, job_id=None)
    (one,) = found(report(job=by_hand, gpus=gpus(waste=shares(no_process=HELD_S))))
    assert one.because == "no process used it during the 16:40 that was sampled"
    assert one.remedy == "ignore if nothing should run there; else find out why it did not start"
    (one,) = found(report(job=by_hand, gpus=gpus(waste=shares(idle=HELD_S))))
    assert one.because.startswith("no kernel ran on it during the 16:40 that was sampled, al")


def test_gpus_of_a_node_are_named_together() -> None:
    """Several GPUs of a node that were never used are one finding."""
    empty = [gpu(index, waste=shares(no_process=HELD_S)) for index in (1, 2)]
    (one,) = found(report(gpus=(gpu(0), *empty, gpu(3))))
    assert one.subject == "GPU1-2 on n1"


def test_a_straggler_that_ranks_share() -> None:
    """All ranks of a shared GPU are named, each once."""
    shared = [rank(number, gpus=("GPU-3",)) for number in (3, 7, 3)]
    made = report(gpus=(*WAITING, gpu(3, waste=shares(idle=20))), ranks=tuple(shared))
    assert [one.subject for one in found(made)] == ["ranks 3,7, GPU3 on n1"]


@pytest.mark.parametrize(("thermal_s", "what"), [(0.0, "balance"), (300.0, "fix the")])
def test_what_to_do_about_a_straggler(thermal_s: float, what: str) -> None:
    """Where nothing measured explains a straggler its rank's work is looked at, not its node."""
    odd = gpu(3, waste=shares(idle=20), throttling=Throttling(thermal_s=thermal_s))
    remedies = [
        one.remedy for one in found(report(gpus=(*WAITING, odd))) if one.rule == "straggler"
    ]
    assert [one.startswith(what) for one in remedies] == [True]
    assert len(remedies[0]) <= ONE_LINE


def test_restarts_lost() -> None:
    """What ran before a requeue is lost at most: how much a checkpoint kept is not known."""
    (one,) = found(report(incarnations=(run(0, is_lost=True), run(1))))
    assert (one.rule, one.wasted_gpu_s, one.wasted_j) == ("restarts-lost", None, None)
    assert one.because == "at most 16:40 lost"


def test_nodes_that_were_lost_are_named_together() -> None:
    """Nodes without samples for one reason are one finding."""
    lost = [node(name, samples=0, missing=("nothing",)) for name in ("n2", "n3")]
    (only,) = found(report(nodes=(node(), *lost)))
    assert (only.rule, only.subject) == ("samples-missing", "n[2-3]")


def test_samples_that_do_not_tell_a_spin() -> None:
    """A GPU with samples of which nothing is known is named, with the reason."""
    blind = gpus(waste=Share(unknown_gpu_s=HELD_S), refused={"spin": "without GPM"})
    (only,) = found(report(gpus=blind))
    assert (only.rule, only.because.rpartition(": ")[2]) == ("coverage-low", "without GPM")


def test_the_gravest_first() -> None:
    """Errors come before warnings, and those before notes."""
    changed = report(
        gpus=gpus(waste=shares(idle=HELD_S), mem_peak_bytes=79 * GIB), nodes=(node(oom_kills=1),)
    )
    assert [one.severity for one in found(changed)] == ["error", "warning", "note"]
