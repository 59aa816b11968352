"""Arrays larger than the cluster's MaxArraySize, which is 101 here, are one job all the same."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import Counter
from typing import Any

import pytest

from tests.cluster.cluster import Cluster, eventually
from tests.cluster.hpckit_on import (
    LONG_S,
    SITE,
    document,
    hpckit,
    log_of,
    new_path,
    nothing_lives,
    programs,
    status,
    submit,
    traces,
)

SIZE = 101
TASKS = range(250)
FAILING = {7: 3, 150: 3}
SAY = "echo I am $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_MIN-$SLURM_ARRAY_TASK_MAX"
FAIL = "case $SLURM_ARRAY_TASK_ID in 7|150) exit 3;; esac"


@pytest.fixture(scope="module")
def array(cluster: Cluster) -> dict[str, Any]:
    """What `hpckit wait` says of 250 tasks of which two end with 3, and the code it ends with."""
    # Sixteen at once: 250 job steps that begin together are too much for a small machine.
    few = ("--array", "0-249", "--cpus-per-task", "16", "--no-account")
    job = submit(cluster, *few, "--", "sh", "-c", f"{SAY}; {FAIL}")
    done = hpckit(cluster, "wait", "--json", job["job_id"], timeout_s=400)
    return {**document(done), "returncode": done.returncode}


def test_a_large_array_fails_with_its_task(array: dict[str, Any]) -> None:
    """Of 250 tasks in three parts two fail with 3: the job FAILED with 3, and wait ends with 1."""
    assert (array["state"], array["exit_code"], array["returncode"]) == ("FAILED", 3, 1)
    assert len(array["part_ids"]) == 3
    assert array["part_ids"][0] == array["job_id"]


def test_each_of_many_tasks_has_its_state(cluster: Cluster, array: dict[str, Any]) -> None:
    """`status --json` lists 250 tasks, each with the state and code that it had."""
    tasks = status(cluster, array["job_id"])["tasks"]
    assert [(task["task"], task["state"], task["exit_code"]) for task in tasks] == [
        (task, "FAILED", 3) if task in FAILING else (task, "COMPLETED", 0) for task in TASKS
    ]


def test_each_of_many_tasks_has_its_log(cluster: Cluster, array: dict[str, Any]) -> None:
    """Every task has a log, merged and of its rank, in which it goes by its number in the whole."""
    logs = document(hpckit(cluster, "logs", "--json", array["job_id"]))["tasks"]
    assert [int(task) for task in logs] == list(TASKS)
    printed = cluster.check(["cat", *logs.values()])
    said = [int(number) for number in re.findall(r"^I am (\d+) of 0-249$", printed, re.MULTILINE)]
    assert said == list(TASKS)
    for task in (0, 100, 101, 249):
        assert log_of(cluster, f"{array['job_id']}_{task}", 0) == f"I am {task} of 0-249\n"


def test_a_part_is_known_by_its_own_id(cluster: Cluster, array: dict[str, Any]) -> None:
    """The id of a part finds the whole job, and a task after it counts as it does to Slurm."""
    second = array["part_ids"][1]
    assert status(cluster, second)["job_id"] == array["job_id"]
    assert log_of(cluster, f"{second}_49", 0) == "I am 150 of 0-249\n"


def test_many_parts_cost_two_questions(cluster: Cluster, array: dict[str, Any]) -> None:
    """The status of an array in parts is one squeue and one sacct."""
    log = new_path()
    folder = status(cluster, array["job_id"])["folder"]
    cluster.check(["rm", f"{folder}/result.json"])
    hpckit(cluster, "status", array["job_id"], env={"HPCKIT_COMMAND_LOG": log})
    assert programs(cluster, log) == ["squeue", "sacct"]


def test_a_rebuild_knows_the_parts(cluster: Cluster, array: dict[str, Any]) -> None:
    """An index made anew from the job folders has the parts of the array."""
    cluster.check(["sh", "-c", "rm ~/.local/state/hpckit/jobs.sqlite"])
    assert hpckit(cluster, "jobs", "--rebuild").returncode == 0
    assert status(cluster, array["part_ids"][2])["part_ids"] == array["part_ids"]


def test_a_task_of_a_later_part_is_cancelled(cluster: Cluster) -> None:
    """`hpckit cancel ID_105` ends task 105, the fifth of the second part, and no other."""
    job_id = submit(cluster, "--array", "99-106", "--", "sleep", "600")["job_id"]

    def states() -> Counter[str]:
        return Counter(task["state"] for task in status(cluster, job_id)["tasks"])

    assert eventually(lambda: states() == {"RUNNING": 8}, timeout_s=270), states()
    assert hpckit(cluster, "cancel", f"{job_id}_105").returncode == 0
    assert eventually(lambda: states() == {"RUNNING": 7, "CANCELLED": 1}), states()
    (gone,) = [task for task in status(cluster, job_id)["tasks"] if task["state"] == "CANCELLED"]
    assert gone["task"] == 105
    assert hpckit(cluster, "cancel", job_id).returncode == 0
    assert states() == {"CANCELLED": 8}


def test_the_parts_of_a_throttled_array_take_turns(cluster: Cluster) -> None:
    """With %2 the second part waits for the end of the first, so that never more than two run."""
    stamp = "date +%s.%N; sleep 0.3; date +%s.%N"
    job = submit(cluster, "--array", "97-104%2", "--wait", "--", "sh", "-c", stamp)
    assert job["state"] == "COMPLETED"
    spans = [
        [float(line) for line in log_of(cluster, f"{job['job_id']}_{task}", 0).split()]
        for task in range(97, 105)
    ]
    assert max(sum(a <= begin < b for a, b in spans) for begin, _ in spans) <= 2
    assert max(end for _, end in spans[:4]) <= min(begin for begin, _ in spans[4:])


def test_a_refused_part_takes_the_others_back(cluster: Cluster) -> None:
    """Where the association may submit fewer tasks than there are, no job and no folder is left."""
    limit = ["sacctmgr", "-i", "modify", "user", "alice", "set"]
    before = traces(cluster)
    later = ["--set", "slurm.begin=now+1hour"]  # of tasks that had begun, the record would stay
    cluster.check([*limit, "MaxSubmitJobs=150"], user="root", host="ctl")
    try:
        done = hpckit(cluster, "submit", "--no-checks", *later, "--array", "0-249", "--", "true")
    finally:
        cluster.check([*limit, "MaxSubmitJobs=-1"], user="root", host="ctl")
    assert done.returncode == 7
    assert "part 2 of 3 (array 0-100)" in done.stderr
    assert "the earlier parts were cancelled" in done.stderr
    assert traces(cluster) == before
    assert nothing_lives(cluster)


def recorded_now(cluster: Cluster, folder: str) -> None:
    """Make the record of a submission young again, however long the test took until here."""
    path = f"{folder}/submitted.json"
    record = {**json.loads(cluster.read(path)), "submitted_s": time.time()}
    assert cluster.run(["tee", path], input=json.dumps(record)).returncode == 0


KILLING = """\
#!/bin/sh
/usr/bin/sbatch "$@"
case "$*" in *-101.sbatch) kill -{signal} $PPID ;; esac
"""


def signalled(cluster: Cluster, signal: str, words: str) -> subprocess.CompletedProcess[str]:
    """What hpckit does that gets a signal once Slurm has the second part of its array."""
    folder = new_path()
    cluster.check(["mkdir", folder])
    cluster.run(["tee", f"{folder}/sbatch"], input=KILLING.format(signal=signal))
    cluster.check(["chmod", "+x", f"{folder}/sbatch"])
    argv = ["sh", "-c", f"PATH={folder}:$PATH exec hpckit submit {words}"]
    return cluster.run(argv, env=SITE, timeout_s=LONG_S)


def test_an_interrupt_takes_back_the_parts_that_were_sent(cluster: Cluster) -> None:
    """After Ctrl-C at the second of three parts there is no third, no job, no folder, no line."""
    before = traces(cluster)
    later = "--set slurm.begin=now+1hour"
    done = signalled(cluster, "INT", f"{later} --array 100-104,202 -- true")
    assert done.returncode == 130
    assert "not all parts were submitted (part 3 of 3" in done.stderr
    assert "the earlier parts were cancelled" in done.stderr
    assert traces(cluster) == before
    assert nothing_lives(cluster)


def test_a_part_is_found_that_was_not_recorded(cluster: Cluster) -> None:
    """Killed once Slurm had the second of three parts, a submission has two, and knows of both."""
    assert signalled(cluster, "KILL", "--array 100-104,202 -- sleep 600").returncode != 0
    newest = document(hpckit(cluster, "status", "--json"))
    first, second, third = newest["part_ids"]
    assert newest["job_id"] == first
    assert int(second) > int(first)
    assert third.startswith("U")
    assert [task["task"] for task in newest["tasks"]] == list(range(100, 105))
    assert "not listed: 202" in newest["reason"]
    assert hpckit(cluster, "cancel", f"{first}_104").returncode == 0
    cluster.check(["scancel", first, second])
    assert nothing_lives(cluster)
    recorded_now(cluster, newest["folder"])
    ended = status(cluster, first)
    assert (ended["state"], ended["is_lost"]) == ("UNKNOWN", False)
    assert "more tasks may follow" in ended["reason"]


def test_sbatch_takes_every_part_of_2500_tasks(cluster: Cluster) -> None:
    """2500 tasks are rendered as one array, which sbatch refuses, and come to 25 that it takes."""
    rendered = hpckit(cluster, "render", "--array", "0-2499:7,2499%8", "--", "true").stdout
    assert "#SBATCH --array=0-2499:7,2499%8" in rendered
    folder = new_path()
    cluster.check(["mkdir", folder])
    cluster.run(["tee", f"{folder}/job.sbatch"], input=rendered)
    assert cluster.run(["sbatch", "--test-only", f"{folder}/job.sbatch"]).returncode != 0
    program = (
        "from hpckit.spec.options import array_parts\n"
        f"for part in array_parts('0-2499:7,2499%8', {SIZE}): print(part.expression)"
    )
    parts = cluster.check(["/opt/hpckit/bin/python", "-c", program]).split()
    assert len(parts) == 25
    for part in sorted(set(parts)):
        argv = ["sbatch", "--test-only", f"--array={part}", f"{folder}/job.sbatch"]
        done = cluster.run(argv)
        assert done.returncode == 0, (part, done.stderr)
