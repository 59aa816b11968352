"""A job file with stages: each begins when the one before has completed, and a failure ends it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.hpckit_on import (
    commands,
    document,
    hpckit,
    log_of,
    new_path,
    nothing_lives,
    reached,
    status,
    traces,
)

CHAIN = """\
schema = "hpckit.job/1"
name = "llama"
[resources]
time_limit = "5:00"
[[stages]]
name = "prepare"
command = ["sh", "-c", "{prepare}"]
[[stages]]
name = "train"
command = ["sh", "-c", "{train}"]
resources = {{ ntasks_per_node = 2 }}
[[stages]]
name = "evaluate"
command = ["sh", "-c", "{evaluate}"]
"""


def chain_file(cluster: Cluster, **commands: str) -> str:
    """The path of a job file of three stages that say their names, or run these commands."""
    said = {name: f"echo {name}" for name in ("prepare", "train", "evaluate")}
    path = f"{new_path()}.toml"
    cluster.run(["tee", path], input=CHAIN.format(**{**said, **commands}))
    return path


@pytest.fixture(scope="module")
def failed(cluster: Cluster) -> dict[str, Any]:
    """A chain of which the second stage ends with 3: what `submit --wait` printed, and its code."""
    done = hpckit(
        cluster, "submit", "--json", "--wait", chain_file(cluster, train="sleep 1; exit 3")
    )
    return {**document(done), "returncode": done.returncode, "stderr": done.stderr}


def ids(chain: dict[str, Any]) -> list[str]:
    """The ids of the stages, in order."""
    return [stage["job_id"] for stage in chain["stages"]]


def test_a_chain_completes(cluster: Cluster) -> None:
    """Three stages run one after the other, each with its own ranks, and submit exits 0."""
    done = hpckit(cluster, "submit", "--json", "--wait", chain_file(cluster))
    chain = document(done)
    assert (chain["schema"], done.returncode) == ("hpckit.chain/1", 0)
    assert [stage["name"] for stage in chain["stages"]] == [
        "llama-prepare",
        "llama-train",
        "llama-evaluate",
    ]
    times = [status(cluster, job_id) for job_id in ids(chain)]
    for before, after in pairwise(times):
        assert before["ended_s"] <= after["started_s"]
    assert log_of(cluster, ids(chain)[1], 1) == "train\n"


def test_a_failing_stage_stops_the_chain(cluster: Cluster, failed: dict[str, Any]) -> None:
    """When the second stage ends with 3, the third never runs, and submit --wait exits 1."""
    assert failed["returncode"] == 1
    assert [(stage["state"], stage["exit_code"]) for stage in failed["stages"]] == [
        ("COMPLETED", 0),
        ("FAILED", 3),
        ("CANCELLED", None),
    ]
    assert failed["stages"][2]["reason"] == f"not started: train ({ids(failed)[1]}) FAILED"
    assert log_of(cluster, ids(failed)[2]) == ""


def test_waiting_for_a_stage_that_never_began_says_why(
    cluster: Cluster, failed: dict[str, Any]
) -> None:
    """`hpckit wait` of the last stage alone names the stage that failed, and exits 1."""
    done = hpckit(cluster, "wait", ids(failed)[2])
    assert done.returncode == 1
    assert f"not started: train ({ids(failed)[1]}) FAILED" in done.stdout


def test_the_status_of_any_stage_shows_the_chain(cluster: Cluster, failed: dict[str, Any]) -> None:
    """`hpckit status` of each stage has one row with all; their end is not asked for again."""
    prepare, train, evaluate = ids(failed)
    for job_id in ids(failed):
        said = " ".join(hpckit(cluster, "status", job_id).stdout.split())
        assert (
            f"chain prepare {prepare} COMPLETED → train {train} FAILED 3 → "
            f"evaluate {evaluate} CANCELLED (not started)"
        ) in said
    log = new_path()
    hpckit(cluster, "status", train, env={"HPCKIT_COMMAND_LOG": log})
    # Only which step of the failed one it was.
    assert [argv[:2] for argv in commands(cluster, log)] == [["sacct", "--json"]]


def test_what_stopped_a_chain_is_told_to_people(cluster: Cluster) -> None:
    """Without --json, submit --wait names the stage at which the chain stopped."""
    done = hpckit(cluster, "submit", "--wait", chain_file(cluster, prepare="exit 4"))
    said = " ".join(done.stdout.split())
    assert done.returncode == 1
    assert "stopped at prepare" in said
    assert said.count("not started: prepare") == 2


def test_cancelling_a_stage_ends_those_after_it(cluster: Cluster) -> None:
    """After `hpckit cancel` of the first stage Slurm removes the others by itself."""
    done = hpckit(cluster, "submit", "--quiet", chain_file(cluster, prepare="sleep 600"))
    first, *later = done.stdout.split()
    assert len(later) == 2
    assert hpckit(cluster, "cancel", first).returncode == 0
    for job_id in later:
        reached(cluster, job_id, "CANCELLED")
    assert status(cluster, later[1])["reason"] == f"not started: prepare ({first}) CANCELLED"


def test_a_refused_stage_takes_the_others_back(cluster: Cluster) -> None:
    """When Slurm refuses the last stage, the stages before are cancelled, and no trace is left."""
    before = traces(cluster)
    path = chain_file(cluster)
    text = cluster.read(path).replace("[resources]", 'slurm.begin = "now+1hour"\n[resources]')
    cluster.run(["tee", path], input=text + 'slurm = { account = "none" }\n')
    done = hpckit(cluster, "submit", "--no-checks", path)
    assert done.returncode == 7
    assert "stage evaluate" in done.stderr
    assert "(the earlier stages were cancelled)" in done.stderr
    assert traces(cluster) == before
    assert nothing_lives(cluster)


def test_an_array_in_parts_may_stand_in_a_chain(cluster: Cluster) -> None:
    """The stage after a split array waits for every part of it."""
    path = chain_file(cluster, train="exit $((SLURM_ARRAY_TASK_ID == 104))")
    text = cluster.read(path).replace(
        "resources = { ntasks_per_node = 2 }", 'slurm = { array = "99-104" }'
    )
    cluster.run(["tee", path], input=text)
    chain = document(hpckit(cluster, "submit", "--json", "--wait", path))
    assert [stage["state"] for stage in chain["stages"]] == ["COMPLETED", "FAILED", "CANCELLED"]


def test_slurm_has_the_bytes_that_render_prints_of_a_stage(cluster: Cluster) -> None:
    """The script of a stage is byte for byte what `render --stage` prints."""
    path = chain_file(cluster)
    rendered = hpckit(cluster, "render", path, "--stage", "train").stdout
    chain = document(hpckit(cluster, "submit", "--json", path))
    assert hpckit(cluster, "show", "--script", ids(chain)[1]).stdout == rendered
