"""What a job held and nobody measured is counted as not known; all accounts here are synthetic."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpckit.account.report import RUNNING_GRACE_S
from hpckit.account.values import JobReport
from hpckit.spec.energy_site import EnergySite
from tests.fakes.account_files import EPOCH_NS, MadeJob, reported, unused, write_accounts

BEGAN_S = EPOCH_NS / 1e9
LENGTH_S = 60.0
ENDED_S = BEGAN_S + LENGTH_S
FIGURES = EnergySite(node_idle_w=500.0, cpu_core_w=3.0)


def made(folder: Path, job: MadeJob | None = None, **facts: Any) -> JobReport:
    """The report on two GPUs of one node that were measured for LENGTH_S, or on another job."""
    write_accounts(folder, job or MadeJob(gpus=2, duration_s=LENGTH_S))
    return reported(folder, **facts)


def rules(report: JobReport) -> list[tuple[str, str]]:
    """Rule and subject of each finding."""
    return [(one.rule, one.subject) for one in report.findings]


def lost_sampler(folder: Path, **facts: Any) -> JobReport:
    """The report on two nodes of two GPUs; sampler and ranks of the second end after a tenth."""
    place = write_accounts(folder / "job", MadeJob(gpus=2, duration_s=600.0))
    brief = MadeJob(nodes=2, gpus=2, duration_s=60.0, killed=frozenset({2, 3}))
    for path in write_accounts(folder / "brief", brief).iterdir():
        if path.name in ("node-n001.samples", "rank-2.ledger", "rank-3.ledger"):
            shutil.copy(path, place / path.name)
    return reported(folder / "job", **facts)


# --- time ----------------------------------------------------------------------------------------


def test_time_before_the_first_evidence_is_not_known(tmp_path: Path) -> None:
    """An hour of staging is held: unknown GPU-seconds, and a coverage that says so."""
    report = made(tmp_path, started_s=BEGAN_S - 3600, ended_s=ENDED_S)
    assert report.waste.unknown_gpu_s == pytest.approx(2 * 3600, abs=3)
    assert report.waste.total_gpu_s == pytest.approx(2 * 3660)
    assert report.energy.gpu.coverage_frac == pytest.approx(60 / 3660)
    assert rules(report) == [("coverage-low", "GPU0-1 on n000")]
    words = "no data for 1:00:00 of the 1:01:00 it was held"
    assert report.missing == (f"n000: {words}",)
    assert report.nodes[0].missing[-1] == words


@pytest.mark.parametrize("length_s", [2.0, 26.0])
def test_the_start_of_a_script_is_no_gap(tmp_path: Path, length_s: float) -> None:
    """A short job is not badly covered for the seconds before its ranks and after them."""
    job = MadeJob(gpus=2, duration_s=length_s)
    times = {"started_s": BEGAN_S - 4, "ended_s": BEGAN_S + length_s + 4}
    report = made(tmp_path, job, **times)
    assert report.energy.gpu.coverage_frac == 1.0
    assert report.waste.total_gpu_s == pytest.approx(2 * length_s)
    assert report.findings == ()


def test_a_sampler_that_is_lost_leaves_time_that_is_not_known(tmp_path: Path) -> None:
    """A node is held until the last evidence of any: that belongs to no rank and is not known."""
    report = lost_sampler(tmp_path / "over")
    held = [(one.node, round(one.held_s)) for one in report.gpus]
    assert held == [("n000", 600), ("n000", 600), ("n001", 600), ("n001", 600)]
    assert report.waste.unknown_gpu_s == pytest.approx(2 * 540, abs=3)
    assert report.energy.gpu.coverage_frac == pytest.approx(0.55, abs=0.01)
    assert rules(report) == [("coverage-low", "GPU0-1 on n001")]
    assert report.ranks[2].ended_s == pytest.approx(BEGAN_S + 60.0)
    assert [round(one.unseen_s) for one in report.nodes] == [0, 540]
    # While a job runs a node of which nothing has come for minutes is lost, too.
    running = lost_sampler(tmp_path / "running", is_running=True)
    assert running.waste.unknown_gpu_s == pytest.approx(2 * 540, abs=3)


def test_an_energy_of_a_node_is_covered_as_its_time(tmp_path: Path) -> None:
    """What was measured for a tenth of the time; a node weighs by how long it was held."""
    report = lost_sampler(tmp_path, site=FIGURES)
    assert report.energy.node.coverage_frac == pytest.approx(0.55, abs=0.01)
    nodes = report.nodes
    for energies in ([one.gpu_energy for one in nodes], [one.energy for one in nodes]):
        assert [round(one.coverage_frac, 2) for one in energies] == [1.0, 0.1]


def test_the_times_of_slurm_are_those_of_the_last_run(tmp_path: Path) -> None:
    """A run before a requeue has the time of its own evidence."""
    write_accounts(tmp_path, MadeJob(gpus=2, duration_s=30.0))
    write_accounts(tmp_path, MadeJob(gpus=2, duration_s=60.0, restart=1, begins_s=1000.0))
    report = reported(tmp_path, started_s=BEGAN_S + 900, ended_s=BEGAN_S + 1060)
    assert [one.gpu_s for one in report.incarnations] == pytest.approx([60.0, 320.0])
    assert report.incarnations[1].started_s == BEGAN_S + 900


def test_a_run_without_accounts_does_not_lengthen_the_one_before(tmp_path: Path) -> None:
    """Where Slurm's start is after all evidence it is that of another run."""
    report = made(tmp_path, started_s=ENDED_S + 100, ended_s=ENDED_S + 700)
    assert report.waste.total_gpu_s == pytest.approx(2 * LENGTH_S)
    assert report.missing == (
        "no data on the job's run that began 1:40 after this: no rank or sampler wrote",
    )


def test_what_is_not_yet_written_is_not_lost(tmp_path: Path) -> None:
    """While a job runs, its nodes' files are not equally old."""
    late = {"nodes": ("n000", "n001"), "gpus_per_node": 2, "is_running": True}
    brief = RUNNING_GRACE_S - 5
    report = made(tmp_path, MadeJob(gpus=2, duration_s=brief), started_s=BEGAN_S, **late)
    assert (report.waste.unknown_gpu_s, len(report.nodes), report.missing) == (0.0, 1, ())


def test_findings_of_two_runs_are_told_apart(tmp_path: Path) -> None:
    """What holds of a GPU in both runs of a requeued job says in which."""
    for restart in (0, 1):
        job = MadeJob(gpus=1, duration_s=60.0, shape=unused, begins_s=1000.0 * restart)
        write_accounts(tmp_path, replace(job, restart=restart))
    never = [name for rule, name in rules(reported(tmp_path)) if rule == "gpu-never-used"]
    assert never == ["GPU0 on n000", "GPU0 on n000 (restart 1)"]


def test_a_node_that_left_nothing_after_a_requeue_is_said(tmp_path: Path) -> None:
    """What it wrote before the requeue does not stand for the run after it."""
    write_accounts(tmp_path, MadeJob(nodes=2, gpus=2, duration_s=30.0))
    write_accounts(tmp_path, MadeJob(gpus=2, duration_s=60.0, restart=1, begins_s=1000.0))
    report = reported(tmp_path, nodes=("n000", "n001"), gpus_per_node=2)
    assert report.nodes[-1].unseen_gpus == 2
    assert report.missing == ("no data from n001: no rank or sampler wrote there",)


def test_ranks_of_a_run_before_a_requeue_do_not_run(tmp_path: Path) -> None:
    """Where the run that Slurm tells of has left nothing yet, the one before it is over."""
    job = MadeJob(gpus=2, duration_s=60.0, killed=frozenset({0, 1}))
    report = made(tmp_path, job, started_s=ENDED_S + 100, is_running=True)
    assert {one.ended_by for one in report.ranks} == {"sample"}


# --- GPUs ----------------------------------------------------------------------------------------

FOUR_NODES = {"nodes": ("n000", "n001", "n002", "n003"), "gpus_per_node": 8, "ended_s": ENDED_S}


def test_nodes_that_left_nothing_are_held_all_the_same(tmp_path: Path) -> None:
    """Their GPU-seconds are unknown, the energy is covered for the others, a finding names them."""
    report = made(tmp_path, MadeJob(gpus=8, duration_s=LENGTH_S), started_s=BEGAN_S, **FOUR_NODES)
    assert report.waste.unknown_gpu_s == pytest.approx(24 * LENGTH_S, rel=0.01)
    assert report.waste.total_gpu_s == pytest.approx(32 * LENGTH_S)
    assert report.energy.gpu.coverage_frac == pytest.approx(0.25)
    assert report.energy.gpu.because.endswith("24 of 32 not measured")
    assert (report.job.gpus, report.job.nodes) == (32, 4)
    (run,) = report.incarnations
    assert run.gpu_s == pytest.approx(32 * LENGTH_S)
    assert run.gpu_energy.coverage_frac == pytest.approx(0.25)
    assert rules(report) == [("samples-missing", "n[001-003]")]
    lost = [(one.node, one.started_s, one.unseen_gpus) for one in report.nodes[1:]]
    assert lost == [("n001", None, 8), ("n002", None, 8), ("n003", None, 8)]


def test_the_energy_of_nodes_is_not_known_where_one_left_nothing(tmp_path: Path) -> None:
    """The site's figures make no energy of the nodes that are there the job's."""
    job = MadeJob(gpus=8, duration_s=LENGTH_S)
    node = made(tmp_path, job, site=FIGURES, nodes=("n000", "n001"), gpus_per_node=8).energy.node
    because = "n001: no rank or sampler wrote there"
    assert (node.value_j, node.because) == (None, because)


def test_nodes_that_call_themselves_otherwise_are_not_lost(tmp_path: Path) -> None:
    """Where accounts have as many nodes as Slurm does, none is lost, whatever their names."""
    report = made(tmp_path, nodes=("slurm-a",), gpus_per_node=2)
    assert (len(report.nodes), report.waste.unknown_gpu_s) == (1, 0.0)
    assert report.missing == ()


def test_gpus_that_no_account_names_are_not_known(tmp_path: Path) -> None:
    """Of a node with two of the eight GPUs that were asked for six are unknown, and found."""
    report = made(tmp_path, nodes=("n000",), gpus_per_node=8)
    assert report.waste.unknown_gpu_s == pytest.approx(6 * LENGTH_S, rel=0.02)
    assert report.job.gpus == 8
    assert rules(report) == [("coverage-low", "n000")]
    words = "no data on 6 of the 8 GPUs requested there"
    assert report.missing == (f"n000: {words}",)


def test_parts_of_one_gpu_are_no_gpus_that_are_lost(tmp_path: Path) -> None:
    """MIG devices are asked for one by one, and the accounts name the GPU that they are of."""
    job = MadeJob(gpus=1, duration_s=LENGTH_S, gpu_meta={"mig": True})
    report = made(tmp_path, job, nodes=("n000",), gpus_per_node=7)
    assert (report.job.gpus, report.nodes[0].unseen_gpus) == (1, 0)


def test_a_job_without_a_number_of_gpus_loses_none(tmp_path: Path) -> None:
    """What the job file does not say is not made up."""
    report = made(tmp_path, nodes=("n000", "n001"))
    assert [one.unseen_gpus for one in report.nodes] == [0, 0]
    assert report.waste.total_gpu_s == pytest.approx(2 * LENGTH_S)
