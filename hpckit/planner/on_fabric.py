"""What the network of given nodes costs a layout: which groups leave a switch, and its time.

The ranks are placed as a job would place them (`hpckit place`), on the nodes' fabric and on one
switch that all of them share; the difference in predicted communication is the fabric's cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hpckit.core.hostlist import fold_hosts
from hpckit.core.units import short_time
from hpckit.core.values import dataclass
from hpckit.fabric.slurm_files import parse_topology_conf
from hpckit.fabric.topology import ClusterTopology
from hpckit.placement.place import PlaceQuestion, place_on
from hpckit.planner.answer import Answer, speed_from, speed_of
from hpckit.planner.job_file import mesh_of, volumes
from hpckit.planner.layout import Layout
from hpckit.planner.memory import memory
from hpckit.planner.search import Ranked
from hpckit.planner.step_time import StepTime

TERM = "fabric"


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricCost:
    """Seconds of a step that a layout loses to the fabric; `crossing` says which groups cross."""

    cost_s: float
    crossing: tuple[str, ...]


def fabric_cost(
    made: Answer, layout: Layout, nodes: Sequence[str], topology: ClusterTopology
) -> FabricCost:
    """Return what the fabric of these nodes costs a layout. Raises PlanError."""
    question, machine = made.question, made.machine
    asked = PlaceQuestion(
        nodes=tuple(nodes),
        ranks_per_node=layout.gpus // len(nodes),
        sizes=mesh_of(layout),
        volumes=volumes(question.model, question.training, layout),
        node_bytes_per_s=machine.network_bytes_per_s * machine.node_gpus,
    )
    if not asked.sizes or len(nodes) == 1:
        return FabricCost(cost_s=0.0, crossing=())
    flat = parse_topology_conf(f"SwitchName=one Nodes={fold_hosts(nodes)}\n", "one switch")
    here, alone = place_on(asked, topology), place_on(asked, flat)
    both = [one.objectives["step_comm_time_s"].placed for one in (here, alone)]
    crossing = tuple(
        f"{axis}: {groups.straddling.placed:.0f} of {groups.groups} groups span several"
        f" {here.places}"
        for axis, groups in here.groups.items()
        if groups.straddling.placed
    )
    cost_s = max(0.0, both[0] - both[1])
    if crossing:
        crossing = (
            *crossing,
            f"costs {short_time(cost_s)} per step, compared with one switch for all nodes",
        )
    return FabricCost(cost_s=cost_s, crossing=crossing)


def ranked_on(
    made: Answer, nodes: Sequence[str], topology: ClusterTopology
) -> tuple[Answer, FabricCost]:
    """Return the answer with the fabric's cost in every time, and that of its layout.

    Where no layout was said, it is that which is fastest on this fabric.
    """
    rows = []
    for row in made.ranking.best:
        cost = fabric_cost(made, row.layout, nodes, topology)
        rows.append(replace(row, time=_with(row.time, cost.cost_s)))
    rows.sort(key=lambda row: row.time.step_s)
    own = made.question.layout
    is_said = not made.ranking.best or own != made.ranking.best[0].layout
    layout = own if is_said else rows[0].layout
    cost = fabric_cost(made, layout, nodes, topology)
    return _answered(made, layout, rows, cost), cost


def _with(time: StepTime, cost_s: float) -> StepTime:
    return StepTime((*time.terms, (TERM, cost_s))) if cost_s else time


def _answered(made: Answer, layout: Layout, rows: Sequence[Ranked], cost: FabricCost) -> Answer:
    question = replace(made.question, layout=layout)
    model, training = question.model, question.training
    time = speed_of(model, training, layout, made.machine).time
    speed = speed_from(model, training, layout, made.machine, _with(time, cost.cost_s))
    return replace(
        made,
        question=question,
        memory=memory(model, training, layout),
        speed=speed,
        ranking=replace(made.ranking, best=tuple(rows)),
    )
