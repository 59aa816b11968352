"""The screen of a job's report: what it says, in what order, and that it stays one screen."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from hpckit.account.finding import ReportFinding
from hpckit.account.page.screen import SCREEN_LINES, report_lines
from hpckit.account.values import (
    MODEL_KEYS,
    SPLIT_GPU,
    Advice,
    Conservation,
    Cost,
    Energy,
    EnergyLack,
    EnergyReason,
    Incarnation,
    JobReport,
    Share,
    Throttling,
)
from hpckit.core.findings import Severity
from hpckit.core.quantities import energy, energy_sum, gpu_time, percent
from tests.fakes.reports import clean, gpu_account, rank_account, training, unknown

TRAINING_SCREEN = """\
 train 4242 · COMPLETED in 41:07 · 16 GPUs on 2 nodes
  · requeued once (at most 6:12 and 1.12 kWh lost)
  · synthetic: measured by a fake driver
 80 % of GPU time useful · 2.19 of 11.0 GPU-hours wasted · 1 finding
 energy   9.1 ± 0.4 kWh GPU (counter, 100 % covered)
          = ranks 8.96 kWh + 0.16 kWh outside ranks · 13.0 kWh node (modelled)
          · 15.6 kWh at PUE 1.2 · 4.10 kg CO2e · 4.68 EUR
 useful   █████████████████████████▋        80 %
 spinning ████▊                             15 %
 idle     █▋                                 5 %
 ranks    all 16 exited with 0 · rank 11 is 9 % behind (n013)
 memory   GPU 57 of 75 GiB (GPU7 on n013) · node at least 186 of 477 GiB (n012)
 clocks   GPU3 on n013 throttled by heat 22 % of the time
          · at the power limit 12 % of the time (normal)
 warn     rank 11: it is 9 % behind the others: GPU3 on n013 was slowed by heat
          22 % of the time (0.925 GPU-hours) → tell your operator; exclude n013
          until then
 advice   resources.time_limit 1:00:00 → 0:50:00: it took 41:07; a shorter limit
          starts sooner
 next     hpckit report 4242"""


def screen(report: JobReport, width: int = 80) -> str:
    """The lines as one text."""
    return "\n".join(report_lines(report, width=width, next_commands=["hpckit report 4242"]))


def said(report: JobReport) -> str:
    """The screen with its line breaks undone."""
    return " ".join(screen(report).split())


def crowded() -> JobReport:
    """A report with more of everything than a screen has room for."""
    finding = training().findings[0]
    return replace(
        training(),
        gpus=tuple(gpu_account(number, useful=0.8 - number % 9 / 12) for number in range(1024)),
        ranks=tuple(rank_account(rank, behind=rank % 7 / 10) for rank in range(1024)),
        findings=tuple(
            dataclasses.replace(finding, subject=f"rank {number}") for number in range(50)
        ),
        advice=tuple(
            Advice(key="resources.mem", now="0", proposed="1G", because="a reason " * 20)
            for _ in range(9)
        ),
        missing=tuple(f"n{number:03d}: " + "a sentence " * 20 for number in range(99)),
    )


def test_an_ordinary_report_is_read_at_a_glance() -> None:
    """The answer comes first, the reasons beside it and the next command last."""
    assert screen(training()) == TRAINING_SCREEN


@pytest.mark.parametrize("width", [40, 80, 100])
def test_the_screen_never_scrolls(width: int) -> None:
    """However much there is to say, it has 24 lines of the terminal's width."""
    lines = report_lines(crowded(), width=width, next_commands=["hpckit report 4242 --html x"])
    assert len(lines) <= SCREEN_LINES
    assert max(len(line) for line in lines) <= width
    assert "hpckit report 4242" in lines[-1] + lines[-2]


def blind(share: Share) -> JobReport:
    """A GPU of which samples cannot tell spinning from work."""
    gpu = replace(gpu_account(0), waste=share, refused={"spin": "without GPM"})
    return replace(clean(), gpus=(gpu,), waste=share)


def with_energy(**changes: Any) -> JobReport:
    """A clean job whose energies are others."""
    return replace(clean(), energy=replace(clean().energy, **changes))


def with_job(**changes: Any) -> JobReport:
    """A clean job of which something else is known."""
    return replace(clean(), job=replace(clean().job, **changes))


NO_GPUS = {"gpus": (), "waste": Share()}
GPU0, RANKS = gpu_account(0), clean().ranks
BRAKED = replace(GPU0, held_s=100.0, throttling=Throttling(thermal_s=0.0, power_brake_s=5.0))
COOL = tuple(replace(one, throttling=Throttling(thermal_s=0.0)) for one in clean().gpus[:8])
KILLED = replace(rank_account(3), ended_by="sample", exit_code=None)
ONCE = (
    *clean().gpus[:3],
    replace(
        gpu_account(3),
        waste=Share(idle_gpu_s=2467.0),
        refused={"spin": "why"},
        throttling=Throttling(thermal_s=300.0),
    ),
    *clean().gpus[4:],
)


@pytest.mark.parametrize(
    ("report", "words", "absent"),
    [
        # Of many GPUs only those that differ are named.
        (
            replace(
                training(),
                gpus=tuple(gpu_account(at, useful=0.2 if at == 5 else 0.8) for at in range(1024)),
            ),
            ["GPU5 on n012: spinning 60 %, useful 20 % · … 1,023 similar"],
            [],
        ),
        (clean(), ["synthetic"], ["found", "advice"]),
        (with_job(synthetic=False), [], ["synthetic"]),
        # Where no GPU's figures are shown nothing on the screen is the made-up driver's.
        (replace(with_job(gpus=0, gpus_asked=0), **NO_GPUS), [], ["synthetic"]),
        (with_job(state="RUNNING"), ["RUNNING for 41:07"], []),
        # An unknown energy is never 0, and says why.
        (
            with_energy(gpu=unknown("the driver has no counter, and no sampler ran")),
            ["GPU unknown: the driver has no counter, and no sampler ran"],
            [" 0 J GPU"],
        ),
        (
            replace(with_energy(gpu=unknown("no rank or sampler reported one")), gpus=()),
            ["GPU unknown: no rank or sampler reported one"],
            [],
        ),
        (
            with_energy(node=unknown("nothing to sum", "node")),
            ["node unknown: nothing to sum"],
            [],
        ),
        (
            with_energy(gpu=replace(clean().energy.gpu, scope=SPLIT_GPU)),
            ["whole GPUs (all MIG instances)"],
            [],
        ),
        (
            with_energy(conservation=Conservation(ranks_j=1.0, idle_remainder_j=1.0, gpus_j=9e6)),
            ["sum differs by"],
            [],
        ),
        (
            replace(
                clean(),
                ranks=(*RANKS[:3], KILLED, replace(rank_account(4), exit_code=137), *RANKS[5:]),
            ),
            [
                "ranks rank 4 failed, by signal 9 · ranks 0-2,5-15 exited with 0",
                "rank 3 recorded no exit (counted up to its node's last record)",
            ],
            [],
        ),
        # Of a job that was requeued often the last runs are told, and how many came before them.
        (
            replace(clean(), ranks=tuple(replace(RANKS[0], restart=at) for at in range(9))),
            [
                "restart 8: 1 rank exited with 0",
                "restart 6: 1 rank exited with 0 · 6 restarts before them",
            ],
            [],
        ),
        # A list of numbers that would fill the row is their count.
        (
            replace(
                clean(),
                ranks=tuple(
                    replace(one, ended_by="sample" if one.rank % 2 else "ledger") for one in RANKS
                ),
            ),
            ["8 ranks exited with 0 · 8 ranks recorded no exit"],
            [],
        ),
        (
            replace(clean(), waste=Share(useful_gpu_s=300.0, unknown_gpu_s=100.0)),
            ["25 %"],
            [],
        ),
        (
            replace(clean(), waste=Share(unknown_gpu_s=100.0)),
            ["activity unknown: no samples of 100 GPU-seconds"],
            [],
        ),
        (blind(Share(useful_gpu_s=100.0)), ["spinning not detectable on 1 GPU"], []),
        (blind(Share(unknown_gpu_s=100.0)), ["cannot tell spinning from work"], []),
        (
            replace(clean(), gpus=(BRAKED,)),
            ["clocks GPU0 on n012 throttled by the power brake 5 % of the time"],
            [],
        ),
        # GPUs of a node that left nothing are not said to be cool.
        (
            replace(clean(), gpus=COOL),
            ["no thermal throttling (known for 8 of 16 GPUs)"],
            [],
        ),
        (
            replace(
                with_job(gpus=0, gpus_asked=8, gpus_because="NVML DriverNotLoaded on vm"), **NO_GPUS
            ),
            ["GPUs not measured: NVML DriverNotLoaded on vm (8 requested)"],
            ["0 GPUs", "no GPU was held"],
        ),
        # What samples missed and the kernel counted of a process its node had at least.
        (
            replace(
                clean(),
                nodes=(
                    replace(clean().nodes[0], mem_peak_bytes=53 << 20, mem_limit_bytes=2 << 30),
                ),
                ranks=(replace(RANKS[1], max_rss_bytes=309_000_000),),
            ),
            ["node at least 295 MiB of 2.00 GiB (a process of rank 1, n012)"],
            ["53.0 MiB"],
        ),
        (
            replace(clean(), gpus=(replace(GPU0, mem_peak_bytes=445 << 20, mem_bytes=64 << 30),)),
            ["GPU 445 MiB of 64 GiB (GPU0 on n012)"],
            [],
        ),
        # A GPU that the job had in two runs is one, and told once.
        (
            replace(clean(), gpus=(*ONCE, *(replace(one, restart=1) for one in ONCE))),
            ["spinning not detectable on 1 GPU · GPU3 on n012: idle 100 % · … 15 similar"],
            ["throttled by heat 12 % of the time · GPU3"],
        ),
        # Of a rank of which there is recorded only its start no GPU time is said.
        (
            replace(clean(), gpus=(GPU0,), waste=Share(unknown_gpu_s=1e-9)),
            ["GPUs held for too short a time to measure"],
            [],
        ),
    ],
)
def test_what_the_screen_says(report: JobReport, words: list[str], absent: list[str]) -> None:
    """Each row has what differs, in as few words as tell it, and nothing that was not measured."""
    text = said(report)
    assert [one for one in words if one not in text] == []
    assert [one for one in absent if one in text] == []


def test_a_running_job_is_as_old_as_it_is_now() -> None:
    """Its age is not that of the last sample, which is said beside it."""
    report = clean()
    running = replace(report, job=replace(report.job, state="RUNNING"))
    late = " ".join(report_lines(running, now_s=report.ended_s + 40))
    assert "RUNNING for 41:47 · measured until 41:07 ·" in " ".join(late.split())
    now = " ".join(report_lines(running, now_s=report.ended_s + 0.5))
    assert "measured until" not in now
    assert "41:07 " in " ".join(report_lines(report, now_s=report.ended_s + 40))


NO_FACTORS = Cost(absent=("pue", "price_per_kwh", "co2_g_per_kwh"))
NO_FIGURES = EnergyReason(kind=EnergyLack.SITE_KEYS, keys=MODEL_KEYS)


def of_kind(kind: EnergyLack) -> EnergyReason:
    """A reason that is no more than its kind."""
    return EnergyReason(kind=kind)


def of_node(reasons: Sequence[EnergyReason], cost: Cost) -> JobReport:
    """A report whose nodes' energy is not known."""
    report = clean()
    node = Energy.unknown_of_node(*reasons)
    return replace(report, energy=replace(report.energy, node=node), cost=cost)


@pytest.mark.parametrize("more", [(), (of_kind(EnergyLack.SLURM_PLUGIN),)])
@pytest.mark.parametrize("lack", [EnergyLack.METER, EnergyLack.SAMPLES])
def test_a_site_without_figures_is_told_what_to_do_in_a_line(
    lack: EnergyLack, more: tuple[EnergyReason, ...]
) -> None:
    """Where the site file has no [energy] one line of 80 columns says so of node and cost."""
    report = of_node((of_kind(lack), NO_FIGURES, *more), NO_FACTORS)
    (line,) = (one for one in screen(report).splitlines() if "[energy]" in one)
    assert line.lstrip().startswith("· node, cost unknown: ")
    assert line.endswith("; set [energy] in the site file")


SHARED = (of_kind(EnergyLack.OWN_METER), of_kind(EnergyLack.OWN_SHARE))
ONE_KEY = EnergyReason(kind=EnergyLack.SITE_KEYS, keys=("cpu_core_w",))


@pytest.mark.parametrize(
    ("reasons", "cost", "words"),
    [
        (SHARED, clean().cost, "node unknown: other jobs may share it · 15.6 kWh"),
        # Where the site file has some of its figures the one to add is said.
        (
            (of_kind(EnergyLack.METER), ONE_KEY, of_kind(EnergyLack.SLURM_PLUGIN)),
            clean().cost,
            "node unknown: no meter; set energy.cpu_core_w in the site file · 15.6 kWh",
        ),
        # What the cost lacks is not said of a node's energy that [energy] would not give.
        (
            SHARED,
            NO_FACTORS,
            "node unknown: other jobs may share it · cost unknown: set [energy] in",
        ),
    ],
)
def test_why_a_nodes_energy_is_not_known(
    reasons: Sequence[EnergyReason], cost: Cost, words: str
) -> None:
    """In as few words as tell it, with what would change it."""
    assert words in said(of_node(reasons, cost))


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_a_cost_of_the_gpus_alone_is_called_so_first(width: int) -> None:
    """What it is the cost of stands before it, and is never cut from it."""
    cost = replace(clean().cost, is_of_gpus=True, absent=("x",))
    report = of_node((of_kind(EnergyLack.OWN_METER),), cost)
    text = " ".join(screen(report, width).split())
    assert "· GPUs only: 15.6 kWh at PUE 1.2 · 4.10 kg CO2e" in text


def test_the_rank_that_failed_first_comes_first() -> None:
    """The others are mostly ended because of it; ranks are numbered, never counted without it."""
    first, second = clean().ranks[:2]
    ranks = (replace(first, exit_code=143), replace(second, exit_code=1, ended_s=first.started_s))
    text = said(replace(clean(), ranks=ranks))
    assert "ranks rank 1 failed first, with 1 · rank 0 killed by signal 15" in text
    alike = tuple(replace(one, exit_code=1, ended_s=first.ended_s) for one in clean().ranks)
    alike = (*alike[:7], replace(alike[7], ended_s=first.started_s), *alike[8:])
    assert "all 16 exited with 1 · rank 7 first" in said(replace(clean(), ranks=alike))


def test_each_restart_of_a_requeued_job_has_its_own_ends() -> None:
    """How ranks ended before a requeue is not said beside how they ended after it without it."""
    first = [replace(one, exit_code=143) for one in clean().ranks[:4]]
    again = [replace(one, restart=1, cpu_s=1.0) for one in clean().ranks[:4]]
    report = replace(clean(), ranks=(*first, *again))
    assert (
        "ranks restart 1: all 4 exited with 0 · restart 0: all 4 killed by signal 15 memory"
    ) in said(report)
    slow = [replace(one, behind_frac=0.2) for one in first[:1]]
    text = said(replace(report, ranks=(*slow, *first[1:], *again)))
    assert "rank 0 is 20 % behind (n012, restart 0)" in text


@pytest.mark.parametrize(
    ("count", "behind", "differ"),
    [(4, "1 more is behind", "1 more differs"), (5, "2 more are behind", "2 more differ")],
)
def test_what_is_odd_beyond_three_is_counted(count: int, behind: str, differ: str) -> None:
    """Ranks and GPUs, in the singular where it is one."""
    ranks = [replace(one, behind_frac=0.2 * (one.rank < count)) for one in clean().ranks]
    gpus = [replace(one, waste=Share(idle_gpu_s=100.0)) for one in clean().gpus[:count]]
    text = said(replace(clean(), ranks=tuple(ranks), gpus=(*gpus, *clean().gpus[count:])))
    assert f"· {behind}" in text
    assert f"· {differ}" in text


def slowed(*heat_s: float | None, unknown_s: float = 0.0) -> str:
    """The screen of GPUs that were slowed by heat for so long; None where it is not known."""
    share = Share(useful_gpu_s=100.0 - unknown_s, unknown_gpu_s=unknown_s)
    gpus = [
        replace(
            gpu_account(at), held_s=100.0, waste=share, throttling=Throttling(thermal_s=thermal_s)
        )
        for at, thermal_s in enumerate(heat_s)
    ]
    return said(replace(clean(), job=replace(clean().job, gpus=len(gpus)), gpus=tuple(gpus)))


def test_heat_is_denied_of_what_is_known() -> None:
    """GPUs of which nobody knows are not said to be cool."""
    assert "clocks no thermal throttling next" in slowed(0.0, 0.0)
    assert "no thermal throttling (known for 1 of 3 GPUs)" in slowed(0.0, None, None)


def test_heat_is_denied_for_the_time_that_was_sampled() -> None:
    """A second of samples says nothing of an hour."""
    assert "no thermal throttling in the sampled 1 % of the time" in slowed(0.0, unknown_s=99.0)


def test_errors_come_before_notes() -> None:
    """Findings are in the order of their severity."""
    note = ReportFinding(
        rule="a", severity=Severity.NOTE, subject="GPU1", because="a note", remedy=""
    )
    error = ReportFinding(
        rule="b", severity=Severity.ERROR, subject="GPU2", because="an error", remedy=""
    )
    text = said(replace(clean(), findings=(note, error)))
    assert text.index("an error") < text.index("a note")


@pytest.mark.parametrize(
    ("value_j", "plus_minus_j", "text"),
    [
        (32.76e6, 1.44e6, "9.1 ± 0.4 kWh"),
        (32.76e6, None, "9.10 kWh"),
        (850.0, 12.0, "850 ± 12 J"),
        (25_000.0, 40.0, "6.94 ± 0.01 Wh"),
        (0.0, 0.0, "0 J"),
        (3.6e12, 3.6e10, "1000 ± 10 MWh"),
        (1e6, 9e6, "278 ± 2500 Wh"),
    ],
)
def test_an_energy_has_the_digits_that_are_known(
    value_j: float, plus_minus_j: float | None, text: str
) -> None:
    """The last digit of a value is that of the first of its ±."""
    assert energy(value_j, plus_minus_j) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0 %"), (0.004, "0.4 %"), (0.18, "18 %"), (0.9999, "99.9 %"), (1.0, "100 %")],
)
def test_all_is_not_nearly_all(share: float, text: str) -> None:
    """100 % is said of all alone, and 0 % of nothing."""
    assert percent(share) == text


def test_a_job_without_gpus_is_told_by_its_ranks() -> None:
    """No row is about GPUs that nobody asked for; CPU time and memory of the ranks are there."""
    job = replace(clean().job, gpus=0, gpus_asked=0, nodes=1)
    ranks = tuple(
        replace(one, gpus=(), cpu_s=cpu_s, max_rss_bytes=10_800_000)
        for one, cpu_s in zip(clean().ranks[:2], (0.001, 0.05), strict=True)
    )
    nodes = (replace(clean().nodes[0], mem_peak_bytes=None, cpus=4),)
    report = replace(clean(), job=job, gpus=(), waste=Share(), ranks=ranks, nodes=nodes)
    text = said(report)
    assert "no GPUs on 1 node energy" in text
    assert text.count("GPU") == 1
    assert "CPUs 51.0 ms CPU time in 2 ranks · 50.0 ms at most (rank 1)" in text
    assert "memory node at least 10.3 MiB of 477 GiB (a process of rank 0, n012)" in text
    report = replace(report, nodes=())
    assert "memory largest process 10.3 MiB (rank 0)" in said(report)


def test_a_requeue_doubles_no_cpus() -> None:
    """Busy CPUs are of those that the job had at once, in the time in which it ran."""
    runs = [
        Incarnation(restart=number, started_s=begin_s, ended_s=begin_s + 100.0,
                    gpu_energy=unknown("none"), gpu_s=0.0, is_lost=number == 0, because="")
        for number, begin_s in enumerate((0.0, 1000.0))
    ]  # fmt: skip
    nodes = [replace(clean().nodes[0], restart=number, cpus=4) for number in (0, 1)]
    ranks = [replace(clean().ranks[0], restart=number, gpus=(), cpu_s=200.0) for number in (0, 1)]
    report = replace(
        clean(), gpus=(), waste=Share(), incarnations=tuple(runs), nodes=tuple(nodes),
        ranks=tuple(ranks), started_s=0.0, ended_s=1100.0,
    )  # fmt: skip
    text = said(report)
    assert "6:40 CPU time in 2 starts of 1 rank" in text
    assert "2.00 of 4 CPUs used on average" in text


def test_a_rank_that_was_started_anew_is_one() -> None:
    """Starts are counted as such, and a rank is behind once, by the most."""
    ranks = clean().ranks
    again = [replace(one, behind_frac=0.2 if one.rank == 3 else 0.0) for one in ranks]
    first = [replace(one, behind_frac=0.1 if one.rank == 3 else 0.0) for one in ranks]
    text = said(replace(clean(), ranks=(*first, *again)))
    assert "all 32 starts of 16 ranks exited with 0 · rank 3 is 20 % behind (n012)" in text
    assert text.count("behind") == 1
    cut = replace(ranks[0], ended_by="sample", exit_code=None)
    text = said(replace(clean(), ranks=(cut, cut, *ranks[1:])))
    assert "ranks 1-15 exited with 0 · rank 0 recorded no exit" in text


def test_the_parts_of_a_sum_have_one_unit() -> None:
    """What adds up is in the unit of the total, with a decimal more."""
    assert energy_sum((138_240.0, 2_600.0), 140_840.0, 180.0) == ["38.400 Wh", "0.722 Wh"]
    report = clean()
    assert report.energy.conservation is not None
    held = replace(report.energy.conservation, idle_remainder_j=2600.0, gpus_j=32_258_600.0)
    text = said(replace(report, energy=replace(report.energy, conservation=held)))
    assert "= ranks 8.96 kWh + 0.00 kWh outside ranks" in text


def test_costs_have_the_units_of_the_job() -> None:
    """A small part of much is in the unit that the whole is in."""
    assert energy(965.0, like_j=436_000.0) == "0.268 Wh"
    assert energy(965.0, like_j=2000.0) == "965 J"
    assert gpu_time(111.0, like_s=885.0) == "0.0308 GPU-hours"
    assert gpu_time(111.0) == "111 GPU-seconds"


def test_a_long_command_is_whole() -> None:
    """What to type next is not cut where its folder takes a line of its own."""
    command = f"hpckit report --from /home/{'a' * 60} --html report.html"
    lines = report_lines(clean(), width=80, next_commands=(command,))
    assert lines[-1].endswith("--html report.html")
    assert "…" not in lines[-1]
