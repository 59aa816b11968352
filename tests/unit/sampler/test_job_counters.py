"""The job's processes and its share of a node, from synthetic trees of /proc and control groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.core.files_in_job import read_bytes
from hpckit.sampler.cgroups_and_node import Hierarchies
from hpckit.sampler.job_counters import (
    SCAN_S,
    JobCounters,
    JobProcesses,
    parse_process_stat,
    variable_of,
)
from tests.fakes.cgroup_tree import CPU_STAT, PSI, CgroupTree, memory_files

SCOPE = "/system.slice/slurmstepd.scope"
Columns = dict[str, int | None]


class Now:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now_s


def counters(tree: CgroupTree, now: Now) -> JobCounters:
    """The columns of job 7's sampler, which is step 1."""
    tree.mounts()
    proc = str(tree.root / "proc")
    processes = JobProcesses("7", "1", proc=proc, pid=1)
    return JobCounters(processes, Hierarchies(str(tree.root)), proc=proc, now_s=now)


def values(source: JobCounters) -> Columns:
    """The columns by name."""
    names = [column.name for column in source.columns]
    return dict(zip(names, source.read(), strict=True))


@pytest.fixture
def now() -> Now:
    """The clock."""
    return Now()


def unified(root: Path, job: str) -> CgroupTree:
    """A node of version 2 with a rank in step 0 and the sampler in step 1."""
    tree = CgroupTree(root, unified=True)
    tree.myself(f"{SCOPE}/{job}/step_1/user/task_0")
    tree.process(50, f"{SCOPE}/{job}/step_0/user/task_0", step="0")
    tree.group(f"{SCOPE}/{job}", cpu__stat=CPU_STAT, **memory_files())
    tree.group(f"{SCOPE}/{job}", cpu__pressure=PSI % (11, 12), memory__pressure=PSI % (21, 22))
    tree.group(f"{SCOPE}/{job}/step_1", cpu__stat=b"usage_usec 700\n")
    return tree


@pytest.mark.parametrize("job", ["job_7", "s5K1KKYAYG5D00"])
def test_job_of_version_2(tmp_path: Path, now: Now, job: str) -> None:
    """The job's group is read by whatever name, and the sampler's step apart from it."""
    found = values(counters(unified(tmp_path, job), now))
    cpu: Columns = {
        "job_cpu_us": 5_000_000,
        "sampler_step_cpu_us": 700,
        "job_cpu_throttled_us": None,
    }
    pressure: Columns = {
        "job_psi_cpu_some_us": 11,
        "job_psi_memory_full_us": 22,
        "job_psi_io_some_us": None,
    }
    memory: Columns = {
        "job_memory_bytes": 700,  # less what the kernel would drop first
        "job_memory_anon_bytes": 600,
        "job_memory_shmem_bytes": 50,
        "job_memory_peak_bytes": 1500,
        "job_oom_kills": 1,
    }
    assert found | cpu | pressure | memory == found


def test_group_that_is_gone_is_not_measured(tmp_path: Path, now: Now) -> None:
    """Files that were cut to nothing, as of a group that was removed, give no zero."""
    tree = unified(tmp_path, "job_7")
    source = counters(tree, now)
    values(source)
    tree.group(f"{SCOPE}/job_7", cpu__stat=b"", memory__current=b"")
    found = values(source)
    assert found["job_cpu_us"] is None
    assert found["job_memory_bytes"] is None


def test_job_of_version_1(tmp_path: Path, now: Now) -> None:
    """Version 1 counts in ns and ticks, and its totals are those of all steps."""
    tree = CgroupTree(tmp_path, unified=False)
    job = "/slurm_n1/uid_1000/job_7"
    tree.myself(f"{job}/step_1/task_0")
    tree.process(50, f"{job}/step_batch")
    cpu, memory = f"/cpu,cpuacct{job}", f"/memory{job}"
    tree.group(cpu, cpuacct__usage=b"5000000\n", cpuacct__stat=b"user 3\nsystem 1\n")
    tree.group(f"{cpu}/step_1", cpuacct__usage=b"2000\n")
    tree.group(
        memory,
        memory__usage_in_bytes=b"1000\n",
        memory__max_usage_in_bytes=b"1500\n",
        memory__oom_control=b"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
        memory__stat=b"rss 1\ntotal_rss 600\ntotal_shmem 9\ntotal_inactive_file 200\n"
        b"total_active_file 100\n",
    )
    found = values(counters(tree, now))
    times: Columns = {"job_cpu_us": 5000, "job_cpu_user_us": 30_000, "job_cpu_system_us": 10_000}
    held: Columns = {"job_memory_bytes": 700, "job_memory_anon_bytes": 600, "job_oom_kills": 3}
    assert found | times | held == found
    assert found["sampler_step_cpu_us"] == 2


def unconfined(root: Path) -> CgroupTree:
    """CgroupPlugin=disabled: all steps are where slurmd is."""
    tree = CgroupTree(root, unified=True)
    tree.myself("/system.slice/slurmd.service")
    tree.process(50, "/system.slice/slurmd.service", step="0", cpu_ticks=100)
    return tree


def test_unconfined_job_is_counted_by_process(tmp_path: Path, now: Now) -> None:
    """Without a group of the job's own its processes' times are summed."""
    source = counters(unconfined(tmp_path), now)
    found = values(source)
    assert found["job_cpu_us"] == 1_000_000
    assert found["job_processes"] == 1
    assert found["job_rss_bytes"] is not None
    assert found["job_memory_bytes"] is None
    assert "counted per process" in source.refused["job_cgroup_cpu"]


def test_time_of_a_process_that_vanished_stays_counted(tmp_path: Path, now: Now) -> None:
    """The counter never falls; between two looks, five seconds apart, the last answer stands."""
    tree = unconfined(tmp_path)
    tree.process(51, "/system.slice/slurmd.service", step="0", cpu_ticks=50)
    source = counters(tree, now)
    assert values(source)["job_cpu_us"] == 1_500_000
    for name in ("stat", "environ", "cgroup"):
        (tmp_path / "proc/51" / name).unlink()
    (tmp_path / "proc/51").rmdir()
    now.now_s += SCAN_S
    assert values(source)["job_cpu_us"] == 1_500_000
    tree.process(50, "/system.slice/slurmd.service", step="0", cpu_ticks=120)
    now.now_s += SCAN_S / 2
    assert values(source)["job_cpu_us"] == 1_500_000
    now.now_s += SCAN_S / 2
    assert values(source)["job_cpu_us"] == 1_700_000


def test_nothing_is_measured_before_a_step_was_seen(tmp_path: Path, now: Now) -> None:
    """A sampler that is alone says so, and says when that has changed."""
    tree = CgroupTree(tmp_path, unified=True)
    tree.myself(f"{SCOPE}/job_7/step_1/user/task_0")
    source = counters(tree, now)
    assert values(source)["job_cpu_us"] is None
    assert not source.changed()
    assert "job_cgroup" in source.refused
    unified(tmp_path, "job_7")
    now.now_s += SCAN_S
    assert values(source)["job_cpu_us"] == 5_000_000
    assert source.changed()
    assert "job_cgroup" not in source.refused


def test_cpus_of_version_2(tmp_path: Path) -> None:
    """Groups that name CPUs are the step's and the job's; the others have their parent's."""
    tree = CgroupTree(tmp_path, unified=True)
    tree.mounts()
    tree.myself(f"{SCOPE}/job_7/step_1/user/task_0")
    for path, cpus in (("/step_1/user", b"\n"), ("/step_1", b"3,67\n"), ("", b"0-31,64-95\n")):
        tree.group(f"{SCOPE}/job_7{path}", cpuset__cpus=cpus)
    tree.group("", cpuset__cpus=b"0-127\n")
    assert Hierarchies(str(tmp_path)).allowed_cpus() == (2, 64)


def test_cpus_of_version_1(tmp_path: Path) -> None:
    """In version 1 each group has a list, that of Slurm's user too; the root is nobody's."""
    tree = CgroupTree(tmp_path, unified=False)
    mount = b"33 23 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    tree.write("proc/self/mountinfo", mount)
    tree.write("proc/self/cgroup", b"5:cpuset:/slurm/uid_1/job_7/step_1\n")
    given = {"": "0-127", "/slurm": "0-127", "/uid_1": "0-95", "/job_7": "0-63", "/step_1": "3,67"}
    path = ""
    for name, cpus in given.items():
        path += name
        tree.group(f"/cpuset{path}", cpuset__cpus=f"{cpus}\n".encode())
    assert Hierarchies(str(tmp_path)).allowed_cpus() == (2, 64, 96, 128)


def test_cpus_of_an_unconfined_process(tmp_path: Path) -> None:
    """A process in the root, or in what a container calls so, is confined by nobody."""
    tree = CgroupTree(tmp_path, unified=True)
    mount = b"30 23 0:26 /docker/ab /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    tree.write("proc/self/mountinfo", mount)
    tree.group("", cpuset__cpus=b"0-7\n")
    for path in (b"/docker/ab", b"/"):
        tree.write("proc/self/cgroup", b"0::" + path + b"\n")
        assert Hierarchies(str(tmp_path)).allowed_cpus() == ()


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


@pytest.mark.parametrize(
    ("before", "after", "is_there"),
    [("", "", True), (" 4711 ", " 4712 ", False), (") S", ") Z", False), ("python3", "sh", False)],
    ids=["the same", "another of its number", "a zombie", "another program"],
)
def test_known_rank_is_asked_for_alone(
    tree: CgroupTree, before: str, after: str, *, is_there: bool
) -> None:
    """While it lives no other process is looked at; one that is not it is as any other."""
    tree.process(50, "/", step="0")
    found = processes(tree)
    assert found.has_ranks()
    tree.write("proc/50/environ", b"")
    stat = tree.root / "proc/50/stat"
    stat.write_text(stat.read_text().replace(before, after))
    assert found.has_ranks() is is_there


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
