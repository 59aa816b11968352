"""What Slurm says of limits: associations, QOS, partitions, reservations, licenses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hpckit.core.errors import ParseError
from hpckit.slurm.accounts import (
    Amount,
    KnownQos,
    assoc_mgr_argv,
    parse_assoc_mgr,
    parse_own_qos,
    parse_qos,
    with_unused,
)
from hpckit.slurm.sbatch import parse_test_only
from hpckit.slurm.scontrol import parse_licenses, parse_partitions, parse_reservations
from tests.fakes.slurm_records import record_text

RELEASES = ["22.05.8", "24.11.5", "26.05.5"]
each_release = pytest.mark.parametrize("release", RELEASES)
USED = (
    "Current Association Manager state\n"
    "QOS=gpu(2) GrpTRES=gres/gpu=8(6) MaxWallPJ=90 Account Limits=hpc={MaxJobsPA=9(1)} "
    "User Limits=bob(7)={MaxTRESPU=gres/gpu=4(4)} alice(1001)={MaxJobsPU=3(2) "
    "MaxTRESPU=cpu=N(64),mem=4096(0),gres/gpu=4(1)}\n"
)


@each_release
def test_associations(release: str) -> None:
    """The user's own limits, those of the accounts above, and the default account."""
    rules = parse_assoc_mgr(record_text(f"scontrol-limits-{release}", "assoc-mgr"), "alice")
    assert rules.default_account == "proj1"
    assert [one.account for one in rules.chain("leaf", "main")] == ["leaf", "leaf", "deep", "root"]
    poor = rules.chain("poor", "main")[0]
    assert (poor.user, poor.limits.tres) == ("alice", {"MaxTRESPJ": {"cpu": Amount(2)}})
    assert poor.limits.counts == {"MaxWallPJ": Amount(7)}
    deep = rules.chain("leaf", "main")[2]
    assert deep.limits.tres == {"GrpTRES": {"gres/gpu": Amount(4, 0)}}
    assert rules.chain("nobody", "main") == ()
    assert rules.qos["wall"].counts == {"MaxWallPJ": Amount(5)}


def test_use_of_a_qos_is_the_users_own() -> None:
    """Of a QOS the use of this user and this account counts, and no limit is not a limit."""
    limits = parse_assoc_mgr(USED, "alice", "hpc").qos["gpu"]
    assert limits.tres["GrpTRES"] == {"gres/gpu": Amount(8, 6)}
    assert limits.tres["MaxTRESPU"] == {"mem": Amount(4096, 0), "gres/gpu": Amount(4, 1)}
    assert (limits.counts["MaxJobsPU"], limits.counts["MaxJobsPA"]) == (Amount(3, 2), Amount(9, 1))


@each_release
def test_a_qos_that_nobody_has_used(release: str) -> None:
    """Slurmdbd tells the limits for a user that slurmctld does not show yet."""
    tool = f"sacctmgr-limits-{release}"
    limits, flags = parse_qos(record_text(tool, "qos"))
    own = parse_own_qos(record_text(tool, "own"))
    rules = parse_assoc_mgr(record_text(f"scontrol-limits-{release}", "assoc-mgr"), "alice")
    both = with_unused(rules, KnownQos(seen_s=0, own=own, limits=limits, flags=flags))
    assert both.qos["pu"].tres["MaxTRESPU"] == {"node": Amount(1, 0)}
    assert both.qos["sub2"].counts["MaxSubmitJobsPU"] == Amount(2, 0)
    assert flags["gpu4-deny"] == ("DenyOnLimit",)
    assert {one.account for one in own} == {"leaf", "poor", "proj1", "proj2"}


@each_release
def test_partitions(release: str) -> None:
    """Each line has its rules, where no limit is None."""
    rules = {
        one.name: one
        for one in parse_partitions(record_text(f"scontrol-limits-{release}", "partition"))
    }
    assert rules["acct"].allow == {"Accounts": ("other",)}
    assert rules["denyacct"].deny == {"Accounts": ("proj1",)}
    assert (rules["pqos"].qos, rules["acct"].qos) == ("pq", None)
    assert (rules["maxn"].max_nodes, rules["acct"].max_nodes) == (2, None)
    assert (rules["short"].max_time_s, rules["acct"].max_time_s) == (300, None)
    assert (rules["cpun"].max_cpus_per_node, rules["memn"].max_mem_per_node_mib) == (4, 1000)
    assert [name for name, one in rules.items() if one.is_exclusive] == ["excl"]
    assert [name for name, one in rules.items() if one.needs_reservation] == ["resv"]
    assert [one.state for one in rules.values() if one.state != "UP"] == [
        *("INACTIVE", "DOWN", "DRAIN"),
    ]


@each_release
def test_reservations_and_licenses(release: str) -> None:
    """Whose they are and when, and what is free."""
    tool = f"scontrol-limits-{release}"
    bobs, alices, maint = parse_reservations(record_text(tool, "reservation"))
    assert (bobs.users, alices.node_count, maint.nodes) == (("bob",), 1, "c[1-4]")
    assert "MAINT" in maint.flags
    assert maint.end_s is not None and maint.start_s is not None
    assert maint.end_s - maint.start_s == 3600
    assert parse_licenses(record_text(tool, "licenses")) == {"ansys": (1, 1), "matlab": (4, 4)}


def test_none_are_told_as_none() -> None:
    """A cluster without any says so in words."""
    assert parse_reservations("No reservations in the system\n") == ()
    assert parse_licenses("No licenses configured in Slurm.\n") == {}


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_partitions, "slurm_load_partitions: error\n"),
        (parse_partitions, "PartitionName=a MaxNodes=many\n"),
        (parse_reservations, "ReservationName=a StartTime=soon\n"),
        (parse_own_qos, "hpc|normal\n"),
        (parse_qos, "gpu||gres/gpu=lots|||||\n"),
        (lambda text: parse_assoc_mgr(text, "alice"), "slurm_load_assoc_mgr_info: error\n"),
        (lambda text: parse_assoc_mgr(text, "alice"), USED.replace("=8(6)", "=8(6")),
    ],
)
def test_anything_else_is_refused(parse: Callable[[str], object], text: str) -> None:
    """An answer that is none is refused with its place."""
    with pytest.raises(ParseError) as refused:
        parse(text)
    assert refused.value.line_no is not None


def test_the_question_names_the_user() -> None:
    """Associations of this user alone are asked for, on the cluster that is named."""
    assert assoc_mgr_argv("alice", "north")[-3:] == (
        *("assoc_mgr", "users=alice", "flags=users,assoc,qos"),
    )
    assert "--clusters=north" in assoc_mgr_argv("alice", "north")


@pytest.mark.parametrize(
    "text",
    [
        "sbatch: Job 7 to start at 2026-11-21T11:13:27 using 4 processors on nodes c[1-4] in "
        "partition main",
        "sbatch: Job 7 to start at 2026-11-21T11:13:27 a using 4 processors on c[1-4]",
    ],
)
def test_an_expected_start(text: str) -> None:
    """`sbatch --test-only` says when and where, on every release."""
    start = parse_test_only(text)
    assert start is not None
    assert (start.start_s, start.nodes) == (1795259607.0, "c[1-4]")
    assert parse_test_only("allocation failure: Requested node configuration") is None
