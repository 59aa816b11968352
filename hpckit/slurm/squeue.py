"""squeue: the jobs that the controller still knows, and when those that wait are to start."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from hpckit.core.late import regex
from hpckit.core.units import parse_slurm_limit_s
from hpckit.slurm.text import (
    SEPARATOR,
    JobWords,
    Place,
    job_records,
    of_cluster,
    rows,
    time_s,
    value,
)
from hpckit.slurm.values import (
    JobRecord,
    NodeGroup,
    NodesInService,
    Partition,
    PlannedJob,
    SlurmNode,
)

# %i id with the array task, %T state, %r reason, %S start, %e end, %N nodes, %o command.
# `--format` (one letter a field) has no field for the restarts.
_FIELDS: Final = ("%i", "%T", "%r", "%S", "%e", "%N", "%o")
# `-M` puts a heading before each cluster's jobs unless there is --noheader (squeue.c).
_HEADING = regex(r"CLUSTER: \S+")


def squeue_argv(cluster: str | None) -> tuple[str, ...]:
    """The question: all of the caller's own jobs. `-M` needs slurmdbd.

    The answer is read with `TZ=UTC`, `LC_ALL=C` and `SLURM_BITSTR_LEN=0` in squeue's environment,
    and without the caller's SLURM_TIME_FORMAT and SQUEUE_*, which filter. The tasks of an array
    that wait stay folded: --array loses the last one of a stepped range (22.05.8). Source:
    squeue(1), "OPTIONS", "OUTPUT FORMAT SPECIFICATION", "INPUT ENVIRONMENT VARIABLES".
    """
    return (
        "squeue",
        "--me",
        "--noheader",
        "--states=all",
        *of_cluster(cluster),
        f"--format={SEPARATOR.join(_FIELDS)}",
    )


def parse_squeue(text: str) -> tuple[JobRecord, ...]:
    """The answer to `squeue_argv`, in its order; jobs that ended stay for MinJobAge (300 s).

    It has no exit codes. 22.05 adds the script's arguments to its path, later versions do not.
    Raises ParseError for a line that is not understood.
    """
    lines = ("" if _HEADING.fullmatch(line) else line for line in text.split("\n"))
    return tuple(
        record
        for place, words in rows("\n".join(lines), "squeue", _FIELDS)
        for record in job_records(JobWords(*words), place)
    )


def _lines(
    text: str, tool: str, count: int, refused: tuple[str, str]
) -> Iterator[tuple[Place, list[str]]]:
    """Return each line that is not blank as its fields; another number of them is refused."""
    for line_no, line in enumerate(text.split("\n"), start=1):
        if not line.strip(" ") or _HEADING.fullmatch(line):
            continue
        place, fields = Place(tool, line_no, line), line.split(SEPARATOR)
        if len(fields) != count:
            raise place.refuse(*refused)
        yield place, fields


# %P partition, with an asterisk at the default one; %a availability, %l time limit; then of nodes
# that are alike: %D how many, %c CPUs, %m memory in MiB, %G generic resources, %f features.
_SINFO_FIELDS: Final = ("%P", "%a", "%l", "%D", "%c", "%m", "%G", "%f")
_NUMBER = regex(r"(\d{1,15})\+?", re.ASCII)
# A comma inside parentheses is between sockets, as in gpu:h100:8(S:0,2).
_NOTE = regex(r"\([^()]*\)")
_COUNT = regex(r"\d{1,9}", re.ASCII)
_NULL: Final = "(null)"


def sinfo_argv(cluster: str | None) -> tuple[str, ...]:
    """The question: every partition, with one line for all of its nodes that are alike.

    So the answer for 9,984 nodes is as short as that for four. `--exact` puts nodes with other
    CPUs or memory on lines of their own (`64+` otherwise); features and generic resources always
    do. It is asked without the caller's SINFO_*, which filter. Source: sinfo(1), "OPTIONS";
    sinfo.c, `_match_node_data`.
    """
    return (
        "sinfo",
        "--noheader",
        "--all",
        "--exact",
        "--noconvert",
        *of_cluster(cluster),
        f"--format={SEPARATOR.join(_SINFO_FIELDS)}",
    )


def parse_sinfo(text: str) -> tuple[Partition, ...]:
    """The answer to `sinfo_argv`, in its order, a partition once with all its kinds of nodes.

    Raises ParseError for a line that is not understood.
    """
    partitions: dict[str, Partition] = {}
    expected = f"{len(_SINFO_FIELDS)} fields: {', '.join(_SINFO_FIELDS)}"
    refused = ("not a partition", expected)
    for place, fields in _lines(text, "sinfo", len(_SINFO_FIELDS), refused):
        partition = _partition(fields, place)
        seen = partitions.get(partition.name)
        if seen is not None:
            partition = replace(seen, groups=seen.groups + partition.groups)
        partitions[partition.name] = partition
    return tuple(partitions.values())


# %S when a waiting job is to start, %l its time limit, %Y on which nodes.
_PLANNED: Final = ("%S", "%l", "%Y")


def planned_argv(cluster: str | None) -> tuple[str, ...]:
    """The question: all jobs that wait and for which nodes are planned. Source: squeue(1)."""
    return (
        *("squeue", "--noheader", "--states=PENDING", "--start", *of_cluster(cluster)),
        f"--format={SEPARATOR.join(_PLANNED)}",
    )


def parse_planned(text: str) -> tuple[PlannedJob, ...]:
    """The answer to `planned_argv`, read with `TZ=UTC`; without those that are not planned yet.

    Raises ParseError.
    """
    planned = []
    refused = ("not a planned job", "a start, a time limit and nodes")
    for place, fields in _lines(text, "squeue", len(_PLANNED), refused):
        start_s, nodes = time_s(fields[0].strip(), place), value(fields[2].strip())
        if start_s is not None and nodes is not None:
            planned.append(PlannedJob(start_s, _limit_s(fields[1], place), nodes))
    return tuple(planned)


# %R partition; %F nodes allocated/idle/other/total, where "other" are down or drained.
_IN_SERVICE: Final = ("%R", "%F")
_SLASHED = regex(r"/".join([r"(\d{1,9})"] * 4), re.ASCII)


def in_service_argv(cluster: str | None) -> tuple[str, ...]:
    """The question: a line a partition with how many nodes may take jobs. Source: sinfo(1)."""
    return (
        *("sinfo", "--noheader", "--all", "--noconvert", *of_cluster(cluster)),
        f"--format={SEPARATOR.join(_IN_SERVICE)}",
    )


def parse_in_service(text: str) -> dict[str, NodesInService]:
    """The answer to `in_service_argv` by partition. Raises ParseError."""
    counts: dict[str, NodesInService] = {}
    refused = ("not a node count", "a partition and allocated/idle/other/total")
    for place, fields in _lines(text, "sinfo", len(_IN_SERVICE), refused):
        match = _SLASHED.fullmatch(fields[1].strip())
        if match is None:
            raise place.refuse(*refused)
        allocated, idle, _, total = map(int, match.groups())
        counts[fields[0].strip()] = NodesInService(allocated + idle, total)
    return counts


def _partition(fields: list[str], place: Place) -> Partition:
    name, availability, limit = fields[0].strip(), fields[1].strip(), fields[2]
    if not name.removesuffix("*"):
        raise place.refuse("the name is missing", "a partition's name")
    group = _group(fields[3:], place)
    return Partition(
        name=name.removesuffix("*"),
        is_default=name.endswith("*"),
        is_up=availability == "up",
        time_limit_s=_limit_s(limit, place),
        groups=(group,) if group.nodes else (),
    )


def _limit_s(text: str, place: Place) -> int | None:
    said = value(text)
    if said is None or said in ("infinite", "UNLIMITED"):
        return None
    try:
        return parse_slurm_limit_s(said)
    except ValueError as error:
        raise place.refuse(f"{said!r} is not a time limit", "1-00:00:00 or infinite") from error


def _group(fields: list[str], place: Place) -> NodeGroup:
    nodes, cpus, mem_mib = (_number(text, place) for text in fields[:3])
    gpus, gpu_types = gpus_of_gres(fields[3], place)
    features = fields[4].strip()
    return NodeGroup(
        nodes=nodes,
        cpus=cpus,
        mem_mib=mem_mib,
        gpus=gpus,
        gpu_types=gpu_types,
        features=() if features in ("", _NULL) else tuple(features.split(",")),
    )


def _number(text: str, place: Place) -> int:
    """A number; `64+` is the least of several."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise place.refuse(f"{text!r} is not a number", "a number such as 64")
    return int(match[1])


def gpus_of_gres(text: str, place: Place) -> tuple[int, tuple[str, ...]]:
    """How many GPUs a node has and their types, from `gpu:a100:4(S:0-1),gpu:mig:2,nvme:1`.

    Raises ParseError.
    """
    count = 0
    types: list[str] = []
    for part in _NOTE.sub("", text.strip()).split(","):
        kind, *more = part.split(":")
        words = [word for word in more if word != "no_consume"]
        if kind != "gpu":
            continue
        count += int(words.pop()) if words and _COUNT.fullmatch(words[-1]) else 1
        if len(words) > 1:
            raise place.refuse(f"{part!r} is not a GPU", "gpu:TYPE:COUNT")
        types += words
    return count, tuple(dict.fromkeys(types))


# NVIDIA's names of MIG profiles, which gres.conf takes as types: 1g.10gb, 3g.20gb+me.
_MIG: Final = regex(r"\d+g\.\d+gb", re.ASCII | re.IGNORECASE)
_NODE_FIELDS: Final = ("%N", "%T", "%G")
# sinfo(1), "NODE STATE CODES": what may stand after a state; `*` is a node that does not respond.
_FLAGS: Final = "*~#!%$@^-+"
_ASLEEP: Final = frozenset("~%")


def hostnames_argv(nodelist: str) -> tuple[str, ...]:
    """The question for the names in a list, one a line; nobody but scontrol itself is asked."""
    return ("scontrol", "show", "hostnames", nodelist)


def sinfo_nodes_argv(nodelist: str | None) -> tuple[str, ...]:
    """The question: a line for each of these nodes, or all, once for each of its partitions."""
    return (
        "sinfo",
        "--noheader",
        "--all",
        "--Node",
        *(() if nodelist is None else (f"--nodes={nodelist}",)),
        f"--format={SEPARATOR.join(_NODE_FIELDS)}",
    )


def parse_sinfo_nodes(text: str) -> tuple[SlurmNode, ...]:
    """The nodes, each once, in sinfo's order. Raises ParseError for what is no node."""
    nodes: dict[str, SlurmNode] = {}
    refused = ("not a node", f"{len(_NODE_FIELDS)} fields: {', '.join(_NODE_FIELDS)}")
    for place, fields in _lines(text, "sinfo", len(_NODE_FIELDS), refused):
        name, state, gres = map(str.strip, fields)
        if not name:
            raise place.refuse(*refused)
        count, types = gpus_of_gres(gres, place)
        nodes[name] = SlurmNode(
            name=name,
            state=state.rstrip(_FLAGS).lower(),
            gpus=count,
            has_mig=any(_MIG.search(one) for one in types),
            is_responding="*" not in state,
            is_powered_off=not _ASLEEP.isdisjoint(state),
        )
    return tuple(nodes.values())


def squeue_nodes_argv(job_id: str) -> tuple[str, ...]:
    """The question for the nodes of a job: each of its parts with its state and its node list."""
    fields = SEPARATOR.join(("%i", "%T", "%N"))
    return ("squeue", "--noheader", f"--jobs={job_id}", f"--format={fields}")


def parse_squeue_nodes(text: str) -> tuple[tuple[str, str, str], ...]:
    """Id, state and node list, empty where there is none yet, of each part of a job.

    A part is a task of an array (`7_1`) or a component of a heterogeneous job (`7+1`); any other
    job is one. Raises ParseError for anything else.
    """
    refused = ("not a job", "a job ID, a state and a node list")
    return tuple(
        (fields[0].strip(), fields[1].strip(), fields[2].strip())
        for _, fields in _lines(text, "squeue", 3, refused)
    )
