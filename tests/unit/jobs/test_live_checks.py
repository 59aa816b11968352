"""A job against the cluster that is to run it, and the scheduler's own look at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.core.errors import (
    JobRefused,
    ParseError,
    PlanError,
    SchedulerUnreachable,
    ToolFailed,
    ToolMissing,
)
from hpckit.core.files import FileResources
from hpckit.jobs.prepare import PreparedJob
from hpckit.jobs.submit import check_live, submit, try_out
from hpckit.slurm.values import (
    ClusterView,
    JobId,
    NodeGroup,
    Partition,
    SlurmConfig,
    SlurmVersion,
    SubmitRequest,
)
from hpckit.spec.options import StagePlace
from tests.fakes.clock import FakeClock
from tests.fakes.cluster_probe import FakeClusterProbe
from tests.fakes.prepared import prepared
from tests.fakes.submitter import FakeSubmitter
from tests.fakes.world import World, caller_in, everything_in
from tests.unit.jobs.test_parts import ten_a_job
from tests.unit.jobs.test_submit import a_job, a_slurm_job

MAIN = Partition(
    name="main",
    is_default=True,
    is_up=True,
    time_limit_s=86400,
    groups=(NodeGroup(nodes=4, cpus=64, mem_mib=1_000_000, gpus=8, gpu_types=("h100",)),),
)
VIEW = ClusterView(
    config=SlurmConfig(
        version=SlurmVersion(24, 11, 5), cluster_name="hpckit", topology_plugin="topology/tree"
    ),
    partitions=(MAIN,),
    seen_s=0.0,
)
BASE = 'name = "x"\ncommand = ["x"]\n'
TEMPLATES = Path(__file__).parents[3] / "templates"


def test_an_option_of_a_plugin_holds_nothing_back() -> None:
    """What sbatch itself does not know, such as pyxis' option, is for the cluster's sbatch."""
    job = prepared(BASE + '[slurm.extra]\ncontainer-image = "pytorch.sqsh"\n')
    assert check_live(job, FakeClusterProbe(VIEW), None) == (VIEW, ())


def job_at(folder: Path, rules: str, text: str = "") -> PreparedJob:
    """A job at a site of these rules."""
    site = f'schema = "hpckit.site/1"\nname = "there"\n{rules}'
    (folder / "there.toml").write_text(site, encoding="utf-8")
    resources = FileResources((), site_dirs=[folder], template_dirs=[TEMPLATES])
    return prepared(BASE + text, site="there", resources=resources)


def test_a_job_that_fits_passes() -> None:
    """One look at the cluster, as it is remembered, and nothing is found."""
    probe = FakeClusterProbe(VIEW)
    assert check_live(prepared(BASE), probe, None) == (VIEW, ())
    assert probe.asked == [(None, False)]


MPI = BASE + 'launch = { kind = "mpi" }\n'
TYPES = ("none", "pmi2", "pmix")


@pytest.mark.parametrize("default", [None, "none"])
def test_ranks_that_would_not_find_each_other_are_refused(default: str | None) -> None:
    """Where srun gives no PMI: the plugins of the cluster are the fix, and one of them passes."""
    view = replace(VIEW, config=replace(VIEW.config, mpi_default=default, mpi_types=TYPES))
    with pytest.raises(JobRefused) as caught:
        check_live(prepared(MPI, site=None), FakeClusterProbe(view), None)
    assert "every rank would be process 0 of 1" in str(caught.value)
    assert 'launch.mpi = "pmi2" or launch.mpi = "pmix"' in str(caught.value)
    named = MPI.replace('"mpi" }', '"mpi", mpi = "pmix" }')
    assert check_live(prepared(named, site=None), FakeClusterProbe(view), None) == (view, ())
    assert check_live(prepared(BASE), FakeClusterProbe(view), None) == (view, ())


def test_a_default_that_is_not_known_is_none() -> None:
    """A cluster that cannot be asked holds back the one job that it would make wrong."""
    lost = FakeClusterProbe(ToolFailed(["scontrol"], 1, "no"))
    with pytest.raises(JobRefused, match="MpiDefault is unknown"):
        check_live(prepared(MPI, site=None), lost, None)
    assert check_live(prepared(BASE), lost, None)[0] is None


def test_a_clusters_own_plugin_is_enough() -> None:
    """MpiDefault of the cluster, or the site file's; one that srun does not have here is told."""
    view = replace(VIEW, config=replace(VIEW.config, mpi_default="pmix"))
    assert check_live(prepared(MPI, site=None), FakeClusterProbe(view), None) == (view, ())
    bare = replace(VIEW, config=replace(VIEW.config, mpi_types=("none", "pmi2")))
    _, notes = check_live(prepared(MPI), FakeClusterProbe(bare), None)
    assert [(one.text, one.remedy) for one in notes] == [
        ("srun has no MPI plugin pmix here", 'launch.mpi = "pmi2"')
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[slurm]\npartition = 'mian'", "no such partition: mian"),
        ("[resources]\nnodes = 9", "partition main has 4 nodes, not 9"),
        ("[slurm.srun_extra]\nwait-for-children = true", "new in 25.05"),
    ],
)
def test_what_this_cluster_refuses_is_refused(text: str, words: str) -> None:
    """What the release, the topology or the partitions do not take never reaches Slurm."""
    probe = FakeClusterProbe(VIEW)
    with pytest.raises(JobRefused, match=words):
        check_live(prepared(BASE + text), probe, None)
    assert probe.asked == [(None, False), (None, True)]


def test_what_has_no_effect_here_is_told() -> None:
    """An option for another topology than this cluster's is a note: Slurm would not say a word."""
    _, (note,) = check_live(prepared(BASE + "[slurm]\nsegment = 1"), FakeClusterProbe(VIEW), None)
    assert note.text == "works only with topology/block; this cluster has topology/tree"


def test_only_the_present_refuses() -> None:
    """What was remembered and is not so any more holds nothing back."""
    now = replace(VIEW, partitions=(replace(MAIN, time_limit_s=None),))
    job = prepared(BASE + "[resources]\ntime_limit = '7-0'")
    with pytest.raises(JobRefused):
        check_live(job, FakeClusterProbe(VIEW), None)
    assert check_live(job, FakeClusterProbe(VIEW, now), None) == (now, ())


def test_another_cluster_is_refused(tmp_path: Path) -> None:
    """A site's job does not go to whatever cluster this host happens to belong to."""
    job = job_at(tmp_path, '[slurm]\ncluster = "Alps"')
    with pytest.raises(JobRefused, match="there is cluster Alps, but this host submits to"):
        check_live(job, FakeClusterProbe(VIEW), None)
    same = replace(VIEW, config=replace(VIEW.config, cluster_name="alps"))
    assert check_live(job, FakeClusterProbe(same), None)[1] == ()


def test_an_old_site_file_is_told(tmp_path: Path) -> None:
    """A release that the site file does not know of is a note with the line to write."""
    job = job_at(tmp_path, '[slurm]\nversion = "22.05"')
    _, (note,) = check_live(job, FakeClusterProbe(VIEW), None)
    assert note.text == "the site file of there has Slurm 22.05, but the cluster runs 24.11.5"
    assert note.remedy == 'slurm.version = "24.11" in the site file'
    current = job_at(tmp_path, '[slurm]\nversion = "24.11"')
    assert check_live(current, FakeClusterProbe(VIEW), None)[1] == ()


@pytest.mark.parametrize(
    "error",
    [
        ParseError("is no configuration", tool="scontrol", line_no=1, line="x", expected="y"),
        ToolFailed(("sinfo",), 1, "Access denied"),
        ToolMissing("sinfo was not found"),
    ],
)
def test_a_cluster_that_cannot_be_understood_holds_nothing_back(error: Exception) -> None:
    """Slurm itself decides then, and the user is told that nobody looked."""
    view, (note,) = check_live(prepared(BASE), FakeClusterProbe(error), None)
    assert view is None
    assert note.text.startswith("the cluster was not checked: ")


def test_a_silent_cluster_gets_nothing() -> None:
    """Without an answer nothing is submitted, and the error says so."""
    with pytest.raises(SchedulerUnreachable) as caught:
        check_live(prepared(BASE), FakeClusterProbe(SchedulerUnreachable("no")), None)
    assert str(caught.value.hint).startswith("nothing was submitted")


def test_a_refused_job_leaves_nothing(tmp_path: Path) -> None:
    """A job that checks refuse has no folder, no line in the index, and never met the submitter."""
    world = World()
    tools = replace(world.tools(), probe=FakeClusterProbe(VIEW))
    job = job_at(
        tmp_path, 'job_root = "$HOME/jobs"', "[resources]\nnodes = 9\n[slurm]\npartition = 'main'"
    )
    before = everything_in(tmp_path)
    with pytest.raises(JobRefused):
        submit(job, caller_in(tmp_path), tools)
    assert everything_in(tmp_path) == before
    assert world.index.latest(None) == []


def test_notes_come_with_the_submission(tmp_path: Path) -> None:
    """What is worth knowing is told once, whether the file or the cluster says it."""
    tools = replace(World().tools(), probe=FakeClusterProbe(VIEW))
    rules = 'job_root = "$HOME/jobs"\n[slurm]\nversion = "24.05"'
    job = job_at(tmp_path, rules, "[slurm.srun_extra]\ncpu-bind = 'c'\nhint = 'nomultithread'")
    notes = submit(job, caller_in(tmp_path), tools).notes
    assert [note.subject for note in notes] == ["--hint --cpu-bind", "site"]


def test_unread_partitions_are_told() -> None:
    """Where sinfo's answer was not understood, a note says so, and the rest is checked."""
    view = replace(VIEW, partitions=(), unread="sinfo, line 1: is no partition")
    _, (note,) = check_live(prepared(BASE), FakeClusterProbe(view), None)
    assert note.text == "the partitions were not checked: sinfo, line 1: is no partition"
    with pytest.raises(JobRefused):
        wrong = prepared(BASE + "[slurm.srun_extra]\nwait-for-children = true")
        check_live(wrong, FakeClusterProbe(view), None)


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

        def test(self, request: SubmitRequest) -> Sequence[str]:
            """Take the time."""
            clock.sleep(12)
            return super().test(request)

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
    with pytest.raises(PlanError, match="cannot mix , and"):
        try_out(job, caller_in(tmp_path), World().tools(), place)


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


@pytest.mark.parametrize("has_pyxis", [True, False, None])
def test_a_container_that_srun_cannot_start_is_refused(*, has_pyxis: bool | None) -> None:
    """Without the plugin srun takes the option for a mistake, once the job has waited."""
    job = prepared(BASE + 'container = { image = "a", runtime = "pyxis" }\n')
    probe = FakeClusterProbe(VIEW, pyxis=has_pyxis)
    if has_pyxis is False:
        with pytest.raises(JobRefused, match="Pyxis plugin is not loaded"):
            check_live(job, probe, None)
    else:
        assert check_live(job, probe, None)[1] == ()
