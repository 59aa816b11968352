"""scontrol show: the configuration, one job, partitions' rules, reservations and licenses.

And what srun lists of the configuration itself: its MPI plugins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from hpckit.core.late import regex
from hpckit.core.units import parse_slurm_limit_s
from hpckit.slurm.text import (
    JobWords,
    Place,
    job_records,
    of_cluster,
    slurm_version,
    time_s,
    value,
)
from hpckit.slurm.values import JobId, JobRecord, PartitionRules, Reservation, SlurmConfig

_SHOW_CONFIG = "scontrol show config"
_HEADING = "Configuration data as of "
_MPI_TYPE = regex(r"\s+[a-z][a-z0-9_]*", re.ASCII)
_NUMBER = regex(r"\d{1,10}", re.ASCII)


def scontrol_config_argv(cluster: str | None) -> tuple[str, ...]:
    """The question: the configuration that slurmctld runs with.

    As text in every version: 24.11 takes `--json` and prints text all the same. Source:
    scontrol(1), "show config".
    """
    return ("scontrol", *of_cluster(cluster), "show", "config")


def _mib(word: str | None) -> int | None:
    return int(word) if word and word.isdecimal() else None


def parse_scontrol_config(text: str) -> SlurmConfig:
    """The answer to `scontrol_config_argv`; keys that hpckit has no use for are left out.

    Read up to the first empty line, as the sections of plugins follow it. Raises ParseError for a
    text that is no configuration and for a value that is not what its key promises.
    """
    said: dict[str, tuple[str, Place]] = {}
    for line_no, line in enumerate(text.split("\n"), start=1):
        place = Place(_SHOW_CONFIG, line_no, line)
        if line_no == 1 and not line.startswith(_HEADING):
            raise place.refuse("not a Slurm configuration", f"{_HEADING}…")
        if not line.strip():
            break
        key, equals, word = line.partition("=")
        if equals:
            said.setdefault(key.strip(), (word.strip(), place))
        elif line_no > 1:
            raise place.refuse("not a setting", "a key and a value such as MaxArraySize = 1001")
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
        enforces=_names(words.get("AccountingStorageEnforce") or ""),
        job_submit_plugins=words.get("JobSubmitPlugins"),
        default_mem_per_cpu_mib=_mib(words.get("DefMemPerCPU")),
        default_mem_per_node_mib=_mib(words.get("DefMemPerNode")),
    )


def mpi_types_argv() -> tuple[str, ...]:
    """The question: the MPI plugins of this host. Source: srun(1), --mpi."""
    return ("srun", "--mpi=list")


def parse_mpi_types(text: str) -> tuple[str, ...]:
    """The answer to `mpi_types_argv`: a plugin an indented line; nothing for any other text."""
    return tuple(line.strip() for line in text.split("\n") if _MPI_TYPE.fullmatch(line))


def step_options_argv() -> tuple[str, ...]:
    """The question: srun's options on this host, those of its plugins too. Source: spank(7)."""
    return ("srun", "--help")


def parse_has_pyxis(text: str) -> bool:
    """Return whether srun knows Pyxis's options, which it does where the plugin is loaded."""
    return "--container-image" in text


def _number(key: str, said: dict[str, tuple[str, Place]]) -> int | None:
    if key not in said or value(said[key][0]) is None:
        return None
    word, place = said[key]
    if _NUMBER.fullmatch(word) is None:
        raise place.refuse(f"{key} is not a number", f"{key} = 1001")
    return int(word)


_SHOW_JOB = "scontrol show job"
_BEGINS = regex(r"^JobId=\d+ (?=(?:ArrayJobId|HetJobId|JobName)=)", re.ASCII | re.MULTILINE)
_IDS = regex(r"(JobId|ArrayJobId|ArrayTaskId|HetJobId|HetJobOffset)=(\S+)")
# A job's name may read like any of the keys; what follows it does not: QOS, perhaps WCKey, state.
_STATE = regex(r" QOS=\S*(?: WCKey=\S*)? JobState=(\S+) Reason=(\S*)")
_AFTER_COMMAND = regex(r" (?:SubmitLine|WorkDir)=")
# Printed to stdout where there is nothing to show.
_NO_JOB = regex(r"No jobs in the system|Job \S+ not found")


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
            "not a job", "JobId=… JobName=…"
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
        raise place.refuse("the job has no state", "QOS=… JobState=… Reason=…")
    position = state.end()
    said: dict[str, str] = {}
    # In the order of info_job.c, each after the one before: nothing between them is free text.
    for key in ("ExitCode", "StartTime", "EndTime", "NodeList"):
        begin = line.find(f" {key}=", position)
        if begin < 0:
            raise place.refuse(
                f"{key} is missing", "the keys of scontrol show job in their usual order"
            )
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
        raise place.refuse("ArrayTaskId is missing", "ArrayJobId=… ArrayTaskId=…")
    return f"{ids['ArrayJobId']}_{tasks}" if tasks.isdecimal() else f"{ids['ArrayJobId']}_[{tasks}]"


def _command(rest: str) -> str:
    """The script that was submitted: a path with anything in it, up to the key that follows.

    That is WorkDir, or SubmitLine from 26.05 on, which may name any other script as well.
    """
    _, found, command = rest.partition(" Command=")
    return _AFTER_COMMAND.split(command, maxsplit=1)[0] if found else ""


_PARTITION = regex(r"PartitionName=(\S+) ")
_RESERVATION = regex(r"ReservationName=(\S+) ")
_LICENSE = regex(r"LicenseName=(\S+) +Total=(\d{1,9}) Used=(\d{1,9}) Free=(\d{1,9})", re.ASCII)
_WORD = regex(r"(?:^| )([A-Za-z]+)=(\S*)")


def show_argv(what: str, cluster: str | None) -> tuple[str, ...]:
    """The question for all of `partition`, `reservation` or `licenses`, a line each.

    Source: scontrol(1), "show ENTITY", "--oneliner"; the text is that of 22.05 to 26.05.
    """
    return ("scontrol", "--oneliner", "--all", *of_cluster(cluster), "show", what)


def parse_partitions(text: str) -> tuple[PartitionRules, ...]:
    """The answer for `partition`. Raises ParseError for a line that is none."""
    rules = []
    for place, words in _lines("partition", _PARTITION, "PartitionName=…", text):
        rules.append(
            PartitionRules(
                name=words["PartitionName"],
                is_default=words.get("Default") == "YES",
                state=words.get("State", "UNKNOWN"),
                qos=value(words.get("QoS", "")),
                allow={
                    what: _names(words[f"Allow{what}"])
                    for what in ("Accounts", "Qos", "Groups")
                    if words.get(f"Allow{what}", "ALL") != "ALL"
                },
                deny={
                    what: _names(words[f"Deny{what}"])
                    for what in ("Accounts", "Qos")
                    if f"Deny{what}" in words
                },
                min_nodes=_count(words, "MinNodes", place) or 0,
                max_nodes=_count(words, "MaxNodes", place),
                max_time_s=_limit_s(words.get("MaxTime", ""), place),
                default_time_s=_limit_s(words.get("DefaultTime", ""), place),
                max_cpus_per_node=_count(words, "MaxCPUsPerNode", place),
                max_mem_per_node_mib=_count(words, "MaxMemPerNode", place),
                default_mem_per_node_mib=_count(words, "DefMemPerNode", place),
                default_mem_per_cpu_mib=_count(words, "DefMemPerCPU", place),
                is_exclusive=words.get("OverSubscribe") == "EXCLUSIVE"
                or words.get("Exclusive") in ("NODE", "TOPO"),
                needs_reservation=words.get("ReqResv") == "YES",
                root_only=words.get("RootOnly") == "YES",
                nodes=value(words.get("Nodes", "")),
                total_nodes=_count(words, "TotalNodes", place) or 0,
            )
        )
    return tuple(rules)


def parse_reservations(text: str) -> tuple[Reservation, ...]:
    """The answer for `reservation`, read with `TZ=UTC`; none where there are none.

    Raises ParseError for a line that is none, and for no line at all.
    """
    reservations = []
    for place, words in _lines("reservation", _RESERVATION, "ReservationName=…", text):
        reservations.append(
            Reservation(
                name=words["ReservationName"],
                start_s=time_s(words.get("StartTime", ""), place),
                end_s=time_s(words.get("EndTime", ""), place),
                nodes=value(words.get("Nodes", "")),
                node_count=_count(words, "NodeCnt", place) or 0,
                flags=_names(words.get("Flags", "")),
                partition=value(words.get("PartitionName", "")),
                users=_names(words.get("Users", "")),
                groups=_names(words.get("Groups", "")),
                accounts=_names(words.get("Accounts", "")),
            )
        )
    return tuple(reservations)


def parse_licenses(text: str) -> dict[str, tuple[int, int]]:
    """The answer for `licenses`: by name all there are, and how many are free.

    Raises ParseError for an answer without a line.
    """
    if not text.strip():
        raise Place("scontrol show licenses", 1, text).refuse("no output", "LicenseName=…")
    return {
        match[1]: (int(match[2]), int(match[4]))
        for match in map(_LICENSE.match, text.split("\n"))
        if match
    }


def _lines(
    what: str, begins: re.Pattern[str], expected: str, text: str
) -> Iterator[tuple[Place, dict[str, str]]]:
    if not text.strip():
        raise Place(f"scontrol show {what}", 1, text).refuse("no output", expected)
    for line_no, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.startswith("No "):
            continue
        place = Place(f"scontrol show {what}", line_no, line)
        if begins.match(line) is None:
            raise place.refuse(f"not a {what}", expected)
        words: dict[str, str] = {}
        for key, word in _WORD.findall(line):
            words.setdefault(key, word)
        yield place, words


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in (value(text) or "").split(",") if name)


def _count(words: dict[str, str], key: str, place: Place) -> int | None:
    word = value(words.get(key, ""))
    if word is None or word in ("UNLIMITED", "INFINITE"):
        return None
    if _NUMBER.fullmatch(word) is None:
        raise place.refuse(f"{key} is not a number", f"{key}=4 or {key}=UNLIMITED")
    return int(word)


def _limit_s(word: str, place: Place) -> int | None:
    if value(word) is None or word in ("UNLIMITED", "NONE", "INFINITE"):
        return None
    try:
        return parse_slurm_limit_s(word)
    except ValueError as error:
        raise place.refuse(f"{word!r} is not a time limit", "1-00:00:00 or UNLIMITED") from error
