"""Binds a rank to the CPUs, memory and NIC that a plan of its node has for it; never fails it.

All ranks of a node follow one document: the first that lies in a folder in memory of the node,
which is this user's alone. A process of the first local rank reads the node and writes it; one of
those who have waited long enough writes one without GPUs. Who has read it last removes it.
"""

from __future__ import annotations

import os
import sys

from hpckit.core.talk import reason, say
from hpckit.spec.folder_in_job import start_of

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final


SEEN_S: Final = 0.3
"""How long the others of a node may take to be seen."""
_POLL_S = 0.05


def allowed_together(
    env: Mapping[str, str],
    ranks: int,
    proc: str = "/proc",
    sys_cpu: str = "/sys/devices/system/cpu",
) -> tuple[list[int], str]:
    """The CPUs that the ranks of this node have together, and why none of them is to be bound.

    Nothing is bound where other jobs may be on those CPUs: the node lets this one use more than
    Slurm gave it, counted in cores where the job asked for one CPU of each. Nor is it where only
    some of them can be seen, as under /proc with hidepid: the ranks would all be moved onto those.
    """
    from time import monotonic, sleep

    given = int(_number(env, "SLURM_CPUS_ON_NODE") or 0)
    whole, until = min(given, os.cpu_count() or 1), monotonic() + SEEN_S
    while True:
        allowed, seen = allowed_here(proc)
        if len(allowed) >= whole or seen >= ranks:
            break
        if monotonic() > until:
            why = f"only {len(allowed)} of the job's {given} CPUs are visible"
            return sorted(allowed), f"{why}: the CPUs of its other ranks are hidden"
        sleep(_POLL_S)
    if 0 < given < len(allowed) and not (_takes_cores(env) and _cores(allowed, sys_cpu) <= given):
        why = f"the job may run on {len(allowed)} CPUs, but Slurm allocated {given}"
        return sorted(allowed), f"{why}: other jobs may use the same CPUs"
    return sorted(allowed), ""


def _takes_cores(env: Mapping[str, str]) -> bool:
    """Whether the job asked for whole cores, of which Slurm counts one CPU each (sbatch(1))."""
    has_hint = "nomultithread" in env.get("SLURM_HINT", "").split(",")
    return has_hint or env.get("SLURM_THREADS_PER_CORE") == "1"


def _cores(cpus: set[int], sys_cpu: str) -> int:
    """How many cores CPUs are of; of a CPU without siblings in sysfs it is one of its own."""
    found = set()
    for cpu in cpus:
        try:
            with open(f"{sys_cpu}/cpu{cpu}/topology/thread_siblings_list", encoding="ascii") as one:
                found.add(one.read())
        except (OSError, ValueError):
            found.add(str(cpu))
    return len(found)


def allowed_here(proc: str = "/proc") -> tuple[set[int], int]:
    """The CPUs of the ranks of this node, and how many ranks were seen.

    A launcher may have bound each already: they are this process's and those of its parent's other
    children of the same user.
    """
    found, seen = os.sched_getaffinity(0), 0
    parent, own = os.getppid(), os.getuid()
    try:
        with open(f"{proc}/{parent}/task/{parent}/children", encoding="ascii") as stream:
            children = stream.read().split()
    except (OSError, ValueError):
        return found, seen
    for pid in children:
        try:
            if os.stat(f"{proc}/{pid}").st_uid == own:
                found |= os.sched_getaffinity(int(pid))
                seen += 1
        except (OSError, ValueError):
            continue
    return found, seen


WAIT_S: Final = 2.0
"""How long the ranks of a node wait for its plan."""
PLAN: Final = "plan.json"
"""The document in the folder of a node."""
_LATE, _READ = "late", "read"
_ROOTS = ("/dev/shm", "/tmp")  # noqa: S108  a folder there is made for this user alone
_FIRST_POLL_S, _LAST_POLL_S = 0.005, 0.05
_MOST_NAME = 60
_MASK_BYTES = 128
"""Of 1024 NUMA nodes, as many as Linux has at most (CONFIG_NODES_SHIFT)."""
# Linux, include/uapi/linux/mempolicy.h; PREFERRED_MANY since 5.15.
_PREFERRED = 1
_PREFERRED_MANY = 5
# Linux, the system call tables of each architecture.
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237, "ppc64le": 261}


def bind_rank(
    env: dict[str, str], local_rank: int, ranks: int, log: int | None = None
) -> tuple[dict[str, str], Mapping[str, Any]]:
    """Bind this process as its node's plan says; give the command's environment and its part.

    `ranks` is how many the node has. The part is what the plan has for this rank, or `unbound`, why
    nothing is bound on this node, or `failed`, why this rank is not, which is one line too. Takes
    little more than WAIT_S, unless the node hardly gives its ranks a CPU.
    """
    try:
        document = _agreed(env, local_rank, ranks)
        if document.get("unbound"):
            return env, {"unbound": str(document["unbound"])}
        return apply_binding(document, local_rank, env, log), document["ranks"][local_rank]
    except OSError as error:
        why = reason(error)
    except Exception as error:  # noqa: BLE001  whatever it is, it must not fail the job
        why = f"{type(error).__name__}: {error}"
    say(f"warning: local rank {local_rank} is not bound: {why}", log)
    return env, {"failed": why}


def plan_folder(env: Mapping[str, str], ranks: int, roots: Sequence[str] = _ROOTS) -> str:
    """The folder of this start of the job's step on this node; empty where there can be none."""
    uid, job = os.getuid(), _number(env, "SLURM_JOB_ID")
    usable = (root for root in (*roots, env.get("TMPDIR", "")) if root)
    root = next((root for root in usable if os.access(root, os.W_OK | os.X_OK)), "")
    if not (root and job):
        return ""
    step, attempt = start_of(env)
    restart, task = _number(env, "SLURM_RESTART_COUNT"), _number(env, "SLURM_ARRAY_TASK_ID")
    # A job's folder is no other's; several slurmd can be on one host.
    names = (os.path.basename(env.get("HPCKIT_JOB_FOLDER", "")), env.get("SLURMD_NODENAME", ""))
    plain = ".".join(
        "".join(char if char.isascii() and char.isalnum() else "_" for char in name)[-_MOST_NAME:]
        for name in names
    )
    numbers = f"{uid}.{job}.{step}.{restart or 0}.{task or 0}.{attempt}.{ranks}"
    return f"{root}/hpckit.{numbers}.{plain}"


def _number(env: Mapping[str, str], name: str) -> str:
    text = env.get(name, "")
    return text if text.isascii() and text.isdigit() else ""


def _agreed(env: Mapping[str, str], local_rank: int, ranks: int) -> dict[str, Any]:
    folder = plan_folder(env, ranks)
    if not folder or not _is_private(folder):
        return _alone(env, ranks)
    path = f"{folder}/{PLAN}"
    try:
        if local_rank == 0 and not os.path.exists(path):
            _plan(env, path, ranks)
        if not _appears(path, WAIT_S):
            _stand_in(env, path, ranks)
        return _read(path)
    finally:
        _has_read(folder, ranks)


def _is_private(folder: str) -> bool:
    """Make a folder; whether it is this user's alone. Anybody may make names beside it."""
    from stat import S_ISDIR

    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    except OSError:
        return False
    found = os.lstat(folder)
    return S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _alone(env: Mapping[str, str], ranks: int) -> dict[str, Any]:
    """The plan of a rank that shares none: each has the same, where each may use the same CPUs."""
    from hpckit.binding.plan_in_job import cpu_plan

    allowed, unbound = allowed_together(env, ranks)
    why = "the ranks of this node have no private folder to share"
    if not unbound and set(allowed) != os.sched_getaffinity(0):
        unbound = f"{why}, and the launcher has already bound them"
    return {"unbound": unbound} if unbound else cpu_plan(ranks, allowed, why)


def _plan(env: Mapping[str, str], path: str, ranks: int) -> None:
    allowed, unbound = allowed_together(env, ranks)
    if not unbound:
        # Of a step that Slurm gave GPUs; without ConstrainDevices the driver shows others' too.
        gpus = env.get("SLURM_STEP_GPUS") or env.get("SLURM_JOB_GPUS", "")
        _start_planner(path, ranks, allowed, gpus)
        return
    from hpckit.binding.plan_in_job import publish

    publish(path, {"unbound": unbound})


def _stand_in(env: Mapping[str, str], path: str, ranks: int) -> None:
    """One of those who have waited plans the CPUs alone; the others wait for that one."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        os.close(os.open(f"{os.path.dirname(path)}/{_LATE}", flags, 0o600))
    except FileExistsError:
        if not _appears(path, 5 * WAIT_S):
            raise TimeoutError("no rank wrote the binding plan of this node") from None
        return
    from hpckit.binding.plan_in_job import cpu_plan, publish

    allowed, unbound = allowed_together(env, ranks)
    why = f"reading the topology of this node took over {WAIT_S:g} s"
    publish(path, {"unbound": unbound} if unbound else cpu_plan(ranks, allowed, why))


def _appears(path: str, wait_s: float) -> bool:
    from time import monotonic, sleep

    until, poll_s = monotonic() + wait_s, _FIRST_POLL_S
    while not os.path.exists(path):
        if monotonic() > until:
            return False
        sleep(poll_s)
        poll_s = min(2 * poll_s, _LAST_POLL_S)
    return True


def _read(path: str) -> dict[str, Any]:
    import json

    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(fd, "rb") as file:
        document: dict[str, Any] = json.load(file)
    return document


def _has_read(folder: str, ranks: int) -> None:
    """Count this rank; the last one removes the folder."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        fd = os.open(f"{folder}/{_READ}", flags, 0o600)
        try:
            os.write(fd, b".")
            count = os.fstat(fd).st_size
        finally:
            os.close(fd)
        if count >= ranks:
            _remove(folder)
    except OSError:
        return


def _remove(folder: str) -> None:
    """Remove a folder of files; two ranks may both be the last."""
    for name in os.listdir(folder):
        try:
            os.unlink(f"{folder}/{name}")
        except FileNotFoundError:
            continue
    os.rmdir(folder)


def _start_planner(path: str, ranks: int, allowed: list[int], step_gpus: str) -> None:
    """Let a process of its own read the node: a driver that hangs must not hold the command.

    Its parent ends at once, so that nobody has to wait for it. It has none of this process's files:
    srun waits for whoever holds a task's output.
    """
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        if os.fork() == 0:
            from hpckit.binding.plan_in_job import plan_and_publish

            plan_and_publish(path, ranks, allowed, step_gpus)
    finally:
        os._exit(0)


def apply_binding(
    document: Mapping[str, Any], local_rank: int, env: dict[str, str], log: int | None = None
) -> dict[str, str]:
    """Bind this process as a document says (`hpckit.binding/1`); give the command's environment.

    CPUs are taken that are allowed now, or that the document says the ranks have together. CUDA
    counts GPUs by PCI address (CUDA_DEVICE_ORDER), unless the environment says how; no GPU is
    hidden. HPCKIT_NIC are the rank's NICs. Whatever is wrong is one line.
    """
    rank = document["ranks"][local_rank]
    _bind_cpus(rank, document, local_rank, log)
    prefer_memory(_members(rank["memory_numa"], range(_MASK_BYTES * 8)))
    added = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if rank.get("nics"):
        added["HPCKIT_NIC"] = ",".join(rank["nics"])
    return {**added, **env}


def _bind_cpus(
    rank: Mapping[str, Any], document: Mapping[str, Any], local_rank: int, log: int | None
) -> None:
    now = os.sched_getaffinity(0)
    own = _members(rank["cpus"], now | _members(document["allowed"], range(1 << 16)))
    if not own:
        if rank["cpus"]:
            held = f"its planned CPUs {rank['cpus']} are not allowed here"
            say(f"warning: local rank {local_rank} is not bound: {held}", log)
        return
    try:
        os.sched_setaffinity(0, own)
    except OSError as error:
        why = reason(error)
        say(f"warning: local rank {local_rank} is not bound to its CPUs: {why}", log)


def _members(listed: str, among: set[int] | range) -> set[int]:
    """Those of some numbers that a list such as `0-3,8` names."""
    ends = [part.partition("-") for part in listed.split(",") if part]
    spans = [range(int(first), int(last or first) + 1) for first, _, last in ends]
    return {number for number in among for span in spans if number in span}


def prefer_memory(nodes: set[int]) -> bool:
    """Let memory come from these NUMA nodes while they have any; whether Linux took it.

    The command inherits it. Containers often refuse it, and first use does nearly the same then.
    Source: set_mempolicy(2).
    """
    number = _SET_MEMPOLICY.get(os.uname().machine)
    if not nodes or number is None or sys.byteorder != "little":
        return False
    try:
        import ctypes

        call = ctypes.CDLL("libc.so.6").syscall
    except (ImportError, OSError, AttributeError):
        return False
    for mode, chosen in ((_PREFERRED_MANY, nodes), (_PREFERRED, {min(nodes)})):
        mask = ctypes.create_string_buffer(_MASK_BYTES)
        mask.raw = sum(1 << node for node in chosen).to_bytes(_MASK_BYTES, "little")
        words = (ctypes.c_ulonglong(number), ctypes.c_ulonglong(mode))
        # The kernel takes one bit off the length.
        if call(*words, mask, ctypes.c_ulonglong(_MASK_BYTES * 8 + 1)) == 0:
            return True
    return False
