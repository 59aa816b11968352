"""Which processes are the job's."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.sampler.job_processes import JobProcesses, read_whole
from tests.fakes.cgroup_tree import CgroupTree


def processes(root: Path, pid: int = 90) -> JobProcesses:
    """As the sampler sees them, which is process 90 of job 7's step 1."""
    return JobProcesses("7", "1", proc=str(root / "proc"), pid=pid)


def pids(found: JobProcesses) -> set[int]:
    """The numbers alone."""
    return {one.pid for one in found.scan()}


def test_own_step_and_ancestors_are_left_out(tmp_path: Path) -> None:
    """What started the sampler, and the rest of its step, is not the application."""
    tree = CgroupTree(tmp_path, unified=True)
    tree.process(80, "/", ppid=1, comm="slurmstepd")
    tree.process(90, "/", step="1", ppid=80)
    tree.process(91, "/", step="1", ppid=80)
    tree.process(50, "/", step="0")
    tree.process(40, "/", comm="bash")
    assert pids(processes(tmp_path)) == {50, 40}


def test_another_jobs_process_is_left_out(tmp_path: Path) -> None:
    """A process of another job, or of none, is not this job's."""
    tree = CgroupTree(tmp_path, unified=True)
    tree.process(50, "/", step="0")
    tree.write("proc/50/environ", b"SLURM_JOB_ID=77\0")
    tree.process(51, "/")
    tree.write("proc/51/environ", b"")
    assert pids(processes(tmp_path)) == set()


def test_script_without_ranks_has_none(tmp_path: Path) -> None:
    """A batch script's shell and its srun are no ranks."""
    tree = CgroupTree(tmp_path, unified=True)
    tree.process(40, "/", comm="slurm_script")
    tree.process(41, "/", comm="srun")
    assert not processes(tmp_path).has_ranks()


def test_process_of_a_step_is_a_rank(tmp_path: Path) -> None:
    """A shell in a step is somebody's rank."""
    tree = CgroupTree(tmp_path, unified=True)
    tree.process(50, "/", step="0", comm="bash")
    assert processes(tmp_path).has_ranks()


def test_program_of_a_script_is_a_rank(tmp_path: Path) -> None:
    """A program that the script itself runs, without srun, is one too."""
    tree = CgroupTree(tmp_path, unified=True)
    tree.process(50, "/", comm="python3")
    assert processes(tmp_path).has_ranks()


def test_known_rank_is_asked_for_alone(tmp_path: Path) -> None:
    """While the rank that was found lives, no other process is looked at."""
    tree = CgroupTree(tmp_path, unified=True)
    tree.process(50, "/", step="0")
    found = processes(tmp_path)
    assert found.has_ranks()
    (tmp_path / "proc/50/environ").unlink()
    assert found.has_ranks()


@pytest.mark.parametrize(
    ("before", "after"),
    [(" 4711 0 25 ", " 4712 0 25 "), (" 4711 0 25 ", " 4711 0 0 "), ("(python3)", "(sleep)")],
    ids=["another of its number", "a zombie", "another program"],
)
def test_rank_that_is_gone_is_looked_for_anew(tmp_path: Path, before: str, after: str) -> None:
    """A process that is not the one that was found is looked at as any other."""
    tree = CgroupTree(tmp_path, unified=True)
    tree.process(50, "/", step="0")
    found = processes(tmp_path)
    assert found.has_ranks()
    stat = tmp_path / "proc/50/stat"
    stat.write_text(stat.read_text().replace(before, after))
    tree.write("proc/50/environ", b"")
    assert not found.has_ranks()


def test_list_of_proc_is_read_to_its_end() -> None:
    """A list that is longer than a page comes in several readings."""
    data = read_whole("/proc/kallsyms", 200_000)
    assert len(data) == 200_000
    assert read_whole("/proc/self/nothing", 100) == b""
