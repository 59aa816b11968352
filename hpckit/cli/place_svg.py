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
    question: PlaceQuestion, topology: ClusterTopology, placement: Placement, axis: str | None
) -> str:
    """The picture with the colours of the groups of an axis, or of that which takes longest.

    Raises click.UsageError for an axis that the mesh does not have.
    """
    from hpckit.decide.locality import locality_of
    from hpckit.decide.mesh import mesh_of
    from hpckit.decide.traffic import mesh_words, traffic_of
    from hpckit.draw.placement import placement_svg

    mesh = mesh_of(question.sizes, question.volumes)
    axes = {one.axis.name: one for one in traffic_of(mesh, question.ranks_per_node)}
    if axis is not None and axis not in axes:
        raise click.UsageError(f"the mesh has no axis {axis!r}: it has {', '.join(axes)}")
    shown = axes[axis or _longest(axes, placement)]
    nodes = len(placement.orders.placed)
    count = f"{nodes} nodes" if nodes != 1 else "one node"
    return placement_svg(
        locality_of(topology),
        (placement.orders.placed, placement.orders.hostname),
        [group.nodes for group in shown.groups],
        axis=shown.axis.name,
        ranks_per_node=question.ranks_per_node,
        title=f"{count} · {mesh_words(mesh)} · {topology.source}",
    )


def _longest(axes: dict[str, AxisTraffic], placement: Placement) -> str:
    """The axis with the most predicted time, of those that cross nodes where there are some."""
    crossing = [name for name, one in axes.items() if one.groups] or list(axes)
    return max(crossing, key=lambda name: placement.groups[name].time_s.placed)
