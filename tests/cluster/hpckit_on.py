"""hpckit on the login host of the cluster, called as a user calls it."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from tests.cluster.cluster import Background, Cluster, Containers, eventually

SITE: Mapping[str, str] = {"HPCKIT_SITE": "docker"}
LONG_S = 180.0
"""Longer than any command here takes on a busy machine."""
HELD = ("--set", "slurm.begin=now+1hour")
"""A job submitted so is taken, and does not start while a test looks at it."""
PLACED = "hpckit: placement  "
"""The first words of a line of that table."""
UNPLANNED = "is not bound: no rank wrote the binding plan of this node\n"
"""The end of what a rank says on a node that is too busy to be planned in 12 s."""
AT_GATE = 'until test -e "$1"; do sleep 0.2; done'
"""Shell: wait until the file that is the first argument exists."""


def hpckit(
    cluster: Containers,
    *args: str,
    user: str = "alice",
    env: Mapping[str, str] | None = None,
    timeout_s: float = LONG_S,
) -> subprocess.CompletedProcess[str]:
    """Run `hpckit ARGS` at the site `docker`, to its end."""
    given = {**SITE, **(env or {})}
    return cluster.run(["hpckit", *args], user=user, env=given, timeout_s=timeout_s)


def start(cluster: Cluster, *args: str, env: Mapping[str, str] | None = None) -> Background:
    """Start `hpckit ARGS` as in another terminal; it does not outlive LONG_S."""
    limited = ["timeout", "--foreground", f"{LONG_S:g}", "hpckit", *args]
    return cluster.start(limited, env={**SITE, **(env or {})})


def ended(background: Background) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of what was started, when it has ended by itself."""
    out, err = background.communicate(timeout=LONG_S + 20)
    return background.returncode, out, err


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The one JSON document that a command printed, whatever its exit code."""
    assert done.stdout, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def submit(cluster: Containers, *args: str, **more: Any) -> dict[str, Any]:
    """The document of `hpckit submit --json ARGS`, which has to submit a job."""
    printed = document(hpckit(cluster, "submit", "--json", *args, **more))
    assert printed["schema"] == "hpckit.submission/1", printed
    return printed


def status(cluster: Containers, job_id: str, **more: Any) -> dict[str, Any]:
    """The document of `hpckit status --json`."""
    return document(hpckit(cluster, "status", "--json", job_id, **more))


def status_and_commands(cluster: Cluster, job_id: str) -> tuple[dict[str, Any], list[list[str]]]:
    """The document of `hpckit status --json`, and the external commands that it cost, in order."""
    log = new_path("/tmp")
    told = status(cluster, job_id, env={"HPCKIT_COMMAND_LOG": log})
    return told, commands(cluster, log)


def failed_job(cluster: Cluster) -> str:
    """The id of a job that said `words` and ended with 7, about which Slurm has to be asked.

    Its end is in the accounts, and no longer in its folder, which would answer instead of Slurm.
    """
    done = hpckit(cluster, "submit", "--wait", "--json", "--", "sh", "-c", "echo words; exit 7")
    job = document(done)
    assert job["exit_code"] == 7, job
    job_id: str = job["job_id"]
    # Its submit line, by which hpckit knows it, comes seconds after its end on 22.05.
    ask = ["sacct", "-nXP", "--format=State,SubmitLine", f"--jobs={job_id}"]
    assert eventually(lambda: cluster.check(ask).startswith("FAILED|sbatch "))
    cluster.check(["rm", f"{job['folder']}/result.json"])
    return job_id


def reached(
    cluster: Containers, job_id: str, *states: str, timeout_s: float = 180
) -> dict[str, Any]:
    """The status of the job once its state is one of `states`, which has to come in time."""
    last: dict[str, Any] = {}

    def is_there() -> bool:
        last.update(status(cluster, job_id))
        return last["state"] in states

    assert eventually(is_there, timeout_s=timeout_s), last
    return last


def log_of(cluster: Containers, job_id: str, rank: int | None = None) -> str:
    """What `hpckit logs` prints; empty while there is no log.

    Of a rank it is what its command said, without hpckit's own table and UNPLANNED.
    """
    which = () if rank is None else ("--rank", str(rank))
    lines = hpckit(cluster, "logs", job_id, *which).stdout.splitlines(keepends=True)
    if rank is not None:
        lines = [line for line in lines if not line.startswith(PLACED)]
        lines = [line for line in lines if not line.endswith(UNPLANNED)]
    return "".join(lines)


def traces(cluster: Cluster) -> tuple[list[str], list[str]]:
    """What alice's submissions have left: the job folders, and the lines of `hpckit jobs`."""
    found = cluster.check(["find", "/shared/alice/hpckit", "-mindepth", "1", "-maxdepth", "1"])
    jobs = document(hpckit(cluster, "jobs", "--all", "--json"))["jobs"]
    return sorted(found.split()), [job["folder"] for job in jobs]


def nothing_lives(cluster: Cluster) -> bool:
    """Whether in a minute at most no job of alice's waits, runs or is being ended."""
    ask = ["squeue", "--me", "--noheader", "--states=PENDING,RUNNING,COMPLETING"]
    return eventually(lambda: cluster.check(ask) == "", timeout_s=180)


def new_path(folder: str = "/shared/alice") -> str:
    """A path that no other test uses."""
    return f"{folder}/{uuid.uuid4().hex}"


def gated(script: str, gate: str) -> Sequence[str]:
    """The words of a job that runs `script`, in which AT_GATE waits for the file `gate`."""
    return ("--", "sh", "-c", script, "sh", gate)


def open_gate(cluster: Cluster, gate: str) -> None:
    """Let go on what waits for `gate`."""
    cluster.check(["touch", gate])


def commands(cluster: Containers, log: str) -> list[list[str]]:
    """The external commands on record in the command log `log`, in order."""
    if cluster.run(["test", "-e", log]).returncode != 0:
        return []
    return [json.loads(line)["argv"] for line in cluster.read(log).splitlines()]


def programs(cluster: Containers, log: str) -> list[str]:
    """The programs on record in the command log `log`, in order."""
    return [argv[0] for argv in commands(cluster, log)]
