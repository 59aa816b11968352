"""Control groups, mounts and pressure as the kernel writes them."""

from __future__ import annotations

import pytest

from hpckit.sampler.cgroups_and_node import (
    UNIFIED,
    busy_us,
    folder_of,
    job_path,
    parse_mounts,
    pressure_of,
)

PRESSURE = (
    b"some avg10=3.83 avg60=7.51 avg300=6.87 total=57505629\n"
    b"full avg10=0.00 avg60=0.00 avg300=0.00 total=12\n"
)
SCOPE = "/system.slice/slurmstepd.scope"
SLURMD = "/system.slice/slurmd.service"
OWN = f"{SCOPE}/job_42/step_1/user/task_0"
V1 = "/slurm_n1/uid_1000/job_42"


def test_mounts_of_both_versions() -> None:
    """A mount of version 1 is found under each of its controllers, one of version 2 as unified."""
    text = (
        b"36 30 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        b"37 30 0:32 /docker/x /sys/fs/cgroup/unified rw shared:2 - cgroup2 none rw\n"
        b"38 30 0:33 / /proc rw - proc proc rw\n"
    )
    found = parse_mounts(text)
    assert found["memory"] == ("/", "/sys/fs/cgroup/memory")
    assert found[UNIFIED] == ("/docker/x", "/sys/fs/cgroup/unified")


@pytest.mark.parametrize(
    ("path", "mount", "folder"),
    [
        ("/a/b", ("/", "/sys/fs/cgroup"), "/sys/fs/cgroup/a/b"),
        ("/docker/x/job", ("/docker/x", "/sys/fs/cgroup"), "/sys/fs/cgroup/job"),
        ("/docker/xy", ("/docker/x", "/sys/fs/cgroup"), None),
        ("/../outside", ("/", "/sys/fs/cgroup"), None),
        ("/", ("/", "/sys/fs/cgroup"), "/sys/fs/cgroup"),
    ],
)
def test_folder_of_a_group(path: str, mount: tuple[str, str], folder: str | None) -> None:
    """A group's files are below the mount point, less what the mount itself stands for."""
    assert folder_of(path, mount) == folder


@pytest.mark.parametrize(
    ("own", "others", "job"),
    [
        (OWN, [f"{SCOPE}/job_42/step_batch/user", f"{SCOPE}/job_42/step_2"], f"{SCOPE}/job_42"),
        (f"{SCOPE}/s5K1/step_1/task_0", [f"{SCOPE}/s5K1/step_batch"], f"{SCOPE}/s5K1"),
        (f"{V1}/step_1/task_0", [f"{V1}/step_batch"], V1),
        # A process that escaped, as of a user's daemon, does not widen the job.
        (OWN, ["/user.slice/session-1.scope", f"{SCOPE}/job_42/step_batch"], f"{SCOPE}/job_42"),
        (SLURMD, [SLURMD], None),
        (SLURMD, [SLURMD, "/elsewhere"], None),
        (SLURMD, ["/elsewhere"], None),
        (SLURMD, [], None),
    ],
)
def test_job_is_what_its_steps_share(own: str, others: list[str], job: str | None) -> None:
    """Whatever Slurm calls it; a step in the very group, or the root alone, confines no job."""
    assert job_path(own, others) == job


def test_pressure_totals() -> None:
    """In µs; cpu.pressure of kernels before 5.13 has no `full`."""
    some, full = pressure_of(b"some"), pressure_of(b"full")
    assert (some(PRESSURE), full(PRESSURE)) == (57505629, 12)
    assert full(PRESSURE.partition(b"full")[0]) is None


def test_busy_time_leaves_waiting_out() -> None:
    """Neither idle nor iowait is CPU time; guest time is in that of the user already."""
    assert busy_us(b"cpu  10 1 5 1000 90 2 3 4 8 0\ncpu0 1 1\n") == 25 * 10_000
    assert busy_us(b"") is None
