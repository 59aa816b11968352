"""What would keep a job from starting, and what would help."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hpckit.core.findings import Severity, SourcedFinding
from hpckit.script.admission import find_obstacles
from hpckit.script.live import NOBODY, Cluster, Enforced, User, cluster_of
from hpckit.slurm.accounts import AccountRules, Amount, Association, KnownQos, Limits, OwnQos
from hpckit.slurm.request import read_request
from hpckit.slurm.values import NodeGroup, NodesInService, Partition, PartitionRules, Reservation

H100 = NodeGroup(nodes=4, cpus=64, mem_mib=1_024_000, gpus=8, gpu_types=("h100",), features=("ib",))
A100 = NodeGroup(nodes=10, cpus=32, mem_mib=512_000, gpus=4, gpu_types=("a100",))
GPU = Partition(
    name="gpu", is_default=True, is_up=True, time_limit_s=86400, groups=(H100, A100)
)  # fmt: skip
LONG = replace(GPU, name="long", is_default=False, time_limit_s=None)
CPU = Partition(
    name="cpu",
    is_default=False,
    is_up=False,
    time_limit_s=3600,
    groups=(NodeGroup(nodes=100, cpus=16, mem_mib=64_000),),
)
SEEN = cluster_of((GPU, LONG, CPU))
ALICE = User(name="alice", groups=frozenset({"users"}))
NOW_S = 1_800_000_000.0
HOUR_S = 3600


def found(options: str, cluster: Cluster = SEEN, user: User = ALICE) -> list[SourcedFinding]:
    """What is found about a script with these options."""
    request = read_request(f"#!/bin/bash\n#SBATCH {options}\ntrue\n")
    return list(find_obstacles(request, cluster, user, NOW_S))


@pytest.mark.parametrize(
    "options",
    [
        "-N 14",
        "-N 14 --gpus-per-node=4",
        "-N 4 --gpus-per-node=h100:8 --mem=900G",
        "-N 10 --gres=gpu:a100:1",
        "-t 1-0",
        "-t 30-0 -p long",
        "-t 30-0 -p gpu,long",
        "-N 1 -n 65 -O",
        "-N 1-2 -n 65",
        "-n 200 -C 'ib|fast'",
        "--mem=0",
        "-t 2-0 --time-min=2:00:00",
        "--gpus=40",
        "-N 15 -n 2",
    ],
)
def test_what_fits_is_not_found(options: str) -> None:
    """A job that one of its partitions can hold is not held back."""
    assert found(options) == []


@pytest.mark.parametrize(
    ("options", "rule", "because", "remedy"),
    [
        ("-N 15", "node-kind", "partition gpu has 14 nodes, not 15", "--nodes=14"),
        ("-N 5 --gpus-per-node=8", "node-kind", "has 4 such nodes, not 5", "--nodes=4"),
        ("--gpus-per-node=16", "node-kind", "have at most 8 GPUs, not 16", "--gpus-per-node=8"),
        ("--gpus-per-node=b200:1", "node-kind", "has no GPU of type b200", "=a100:1"),
        ("--gres=gpu:a100:8", "node-kind", "have at most 4 GPUs, not 8", "--gres=gpu:a100:4"),
        ("-p cpu --gpus-per-node=1", "node-kind", "partition cpu have no GPUs", "--partition=gpu"),
        ("-N 1 -n 13 -c 5", "node-kind", "have at most 64 CPUs, not 65", "--cpus-per-task=4"),
        (
            "-n 1000",
            "node-kind",
            "all nodes of partition gpu together have 576 CPUs, not 1000",
            "576",
        ),
        ("--mem=2T", "node-kind", "have at most 1000G, not 2048G", "--mem=1000G"),
        (
            "-C 'nvme|ssd'",
            "node-kind",
            "no node of partition gpu has the feature nvme or ssd",
            "ib",
        ),
        ("-C nvme", "node-kind", "no node of partition gpu has the feature nvme", "ib"),
        (
            "-t 2-0",
            "partition-limit",
            "allows a time limit of 1-00:00:00, not 2-00:00:00",
            "--time=1-00:00:00",
        ),
        ("-t 2-0 --time-min=0", "partition-limit", "not 2-00:00:00", "--time=1-00:00:00"),
        ("-t 3-0 --time-min=2-0", "partition-limit", "not 2-00:00:00", "--time-min=1-00:00:00"),
        ("-p gpu,lomg", "partition-unknown", "no such partition: lomg", "--partition=long"),
    ],
)
def test_what_does_not_fit_is_an_error(options: str, rule: str, because: str, remedy: str) -> None:
    """What no node of the partition has is said with what there is, and the line."""
    errors = [one for one in found(options) if one.severity is Severity.ERROR]
    assert [(one.rule, one.line_no) for one in errors] == [(rule, 2)]
    assert because in errors[0].because
    assert remedy in errors[0].remedy


def test_what_a_site_file_does_not_know_is_a_note() -> None:
    """A partition that is not listed may be there, and a job without one may be routed."""
    partly = replace(SEEN, are_all_listed=False, may_route=True)
    for options in ("-p debug", "-N 99"):
        assert [one.severity for one in found(options, partly)] == [Severity.NOTE]
    assert [one.severity for one in found("-N 99 -p gpu", partly)] == [Severity.ERROR]


def test_nodes_that_may_be_hidden_hold_nothing_back() -> None:
    """Where not all nodes are listed, too few of them are a note; a time limit needs no nodes."""
    some = replace(SEEN, are_nodes_certain=False)
    severities = {one.rule: one.severity for one in found("-N 15 -t 2-0", some)}
    assert severities == {"partition-limit": Severity.ERROR, "node-kind": Severity.NOTE}


def test_nodes_that_are_all_listed_count() -> None:
    """Where the partition's own number is that of the nodes that are listed, none is hidden."""
    rules = PartitionRules(name="gpu", is_default=True, total_nodes=14)
    some = replace(SEEN, partitions=(rules,), are_nodes_certain=False)
    assert [one.severity for one in found("-N 15", some)] == [Severity.ERROR]
    hidden = replace(some, partitions=(replace(rules, total_nodes=20),))
    assert [one.severity for one in found("-N 15", hidden)] == [Severity.NOTE]


def test_a_qos_may_lift_the_limits_of_a_partition() -> None:
    """Beside a QOS a long time is a note."""
    assert [one.severity for one in found("-t 2-0 -q long")] == [Severity.NOTE]


# --- The rules of partitions ---------------------------------------------------------------------

MAIN = PartitionRules(name="main", is_default=True, nodes="n[1-4]", total_nodes=4)


@pytest.mark.parametrize(
    ("in_service", "because", "remedy"),
    [
        (0, "all 4 nodes of partition main are down or drained", "--partition=spare"),
        (1, "3 nodes of partition main are down or drained", "--nodes=1"),
        (2, None, None),
    ],
)
def test_nodes_that_are_out(in_service: int, because: str | None, remedy: str | None) -> None:
    """A job for more nodes than are in service waits, which is told with what would not."""
    spare = PartitionRules(name="spare", nodes="n[1-9]", total_nodes=9)
    counts = {"main": NodesInService(in_service, 4), "spare": NodesInService(9, 9)}
    cluster = Cluster(partitions=(MAIN, spare), in_service=counts)
    told = [(one.severity.value, one.because.partition(": ")[2], one.remedy)
            for one in found("-N 2", cluster)]  # fmt: skip
    assert told == ([("warning", because, remedy)] if because else [])


@pytest.mark.parametrize(
    ("rules", "options", "severity", "because"),
    [
        ({"state": "INACTIVE"}, "", "error", "partition main accepts no jobs (INACTIVE)"),
        ({"state": "DRAIN"}, "", "error", "partition main accepts no jobs (DRAIN)"),
        ({"state": "DOWN"}, "", "warning", "it queues jobs, but starts none"),
        ({"allow": {"Accounts": ("b",)}}, "-A a", "error", "allows only account b, not a"),
        ({"deny": {"Accounts": ("a",)}}, "-A a", "error", "denies account a"),
        ({"allow": {"Qos": ("big",)}}, "-q small", "error", "allows only QOS big, not small"),
        ({"allow": {"Groups": ("admins",)}}, "", "error", "allows only group admins"),
        ({"min_nodes": 3}, "-N 2", "error", "allows at least 3 nodes, not 2"),
        ({"max_nodes": 2}, "-N 3", "error", "allows at most 2 nodes, not 3"),
        ({"max_nodes": 2}, "-N 1-4", "error", "allows at most 2 nodes, not 4"),
        ({"max_cpus_per_node": 4}, "-c 8", "error", "allows 4 CPUs per node, not 8"),
        ({"max_mem_per_node_mib": 1024}, "--mem=2G", "error", "allows 1G per node, not 2G"),
        ({"max_mem_per_node_mib": 1024}, "--mem=0", "warning", "allows 1G per node, not 8G"),
        ({"needs_reservation": True}, "", "error", "accepts only jobs with a reservation"),
        ({"root_only": True}, "", "error", "only root may use partition main"),
        ({}, "-w n[3-5]", "error", "n5 is not in partition main"),
    ],
)
def test_a_rule_of_a_partition(
    rules: dict[str, Any], options: str, severity: str, because: str
) -> None:
    """What a partition does not let in is told, and names another that does."""
    spare = PartitionRules(name="spare", nodes="n[1-9]", total_nodes=9)
    kind = Partition(
        name="main", is_default=True, is_up=True, time_limit_s=None,
        groups=(NodeGroup(nodes=9, cpus=64, mem_mib=8192),),
    )  # fmt: skip
    cluster = Cluster(partitions=(replace(MAIN, **rules), spare), nodes={"main": kind})
    (one,) = found(options, cluster)
    assert (one.severity, because in one.because) == (severity, True), one
    assert found(f"{options} -p spare", cluster) == []


# --- Limits of QOS and associations --------------------------------------------------------------


def limited(
    qos: Limits | None = None,
    own: Limits | None = None,
    account: Limits | None = None,
    **rules: Any,
) -> Cluster:
    """A cluster whose QOS `normal`, user and account have these limits."""
    none = Limits()
    associations = (
        Association(account="root", user=None, partition=None, parent=None, is_default=False,
                    limits=none),
        Association(account="lab", user=None, partition=None, parent="root", is_default=False,
                    limits=account or none),
        Association(account="lab", user="alice", partition=None, parent=None, is_default=True,
                    limits=own or none),
    )  # fmt: skip
    return Cluster(
        partitions=(replace(MAIN, **rules),),
        accounts=AccountRules(
            own=associations[2:],
            accounts={one.account: one for one in associations[:2]},
            qos={"normal": qos or none},
            default_account="lab",
        ),
        enforced=Enforced(associations=True, limits=True, qos=True),
        known_qos=KnownQos(
            seen_s=0.0,
            own=(OwnQos(account="lab", partition=None, qos=("normal",), default_qos="normal"),),
        ),
    )


def tres(key: str, name: str, limit: int, used: int | None = None) -> Limits:
    """One limit of a TRES."""
    return Limits(tres={key: {name: Amount(limit, used)}})


def count(key: str, limit: int, used: int | None = None) -> Limits:
    """One limit of jobs or time."""
    return Limits(counts={key: Amount(limit, used)})


@pytest.mark.parametrize(
    ("limits", "options", "severity", "reason", "remedy"),
    [
        (tres("MaxTRESPJ", "gres/gpu", 4), "--gpus-per-node=8", "error", "QOSMaxGRESPerJob",
         "--gpus-per-node=4"),
        (tres("MaxTRESPJ", "gres/gpu", 8), "-N 2 --gpus-per-node=8", "error", "QOSMaxGRESPerJob",
         "--nodes=1"),
        (tres("MaxTRESPN", "gres/gpu", 2), "-N 2 --gpus-per-node=4", "error", "QOSMaxGRESPerNode",
         "--gpus-per-node=2"),
        (tres("MaxTRESPN", "gres/gpu", 2), "-G 8", "error", "QOSMaxGRESPerNode", "--gpus=2"),
        (tres("MaxTRESPU", "node", 1, 0), "-N 2", "error", "QOSMaxNodePerUserLimit", "--nodes=1"),
        (tres("MaxTRESPU", "node", 2, 1), "-N 2", "warning", "QOSMaxNodePerUserLimit", "other job"),
        (tres("MaxTRESPA", "cpu", 8), "-c 16", "error", "MaxCpuPerAccount", "--cpus-per-task=8"),
        (tres("GrpTRES", "mem", 4096, 0), "--mem=8G", "error", "QOSGrpMemLimit", "--mem=4096M"),
        (tres("MaxTRESMinsPJ", "cpu", 100), "-c 16 -t 60", "error", "QOSMaxCpuMinutesPerJobLimit",
         "--time=00:06:00"),
        (tres("MinTRESPJ", "gres/gpu", 8), "", "error", "QOSMinGRES", ""),
        (tres("MinTRESPJ", "gres/gpu", 8), "-N 1-2 --gres=gpu:2", "error", "QOSMinGRES", ""),
        (tres("GrpTRES", "gres/gpu", 8), "-N 1-2 --gres=gpu:8", "warning", "QOSGrpGRES",
         "--nodes=1"),
        (count("MaxWallPJ", 5), "-t 10", "error", "QOSMaxWallDurationPerJobLimit",
         "--time=00:05:00"),
        (count("MaxJobsPU", 0), "", "error", "QOSMaxJobsPerUserLimit", "another --qos"),
        (count("MaxJobsPU", 2, 2), "", "warning", "QOSMaxJobsPerUserLimit", "ended"),
        (count("MaxSubmitJobsPU", 4, 2), "-a 0-2", "error", "QOSMaxSubmitJobPerUserLimit", ""),
    ],
)  # fmt: skip
def test_a_limit_of_a_qos(
    limits: Limits, options: str, severity: str, reason: str, remedy: str
) -> None:
    """A job over a limit never starts; one over what is left of it waits. Slurm's word is told."""
    (one,) = found(options, limited(limits))
    assert (one.severity, one.because.endswith(f"({reason})")) == (severity, True), one
    assert remedy in one.remedy
    assert found(options, replace(limited(limits), enforced=Enforced())) == []


def test_nodes_that_are_named_all_count() -> None:
    """Without a number the job gets each, and a QOS counts what it has there."""
    (one,) = found("-w n[1-2] --ntasks-per-node=4", limited(tres("MaxTRESPJ", "cpu", 6)))
    assert "not 8 (QOSMaxCpuPerJobLimit)" in one.because


def test_a_partitions_fewest_nodes_count() -> None:
    """A job that names no number gets them, and the fix keeps to them."""
    (one,) = found("--gres=gpu:2", limited(tres("MaxTRESPJ", "gres/gpu", 4), min_nodes=3))
    assert "not 6 (QOSMaxGRESPerJob)" in one.because
    assert one.remedy == "--gres=gpu:1"


def test_a_job_without_a_time_limit() -> None:
    """It has the default of the partition, else the longest of the QOS, or none."""
    (one,) = found("-N 1", limited(count("MaxWallPJ", 5), default_time_s=600))
    assert (one.severity, one.remedy) == (Severity.ERROR, "--time=00:05:00")
    for minutes, rules in ((30, []), (90, ["maintenance"])):
        cluster = replace(limited(count("MaxWallPJ", minutes)), reservations=(MAINT,))
        assert [one.rule for one in found("-N 1", cluster)] == rules


def test_a_job_without_an_end_and_one_that_may_be_shorter() -> None:
    """UNLIMITED is no default; the least time and a later beginning keep clear of maintenance."""
    default: dict[str, Any] = {"default_time_s": 600}
    (one,) = found("-t UNLIMITED", limited(count("MaxWallPJ", 5), **default))
    assert "a time limit of 00:05:00, not UNLIMITED" in one.because
    cluster = replace(limited(**default), reservations=(MAINT,))
    for options, rules in (
        ("-t 0", ["maintenance"]),
        ("-t 1-0 --time-min=0:30:00", []),
        ("-t 1-0 --begin=now+3hours", []),
        ("-t 1-0 --begin=now+10minutes", ["maintenance"]),
        ("-t 1-0 --begin=2001-01-01", ["maintenance"]),
        ("-t 1-0 --begin=teatime", []),
    ):
        assert [one.rule for one in found(options, cluster)] == rules, options


def test_a_qos_overrules_associations_and_accounts_count_for_all() -> None:
    """Of the user the QOS's own limit counts; what an account may have together counts beside."""
    own = tres("MaxTRESPJ", "node", 1)
    assert [one.rule for one in found("-N 2", limited(own=own))] == ["tres-limit"]
    assert found("-N 2", limited(tres("MaxTRESPJ", "node", 3), own=own)) == []
    together = limited(account=tres("GrpTRES", "gres/gpu", 4, 4))
    (one,) = found("--gpus-per-node=2", together)
    assert (one.severity, "account lab" in one.because) == (Severity.WARNING, True)


def test_an_account_or_a_qos_of_somebody_else() -> None:
    """What sbatch would refuse; the user's own are named."""
    assert [one.remedy for one in found("-A other", limited())] == ["--account=lab"]
    assert [one.remedy for one in found("-q high", limited())] == ["--qos=normal"]


# --- Reservations, maintenance, licenses ---------------------------------------------------------

BOBS = Reservation(
    name="bobs", start_s=NOW_S, end_s=NOW_S + HOUR_S, nodes="n4", node_count=1, users=("bob",)
)
OURS = replace(BOBS, name="ours", users=("alice",))
MAINT = replace(
    BOBS, name="maint", start_s=NOW_S + HOUR_S, end_s=NOW_S + 2 * HOUR_S, nodes="n[1-4]",
    users=("root",), flags=("MAINT",),
)  # fmt: skip


@pytest.mark.parametrize(
    ("options", "severity", "because", "remedy"),
    [
        ("--reservation=none", "error", "no such reservation: none", "bobs"),
        ("--reservation=bobs", "error", "reservation bobs is for bob, not alice", "remove"),
        ("--reservation=ours -N 2", "error", "reservation ours has 1 node, not 2", "--nodes=1"),
        ("--reservation=ours -t 2:00:00", "warning", "ends before the job", "--time=01:00:00"),
        ("-t 2:00:00", "warning", "until maintenance maint is over", "--time=00:59:00"),
        ("-N 1", "warning", "until maintenance maint is over", "--time=00:59:00"),
        ("-t 10 -L b", "error", "no such license: b", "one of a"),
        ("-t 10 -L a:5", "error", "the cluster has 4 licenses a, not 5", "--licenses=a:4"),
        ("-t 10 -L a:4", "warning", "3 of 4 licenses a are free", "other jobs have ended"),
    ],
)
def test_reservations_and_licenses(options: str, severity: str, because: str, remedy: str) -> None:
    """What is kept for others, or not there, is told."""
    cluster = Cluster(
        partitions=(MAIN,), reservations=(BOBS, OURS, MAINT), licenses={"a": (4, 3)}
    )  # fmt: skip
    (one,) = found(options, cluster)
    assert (one.severity, because in one.because) == (severity, True), one
    assert remedy in one.remedy


def test_what_was_not_told_is_not_found() -> None:
    """A cluster that tells nothing holds nothing back."""
    assert found("-N 99 -q x -A y --reservation=z -L b", Cluster(), NOBODY) == []


# --- What Slurm takes -----------------------------------------------------------------------------

BIG = KnownQos(
    seen_s=0.0,
    own=(OwnQos(account="lab", partition=None, qos=("normal", "big"), default_qos="normal"),),
    flags={"big": ("OverPartQOS", "PartitionTimeLimit", "PartitionMaxNodes")},
)


def taken(cluster: Cluster, *, nodes: int = 4) -> Cluster:
    """The cluster with nodes of 64 CPUs and 8 GPUs in its partition."""
    kinds = (NodeGroup(nodes=nodes, cpus=64, mem_mib=256_000, gpus=8),)
    main = Partition(name="main", is_default=True, is_up=True, time_limit_s=None, groups=kinds)
    return replace(cluster, nodes={"main": main}, are_accounts_nested=True)


def with_qos(key: str, name: str, amount: int, **rules: Any) -> Cluster:
    """A partition QOS with this limit, and a QOS `big` that goes over it."""
    base = limited(**{**rules, "qos": None})
    main = replace(base.partitions[0], qos="partqos")
    assert base.accounts is not None
    qos = {"partqos": tres(key, name, amount), "big": tres(key, name, 64), "normal": Limits()}
    accounts = replace(base.accounts, qos=qos)
    return replace(base, partitions=(main,), accounts=accounts, known_qos=BIG)


@pytest.mark.parametrize(
    ("options", "cluster"),
    [
        pytest.param("-N 1", limited(allow={"Accounts": ("root",)}), id="an account above"),
        pytest.param("-A LAB -q NORMAL", limited(), id="capital letters"),
        pytest.param("-N 2-8", limited(min_nodes=4), id="a range that the partition raises"),
        pytest.param("-t 10:00", limited(count("GrpWall", 5, 0)), id="GrpWall without safe"),
        pytest.param("--exclusive", limited(tres("MinTRESPJ", "cpu", 32)), id="whole nodes"),
        pytest.param(
            "-N 1-2 --gres=gpu:1", limited(tres("MinTRESPJ", "gres/gpu", 2)), id="a range of nodes"
        ),
        pytest.param("-N 1-4", limited(tres("MaxTRESPU", "node", 1)), id="no more than may be"),
        pytest.param("-N 1-4 -n 2", limited(max_nodes=2), id="no more than there are tasks"),
        pytest.param("-N 1-2 -n 64", limited(tres("MaxTRESPN", "cpu", 32)), id="over all nodes"),
        pytest.param("-n 128", limited(tres("MaxTRESPN", "cpu", 64)), id="nodes of Slurm's choice"),
        pytest.param(
            "-N 1", limited(count("MaxSubmitJobsPA", 1000, 5), own=count("MaxSubmitJobs", 10, 10)),
            id="a QOS that overrules",
        ),
        pytest.param(
            "-q big --gpus-per-node=8", with_qos("MaxTRESPU", "gres/gpu", 4), id="OverPartQOS",
        ),
        pytest.param(
            "-q big -N 3 -t 2-0", with_qos("MaxTRESPU", "gres/gpu", 4, max_nodes=2, max_time_s=60),
            id="a QOS that lifts",
        ),
    ],
)  # fmt: skip
def test_what_slurm_takes_is_not_refused(options: str, cluster: Cluster) -> None:
    """Jobs that look as if a limit was against them, and that Slurm runs."""
    errors = [one for one in found(options, taken(cluster)) if one.severity is Severity.ERROR]
    assert errors == []


def test_a_qos_without_the_flag_lifts_nothing() -> None:
    """The limit of a partition holds for a QOS that is known not to lift it."""
    cluster = with_qos("MaxTRESPU", "gres/gpu", 4, max_time_s=60)
    assert [one.severity for one in found("-q normal -t 2-0", cluster)] == [Severity.ERROR]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("--reservation=gpures -N 2 -t 60", None),
        ("--reservation=root", None),
        ("--reservation=flex -N 4 -t 60", None),
        ("--reservation=small,gpures -N 2 -t 60", None),
        ("--reservation=small -N 2 -t 60", "reservation small has 1 node, not 2"),
    ],
)
def test_a_reservation_is_its_partitions(options: str, error: str | None) -> None:
    """A job goes to the partition of its reservation; accounts below are in; FLEX has more room."""
    gpu = PartitionRules(name="gpu", nodes="n[1-8]", total_nodes=8)
    ours = Reservation(name="gpures", start_s=NOW_S, end_s=NOW_S + 9000, nodes="n[1-2]",
                       node_count=2, partition="gpu")  # fmt: skip
    cluster = limited(max_nodes=1)
    cluster = replace(
        cluster,
        partitions=(*cluster.partitions, gpu),
        reservations=(
            ours,
            replace(ours, name="root", accounts=("root",), partition=None),
            replace(ours, name="flex", flags=("FLEX",)),
            replace(ours, name="small", node_count=1),
        ),
    )
    told = [one.because for one in found(options, cluster) if one.severity is Severity.ERROR]
    assert told == ([] if error is None else [error])


def test_whole_nodes_have_the_memory_of_all_their_cpus() -> None:
    """Memory of a CPU counts for each CPU of a node that a job gets whole."""
    told = found("--exclusive --mem-per-cpu=5G", taken(limited()))
    assert [one.because for one in told] == [
        "nodes of partition main have at most 250G, not 320G",
    ]
    assert found("--mem-per-cpu=5G", taken(limited())) == []


@pytest.mark.parametrize(
    ("options", "key", "name", "limit"),
    [("--exclusive", "MaxTRESPJ", "cpu", 32), ("--exclusive", "MaxTRESPJ", "gres/gpu", 4),
     ("--exclusive", "MaxTRESPJ", "mem", 32_000)],
)  # fmt: skip
def test_whole_nodes_count(options: str, key: str, name: str, limit: int) -> None:
    """A job of whole nodes is counted as all that these have, and the default memory of it."""
    cluster = replace(taken(limited(tres(key, name, limit))), default_mem_per_cpu_mib=1000)
    assert [one.rule for one in found(options, cluster)] == ["tres-limit"]
