"""sinfo, asked of nodes by name: their states, and how many GPUs Slurm gives out on each."""

from __future__ import annotations

from typing import Final

from hpckit.model.node_answer import SlurmNode
from hpckit.parse.sinfo import gpus_of_gres
from hpckit.parse.slurm_text import SEPARATOR, Place

_FIELDS: Final = ("%N", "%T", "%G")
# sinfo(1), "NODE STATE CODES": what may stand after a state; `*` is a node that does not respond.
_FLAGS: Final = "*~#!%$@^-+"
_ASLEEP: Final = frozenset("~%")


def hostnames_argv(nodelist: str) -> tuple[str, ...]:
    """The question for the names in a list, one a line; nobody but scontrol itself is asked."""
    return ("scontrol", "show", "hostnames", nodelist)


def sinfo_nodes_argv(nodelist: str) -> tuple[str, ...]:
    """The question: a line for each of these nodes, once for each of its partitions."""
    return (
        "sinfo",
        "--noheader",
        "--all",
        "--Node",
        f"--nodes={nodelist}",
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
        nodes[name] = SlurmNode(
            name=name,
            state=state.rstrip(_FLAGS).lower(),
            gpus=gpus_of_gres(gres, place)[0],
            is_responding="*" not in state,
            is_powered_off=not _ASLEEP.isdisjoint(state),
        )
    return tuple(nodes.values())


def squeue_nodes_argv(job_id: str) -> tuple[str, ...]:
    """The question for the nodes of a job: its state and its node list."""
    return ("squeue", "--noheader", f"--jobs={job_id}", f"--format=%T{SEPARATOR}%N")


def parse_squeue_nodes(text: str) -> tuple[str, str]:
    """A job's state, and its node list, empty where it has none yet.

    Raises ParseError for anything but one line a component.
    """
    states, lists = [], []
    for line_no, line in enumerate(text.split("\n"), start=1):
        if not line.strip(" "):
            continue
        state, found, nodes = line.partition(SEPARATOR)
        if not found:
            raise Place("squeue", line_no, line).refuse("is no job", "a state and a node list")
        states.append(state.strip())
        lists.append(nodes.strip())
    return (states[0] if states else ""), ",".join(one for one in lists if one)
