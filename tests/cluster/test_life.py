from __future__ import annotations

import signal
from collections import Counter
from typing import Any

import pytest

from tests.cluster.cluster import Cluster, eventually
from tests.cluster.hpckit_on import (
    AT_GATE,
    HELD,
    PLACED,
    document,
    ended,
    gated,
    hpckit,
    log_of,
    new_path,
    open_gate,
    programs,
    reached,
    start,
    status,
    submit,
)

TASKS = range(20)
FAILING = 7
TWO_NODES = ("--nodes", "2")


SLEEP = ("sleep", "6001")
CATCH = """\
import signal, time
seen = []
signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
print("ready", flush=True)
while not seen:
    time.sleep(0.1)
time.sleep(1)
print("caught", len(seen), flush=True)
"""


def slept(cluster: Cluster, *args: str) -> str:
    """The id of a job that runs SLEEP."""
    job_id: str = submit(cluster, *args, "--", *SLEEP)["job_id"]
    reached(cluster, job_id, "RUNNING")
    return job_id


def steps(cluster: Cluster, job_id: str) -> list[str]:
    """The steps of the job that slurmctld lists."""
    ask = ["squeue", "--steps", "--noheader", "--format=%i", f"--jobs={job_id}"]
    return cluster.run(ask).stdout.split()


def sleepers(cluster: Cluster) -> list[str]:
    """The processes on the nodes that run SLEEP."""
    ask = ["pgrep", "--full", f"^{' '.join(SLEEP)}$"]
    return [pid for node in cluster.nodes for pid in cluster.run(ask, host=node).stdout.split()]


def words_of(cluster: Cluster, job_id: str) -> str:
    """What `hpckit status` tells people, on one line."""
    return " ".join(hpckit(cluster, "status", job_id).stdout.split())


# --- arrays ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def array(cluster: Cluster) -> dict[str, Any]:
    """What `submit --wait` said of twenty tasks of which the seventh ended with 3, and its code."""
    task = f"echo task $SLURM_ARRAY_TASK_ID; test $SLURM_ARRAY_TASK_ID != {FAILING} || exit 3"
    words = ("submit", "--json", "--no-account", "--array", f"{TASKS[0]}-{TASKS[-1]}", "--wait")
    done = hpckit(cluster, *words, "--", "sh", "-c", task)
    return {**document(done), "returncode": done.returncode}


def test_an_array_fails_with_its_task(array: dict[str, Any]) -> None:
    """An array of which one task fails has FAILED with that task's code, and hpckit exits 1."""
    assert (array["state"], array["exit_code"], array["returncode"]) == ("FAILED", 3, 1)


def test_each_task_has_its_state(cluster: Cluster, array: dict[str, Any]) -> None:
    """`status --json` has the state and exit code of every task."""
    tasks = status(cluster, array["job_id"])["tasks"]
    assert [(task["task"], task["state"], task["exit_code"]) for task in tasks] == [
        (task, "FAILED", 3) if task == FAILING else (task, "COMPLETED", 0) for task in TASKS
    ]


def test_tasks_are_told_to_people(cluster: Cluster, array: dict[str, Any]) -> None:
    """`hpckit status` groups the tasks by how they ended."""
    said = words_of(cluster, array["job_id"])
    assert "COMPLETED 0-6,8-19" in said
    assert "FAILED 7 exit code 3" in said


def test_each_task_has_its_log(cluster: Cluster, array: dict[str, Any]) -> None:
    """`hpckit logs ID_7` is the output of task 7 alone, merged and by rank."""
    task = f"{array['job_id']}_{FAILING}"
    assert log_of(cluster, task, 0) == f"task {FAILING}\n"
    assert log_of(cluster, task).splitlines()[0] == f"task {FAILING}"


def test_one_task_is_cancelled(cluster: Cluster) -> None:
    """`hpckit cancel ID_5` ends task 5 and leaves the others running."""
    job_id = submit(cluster, "--array", "0-7", "--", "sleep", "600")["job_id"]

    def states() -> Counter[str]:
        return Counter(task["state"] for task in status(cluster, job_id)["tasks"])

    assert eventually(lambda: states() == {"RUNNING": 8}, timeout_s=270), states()
    assert hpckit(cluster, "cancel", f"{job_id}_5").returncode == 0
    assert eventually(lambda: states() == {"RUNNING": 7, "CANCELLED": 1}), states()
    (gone,) = [task for task in status(cluster, job_id)["tasks"] if task["state"] == "CANCELLED"]
    assert gone["task"] == 5


# --- dependencies --------------------------------------------------------------------------------


def test_a_job_waits_for_another(cluster: Cluster) -> None:
    """A job with `afterok` waits while the first runs, and begins once that has ended well."""
    gate = new_path()
    first = submit(cluster, *gated(AT_GATE, gate))["job_id"]
    after = ("--set", f"slurm.dependency=afterok:{first}")
    second = submit(cluster, *after, "--", "true")["job_id"]
    reached(cluster, first, "RUNNING")
    waiting = status(cluster, second)
    assert (waiting["state"], waiting["slurm_reason"]) == ("PENDING", "Dependency")
    open_gate(cluster, gate)
    assert hpckit(cluster, "wait", first, second).returncode == 0
    assert status(cluster, second)["started_s"] >= status(cluster, first)["ended_s"]


def test_a_dependency_that_cannot_be_met(cluster: Cluster) -> None:
    """A job that waits for the success of one that failed is said to be one that never starts."""
    first = submit(cluster, *HELD, "--", "false")["job_id"]
    after = ("--set", f"slurm.dependency=afterok:{first}")
    second = submit(cluster, *after, "--", "true")["job_id"]
    cluster.check(["scontrol", "update", f"JobId={first}", "StartTime=now"])
    assert hpckit(cluster, "wait", first).returncode == 1
    assert eventually(lambda: "DependencyNeverSatisfied" in words_of(cluster, second))
    assert "it does not start as it stands" in words_of(cluster, second)


# --- cancel --------------------------------------------------------------------------------------


def test_a_pending_job_is_cancelled(cluster: Cluster) -> None:
    """`hpckit cancel` ends a job that has not begun, and exits 0."""
    job_id = submit(cluster, *HELD, "--", "true")["job_id"]
    done = hpckit(cluster, "cancel", "--json", job_id)
    assert (done.returncode, document(done)["state"]) == (0, "CANCELLED")


def test_a_running_job_is_cancelled(cluster: Cluster) -> None:
    """`hpckit cancel` ends a running job: no step and no process of it is left."""
    job_id = slept(cluster, *TWO_NODES, "--ntasks-per-node", "2")
    assert eventually(lambda: len(sleepers(cluster)) == 4), sleepers(cluster)
    done = hpckit(cluster, "cancel", "--json", job_id)
    assert (done.returncode, document(done)["state"]) == (0, "CANCELLED")
    assert eventually(lambda: not steps(cluster, job_id)), steps(cluster, job_id)
    assert eventually(lambda: not sleepers(cluster)), sleepers(cluster)


def test_a_killed_runner_ends_the_job(cluster: Cluster) -> None:
    """SIGKILL of the batch step's process ends the ranks of all nodes, and the job is FAILED."""
    job_id = slept(cluster, *TWO_NODES)
    eventually(lambda: len(sleepers(cluster)) == 2)
    runner = [
        (node, pid)
        for node in cluster.nodes
        for pid in cluster.run(
            ["pgrep", "--full", r"hpckit-injob\.pyz run .* srun"], host=node, user="root"
        ).stdout.split()
    ]
    assert len(runner) == 1
    (node, pid), *_ = runner
    cluster.check(["kill", "-KILL", pid], host=node, user="root")
    reached(cluster, job_id, "FAILED")
    eventually(lambda: not sleepers(cluster))


def test_a_job_that_ended_is_not_cancelled(cluster: Cluster) -> None:
    """To cancel a job that has ended is refused in one sentence, with code 1."""
    job_id = submit(cluster, "--wait", "--", "true")["job_id"]
    done = hpckit(cluster, "cancel", job_id)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error  job {job_id} has already ended: COMPLETED")


def test_a_signal_reaches_the_ranks(cluster: Cluster) -> None:
    """`cancel --signal USR1` reaches every rank's command, once, which then ends by itself."""
    job_id = submit(cluster, *TWO_NODES, "--", "python3", "-c", CATCH)["job_id"]

    def logs() -> list[str]:
        return [log_of(cluster, job_id, rank) for rank in (0, 1)]

    assert eventually(lambda: logs() == ["ready\n"] * 2, timeout_s=180), logs()
    assert hpckit(cluster, "cancel", "--signal", "USR1", job_id).returncode == 0
    assert reached(cluster, job_id, "COMPLETED", "FAILED")["exit_code"] == 0
    assert logs() == ["ready\ncaught 1\n"] * 2


def test_a_signal_for_a_job_that_waits(cluster: Cluster) -> None:
    """A job that has not begun cannot be sent a signal."""
    job_id = submit(cluster, *HELD, "--", "true")["job_id"]
    done = hpckit(cluster, "cancel", "--signal", "USR1", job_id)
    assert done.returncode == 1
    assert f"job {job_id} has not started" in done.stderr


# --- logs -f and wait ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("which", "first", "last"),
    [
        ((), {"first 0", "first 1"}, {"last 0", "last 1"}),
        (("--rank", "1"), {"first 1"}, {"last 1"}),
    ],
)
def test_logs_follow_a_job(
    cluster: Cluster, which: tuple[str, ...], first: set[str], last: set[str]
) -> None:
    """`logs -f` gives lines while the job runs, all of them once, and ends with it."""
    gate = new_path()
    script = f"echo first $RANK; {AT_GATE}; echo last $RANK"
    job_id = submit(cluster, *TWO_NODES, *gated(script, gate))["job_id"]
    follow = start(cluster, "logs", "-f", job_id, *which)
    assert follow.stdout is not None
    lines = (line.strip() for line in follow.stdout if not line.startswith(PLACED))
    assert {next(lines) for _ in first} == first
    assert status(cluster, job_id)["state"] == "RUNNING"
    open_gate(cluster, gate)
    code, rest, words = ended(follow)
    after = [line for line in rest.splitlines() if not line.startswith(PLACED)]
    assert (code, sorted(after)) == (0, sorted(last)), words
    assert status(cluster, job_id)["state"] in ("COMPLETING", "COMPLETED")


def test_wait_in_a_second_terminal(cluster: Cluster) -> None:
    """`hpckit wait` of a job that another process submitted ends when the job does."""
    gate = new_path()
    job_id = submit(cluster, *gated(AT_GATE, gate))["job_id"]
    waiting = start(cluster, "wait", "--json", job_id)
    reached(cluster, job_id, "RUNNING")
    assert waiting.poll() is None
    open_gate(cluster, gate)
    code, printed, words = ended(waiting)
    assert (code, '"state": "COMPLETED"' in printed) == (0, True), words


def test_wait_for_several_jobs(cluster: Cluster) -> None:
    """`hpckit wait` of several jobs tells of each in order, and exits 1 when one has failed."""
    codes = ("0", "4", "0")
    ids = [submit(cluster, "--", "sh", "-c", f"exit {code}")["job_id"] for code in codes]
    done = hpckit(cluster, "wait", "--json", *ids)
    told = [(job["job_id"], job["exit_code"]) for job in document(done)["jobs"]]
    assert told == [(job_id, int(code)) for job_id, code in zip(ids, codes, strict=True)]
    assert done.returncode == 1


def test_wait_with_a_timeout(cluster: Cluster) -> None:
    """`hpckit wait --timeout 3` of a job that waits for an hour says so and exits 1."""
    job_id = submit(cluster, *HELD, "--", "true")["job_id"]
    done = hpckit(cluster, "wait", "--timeout", "3", job_id)
    assert done.returncode == 1
    assert f"{job_id} did not end within 3 s" in done.stderr


def test_an_interrupted_wait(cluster: Cluster) -> None:
    """Ctrl-C ends `hpckit wait` with 130, and the job goes on."""
    job_id = slept(cluster)
    log = new_path("/tmp")
    waiting = start(cluster, "wait", job_id, env={"HPCKIT_COMMAND_LOG": log})
    assert eventually(lambda: programs(cluster, log))
    waiting.send_signal(signal.SIGINT)
    code, _, words = ended(waiting)
    assert (code, f"the job goes on: hpckit wait {job_id}" in words) == (130, True), words
    assert status(cluster, job_id)["state"] == "RUNNING"
