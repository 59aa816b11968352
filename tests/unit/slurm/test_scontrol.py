"""The answers of scontrol."""

from __future__ import annotations

import pytest

from hpckit.core.errors import ParseError
from hpckit.slurm.scontrol import (
    parse_mpi_types,
    parse_scontrol_config,
    parse_scontrol_job,
    scontrol_config_argv,
    scontrol_job_argv,
)
from hpckit.slurm.values import JobId, JobState, SlurmConfig, SlurmVersion
from tests.fakes.slurm_records import UUID, job, record_text, tasks

VERSIONS = ["scontrol-job-22.05.8", "scontrol-job-24.11.5", "scontrol-job-26.05.5"]


def test_the_question() -> None:
    """The question is for one job's text, a line a record."""
    assert scontrol_job_argv(JobId("7"), None) == ("scontrol", "--oneliner", "show", "job", "7")
    assert "--clusters=north" in scontrol_job_argv(JobId("7"), "north")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_failed_job_has_its_code(version: str) -> None:
    """The controller knows the code as long as it knows the job."""
    (record,) = parse_scontrol_job(record_text(version, "failed"))
    assert (record.state, record.reason) == (JobState.FAILED, "NonZeroExitCode")
    assert (record.exit_code, record.exit_signal) == (7, None)
    assert record.ended_s is not None


@pytest.mark.parametrize("version", [VERSIONS[0], VERSIONS[2]])
def test_a_signal_is_told(version: str) -> None:
    """A script that was killed has 128+N and N."""
    (record,) = parse_scontrol_job(record_text(version, "signal"))
    assert (record.exit_code, record.exit_signal, record.submission) == (137, 9, None)


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_a_timeout_ended_by_a_signal(version: str) -> None:
    """The controller knows the signal that ended a script at its limit; sacct does not."""
    (record,) = parse_scontrol_job(record_text(version, "timeout"))
    assert (record.state, record.exit_signal) == (JobState.TIMEOUT, 15)


@pytest.mark.parametrize(("version", "array"), list(zip(VERSIONS, ("9", "16", "10"), strict=True)))
def test_each_task_of_an_array_is_a_record(version: str, array: str) -> None:
    """Tasks have the array's id, not the one Slurm keeps for each, and the same script."""
    records = parse_scontrol_job(record_text(version, "array"))
    assert sorted(map(str, tasks(records, array))) == [str(index) for index in range(8)]
    assert {record.submission for record in records} == {UUID}


@pytest.mark.parametrize(("version", "array"), list(zip(VERSIONS, ("10", "17", "11"), strict=True)))
def test_tasks_that_wait_are_told_apart(version: str, array: str) -> None:
    """Tasks that scontrol lists as one are one record each."""
    records = parse_scontrol_job(record_text(version, "array-pending"))
    assert tasks(records, array) == [5, 8, 11, 14, 17]


@pytest.mark.parametrize("version", VERSIONS)
def test_newlines_in_arguments_and_paths(version: str) -> None:
    """Whatever a path or an argument holds, it is one record."""
    (record,) = parse_scontrol_job(record_text(version, "newlines"))
    assert (record.state, record.task_index) == (JobState.RUNNING, None)


def test_a_name_is_no_key() -> None:
    """A job's name may read like the keys that follow it."""
    text = record_text("scontrol-job-24.11.5", "failed")
    forged = text.replace(
        "JobName=ok.sh", "JobName=x JobState=COMPLETED Reason=None ExitCode=0:0 Command=/a"
    )
    assert parse_scontrol_job(forged) == parse_scontrol_job(text)


@pytest.mark.parametrize(("version", "named"), list(zip(VERSIONS[1:], ("19", "13"), strict=True)))
def test_quotes_pipes_and_newlines_in_a_name(version: str, named: str) -> None:
    """A name of any characters is passed over."""
    (record,) = parse_scontrol_job(record_text(version, "name"))
    assert (record.job_id, record.state) == (named, JobState.RUNNING)


def test_an_argument_is_no_submission() -> None:
    """26.05 prints the submit line after the script: what it names is not what was submitted."""
    text = record_text("scontrol-job-26.05.5", "failed")
    assert " SubmitLine=sbatch --parsable -o /dev/null ok.sh 1 7 WorkDir=" in text
    named = text.replace("ok.sh 1 7", f"ok.sh submission-{UUID}.sbatch")
    assert parse_scontrol_job(named) == parse_scontrol_job(text)


@pytest.mark.parametrize(
    ("version", "leader"), list(zip(VERSIONS, ("16", "23", "17"), strict=True))
)
def test_components_of_a_heterogeneous_job_keep_their_ids(version: str, leader: str) -> None:
    """A component is a job of its own, with the leader's id and its offset."""
    records = parse_scontrol_job(record_text(version, "heterogeneous"))
    assert [record.job_id for record in records] == [f"{leader}+0", f"{leader}+1"]


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_a_job_that_was_cancelled_while_it_waited(version: str) -> None:
    """Without a node there was no start, whatever Slurm prints."""
    (record,) = parse_scontrol_job(record_text(version, "cancelled-pending"))
    assert (record.state, record.started_s, record.exit_code) == (JobState.CANCELLED, None, None)
    assert record.reason == "JobHeldUser"


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_a_requeued_job_waits_again(version: str) -> None:
    """The start of a job that waits again is the expected one."""
    (record,) = parse_scontrol_job(record_text(version, "requeued"))
    assert record.state is JobState.PENDING
    assert record.expected_start_s is not None
    assert record.started_s is None


@pytest.mark.parametrize("text", ["", "\n", "No jobs in the system\n", "Job 4242_3 not found\n"])
def test_no_job_is_no_record(text: str) -> None:
    """Slurm's words for no job are no records."""
    assert parse_scontrol_job(text) == ()


def test_a_version_without_the_command_is_understood() -> None:
    """The command may be missing: then the job is nobody's submission."""
    text = record_text("scontrol-job-24.11.5", "array").split("\n", 1)[0]
    without = text[: text.index(" Command=")]
    assert job(parse_scontrol_job(without), "16", 7).submission is None


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("JobId=8 ", "Job 8 ", "not a job"),
        (" JobState=", " State=", "has no state"),
        (" NodeList=", " Nodes=", "NodeList is missing"),
        (" ExitCode=7:0", " ExitCode=7", "exit code"),
        ("JobId=8 ", "JobId=8 ArrayJobId=8 ", "ArrayTaskId is missing"),
    ],
)
def test_what_is_not_understood_is_an_error(old: str, new: str, says: str) -> None:
    """The error says which part is missing."""
    text = record_text("scontrol-job-24.11.5", "failed")
    assert old in text
    with pytest.raises(ParseError, match=says):
        parse_scontrol_job(text.replace(old, new))


CONFIG_VERSIONS = {
    "scontrol-config-22.05.8": (SlurmVersion(22, 5, 8), 101),
    "scontrol-config-24.11.5": (SlurmVersion(24, 11, 5), 1001),
    "scontrol-config-26.05.5": (SlurmVersion(26, 5, 5), 101),
}
HEADING = "Configuration data as of 2026-11-21T09:59:57\n"


def test_the_question_of_configuration() -> None:
    """The question names the cluster only where there are several."""
    assert scontrol_config_argv(None) == ("scontrol", "show", "config")
    assert "--clusters=north" in scontrol_config_argv("north")


@pytest.mark.parametrize("version", CONFIG_VERSIONS)
def test_each_version_gives_one_record(version: str) -> None:
    """Whatever else a version prints, what hpckit asks for is the same."""
    assert parse_scontrol_config(record_text(version, "docker")) == SlurmConfig(
        default_mem_per_cpu_mib=1000,
        version=CONFIG_VERSIONS[version][0],
        cluster_name="hpckit",
        max_array_size=CONFIG_VERSIONS[version][1],
        topology_plugin="topology/tree",
        enforces=("associations", "limits", "qos"),
    )


def test_plugins_of_mpi() -> None:
    """As srun of each release lists them; releases of PMIx, in words, are not among them."""
    modern = "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\nspecific pmix versions: pmix_v5\n"
    assert parse_mpi_types(modern) == ("none", "pmi2", "pmix")
    assert parse_mpi_types("srun: error: Couldn't load\n") == ()


def test_a_missing_key_is_none() -> None:
    """A version that prints none of the keys is understood."""
    assert parse_scontrol_config(HEADING + "SomethingNew = 7\n\nSlurmctld(primary) at a is UP") == (
        SlurmConfig()
    )


def test_values_are_kept_as_written() -> None:
    """A plugin that hpckit does not know is its name; a value may hold an equals sign."""
    config = parse_scontrol_config(
        f"{HEADING}TopologyPlugin = topology/new\nClusterName = b=c\nMaxArraySize = (null)\n"
    )
    assert (config.topology_plugin, config.cluster_name) == ("topology/new", "b=c")
    assert config.max_array_size is None


def test_the_sections_of_plugins_are_passed_over() -> None:
    """What follows the first empty line is not the cluster's own."""
    config = parse_scontrol_config(f"{HEADING}ClusterName = a\n\nMPI\nClusterName = b\nbanner\n")
    assert config.cluster_name == "a"


@pytest.mark.parametrize(
    ("text", "line_no"),
    [
        ("", 1),
        ("MaxArraySize = 1001\n", 1),
        (HEADING + "banner\n", 2),
        (HEADING + "\n".join(("MaxArraySize = many", "")), 2),
        (HEADING + "ClusterName = a\nSLURM_VERSION = new\n", 3),
    ],
)
def test_what_is_not_understood_is_an_error_of_configuration(text: str, line_no: int) -> None:
    """The error names the line."""
    with pytest.raises(ParseError) as caught:
        parse_scontrol_config(text)
    assert (caught.value.tool, caught.value.line_no) == ("scontrol show config", line_no)
