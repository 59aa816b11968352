"""How a job is measured: the step in which one sampler a node runs beside the command's."""

from __future__ import annotations

from typing import Final

from hpckit.model.account_files import SAMPLER_STEP
from hpckit.model.job import JobSpec
from hpckit.model.plan import AccountPlan, Option

_OPTIONS: Final = {
    "overlap": None,  # shares CPUs, memory and GPUs with the command's step, and takes none away
    "cpus-per-task": "1",
    "cpu-bind": "none",
    "mem": "0",  # the job's limit, counted against no other step
    "mpi": "none",
    "export": "ALL",
    "no-kill": None,  # one lost node does not end the samplers of the others
    "wait": "0",
    "kill-on-bad-exit": "0",
    "input": "none",
    "job-name": SAMPLER_STEP,
}
"""Source: srun(1), Slurm 22.05 to 26.05."""


def plan_account(spec: JobSpec, *, local: bool) -> AccountPlan | None:
    """How the job is measured, None where it is not to be."""
    if not spec.account.enabled:
        return None
    return AccountPlan(hz=f"{spec.account.hz:g}", srun=() if local else _step(spec.resources.nodes))


def _step(nodes: int) -> tuple[Option, ...]:
    spread = {"nodes": str(nodes), "ntasks": str(nodes), "ntasks-per-node": "1"}
    options = {**spread, **_OPTIONS}
    return tuple(Option(name=name, value=value) for name, value in options.items())
