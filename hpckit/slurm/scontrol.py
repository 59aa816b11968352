"""scontrol show job: what the controller knows of one job, its exit code too."""

from __future__ import annotations

import re
from itertools import pairwise

from hpckit.slurm.text import JobWords, Place, job_records, of_cluster, slurm_version, value
from hpckit.slurm.values import JobId, JobRecord, SlurmConfig

_SHOW_CONFIG = "scontrol show config"
_HEADING = "Configuration data as of "
_NUMBER = re.compile(r"\d{1,10}", re.ASCII)


def scontrol_config_argv(cluster: str | None) -> tuple[str, ...]:
    """The question: the configuration that slurmctld runs with.

    As text in every version: 24.11 takes `--json` and prints text all the same. Source:
    scontrol(1), "show config".
    """
    return ("scontrol", *of_cluster(cluster), "show", "config")


def parse_scontrol_config(text: str) -> SlurmConfig:
    """The answer to `scontrol_config_argv`; keys that hpckit has no use for are left out.

    Read up to the first empty line, as the sections of plugins follow it. Raises ParseError for a
    text that is no configuration and for a value that is not what its key promises.
    """
    said: dict[str, tuple[str, Place]] = {}
    for line_no, line in enumerate(text.split("\n"), start=1):
        place = Place(_SHOW_CONFIG, line_no, line)
        if line_no == 1 and not line.startswith(_HEADING):
            raise place.refuse("is no configuration", f"{_HEADING}…")
        if not line.strip():
            break
        key, equals, word = line.partition("=")
        if equals:
            said.setdefault(key.strip(), (word.strip(), place))
        elif line_no > 1:
            raise place.refuse("is no setting", "a key and a value such as MaxArraySize = 1001")
    words = {key: value(word) for key, (word, _) in said.items()}
    energy = words.get("AcctGatherEnergyType")
    return SlurmConfig(
        version=slurm_version(*said["SLURM_VERSION"]) if words.get("SLURM_VERSION") else None,
        cluster_name=words.get("ClusterName"),
        max_array_size=_number("MaxArraySize", said),
        topology_plugin=words.get("TopologyPlugin"),
        # 22.05 writes `none` where later versions write (null).
        energy_plugin=None if energy == "acct_gather_energy/none" else energy,
        mpi_default=words.get("MpiDefault"),
    )


def _number(key: str, said: dict[str, tuple[str, Place]]) -> int | None:
    if key not in said or value(said[key][0]) is None:
        return None
    word, place = said[key]
    if _NUMBER.fullmatch(word) is None:
        raise place.refuse(f"{key} is no number", f"{key} = 1001")
    return int(word)


_SHOW_JOB = "scontrol show job"
_BEGINS = re.compile(r"^JobId=\d+ (?=(?:ArrayJobId|HetJobId|JobName)=)", re.ASCII | re.MULTILINE)
_IDS = re.compile(r"(JobId|ArrayJobId|ArrayTaskId|HetJobId|HetJobOffset)=(\S+)")
# A job's name may read like any of the keys; what follows it does not: QOS, perhaps WCKey, state.
_STATE = re.compile(r" QOS=\S*(?: WCKey=\S*)? JobState=(\S+) Reason=(\S*)")
_AFTER_COMMAND = re.compile(r" (?:SubmitLine|WorkDir)=")
# Printed to stdout where there is nothing to show.
_NO_JOB = re.compile(r"No jobs in the system|Job \S+ not found")


def scontrol_job_argv(job_id: JobId, cluster: str | None) -> tuple[str, ...]:
    """The question: one job, all tasks of an array; text, as JSON lists every core of every node.

    The answer is read with `TZ=UTC` in scontrol's environment. Source: scontrol(1), "show job",
    "--oneliner"; the JSON of one job on 1024 nodes is 12 MB.
    """
    return ("scontrol", "--oneliner", *of_cluster(cluster), "show", "job", job_id)


def parse_scontrol_job(text: str) -> tuple[JobRecord, ...]:
    """The answer to `scontrol_job_argv`: a record a job, a task or a component, in its order.

    Raises ParseError for a text without the keys that every version prints.
    """
    begins = [match.start() for match in _BEGINS.finditer(text)]
    before = text[: begins[0]] if begins else text
    if before.strip() and _NO_JOB.fullmatch(before.strip()) is None:
        raise Place(_SHOW_JOB, 1, before.lstrip().split("\n", 1)[0]).refuse(
            "is no job", "JobId=… JobName=…"
        )
    records: list[JobRecord] = []
    for begin, end in pairwise([*begins, len(text)]):
        line = text[begin:end]
        place = Place(_SHOW_JOB, text.count("\n", 0, begin) + 1, line.split("\n", 1)[0])
        records += job_records(_words(line, place), place)
    return tuple(records)


def _words(line: str, place: Place) -> JobWords:
    state = _STATE.search(line)
    if state is None:
        raise place.refuse("has no state", "QOS=… JobState=… Reason=…")
    position = state.end()
    said: dict[str, str] = {}
    # In the order of info_job.c, each after the one before: nothing between them is free text.
    for key in ("ExitCode", "StartTime", "EndTime", "NodeList"):
        begin = line.find(f" {key}=", position)
        if begin < 0:
            raise place.refuse(f"has no {key}", "the keys of scontrol show job in their order")
        position = begin + len(key) + 2
        said[key] = re.split(r"\s", line[position:], maxsplit=1)[0]
    return JobWords(
        job=_job(line, place),
        state=state[1],
        reason=state[2],
        start=said["StartTime"],
        end=said["EndTime"],
        nodelist=said["NodeList"],
        command=_command(line[position:]),
        exit_code=said["ExitCode"],
    )


def _job(line: str, place: Place) -> str:
    ids = dict(_IDS.findall(line.split("JobName=", 1)[0]))
    if "HetJobId" in ids and "HetJobOffset" in ids:
        return f"{ids['HetJobId']}+{ids['HetJobOffset']}"
    if "ArrayJobId" not in ids:
        return str(ids["JobId"])
    tasks = ids.get("ArrayTaskId")
    if tasks is None:
        raise place.refuse("has no ArrayTaskId", "ArrayJobId=… ArrayTaskId=…")
    return f"{ids['ArrayJobId']}_{tasks}" if tasks.isdecimal() else f"{ids['ArrayJobId']}_[{tasks}]"


def _command(rest: str) -> str:
    """The script that was submitted: a path with anything in it, up to the key that follows.

    That is WorkDir, or SubmitLine from 26.05 on, which may name any other script as well.
    """
    _, found, command = rest.partition(" Command=")
    return _AFTER_COMMAND.split(command, maxsplit=1)[0] if found else ""
