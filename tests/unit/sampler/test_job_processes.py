"""Which processes are the job's, and what /proc says of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.core.files_in_job import read_bytes
from hpckit.sampler.job_counters import JobProcesses, parse_process_stat, variable_of
from tests.fakes.cgroup_tree import CgroupTree

STAT = (
    b"4711 (a (b) c) S 17 1 1 0 -1 4194560 1 2 3 4 10 5 30 7 39 19 1 0 987 123456 25 "
    b"18446744073709551615 1 1 0\n"
)


@pytest.fixture
def tree(tmp_path: Path) -> CgroupTree:
    """A /proc without processes."""
    return CgroupTree(tmp_path, unified=True)


def processes(tree: CgroupTree) -> JobProcesses:
    """As the sampler sees them, which is process 90 of job 7's step 1."""
    return JobProcesses("7", "1", proc=str(tree.root / "proc"), pid=90)


def test_own_step_ancestors_and_other_jobs_are_left_out(tree: CgroupTree) -> None:
    """What started the sampler, and the rest of its step, is not the application."""
    tree.process(80, "/", ppid=1, comm="slurmstepd")
    tree.process(90, "/", step="1", ppid=80)
    tree.process(91, "/", step="1", ppid=80)
    tree.process(50, "/", step="0")
    tree.process(40, "/", comm="bash")
    tree.process(51, "/", step="0")
    tree.write("proc/51/environ", b"SLURM_JOB_ID=77\0")
    tree.process(52, "/")
    tree.write("proc/52/environ", b"")
    assert {process.pid for process in processes(tree).scan()} == {50, 40}


@pytest.mark.parametrize(
    ("comm", "step", "is_rank"),
    [
        ("slurm_script", None, False),
        ("srun", None, False),
        ("bash", "0", True),
        ("python3", None, True),
    ],
)
def test_ranks(tree: CgroupTree, comm: str, step: str | None, *, is_rank: bool) -> None:
    """A script's shell and its srun are none; a shell in a step, or a script's program, is one."""
    tree.process(50, "/", comm=comm, step=step)
    assert processes(tree).has_ranks() is is_rank


def test_a_zombie_is_no_rank(tree: CgroupTree) -> None:
    """What it was is not told any more; nor is another program in its place the same rank."""
    tree.process(50, "/", step="0")
    found = processes(tree)
    assert found.has_ranks()
    tree.write("proc/50/environ", b"")
    assert not found.has_ranks()


def test_list_of_proc_is_read_to_its_end() -> None:
    """A list that is longer than a page comes in several readings."""
    assert len(read_bytes("/proc/kallsyms", 200_000)) == 200_000
    assert read_bytes("/proc/self/nothing", 100) == b""


def test_fields_of_a_process() -> None:
    """The name may hold brackets; the CPU time has that of children; half a line is none."""
    stat = parse_process_stat(STAT)
    assert stat == ("a (b) c", False, 17, 52, 987, 25)
    assert parse_process_stat(b"4711 (a) S 17") is None
    assert parse_process_stat(b"") is None


def test_variable_by_its_whole_name() -> None:
    """SLURM_JOB_ID is not taken for OLD_SLURM_JOB_ID, and may come first."""
    environ = b"OLD_SLURM_JOB_ID=1\0SLURM_JOB_ID=2\0EMPTY=\0"
    names = (b"SLURM_JOB_ID", b"OLD_SLURM_JOB_ID", b"EMPTY", b"JOB_ID")
    assert [variable_of(environ, name) for name in names] == ["2", "1", "", None]
