"""What a job becomes: directives, a step, and the reasons."""

from __future__ import annotations

import pytest

from hpckit.script.plan import LaunchPlan
from tests.fakes.prepared import prepared

BASE = 'name = "x"\ncommand = ["x"]\n'


def plan(text: str, site: str | None = None) -> LaunchPlan:
    """The plan of a job."""
    return prepared(BASE + text, site=site).plan


def directive(of: LaunchPlan, name: str) -> str | None:
    """The value of a directive, None when it is absent or bare."""
    return next((option.value for option in of.directives if option.name == name), None)


def names(of: LaunchPlan) -> list[str]:
    """The names of the directives."""
    return [option.name for option in of.directives]


def step(of: LaunchPlan) -> dict[str, str | None]:
    """The options of the step."""
    return {option.name: option.value for option in of.srun}


@pytest.mark.parametrize(
    ("kind", "resources", "ranks"),
    [
        ("plain", "", 1),
        ("plain", "gpus_per_node = 8", 1),
        ("plain", "ntasks_per_node = 3", 3),
        ("mpi", "", 1),
        ("mpi", "gpus_per_node = 8", 8),
        ("mpi", "gpus_per_node = 8\nntasks_per_node = 2", 2),
        ("torchrun", "gpus_per_node = 4", 4),
        ("torchrun", "gpus_per_node = 0", 1),
    ],
)
def test_ranks_on_a_node(kind: str, resources: str, ranks: int) -> None:
    """One rank a GPU for mpi and torchrun, else one a node, unless it is said."""
    made = plan(f"launch.kind = '{kind}'\n[resources]\nnodes = 3\n{resources}")
    assert (made.ntasks_per_node, made.ntasks) == (ranks, 3 * ranks)
    started = 1 if kind == "torchrun" else ranks
    assert step(made)["ntasks"] == str(3 * started)
    assert step(made)["ntasks-per-node"] == directive(made, "ntasks-per-node") == str(started)


def test_cpus_are_said_twice() -> None:
    """--cpus-per-task stands on sbatch and on srun; a torchrun has those of all its ranks."""
    made = plan("[resources]\ncpus_per_task = 6")
    assert step(made)["cpus-per-task"] == directive(made, "cpus-per-task") == "6"
    made = plan("launch.kind = 'torchrun'\n[resources]\ncpus_per_task = 6\ngpus_per_node = 4")
    assert step(made)["cpus-per-task"] == directive(made, "cpus-per-task") == "24"
    assert "cpus-per-task" not in step(plan(""))


@pytest.mark.parametrize(
    ("resources", "found"),
    [
        ("mem = '64G'", {"mem": "64G"}),
        ("mem = '64GB'", {"mem": "64G"}),
        ("mem = '1'", {"mem": "1M"}),
        ("mem_per_cpu = '1500'", {"mem-per-cpu": "1500M"}),
        ("mem_per_gpu = '1K'\ngpus_per_node = 1", {"mem-per-gpu": "1M"}),
        ("exclusive = true", {"mem": "0"}),
        ("exclusive = true\nmem = '8G'", {"mem": "8G"}),
        ("exclusive = false", {}),
        ("mem = '0'", {"mem": "0"}),
    ],
)
def test_memory(resources: str, found: dict[str, str]) -> None:
    """Memory is what was said, rounded up to MiB; whole nodes come with all of theirs."""
    made = plan(f"[resources]\n{resources}")
    assert {name: directive(made, name) for name in names(made) if "mem" in name} == found


def test_a_whole_node_is_not_narrowed() -> None:
    """On an exclusive node torchrun names no CPUs, which srun would take for all it may use."""
    made = plan("launch.kind = 'torchrun'\n[resources]\nexclusive = true\ngpus_per_node = 4")
    assert "cpus-per-task" not in names(made)
    assert "cpus-per-task" not in step(made)


def test_gpus() -> None:
    """GPUs are asked by the node, with their type; none are asked for zero."""
    assert directive(plan("resources.gpus_per_node = 8"), "gpus-per-node") == "8"
    typed = plan("resources = { gpus_per_node = 8, gpu_type = 'h100' }")
    assert directive(typed, "gpus-per-node") == "h100:8"
    assert "gpus-per-node" not in names(plan("resources.gpus_per_node = 0"))


@pytest.mark.parametrize(("said", "name"), [("true", "requeue"), ("false", "no-requeue")])
def test_requeue_is_always_stated(said: str, name: str) -> None:
    """--requeue or --no-requeue is written, with the reason."""
    made = plan(f"slurm.requeue = {said}")
    (option,) = (option for option in made.directives if "requeue" in option.name)
    assert option.name == name
    assert option.because


@pytest.mark.parametrize(("said", "value"), [("true", "1"), ("false", "0")])
def test_kill_on_bad_exit_is_always_stated(said: str, value: str) -> None:
    """Both answers are written: the cluster's KillOnBadExit would decide where none is."""
    made = plan(f"launch = {{ kill_on_bad_exit = {said}, wait_s = 5 }}")
    assert step(made)["kill-on-bad-exit"] == value
    assert step(made)["wait"] == "5"


FOUR = "resources = { nodes = 4, ntasks_per_node = 2 }\n"


@pytest.mark.parametrize(
    ("site", "kind", "source", "runner"),
    [
        ("docker", "plain", "slurm", "--order --bind --measure 1"),
        ("docker", "mpi", "mpi", "--order --keep-numbers --bind --measure 1"),
        ("docker", "torchrun", "env", "--order --bind --measure 1"),
        ("local", "plain", "env", "--local --ranks 2 --kill-wait 10 --measure 1"),
        ("local", "mpi", "mpi", "--local --kill-wait 10 --measure 1"),
        ("local", "torchrun", "env", "--local --kill-wait 10 --measure 1"),
    ],
)
def test_what_the_runner_is_told(site: str, kind: str, source: str, runner: str) -> None:
    """A rank's number comes from what starts it; an MPI library takes the ranks that srun gave."""
    text = FOUR.replace("nodes = 4, ", "") if site == "local" else FOUR
    made = plan(f"{text}launch.kind = '{kind}'", site)
    assert made.rank_source == source
    assert " ".join(made.runner) == runner


@pytest.mark.parametrize(
    ("line", "keeps"),
    [("export A=1", False), ("trap 'x' EXIT", True), (". ./env.sh", True), ("cp a.b c", False)],
)
def test_the_shell_stays_for_traps(line: str, keeps: bool) -> None:
    """The batch shell becomes the runner, unless a line of setup may have set a trap."""
    assert plan(f'environment.setup = ["{line}"]').keeps_shell == keeps


def test_the_order_is_of_names() -> None:
    """Directives are sorted by name, so that a diff shows what changed and nothing else."""
    made = plan("slurm = { qos = 'a', account = 'b', extra = { nice = 1, bb = 'x' } }", "docker")
    assert names(made) == sorted(names(made))
    assert {"bb", "nice", "account", "qos", "partition"} <= set(names(made))


def test_time_in_slurms_spelling() -> None:
    """A time limit is written as squeue would show it."""
    assert directive(plan("resources.time_limit = '90'"), "time") == "01:30:00"
    assert directive(plan("resources.time_limit = '2-12'"), "time") == "2-12:00:00"
