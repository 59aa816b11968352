"""What a job does about places: whether nodes are ordered and ranks are bound."""

from __future__ import annotations

from typing import Final

from hpckit.model.job import JobSpec
from hpckit.model.plan import PlacePlan
from hpckit.script.launchers.registry import Launcher

_OWN_NODES: Final = frozenset({"nodelist", "exclude", "relative", "nodefile"})
"""Options of srun by which a job chooses among its nodes itself."""


def plan_place(spec: JobSpec, launcher: Launcher, *, local: bool) -> PlacePlan | None:
    """Return what is to be done, None where nothing is.

    Nodes are ordered where there are several, and the job wants its ranks node by node; ranks are
    bound where a node has several, and only by the rank entry of a job that Slurm started.
    """
    order = not local and _is_ordered(spec)
    bind = not local and _is_bound(spec)
    if not (order or bind):
        return None
    return PlacePlan(
        order=order, bind=bind, strict=spec.place.strict, renumber=launcher.can_renumber
    )


def _is_bound(spec: JobSpec) -> bool:
    """Whether ranks choose their cores, which they do unless the job has srun do it."""
    by_srun = spec.slurm.srun_extra.get("cpu-bind", "none") not in {"none", "quiet,none", False}
    return spec.place.bind and spec.ntasks_per_node > 1 and not by_srun


def _is_ordered(spec: JobSpec) -> bool:
    """Whether the order of nodes is hpckit's to choose."""
    first = spec.launch.distribution.partition(":")[0].partition(",")[0]
    chosen = _OWN_NODES & set(spec.slurm.srun_extra)
    wanted = spec.place.order and spec.resources.nodes > 1
    return wanted and first in {"block", "*"} and not chosen
