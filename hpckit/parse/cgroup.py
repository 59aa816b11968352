"""What the kernel says of control groups, versions 1 and 2, in bytes as they were read.

Sources: cgroups(7); Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/{cpuacct,memory}.rst;
Documentation/accounting/psi.rst. A key that is not there is None: kernels have more or fewer.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

UNIFIED = ""
"""The name that the hierarchy of version 2 has here."""
_MEMBERSHIP_PARTS = 3
_MOUNT_POINT = 4
_LEAST_STAT_WORDS = 9
_TICK_US = 10_000  # USER_HZ is 100: time(7)


def parse_memberships(data: bytes) -> dict[str, str]:
    """/proc/PID/cgroup: controller -> path in its hierarchy, version 2 under `UNIFIED`."""
    found: dict[str, str] = {}
    for line in data.decode("utf-8", "surrogateescape").splitlines():
        parts = line.split(":", 2)
        if len(parts) == _MEMBERSHIP_PARTS:
            for controller in parts[1].split(","):
                found[controller] = parts[2].removesuffix(" (deleted)")
    return found


def parse_mounts(data: bytes) -> dict[str, tuple[str, str]]:
    """/proc/self/mountinfo: controller -> (root within the hierarchy, mount point)."""
    found: dict[str, tuple[str, str]] = {}
    for line in data.decode("utf-8", "surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        parts, kind = before.split(), after.split()
        if len(parts) <= _MOUNT_POINT or not kind or not kind[0].startswith("cgroup"):
            continue
        place = (unescaped(parts[_MOUNT_POINT - 1]), unescaped(parts[_MOUNT_POINT]))
        if kind[0] == "cgroup2":
            found.setdefault(UNIFIED, place)
        else:
            for option in kind[-1].split(","):
                found.setdefault(option, place)
    return found


def folder_of(path: str, mount: tuple[str, str]) -> str | None:
    """Where a cgroup's files are; None for one outside what is mounted here."""
    root, point = mount
    if "/.." in path:
        return None
    if root == "/":
        below = path
    elif path == root or path.startswith(f"{root}/"):
        below = path[len(root) :]
    else:
        return None
    return f"{point}{below}".rstrip("/")


def job_path(own: str, others: Iterable[str]) -> str | None:
    """The deepest cgroup that holds this process and one of another step; None if there is none.

    Nothing is known of its name: Slurm has called it job_<id> and, from 26.05 on, by its SLUID.
    A process of the job in this very cgroup, or a hierarchy that has only the root in common, is
    one that Slurm does not confine.
    """
    best: list[str] = []
    mine = own.split("/")
    for other in others:
        if other == own or other.startswith(f"{own}/"):
            return None
        shared = []
        for one, another in zip(mine, other.split("/"), strict=False):
            if one != another:
                break
            shared.append(one)
        best = max(best, shared, key=len)
    return "/".join(best) if len(best) > 1 else None


def step_path(own: str, job: str) -> str:
    """The cgroup of this process's own step: the job's child on the way to it."""
    first = own[len(job) + 1 :].partition("/")[0]
    return f"{job}/{first}"


def value_of(data: bytes, key: bytes) -> int | None:
    """The number of a key in a file such as cpu.stat or memory.stat: `key number` a line."""
    at = 0 if data.startswith(key + b" ") else data.find(b"\n" + key + b" ") + 1
    if not at and not data.startswith(key + b" "):
        return None
    return number_of(data[at + len(key) + 1 :])


def number_of(data: bytes) -> int | None:
    """The number that a file such as memory.current begins with; None for `max` and the like."""
    word = data[:32].split(None, 1)
    return int(word[0]) if word and word[0].isdigit() else None


def count_of(data: bytes) -> int | None:
    """How many CPUs a list such as that of cpuset.cpus names: `0-31,64`; None for an empty one."""
    count = 0
    for run in data.split(b","):
        first, _, last = run.strip().partition(b"-")
        if not first.isdigit() or not (last.isdigit() or not last):
            return None
        count += int(last or first) - int(first) + 1
    return count


def parse_psi(data: bytes) -> tuple[int | None, int | None]:
    """The totals of a pressure file in µs: `some` and `full`, which cpu has had since 5.13."""
    return _total(data, b"some"), _total(data, b"full")


def busy_us(data: bytes) -> int | None:
    """The CPU time in /proc/stat's first line in µs, without idle and iowait: proc_stat(5)."""
    words = data.partition(b"\n")[0].split()
    if len(words) < _LEAST_STAT_WORDS or words[0] != b"cpu":
        return None
    user, nice, system, _, _, irq, soft, stolen = map(int, words[1:_LEAST_STAT_WORDS])
    return (user + nice + system + irq + soft + stolen) * _TICK_US


def _total(data: bytes, word: bytes) -> int | None:
    at = data.find(word + b" ")
    total = data.find(b"total=", at) if at >= 0 else -1
    return number_of(data[total + len(b"total=") :]) if total >= 0 else None


def unescaped(text: str) -> str:
    # mountinfo writes space, tab, newline and backslash as octal numbers: proc(5).
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, letter)
    return text
