"""Components, by a rendered script and the packed runner, with stand-ins for Slurm's commands."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from hpckit import wiring
from hpckit.injob.components import components
from hpckit.injob.het_group import of_group
from hpckit.jobs.components import prepare_job
from hpckit.jobs.source import JobSource
from tests.fakes.running import Ended, Stage

SRUN = """\
#!/bin/bash
for word in "$@"; do [[ $word == --het-group=* ]] && group=${word#*=}; done
while [[ $1 == --* ]]; do shift; done
env | grep -E '^(SLURM|HPCKIT|MASTER|WORLD)' | sort >"$SAW/environment-$group"
echo $$ >"$SAW/step-$group"
SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_STEP_NUM_TASKS=1 exec "$@"
"""
SQUEUE = """\
#!/bin/bash
for group in 0 1; do [[ -e $SAW/step-$group && $* == *1$group* ]] && echo "1$group.0 python3"; done
echo "10.1 hpckit-sampler"
"""
SCANCEL = """\
#!/bin/bash
echo "$@" >>"$SAW/scancel"
for step in "${@:2}"; do kill -TERM "$(cat "$SAW/step-${step:1:1}")"; done
"""
GROUPS = {
    "SLURM_JOB_ID_HET_GROUP_0": "10",
    "SLURM_JOB_ID_HET_GROUP_1": "11",
    "SLURM_JOB_NODELIST_HET_GROUP_0": "node1",
    "SLURM_JOB_NODELIST_HET_GROUP_1": "node2",
    "SLURM_MEM_PER_CPU": "1000",
    "SLURM_MEM_PER_CPU_HET_GROUP_0": "1000",
    "SLURM_MEM_PER_NODE_HET_GROUP_1": "200",
}
HEAD = 'schema = "hpckit.job/1"\nname = "two"\n[account]\nenabled = false\n'
SERVES = "trap 'echo drained; exit 0' TERM; while :; do sleep 0.1; done"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """Stand-ins, and a job folder."""
    stage = Stage(tmp_path / "stage")
    for name, text in (("srun", SRUN), ("squeue", SQUEUE), ("scancel", SCANCEL)):
        stage.program(name, text)
    stage.program("scontrol", '#!/bin/bash\necho "$3"\n')
    (stage.folder / "job" / "logs").mkdir(parents=True)
    for name in ("server", "worker"):
        (stage.folder / "job" / "components" / name / "logs").mkdir(parents=True)
    return stage


def ran(stage: Stage, server: str, worker: str, *, keys: str = "", service: bool = True) -> Ended:
    """The end of the script of two components that run these lines of shell."""
    text = HEAD
    for name, line, more in (
        ("server", server, f"service = {str(service).lower()}\n{keys}"),
        ("worker", worker, 'after = ["server"]\n'),
    ):
        command = json.dumps(["sh", "-c", line])
        text += f'[[component]]\nname = "{name}"\ncommand = {command}\n{more}\n'
    source = JobSource(
        file_text=text, file_name="two.toml", options={}, option_words=(), command=(),
        site_name="docker", template=None, folder=stage.folder,
    )  # fmt: skip
    script = prepare_job(source, wiring.resources()).script.text
    env = {"HPCKIT_JOB_FOLDER": str(stage.folder / "job"), **GROUPS}
    return stage.run(script, env)


def seen(stage: Stage, group: int) -> dict[str, str]:
    """The variables that a group's srun was given."""
    lines = (stage.saw / f"environment-{group}").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def ends(stage: Stage) -> dict[str, str]:
    """What each component has left of its end."""
    folder = stage.folder / "job" / "components"
    return {path.parent.name: path.read_text() for path in folder.glob("*/end-0")}


def test_a_service_is_asked_to_end_when_the_work_is_done(stage: Stage) -> None:
    """By its step's id, which the sampler's is not; and each says how it ended."""
    ended = ran(stage, SERVES, "sleep 1; echo worked")
    assert ended.returncode == 0, ended.stderr
    assert (stage.saw / "scancel").read_text() == "--signal=TERM 10.0\n"
    assert {"worked", "drained"} <= set(ended.stdout.split())
    assert ends(stage) == {"server": "0 asked\n", "worker": "0\n"}


def test_each_group_is_a_job_of_its_own(stage: Stage) -> None:
    """Its nodes and its memory alone, and where the others are."""
    works = f"until [ -s {stage.saw}/environment-0 ]; do sleep 0.05; done"
    assert ran(stage, SERVES, works).returncode == 0
    server, worker = seen(stage, 0), seen(stage, 1)
    assert (server["SLURM_MEM_PER_CPU"], "SLURM_MEM_PER_NODE" in server) == ("1000", False)
    assert (worker["SLURM_MEM_PER_NODE"], "SLURM_MEM_PER_CPU" in worker) == ("200", False)
    assert worker["SLURM_JOB_ID"] == server["SLURM_JOB_ID"] == "771234"
    assert (worker["MASTER_ADDR"], worker["HPCKIT_SERVER_HOST"]) == ("node2", "node1")
    assert worker["MASTER_PORT"] != server["MASTER_PORT"]
    assert worker["HPCKIT_JOB_FOLDER"].endswith("/job/components/worker")


def test_one_that_fails_ends_the_others(stage: Stage) -> None:
    """Its code is the job's, also one that Slurm's accounts do not hold."""
    ended = ran(stage, SERVES, "sleep 1; exit 200")
    assert ended.returncode == 200
    assert "worker failed with exit code 200: stopping server" in ended.stderr
    assert ends(stage) == {"server": "0 asked\n", "worker": "200\n"}
    assert (stage.folder / "job" / "logs" / "failed-0").read_text() == "200 worker\n"


def test_nobody_waits_for_what_cannot_become_ready(stage: Stage) -> None:
    """One that others wait for, and that ends before it answers, has failed."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    ended = ran(stage, "true", "echo began", keys=f"serve = {{ port = {port} }}", service=False)
    assert ended.returncode == 1
    assert "server: ended before it was ready" in ended.stderr
    assert "began" not in ended.stdout


def test_a_setup_that_fails_at_once_is_noticed(stage: Stage) -> None:
    """Though the shell has seen its end before it became what waits for all."""
    ended = ran(stage, "exit 9", "exit 9", keys='environment = { setup = ["exit 3"] }')
    assert ended.returncode in {1, 3}
    assert "began" not in ended.stdout


def test_a_service_may_end_before_the_others(stage: Stage) -> None:
    """As one does that a client tells to; its code decides."""
    assert ran(stage, "exit 0", "sleep 1").returncode == 0
    assert ends(stage) == {"server": "0\n", "worker": "0\n"}


def test_where_slurm_ends_nothing_the_steps_are_killed(stage: Stage) -> None:
    """The runner forwards TERM to srun, which kills."""
    stage.program("squeue", "#!/bin/bash\nexit 1\n")
    ended = ran(stage, SERVES, "exit 7")
    assert ended.returncode == 7
    assert "killing the job steps" in ended.stderr


@pytest.mark.parametrize(
    "words",
    [[], ["--kill-wait"], ["--kill-wait", "x"], ["--kill-wait", "1"],
     ["--kill-wait", "1", "a", "b"], ["--kill-wait", "1", "a", "1", "--what"],
     ["--kill-wait", "1", "a", "1", "--port"]],
)  # fmt: skip
def test_a_wrong_command_line(words: list[str], tmp_path: Path) -> None:
    """It is none."""
    assert components(words, {"HPCKIT_JOB_FOLDER": str(tmp_path)}) is None


def test_a_job_without_groups_keeps_its_variables() -> None:
    """There is nothing to choose from."""
    env: dict[str, Any] = {"SLURM_MEM_PER_CPU": "1000", "SLURM_JOB_ID": "7"}
    assert of_group(env, "0") == env
