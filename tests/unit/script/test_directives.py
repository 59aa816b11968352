"""What is decided about a launch: tasks and places."""

from __future__ import annotations

import pytest

from hpckit.script.plan import LaunchPlan, PlacePlan
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


def test_the_sites_mpi_plugin_is_for_mpi_alone() -> None:
    """A job's own word comes first, and other kinds have none."""
    mpi = "launch.kind = 'mpi'\n"
    assert step(plan(mpi, "docker"))["mpi"] == "pmix"
    assert step(plan(mpi + "launch.mpi = 'pmi2'", "docker"))["mpi"] == "pmi2"
    assert "mpi" not in step(plan("", "docker"))


@pytest.mark.parametrize(
    ("line", "keeps"),
    [("export A=1", False), ("trap 'x' EXIT", True), (". ./env.sh", True), ("cp a.b c", False)],
)
def test_the_shell_stays_for_traps(line: str, keeps: bool) -> None:
    """The batch shell becomes the runner, unless a line of setup may have set a trap."""
    assert plan(f'environment.setup = ["{line}"]').keeps_shell == keeps


TWO_EACH = "[resources]\nnodes = 4\nntasks_per_node = 2\n"


def placed(text: str, site: str | None = None) -> PlacePlan:
    """The plan of a job that has one."""
    found = plan(text, site).place
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "order", "bind"),
    [
        (TWO_EACH, True, True),
        ("[resources]\nnodes = 4\n", True, False),
        ("[resources]\nntasks_per_node = 2\n", False, True),
        (f"{TWO_EACH}[place]\norder = false\n", False, True),
        (f"{TWO_EACH}[place]\nbind = false\n", True, False),
        (f"{TWO_EACH}[slurm.srun_extra]\ncpu-bind = 'cores'\n", True, False),
        (f"{TWO_EACH}[slurm.srun_extra]\ncpu-bind = 'none'\n", True, True),
        (f"{TWO_EACH}[slurm.srun_extra]\nexclude = 'c1'\n", False, True),
        (f"{TWO_EACH}[launch]\ndistribution = 'cyclic'\n", False, True),
        (f"{TWO_EACH}[launch]\ndistribution = 'plane=2'\n", False, True),
        (f"{TWO_EACH}[launch]\ndistribution = '*:cyclic'\n", True, True),
        (f"{TWO_EACH}[launch]\ndistribution = 'block:cyclic,Pack'\n", True, True),
    ],
)
def test_what_is_done(text: str, order: bool, bind: bool) -> None:
    """Several nodes are ordered and several ranks of one bound, unless the job decides itself."""
    found = placed(text)
    assert (found.order, found.bind) == (order, bind)
