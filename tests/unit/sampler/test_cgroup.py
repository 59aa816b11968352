"""Control groups, pressure and processes as the kernel writes them."""

from __future__ import annotations

import pytest

from hpckit.sampler.host import (
    UNIFIED,
    busy_us,
    count_of,
    folder_of,
    job_path,
    number_of,
    parse_memberships,
    parse_mounts,
    parse_psi,
    step_path,
    value_of,
)

# Read on a machine with both versions: Debian 12, kernel 6.18.
HYBRID = b"9:name=systemd:/\n4:memory:/process_api/141b\n2:cpuacct:/\n1:cpu:/\n0::/\n"
PRESSURE = (
    b"some avg10=3.83 avg60=7.51 avg300=6.87 total=57505629\n"
    b"full avg10=0.00 avg60=0.00 avg300=0.00 total=12\n"
)
SCOPE = "/system.slice/slurmstepd.scope"


def test_each_controller_has_its_path() -> None:
    """Of a machine with both versions each controller's path is known, and that of version 2."""
    found = parse_memberships(HYBRID)
    assert found["memory"] == "/process_api/141b"
    assert found[UNIFIED] == "/"


def test_joined_controllers_share_a_path() -> None:
    """`cpu,cpuacct` are two controllers in one hierarchy."""
    found = parse_memberships(b"4:cpu,cpuacct:/slurm/uid_1/job_2/step_0/task_0\n")
    assert found["cpu"] == found["cpuacct"] == "/slurm/uid_1/job_2/step_0/task_0"


def test_removed_group_keeps_its_path() -> None:
    """What the kernel adds to the path of a group that was removed is no part of it."""
    assert parse_memberships(b"0::/a/b (deleted)\n") == {UNIFIED: "/a/b"}


def test_mounts_of_both_versions() -> None:
    """A mount of version 1 is found under each of its controllers, one of version 2 as unified."""
    text = (
        b"36 30 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        b"37 30 0:32 /docker/x /sys/fs/cgroup/uni\\040fied rw shared:2 - cgroup2 none rw\n"
        b"38 30 0:33 / /proc rw - proc proc rw\n"
    )
    found = parse_mounts(text)
    assert found["memory"] == ("/", "/sys/fs/cgroup/memory")
    assert found[UNIFIED] == ("/docker/x", "/sys/fs/cgroup/uni fied")


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


@pytest.mark.parametrize("job", ["job_42", "s5K1KKYAYG5D00"])
def test_job_is_what_its_steps_share(job: str) -> None:
    """The job's group is the one above both steps, whatever Slurm calls it."""
    own = f"{SCOPE}/{job}/step_1/user/task_0"
    others = [f"{SCOPE}/{job}/step_batch/user/task_0", f"{SCOPE}/{job}/step_2/user/task_3"]
    assert job_path(own, others) == f"{SCOPE}/{job}"


def test_job_of_version_1() -> None:
    """In version 1 the user's group is above the job's, and is not taken."""
    own = "/slurm_n1/uid_1000/job_42/step_1/task_0"
    assert job_path(own, ["/slurm_n1/uid_1000/job_42/step_batch"]) == "/slurm_n1/uid_1000/job_42"


def test_process_that_escaped_does_not_widen_the_job() -> None:
    """A process outside the job's group, as of a user's daemon, leaves the group what it is."""
    own = f"{SCOPE}/job_42/step_1/user/task_0"
    others = ["/user.slice/user-1000.slice/session-1.scope", f"{SCOPE}/job_42/step_batch/user"]
    assert job_path(own, others) == f"{SCOPE}/job_42"


@pytest.mark.parametrize(
    "others",
    [
        ["/system.slice/slurmd.service"],
        ["/system.slice/slurmd.service", "/elsewhere"],
        ["/elsewhere"],
        [],
    ],
)
def test_job_without_a_group_of_its_own(others: list[str]) -> None:
    """With both steps in one group, or only the root in common, Slurm does not confine the job."""
    assert job_path("/system.slice/slurmd.service", others) is None


def test_own_step_is_below_the_job() -> None:
    """The sampler's step is the job's child that holds it."""
    assert step_path("/s/job_1/step_3/user/task_0", "/s/job_1") == "/s/job_1/step_3"


def test_value_is_found_by_its_whole_key() -> None:
    """`user_usec` is not taken for `usage_usec`, nor `file` for `inactive_file`."""
    data = b"usage_usec 12\nuser_usec 7\ninactive_file 5\nfile 9\n"
    keys = (b"usage_usec", b"user_usec", b"file", b"absent")
    assert [value_of(data, key) for key in keys] == [12, 7, 9, None]


@pytest.mark.parametrize(("data", "number"), [(b"17\n", 17), (b"max\n", None), (b"", None)])
def test_number(data: bytes, number: int | None) -> None:
    """A file of one number has one, `max` is none."""
    assert number_of(data) == number


def test_pressure_totals() -> None:
    """The totals of both lines are taken, in µs."""
    assert parse_psi(PRESSURE) == (57505629, 12)


def test_pressure_without_full() -> None:
    """cpu.pressure of kernels before 5.13 has no `full`."""
    assert parse_psi(PRESSURE.partition(b"full")[0]) == (57505629, None)


def test_busy_time_leaves_waiting_out() -> None:
    """Neither idle nor iowait is CPU time; guest time is in that of the user already."""
    assert busy_us(b"cpu  10 1 5 1000 90 2 3 4 8 0\ncpu0 1 1\n") == 25 * 10_000


def test_no_stat_has_no_busy_time() -> None:
    """What does not begin as /proc/stat does is not read."""
    assert busy_us(b"") is None


@pytest.mark.parametrize(
    ("text", "count"), [(b"0-31,64", 33), (b"7\n", 1), (b"\n", None), (b"all", None)]
)
def test_counts_of_cpus(text: bytes, count: int | None) -> None:
    """A list of the kernel is counted; what is none is no number."""
    assert count_of(text) == count
