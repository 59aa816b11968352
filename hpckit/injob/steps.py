"""The job and its steps, as Slurm's own commands tell of them and end them."""

from __future__ import annotations

import subprocess

from hpckit.core.talk import say
from hpckit.spec.folder_in_job import SAMPLER_STEP

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence

_SLURM_S = 60


def said(words: Sequence[str], env: dict[str, str]) -> str:
    """Return what a command of Slurm prints. Raises OSError, SubprocessError."""
    answer = subprocess.run(
        words,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=_SLURM_S,
        check=True,
    )
    return answer.stdout.decode("utf-8", "surrogateescape")


def hostnames(nodelist: str, env: dict[str, str]) -> Sequence[str]:
    """Return the names of the nodes of a list, none where Slurm does not say them."""
    try:
        return said(("scontrol", "show", "hostnames", nodelist), env).split()
    except (OSError, subprocess.SubprocessError) as error:
        say(f"warning: ranks are in Slurm's own order: scontrol show hostnames: {error}")
        return ()


def end_steps(job_ids: Sequence[str], env: dict[str, str]) -> set[str]:
    """Send TERM to the steps of jobs, but to the samplers'; return the jobs that had any.

    srun would make KILL of it (src/srun/signals.c, `_forward_signal`), and of a heterogeneous job
    `scancel JOB+0` is of the whole.
    """
    listed = ["squeue", "--steps", "--noheader", "--format=%i %j", f"--jobs={','.join(job_ids)}"]
    others = (SAMPLER_STEP, "batch", "extern")
    try:
        steps = [line.split(maxsplit=1) for line in said(listed, env).splitlines()]
        named = [step for step, *name in steps if name and name[0].strip() not in others]
        if named:
            said(["scancel", "--signal=TERM", *named], env)
    except (OSError, subprocess.SubprocessError) as error:
        say(f"killing the job steps: {error}")
        return set()
    return {step.partition(".")[0] for step in named}
