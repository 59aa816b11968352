"""Lives of ranks in a report: at once, begun anew, killed; all accounts are synthetic."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpckit.account.gather import NodeEvidence, claims_of
from hpckit.account.ledger import EnergyReading, Moment, RankLedger, RankStart
from hpckit.account.store import FileSampleStore
from tests.fakes.account_files import Columns, MadeJob, busy, reported, write_accounts


def ends_of(place: Path, rank: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two lines of a rank's ledger."""
    start, end = (place / f"rank-{rank}.ledger").read_text().splitlines()
    return json.loads(start), json.loads(end)


def write_ledger(place: Path, rank: int, *records: dict[str, Any]) -> None:
    """A rank's ledger of these lines."""
    text = "".join(json.dumps(record) + "\n" for record in records)
    (place / f"rank-{rank}.ledger").write_text(text)


def test_steps_at_once_are_in_the_report(tmp_path: Path) -> None:
    """Two steps at once whose ranks have one number leave two lives, in older files as well."""
    place = write_accounts(tmp_path, MadeJob(gpus=1, duration_s=60.0))
    start, end = ends_of(place, 0)
    write_ledger(place, 0, start, {**start, "pid": 9}, end, end)
    report = reported(tmp_path)
    assert [(one.rank, one.ended_by) for one in report.ranks] == [(0, "ledger"), (0, "ledger")]
    assert report.missing == ()


def test_a_life_before_a_line_of_rubbish_is_in_the_report(tmp_path: Path) -> None:
    """A ledger that breaks off in rubbish keeps what stands before it, and is named."""
    place = write_accounts(tmp_path, MadeJob(gpus=1, duration_s=60.0))
    path = place / "rank-0.ledger"
    path.write_text(path.read_text() + "oops\n" * 2)
    report = reported(tmp_path)
    assert [one.ended_by for one in report.ranks] == ["ledger"]
    assert report.missing[0].startswith("rank-0.ledger is only partly readable: ")


def dies_at(at_s: float) -> Callable[[Any, int], Columns]:
    """GPU 0 is left by its process then, and draws 90 W from there on."""

    def shape(times_s: Any, gpu: int) -> Columns:
        columns = dict(busy(times_s, gpu))
        if gpu == 0:
            for name, value in (("util_pct", 0), ("power_mw", 90_000), ("processes", 0)):
                columns[name] = np.where(times_s > at_s, value, columns[name])
        return columns

    return shape


def later(record: dict[str, Any], seconds: int) -> dict[str, Any]:
    """A line of a ledger so much later, without a reading of the counters."""
    at = {clock: ns + seconds * 10**9 for clock, ns in record["at"].items()}
    read = {"monotonic_ns": at["monotonic_ns"], "energy_mj": None, "refused": "Unknown"}
    return {**record, "at": at, "gpus": [{**one, **read} for one in record["gpus"]]}


def test_a_killed_rank_ends_when_its_gpu_is_left(tmp_path: Path) -> None:
    """What a GPU draws after the last process of its killed rank is nobody's."""
    write_accounts(
        tmp_path, MadeJob(gpus=2, duration_s=600.0, shape=dies_at(60), killed=frozenset({0}))
    )
    report = reported(tmp_path)
    dead, alive = report.ranks
    assert (dead.ended_by, dead.ended_s) == ("processes", report.started_s + 61)
    assert dead.energy.value_j == pytest.approx(60 * 550, rel=0.1)
    assert report.gpus[0].idle_remainder_j == pytest.approx(539 * 90, rel=0.01)
    assert (alive.ended_by, alive.behind_frac) == ("ledger", None)
    assert [one.rule for one in report.findings] == ["late-idle"]
    assert "exit code, CPU time and memory" in report.missing[0]


def test_a_killed_rank_whose_gpu_others_use_ends_with_the_samples(tmp_path: Path) -> None:
    """Where a process stays on its GPU nothing tells when the rank was killed."""
    place = write_accounts(tmp_path, MadeJob(gpus=1, duration_s=60.0))
    start, end = ends_of(place, 0)
    write_ledger(place, 0, start)
    write_ledger(place, 1, {**start, "rank": 1}, end)
    assert [one.ended_by for one in reported(tmp_path).ranks] == ["sample", "ledger"]


def test_a_rank_that_was_started_anew_is_charged_once(tmp_path: Path) -> None:
    """A life without an end ends where the next one of its rank begins, at the latest."""
    place = write_accounts(tmp_path, MadeJob(gpus=1, duration_s=100.0))
    start, end = ends_of(place, 0)
    write_ledger(place, 0, start, {**later(start, 40), "pid": 9}, {**end, "pid": 9})
    report = reported(tmp_path)
    first, second = report.ranks
    assert (first.ended_by, first.ended_s) == ("next-life", report.started_s + 40)
    assert first.energy.value_j == pytest.approx(0.4 * 55_400, rel=0.05)
    assert second.energy.value_j == pytest.approx(0.6 * 55_400, rel=0.05)
    assert "even share" not in first.energy.because


def test_a_rank_that_was_started_anew_while_the_job_runs(tmp_path: Path) -> None:
    """Of a running job only the last life runs."""
    place = write_accounts(tmp_path, MadeJob(gpus=1, duration_s=100.0))
    start, _ = ends_of(place, 0)
    write_ledger(place, 0, start, {**later(start, 40), "pid": 9})
    assert [one.ended_by for one in reported(tmp_path, is_running=True).ranks] == [
        "next-life",
        "running",
    ]


def test_steps_at_once_on_other_gpus_are_no_next_life(tmp_path: Path) -> None:
    """Steps that run at once, each with a rank 0 on a GPU of its own, do not end one another."""
    place = write_accounts(tmp_path, MadeJob(gpus=2, duration_s=100.0, killed=frozenset({0})))
    other_start, other_end = ends_of(place, 1)
    path = place / "rank-0.ledger"
    start = json.loads(path.read_text())
    write_ledger(place, 0, start, later({**other_start, "rank": 0}, 40), other_end)
    assert [one.ended_by for one in reported(tmp_path).ranks[:2]] == ["sample", "ledger"]


def test_each_life_is_as_busy_as_its_own_time(tmp_path: Path) -> None:
    """Of two steps one after the other the first idled, and the second worked."""

    def shape(times_s: Any, gpu: int) -> Columns:
        columns = dict(busy(times_s, gpu))
        columns["util_pct"] = np.where(times_s <= 50, 0, columns["util_pct"])
        return columns

    place = write_accounts(tmp_path, MadeJob(gpus=1, duration_s=100.0, shape=shape))
    start, end = ends_of(place, 0)
    write_ledger(place, 0, start, later(end, -50), later(start, 50), end)
    assert [one.busy_frac for one in reported(tmp_path).ranks] == [0.0, 1.0]


def test_a_rank_of_which_there_is_its_start_alone_has_no_energy(tmp_path: Path) -> None:
    """What it drew after the node's last evidence is not known, and not 0."""
    place = write_accounts(tmp_path, MadeJob(gpus=1, duration_s=50.0, samples=False))
    start, end = ends_of(place, 0)
    write_ledger(place, 0, start, end, later(start, 60))
    whole, cut = reported(tmp_path).ranks
    assert whole.energy.value_j is not None
    assert (cut.ended_by, cut.energy.value_j) == ("sample", None)
    assert "recorded only its start" in cut.energy.because


LIVES = 60


def life(number: int) -> RankLedger:
    """The life that begins at that many ns, and has no end."""
    reading = EnergyReading(uuid="GPU-1", monotonic_ns=number, energy_mj=1)
    at = Moment(realtime_ns=number, monotonic_ns=number, boottime_ns=number)
    start = RankStart(
        rank=0, local_rank=0, world_size=1, node="n1", pid=number, boot_id=None, at=at,
        gpus=(reading,), claim="visible",
    )  # fmt: skip
    return RankLedger(start=start)


def test_a_life_ends_where_the_next_begins() -> None:
    """What has no end of its own ends there; the last one runs."""
    evidence = NodeEvidence(
        node="n1", restart=0, begin_ns=0, end_ns=LIVES, realtime_offset_ns=0, boot_id=None,
        lives=tuple(life(number) for number in range(LIVES)),
    )  # fmt: skip
    claims = claims_of(FileSampleStore(), evidence, is_running=True)
    assert [one.ended_ns for one in claims] == [*range(1, LIVES), LIVES]
    assert [one.ended_by for one in claims[-2:]] == ["next-life", "running"]
