"""Which rank this process is, read from the variables of whatever started it."""

from __future__ import annotations

import os

SOURCES = ("slurm", "env", "mpi")
# They hold every 32-bit count; int() of thousands of digits would raise.
_MAX_DIGITS = 10


class Identity:
    """One rank's place in the job; each field is a 0-based index or a count, None if unknown."""

    __slots__ = ("local_rank", "local_world_size", "node_rank", "rank", "world_size")

    def __init__(
        self,
        rank: int | None,
        world_size: int | None,
        local_rank: int | None,
        local_world_size: int | None,
        node_rank: int | None,
    ) -> None:
        """Take the five fields in the order of torch's RANK to NODE_RANK."""
        self.rank = rank
        self.world_size = world_size
        self.local_rank = local_rank
        self.local_world_size = local_world_size
        self.node_rank = node_rank

    def exports(self) -> dict[str, str]:
        """Give the known fields as the variables that torch's env:// method reads.

        Source: torch.distributed documentation, environment variable initialization.
        """
        fields = {
            "RANK": self.rank,
            "WORLD_SIZE": self.world_size,
            "LOCAL_RANK": self.local_rank,
            "LOCAL_WORLD_SIZE": self.local_world_size,
            "NODE_RANK": self.node_rank,
        }
        return {name: str(value) for name, value in fields.items() if value is not None}


def identify(source: str, env: dict[str, str]) -> Identity:
    """Read the rank's identity from `env` as the launcher named by `source` leaves it there.

    `source` is one of `SOURCES`, or the names of the variables of the five fields, separated by
    commas. Slurm's variables: srun(1), OUTPUT ENVIRONMENT VARIABLES.
    """
    if "," in source:
        return Identity(*(_number(env, name) for name in source.split(",")))
    if source == "env":
        return _from_env(env)
    if source == "mpi":
        return _from_mpi(env)
    return _mapped(_from_slurm(env), env)


def tasks_on_node(text: str, node_index: int) -> int | None:
    """Give the task count of one node from Slurm's list, such as `4(x2),3`; None if not in it.

    Source: sbatch(1), SLURM_TASKS_PER_NODE.
    """
    for part in text.split(","):
        tasks, _, repeat = part.partition("(x")
        repeat = repeat.rstrip(")") or "1"
        if not (_is_number(tasks) and _is_number(repeat)):
            return None
        if node_index < int(repeat):
            return int(tasks)
        node_index -= int(repeat)
    return None


def _from_slurm(env: dict[str, str]) -> Identity:
    node_index = _number(env, "SLURM_NODEID")
    tasks_per_node = env.get("SLURM_STEP_TASKS_PER_NODE") or env.get("SLURM_TASKS_PER_NODE", "")
    rank, local_rank = _number(env, "SLURM_PROCID"), _number(env, "SLURM_LOCALID")
    tasks = None if node_index is None else tasks_on_node(tasks_per_node, node_index)
    node_rank = node_index
    if env.get("HPCKIT_ORDERED") == "1" and rank is not None and tasks:
        # SLURM_NODEID counts in the sorted list of nodes, whatever the order of ranks is.
        node_rank = rank // tasks
    return Identity(
        rank, _number(env, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"), local_rank, tasks, node_rank
    )


def _mapped(identity: Identity, env: dict[str, str]) -> Identity:
    """The identity by hpckit's own map, where srun took no order: HPCKIT_RANK_MAP, a host a rank.

    Without a map, or where it does not name this node, the identity is as it was.
    """
    path, node = env.get("HPCKIT_RANK_MAP", ""), env.get("SLURMD_NODENAME", "")
    if not path or identity.local_rank is None:
        return identity
    try:
        if not os.path.isfile(path):
            return identity
        with open(path, encoding="utf-8") as file:
            hosts = file.read().split()
    except (OSError, ValueError):
        return identity
    tasks = hosts.count(node)
    first = hosts.index(node) if tasks else 0
    fits = len(hosts) == identity.world_size and identity.local_rank < tasks
    if not fits or hosts[first : first + tasks] != [node] * tasks:
        return identity
    return Identity(
        first + identity.local_rank, identity.world_size, identity.local_rank, tasks, first // tasks
    )


def _from_env(env: dict[str, str]) -> Identity:
    return Identity(
        _number(env, "RANK"),
        _number(env, "WORLD_SIZE"),
        _number(env, "LOCAL_RANK"),
        _number(env, "LOCAL_WORLD_SIZE"),
        _number(env, "GROUP_RANK", "NODE_RANK"),
    )


def seen_by_mpi(env: dict[str, str]) -> tuple[int | None, int | None]:
    """Return the rank and the world size that an MPI library finds; PMIx says no size.

    Source: mpirun(1) of Open MPI, PMIx_Init(3), and PMI_RANK of Slurm's plugins pmi2, cray_shasta.
    """
    rank = _number(env, "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
    return rank, _number(env, "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


def _from_mpi(env: dict[str, str]) -> Identity:
    found = Identity(
        *seen_by_mpi(env),
        _number(env, "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"),
        _number(env, "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"),
        None,
    )
    if found.rank is None:
        return _from_slurm(env)
    # mpirun hands Slurm's variables on from the process that started it, the same to every rank:
    # they describe this rank only where srun itself started it.
    by_mpirun = "OMPI_COMM_WORLD_RANK" in env or "MPI_LOCALRANKID" in env
    slurm = _from_slurm(env)
    if by_mpirun or slurm.rank != found.rank:
        return found
    return slurm


def _number(env: dict[str, str], *names: str) -> int | None:
    for name in names:
        text = env.get(name, "")
        if _is_number(text):
            return int(text)
    return None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
