"""Jobs that each break one limit: what `hpckit check` says of them, and what Slurm then does."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tests.cluster.cluster import CHECKOUT, Cluster
from tests.cluster.conftest import ClusterOf
from tests.cluster.hpckit_on import LONG_S, new_path
from tests.cluster.traps import alike
from tests.sizes import size

SUITES = ("bookworm", "forky", "trixie")
GRANTED = "pj,pn,pu,pa,grp,wall,minq,jobs0,sub2,mpj,memq"
SET_UP = (
    "sacctmgr -iQ add account other,deep,poor parent=root Description=x Organization=x",
    "sacctmgr -iQ add account leaf parent=deep Description=x Organization=x",
    "sacctmgr -iQ add qos pj set MaxTRESPerJob=gres/gpu=4",
    "sacctmgr -iQ add qos pn set MaxTRESPerNode=gres/gpu=2",
    "sacctmgr -iQ add qos pu set MaxTRESPerUser=node=1",
    "sacctmgr -iQ add qos pa set MaxTRESPerAccount=cpu=8",
    "sacctmgr -iQ add qos grp set GrpTRES=gres/gpu=8",
    "sacctmgr -iQ add qos wall set MaxWall=5",
    "sacctmgr -iQ add qos minq set MinTRESPerJob=gres/gpu=8",
    "sacctmgr -iQ add qos jobs0 set MaxJobsPU=0",
    "sacctmgr -iQ add qos sub2 set MaxSubmitJobsPU=2",
    "sacctmgr -iQ add qos mpj set MaxTRESMinsPerJob=cpu=100",
    "sacctmgr -iQ add qos memq set MaxTRESPerJob=mem=4G",
    "sacctmgr -iQ add qos big set Priority=5",
    "sacctmgr -iQ add qos pq set MaxTRESPerJob=cpu=4",
    f"sacctmgr -iQ modify account proj1,proj2,other,deep,poor set qos+={GRANTED}",
    "sacctmgr -iQ add user alice account=poor,leaf",
    "sacctmgr -iQ modify account deep set GrpTRES=gres/gpu=4",
    "sacctmgr -iQ modify user alice where account=poor set MaxTRES=cpu=2 MaxWall=7",
    "sed -i s/^GresTypes/Licenses=matlab:4,ansys:1\\nGresTypes/ /etc/slurm/slurm.conf",
    "scontrol reconfigure",
    "scontrol create PartitionName=inact Nodes=c[1-2] State=INACTIVE",
    "scontrol create PartitionName=down Nodes=c[1-2] State=DOWN",
    "scontrol create PartitionName=drainp Nodes=c[1-2] State=DRAIN",
    "scontrol create PartitionName=acct Nodes=c[1-2] AllowAccounts=other",
    "scontrol create PartitionName=denyacct Nodes=c[1-2] DenyAccounts=proj1",
    "scontrol create PartitionName=qosonly Nodes=c[1-2] AllowQos=big",
    "scontrol create PartitionName=groups Nodes=c[1-2] AllowGroups=slurm",
    "scontrol create PartitionName=minn Nodes=c[1-4] MinNodes=3",
    "scontrol create PartitionName=maxn Nodes=c[1-4] MaxNodes=2",
    "scontrol create PartitionName=short Nodes=c[1-4] MaxTime=5",
    "scontrol create PartitionName=cpun Nodes=c[1-2] MaxCPUsPerNode=4",
    "scontrol create PartitionName=memn Nodes=c[1-2] MaxMemPerNode=1000",
    "scontrol create PartitionName=resv Nodes=c[1-2] ReqResv=YES",
    "scontrol create PartitionName=rootonly Nodes=c[1-2] RootOnly=YES",
    "scontrol create PartitionName=pqos Nodes=c[1-2] QoS=pq",
    "sacctmgr -iQ add qos over set Flags=OverPartQOS MaxTRESPerJob=cpu=64",
    "sacctmgr -iQ add qos longer set Flags=PartitionTimeLimit MaxWall=30",
    "sacctmgr -iQ add qos wider set Flags=PartitionMaxNodes",
    "sacctmgr -iQ modify account proj1 set qos+=over,longer,wider",
    "scontrol create PartitionName=nested Nodes=c[1-2] AllowAccounts=deep",
    "scontrol create ReservationName=bobs Users=bob Nodes=c4 StartTime=now+1days Duration=60",
    "scontrol create ReservationName=maint Users=root Nodes=ALL Flags=MAINT,IGNORE_JOBS"
    " StartTime=now+5hours Duration=60",
)


class Case(NamedTuple):
    """Options that break one limit, the rule that tells it, and why Slurm lets the job wait."""

    options: str
    rule: str
    word: str = ""


CASES = (
    Case("-p inact", "partition-state"),
    Case("-p down", "partition-state"),
    Case("-p drainp", "partition-state"),
    Case("-p acct", "partition-access"),
    Case("-p denyacct", "partition-access"),
    Case("-p qosonly", "partition-access"),
    Case("-p groups", "partition-access"),
    Case("-p rootonly", "partition-access"),
    Case("-p minn -N 2", "partition-limit"),
    Case("-p maxn -N 3", "partition-limit"),
    Case("-p maxn -N 1-3", "partition-limit"),
    Case("-p short -t 10", "partition-limit"),
    Case("-p cpun -n 1 -c 8", "partition-limit"),
    Case("-p memn --mem=2000", "partition-limit"),
    Case("-p resv", "partition-access"),
    Case("-p nope", "partition-unknown"),
    Case("-p pqos -c 8", "tres-limit", "QOSMaxCpuPerJobLimit"),
    Case("-q pj --gpus-per-node=8", "tres-limit", "QOSMaxGRESPerJob"),
    Case("-q pn --gpus-per-node=4", "tres-limit", "QOSMaxGRESPerNode"),
    Case("-q pu -N 2", "tres-limit", "QOSMaxNodePerUserLimit"),
    Case("-q pa -c 16", "tres-limit", "MaxCpuPerAccount"),
    Case("-q grp -N 2 --gpus-per-node=8", "tres-limit", "QOSGrpGRES"),
    Case("-q grp -N 1-2 --gpus-per-node=8", "tres-limit", "QOSGrpGRES"),
    Case("-p minn -q pj --gpus-per-node=2", "tres-limit", "QOSMaxGRESPerJob"),
    Case("-q minq --gpus-per-node=1", "tres-limit", "QOSMinGRES"),
    Case("-q mpj -c 16 -t 60", "tres-limit", "QOSMaxCpuMinutesPerJobLimit"),
    Case("-q memq --mem=8G", "tres-limit", "QOSMaxMemoryPerJob"),
    Case("-A poor -c 4", "tres-limit", "AssocMaxCpuPerJobLimit"),
    Case("-A leaf --gpus-per-node=8", "tres-limit", "AssocGrpGRES"),
    Case("-q wall -t 10", "job-limit", "QOSMaxWallDurationPerJobLimit"),
    Case("-q jobs0", "job-limit", "QOSMaxJobsPerUserLimit"),
    Case("-q sub2 -a 0-4", "job-limit"),
    Case("-A poor -t 10", "job-limit", "AssocMaxWallDurationPerJobLimit"),
    Case("-q big", "qos-unknown"),
    Case("-A other", "account-unknown"),
    Case("-N 5", "node-kind"),
    Case("--gpus-per-node=9", "node-kind"),
    Case("--gpus-per-node=a100:1", "node-kind"),
    Case("--gres=gpu:h100:9", "node-kind"),
    Case("-c 65", "node-kind"),
    Case("-n 1000", "node-kind"),
    Case("--mem=2T", "node-kind"),
    Case("--constraint=ib", "node-kind"),
    Case("--nodelist=c9", "nodelist-foreign"),
    Case("--exclude=c[1-4]", "nodelist-foreign"),
    Case("-L matlab:5", "license"),
    Case("--reservation=bobs", "reservation"),
    Case("-t 6:00:00", "maintenance"),
)


RUN = (
    "-N 2-4 -p minn",
    "-p minn -q minq --gpus-per-node=3",
    "-N 1-4 -q pu",
    "-A PROJ1 -q NORMAL",
    "-p nested -A leaf --gpus-per-node=1",
    "-p pqos -q over -c 8",
    "-p short -q longer -t 20",
    "-p maxn -q wider -N 3",
    "-N 5 -n 2",
    "-w c1 -N 2",
    "-n 40 -q pn",
)
"""Jobs that look as if a limit was against them, and that Slurm runs."""

WAYS = {
    "-p": ("inact", "drainp", "acct", "denyacct", "qosonly", "minn", "maxn", "short", "cpun",
           "memn", "resv", "pqos", "nested", "nope", "minn,maxn", "short,cpun", "acct,memn"),
    "-q": (*GRANTED.split(","), "big", "over", "longer", "wider"),
    "-A": ("proj1", "proj2", "poor", "leaf", "other"),
    "-N": ("1", "2", "3", "4", "5", "1-2", "2-4", "1-5"),
    "-n": ("1", "2", "4", "8", "40", "300"),
    "-c": ("1", "2", "3", "8", "16", "65"),
    "--gpus-per-node": ("1", "2", "3", "4", "8", "9", "h100:2"),
    "--mem": ("500", "1000", "2000", "8G", "2T"),
    "--mem-per-cpu": ("100", "1G", "4G"),
    "-t": ("3", "6", "10", "20", "60"),
    "-L": ("matlab:1", "matlab:5", "ansys"),
    "-a": ("0-1", "0-4"),
}  # fmt: skip
"""Options → values, of which a random job has up to four."""
RANDOM_JOBS = size(quick=1, whole=500)


def random_job(draw: random.Random) -> str:
    """Options that sbatch understands, whatever the cluster then says of them."""
    names = draw.sample(sorted(WAYS), draw.randint(1, 4))
    if {"--mem", "--mem-per-cpu"} <= set(names):
        names.remove("--mem")
    words = [(name, draw.choice(WAYS[name])) for name in names]
    told = " ".join(
        f"{name}{'=' if name.startswith('--') else ' '}{value}" for name, value in words
    )
    return told if "-t" in names else f"{told} -t 2"


@pytest.fixture(scope="module", params=alike(*SUITES))
def limited(request: pytest.FixtureRequest, cluster_of: ClusterOf) -> Iterator[Cluster]:
    """A cluster with every kind of limit, and as it was when the tests are through."""
    cluster = cluster_of(request.param)
    conf = cluster.check(["cat", "/etc/slurm/slurm.conf"], user="root", host="ctl")
    for command in SET_UP:
        cluster.check(command.split(" "), user="root", host="ctl")
    yield cluster
    for name in ("bobs", "maint"):
        cluster.check(["scontrol", "delete", f"ReservationName={name}"], user="root", host="ctl")
    for command in SET_UP:
        if command.startswith("scontrol create PartitionName="):
            name = command.split(" ")[2]
            cluster.check(["scontrol", "delete", name], user="root", host="ctl")
    accounts = ["sacctmgr", "-iQ", "delete"]
    cluster.check([*accounts, "user", "alice", "account=poor,leaf"], user="root", host="ctl")
    cluster.check([*accounts, "account", "other,deep,poor,leaf"], user="root", host="ctl")
    cluster.check(
        [*accounts, "qos", f"{GRANTED},big,pq,over,longer,wider"], user="root", host="ctl"
    )
    cluster.run(["tee", "/etc/slurm/slurm.conf"], user="root", host="ctl", input=conf)
    cluster.check(["scontrol", "reconfigure"], user="root", host="ctl")


def tried(cluster: Cluster, jobs: list[str], *words: str) -> list[dict[str, Any]]:
    """What hpckit says of these jobs, and what Slurm does with them."""
    folder = new_path()
    cluster.check(["mkdir", folder])
    program = (CHECKOUT / "tests" / "cluster" / "admission_trials.py").read_text()
    done = cluster.run(["python3", "-c", program, folder, *words],
                       input=json.dumps(jobs), timeout_s=len(jobs) * 10 + LONG_S)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_job_that_breaks_a_limit(limited: Cluster) -> None:
    """Each is told before with the right rule and Slurm's reason, and with the fix it runs."""
    jobs = [f"{case.options}{'' if '-t ' in case.options else ' -t 2'}" for case in CASES]
    wrong = []
    for case, told in zip(CASES, tried(limited, jobs, "--mend"), strict=True):
        grave = [one for one in told["found"] if one["severity"] != "note"]
        first = grave[0] if grave else {"rule": None, "because": ""}
        is_right = first["rule"] == case.rule and case.word in str(first["because"])
        is_right = is_right and (not case.word or told["words"] == case.word)
        mended = told.get("mended") or ("no option", "")
        if told["slurm"] == "runs" or not is_right or mended[0] != "runs":
            wrong.append((case.options, told["slurm"], told["words"], first, mended))
    assert wrong == []


def test_a_job_that_slurm_runs(limited: Cluster) -> None:
    """None is refused that Slurm then runs; a partition for an account is for those below it."""
    is_nested = "22.05" not in limited.check(["sinfo", "--version"])
    jobs = [f"{job}{'' if '-t ' in job else ' -t 2'}" for job in RUN]
    wrong = []
    for told in tried(limited, jobs):
        errors = [one for one in told["found"] if one["severity"] == "error"]
        runs = is_nested or "nested" not in told["options"]
        if bool(errors) is runs or (told["slurm"] == "runs") is not runs:
            wrong.append((told["options"], told["slurm"], told["words"], errors))
    assert wrong == []


@pytest.mark.slow
def test_random_jobs_fare_as_is_said(limited: Cluster) -> None:
    """At least 99 % do, and none is refused that Slurm runs."""
    seed = random.SystemRandom().randrange(10**6)
    draw = random.Random(seed)  # noqa: S311  what it chooses is no secret
    other = []
    for told in tried(limited, [random_job(draw) for _ in range(RANDOM_JOBS)]):
        grave = [one for one in told["found"] if one["severity"] != "note"]
        if bool(grave) is (told["slurm"] == "runs"):
            other.append((told["options"], told["slurm"], told["words"], grave))
    refused = [one for one in other if one[1] == "runs" and one[3][0]["severity"] == "error"]
    print(f"seed {seed}: {RANDOM_JOBS - len(other)} of {RANDOM_JOBS}", *other, sep="\n")
    assert (refused, len(other) <= RANDOM_JOBS / 100) == ([], True), (seed, other)
