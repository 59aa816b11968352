"""sinfo and squeue, asked of nodes by name."""

from __future__ import annotations

import pytest

from hpckit.core.errors import ParseError
from hpckit.slurm.squeue import parse_sinfo_nodes, parse_squeue_nodes
from hpckit.slurm.text import SEPARATOR
from hpckit.slurm.values import SlurmNode


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


def test_each_component_is_told() -> None:
    """A heterogeneous job is a line a component."""
    text = line("7+0", "RUNNING", "c1") + line("7+1", "PENDING", "")
    assert parse_squeue_nodes(text) == (("7+0", "RUNNING", "c1"), ("7+1", "PENDING", ""))


def test_a_job_that_is_gone_has_no_state() -> None:
    """No line is a job that squeue does not hold; half a line is none."""
    assert parse_squeue_nodes("\n") == ()
    with pytest.raises(ParseError, match="line 1"):
        parse_squeue_nodes(line("7", "RUNNING"))


def test_parts_of_gpus_are_told_apart_from_gpus() -> None:
    """A gres whose type is a MIG profile counts parts of GPUs."""
    (node,) = parse_sinfo_nodes(line("c1", "idle", "gpu:3g.20gb:16"))
    assert (node.gpus, node.has_mig) == (16, True)
