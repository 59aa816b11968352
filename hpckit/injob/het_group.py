"""One group of a heterogeneous job: its variables, and when its runner may begin."""

from __future__ import annotations

import json
import os
import select
import signal

from hpckit.spec.folder_in_job import component_folder, of_start


def own_file(env: dict[str, str], name: str, what: str) -> str:
    """Return a file of this start of the job in the folder of a component."""
    return of_start({**env, "HPCKIT_JOB_FOLDER": component_folder(env, name)}, "", what)


def start_file(env: dict[str, str], name: str) -> str:
    """Return the file that lets a component's runner begin."""
    return own_file(env, name, "start")


_OF_A_GROUP = (
    *("SLURM_MEM_PER_", "SLURM_NTASKS", "SLURM_TASKS_PER_NODE", "SLURM_NPROCS"),
    *("SLURM_CPUS_PER_", "SLURM_GPUS", "SLURM_TRES_PER_", "SLURM_DISTRIBUTION"),
)
"""What Slurm says of the first group, and of others only where they differ in kind."""


def of_group(env: dict[str, str], group: str) -> dict[str, str]:
    """Return the environment with what Slurm says of one group as what it says of the job.

    srun of one group refuses the memory that the first one has (`SLURM_MEM_PER_CPU, … are mutually
    exclusive`, tried with 24.11).
    """
    after = f"_HET_GROUP_{group}"
    own = {
        name.removesuffix(after): env[name]
        for name in env
        if name.startswith("SLURM_") and name.endswith(after)
    }
    if not own:
        return env
    kept = {name: env[name] for name in env if not name.startswith(_OF_A_GROUP) or after in name}
    for name in ("SLURM_JOB_ID", "SLURM_JOBID"):
        own.pop(name, None)  # srun takes the whole job's, and the group's number
    kept |= own
    kept["SLURM_NNODES"] = kept.get("SLURM_JOB_NUM_NODES", "")
    kept["SLURM_NODELIST"] = kept.get("SLURM_JOB_NODELIST", "")
    return kept


def await_start(env: dict[str, str], name: str, wake: int) -> dict[str, str] | None:
    """Return what the component is told when it may start; None where it is not to any more."""
    path, parent = start_file(env, name), os.getppid()
    while os.getppid() == parent:
        try:
            with open(path, encoding="utf-8") as file:
                return {str(key): str(value) for key, value in json.load(file).items()}
        except FileNotFoundError:
            pass
        ready, _, _ = select.select([wake], [], [], 0.1)
        if ready and signal.SIGTERM in os.read(wake, 512):
            return None
    return None
