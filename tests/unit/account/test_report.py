"""The report of a job from the files that its ranks and samplers left; all of them synthetic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hpckit.account.sample_format import (
    EVENTS,
    HOST,
    META,
    Block,
    BlockHeader,
    encode_block,
    read_blocks,
)
from hpckit.account.values import (
    SPLIT_GPU,
    EnergyLack,
    EnergyReason,
    EnergySource,
    JobReport,
    SlurmEnergy,
)
from hpckit.spec.energy_site import EnergySite
from tests.fakes.account_files import (
    EPOCH_NS,
    Columns,
    MadeJob,
    busy,
    reported,
    unused,
    uuid_of,
    write_accounts,
)

SMALL = MadeJob(gpus=2, duration_s=60.0)
RUN_J = 2 * 550 * 60.0
"""About what the two GPUs of SMALL take."""


def made(folder: Path, **changes: Any) -> JobReport:
    """The report on a small job with some changes."""
    write_accounts(folder, MadeJob(**{"gpus": 2, "duration_s": 60.0, **changes}))
    return reported(folder)


def test_a_jobs_energy_is_that_of_its_counters(tmp_path: Path) -> None:
    """The joules of the counters come out, with their source, coverage and ±."""
    report = made(tmp_path)
    assert (report.job.synthetic, report.findings) == (True, ())
    energy = report.energy.gpu
    assert energy.value_j == pytest.approx(RUN_J, rel=0.1)
    assert (energy.source, energy.coverage_frac) == (EnergySource.COUNTER, 1.0)
    assert energy.plus_minus_j is not None
    assert energy.plus_minus_j == pytest.approx(2**0.5 * 0.117 * RUN_J / 2, rel=0.1)


def test_ranks_and_idle_remainder_add_up(tmp_path: Path) -> None:
    """Σ ranks + idle remainder = Σ GPUs."""
    held = made(tmp_path).energy.conservation
    assert held is not None
    assert held.error_j == pytest.approx(0.0, abs=1e-6)
    assert held.ranks_j == pytest.approx(RUN_J, rel=0.1)


def test_nothing_adds_up_to_nothing(tmp_path: Path) -> None:
    """Where no energy is known there is no sum of it, in place of one of 0 J."""
    made(tmp_path, samples=False, gpu_meta={})
    for path in tmp_path.rglob("*.ledger"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for reading in [one for line in lines for one in line["gpus"]]:
            reading |= {"energy_mj": None, "refused": "NotSupported"}
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    energy = reported(tmp_path).energy
    assert (energy.gpu.value_j, energy.conservation) == (None, None)


def test_ledgers_alone_make_a_report(tmp_path: Path) -> None:
    """Without a sampler the energy is exact all the same, and the rest is not known."""
    report = made(tmp_path, samples=False)
    assert report.energy.gpu.value_j == pytest.approx(RUN_J, rel=0.1)
    assert report.waste.unknown_gpu_s == pytest.approx(120.0)
    assert report.gpus[0].power_mean_w is None
    assert report.missing == ("n000: no samples, only the start and end records of its ranks",)


def test_samples_alone_make_a_report(tmp_path: Path) -> None:
    """A sampler that was started by hand knows no ranks and no job."""
    place = write_accounts(tmp_path / "job", MadeJob(gpus=2, duration_s=60.0, ledgers=False))
    report = reported(place)
    assert report.energy.gpu.value_j == pytest.approx(RUN_J, rel=0.1)
    assert (report.ranks, report.job.gpus) == ((), 2)
    assert report.energy.conservation is not None
    assert report.energy.conservation.idle_remainder_j == pytest.approx(RUN_J, rel=0.1)


def test_a_requeued_job_has_both_incarnations(tmp_path: Path) -> None:
    """What ran before the requeue is lost, and counted apart."""
    write_accounts(tmp_path, MadeJob(gpus=2, duration_s=30.0))
    write_accounts(tmp_path, MadeJob(gpus=2, duration_s=60.0, restart=1, begins_s=100.0))
    report = reported(tmp_path)
    assert [(one.restart, one.is_lost) for one in report.incarnations] == [(0, True), (1, False)]
    assert report.energy.lost_gpu_j == pytest.approx(RUN_J / 2, rel=0.1)
    assert report.energy.useful_gpu_j == pytest.approx(RUN_J, rel=0.1)
    assert report.ended_s - report.started_s == pytest.approx(160.0)
    assert (len(report.gpus), report.job.gpus) == (4, 2)


def test_a_board_is_off_by_the_same_in_every_incarnation(tmp_path: Path) -> None:
    """A requeue onto the same board makes its energy no better known."""
    for restart in range(2):
        write_accounts(
            tmp_path,
            MadeJob(gpus=1, gpu_meta={"energy": None}, restart=restart, begins_s=100.0 * restart),
        )
    report = reported(tmp_path)
    halves = [one.energy.plus_minus_j for one in report.gpus]
    assert report.energy.gpu.plus_minus_j == pytest.approx(sum(half or 0.0 for half in halves))


def test_what_lock_step_hides_is_in_the_interval_of_the_job(tmp_path: Path) -> None:
    """Eight boards whose sensors see the same quarter of each period are off by eight times one."""

    def in_step(at_s: NDArray[np.float64], gpu: int) -> Columns:
        return {**busy(at_s, gpu), "power_mw": np.full(len(at_s), 400_000.0)}

    a100 = {"energy": None, "power": "usage", "name": "NVIDIA A100-SXM4-80GB"}
    report = made(
        tmp_path, gpus=8, shape=in_step, gpu_meta={**a100, "power_limit_w": 400.0}, ledgers=False
    )
    found, truth_j = report.energy.gpu, 8 * 60 * (400 + 100) / 2
    assert found.value_j == pytest.approx(8 * 60 * 400)
    assert abs((found.value_j or 0.0) - truth_j) <= (found.plus_minus_j or 0.0)


def test_coverage_of_a_job_is_of_its_time(tmp_path: Path) -> None:
    """An incarnation without a measurement weighs as long as it took."""
    write_accounts(
        tmp_path,
        MadeJob(gpus=1, duration_s=600.0, gpu_meta={"energy": None, "power": None}, ledgers=False),
    )
    write_accounts(tmp_path, MadeJob(gpus=1, duration_s=60.0, restart=1, begins_s=1000.0))
    assert reported(tmp_path).energy.gpu.coverage_frac == pytest.approx(60 / 660)


def test_a_split_gpu_is_marked_wherever_its_energy_is(tmp_path: Path) -> None:
    """GPU, rank and job have the whole of a GPU that MIG splits, said so, and no ±."""
    report = made(tmp_path, gpu_meta={"mig": True})
    found = [report.gpus[0].energy, report.ranks[0].energy, report.energy.gpu]
    assert {one.scope for one in found} == {SPLIT_GPU}
    assert {one.plus_minus_j for one in found} == {None}
    assert all("all MIG instances" in one.because for one in found)


def test_a_rank_on_a_slice_marks_its_gpu_without_samples(tmp_path: Path) -> None:
    """The ledger alone tells a slice by the name that the rank saw."""
    place = write_accounts(tmp_path, MadeJob(gpus=2, samples=False))
    ledger = place / "rank-1.ledger"
    text = ledger.read_text()
    assert '"visible": "1"' in text
    ledger.write_text(text.replace('"visible": "1"', '"visible": "MIG-6f8a"'))
    report = reported(tmp_path)
    assert [one.energy.scope for one in report.gpus] == ["gpu", SPLIT_GPU]


def test_a_jobs_size_is_that_of_an_incarnation(tmp_path: Path) -> None:
    """A job that was requeued onto another node is no larger for it."""
    place = write_accounts(tmp_path, MadeJob(gpus=2, samples=False))
    write_accounts(tmp_path, MadeJob(gpus=2, restart=1, begins_s=100.0))
    for path in place.iterdir():
        path.write_text(path.read_text().replace("n000", "n001"))
    job = reported(tmp_path, nodes=("n000",)).job
    assert (job.nodes, job.gpus) == (1, 2)


def test_a_node_that_left_nothing_is_named(tmp_path: Path) -> None:
    """The nodes of the allocation without accounts are in `missing`."""
    write_accounts(tmp_path, SMALL)
    report = reported(tmp_path, nodes=("n000", "n001", "n002"))
    assert report.missing == ("no data from n001, n002: no rank or sampler wrote there",)
    assert report.job.nodes == 3


def test_a_node_without_a_sampler_is_told_by_its_ranks(tmp_path: Path) -> None:
    """The other nodes' samples are used, and what the ledgers of this one say."""
    place = write_accounts(tmp_path, MadeJob(nodes=2, gpus=2, duration_s=60.0))
    (place / "node-n001.samples").unlink()
    report = reported(tmp_path)
    assert report.energy.gpu.value_j == pytest.approx(2 * RUN_J, rel=0.1)
    assert [one.samples for one in report.nodes] == [122, 0]
    assert "n001: no samples" in report.missing[0]


def test_a_killed_rank_ends_with_the_last_sample(tmp_path: Path) -> None:
    """A rank without an end has its energy until the node's last evidence, and that is said."""
    report = made(tmp_path, killed=frozenset({1}))
    ended = [(one.ended_by, one.exit_code) for one in report.ranks]
    assert ended == [("ledger", 0), ("sample", None)]
    assert report.ranks[1].energy.value_j == pytest.approx(RUN_J / 2, rel=0.1)
    assert any(one.startswith("rank 1 on n000 recorded no exit") for one in report.missing)


def test_a_rank_without_an_end_runs_while_the_job_does(tmp_path: Path) -> None:
    """During the job it is not called killed."""
    write_accounts(tmp_path, MadeJob(gpus=2, duration_s=60.0, killed=frozenset({0, 1})))
    report = reported(tmp_path, state="RUNNING", is_running=True)
    assert [(one.ended_by, one.ended_s) for one in report.ranks] == [("running", None)] * 2


def test_nodes_meet_on_the_real_time(tmp_path: Path) -> None:
    """The window of the job is that of Slurm's record where it is wider than the evidence."""
    write_accounts(tmp_path, SMALL)
    began_s = EPOCH_NS / 1e9
    report = reported(tmp_path, started_s=began_s - 10, ended_s=began_s + 75)
    assert (report.started_s, report.ended_s) == (began_s - 10, began_s + 75)
    assert report.gpus[0].curves[0].at_s[0] >= 9.0


def test_a_node_is_modelled_from_the_sites_figures(tmp_path: Path) -> None:
    """Idle watts, CPU seconds and the GPUs make a node's energy, and it is called modelled."""
    write_accounts(tmp_path, SMALL)
    site = EnergySite(node_idle_w=500.0, cpu_core_w=3.0, pue=1.2, price_per_kwh=0.3)
    report = reported(tmp_path, site=site)
    gpu_j = report.energy.gpu.value_j or 0.0
    cpu_s = report.nodes[0].cpu_s or 0.0
    assert report.energy.node.value_j == pytest.approx(gpu_j + 500 * 60 + 3 * cpu_s)
    assert report.energy.node.source is EnergySource.MODELLED
    assert report.cost.facility_j == pytest.approx(1.2 * (report.energy.node.value_j or 0.0))
    assert report.cost.price == pytest.approx((report.cost.facility_j or 0.0) / 3.6e6 * 0.3)
    assert report.cost.because == "the site file's [energy] has no co2_g_per_kwh"


@pytest.mark.parametrize(
    ("plugin", "with_gpus"), [("acct_gather_energy/ipmi", False), ("acct_gather_energy/rapl", True)]
)
def test_slurms_accounts_have_the_nodes_energy(
    tmp_path: Path, plugin: str, with_gpus: bool
) -> None:
    """Where nothing else tells it, a node's energy is Slurm's, with the GPUs where these lack."""
    write_accounts(tmp_path, SMALL)
    told = SlurmEnergy(value_j=90_000.0, plugin=plugin)
    energy = reported(tmp_path, slurm=told).energy
    gpu_j = energy.gpu.value_j or 0.0
    assert energy.node.value_j == pytest.approx(90_000.0 + with_gpus * gpu_j)
    assert energy.node.source is (EnergySource.MIXED if with_gpus else EnergySource.SLURM)


FIGURES = EnergySite(node_idle_w=500.0, cpu_core_w=3.0)
NO_PLUGIN = SlurmEnergy(reasons=(EnergyReason(kind=EnergyLack.SLURM_PLUGIN),))


@pytest.mark.parametrize(
    ("changes", "site", "slurm", "words"),
    [
        ({}, None, None, "; set energy.node_idle_w and energy.cpu_core_w in the site file"),
        # On a node that others use figures of the site file would not give it.
        ({"meta": {"exclusive": False}}, None, None, "; hpckit does not model a share of a node"),
        ({}, None, NO_PLUGIN, "; Slurm records no energy here"),
        ({"gpu_meta": {"mig": True}}, FIGURES, None, "GPUs (all MIG instances)"),
        # Slurm is not asked for what is known.
        ({}, FIGURES, NO_PLUGIN, "cpu_core_w × CPU seconds + GPUs"),
    ],
)
def test_what_a_nodes_energy_is_of(
    tmp_path: Path,
    changes: dict[str, Any],
    site: EnergySite | None,
    slurm: SlurmEnergy | None,
    words: str,
) -> None:
    """Why nothing tells it, Slurm's reason last, or what it was modelled from."""
    write_accounts(tmp_path, MadeJob(**{"gpus": 1, "duration_s": 60.0, **changes}))
    node = reported(tmp_path, site=site, slurm=slurm).energy.node
    assert node.because.endswith(words)
    assert node.source is (None if site is None else EnergySource.MODELLED)


def test_a_gpu_that_nobody_used_is_found(tmp_path: Path) -> None:
    """A held GPU without a process is waste of that class, and a finding."""

    def shape(at_s: Any, gpu: int) -> Any:
        from tests.fakes.account_files import busy

        return unused(at_s, gpu) if gpu == 1 else busy(at_s, gpu)

    report = made(tmp_path, duration_s=1200.0, shape=shape)
    assert report.waste.no_process_gpu_s == pytest.approx(1200.0, rel=0.01)
    assert any(uuid_of("n000", 1) in str(one) or "GPU1" in str(one) for one in report.findings)


def test_a_damaged_block_costs_that_block(tmp_path: Path) -> None:
    """The rest is reported on, and the loss is told."""
    place = write_accounts(tmp_path, MadeJob(gpus=2, duration_s=600.0))
    path = place / "node-n000.samples"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    report = reported(tmp_path)
    assert report.energy.gpu.value_j == pytest.approx(10 * RUN_J, rel=0.1)
    assert report.missing == ("n000: lost sample blocks: 1",)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"gpu": 1}, "the driver lost GPU 1 during the job"),
        ({"index": 2}, "GPU 2 (driver's name) was not sampled: GpuIsLost"),
        ({"uuid": "GPU-x"}, "GPU GPU-x (driver's name) was not sampled: GpuIsLost"),
    ],
)
def test_a_lost_gpu_is_named(tmp_path: Path, event: dict[str, Any], said: str) -> None:
    """By its place among the sampled, or as the driver calls one that could not be sampled."""
    place = write_accounts(tmp_path, SMALL)
    path = place / "node-n000.samples"
    data = path.read_bytes()
    last = [one.header for one in read_blocks(data) if isinstance(one, Block)][-1]
    header = last._replace(sequence=last.sequence + 1)
    line = json.dumps({"t_ns": last.monotonic_ns, "event": "gpu-lost", "why": "GpuIsLost", **event})
    path.write_bytes(data + encode_block(header, f"{line}\n".encode()))
    assert any(said in one for one in reported(tmp_path).missing)


def test_a_clock_that_was_set_by_another_boot_is_followed(tmp_path: Path) -> None:
    """A ledger of another boot of the node meets its samples on CLOCK_REALTIME."""
    place = write_accounts(tmp_path, SMALL)
    for path in place.glob("*.ledger"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        lines[0]["boot_id"] = "another"
        for line in lines:
            line["at"]["monotonic_ns"] -= 4 * 10**12
            for reading in line["gpus"]:
                reading["monotonic_ns"] -= 4 * 10**12
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = reported(tmp_path)
    assert report.ended_s - report.started_s == pytest.approx(60.0)
    assert report.energy.gpu.value_j == pytest.approx(RUN_J, rel=0.1)


def test_ranks_that_share_a_gpu_share_its_energy(tmp_path: Path) -> None:
    """Two ranks that had one GPU all the time have half of its energy each."""
    place = write_accounts(tmp_path, MadeJob(gpus=1, duration_s=60.0))
    text = (place / "rank-0.ledger").read_text()
    (place / "rank-1.ledger").write_text(text.replace('"rank": 0', '"rank": 1'))
    report = reported(tmp_path)
    halves = [one.energy.value_j for one in report.ranks]
    assert halves[0] == pytest.approx(halves[1])
    assert np.sum(np.array(halves)) == pytest.approx(report.energy.gpu.value_j)


def without_gpus(folder: Path, asked: int | None) -> JobReport:
    """A job on whose node the driver was not loaded."""
    refused = {"nvidia": "DriverNotLoaded", "rapl": "permission denied"}
    write_accounts(folder, MadeJob(gpus=0, duration_s=10.0, meta={"host_refused": refused}))
    return reported(folder, gpus_asked=asked)


def test_a_driver_that_did_not_load_is_told(tmp_path: Path) -> None:
    """Where GPUs were asked for and none was seen, the report says why, also in `missing`."""
    report = without_gpus(tmp_path, 8)
    assert report.job.gpus_because == "NVML DriverNotLoaded on n000"
    assert report.energy.gpu.because == report.job.gpus_because
    assert "n000: no GPU was measured: NVML DriverNotLoaded" in report.missing


def test_a_job_that_asked_for_no_gpus_lacks_none(tmp_path: Path) -> None:
    """That there is no driver is nothing to say of a job that wanted none."""
    report = without_gpus(tmp_path, 0)
    assert (report.job.gpus_because, report.energy.gpu.because) == (
        "",
        "resources.gpus_per_node requests none",
    )
    assert not [one for one in report.missing if "GPU" in one]


def test_ranks_alone_tell_why_no_gpu_was_seen(tmp_path: Path) -> None:
    """Without a sampler it is what NVML answered to the ranks."""
    place = write_accounts(tmp_path, MadeJob(gpus=1, duration_s=10.0, samples=False))
    ledger = place / "rank-0.ledger"
    start, end = (json.loads(line) for line in ledger.read_text().splitlines())
    start |= {"gpus": [], "claim": "none", "nvml_refused": "DriverNotLoaded"}
    end["gpus"] = []
    ledger.write_text(f"{json.dumps(start)}\n{json.dumps(end)}\n")
    assert reported(tmp_path).job.gpus_because == "NVML DriverNotLoaded on n000"


@pytest.mark.parametrize("at_ns", [1 << 61, 1 << 62, 1 << 63])
@pytest.mark.parametrize("kind", [EVENTS, META, 9, HOST])
def test_a_last_block_without_samples_is_not_the_end(tmp_path: Path, kind: int, at_ns: int) -> None:
    """Only rows say until when a sample file goes, and none of them is of another century."""
    place = write_accounts(tmp_path, SMALL)
    header = BlockHeader(kind, 1 if kind != HOST else 48, 0, 99, at_ns, at_ns, at_ns)
    with (place / "node-n000.samples").open("ab") as file:
        file.write(encode_block(header, b'{"event": "end"}\n'))
    assert reported(tmp_path).gpus[0].held_s == pytest.approx(60.0)


def test_lost_gpus_are_told_once_and_not_all(tmp_path: Path) -> None:
    """A GPU is named by what its event has, and of many the first are."""
    place = write_accounts(tmp_path, SMALL)
    events = [
        {"event": "gpu-lost", "gpu": 1},
        {"event": "gpu-lost", "uuid": "GPU-x", "why": "lost"},
    ]
    events += [{"event": "gpu-lost", "gpu": 1}]
    events += [{"event": "gpu-lost", "gpu": number} for number in range(100, 200)]
    clocks = (EPOCH_NS, 5_000 * 10**9, 5_000 * 10**9)
    with (place / "node-n000.samples").open("ab") as file:
        text = "\n".join(json.dumps(one) for one in events)
        file.write(encode_block(BlockHeader(EVENTS, 1, 0, 30, *clocks), text.encode()))
    missing = [one for one in reported(tmp_path).nodes[0].missing if "lost" in one]
    assert missing[0] == "the driver lost GPU 1 during the job"
    assert missing[1] == "GPU GPU-x (driver's name) was not sampled: lost"
    assert missing[8] == "and 94 more GPUs were lost"
