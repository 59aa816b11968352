"""Which rank a process is."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpckit.core.identity import identify, tasks_on_node

SLURM = {
    "SLURM_PROCID": "5",
    "SLURM_NTASKS": "99",
    "SLURM_STEP_NUM_TASKS": "11",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_TASKS_PER_NODE": "9",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2),3",
}


@pytest.mark.parametrize(
    ("text", "node_index", "tasks"),
    [
        ("4(x2),3", 0, 4),
        ("4(x2),3", 1, 4),
        ("4(x2),3", 2, 3),
        ("4(x2),3", 3, None),
        ("8", 0, 8),
        ("", 0, None),
        ("four(x2)", 0, None),
        ("4(xtwo)", 0, None),
    ],
)
def test_task_list_is_read_at_the_node(text: str, node_index: int, tasks: int | None) -> None:
    """Slurm's folded list of tasks per node unfolds to one node's count."""
    assert tasks_on_node(text, node_index) == tasks


OMPI = {
    "OMPI_COMM_WORLD_RANK": "0",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "3",
}
TORCHRUN = {"RANK": "6", "WORLD_SIZE": "8", "LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "4"}
OF_SLURM = (5, 11, 1, 4, 1)


@pytest.mark.parametrize(
    ("source", "env", "fields"),
    [
        # A step's own counts win over those of the job around it.
        ("slurm", SLURM, OF_SLURM),
        # A field that the launcher does not give, or gives as no number, is not known.
        (
            "slurm",
            {"SLURM_PROCID": "5", "SLURM_NTASKS": "many", "SLURM_LOCALID": "9" * 5000},
            (5, None, None, None, None),
        ),
        # torchrun's GROUP_RANK is the node's.
        ("env", {**TORCHRUN, "GROUP_RANK": "1", "SLURM_PROCID": "1"}, (6, 8, 2, 4, 1)),
        # Under mpirun Slurm's variables describe the process that started it, not the rank.
        (
            "mpi",
            {**OMPI, "SLURM_PROCID": "0", "SLURM_NODEID": "0", "SLURM_LOCALID": "0"},
            (0, 4, 2, 3, None),
        ),
        # MPICH's launcher, Hydra.
        (
            "mpi",
            {"SLURM_PROCID": "1", "PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1"},
            (1, 2, 1, None, None),
        ),
        # A rank that srun itself started has the rest of its identity from Slurm.
        ("mpi", {**SLURM, "PMIX_RANK": "5"}, OF_SLURM),
        ("mpi", {**SLURM, "PMI_RANK": "5"}, OF_SLURM),
        # Slurm's variables of another process are left alone.
        ("mpi", {**SLURM, "PMIX_RANK": "6"}, (6, None, None, None, None)),
        ("mpi", SLURM, OF_SLURM),
        ("slurm", {}, (None,) * 5),
        ("env", {}, (None,) * 5),
        ("mpi", {}, (None,) * 5),
    ],
)
def test_a_launchers_variables(
    source: str, env: dict[str, str], fields: tuple[int | None, ...]
) -> None:
    """What is known is exported as torch's variables, and nothing else."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK")
    known = {name: str(n) for name, n in zip(names, fields, strict=True) if n is not None}
    assert identify(source, env).exports() == known


def test_an_order_counts_nodes_by_their_ranks() -> None:
    """SLURM_NODEID is the place in the sorted list, and not in the order that srun was given."""
    env = {**SLURM, "SLURM_STEP_TASKS_PER_NODE": "2(x4)", "SLURM_NODEID": "3"}
    assert identify("slurm", env).node_rank == 3
    ordered = identify("slurm", {**env, "HPCKIT_ORDERED": "1"})
    assert (ordered.rank, ordered.node_rank, ordered.local_world_size) == (5, 2, 2)


HOSTS = "n3\nn3\nn1\nn1\nn2\nn2\n"
MAPPED = {
    "SLURM_PROCID": "0",
    "SLURM_STEP_NUM_TASKS": "6",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "0",
    "SLURM_STEP_TASKS_PER_NODE": "2(x3)",
    "SLURMD_NODENAME": "n1",
}


def test_a_map_numbers_the_ranks(tmp_path: Path) -> None:
    """Where srun took no order, a rank is its line in hpckit's own file."""
    path = tmp_path / "hosts"
    path.write_text(HOSTS)
    found = identify("slurm", {**MAPPED, "HPCKIT_RANK_MAP": str(path)})
    assert found.exports() == {
        "RANK": "3",
        "WORLD_SIZE": "6",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "NODE_RANK": "1",
    }


@pytest.mark.parametrize("text", [None, "", "n7\nn8\n", "\xff\xfe"])
def test_a_map_that_does_not_have_the_node_changes_nothing(
    tmp_path: Path, text: str | None
) -> None:
    """The rank is Slurm's own then, which every rank still has once."""
    path = tmp_path / "hosts"
    if text is not None:
        path.write_bytes(text.encode("latin-1"))
    found = identify("slurm", {**MAPPED, "HPCKIT_RANK_MAP": str(path)})
    assert found.exports() == identify("slurm", MAPPED).exports()
