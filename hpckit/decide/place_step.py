"""What a script does about places: whether nodes are ordered and ranks are bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpckit.model.job import JobSpec, LauncherKind
from hpckit.model.plan import Option, PlacePlan

_NOT_ORDERED: Final = frozenset({"nodes", "distribution"})
"""What srun does not take beside an order, or what the order is in place of. Tried with 22.05,
24.11 and 26.05, trees and blocks: --nodes is refused from 24.11 on."""
_OWN_NODES: Final = frozenset({"nodelist", "exclude", "relative", "nodefile"})
"""Options of srun by which a job chooses among its nodes itself."""
_MAPPED: Final = "ranks are numbered by hpckit's own map"
_PLAIN: Final = "ranks are in Slurm's own order"


def plan_place(spec: JobSpec, srun: Sequence[Option], *, local: bool) -> PlacePlan | None:
    """What is to be done, None where nothing is; `srun` are the options of the command's step.

    Nodes are ordered where there are several, and the job wants its ranks node by node; ranks are
    bound where a node has several, and only by the rank entry of a job that Slurm started.
    """
    order = not local and _is_ordered(spec)
    bind = not local and _is_bound(spec)
    if not (order or bind):
        return None
    by_torchrun = spec.launch.kind is LauncherKind.TORCHRUN
    return PlacePlan(
        order=order,
        bind=bind,
        strict=spec.place.strict,
        tasks_per_node=1 if by_torchrun else spec.ntasks_per_node,
        srun=tuple(option for option in srun if option.name not in _NOT_ORDERED),
        # srun takes no second level here (`arbitrary:block` is refused): ranks bind themselves.
        ordered=(Option(name="distribution", value="arbitrary"),),
        plain=tuple(option for option in srun if option.name in _NOT_ORDERED),
        fallback=_PLAIN if spec.launch.kind is LauncherKind.MPI else _MAPPED,
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
