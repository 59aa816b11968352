"""Synthetic trees of /proc and /sys/fs/cgroup, shaped as Slurm's documents say (cgroup_v2.html)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

V2_MOUNT = "30 23 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNTS = (
    "31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "32 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)
CPU_STAT = b"usage_usec 5000000\nuser_usec 4000000\nsystem_usec 1000000\nnr_periods 0\n"
PSI = b"some avg10=0.00 avg60=0.00 avg300=0.00 total=%d\nfull avg10=0.00 avg60=0.00 total=%d\n"


@dataclass(frozen=True, slots=True)
class CgroupTree:
    """A root with processes and groups; `unified` is version 2."""

    root: Path
    unified: bool

    def mounts(self) -> None:
        """What is mounted, and this process as number 1's child."""
        text = V2_MOUNT if self.unified else V1_MOUNTS
        self.write("proc/self/mountinfo", text.encode())

    def process(self, pid: int, path: str, *, step: str | None = None, **more: object) -> None:
        """A process of job 7 in a group; `comm`, `cpu_ticks`, `ppid` may be said."""
        lines = f"0::{path}\n" if self.unified else f"4:cpu,cpuacct:{path}\n3:memory:{path}\n"
        environ = [b"PATH=/bin", b"SLURM_JOB_ID=7"]
        environ += [] if step is None else [f"SLURM_STEP_ID={step}".encode()]
        ticks = more.get("cpu_ticks", 0)
        stat = f"{pid} ({more.get('comm', 'python3')}) S {more.get('ppid', 1)} " + "0 " * 9
        stat += f"{ticks} 0 0 0 20 0 1 0 4711 0 25 0\n"
        self.write(f"proc/{pid}/cgroup", lines.encode())
        self.write(f"proc/{pid}/environ", b"\0".join(environ) + b"\0")
        self.write(f"proc/{pid}/stat", stat.encode())

    def myself(self, path: str) -> None:
        """The group of the process that asks."""
        lines = f"0::{path}\n" if self.unified else f"4:cpu,cpuacct:{path}\n3:memory:{path}\n"
        self.write("proc/self/cgroup", lines.encode())

    def group(self, path: str, **files: bytes) -> None:
        """Files of a group of version 2, `__` for a dot."""
        for name, data in files.items():
            self.write(f"sys/fs/cgroup{path}/{name.replace('__', '.')}", data)

    def write(self, name: str, data: bytes) -> None:
        """A file below the root."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def memory_files() -> dict[str, bytes]:
    """A group that holds 1000 bytes, of which 300 are files that could be dropped."""
    return {
        "memory__current": b"1000\n",
        "memory__peak": b"1500\n",
        "memory__stat": b"anon 600\nfile 350\nshmem 50\ninactive_file 200\nactive_file 100\n",
        "memory__events": b"low 0\nhigh 0\nmax 4\noom 2\noom_kill 1\noom_group_kill 0\n",
    }
