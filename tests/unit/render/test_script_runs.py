"""Rendered scripts run by bash, with stand-ins for Slurm: words, exit codes, signals, traps."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.fakes.prepared import script_of, toml
from tests.fakes.running import WITHOUT_RUNNER, Stage, until

PROGRAM_WORDS = [
    "",
    "a b",
    "$HOME",
    "`x`",
    "it's",
    'say "x"',
    "a\nb",
    "-n",
    "--",
    "*",
    "\u202e",
    "é",
]
TRAPS_AND_OPTIONS = [
    "trap 'echo bye' EXIT",
    "trap 'echo term' TERM",
    "trap 'echo usr2' USR2",
    "trap 'echo exit; trap - EXIT' EXIT; trap : USR1 USR2 TERM",
    "set -e",
    "set -u",
    "set -o pipefail",
    "set -o posix",
    "set -euo pipefail",
    "set -E; trap 'echo err' ERR",
    "set -f; IFS=,",
    "shopt -s nullglob failglob",
    "umask 077",
]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A folder with stand-ins on PATH."""
    return Stage(tmp_path / "stage")


def job(command: list[str], **tables: object) -> str:
    """The text of a job file that runs `command`."""
    return toml({"name": "run", "command": command, **tables})


def slurm_and_local(kind: str = "plain") -> list[tuple[str, str]]:
    """The sites whose scripts differ, for one launch kind."""
    return [("docker", kind), ("local", kind)]


EVERY = [
    (site, kind) for kind in ("plain", "mpi", "torchrun") for site, kind in slurm_and_local(kind)
]


@pytest.mark.parametrize(("site", "kind"), EVERY)
def test_words_reach_the_program(stage: Stage, site: str, kind: str) -> None:
    """Every word of the command is what the program finds in its argument list."""
    command = ["show", *PROGRAM_WORDS]
    ended = stage.run(script_of(job(command, launch={"kind": kind}), site=site))
    assert ended.returncode == 0, ended.stderr
    assert ended.words("show") == PROGRAM_WORDS


@pytest.mark.parametrize(("site", "kind"), EVERY)
def test_the_code_is_the_programs(stage: Stage, site: str, kind: str) -> None:
    """The script ends with the program's own exit code, with the runner and without it."""
    script = script_of(job(["bash", "-c", "exit 143"], launch={"kind": kind}), site=site)
    for env in ({}, WITHOUT_RUNNER):
        ended = stage.run(script, env)
        assert ended.returncode == 143, ended.stderr


@pytest.mark.parametrize("line", TRAPS_AND_OPTIONS)
def test_setup_lines_leave_the_code(stage: Stage, line: str) -> None:
    """Traps and shell options in setup lines do not change the exit code of the job."""
    text = job(["bash", "-c", "exit 200"], environment={"setup": [line]})
    for site in ("docker", "local"):
        ended = stage.run(script_of(text, site=site))
        assert ended.returncode == 200, ended.stderr
        assert "unbound" not in ended.stderr
        assert ("bye" in ended.stdout) == ("bye" in line)


@pytest.mark.parametrize("name", ["USR1", "USR2"])
@pytest.mark.parametrize("site", ["docker", "local"])
def test_a_signal_is_forwarded(stage: Stage, site: str, name: str) -> None:
    """A signal to the batch shell reaches the program, and the code stays the program's."""
    program = f"trap 'echo >got; exit 7' {name}; echo >ready; while :; do sleep 0.02; done"
    process = stage.start(script_of(job(["bash", "-c", program]), site=site))
    until((stage.folder / "work" / "ready").exists)
    os.kill(process.pid, signal.Signals[f"SIG{name}"])
    assert stage.end(process).returncode == 7
    assert (stage.folder / "work" / "got").exists()


@pytest.mark.parametrize("line", ["", "set -e", "trap 'echo mine' USR2"])
@pytest.mark.parametrize("site", ["docker", "local"])
def test_a_signal_does_not_end_the_job(stage: Stage, site: str, line: str) -> None:
    """A program that survives signals and ends later is waited for, to its own code."""
    program = "trap '' USR2; echo >ready; sleep 0.3; exit 7"
    text = job(["bash", "-c", program], environment={"setup": [line]} if line else {})
    process = stage.start(script_of(text, site=site))
    until((stage.folder / "work" / "ready").exists)
    for _ in range(5):
        os.kill(process.pid, signal.SIGUSR2)
        time.sleep(0.02)
    ended = stage.end(process)
    assert ended.returncode == 7
    assert ("mine" in ended.stdout) == ("mine" in line)


def test_a_signal_as_the_program_ends(tmp_path: Path) -> None:
    """Signals that race with the program's end never stand for its code."""
    program = "trap '' USR2; echo >ready; sleep 0.02; exit 140"
    script = script_of(job(["bash", "-c", program]))
    for repeat in range(6):
        stage = Stage(tmp_path / str(repeat))
        process = stage.start(script)
        until((stage.folder / "work" / "ready").exists)
        time.sleep(0.004 * repeat)
        for _ in range(20):
            os.kill(process.pid, signal.SIGUSR2)
            time.sleep(0.001)
            if process.poll() is not None:
                break
        assert stage.end(process).returncode == 140, repeat


@pytest.mark.parametrize("line", [[], ["set -e"]], ids=str)
@pytest.mark.parametrize("site", ["docker", "local"])
def test_term_to_all_returns_the_programs_code(stage: Stage, site: str, line: list[str]) -> None:
    """Where TERM reaches every process, the script returns what the program answers to it."""
    program = "trap 'sleep 0.1; exit 9' TERM; echo >ready; while :; do sleep 0.02; done"
    text = job(["bash", "-c", program], environment={"setup": line})
    process = stage.start(script_of(text, site=site))
    until((stage.folder / "work" / "ready").exists)
    time.sleep(0.05)
    os.killpg(process.pid, signal.SIGTERM)
    assert stage.end(process).returncode == 9


FAILING: dict[str, dict[str, object]] = {
    "module purge": {"modules_purge": True},
    "module load": {"modules": ["gcc/13", "cuda"]},
    "activating": {"venv": "~/nowhere"},
    "conda activate": {"conda": "nowhere"},
}


@pytest.mark.parametrize("what", FAILING)
@pytest.mark.parametrize("line", [[], ["set -e"]], ids=str)
def test_a_failing_environment_ends_the_job(stage: Stage, what: str, line: list[str]) -> None:
    """Without its module, venv or conda the job ends with 1 and the command is not started."""
    stage.program("module", "#!/bin/bash\nexit 3\n")
    stage.program("conda", "#!/bin/bash\nexit 3\n")
    environment = {**FAILING[what], "setup": line}
    ended = stage.run(script_of(job(["show"], environment=environment)))
    assert ended.returncode == 1
    assert f"hpckit: {what}" in ended.stderr
    assert "the command was not started" in ended.stderr
    assert ended.words("show") is None
    assert ended.words("srun") is None


def test_the_environment_is_made_in_order(stage: Stage) -> None:
    """Modules, the venv in the home of whoever runs the job, exports, then setup lines."""
    activate = stage.folder / "home" / "my env" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    activate.write_text("STEPS=$STEPS:venv\n")
    stage.program("module", '#!/bin/bash\necho "module $*" >&2\n')
    environment = {
        "modules_purge": True,
        "modules": ["cuda/12"],
        "venv": "~/my env",
        "set": {"A": "$B `x`\n'"},
        "setup": ['export STEPS="$STEPS:setup:${A:0:2}"'],
    }
    text = job(["show"], environment=environment, tune={"env": {"NCCL_DEBUG": "WARN"}})
    ended = stage.run(script_of(text), {"STEPS": "start"})
    assert ended.returncode == 0, ended.stderr
    assert ended.environment["STEPS"] == "start:venv:setup:$B"
    assert ended.environment["A"] == "$B `x`\n'"
    assert ended.environment["NCCL_DEBUG"] == "WARN"
    assert ended.stderr.index("module purge") < ended.stderr.index("module load cuda/12")


def test_conda_is_activated_through_its_hook(stage: Stage) -> None:
    """The shell hook of conda is evaluated, so that `conda activate` works in a batch shell."""
    hook = 'conda() { export CONDA_SAW="$*"; }'
    stage.program("conda", f"#!/bin/bash\n[[ $* == 'shell.bash hook' ]] && echo '{hook}'\n")
    ended = stage.run(script_of(job(["show"], environment={"conda": "my env"})))
    assert ended.returncode == 0, ended.stderr
    assert ended.environment["CONDA_SAW"] == "activate my env"


def test_failing_scontrol_leaves_the_first_node(stage: Stage) -> None:
    """Without the names of its nodes a job meets where its batch script runs."""
    stage.program("scontrol", "#!/bin/bash\nexit 1\n")
    ended = stage.run(script_of(job(["show"])))
    assert ended.returncode == 0
    assert ended.environment["MASTER_ADDR"] == "node1"
    assert "hpckit: warning: ranks are in Slurm's own order: scontrol" in ended.stderr


@pytest.mark.parametrize(("site", "kind"), EVERY)
def test_without_the_runner(stage: Stage, site: str, kind: str) -> None:
    """Without hpckit's runner the command runs all the same, after one warning."""
    script = script_of(job(["show"], launch={"kind": kind}), site=site)
    ended = stage.run(script, WITHOUT_RUNNER)
    assert ended.returncode == 0
    assert ended.stderr.count("hpckit: warning:") == 1
    assert len(ended.stderr.splitlines()) == 1
    where = "node1" if site == "docker" else "127.0.0.1"
    assert ended.environment["MASTER_ADDR"] == where
    if site == "docker":
        assert ended.environment["MASTER_PORT"] == str(61000 + 771234 % 4536)


@pytest.mark.parametrize("python", ["/nowhere/python3", "/bin/false"])
def test_without_a_usable_python(stage: Stage, python: str) -> None:
    """A runner that no Python here can run is left out, with the same warning."""
    stage.program("python3", "#!/bin/bash\nexit 1\n")
    ended = stage.run(script_of(job(["show"])), {"HPCKIT_PYTHON": python})
    assert ended.returncode == 0
    assert ended.stderr.count("hpckit: warning:") == 1


def test_another_python_is_tried(stage: Stage) -> None:
    """Where the Python that submitted is not on the node, the node's own runs the runner."""
    stage.program("python3", f'#!/bin/bash\nexec {sys.executable} "$@"\n')
    ended = stage.run(script_of(job(["show"])), {"HPCKIT_PYTHON": "/nowhere/python3"})
    assert ended.returncode == 0
    assert ended.stderr == ""


def test_where_ranks_meet(stage: Stage) -> None:
    """The master is the first node of the job, or this machine; the port is a free one."""
    for site, where in (("docker", "node1"), ("local", "127.0.0.1")):
        ended = stage.run(script_of(job(["show"]), site=site))
        assert ended.stderr == ""
        assert ended.environment["MASTER_ADDR"] == where
        assert 61000 <= int(ended.environment["MASTER_PORT"]) < 65536


@pytest.mark.parametrize("runner", [{}, WITHOUT_RUNNER], ids=["runner", "alone"])
def test_torchrun_reads_its_node_rank_on_the_node(stage: Stage, runner: dict[str, str]) -> None:
    """Each node's torchrun gets the number of its own task, never that of the batch shell."""
    stage.program("torchrun", '#!/bin/bash\nprintf "%s\\n" "$@" >"$SAW/torchrun.$SLURM_PROCID"\n')
    text = job(
        ["train.py", "a b"],
        launch={"kind": "torchrun", "args": ["--max-restarts=1"]},
        resources={"nodes": 2, "gpus_per_node": 8},
    )
    ended = stage.run(script_of(text), {"SLURM_PROCID": "5", **runner})
    assert ended.returncode == 0, ended.stderr
    for node in (0, 1):
        words = (stage.saw / f"torchrun.{node}").read_text().splitlines()
        assert words[:2] == [f"--node-rank={node}", "--master-addr=node1"]
        assert words[2].startswith("--master-port=6")
        size = ["--nnodes=2", "--nproc-per-node=8", "--max-restarts=1", "--no-python"]
        assert words[3:7] == size
        assert words[-2:] == ["train.py", "a b"]


def test_local_ranks_need_the_runner(stage: Stage) -> None:
    """Without the runner nothing starts several ranks here: one would be something else."""
    ended = stage.run(script_of(job(["show"], resources=RANKS), site="local"), WITHOUT_RUNNER)
    assert ended.returncode == 1
    assert ended.words("show") is None


RANKS = {"ntasks_per_node": 3}


def test_local_ranks_know_themselves(stage: Stage) -> None:
    """Each local rank finds its own number and the number of all."""
    program = 'echo "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $NODE_RANK" >rank.$RANK'
    text = job(["bash", "-c", program], resources=RANKS)
    assert stage.run(script_of(text, site="local")).returncode == 0
    work = stage.folder / "work"
    assert [(work / f"rank.{rank}").read_text() for rank in range(3)] == [
        f"{rank} {rank} 3 3 0\n" for rank in range(3)
    ]


@pytest.mark.parametrize("line", [[], ["set -euo pipefail"]], ids=str)
def test_the_first_failing_rank_ends_the_others(stage: Stage, line: list[str]) -> None:
    """The first rank that fails gives the code, and the others are ended with TERM."""
    program = (
        "trap 'echo >ended.$RANK; exit 99' TERM; echo >ready.$RANK; "
        "if ((RANK == 1)); then until [[ -e ready.0 && -e ready.2 ]]; do sleep 0.01; done; exit 7; "
        "fi; while :; do sleep 0.02; done"
    )
    text = job(["bash", "-c", program], resources=RANKS, environment={"setup": line})
    ended = stage.run(script_of(text, site="local"))
    assert ended.returncode == 7, ended.stderr
    work = stage.folder / "work"
    assert sorted(path.name for path in work.glob("ended.*")) == ["ended.0", "ended.2"]


def test_ranks_go_on_when_they_may(stage: Stage) -> None:
    """Without kill_on_bad_exit the others run to their end; the code is the first failure's."""
    program = "((RANK == 1)) && exit 7; sleep 0.2; echo >done.$RANK"
    text = job(["bash", "-c", program], resources=RANKS, launch={"kill_on_bad_exit": False})
    assert stage.run(script_of(text, site="local")).returncode == 7
    assert len(list((stage.folder / "work").glob("done.*"))) == 2


ARRAY_VARIABLES = ("ID", "MIN", "MAX", "COUNT", "STEP")


@pytest.mark.parametrize(
    ("offset", "seen"), [(None, "5 0 9 4 3"), ("0", "5 0 2499 358 7"), ("202", "207 0 2499 358 7")]
)
def test_a_task_of_a_part_counts_in_the_whole(stage: Stage, offset: str | None, seen: str) -> None:
    """In a part of an array the script and the ranks see their place in the whole array."""
    text = job(
        ["show"], slurm={"array": "0-2500:7"}, environment={"setup": ["echo $SLURM_ARRAY_TASK_ID"]}
    )
    told = dict(zip(ARRAY_VARIABLES, ("5", "0", "9", "4", "3"), strict=True))
    env = {f"SLURM_ARRAY_TASK_{name}": value for name, value in told.items()}
    if offset is not None:
        env["HPCKIT_ARRAY_OFFSET"] = offset
    ended = stage.run(script_of(text), env)
    found = [ended.environment[f"SLURM_ARRAY_TASK_{name}"] for name in ARRAY_VARIABLES]
    assert " ".join(found) == seen
    assert ended.stdout.split()[0] == found[0]
    assert "HPCKIT_ARRAY_OFFSET" not in ended.environment
