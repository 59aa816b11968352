"""sinfo: the partitions of a cluster and the kinds of nodes in them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from hpckit.model.cluster import NodeGroup, Partition
from hpckit.parse.slurm_text import SEPARATOR, Place, value
from hpckit.units import parse_slurm_limit_s

# %P partition, with an asterisk at the default one; %a availability, %l time limit; then of nodes
# that are alike: %D how many, %c CPUs, %m memory in MiB, %G generic resources, %f features.
_FIELDS: Final = ("%P", "%a", "%l", "%D", "%c", "%m", "%G", "%f")
_HEADING = re.compile(r"CLUSTER: \S+")
_NUMBER = re.compile(r"(\d{1,15})\+?", re.ASCII)
# A comma inside parentheses is between sockets, as in gpu:h100:8(S:0,2).
_NOTE = re.compile(r"\([^()]*\)")
_COUNT = re.compile(r"\d{1,9}", re.ASCII)
_NULL: Final = "(null)"


def sinfo_argv(cluster: str | None) -> tuple[str, ...]:
    """The question: every partition, with one line for all of its nodes that are alike.

    So the answer for 9,984 nodes is as short as that for four. `--exact` puts nodes with other
    CPUs or memory on lines of their own (`64+` otherwise); features and generic resources always
    do. It is asked without the caller's SINFO_*, which filter. Source: sinfo(1), "OPTIONS";
    sinfo.c, `_match_node_data`.
    """
    clusters = () if cluster is None else (f"--clusters={cluster}",)
    return (
        "sinfo",
        "--noheader",
        "--all",
        "--exact",
        "--noconvert",
        *clusters,
        f"--format={SEPARATOR.join(_FIELDS)}",
    )


def parse_sinfo(text: str) -> tuple[Partition, ...]:
    """The answer to `sinfo_argv`, in its order, a partition once with all its kinds of nodes.

    Raises ParseError for a line that is not understood.
    """
    partitions: dict[str, Partition] = {}
    for line_no, line in enumerate(text.split("\n"), start=1):
        if not line.strip(" ") or _HEADING.fullmatch(line):
            continue
        partition = _partition(Place("sinfo", line_no, line))
        seen = partitions.get(partition.name)
        if seen is not None:
            partition = replace(seen, groups=seen.groups + partition.groups)
        partitions[partition.name] = partition
    return tuple(partitions.values())


def _partition(place: Place) -> Partition:
    fields = place.line.split(SEPARATOR)
    if len(fields) != len(_FIELDS):
        raise place.refuse("is no partition", f"{len(_FIELDS)} fields: {', '.join(_FIELDS)}")
    name, availability, limit = fields[0].strip(), fields[1].strip(), fields[2]
    if not name.removesuffix("*"):
        raise place.refuse("has no name", "a partition's name")
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
        raise place.refuse(f"{said!r} is no time limit", "1-00:00:00 or infinite") from error


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
        raise place.refuse(f"{text!r} is no number", "a number such as 64")
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
            raise place.refuse(f"{part!r} is no GPU", "gpu:TYPE:COUNT")
        types += words
    return count, tuple(dict.fromkeys(types))
