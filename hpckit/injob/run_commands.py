"""What the runner starts, as words: the step with an order of nodes, and the sampler's step."""

from __future__ import annotations

import os

from hpckit.model.account_files import SAMPLER_STEP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SAMPLER_OPTIONS = (
    "--ntasks-per-node=1",
    "--overlap",  # shares CPUs, memory and GPUs with the command's step, and takes none away
    "--cpus-per-task=1",
    "--cpu-bind=none",
    "--mem=0",  # the job's limit, counted against no other step
    "--mpi=none",
    "--export=ALL",
    "--no-kill",  # one lost node does not end the samplers of the others
    "--wait=0",
    "--kill-on-bad-exit=0",
    "--input=none",
    f"--job-name={SAMPLER_STEP}",
)
"""Source: srun(1), Slurm 22.05 to 26.05."""
# The sampler's step asks for nothing of its own: what the job asks for each task or node would
# narrow it to one task's GPUs and memory, or contradict the options above. Nor does it run in the
# job's container, under its profiler, with what it preloads or with its output files.
_HELD_BACK_PREFIXES = (
    *("SLURM_CPU", "SLURM_GPU", "SLURM_MEM", "SLURM_NTASKS", "SLURM_TRES", "SRUN_"),
    *("SLURM_THREAD", "SLURM_CONTAINER", "SLURM_BCAST", "SLURM_STD"),
)
_HELD_BACK = frozenset(
    (
        *("SLURM_STEP_GRES", "SLURM_GRES", "SLURM_NPROCS", "SLURM_DISTRIBUTION", "SLURM_HOSTFILE"),
        *("SLURM_EXACT", "SLURM_EXCLUSIVE", "SLURM_WHOLE", "SLURM_HINT", "SLURM_TASK_PROLOG"),
        *("SLURM_TASK_EPILOG", "SLURM_PROLOG", "SLURM_EPILOG", "SLURM_NETWORK", "SLURM_PROFILE"),
        *("SLURM_TIMELIMIT", "SLURM_LABELIO", "SLURM_UNBUFFEREDIO", "SLURM_MULTI_PROG"),
        *("SLURM_CONSTRAINT", "LD_PRELOAD"),
    )
)
_NOT_ORDERED = ("--nodes=", "--distribution=")
"""What srun does not take beside an order, or what the order is in place of. Tried with 22.05,
24.11 and 26.05, trees and blocks: --nodes is refused from 24.11 on."""


class RunOptions:
    """The options of `injob run`; `hz` and `kill_wait_s` are None where they are not given."""

    def __init__(self) -> None:
        """Nothing is asked for."""
        self.local = self.order = self.keep_numbers = self.bind = self.strict = False
        self.ranks: int | None = None
        self.hz: str | None = None
        self.kill_wait_s: int | None = None


def read_options(words: Sequence[str]) -> tuple[RunOptions, list[str]] | None:
    """Return the options and the command behind `--`, None for a wrong command line."""
    options, rest = RunOptions(), list(words)
    try:
        while (word := rest.pop(0)) != "--":
            name = word.removeprefix("--").replace("-", "_")
            if word in {"--local", "--order", "--keep-numbers", "--bind", "--strict"}:
                setattr(options, name, True)
            elif word in {"--ranks", "--kill-wait"}:
                setattr(options, name.replace("wait", "wait_s"), int(rest.pop(0)))
            elif word == "--measure":
                options.hz = rest.pop(0)
            else:
                return None
    except (IndexError, ValueError):
        return None
    return (options, rest) if rest else None


def place_folder(env: Mapping[str, str]) -> str:
    """Return where what is decided and seen about places lies, for this start of the job alone."""
    task = env.get("SLURM_ARRAY_TASK_ID", "")
    restart = f"restart-{env.get('SLURM_RESTART_COUNT', '') or 0}"
    return os.path.join(env["HPCKIT_JOB_FOLDER"], "place", f"array-{task}" if task else "", restart)


def failure_file(env: Mapping[str, str]) -> str:
    """Return the file in which the first rank that failed leaves its code (injob.rank_log)."""
    task = env.get("SLURM_ARRAY_TASK_ID", "")
    failed = f"failed-{env.get('SLURM_RESTART_COUNT', '') or 0}"
    return os.path.join(env["HPCKIT_JOB_FOLDER"], "logs", f"array-{task}" if task else "", failed)


def option_of(command: Sequence[str], name: str) -> str | None:
    """Return the value of one of srun's options, None where it is not among the words."""
    values = (
        word[len(name) + 1 :] for word in _srun_options(command) if word.startswith(f"{name}=")
    )
    return next(values, None)


def _srun_options(command: Sequence[str]) -> Sequence[str]:
    end = 1
    while end < len(command) and command[end].startswith("--"):
        end += 1
    return command[1:end]


def through_entry(command: Sequence[str], agent: Sequence[str]) -> list[str]:
    """Return the srun command with an entry of hpckit's in front of what each task starts.

    That is the rank entry, which is there already, or the node entry in front of a launcher.
    """
    end = 1 + len(_srun_options(command))
    if [*agent, "rank"] == list(command[end : end + len(agent) + 1]):
        return list(command)
    return [*command[:end], *agent, "node", "--", *command[end:]]


def ordered(command: Sequence[str]) -> list[str]:
    """Return the srun command for a step whose nodes come from SLURM_HOSTFILE.

    An order is one host a task: then srun takes the nodes from it, and no --nodes. srun takes no
    second level here (`arbitrary:block` is refused): ranks bind themselves.
    """
    options = _srun_options(command)
    kept = [word for word in options if not word.startswith(_NOT_ORDERED)]
    return [command[0], "--distribution=arbitrary", *kept, *command[1 + len(options) :]]


def sampler_command(
    agent: Sequence[str], nodes: str | None, folder: str, hz: str, parent: int | None
) -> list[str]:
    """Return what samples: a step of `nodes` nodes, or beside a local job whose runner is `parent`.

    In a session of its own it gets no signal that is meant for the command.
    """
    sample = [*agent, "sample", "--out", folder, "--hz", hz]
    if parent is not None:
        return ["setsid", *sample, "--parent", str(parent)]
    step = [] if nodes is None else [f"--nodes={nodes}", f"--ntasks={nodes}"]
    return ["setsid", "srun", *step, *_SAMPLER_OPTIONS, *sample]


def sampler_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the sampler's step, which is told what the job has of memory."""
    told = {
        f"HPCKIT_MEM_PER_{unit}": env.get(f"SLURM_MEM_PER_{unit}", "")
        for unit in ("NODE", "CPU", "GPU")
    }
    return {name: env[name] for name in env if not _is_held_back(name)} | told


def _is_held_back(name: str) -> bool:
    return name in _HELD_BACK or name.startswith(_HELD_BACK_PREFIXES)
