"""The values that pyslurm's answers become, and when the commands are asked instead."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from hpckit.core.process import CommandResult
from hpckit.slurm.ask import SlurmCli
from hpckit.slurm.pyslurm_ask import PyslurmProbe, SlurmLibrary, probe_argv, probe_pyslurm
from hpckit.slurm.sacct import parse_sacct, sacct_argv
from hpckit.slurm.squeue import in_service_argv, parse_squeue, sinfo_argv, squeue_argv
from hpckit.slurm.text import SEPARATOR
from hpckit.slurm.values import JobId, NodeGroup, NodesInService, Partition
from tests.fakes.clock import FakeClock
from tests.fakes.command_runner import FakeCommandRunner

UUID = "f6c235d2efcc477986d47e379bb2424d"
SCRIPT = f"/shared/alice/submission-{UUID}.sbatch"
START, END = 1795818491, 1795819091


@pytest.fixture(autouse=True)
def alice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks is 1001."""
    monkeypatch.setattr("os.getuid", lambda: 1001)


@dataclass
class Job:
    """What pyslurm 24.11.0 has of a job in the queue; task 0 and component 0 are None to it."""

    id: int
    state: str = "RUNNING"
    state_reason: str | None = None
    array_id: int | None = None
    array_task_id: int | None = None
    array_tasks_waiting: str | None = None
    heterogeneous_id: int | None = None
    heterogeneous_offset: int | None = None
    start_time: int | None = None
    end_time: int | None = None
    allocated_nodes: str | None = None
    user_id: int = 1001
    command: str = SCRIPT


@dataclass
class AccountedJob:
    """What pyslurm 24.11.0 has of a job in the accounts."""

    id: int
    state: str = "COMPLETED"
    state_reason: str | None = None
    array_id: int | None = None
    array_task_id: int | None = None
    array_tasks_waiting: str | None = None
    exit_code: int = 0
    exit_code_signal: int = 0
    start_time: int | None = START
    end_time: int | None = END
    nodelist: str = "c1"
    cancelled_by: str | None = None
    submit_command: str = f"sbatch {SCRIPT}"


@dataclass
class Node:
    """What pyslurm 24.11.0 has of a node."""

    state: str
    partitions: list[str] = field(default_factory=lambda: ["main"])
    configured_gres: dict[str, int] = field(default_factory=lambda: {"gpu:h100": 8})
    total_cpus: int = 64
    real_memory: int = 1000000
    available_features: list[str] = field(default_factory=list)


class PyslurmError(Exception):
    """The class of the same name there."""


def collection(*values: Any) -> Any:
    """A class whose `load` gives the values, or raises the only one."""

    def load(*_: Any) -> Any:
        if values and isinstance(values[0], Exception):
            raise values[0]
        return SimpleNamespace(values=lambda: values)

    return SimpleNamespace(load=load)


def library(answers: dict[tuple[str, ...], str], **module: Any) -> tuple[SlurmLibrary, Any]:
    """What asks a module that has these collections, and the runner of its commands."""
    runner = FakeCommandRunner(
        {
            argv: CommandResult(returncode=0, stdout=text, stderr="")
            for argv, text in answers.items()
        }
    )
    fake = SimpleNamespace(PyslurmError=PyslurmError, **module)
    return SlurmLibrary(runner, FakeClock(), lambda: fake), runner


def lines(*rows: str) -> str:
    """A command's answer."""
    return "".join(row.replace("|", SEPARATOR) + "\n" for row in rows)


QUEUE = (
    (Job(1, start_time=START, end_time=END, allocated_nodes="c[3-4]"),
     "1|RUNNING|None|2026-11-27T22:28:11|2026-11-27T22:38:11|c[3-4]"),
    (Job(2, state="PENDING", state_reason="JobHeldUser"), "2|PENDING|JobHeldUser|N/A|N/A|"),
    (Job(16, array_id=6, start_time=START, end_time=END, allocated_nodes="c2"),
     "6_0|RUNNING|None|2026-11-27T22:28:11|2026-11-27T22:38:11|c2"),
    (Job(6, array_id=6, array_tasks_waiting="2-9", state="PENDING", state_reason="Priority"),
     "6_[2-9%2]|PENDING|Priority|N/A|N/A|"),
    (Job(9, array_id=9, state="CANCELLED", start_time=END, end_time=END),
     "9|CANCELLED|None|2026-11-27T22:38:11|2026-11-27T22:38:11|"),
    (Job(7, heterogeneous_id=7, start_time=START, end_time=END, allocated_nodes="c1"),
     "7+0|RUNNING|None|2026-11-27T22:28:11|2026-11-27T22:38:11|c1"),
    (Job(8, heterogeneous_id=7, heterogeneous_offset=1, state="FAILED",
         state_reason="BadConstraints", start_time=START, end_time=START),
     "7+1|FAILED|BadConstraints|2026-11-27T22:28:11|2026-11-27T22:28:11|"),
)  # fmt: skip
ACCOUNTS = (
    (AccountedJob(4, state="FAILED", exit_code=7, state_reason="Priority"),
     "4|FAILED|7:0|2026-11-27T22:28:11|2026-11-27T22:38:11|c1|Priority"),
    (AccountedJob(10, state="FAILED", exit_code_signal=9),
     "10|FAILED|0:9|2026-11-27T22:28:11|2026-11-27T22:38:11|c1|None"),
    (AccountedJob(14, array_id=5), "5_0|COMPLETED|0:0|2026-11-27T22:28:11|2026-11-27T22:38:11|c1|"),
    (AccountedJob(5, array_id=5, array_tasks_waiting="0xC", state="PENDING", start_time=None,
                  end_time=None, nodelist="None assigned"),
     "5_[2-3]|PENDING|0:0|Unknown|Unknown|None assigned|None"),
    (AccountedJob(9, state="CANCELLED", cancelled_by="root"),
     "9|CANCELLED by 0|0:0|2026-11-27T22:28:11|2026-11-27T22:38:11|c1|None"),
)  # fmt: skip
IDS = [JobId(str(job_id)) for job_id in (4, 10, 5, 9)]


def test_the_queue_is_squeues() -> None:
    """Each kind of job is the record that squeue's line is; another user's is left out."""
    jobs = [job for job, _ in QUEUE]
    asked, runner = library({}, Jobs=collection(*jobs, Job(3, user_id=1002)))
    assert asked.queue(None) == parse_squeue(lines(*(f"{line}|{SCRIPT}" for _, line in QUEUE)))
    assert runner.asked == []


def test_the_accounts_are_saccts() -> None:
    """Codes, signals, tasks and who cancelled are the records that sacct's lines are."""
    jobs = collection(*(job for job, _ in ACCOUNTS))
    asked, runner = library({}, db=SimpleNamespace(Jobs=jobs, JobFilter=lambda ids: ids))
    said = lines(*(f"{line}|sbatch {SCRIPT}" for _, line in ACCOUNTS))
    assert asked.accounts(IDS, None) == parse_sacct(said)
    assert runner.asked == []


def test_partitions_and_nodes() -> None:
    """Nodes that are alike are one group; drained nodes are in service while they have jobs."""
    gres = {"gpu:a100": 4, "gpu:1g.10gb": 2, "nvme": 1}
    asked, _ = library(
        {},
        Nodes=collection(
            Node("IDLE+DRAIN"),
            Node("MIXED+DRAIN", partitions=["main", "debug"]),
            Node("DOWN*", configured_gres=gres, available_features=["nv", "ib"]),
        ),
        Partitions=collection(
            SimpleNamespace(name="main", state="UP", is_default=True, max_time="UNLIMITED"),
            SimpleNamespace(name="debug", state="DRAIN", is_default=False, max_time=30),
            SimpleNamespace(name="empty", state="UP", is_default=False, max_time=30),
        ),
    )
    h100 = NodeGroup(nodes=2, cpus=64, mem_mib=1000000, gpus=8, gpu_types=("h100",))
    a100 = NodeGroup(nodes=1, cpus=64, mem_mib=1000000, gpus=6, gpu_types=("a100", "1g.10gb"),
                     features=("nv", "ib"))  # fmt: skip
    main, debug, empty = asked.partitions(None)
    assert main == Partition(
        name="main", is_default=True, is_up=True, time_limit_s=None, groups=(h100, a100)
    )
    assert (debug.is_up, debug.time_limit_s, len(debug.groups), empty.groups) == (
        False,
        1800,
        1,
        (),
    )
    counts = asked.in_service(None)
    assert counts == {
        "main": NodesInService(1, 3),
        "debug": NodesInService(1, 1),
        "empty": NodesInService(0, 0),
    }


@pytest.mark.parametrize("trouble", [PyslurmError("Unable to contact"), IndexError("list index")])
def test_commands_are_asked_when_pyslurm_fails(trouble: Exception) -> None:
    """What it cannot answer, and what is asked of another cluster, goes to the commands."""
    none = collection(trouble)
    db = SimpleNamespace(Jobs=none, JobFilter=lambda ids: ids)
    argv = (squeue_argv(None), squeue_argv("far"), sacct_argv(IDS, None))
    questions = (*argv, sinfo_argv(None), in_service_argv(None))
    asked, runner = library(
        dict.fromkeys(questions, ""), Jobs=none, db=db, Nodes=none, Partitions=none
    )
    assert (asked.queue(None), asked.queue("far"), asked.accounts(IDS, None)) == ((), (), [])
    assert (asked.partitions(None), asked.in_service(None)) == ((), {})
    assert runner.asked == list(questions)
    assert asked.accounts([], None) == []


def test_a_job_that_it_does_not_tell_is_asked_of_sacct() -> None:
    """Of an id that was given again pyslurm knows somebody else's job alone."""
    jobs = collection(AccountedJob(4, submit_command="sbatch other.sh"))
    said = lines(f"4|COMPLETED|0:0|Unknown|Unknown|c1|None|sbatch {SCRIPT}")
    asked, _ = library(
        {sacct_argv(["4"], None): said},  # type: ignore[list-item]
        db=SimpleNamespace(Jobs=jobs, JobFilter=lambda ids: ids),
    )
    found = asked.accounts([JobId("4")], None)
    assert found is not None
    assert found[0].submission == UUID


def test_no_pyslurm_no_question() -> None:
    """Where it cannot be used all goes to the commands."""
    runner = FakeCommandRunner(
        {squeue_argv(None): CommandResult(returncode=0, stdout="", stderr="")}
    )
    asked: SlurmCli = SlurmLibrary(runner, FakeClock(), lambda: None)
    assert asked.queue(None) == ()


@pytest.mark.parametrize(
    ("code", "out", "err", "found"),
    [
        (0, "24.11.0\nslurm-wlm 24.11.5\n", "", PyslurmProbe("24.11.0")),
        (0, "22.5.3\nslurm-wlm 22.05.8\n", "", PyslurmProbe("22.5.3")),
        (0, "25.11.2\nslurm 24.11.5\n", "", PyslurmProbe("25.11.2", "libslurm is 24.11.5")),
        (1, "24.11.0\n", "x\nfatal: no slurm.conf\n",
         PyslurmProbe("24.11.0", "import failed with exit code 1: fatal: no slurm.conf")),
        (1, "", "", PyslurmProbe("unknown", "import failed with exit code 1: no output")),
    ],
)  # fmt: skip
def test_the_probe(code: int, out: str, err: str, found: PyslurmProbe) -> None:
    """It says which releases there are, or how the import ended that would have ended hpckit."""
    answer = CommandResult(returncode=code, stdout=out, stderr=err)
    assert probe_pyslurm(FakeCommandRunner({probe_argv(): answer}), is_here=True) == found
    assert found.is_usable == (found.refused is None)


def test_nothing_is_run_without_pyslurm() -> None:
    """Where Python does not find it, no process looks for it."""
    runner = FakeCommandRunner({})
    assert not probe_pyslurm(runner, is_here=False).is_usable
    assert runner.asked == []
    assert probe_pyslurm(runner, is_here=True).refused is not None
