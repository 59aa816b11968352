"""Binding inside a job: ranks of one node follow one plan, and nothing of it fails a rank."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hpckit.binding.affinity import (
    PLAN,
    SEEN_S,
    WAIT_S,
    allowed_here,
    allowed_together,
    apply_binding,
    bind_rank,
    plan_folder,
    prefer_memory,
)
from hpckit.binding.bind import NodeBinding
from hpckit.binding.plan_in_job import publish
from hpckit.core.index_list import expand_indices, index_list
from tests.fakes.nvml_library import HEAD
from tests.fakes.sysfs_tree import dgx_h100, write_machine

LIMIT_S = 60.0
CPUS = sorted(os.sched_getaffinity(0))
NODES = (f"p{os.getpid()}n{number}" for number in itertools.count(1))
"""Names that no other process has: all tests share the memory of this machine."""
MOST_PID = 1 << 22
"""No process has this number (proc(5), pid_max)."""
TWO = pytest.mark.skipif(len(CPUS) < 2, reason="two CPUs are needed, and this machine has one")
RANK = """
import os, sys
os.sched_setaffinity(0, {held})
sys.path.insert(0, {root!r})
print("held", flush=True)
sys.stdin.readline()
from hpckit.binding import affinity
# However busy the machine is, a plan that somebody works at is waited for.
waits_s, appears = {waits_s}, affinity._appears
affinity._appears = lambda path, _: appears(path, waits_s.pop(0))
env, part = affinity.bind_rank(dict(os.environ), {rank}, {ranks})
print(part.get("unbound"))
print(part.get("cpus"))
print(sorted(os.sched_getaffinity(0)), env.get("CUDA_DEVICE_ORDER"), flush=True)
sys.stdin.readline()
"""
ROOT = str(Path(__file__).parents[3])
Rank = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(autouse=True)
def same_cpus() -> Iterator[None]:
    """A test that binds this process gives its CPUs back."""
    yield
    os.sched_setaffinity(0, CPUS)


@pytest.fixture
def job(job_folder: Path) -> Iterator[dict[str, str]]:
    """The environment of a job on a node that no other test has; no rank leaves a folder there."""
    env = {
        "HPCKIT_JOB_FOLDER": str(job_folder),
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURMD_NODENAME": next(NODES),
    }
    yield env
    folder = Path(plan_folder(env, 2))
    try:
        assert not list(folder.parent.glob(f"*.{env['SLURMD_NODENAME']}"))
    finally:
        for left in folder.parent.glob(f"hpckit.*.{env['SLURMD_NODENAME']}"):
            shutil.rmtree(left)


@pytest.fixture
def rank(job: dict[str, str]) -> Rank:
    """Start a rank that binds itself when it is told to, and says to which CPUs."""

    def started(number: int, ranks: int = 2, **options: Any) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        argv = [sys.executable, "-I", "-c", code_of(number, ranks, **options)]
        env = {**os.environ, **job}
        rank = subprocess.Popen(argv, env=env, text=True, stdin=pipe, stdout=pipe, stderr=pipe)
        assert rank.stdout is not None
        assert rank.stdout.readline() == "held\n"
        return rank

    return started


def code_of(
    number: int,
    ranks: int,
    *,
    held: list[int] = CPUS,
    root: str = ROOT,
    waits_s: tuple[float, float] = (LIMIT_S, LIMIT_S),
) -> str:
    """What a rank runs that holds some CPUs, and waits so long for a plan, and once more."""
    return RANK.format(rank=number, ranks=ranks, held=set(held), root=root, waits_s=[*waits_s])


def said(*processes: subprocess.Popen[str]) -> list[list[str]]:
    """Let them bind themselves at once; of each why not, its plan, its CPUs with the variable."""
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    found = []
    for process in processes:
        assert process.stdout
        # All of them live until each has spoken, as ranks do.
        found.append([process.stdout.readline().rstrip("\n") for _ in range(3)])
    for process in processes:
        _, err = process.communicate("\n", timeout=LIMIT_S)
        assert err == ""
    return found


def bound(*processes: subprocess.Popen[str]) -> list[list[int]]:
    """Let them bind themselves at once, and give the CPUs of each, which are those of its plan."""
    found = []
    for unbound, plan, line in said(*processes):
        cpus, order = line.rsplit(maxsplit=1)
        assert (unbound, order) == ("None", "PCI_BUS_ID")
        found.append(json.loads(cpus))
        assert plan == index_list(found[-1])
    return found


def document(*cpus: str, **first: object) -> dict[str, Any]:
    """A plan of ranks with these CPUs."""
    ranks: list[dict[str, object]] = [
        {"local_rank": at, "cpus": text, "memory_numa": ""} for at, text in enumerate(cpus)
    ]
    ranks[0] |= first
    return {"allowed": index_list(CPUS), "ranks": ranks}


@TWO
@pytest.mark.parametrize("is_packed", [False, True])
def test_two_processes_get_two_cores(
    rank: Rank, archive: Path, job_folder: Path, *, is_packed: bool
) -> None:
    """Two ranks of this machine are bound to different CPUs, by one plan that both have read.

    Nothing of it is left in memory of the node, and nothing lies in the job folder; the archive has
    all that a plan needs.
    """
    root = str(archive) if is_packed else ROOT
    first, second = bound(rank(0, root=root), rank(1, root=root))
    assert first
    assert second
    assert not set(first) & set(second)
    assert [path.name for path in job_folder.iterdir()] == ["logs"]


@TWO
def test_ranks_that_a_launcher_has_bound_are_bound_anew(rank: Rank) -> None:
    """What the ranks of a node have together is dealt: a launcher's own binding is no limit."""
    assert bound(rank(0, held=CPUS[1:2]), rank(1, held=CPUS[:1])) == [CPUS[:1], CPUS[1:2]]


def test_ranks_wait_a_while_for_a_plan(rank: Rank, job: dict[str, str]) -> None:
    """Without the first local rank one of the others plans the CPUs alone, and says why; who comes
    last of all follows that plan, and removes it.
    """
    assert WAIT_S == 2
    one, other = bound(*(rank(number, 3, waits_s=(0.25, LIMIT_S)) for number in (1, 2)))
    assert one
    assert other
    folder = Path(plan_folder(job, 3))
    assert sorted(path.name for path in folder.iterdir()) == ["late", PLAN, "read"]
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    text = (folder / PLAN).read_text()
    assert "GPUs ignored: reading the topology of this node took over 2 s" in text
    binding = msgspec.json.decode(text, type=NodeBinding)
    (first,) = bound(rank(0, 3))
    assert [each.cpus for each in binding.ranks] == [
        index_list(cpus) for cpus in (first, one, other)
    ]
    assert not folder.exists()


@pytest.mark.parametrize("in_the_way", ["open", "link", "file"])
def test_a_folder_that_is_not_this_users_alone_is_not_used(
    rank: Rank, job: dict[str, str], tmp_path: Path, in_the_way: str
) -> None:
    """Each rank plans the CPUs alone then, and all have the same plan."""
    folder = Path(plan_folder(job, 2))
    (tmp_path / "trap").mkdir()
    if in_the_way == "open":
        folder.mkdir()
        folder.chmod(0o777)
    elif in_the_way == "link":
        folder.symlink_to(tmp_path / "trap")
    else:
        folder.touch()
    try:
        one, other = bound(rank(0), rank(1))
    finally:
        shutil.rmtree(folder) if in_the_way == "open" else folder.unlink()
    assert len(CPUS) == 1 or not set(one) & set(other)
    assert not list((tmp_path / "trap").iterdir())


@TWO
def test_ranks_that_cannot_agree_keep_what_a_launcher_gave(rank: Rank, job: dict[str, str]) -> None:
    """Each sees other CPUs once the first has moved: so none of them does."""
    folder = Path(plan_folder(job, 2))
    folder.touch()
    try:
        told = said(rank(0, held=CPUS[:1]), rank(1, held=CPUS[1:2]))
    finally:
        folder.unlink()
    assert [line.split()[0] for *_, line in told] == [f"[{CPUS[0]}]", f"[{CPUS[1]}]"]
    assert all(why.endswith("and the launcher has already bound them") for why, *_ in told)


def test_the_first_plan_is_everybodys(tmp_path: Path) -> None:
    """A plan that comes late changes nothing and leaves nothing."""
    path = tmp_path / "node" / "plan.json"
    path.parent.mkdir()
    publish(str(path), {"ranks": [1]})
    publish(str(path), {"ranks": [2]})
    assert json.loads(path.read_text()) == {"ranks": [1]}
    assert [one.name for one in path.parent.iterdir()] == ["plan.json"]


def test_without_a_job_each_rank_plans_the_same() -> None:
    """What follows from the CPUs alone needs no word between ranks."""
    found: list[int] = []
    for local_rank in range(len(CPUS)):
        env, part = bind_rank({}, local_rank, len(CPUS))
        assert env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
        found += expand_indices(part["cpus"])
        os.sched_setaffinity(0, CPUS)
    assert sorted(found) == CPUS


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"ranks": 5}', '{"ranks": [{"local_rank": 1}]}'])
def test_a_plan_that_is_none_is_a_line(
    text: str, job: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever lies where the plan should be, the command runs, and the proof has the reason."""
    folder = Path(plan_folder(job, 2))
    folder.mkdir(mode=0o700)
    (folder / PLAN).write_text(text)
    for local_rank, _ in enumerate(range(2)):
        env, part = bind_rank(job, 0, 2)
        assert env == job
        assert list(part) == ["failed"]
        assert capfd.readouterr().err.count("\n") == 1, local_rank
    assert os.sched_getaffinity(0) == set(CPUS)


def test_only_cpus_that_are_there_are_taken(capfd: pytest.CaptureFixture[str]) -> None:
    """Of a plan's CPUs those count that are allowed; none of them is a line and no binding."""
    apply_binding(document(f"{CPUS[0]},4000-4001"), 0, {})
    assert os.sched_getaffinity(0) == {CPUS[0]}
    os.sched_setaffinity(0, CPUS)
    apply_binding(document(""), 0, {})
    assert capfd.readouterr().err == ""
    apply_binding(document("4000-4001"), 0, {})
    assert os.sched_getaffinity(0) == set(CPUS)
    said = "its planned CPUs 4000-4001 are not allowed here"
    assert capfd.readouterr().err == f"hpckit: warning: local rank 0 is not bound: {said}\n"


def test_the_environment_of_the_command() -> None:
    """GPUs are counted by PCI address, none is hidden, and what the user has set stays."""
    first = document("", nics=["mlx5_0", "mlx5_1"])
    assert apply_binding(first, 0, {"A": "b"}) == {
        "A": "b",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "HPCKIT_NIC": "mlx5_0,mlx5_1",
    }
    own = {"CUDA_DEVICE_ORDER": "FASTEST_FIRST", "ROCR_VISIBLE_DEVICES": "0"}
    assert apply_binding(document("", nics=[]), 0, own) == own


def test_memory_comes_from_the_nodes_of_the_plan() -> None:
    """Where Linux takes the policy, the mappings of the process say so."""
    code = (
        "from hpckit.binding.affinity import prefer_memory; took = prefer_memory({0})\n"
        "print(took, 'prefer' in open('/proc/self/numa_maps').read())"
    )
    maps = Path("/proc/self/numa_maps")
    if not maps.exists():
        pytest.skip("this kernel has no NUMA maps")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": ROOT}, timeout=LIMIT_S,
    )  # fmt: skip
    assert done.stdout.split() in (["True", "True"], ["False", "False"])
    assert not prefer_memory(set())


def test_the_node_is_read_with_its_gpus(tmp_path: Path, library: Path) -> None:
    """A plan has the driver's GPUs in order, beside the CPUs of a machine that stands in."""
    (tmp_path / "machine").mkdir()
    write_machine(tmp_path / "machine", dgx_h100())
    (tmp_path / "gpus.toml").write_text(HEAD + 'gpus = 2\n[gpu]\nname = "NVIDIA H100"\n')
    code = (
        "import json\n"
        "from hpckit.binding.plan_in_job import document_of, plan_here\n"
        "from hpckit.node.node_file import NodeSettings\n"
        f"settings = NodeSettings(sysroot={str(tmp_path / 'machine')!r})\n"
        "print(json.dumps(document_of(plan_here(2, range(8), settings=settings), range(8))))"
    )
    env = {
        **os.environ, "PYTHONPATH": ROOT, "LD_LIBRARY_PATH": str(library),
        "HPCKIT_FAKE_NVML": str(tmp_path / "gpus.toml"),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, check=True, timeout=LIMIT_S, capture_output=True
    )
    binding = msgspec.json.decode(done.stdout.decode(), type=NodeBinding)
    assert [[gpu.position for gpu in one.gpus] for one in binding.ranks] == [[0], [1]]
    assert all(gpu.uuid for one in binding.ranks for gpu in one.gpus)
    assert sorted(cpu for one in binding.ranks for cpu in expand_indices(one.cpus))


def seen(proc: Path, *pids: int) -> None:
    """The children of this process's parent, as /proc has them."""
    parent = os.getppid()
    folder = proc / str(parent) / "task" / str(parent)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "children").write_text("".join(f"{pid} " for pid in pids) + "x ")
    for pid in pids:
        if pid < MOST_PID:
            (proc / str(pid)).mkdir(exist_ok=True)


def test_cpus_of_the_other_ranks_count(tmp_path: Path) -> None:
    """What the parent's other children may use is the ranks' together; who is gone does not."""
    assert allowed_here(str(tmp_path)) == (set(CPUS), 0)
    seen(tmp_path, MOST_PID)
    os.sched_setaffinity(0, CPUS[:1])
    assert allowed_here(str(tmp_path)) == (set(CPUS[:1]), 0)
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    os.sched_setaffinity(other.pid, CPUS)
    seen(tmp_path, other.pid)
    try:
        assert allowed_here(str(tmp_path)) == (set(CPUS), 1)
    finally:
        other.communicate(b"\n", timeout=LIMIT_S)


@TWO
@pytest.mark.parametrize("hidden", ["all", "some", "none", "late"])
def test_cpus_of_ranks_that_cannot_be_seen(tmp_path: Path, hidden: str) -> None:
    """Where the ranks together have fewer CPUs than Slurm gave, all of them have to be seen, within
    a short time; else nothing is bound, and the reason is given.
    """
    given = {"SLURM_CPUS_ON_NODE": str(len(CPUS))}
    os.sched_setaffinity(0, CPUS[:1])
    own = os.getpid()
    if hidden in {"some", "none"}:
        seen(tmp_path, own, *([own] if hidden == "none" else []))
    timer = threading.Timer(SEEN_S / 3, seen, (tmp_path, own, own))
    if hidden == "late":
        timer.start()
    allowed, unbound = allowed_together(given, 2, str(tmp_path))
    assert allowed == CPUS[:1]
    why = f"only 1 of the job's {len(CPUS)} CPUs are visible"
    hides = f"{why}: the CPUs of its other ranks are hidden"
    assert unbound == (hides if hidden in {"all", "some"} else "")
    timer.cancel()


def test_cpus_that_slurm_did_not_give(tmp_path: Path) -> None:
    """Fewer given than there are to use is a reason to bind none; more than this machine has,
    or no number, is none.
    """

    def unbound(given: str) -> str:
        return allowed_together({"SLURM_CPUS_ON_NODE": given}, 2, str(tmp_path))[1]

    machine = os.cpu_count() == len(CPUS)
    assert unbound("") == unbound("²") == ""
    assert bool(unbound("4096")) != machine
    if len(CPUS) > 1:
        assert unbound("1").endswith(", but Slurm allocated 1: other jobs may use the same CPUs")


@TWO
@pytest.mark.parametrize(
    ("asked", "siblings", "is_bound"),
    [
        ({"SLURM_HINT": "nomultithread"}, "both", True),
        ({"SLURM_THREADS_PER_CORE": "1"}, "both", True),
        ({"SLURM_HINT": "nomultithread"}, "none", False),
        ({"SLURM_HINT": "multithread"}, "both", False),
        ({}, "both", False),
    ],
)
def test_a_job_of_one_thread_a_core_has_the_cores(
    tmp_path: Path, asked: dict[str, str], siblings: str, is_bound: bool
) -> None:
    """Slurm then counts one CPU for each core, and the node lets the job use both of its threads:
    they are bound where there are no more cores than that.
    """
    os.sched_setaffinity(0, CPUS[:2])
    if siblings == "both":
        for cpu in CPUS[:2]:
            (tmp_path / f"cpu{cpu}" / "topology").mkdir(parents=True)
            (tmp_path / f"cpu{cpu}" / "topology" / "thread_siblings_list").write_text(
                f"{index_list(CPUS[:2])}\n"
            )
    env = {"SLURM_CPUS_ON_NODE": "1", **asked}
    allowed, unbound = allowed_together(env, 2, str(tmp_path), str(tmp_path))
    assert allowed == CPUS[:2]
    assert (unbound == "") == is_bound
