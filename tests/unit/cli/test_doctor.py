"""What doctor finds on machines that have and lack things."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hpckit.cli.doctor import SLURM_TOOLS, TOOLS, examine, examine_gpus, examine_pyslurm
from hpckit.core.errors import ConfigError, ParseError, SchedulerUnreachable, StorageFailed
from hpckit.core.findings import Level, Notice
from hpckit.core.process import CommandResult
from hpckit.node.topology import Gpu, Host, NodeTopology, Source, Unknown
from hpckit.slurm.pyslurm_ask import PyslurmProbe
from hpckit.slurm.values import (
    ClusterView,
    JobEntry,
    NodesInService,
    Partition,
    SlurmConfig,
    SlurmVersion,
)
from hpckit.spec.merge import parse_site_file
from hpckit.spec.pace import SubmitterKind
from hpckit.spec.store import FileJobFolders
from tests.fakes.cluster_probe import FakeClusterProbe
from tests.fakes.command_runner import FakeCommandRunner
from tests.fakes.job_index import TemporaryJobIndex

BASH = CommandResult(returncode=0, stdout="\n GNU bash, version 5.2 \nmore\n", stderr="")
SILENT = CommandResult(returncode=0, stdout="", stderr="")
BROKEN = CommandResult(returncode=127, stdout="", stderr="\nlibfoo.so: not found\n")
BASH_ARGV, SBATCH_ARGV, TORCHRUN_ARGV, MPIRUN_ARGV = (tool.argv for tool in TOOLS)


class _DamagedIndex(TemporaryJobIndex):
    """An index that cannot be read."""

    def latest(self, limit: int | None) -> list[JobEntry]:
        """Refuse."""
        raise StorageFailed("jobs.sqlite is damaged", hint="hpckit jobs --rebuild")


def findings(
    runner: FakeCommandRunner, root: Path, index: TemporaryJobIndex | None = None
) -> dict[str, Notice]:
    """Subject → finding."""
    found = examine(runner, FileJobFolders(), index or TemporaryJobIndex(), root)
    return {one.subject: one for one in found}


def test_a_machine_with_everything(tmp_path: Path) -> None:
    """Tools that answer are ok with the first line they print, and so are folders and index."""
    runner = FakeCommandRunner({BASH_ARGV: BASH, **{tool.argv: SILENT for tool in TOOLS[1:]}})
    found = findings(runner, tmp_path / "jobs")
    assert {one.level for one in found.values()} == {Level.OK}
    assert found["bash"].text == "GNU bash, version 5.2"
    assert found["sbatch"].text == "answers"
    assert found["job folders"].text == f"{tmp_path / 'jobs'} (writable)"
    assert not (tmp_path / "jobs").exists()


def test_what_sacct_lists_is_not_shown(tmp_path: Path) -> None:
    """Jobs that sacct happens to list say nothing of this machine: it answers."""
    rows = CommandResult(returncode=0, stdout="46  train  main  proj1  16  RUNNING\n", stderr="")
    runner = FakeCommandRunner({tool.argv: rows for tool in SLURM_TOOLS})
    found = examine(
        runner,
        FileJobFolders(),
        TemporaryJobIndex(),
        tmp_path / "jobs",
        submitter=SubmitterKind.SLURM,
    )
    assert [one.text for one in found if one.subject == "sacct"] == ["answers"]


def test_what_is_missing_says_what_it_serves(tmp_path: Path) -> None:
    """Without bash nothing runs, an error; without the others something does not, a note."""
    found = findings(FakeCommandRunner({}), tmp_path)
    assert {name: one.level for name, one in found.items() if one.level is not Level.OK} == {
        "bash": Level.ERROR,
        "sbatch": Level.NOTE,
        "torchrun": Level.NOTE,
        "mpirun": Level.NOTE,
    }
    assert found["sbatch"].text.endswith("needed for submitting to Slurm")
    assert found["mpirun"].remedy == "install openmpi-bin, or module load openmpi"


def test_a_tool_that_does_not_work_is_not_ok(tmp_path: Path) -> None:
    """A tool that fails gives its code and words, and one that hangs says so."""
    runner = FakeCommandRunner(
        {BASH_ARGV: BASH, SBATCH_ARGV: BROKEN, TORCHRUN_ARGV: SILENT}, {"torchrun": 60.0}
    )
    found = findings(runner, tmp_path)
    assert found["sbatch"].text == "exit code 127: libfoo.so: not found"
    assert "did not answer within 5 s" in found["torchrun"].text
    assert found["sbatch"].level is found["torchrun"].level is Level.NOTE


def test_an_unusable_job_root_is_an_error(tmp_path: Path) -> None:
    """A job root below a file cannot hold folders, and the finding says how to choose another."""
    (tmp_path / "file").touch()
    found = findings(FakeCommandRunner({}), tmp_path / "file" / "jobs")["job folders"]
    assert found.level is Level.ERROR
    assert "cannot create job folders" in found.text
    assert found.remedy is not None


def test_a_damaged_index_is_an_error(tmp_path: Path) -> None:
    """An index that cannot be read is an error with its remedy."""
    found = findings(FakeCommandRunner({}), tmp_path, _DamagedIndex())["job index"]
    assert (found.level, found.remedy) == (Level.ERROR, "hpckit jobs --rebuild")


def test_a_job_root_of_slurm_that_is_not_there_is_noted(tmp_path: Path) -> None:
    """On a cluster, a job root that could be made may be a file system that is not mounted."""
    runner = FakeCommandRunner({})
    for root, level in ((tmp_path, Level.OK), (tmp_path / "jobs", Level.NOTE)):
        found = examine(
            runner, FileJobFolders(), TemporaryJobIndex(), root, submitter=SubmitterKind.SLURM
        )
        (folders,) = [one for one in found if one.subject == "job folders"]
        assert folders.level is level


def seen(
    probe: FakeClusterProbe, root: Path, *, answers: bool = True, rules: str = ""
) -> list[Notice]:
    """What doctor says of the cluster of a Slurm whose commands answer, or do not."""
    said = {tool.argv: BASH for tool in SLURM_TOOLS} if answers else {}
    found = examine(
        FakeCommandRunner(said),
        FileJobFolders(),
        TemporaryJobIndex(),
        root,
        submitter=SubmitterKind.SLURM,
        probe=probe,
        site=parse_site_file(f'schema = "hpckit.site/1"\nname = "here"\n{rules}', "here.toml"),
    )
    return [one for one in found if one.subject in ("cluster", "partitions", "site")]


def test_the_cluster_is_shown_as_submissions_see_it(tmp_path: Path) -> None:
    """The release, the name, the limits and the partitions, and nothing for what is unknown."""
    main = Partition(name="main", is_default=True, is_up=True, time_limit_s=None)
    config = SlurmConfig(version=SlurmVersion(24, 11, 5), cluster_name="alps", max_array_size=101)
    probe = FakeClusterProbe(
        ClusterView(
            config=config, partitions=(main, replace(main, name="b", is_default=False)), seen_s=0.0
        )
    )
    (finding,) = seen(probe, tmp_path)
    assert finding.text == "alps · Slurm 24.11.5 · MaxArraySize 101 · partitions main*, b"
    assert probe.asked == [(None, True)]


def test_partitions_that_start_no_jobs(tmp_path: Path) -> None:
    """A partition that is down, and one of which every node is drained, are told."""
    up = Partition(name="main", is_default=True, is_up=True, time_limit_s=None)
    view = ClusterView(
        config=SlurmConfig(cluster_name="alps"),
        partitions=(up, replace(up, name="b", is_up=False), replace(up, name="c")),
        seen_s=0.0,
    )
    counts = {"main": NodesInService(1, 4), "b": NodesInService(4, 4), "c": NodesInService(0, 4)}
    finding = seen(FakeClusterProbe(view, in_service=counts), tmp_path)[-1]
    assert (finding.level, finding.text) == (Level.NOTE, "b, c start no jobs at present")


def test_another_cluster_is_an_error(tmp_path: Path) -> None:
    """A site file of another cluster than the one that answers is told before a job is refused."""
    view = ClusterView(config=SlurmConfig(cluster_name="alps"), partitions=(), seen_s=0.0)
    (finding,) = seen(FakeClusterProbe(view), tmp_path, rules='slurm.cluster = "orion"')
    assert finding.level is Level.ERROR
    assert "the site file names orion" in finding.text
    (same,) = seen(FakeClusterProbe(view), tmp_path, rules='slurm.cluster = "Alps"')
    assert same.level is Level.OK


def test_an_old_site_file_is_a_note(tmp_path: Path) -> None:
    """A release that is not the site file's is told, as submissions tell it."""
    config = SlurmConfig(version=SlurmVersion(24, 11, 5))
    probe = FakeClusterProbe(ClusterView(config=config, partitions=(), seen_s=0.0))
    _, note = seen(probe, tmp_path, rules='slurm.version = "23.02"')
    assert (note.level, note.remedy) == (Level.NOTE, 'slurm.version = "24.11" in the site file')


def test_a_cluster_that_cannot_be_looked_at_is_a_note(tmp_path: Path) -> None:
    """Submissions go unchecked then, and doctor says so."""
    probe = FakeClusterProbe(
        ParseError("is no configuration", tool="scontrol", line_no=1, line="x", expected="y")
    )
    (finding,) = seen(probe, tmp_path)
    assert (finding.level, finding.remedy) == (Level.NOTE, "submissions are not checked against it")


def test_a_silent_cluster_refuses_submissions(tmp_path: Path) -> None:
    """Nothing is submitted unchecked while slurmctld is silent, and doctor says so."""
    (finding,) = seen(FakeClusterProbe(SchedulerUnreachable("silence")), tmp_path)
    assert finding.remedy == "submissions are refused until it answers"


def test_partitions_that_cannot_be_read_are_a_note(tmp_path: Path) -> None:
    """What submissions are not checked against is told beside the cluster."""
    config = SlurmConfig(cluster_name="alps")
    view = ClusterView(config=config, partitions=(), seen_s=0.0, unread="sinfo failed")
    cluster, note = seen(FakeClusterProbe(view), tmp_path)
    assert (cluster.level, cluster.text) == (Level.OK, "alps")
    assert (note.level, note.subject) == (Level.NOTE, "partitions")
    assert note.text == "cannot be read: sinfo failed"


def test_a_cluster_that_does_not_answer_is_not_asked_more(tmp_path: Path) -> None:
    """Where Slurm's commands are missing or fail, the cluster is not looked at on top."""
    probe = FakeClusterProbe(ParseError("x", tool="x", line_no=1, line="x", expected="x"))
    assert seen(probe, tmp_path, answers=False) == []
    assert probe.asked == []


def test_gpus_are_counted() -> None:
    """Where NVML answers, doctor says how many GPUs it shows and which driver."""
    said = NodeTopology(
        source=Source(format="nvml"),
        host=Host(driver_version="570.86.15"),
        gpus=tuple(Gpu(index=index) for index in range(8)),
    )
    found = examine_gpus(said)
    assert (found.level, found.text) == (Level.OK, "8 NVIDIA GPUs · driver 570.86.15")


def test_a_machine_without_nvml_is_a_note() -> None:
    """Where NVML does not answer, doctor says why and what needs it."""
    unknown = (Unknown("GPUs", "gpus", "NVML: LibraryNotFound"),)
    found = examine_gpus(NodeTopology(source=Source(format="nvml"), unknown=unknown))
    assert found.level is Level.NOTE
    assert "LibraryNotFound" in found.text


def test_pyslurm_is_never_needed() -> None:
    """Without it all is well, with it doctor says how it is used, or why it is not."""
    missing, usable, other = map(
        examine_pyslurm,
        (PyslurmProbe(), PyslurmProbe("24.11.0"), PyslurmProbe("25.11.2", "libslurm is 24.11.5")),
    )
    assert (missing.level, usable.level, other.level) == (Level.OK, Level.OK, Level.NOTE)
    assert "HPCKIT_SLURM_API=pyslurm" in usable.text
    assert other.text == "25.11.2 is not used: libslurm is 24.11.5"


def scontrol_hint(runner: FakeCommandRunner, root: Path) -> str | None:
    """What doctor advises about scontrol."""
    found = examine(
        runner, FileJobFolders(), TemporaryJobIndex(), root, submitter=SubmitterKind.SLURM
    )
    (hint,) = [one.remedy for one in found if one.subject == "scontrol"]
    return hint


def test_what_is_not_there_is_not_advised(tmp_path: Path) -> None:
    """`scontrol ping` is advised where scontrol answers badly, and not where it is missing."""
    ping = SLURM_TOOLS[2].argv
    assert "scontrol" not in str(scontrol_hint(FakeCommandRunner({}), tmp_path))
    assert "`scontrol ping`" in str(scontrol_hint(FakeCommandRunner({ping: BROKEN}), tmp_path))


def test_a_job_root_that_cannot_be_told_is_a_finding(tmp_path: Path) -> None:
    """Why nobody can say where job folders go is an error with its remedy."""
    wrong = ConfigError("job_root names 'PROJECT', which is not set", hint="set it")
    found = examine(FakeCommandRunner({}), FileJobFolders(), TemporaryJobIndex(), wrong)
    (finding,) = [one for one in found if one.subject == "job folders"]
    assert (finding.level, finding.text, finding.remedy) == (Level.ERROR, wrong.message, "set it")
