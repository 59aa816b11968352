"""A job that the scheduler looks at, and that is not queued."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.core.errors import JobRefused, PlanError, SchedulerRefused
from hpckit.jobs.submit import try_out
from hpckit.slurm.values import JobId, SubmitRequest
from hpckit.spec.options import StagePlace
from tests.fakes.clock import FakeClock
from tests.fakes.cluster_probe import FakeClusterProbe
from tests.fakes.submitter import FakeSubmitter
from tests.fakes.world import World, caller_in, everything_in
from tests.unit.jobs.test_live_checks import VIEW
from tests.unit.jobs.test_parts import ten_a_job
from tests.unit.jobs.test_submit import a_job, a_slurm_job


def test_a_trial_leaves_nothing(tmp_path: Path) -> None:
    """The scheduler is asked about the job; there is no folder, no line in the index, no job."""
    world = World()
    before = everything_in(tmp_path)
    assert try_out(a_slurm_job(), caller_in(tmp_path), world.tools()).words == ("it would start",)
    assert everything_in(tmp_path) == before
    assert world.index.latest(None) == []


def test_each_kind_of_part_is_tried_once(tmp_path: Path) -> None:
    """Of 25 tasks in three parts the two that are alike are one question."""
    slurm = FakeSubmitter()
    job = a_slurm_job({"slurm.array": "0-24"})
    try_out(job, caller_in(tmp_path), ten_a_job(slurm).tools())
    assert [request.array_part for request in slurm.requests] == ["0-9", "0-4"]


def test_a_trial_of_many_parts_is_not_late(tmp_path: Path) -> None:
    """Each part's trial begins anew: the time that those before it took is not held against it."""
    clock = FakeClock()

    class Slow(FakeSubmitter):
        """Answers after twelve seconds."""

        def test(self, request: SubmitRequest, script: str) -> Sequence[str]:
            """Take the time."""
            clock.sleep(12)
            return super().test(request, script)

    slurm = Slow()
    world = replace(ten_a_job(slurm), clock=clock)
    try_out(a_slurm_job({"slurm.array": "0-24"}), caller_in(tmp_path), world.tools())
    first, second = (request.begun_s for request in slurm.requests)
    assert second - first == 12


def test_a_stage_is_tried_in_its_place(tmp_path: Path) -> None:
    """What a stage cannot say beside the stage before it is refused, as submitting would be."""
    job = a_slurm_job({"slurm.dependency": "afterok:1?afterok:2"})
    place = StagePlace(chain="c", stage="b", stages=("a", "b"), after=(JobId("U"),))
    try_out(job, caller_in(tmp_path), World().tools())
    with pytest.raises(PlanError, match="either , or"):
        try_out(job, caller_in(tmp_path), World().tools(), place)


def test_a_refusal_is_the_schedulers(tmp_path: Path) -> None:
    """A job that the scheduler would not take raises its refusal."""
    world = World(submitter=FakeSubmitter(SchedulerRefused("Slurm refused the job: no")))
    with pytest.raises(SchedulerRefused):
        try_out(a_slurm_job(), caller_in(tmp_path), world.tools())


def test_checks_come_first(tmp_path: Path) -> None:
    """A job that the cluster cannot hold is refused without a question to the scheduler."""
    world = World(probe=FakeClusterProbe(VIEW))
    with pytest.raises(JobRefused):
        try_out(a_slurm_job({"resources.nodes": 9}), caller_in(tmp_path), world.tools())
    assert world.submitter.requests == []


def test_a_machine_without_scheduler_has_nobody_to_ask(tmp_path: Path) -> None:
    """At site local a trial is refused, with what shows the script."""
    with pytest.raises(PlanError, match="no scheduler to ask"):
        try_out(a_job(), caller_in(tmp_path), World().tools())


def test_notes_are_told(tmp_path: Path) -> None:
    """What checks found comes with the scheduler's words."""
    job = a_slurm_job({"slurm.segment": 1})
    world = World(probe=FakeClusterProbe(replace(VIEW)))
    (note,) = try_out(job, caller_in(tmp_path), world.tools()).notes
    assert note.subject == "--segment"
