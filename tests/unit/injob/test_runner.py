"""The runner, run from the packed archive with stand-ins for srun and scontrol."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from hpckit.injob import runner as run_commands
from tests.fakes.running import ENVIRONMENT, Ended, Stage, until, with_runner
from tests.unit.injob.test_order import NODES, written

ENTRY = with_runner()["HPCKIT_INJOB"]
AGENT = [sys.executable, "-I", ENTRY]
RANK = [*AGENT, "rank", "--from", "slurm", "--"]
SIZE = ["--nodes=8", "--ntasks=16", "--ntasks-per-node=2"]
STEP = ["srun", *SIZE, "--distribution=block:block", "--export=ALL"]
REFUSING = (
    f"#!/bin/bash\n{ENVIRONMENT}"
    + """\
for word in "$@"; do [[ $word == --*=* ]] && echo "$word"; done >>"$SAW/options"
case " $* " in *=arbitrary*) {refuse} ;; esac
while [[ $1 == --* ]]; do shift; done
export SLURM_NODEID=0 SLURM_TASKS_PER_NODE='2(x8)'
SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_STEP_NUM_TASKS=16 exec "$@"
"""
)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """Stand-ins, and a job folder with an order for eight nodes."""
    stage = Stage(tmp_path / "stage")
    stage.program("scontrol", f"#!/bin/bash\nprintf '%s\\n' {' '.join(NODES)}\n")
    job = stage.folder / "job"
    (job / "logs").mkdir(parents=True)
    written(job)
    return stage


def script(*words: str) -> str:
    """A script whose shell becomes the runner."""
    quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
    return f"#!/bin/bash\nexec '{sys.executable}' -I '{ENTRY}' run {quoted}\n"


def ran(stage: Stage, *words: str, **env: str) -> Ended:
    """The runner's end in a job of Slurm."""
    job = {"HPCKIT_JOB_FOLDER": str(stage.folder / "job"), "SLURMD_NODENAME": NODES[0]}
    # Other tests at the same time hold the ports of another job.
    return stage.run(script(*words), {**job, "SLURM_JOB_ID": str(os.getpid()), **env})


@pytest.mark.parametrize(
    "words", [(), ("--",), ("--order",), ("--what", "--", "x"), ("--ranks", "x", "--", "x")]
)
def test_a_wrong_command_line(stage: Stage, words: tuple[str, ...]) -> None:
    """It says how it is used, and runs nothing."""
    ended = ran(stage, *words)
    assert ended.returncode == 2
    assert ended.stderr.startswith("usage: ")


def test_the_step_has_the_order(stage: Stage) -> None:
    """The step alone reads the file of hosts, and says nothing beside it of its nodes."""
    stage.program("srun", REFUSING.format(refuse=":"))
    ended = ran(stage, "--order", "--bind", "--", *STEP, *RANK, "show")
    assert (ended.returncode, ended.stderr) == (0, "")
    options = (stage.saw / "options").read_text().split()
    assert options == ["--distribution=arbitrary", "--ntasks=16", "--ntasks-per-node=2", STEP[-1]]
    place = stage.folder / "job" / "place" / "restart-0"
    assert (place / "hosts").read_text().split()[:2] == [NODES[0], NODES[0]]
    seen = ended.environment
    assert (seen["HPCKIT_PLACE"], seen["HPCKIT_BIND"]) == (str(place), "1")
    assert seen["MASTER_ADDR"] == NODES[0]
    assert "SLURM_HOSTFILE" not in seen
    assert (place / "began").exists()
    assert not (place / "waiting").exists()


@pytest.mark.parametrize(("more", "mapped"), [((), True), (("--keep-numbers",), False)])
def test_a_refused_order(stage: Stage, more: tuple[str, ...], mapped: bool) -> None:
    """The step is started once more in Slurm's order, where it can with hpckit's own numbers."""
    stage.program("srun", REFUSING.format(refuse="exit 1"))
    ended = ran(stage, "--order", *more, "--", *STEP, *RANK, "show")
    assert ended.returncode == 0, ended.stderr
    says = "hpckit numbers the ranks itself" if mapped else "ranks are in Slurm's own order"
    assert ended.stderr.splitlines()[0] == f"hpckit: warning: srun rejected the node order: {says}"
    assert ("HPCKIT_RANK_MAP" in ended.environment) == mapped
    assert (stage.saw / "options").read_text().split()[-5:] == STEP[1:]


@pytest.mark.parametrize("refuse", ["exit 7", 'rm "$HPCKIT_PLACE/waiting"; exit 1', "kill $$"])
def test_what_is_no_refusal(stage: Stage, refuse: str) -> None:
    """Another code, or a rank that began, is the end of the job: nothing runs twice."""
    stage.program("srun", REFUSING.format(refuse=refuse))
    ended = ran(stage, "--order", "--", *STEP, *RANK, "show")
    assert ended.returncode == {"exit 7": 7, "kill $$": 143}.get(refuse, 1)
    assert ended.words("show") is None


def test_a_launcher_on_each_node_is_numbered(stage: Stage) -> None:
    """In front of torchrun goes the node entry: it begins, and has the number of hpckit's map."""
    fake = "SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_STEP_NUM_TASKS=8 SLURMD_NODENAME=n3"
    text = REFUSING.format(refuse="exit 1").replace("SLURM_PROCID=0", fake)
    stage.program("srun", text.replace("SLURM_STEP_NUM_TASKS=16", ""))
    start = ["bash", "-c", 'echo "$SLURM_PROCID $HPCKIT_ORDERED" >node; exec "$@"', "torchrun"]
    step = ["srun", "--nodes=8", "--ntasks=8", "--ntasks-per-node=1"]
    ended = ran(stage, "--order", "--", *step, *start, "show")
    assert ended.returncode == 0, ended.stderr
    hosts = (stage.folder / "job" / "place" / "restart-0" / "hosts").read_text().split()
    assert (stage.folder / "work" / "node").read_text() == f"{hosts.index('n3')} \n"
    assert (stage.folder / "job" / "place" / "restart-0" / "began").exists()


def test_ranks_in_a_container_are_told_what_is_outside(stage: Stage) -> None:
    """What is named, and what communication needs: not what a runtime or launcher makes of it."""
    stage.program("srun", REFUSING.format(refuse=":"))
    told = {"FOO": "a", "NCCL_DEBUG": "WARN", "BAR": "b", "LD_LIBRARY_PATH": "/lib"}
    names = "FOO,LD_LIBRARY_PATH,GONE"
    ended = ran(stage, "--container", names, "--", *STEP, *RANK, "show", **told)
    outside = json.loads(ended.environment["HPCKIT_OUTSIDE"])
    assert outside == {"FOO": "a", "NCCL_DEBUG": "WARN"}
    assert ended.environment["HPCKIT_PLACE"]


def test_in_front_of_srun_s_own_container_stands_nothing(stage: Stage) -> None:
    """By Pyxis the first program of the step is inside, where the node's Python need not be."""
    stage.program("srun", REFUSING.format(refuse=":"))
    options = [*STEP, "--container-image=a", "--container-env=FOO"]
    ended = ran(stage, "--container", "FOO", "--", *options, "show", FOO="a")
    assert ended.words("show") == []


def test_the_first_failing_rank_gives_the_code(stage: Stage) -> None:
    """What ended with it says less; a job that went well is asked for no code."""
    for task in ("", "3"):
        logs = stage.folder / "job" / "logs" / (f"array-{task}" if task else "")
        logs.mkdir(exist_ok=True)
        (logs / "failed-2").write_text("41 5\n")
        env = {"SLURM_RESTART_COUNT": "2", "SLURM_ARRAY_TASK_ID": task}
        assert ran(stage, "--", *STEP[:1], "bash", "-c", "exit 9", **env).returncode == 41
    assert ran(stage, "--", *STEP[:1], "true", SLURM_RESTART_COUNT="2").returncode == 0


def test_a_requeue_is_marked(stage: Stage) -> None:
    """The job's log and a rank's say where a run that Slurm started again begins."""
    env = {"SLURM_RESTART_COUNT": "2", "SLURM_PROCID": "0"}
    ended = ran(stage, "--", *STEP[:1], *RANK, "true", **env)
    mark = "hpckit: requeued by Slurm: restart 2 begins here\n"
    assert mark in ended.stderr
    assert (stage.folder / "job" / "logs" / "rank-0.log").read_text() == mark
    assert "requeued" not in ran(stage, "--", *STEP[:1], "true").stderr


def test_the_sampler_runs_beside_the_step(stage: Stage) -> None:
    """In a step of its own with a log of its own, and ranks keep a ledger."""
    begun = stage.folder / "work" / "sampled"
    stage.program(
        "srun",
        "#!/bin/bash\n"
        f'case "$*" in *hpckit-sampler*) echo "$@" >{begun}; exit ;; esac\n'
        "while [[ $1 == --* ]]; do shift; done\n"
        f"until [[ -s {begun} ]]; do sleep 0.01; done\n"
        'exec "$@"\n',
    )
    ended = ran(stage, "--measure", "0.5", "--", *STEP, "show")
    assert ended.returncode == 0, ended.stderr
    assert ended.environment["HPCKIT_LEDGER"] == "1"
    words = begun.read_text().split()
    assert words[:4] == ["--nodes=8", "--ntasks=8", "--ntasks-per-node=1", "--overlap"]
    assert words[-5:] == ["sample", "--out", str(stage.folder / "job"), "--hz", "0.5"]
    assert (stage.folder / "job" / "logs" / "sampler.log").exists()


def test_without_a_folder_it_runs_the_command(stage: Stage) -> None:
    """A job that hpckit did not submit is run all the same, without order and sampler."""
    words = ("--order", "--bind", "--measure", "1", "--", *STEP, "show")
    ended = ran(stage, *words, HPCKIT_JOB_FOLDER="")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "HPCKIT_PLACE" not in ended.environment


def test_an_srun_that_is_missing(stage: Stage) -> None:
    """It is said as a shell says it."""
    ended = ran(stage, "--", "no-such-srun", "--nodes=1", "show")
    assert ended.returncode == 127
    assert "command not found: no-such-srun" in ended.stderr


def test_a_signal_before_the_step_is_handed_on(stage: Stage) -> None:
    """What comes while nodes are ordered waits for the step."""
    ready = stage.folder / "work" / "ready"
    stage.program("scontrol", f"#!/bin/bash\necho >{ready}; sleep 0.3; echo node1\n")
    process = stage.start(script("--", "srun", "show"))
    until(ready.exists)
    os.kill(process.pid, signal.SIGUSR1)
    assert stage.end(process).returncode == 128 + signal.SIGUSR1


@pytest.mark.parametrize(
    "name",
    [
        *("SRUN_OUTPUT", "SRUN_CONTAINER", "SRUN_CPUS_PER_TASK", "SLURM_STDOUTMODE"),
        *("SLURM_CONTAINER", "SLURM_GPUS_PER_TASK", "SLURM_MEM_PER_CPU", "SLURM_TASK_PROLOG"),
        *("LD_PRELOAD", "SLURM_HOSTFILE", "SLURM_EXACT", "SLURM_TRES_PER_TASK"),
    ],
)
def test_what_the_samplers_step_does_not_obey(name: str) -> None:
    """It is meant for the command's step; of memory the sampler is told all the same."""
    kept = {"SLURM_JOB_ID": "7", "SLURM_CONF": "/etc/slurm.conf", "HOME": "/home/ana"}
    seen = run_commands.sampler_environment({**kept, name: "100"})
    assert name not in seen
    assert kept.items() <= seen.items()
    assert (seen["HPCKIT_MEM_PER_CPU"] == "100") == (name == "SLURM_MEM_PER_CPU")
