"""What the rules of advice ask of a measured run."""

from __future__ import annotations

from hpckit.account.advice.outcome import MeasuredRun
from tests.fakes.measured_jobs import job, node, report


def test_a_node_that_left_nothing_is_not_measured() -> None:
    """A node that is named and has no time is none that left an account."""
    lost = node("n2", started_s=None, ended_s=None)
    run = MeasuredRun(report=report(nodes=(node(), lost)), spec=job(nodes=2))
    assert not run.has_all_nodes
