"""Slurm's answers: any text gives records or a ParseError, and what is printed is read back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpckit.core.errors import ParseError
from hpckit.core.units import format_slurm_time
from hpckit.slurm.sacct import parse_sacct
from hpckit.slurm.sbatch import SbatchFailure, parse_sbatch, refusal_words, sbatch_failure
from hpckit.slurm.scontrol import parse_scontrol_config, parse_scontrol_job
from hpckit.slurm.squeue import parse_sinfo, parse_squeue
from hpckit.slurm.text import SEPARATOR, array_tasks
from hpckit.slurm.values import JobId, JobRecord, JobState, NodeGroup, Partition, submission_file

Parser = Callable[[str], tuple[JobRecord, ...]]
PARSERS: list[Parser] = [parse_squeue, parse_sacct, parse_scontrol_job]
CLUSTER_PARSERS: list[Callable[[str], object]] = [parse_sinfo, parse_scontrol_config]
SLURM_STATES = [s for s in JobState if s not in (JobState.UNKNOWN, JobState.NOT_SUBMITTED)]
PIECES = [
    *(SEPARATOR, "\n", "4242", "_[1-9:2%3]", "_[", "+1", "RUNNING", "CANCELLED by 1", "0:0", "N/A"),
    *("2026-11-21T06:49:14", "9999-99-99T99:99:99", "JobId=7 JobName=", "JobId=7 ArrayJobId="),
    *(" QOS=q JobState=FAILED Reason=None", " ExitCode=0:9", " StartTime=Unknown", " EndTime=None"),
    *(" NodeList=n1", " Command=", "CLUSTER: a", "Configuration data as of ", "\nMaxArraySize = "),
    *("\nSLURM_VERSION = ", "24.11", "main*\x1fup\x1f", "1-00:00:00\x1f4\x1f64+\x1f1000\x1f"),
    "gpu:a100:8(S:0,1),gpu\x1f",
]
texts = st.text() | st.lists(st.sampled_from(PIECES) | st.text(max_size=3)).map("".join)


@pytest.mark.parametrize("parse", PARSERS)
@given(text=texts)
def test_any_text_gives_records_or_a_parse_error(parse: Parser, text: str) -> None:
    """No text is a surprise to a parser."""
    try:
        records = parse(text)
    except ParseError:
        return
    assert all(isinstance(record, JobRecord) for record in records)


@pytest.mark.parametrize("parse", CLUSTER_PARSERS)
@given(text=texts)
def test_any_text_of_a_cluster(parse: Callable[[str], object], text: str) -> None:
    """No text is a surprise to what reads partitions, a configuration or a version."""
    with suppress(ParseError):
        assert parse(text) is not None


@given(text=texts)
def test_any_text_of_sbatch(text: str) -> None:
    """No text is a surprise to what reads sbatch."""
    assert sbatch_failure(text) in SbatchFailure
    refusal_words(text)
    try:
        job_id, _ = parse_sbatch(text)
    except ParseError:
        return
    assert job_id.isdecimal()


def spelled(time_s: float | None) -> str:
    """A time as Slurm prints it."""
    return "N/A" if time_s is None else datetime.fromtimestamp(time_s, UTC).strftime("%FT%T")


times_s = st.integers(min_value=0, max_value=4_000_000_000).map(float)
names = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
uuids = st.from_regex(r"[0-9a-f]{32}", fullmatch=True)
paths = st.text(st.characters(exclude_characters=SEPARATOR, exclude_categories=["Cs"]))


@st.composite
def job_records(draw: st.DrawFn) -> JobRecord:
    """A record that squeue, sacct and scontrol can all say: with nodes unless it waits."""
    state = draw(st.sampled_from(SLURM_STATES))
    signal = draw(st.none() | st.integers(1, 64))
    submission = draw(st.none() | uuids)
    offset = draw(st.integers(0, 10**6)) if submission else 0
    task = draw(st.none() | st.integers(0, 4_000_000))
    code = 128 + signal if signal else draw(st.integers(1, 255))
    return JobRecord(
        job_id=JobId(str(draw(st.integers(1, 2**31)))),
        task_index=None if task is None else task + offset,
        state=state,
        raw=str(state),
        exit_code=code if state.is_final else None,
        exit_signal=signal if state.is_final else None,
        reason=draw(names) if state.is_waiting else None,
        expected_start_s=draw(st.none() | times_s) if state.is_waiting else None,
        started_s=None if state.is_waiting else draw(times_s),
        ended_s=draw(times_s) if state.is_final else None,
        nodelist=None if state.is_waiting else draw(names),
        submission=submission,
        array_offset=offset,
    )


def words(record: JobRecord, folder: str) -> tuple[str, str, str, str, str, str, str]:
    """Id, state, reason, start, end, nodes and command in Slurm's words."""
    start_s = record.started_s if record.expected_start_s is None else record.expected_start_s
    script = "x.sh"
    if record.submission is not None:
        script = submission_file(record.submission, record.array_offset)
    return (
        record.slurm_id,
        record.raw,
        record.reason or "None",
        spelled(start_s),
        spelled(record.ended_s),
        record.nodelist or "",
        f"/{folder}/{script}",
    )


def exit_words(record: JobRecord) -> str:
    """Code and signal as Slurm prints them."""
    if record.exit_signal is not None:
        return f"0:{record.exit_signal}"
    return f"{record.exit_code or 0}:0"


def without_codes(records: Sequence[JobRecord]) -> list[JobRecord]:
    """The records without the exit codes, which squeue does not print."""
    return [replace(record, exit_code=None, exit_signal=None) for record in records]


@given(st.lists(job_records()), paths)
def test_squeue_is_read_back(records: list[JobRecord], folder: str) -> None:
    """parse(format(records)) is the records, whatever the path holds."""
    text = "".join(SEPARATOR.join(words(record, folder)) + "\n" for record in records)
    if "CLUSTER:" not in folder:
        assert list(parse_squeue(text)) == without_codes(records)


@given(st.lists(job_records()), paths)
def test_sacct_is_read_back(records: list[JobRecord], folder: str) -> None:
    """parse(format(records)) is the records, whatever the submit line holds."""
    lines = []
    for record in records:
        job, state, reason, start, end, nodes, command = words(record, folder)
        fields = (job, state, exit_words(record), start, end, nodes, reason, f"sbatch {command}")
        lines.append(SEPARATOR.join(fields) + "\n")
    assert parse_sacct("".join(lines)) == tuple(records)


@given(st.lists(job_records()), paths, paths)
def test_scontrol_is_read_back(records: list[JobRecord], name: str, folder: str) -> None:
    """parse(format(records)) is the records, whatever the job's name and path hold."""
    keys = ("JobId=", "JobState=", " SubmitLine=", " WorkDir=")
    if any(key in name + folder for key in keys):
        return
    lines = []
    for record in records:
        job, state, reason, start, end, nodes, command = words(record, folder)
        task = None if record.task_index is None else record.task_index - record.array_offset
        array = "" if task is None else f"ArrayJobId={record.job_id} ArrayTaskId={task} "
        lines.append(
            f"JobId={job.split('_')[0]} {array}JobName={name} UserId=a(1) Account=a QOS=q "
            f"JobState={state} Reason={reason} Dependency=(null) ExitCode={exit_words(record)} "
            f"StartTime={start} EndTime={end} ReqNodeList=(null) NodeList={nodes} "
            f"Command={command} WorkDir=/{folder}\n"
        )
    assert parse_scontrol_job("".join(lines)) == tuple(records)


@given(st.lists(st.integers(0, 10_000), min_size=1, unique=True))
def test_a_list_of_tasks_is_read_back(indexes: list[int]) -> None:
    """parse(format(indexes)) is the indexes."""
    assert array_tasks(",".join(map(str, indexes)) + "%7]") == tuple(indexes)


names_of_gpus = st.from_regex(r"[a-z0-9]{1,4}[a-z._][a-z0-9]{0,3}", fullmatch=True)


@st.composite
def node_groups(draw: st.DrawFn) -> NodeGroup:
    """Nodes as sinfo can say them: a type of GPU only where there are GPUs."""
    types = draw(st.lists(names_of_gpus, unique=True, max_size=3))
    return NodeGroup(
        nodes=draw(st.integers(1, 20_000)),
        cpus=draw(st.integers(1, 1024)),
        mem_mib=draw(st.integers(1, 2**24)),
        gpus=draw(st.integers(len(types), 16)),
        gpu_types=tuple(types),
        features=tuple(draw(st.lists(names, unique=True, max_size=3))),
    )


@st.composite
def partitions(draw: st.DrawFn) -> Partition:
    """A partition with or without nodes and a limit."""
    return Partition(
        name=draw(names),
        is_default=draw(st.booleans()),
        is_up=draw(st.booleans()),
        time_limit_s=draw(st.none() | st.integers(1, 3650 * 86400)),
        groups=tuple(draw(st.lists(node_groups(), min_size=1, max_size=4))),
    )


def gres(group: NodeGroup) -> str:
    """GPUs as Slurm prints them, one of each type but the last."""
    if not group.gpu_types:
        return f"gpu:{group.gpus}(S:0,2-3)" if group.gpus else "nvme:1"
    *few, many = group.gpu_types
    return ",".join(
        [f"gpu:{name}:1(S:0-1)" for name in few] + [f"gpu:{many}:{group.gpus - len(few)}"]
    )


@given(st.lists(partitions(), max_size=4, unique_by=lambda partition: partition.name))
def test_sinfo_is_read_back(listed: list[Partition]) -> None:
    """parse(format(partitions)) is the partitions, each with its nodes."""
    lines = [
        SEPARATOR.join(
            (
                partition.name + "*" * partition.is_default,
                "up" if partition.is_up else "drain",
                "infinite"
                if partition.time_limit_s is None
                else format_slurm_time(partition.time_limit_s),
                f"{group.nodes}",
                f"{group.cpus}",
                f"{group.mem_mib}+",
                gres(group),
                ",".join(group.features) or "(null)",
            )
        )
        for partition in listed
        for group in partition.groups
    ]
    assert parse_sinfo("\n".join(lines)) == tuple(listed)
