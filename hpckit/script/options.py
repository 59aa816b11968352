"""Which options hpckit writes itself, and which others a user may add without a clash.

Sources: sbatch(1) and srun(1), Slurm 22.05 to 26.05.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hpckit.core.errors import ConfigError
from hpckit.script.plan import Option
from hpckit.script.releases import is_said

_RESOURCES = {
    "nodes": "resources.nodes",
    "ntasks": "resources.nodes and resources.ntasks_per_node",
    "ntasks-per-node": "resources.ntasks_per_node",
    "cpus-per-task": "resources.cpus_per_task",
    "gpus-per-node": "resources.gpus_per_node",
    "gpus": "resources.gpus_per_node",
    "gpus-per-task": "resources.gpus_per_node (a GPU bound to a task hides its peers)",
    "ntasks-per-gpu": "resources.ntasks_per_node",
    "mem": "resources.mem",
    "mem-per-cpu": "resources.mem_per_cpu",
    "mem-per-gpu": "resources.mem_per_gpu",
    "time": "resources.time_limit",
    "exclusive": "resources.exclusive",
}
TEXT_OPTIONS: Final = (
    "account",
    "partition",
    "qos",
    "constraint",
    "reservation",
    "nodelist",
    "exclude",
    "dependency",
    "licenses",
    "array",
    "begin",
    "switches",
    "signal",
    "comment",
    "mail_user",
)
"""Keys of `[slurm]` whose text is the value of the option of that name."""

_SLURM = {
    name.replace("_", "-"): f"slurm.{name}"
    for name in (*TEXT_OPTIONS, "segment", "requeue", "mail_type")
}
_SUBMISSION = {
    "job-name": "name",
    "chdir": "chdir",
    "no-requeue": "slurm.requeue",
    "cpus-per-gpu": "resources.cpus_per_task",
    "tasks": "resources.ntasks_per_node",
    "tasks-per-node": "resources.ntasks_per_node",
    "tres-per-task": "resources.gpus_per_node",
    "oversubscribe": "resources.exclusive (the two exclude each other)",
    "share": "resources.exclusive (the two exclude each other)",
    "workdir": "chdir",
    "output": "the job folder (hpckit logs shows it)",
    "error": "the job folder (hpckit logs shows it)",
    "open-mode": "hpckit (always append)",
    "export": "environment.inherit and environment.pass",
    "export-file": "environment.set",
    "get-user-env": "environment.inherit",
    "wrap": "command",
    "parsable": "hpckit submit",
    "test-only": "hpckit submit --test-only",
    "wait": "hpckit submit --wait",
    "quiet": "hpckit submit --quiet",
    "clusters": "the site file (one site a cluster)",
    "help": "hpckit submit --help",
    "usage": "hpckit submit --help",
    "version": "hpckit doctor",
}
_STEP = {
    "mpi": "launch.mpi",
    "distribution": "launch.distribution",
    "kill-on-bad-exit": "launch.kill_on_bad_exit",
    "wait": "launch.wait_s",
}

OWNED_BY_SBATCH: Final[Mapping[str, str]] = {**_RESOURCES, **_SLURM, **_SUBMISSION}
"""Option of sbatch → the key that says it."""

OWNED_BY_SRUN: Final[Mapping[str, str]] = {
    **_RESOURCES,
    **{name: key for name, key in _SUBMISSION.items() if name not in ("parsable", "wrap", "wait")},
    **_STEP,
    "multi-prog": "command",
    "relative": "nothing: rank 0 runs on the first node, where the ranks meet",
    "pty": "command (a batch job has no terminal)",
}
"""Option of srun → the key that says it."""


def extra_options(
    extra: Mapping[str, str | int | bool], owned: Mapping[str, str], key: str
) -> tuple[Option, ...]:
    """The options of an open table (`slurm.extra`, `slurm.srun_extra`).

    Raises ConfigError for one that hpckit writes itself, naming the key that says it.
    """
    options = []
    for name, value in extra.items():
        # getopt takes any unambiguous beginning of an option for the option itself.
        meant = next((full for full in owned if full.startswith(name)), None)
        if meant is not None:
            raise ConfigError(
                f"--{meant} is written by hpckit itself",
                key=f"{key}.{name}",
                hint=f"say it with {owned[meant]}",
            )
        if is_said("gres=gpu", Option(name=name, value=str(value))):
            raise ConfigError(
                "--gres=gpu beside --gpus-per-node is fatal from Slurm 26.05 on",
                key=f"{key}.{name}",
                hint="say it with resources.gpus_per_node and resources.gpu_type",
            )
        if value is False:
            continue
        options.append(Option(name=name, value=None if value is True else str(value)))
    return tuple(options)
