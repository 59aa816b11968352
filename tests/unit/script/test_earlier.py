"""What would start a job earlier."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpckit.script.earlier import Earlier, changes, earlier, is_taken, own_hosts
from hpckit.script.live import Cluster, User
from hpckit.slurm.accounts import KnownQos, OwnQos
from hpckit.slurm.request import read_request
from hpckit.slurm.sbatch import ExpectedStart
from hpckit.slurm.values import PartitionRules, PlannedJob, Reservation

NOW_S = 1_800_000_000.0
ALICE = User(name="alice")
MAIN = PartitionRules(name="main", is_default=True, nodes="n[1-8]", total_nodes=8)
SHORT = PartitionRules(name="short", max_time_s=3600, nodes="n[2-9]", total_nodes=8)
DOWN = PartitionRules(name="down", state="DOWN")
CLUSTER = Cluster(partitions=(MAIN, SHORT, DOWN))


def tried(options: str, cluster: Cluster = CLUSTER) -> list[str]:
    """The changes that are tried of a script with these options, in their order."""
    request = read_request(f"#!/bin/bash\n#SBATCH {options}\n")
    return [word for words in changes(request, cluster, ALICE, NOW_S) for word in words]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("-t 30 -N 4", ["--time=00:15:00", "--partition=short", "--nodes=2"]),
        ("-t 4:00:00", ["--time=02:00:00", "--time=01:00:00"]),
        ("-t 10", ["--partition=short"]),
        ("-N 4 -n 16 -t 12", ["--partition=short"]),
        ("-p short -t 10", ["--partition=main"]),
    ],
)
def test_what_asks_for_less_or_for_elsewhere(options: str, words: list[str]) -> None:
    """Each kind in turn; nothing that a limit is against, and no time below ten minutes."""
    assert tried(options) == words


def test_a_partition_of_the_same_nodes() -> None:
    """A partition that has no other node is not tried."""
    same = PartitionRules(name="same", nodes="n[1-4]", total_nodes=4)
    cluster = replace(CLUSTER, partitions=(MAIN, same))
    assert "--partition=same" not in tried("-t 10", cluster)
    request = read_request("#!/bin/bash\n#SBATCH -p main,same\n")
    assert len(own_hosts(request, cluster)) == 8


def test_before_maintenance_and_by_another_qos() -> None:
    """A job that would end before maintenance, and a QOS that the user may use."""
    maintenance = Reservation(
        name="m", start_s=NOW_S + 7200, end_s=NOW_S + 9000, nodes="n[1-8]", flags=("MAINT",)
    )
    own = OwnQos(account="hpc", partition=None, qos=("normal", "high"), default_qos="normal")
    cluster = replace(
        CLUSTER, reservations=(maintenance,), known_qos=KnownQos(seen_s=NOW_S, own=(own,))
    )
    assert tried("-t 4:00:00 -A hpc", cluster)[0] == "--time=01:59:00"
    assert "--qos=high" in tried("-t 20 -A hpc", cluster)


def test_the_three_that_gain_most() -> None:
    """The earliest starts first; what gains less than a minute is left out."""
    starts = {(): 900.0, ("a",): 30.0, ("b",): 890.0, ("c",): 10.0, ("d",): None, ("e",): 20.0,
              ("f",): 15.0}  # fmt: skip
    words = [one for one in starts if one]
    assert earlier(starts.get, words, 0.0, 9) == (
        900.0,
        (Earlier(words=("c",), start_s=10.0), Earlier(words=("f",), start_s=15.0),
         Earlier(words=("e",), start_s=20.0)),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("start_s", "time_s", "is_it"),
    [(0, 99, False), (0, 101, True), (0, None, True), (150, 10, True), (200, 10, False)],
)
def test_nodes_that_are_planned_for_others(start_s: int, time_s: int | None, is_it: bool) -> None:
    """A start counts for nothing where a job that waits gets one of the nodes before the end."""
    start = ExpectedStart(start_s, "n[1-2]", None)
    planned = [PlannedJob(100, 100, "n[2-4]"), PlannedJob(0, None, "n9")]
    assert is_taken(start, time_s, planned) is is_it


def test_how_often_slurm_is_asked() -> None:
    """No more questions than are allowed, and one alone for a job that starts now."""
    asked: list[tuple[str, ...]] = []

    def expected_s(words: tuple[str, ...]) -> float:
        asked.append(words)
        return 900.0

    earlier(expected_s, [("a",)] * 20, 0.0, 8)
    assert len(asked) == 8
    asked.clear()
    assert earlier(expected_s, [("a",)] * 20, 880.0, 8) == (900.0, ())
    assert asked == [()]
