"""sinfo, asked of nodes by name: their states, and how many GPUs Slurm gives out on each."""

from __future__ import annotations

import re
from typing import Final

from hpckit.model.node_answer import SlurmNode
from hpckit.parse.sinfo import gpus_of_gres
from hpckit.parse.slurm_text import SEPARATOR, Place

# NVIDIA's names of MIG profiles, which gres.conf takes as types: 1g.10gb, 3g.20gb+me.
_MIG: Final = re.compile(r"\d+g\.\d+gb", re.ASCII | re.IGNORECASE)
_FIELDS: Final = ("%N", "%T", "%G")
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
        f"--format={SEPARATOR.join(_FIELDS)}",
    )


def parse_sinfo_nodes(text: str) -> tuple[SlurmNode, ...]:
    """The nodes, each once, in sinfo's order. Raises ParseError for what is no node."""
    nodes: dict[str, SlurmNode] = {}
    for line_no, line in enumerate(text.split("\n"), start=1):
        if not line.strip(" "):
            continue
        place = Place("sinfo", line_no, line)
        fields = [field.strip() for field in line.split(SEPARATOR)]
        if len(fields) != len(_FIELDS) or not fields[0]:
            raise place.refuse("is no node", f"{len(_FIELDS)} fields: {', '.join(_FIELDS)}")
        name, state, gres = fields
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
    parts = []
    for line_no, line in enumerate(text.split("\n"), start=1):
        if not line.strip(" "):
            continue
        fields = [field.strip() for field in line.split(SEPARATOR)]
        if len(fields) != 3:  # noqa: PLR2004  as the format asks for
            raise Place("squeue", line_no, line).refuse(
                "is no job", "an id, a state and a node list"
            )
        parts.append((fields[0], fields[1], fields[2]))
    return tuple(parts)
