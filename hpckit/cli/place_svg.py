"""The picture of a placement, for `hpckit place --format svg`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hpckit.app.place import PlaceQuestion
    from hpckit.decide.traffic import AxisTraffic
    from hpckit.model.fabric import ClusterTopology
    from hpckit.model.placement import Placement


def svg(
    question: PlaceQuestion,
    topology: ClusterTopology,
    placement: Placement,
    axis: str | None,
    *,
    file: str | None = None,
) -> str:
    """The picture with the colours of the groups of an axis, or of that which the order changes.

    Its title is the name of the file that told of the network, or what else did. Raises
    click.UsageError for an axis that the mesh does not have, or whose groups stay on their nodes.
    """
    from pathlib import PurePath

    from hpckit.decide.locality import locality_of
    from hpckit.decide.mesh import mesh_of
    from hpckit.decide.traffic import mesh_words, traffic_of
    from hpckit.draw.placement import Facts, placement_svg
    from hpckit.model.words import counted

    mesh = mesh_of(question.sizes, question.volumes)
    axes = {one.axis.name: one for one in traffic_of(mesh, question.ranks_per_node)}
    shown = axes[_most_changed(axes, placement) if axis is None else _asked(axis, axes)]
    time = placement.objectives["step_comm_time_s"]
    return placement_svg(
        locality_of(topology),
        (placement.orders.placed, placement.orders.hostname),
        [group.nodes for group in shown.groups],
        axis=shown.axis.name,
        ranks_per_node=question.ranks_per_node,
        title=str(topology.source) if file in (None, "-") else PurePath(str(file)).name,
        facts=Facts(
            words=(counted(len(placement.orders.placed), "node"), mesh_words(mesh)),
            times_s=(time.placed, time.hostname),
        ),
    )


def _asked(axis: str, axes: dict[str, AxisTraffic]) -> str:
    """The axis, where there is something of it to be seen."""
    if axis not in axes:
        raise click.UsageError(f"the mesh has no axis {axis!r}: it has {', '.join(axes)}")
    if not axes[axis].groups:
        useful = [f"--axis {name}" for name, one in axes.items() if one.groups]
        instead = " or ".join(useful) or "so do those of all others"
        raise click.UsageError(f"every group of {axis} stays on its node: {instead}")
    return axis


def _most_changed(axes: dict[str, AxisTraffic], placement: Placement) -> str:
    """The axis of which the order splits other groups than host names; of alike ones the slowest.

    Of those that cross nodes where there are some.
    """

    def worth(name: str) -> tuple[float, float]:
        found = placement.groups[name]
        return abs(found.straddling.placed - found.straddling.hostname), found.time_s.placed

    crossing = [name for name, one in axes.items() if one.groups] or list(axes)
    return max(crossing, key=worth)
