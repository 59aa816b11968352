"""A rank at its place, and what proves it; run from the packed archive unless said."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hpckit.binding import proof
from hpckit.binding.proof import (
    AS_PLANNED,
    DIFFERS,
    NOT_ENFORCEABLE,
    environment_verdict,
    nodes_verdict,
    prove,
    ranks_verdict,
    world_verdict,
)
from hpckit.spec.folder_in_job import start_of
from tests.unit.injob.conftest import Run, Start

RANKS = 64


def line(rank: int, node: str, **more: Any) -> dict[str, Any]:
    """What a rank leaves."""
    return {
        "rank": rank,
        "local_rank": rank % 8,
        "node": node,
        "cpus": f"{rank}",
        "planned_cpus": f"{rank}",
        "shared": None,
        "failed": None,
        "local_world_size": None,
        "planned_gpus": [],
        "visible": None,
        "planned_nics": [],
        "env": {"MASTER_ADDR": "n0"},
        "world_size": RANKS,
        "mpi": [None, None],
        **more,
    }


def left(folder: Path, records: list[dict[str, Any]], tail: str = "") -> None:
    """Write the lines of all ranks, those of a node in its file."""
    folder.mkdir(parents=True, exist_ok=True)
    for record in records:
        with (folder / f"proof.step-0.attempt-0.{record['node']}.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")
    if tail:
        with (folder / "proof.step-0.attempt-0.torn.jsonl").open("a") as file:
            file.write(tail)


def env_of(folder: Path, **more: str) -> dict[str, str]:
    """The environment of rank 0, in an ordered job where there is an order."""
    ordered = "1" if (folder / "hosts").exists() else ""
    return {"HPCKIT_PLACE": str(folder), "HPCKIT_BIND": "1", "HPCKIT_ORDERED": ordered,
            **more}  # fmt: skip


def verdicts(folder: Path) -> dict[str, tuple[str, str]]:
    """What proof.json says, by what it is about."""
    document = json.loads((folder / "proof.json").read_text())
    assert document["schema"] == "hpckit.proof/1"
    return {one["what"]: (one["verdict"], one["because"]) for one in document["verdicts"]}


def order(folder: Path, *nodes: str, tasks: int = 1) -> None:
    """The order that was computed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hosts").write_text("".join(f"{node}\n" * tasks for node in nodes))


def test_sixty_four_ranks_are_compared(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Eight nodes with eight ranks: one line, and a document with every rank."""
    nodes = [f"n{i}" for i in range(8)]
    order(tmp_path, *reversed(nodes), tasks=8)
    left(
        tmp_path,
        [line(rank, nodes[7 - rank // 8], planned_nics=["mlx5_0"]) for rank in range(RANKS)],
    )
    prove(env_of(tmp_path), RANKS, None)
    found = verdicts(tmp_path)
    assert {what: verdict for what, (verdict, _) in found.items()} == {
        "nodes": AS_PLANNED,
        "cpus": AS_PLANNED,
        "nics": NOT_ENFORCEABLE,
        "env": AS_PLANNED,
    }
    what = "64 ranks on 8 nodes in the computed order, 64 on their CPUs; env the same"
    assert capfd.readouterr().err == f"hpckit: placement  as planned: {what}\n"
    assert len(json.loads((tmp_path / "proof.json").read_text())["ranks"]) == RANKS


def test_what_differs_is_named(tmp_path: Path) -> None:
    """The rank, where it is and where it was planned; four at most, and how many more."""
    order(tmp_path, "n1", "n0", tasks=4)
    left(tmp_path, [line(rank, f"n{rank // 4}", cpus="0-3") for rank in range(7)])
    left(tmp_path, [line(7, "n1", env={"MASTER_ADDR": "n9"})])
    prove(env_of(tmp_path), 8, None)
    found = verdicts(tmp_path)
    assert found["nodes"][0] == found["cpus"][0] == found["env"][0] == DIFFERS
    assert found["nodes"][1].startswith("rank 0 is on n0, planned n1; ")
    assert found["nodes"][1].endswith("; 4 more")
    assert "rank 0 has CPUs 0-3, planned 0" in found["cpus"][1]
    assert found["env"][1] == "rank 7 has MASTER_ADDR=n9, rank 0 has n0"


def test_variables_that_an_image_changed_differ(tmp_path: Path) -> None:
    """Each is named with both values; where all are as outside, that is said."""
    lost = ["NCCL_DEBUG=TRACE in the container, WARN outside"]
    left(tmp_path, [line(0, "n0", lost=[]), line(1, "n0", lost=lost)])
    prove(env_of(tmp_path), 2, None)
    assert verdicts(tmp_path)["container"] == (DIFFERS, f"rank 1 has {lost[0]}")
    left(tmp_path / "good", [line(rank, "n0", lost=[]) for rank in range(2)])
    prove(env_of(tmp_path / "good"), 2, None)
    assert verdicts(tmp_path / "good")["container"][0] == AS_PLANNED


def test_an_order_that_srun_did_not_take_is_not_enforceable(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The ranks are in Slurm's own; with hpckit's map above it they have to be as planned.

    Where nothing was planned nothing is said: the same variables everywhere are no news.
    """
    left(tmp_path, [line(0, "n0"), line(1, "n1")])
    prove(env_of(tmp_path, HPCKIT_BIND=""), 2, None)
    assert capfd.readouterr().err == ""
    assert verdicts(tmp_path)["env"][0] == AS_PLANNED
    order(tmp_path, "n1", "n0")
    prove(env_of(tmp_path, HPCKIT_ORDERED=""), 2, None)
    assert verdicts(tmp_path)["nodes"][0] == NOT_ENFORCEABLE
    prove(env_of(tmp_path, HPCKIT_ORDERED="", HPCKIT_RANK_MAP="x"), 2, None)
    assert verdicts(tmp_path)["nodes"][0] == DIFFERS


def test_cpus_that_other_jobs_may_use_are_not_enforceable(tmp_path: Path) -> None:
    """Where a node is not cut to what Slurm gave, nothing is bound, and why is said."""
    shared = {"shared": "it has 8 CPUs, and Slurm gave it 2", "planned_cpus": None}
    left(tmp_path, [line(rank, "n0", **shared) for rank in range(2)])
    prove(env_of(tmp_path), 2, None)
    verdict, because = verdicts(tmp_path)["cpus"]
    assert verdict == NOT_ENFORCEABLE
    assert because == "no rank is bound on node n0: it has 8 CPUs, and Slurm gave it 2"


def test_a_launchers_ranks_share_a_line(tmp_path: Path) -> None:
    """One torchrun a node: eight ranks to a line, also where the last have left none yet."""
    order(tmp_path, "n1", "n0")
    left(tmp_path, [line(rank, f"n{1 - rank // 8}") for rank in range(16)])
    prove(env_of(tmp_path), 16, None)
    assert verdicts(tmp_path)["nodes"][0] == AS_PLANNED
    some = {rank: line(rank, f"n{1 - rank // 8}") for rank in range(10)}
    assert nodes_verdict(some, 16, ["n1", "n0"])["verdict"] == AS_PLANNED
    missing = ranks_verdict(some, 16, {}, 60)
    assert missing is not None
    assert missing["verdict"] == DIFFERS
    assert missing["because"] == "no report from 6 of 16 ranks within 60 s"


@pytest.mark.parametrize(
    ("seen", "is_mpi", "says"),
    [
        ([(4, 0, 4), (4, 1, 4)], True, None),
        ([(4, 0, None), (4, 1, None)], True, None),
        ([(4, None, None), (4, None, None)], False, None),
        ([(4, None, None)], True, "rank 0 finds neither PMIx nor PMI: MPI sees it as rank 0 of 1"),
        ([(4, 0, 1)], True, "rank 0 sees a world size of 1, planned 4"),
        ([(2, None, None)], False, "rank 0 sees a world size of 2, planned 4"),
    ],
)
def test_ranks_that_do_not_find_each_other_differ(
    seen: list[tuple[int, int | None, int | None]], is_mpi: bool, says: str | None
) -> None:
    """By what MPI finds where MPI starts the ranks (PMIx tells no size), else by WORLD_SIZE."""
    records = {
        rank: line(rank, "n0", world_size=world, mpi=mpi) for rank, (world, *mpi) in enumerate(seen)
    }
    found = world_verdict(records, 4, is_mpi=is_mpi)
    assert found["verdict"] == (DIFFERS if says else AS_PLANNED)
    assert found["because"] == (says or "world size 4 on each rank")


def test_strict_ends_the_rank(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """With code 1 where anything differs, and not where all is as planned or cannot be."""
    order(tmp_path, "n1", "n0")
    left(tmp_path, [line(0, "n1"), line(1, "n0")])
    prove(env_of(tmp_path, HPCKIT_STRICT="1"), 2, None)
    prove(env_of(tmp_path, HPCKIT_STRICT="1", HPCKIT_ORDERED=""), 2, None)
    order(tmp_path, "n0", "n1")
    with pytest.raises(SystemExit) as caught:
        prove(env_of(tmp_path, HPCKIT_STRICT="1"), 2, None)
    assert caught.value.code == 1
    assert "--strict-placement ends the job: " in capfd.readouterr().err


def test_a_rank_that_could_not_bind_itself_differs(tmp_path: Path) -> None:
    """It is named with the reason, beside those that are elsewhere than planned."""
    failed = line(1, "n0", planned_cpus=None, failed="no room")
    left(tmp_path, [line(0, "n0", cpus="0-3"), failed])
    with pytest.raises(SystemExit):
        prove(env_of(tmp_path, HPCKIT_STRICT="1"), 2, None)
    because = "rank 1 is not bound: no room; rank 0 has CPUs 0-3, planned 0"
    assert verdicts(tmp_path)["cpus"] == (DIFFERS, because)


def test_a_step_and_an_attempt_have_lines_and_a_proof_of_their_own(tmp_path: Path) -> None:
    """What an earlier one left is not taken; proof.json leads to the latest.

    Slurm's step is not the same for all ranks of one mpirun; the name of mpirun's own run is.
    """
    mpirun = {"SLURM_STEP_ID": "3", "OMPI_COMM_WORLD_RANK": "0"}
    assert (start_of({"SLURM_STEP_ID": "3"}), start_of(mpirun)) == (("3", "0"), ("0", "0"))
    assert start_of({**mpirun, "PMIX_NAMESPACE": "prterun-n/1@2"}) == ("prterun_n_1_2", "0")
    left(tmp_path, [line(rank, "n0") for rank in range(2)])
    prove(env_of(tmp_path), 2, None)
    for step, attempt in (("1", "0"), ("1", "2")):
        text = json.dumps(line(0, f"m{attempt}"))
        (tmp_path / f"proof.step-{step}.attempt-{attempt}.m.jsonl").write_text(f"{text}\n")
        start = {"SLURM_STEP_ID": step, "TORCHELASTIC_RESTART_COUNT": attempt}
        prove(env_of(tmp_path, **start), 1, None)
        document = json.loads((tmp_path / "proof.json").read_text())
        assert [rank["node"] for rank in document["ranks"]] == [f"m{attempt}"]
    assert len(json.loads((tmp_path / "proof.step-0.attempt-0.json").read_text())["ranks"]) == 2


def test_lines_that_are_cut_or_no_lines_are_passed_over(tmp_path: Path) -> None:
    """A torn end is read once it is whole; what is no rank's line is nobody's."""
    left(tmp_path, [line(0, "n0")], tail='[]\n{"rank": 1}\nnull\n\xff\n{"rank": 1, "no')
    left(tmp_path, [line(1, "n1")])
    prove(env_of(tmp_path), 2, None)
    assert len(json.loads((tmp_path / "proof.json").read_text())["ranks"]) == 2


def test_why_there_is_no_order_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """An order was wanted and could not be computed: that is no word of "as planned" alone."""
    left(tmp_path, [line(0, "n0"), line(1, "n1")])
    (tmp_path / "no-order").write_text("TypeError: no list\n")
    prove(env_of(tmp_path, HPCKIT_STRICT="1"), 2, None)
    because = "ranks are in Slurm's own order: TypeError: no list"
    assert verdicts(tmp_path)["nodes"] == (NOT_ENFORCEABLE, because)
    assert because in capfd.readouterr().err


@pytest.mark.parametrize("hosts", ["", "n0\nn1\nn2\n"])
def test_an_order_of_another_size_differs(tmp_path: Path, hosts: str) -> None:
    """Nobody can say that all is as planned where no whole order is left."""
    (tmp_path / "hosts").write_text(hosts)
    left(tmp_path, [line(rank, f"n{rank}") for rank in range(4)])
    with pytest.raises(SystemExit):
        prove(env_of(tmp_path, HPCKIT_STRICT="1"), 4, None)
    lines = hosts.count("\n")
    because = f"the node order has {lines} lines, which do not fit 4 ranks"
    assert verdicts(tmp_path)["nodes"] == (DIFFERS, because)


def test_two_processes_of_one_rank_are_told(tmp_path: Path) -> None:
    """And ranks that the step does not have count for none that it has."""
    left(tmp_path, [line(0, "n0"), line(0, "n1"), line(1, "n1"), line(-1, "n1"), line(9, "n1")])
    prove(env_of(tmp_path), 2, None)
    assert verdicts(tmp_path)["ranks"] == (DIFFERS, "2 processes have rank 0: on n0, n1")


@pytest.mark.parametrize(
    ("envs", "found"),
    [
        ([{}, {}, {}, {}], None),
        ([{"NCCL_ALGO": "Ring"}] * 4, AS_PLANNED),
        ([{"UCX_NET_DEVICES": f"mlx5_{rank % 2}:1"} for rank in range(4)], AS_PLANNED),
        ([{"UCX_NET_DEVICES": f"mlx5_{rank}:1"} for rank in range(4)], DIFFERS),
        ([{"MASTER_ADDR": f"n{rank % 2}"} for rank in range(4)], DIFFERS),
        ([{}, {}, {"NCCL_ALGO": "Ring"}, {}], DIFFERS),
    ],
)
def test_variables_may_follow_the_local_rank(envs: list[dict[str, str]], found: str | None) -> None:
    """A NIC for each local rank is no fault; where ranks meet is one place for all of them."""
    records = {
        rank: line(rank, f"n{rank // 2}", local_rank=rank % 2, env=env)
        for rank, env in enumerate(envs)
    }
    told = environment_verdict(records)
    assert (told and told["verdict"]) == found


def rank_env(folder: Path, rank: int, ranks: int, **more: str) -> dict[str, str]:
    """One of several ranks of one node, as srun leaves it."""
    return {
        "HPCKIT_JOB_FOLDER": str(folder),
        "HPCKIT_PLACE": str(folder / "place" / "restart-0"),
        "SLURM_PROCID": str(rank),
        "SLURM_NTASKS": str(ranks),
        "SLURM_LOCALID": str(rank),
        "SLURM_NODEID": "0",
        "SLURM_TASKS_PER_NODE": str(ranks),
        "SLURMD_NODENAME": "n1",
        **more,
    }


RANK = ("rank", "--from", "slurm", "--")


def test_ranks_leave_a_line_each_and_a_proof(start: Start, job_folder: Path) -> None:
    """Two ranks of one node: both commands run, bound or not, and rank 0 prints the table."""
    order(job_folder / "place" / "restart-0", "n1", tasks=2)
    both = [
        start(*RANK, "echo", f"ran {rank}",
              env=rank_env(job_folder, rank, 2, HPCKIT_BIND="1", HPCKIT_ORDERED="1",
                           NCCL_X="\udcff"))
        for rank in (1, 0)
    ]  # fmt: skip
    told = [process.communicate(timeout=30) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert [out for out, _ in told] == [b"ran 1\n", b"ran 0\n"]
    folder = job_folder / "place" / "restart-0"
    assert (folder / "began").exists()
    found = sorted(path.name for path in folder.iterdir())
    proofs = ["proof.json", "proof.step-0.attempt-0.json", "proof.step-0.attempt-0.n1.jsonl"]
    assert found == ["began", "hosts", *proofs]
    assert len((folder / "proof.step-0.attempt-0.n1.jsonl").read_text().splitlines()) == 2
    assert verdicts(folder)["nodes"][0] == AS_PLANNED
    placed = b"hpckit: placement  as planned: 2 ranks on 1 nodes in the computed order"
    assert placed in told[1][1]
    assert b"Traceback" not in told[0][1] + told[1][1]


def test_a_rank_says_what_its_image_changed(run: Run, job_folder: Path) -> None:
    """Compared with what the runner found outside."""
    place = job_folder / "place" / "restart-0"
    told = json.dumps({"NCCL_DEBUG": "WARN", "FOO": "a"})
    env = rank_env(job_folder, 0, 1, HPCKIT_OUTSIDE=told, NCCL_DEBUG="TRACE", FOO="a")
    run("rank", "--from", "slurm", "--", "true", env=env)
    assert verdicts(place)["container"] == (
        DIFFERS, "rank 0 has NCCL_DEBUG=TRACE in the container, WARN outside"
    )  # fmt: skip


def test_a_strict_rank_does_not_start_its_command(run: Run, job_folder: Path) -> None:
    """Code 1, which the script is told of, and the command's output is not there.

    Without HPCKIT_PLACE nothing is left or looked at.
    """
    env = rank_env(job_folder, 0, 1, HPCKIT_STRICT="1", HPCKIT_ORDERED="1")
    assert run(*RANK, "true", env={**env, "HPCKIT_PLACE": ""}).returncode == 0
    assert not (job_folder / "place").exists()
    order(job_folder / "place" / "restart-0", "n9")
    done = run(*RANK, "echo", "ran", env=env)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"rank 0 is on n1, planned n9" in done.stderr
    assert (job_folder / "logs" / "failed-0").read_text() == "1 0\n"


@pytest.mark.parametrize("node", ["n1", "n9"])
def test_no_rank_of_a_strict_job_starts_before_the_proof(
    start: Start, job_folder: Path, node: str
) -> None:
    """Both run where all is as planned; where one is elsewhere neither does, and both end with 1.
    A proof of an earlier step is none.
    """
    folder = job_folder / "place" / "restart-0"
    order(folder, node, tasks=2)
    (folder / "proof.step-0.attempt-0.json").write_text('{"verdicts":[]}')
    more = {"HPCKIT_STRICT": "1", "HPCKIT_ORDERED": "1", "SLURM_STEP_ID": "1"}
    other = start(*RANK, "echo", "ran", env=rank_env(job_folder, 1, 2, **more))
    with pytest.raises(subprocess.TimeoutExpired):
        other.wait(0.7)
    first = start(*RANK, "echo", "ran", env=rank_env(job_folder, 0, 2, **more))
    both = [process.communicate(timeout=30) for process in (first, other)]
    is_there = node == "n1"
    assert [out for out, _ in both] == [b"ran\n" if is_there else b""] * 2
    assert [process.returncode for process in (first, other)] == [int(not is_there)] * 2
    assert both[0][1].count(b"hpckit: placement  nodes  ") == 1
    assert both[1][1] == b""


def test_a_strict_rank_that_is_told_nothing_ends(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """After its time it ends with 1, and says that rank 0 told nothing."""
    with pytest.raises(SystemExit) as caught:
        proof.await_proof(env_of(tmp_path), 2, None, 0.3)
    assert caught.value.code == 1
    assert "no report from rank 0 within 0.3 s" in capfd.readouterr().err


@pytest.mark.parametrize(("rank", "strict", "code"), [(0, "", 0), (0, "1", 1), (1, "1", 1)])
def test_a_rank_that_cannot_leave_its_line(
    run: Run, job_folder: Path, rank: int, strict: str, code: int
) -> None:
    """One line says why; the command runs all the same, but for a strict job, which ends with 1."""
    (job_folder / "place").write_text("no folder")
    done = run(*RANK, "echo", "ran", env=rank_env(job_folder, rank, 2, HPCKIT_STRICT=strict))
    assert (done.returncode, done.stdout) == (code, b"" if strict else b"ran\n")
    begin = b"--strict-placement ends the job:" if strict else b"warning:"
    assert done.stderr.startswith(
        b"hpckit: " + begin + b" cannot verify the placement of this rank: "
    )
    assert done.stderr.count(b"\n") == 1
