"""The answers of squeue and sinfo."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hpckit.core.errors import ParseError
from hpckit.slurm.squeue import (
    parse_in_service,
    parse_planned,
    parse_sinfo,
    parse_sinfo_nodes,
    parse_squeue,
    parse_squeue_nodes,
    sinfo_argv,
    squeue_argv,
)
from hpckit.slurm.text import SEPARATOR
from hpckit.slurm.values import JobState, NodeGroup, Partition, PlannedJob, SlurmNode
from tests.fakes.slurm_records import UUID, job, record_text, tasks

VERSIONS = ["squeue-22.05.8", "squeue-24.11.5", "squeue-26.05.5"]
LINE = SEPARATOR.join(("4242", "RUNNING", "None", "N/A", "N/A", "n1", "/a b/job.sbatch"))


def utc_s(text: str) -> float:
    """Seconds since the epoch of a time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_the_question() -> None:
    """One question is for the caller's own jobs in every state, on one cluster."""
    fields = "--format=%i\x1f%T\x1f%r\x1f%S\x1f%e\x1f%N\x1f%o"
    asked = ("squeue", "--me", "--noheader", "--states=all")
    assert squeue_argv("north") == (*asked, "--clusters=north", fields)
    assert squeue_argv(None) == (*asked, fields)


def test_a_job_that_waits_22_05() -> None:
    """A waiting job has its expected start and reason, no start and no end."""
    waiting = job(parse_squeue(record_text("squeue-22.05.8", "jobs")), "6")
    assert (waiting.state, waiting.reason) == (JobState.PENDING, "Resources")
    assert waiting.expected_start_s == utc_s("2026-11-22T06:49:20")
    assert (waiting.started_s, waiting.ended_s, waiting.nodelist) == (None, None, None)
    assert waiting.submission == UUID


def test_a_job_that_runs_22_05() -> None:
    """The end of a running job is its limit's, so it is not taken."""
    running = job(parse_squeue(record_text("squeue-22.05.8", "jobs")), "3")
    assert (running.state, running.reason, running.nodelist) == (JobState.RUNNING, None, "n1")
    assert (running.started_s, running.ended_s) == (utc_s("2026-11-21T06:49:14"), None)


@pytest.mark.parametrize(("version", "failed"), list(zip(VERSIONS, ("2", "8", "2"), strict=True)))
def test_a_job_that_failed(version: str, failed: str) -> None:
    """A failed job has both times and Slurm's word; its code is not in squeue."""
    record = job(parse_squeue(record_text(version, "jobs")), failed)
    assert (record.state, record.reason) == (JobState.FAILED, "NonZeroExitCode")
    assert record.started_s is not None
    assert record.ended_s is not None
    assert record.exit_code is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_job_that_never_had_a_node_never_started(version: str) -> None:
    """Slurm prints a start for a job that was refused; without nodes it is none."""
    records = [
        r for r in parse_squeue(record_text(version, "jobs")) if r.reason == "BadConstraints"
    ]
    assert records
    assert {(r.state, r.started_s, r.nodelist) for r in records} == {(JobState.FAILED, None, None)}


@pytest.mark.parametrize(
    ("version", "array", "count"),
    [(VERSIONS[0], "9", 8), (VERSIONS[1], "16", 8), (VERSIONS[2], "10", 8)],
)
def test_each_task_of_an_array_is_a_record(version: str, array: str, count: int) -> None:
    """Tasks that ended and tasks that wait have the array's id and their own index."""
    records = parse_squeue(record_text(version, "jobs"))
    assert sorted(map(str, tasks(records, array))) == [str(index) for index in range(count)]


def test_collapsed_tasks_are_told_apart() -> None:
    """Tasks that squeue lists as one are one record each."""
    assert tasks(parse_squeue(record_text("squeue-26.05.5", "jobs")), "11") == [5, 8, 11, 14, 17]
    records = parse_squeue(record_text("squeue-22.05.8", "arrays-collapsed"))
    assert tasks(records, "10") == [5, 8, 11, 14, 17]
    assert tasks(records, "11") == list(range(0, 61, 2))
    assert tasks(records, "9")[4:] == [4, 5, 6, 7]


def test_a_list_of_tasks_that_is_cut_short_is_one_record() -> None:
    """Tasks that cannot be told apart are one record without an index."""
    for cut in ("4242_[1,3,...]", "4242_[1,3,5,7,9,11,13,15,17,1"):
        assert tasks(parse_squeue(LINE.replace("4242", cut)), "4242") == [None]


@pytest.mark.parametrize(
    ("version", "leader"), list(zip(VERSIONS, ("16", "23", "17"), strict=True))
)
def test_components_of_a_heterogeneous_job_keep_their_ids(version: str, leader: str) -> None:
    """A component is a job of its own."""
    records = parse_squeue(record_text(version, "jobs"))
    nodes = [job(records, f"{leader}+{component}").nodelist for component in (0, 1)]
    assert nodes in (["n1", "n2"], ["c1", "c2"], ["c2", "c3"])


def test_an_argument_may_hold_a_newline() -> None:
    """A line that begins no record belongs to the command before it."""
    records = parse_squeue(record_text("squeue-22.05.8", "jobs"))
    assert [r.job_id for r in records].count(job(records, "13").job_id) == 1
    assert len(records) == 32


def test_a_requeued_job_waits_again() -> None:
    """A requeued job has no start until it runs again."""
    (held,) = parse_squeue(record_text("squeue-22.05.8", "requeued-held"))
    (again,) = parse_squeue(record_text("squeue-24.11.5", "requeued"))
    (latest,) = parse_squeue(record_text("squeue-26.05.5", "requeued"))
    assert (latest.reason, latest.started_s) == ("BeginTime", None)
    assert latest.expected_start_s == utc_s("2026-11-21T10:16:13")
    assert (held.state, held.reason) == (JobState.PENDING, "job requeued in held state")
    assert (again.reason, again.started_s) == ("BeginTime", None)
    assert again.expected_start_s == utc_s("2026-11-21T06:52:44")


def test_a_clusters_heading_is_no_job() -> None:
    """The heading of `-M` is understood."""
    assert len(parse_squeue(f"CLUSTER: north\n{LINE}\n\nCLUSTER: south\n{LINE}\n")) == 2


def test_a_word_of_a_later_version_is_kept() -> None:
    """A state that is not known is UNKNOWN, with the word."""
    (record,) = parse_squeue(LINE.replace("RUNNING", "BRAND_NEW"))
    assert (record.state, record.raw) == (JobState.UNKNOWN, "BRAND_NEW")


@pytest.mark.parametrize(
    ("text", "line_no"),
    [
        ("job 7 will be charged\n" + LINE, 1),
        (LINE + "\n" + LINE.replace("4242", "job"), 2),
        (LINE.replace("N/A", "soon"), 1),
        ("\n" + LINE.replace("4242", "0"), 2),
        (LINE.replace("4242", "4242.batch"), 1),
    ],
)
def test_what_is_not_understood_is_an_error(text: str, line_no: int) -> None:
    """The error names the line."""
    with pytest.raises(ParseError) as caught:
        parse_squeue(text)
    assert (caught.value.tool, caught.value.line_no) == ("squeue", line_no)


SINFO_VERSIONS = ["sinfo-22.05.8", "sinfo-24.11.5", "sinfo-26.05.5"]
SINFO_LINE = SEPARATOR.join(
    ("main*", "up", "1-00:00:00", "4", "64", "1000000", "gpu:h100:8(S:0-1)", "(null)")
)


def partition(text: str, name: str) -> Partition:
    """The one partition of that name."""
    (found,) = (p for p in parse_sinfo(text) if p.name == name)
    return found


def test_nodes_in_service() -> None:
    """Nodes that are down or drained are not in service; the rest may take jobs."""
    text = SEPARATOR.join(("main", "9/1/2/12")) + "\n" + SEPARATOR.join(("b", "0/0/4/4")) + "\n"
    assert parse_in_service(text) == {"main": (10, 12), "b": (0, 4)}
    with pytest.raises(ParseError):
        parse_in_service(text.replace("0/0/4/4", "0/0/4"))


def test_jobs_that_are_planned() -> None:
    """Of the jobs that wait those count for which nodes are planned."""
    rows = [("2026-11-27T22:19:07", "30:00", "c[1-2]"), ("N/A", "1:00:00", "(null)"),
            ("2026-11-27T22:20:00", "UNLIMITED", "c3")]  # fmt: skip
    text = "".join(f"{SEPARATOR.join(row)}\n" for row in rows)
    assert parse_planned(text) == (
        *(PlannedJob(1795817947.0, 1800, "c[1-2]"), PlannedJob(1795818000.0, None, "c3")),
    )


def test_the_question_of_sinfo() -> None:
    """One line for nodes that are alike, never one a node, and no heading."""
    argv = sinfo_argv("north")
    assert argv[0] == "sinfo"
    assert {"--noheader", "--exact", "--clusters=north"} <= set(argv)
    assert "--Node" not in argv
    assert not any("%N" in word for word in argv)
    assert not any("--clusters" in word for word in sinfo_argv(None))


@pytest.mark.parametrize("version", SINFO_VERSIONS)
def test_a_partition_once_with_all_its_kinds_of_nodes(version: str) -> None:
    """Nodes with other features are a group of their own in the one partition."""
    text = record_text(version, "docker")
    assert [p.name for p in parse_sinfo(text)] == ["main", "debug", "empty", "inf"]
    main = partition(text, "main")
    assert (main.is_default, main.is_up, main.time_limit_s) == (True, True, 86400)
    assert {(g.nodes, g.features) for g in main.groups} == {
        (2, ()),
        (1, ("nvlink", "ib")),
        (1, ("nvlink",)),
    }


@pytest.mark.parametrize("version", SINFO_VERSIONS)
def test_what_nodes_have(version: str) -> None:
    """CPUs, memory and GPUs are a node's, the count is of nodes."""
    assert partition(record_text(version, "docker"), "debug").groups == (
        NodeGroup(nodes=2, cpus=64, mem_mib=1_000_000, gpus=8, gpu_types=("h100",)),
    )


@pytest.mark.parametrize("version", SINFO_VERSIONS)
def test_a_partition_without_nodes_or_limit(version: str) -> None:
    """No nodes are no group, no limit is None; one that drains takes no jobs."""
    text = record_text(version, "docker")
    empty, drained = partition(text, "empty"), partition(text, "inf")
    assert (empty.groups, empty.time_limit_s, empty.is_default) == ((), None, False)
    assert (drained.is_up, drained.time_limit_s) == (False, None)


def test_kinds_of_generic_resources() -> None:
    """GPUs are counted whatever their type, their sockets and the resources beside them."""
    text = record_text("sinfo-24.11.5", "synthetic-kinds")
    kinds = {p.name: [(g.gpus, g.gpu_types) for g in p.groups] for p in parse_sinfo(text)}
    assert kinds == {
        "small": [(0, ()), (8, ())],
        "mixed": [(13, ("a100", "1g.10gb"))],
        "named": [(1, ("gh200",))],
        "all": [(8, ("h100",))],
    }


def test_the_least_of_several() -> None:
    """`64+` stands for several numbers, of which each node has the least."""
    group = partition(record_text("sinfo-24.11.5", "synthetic-kinds"), "small").groups[1]
    assert (group.cpus, group.mem_mib, group.features) == (64, 512_000, ("a100", "ib"))


def test_limits_and_availability() -> None:
    """No limit has three names; only `up` is up."""
    text = record_text("sinfo-24.11.5", "synthetic-kinds")
    assert {p.name: (p.is_up, p.time_limit_s) for p in parse_sinfo(text)} == {
        "small": (True, 1800),
        "mixed": (False, None),
        "named": (False, 2 * 86400),
        "all": (True, None),
    }


@pytest.mark.parametrize(("limit", "seconds"), [("0:00", 0), ("9999-00:00:00", 9999 * 86400)])
def test_a_partition_may_have_any_limit(limit: str, seconds: int) -> None:
    """What no job should ask for can still be a partition's: Slurm prints what it was told."""
    text = record_text("sinfo-24.11.5", "synthetic-kinds").replace("2-00:00:00", limit)
    assert partition(text, "named").time_limit_s == seconds


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("64", "many"),
        ("main*", "*"),
        ("1-00:00:00", "soon"),
        ("gpu:h100:8", "gpu:h100:fast:8"),
        (SEPARATOR, "|"),
    ],
)
def test_what_is_not_understood_is_an_error_of_sinfo(old: str, new: str) -> None:
    """The error names the line."""
    with pytest.raises(ParseError) as caught:
        parse_sinfo(SINFO_LINE + "\n" + SINFO_LINE.replace(old, new))
    assert (caught.value.tool, caught.value.line_no) == ("sinfo", 2)


def line(*fields: str) -> str:
    """A line as the commands print it."""
    return SEPARATOR.join(fields) + "\n"


def test_a_node_of_two_partitions_is_one_node() -> None:
    """A node that sinfo lists once for each of its partitions is read once."""
    text = line("c1", "idle", "gpu:h100:8(S:0-1)") * 2
    assert parse_sinfo_nodes(text) == (SlurmNode(name="c1", state="idle", gpus=8),)


def test_an_asterisk_is_a_node_that_does_not_respond() -> None:
    """`down*` is the state down, of a node that slurmctld cannot reach."""
    (node,) = parse_sinfo_nodes(line("c1", "down*", "(null)"))
    assert (node.state, node.is_responding, node.gpus) == ("down", False, 0)


@pytest.mark.parametrize(("state", "is_off"), [("idle~", True), ("idle%", True), ("idle#", False)])
def test_a_node_that_sleeps_is_told(state: str, *, is_off: bool) -> None:
    """`~` is powered off, `%` on the way there, `#` on the way back. Source: sinfo(1)."""
    (node,) = parse_sinfo_nodes(line("c1", state, "(null)"))
    assert (node.state, node.is_powered_off) == ("idle", is_off)


def test_a_line_without_its_fields_is_refused() -> None:
    """A line that is no node raises ParseError with its number."""
    with pytest.raises(ParseError, match="line 2"):
        parse_sinfo_nodes(line("c1", "idle", "") + "c2\n")


def test_a_job_gives_its_state_and_nodes() -> None:
    """The line of a job is its id, its state and its node list."""
    assert parse_squeue_nodes(line("7", "RUNNING", "c[1-2]")) == (("7", "RUNNING", "c[1-2]"),)


def test_a_job_that_is_gone_has_no_state() -> None:
    """No line is a job that squeue does not hold; half a line is none."""
    assert parse_squeue_nodes("\n") == ()
    with pytest.raises(ParseError, match="line 1"):
        parse_squeue_nodes(line("7", "RUNNING"))


def test_parts_of_gpus_are_told_apart_from_gpus() -> None:
    """A gres whose type is a MIG profile counts parts of GPUs."""
    (node,) = parse_sinfo_nodes(line("c1", "idle", "gpu:3g.20gb:16"))
    assert (node.gpus, node.has_mig) == (16, True)
