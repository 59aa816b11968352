"""Energies put together, and those that no GPU's driver told: modelled ones and Slurm's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from hpckit.model.account import Energy, EnergySource

_MODEL_FRAC: Final = 0.5
"""Half width of what a model by utilization says: idle and limit are all that it knows."""


def sum_of_boards(energies: Iterable[Energy], *, because: str = "") -> Energy:
    """The energy of several boards: their gains are independent, so that ± add as squares."""
    parts = tuple(energies)
    half_j = math.sqrt(sum((part.plus_minus_j or 0.0) ** 2 for part in _known(parts)))
    return _summed(parts, half_j, because)


def sum_of_times(energies: Iterable[Energy], *, because: str = "") -> Energy:
    """The energy of one board over several times: its gain is the same, so that ± add up."""
    parts = tuple(energies)
    return _summed(parts, sum(part.plus_minus_j or 0.0 for part in _known(parts)), because)


def modelled(
    *, busy_s: float, idle_s: float, idle_w: float, limit_w: float, what: str, scope: str = "gpu"
) -> Energy:
    """Power limit for the time that something was busy, idle power for the rest.

    `what` is what it is a model of, such as `GPU` or `CPUs`. The half width is half of the value.
    """
    value_j = busy_s * limit_w + idle_s * idle_w
    because = (
        f"modelled: {what} at {limit_w:.0f} W for {busy_s:.0f} busy seconds and at {idle_w:.0f} W"
        f" for {idle_s:.0f} others; nothing was measured"
    )
    return Energy(
        value_j=value_j, plus_minus_j=_MODEL_FRAC * value_j, source=EnergySource.MODELLED,
        coverage_frac=0.0, scope=scope, because=because,
    )  # fmt: skip


def from_slurm(consumed_j: float | None, *, is_exclusive: bool, plugin: str | None) -> Energy:
    """What Slurm's accounting says of a job's nodes (ConsumedEnergyRaw of the job, never of steps).

    Slurm's energy is that of whole nodes, copied into every step: steps are never summed, and of a
    node that was shared it is not the job's. It holds no NVIDIA GPU (accounting.md §4.1).
    """
    if not consumed_j:
        because = "Slurm's accounting has no energy of this job"
        return Energy(value_j=None, scope="node", because=because)
    if not is_exclusive:
        because = "Slurm's figure is that of whole nodes, and the job shared them"
        return Energy(value_j=None, scope="node", because=because)
    name = plugin or "its energy plugin, which it does not name"
    return Energy(
        value_j=consumed_j, source=EnergySource.SLURM, coverage_frac=1.0, scope="node",
        because=f"Slurm's ConsumedEnergy by {name}: whole nodes, without NVIDIA GPUs' own counters;"
        " its ± is not known",
    )  # fmt: skip


def _known(parts: Sequence[Energy]) -> list[Energy]:
    return [part for part in parts if part.value_j is not None]


def _summed(parts: Sequence[Energy], half_j: float, because: str) -> Energy:
    known = _known(parts)
    scope = _one({part.scope for part in parts}, "gpu")
    if not known:
        reasons = dict.fromkeys(part.because for part in parts if part.because)
        return Energy(value_j=None, scope=scope, because="; ".join(reasons) or "nothing to sum")
    words = [because] if because else list(dict.fromkeys(part.because for part in known))[:1]
    if len(known) < len(parts):
        words.append(f"{len(parts) - len(known)} of {len(parts)} are not measured")
    sources = {part.source for part in known}
    return Energy(
        value_j=math.fsum(part.value_j or 0.0 for part in known),
        plus_minus_j=half_j if any(part.plus_minus_j is not None for part in known) else None,
        source=next(iter(sources)) if len(sources) == 1 else EnergySource.MIXED,
        coverage_frac=sum(part.coverage_frac for part in parts) / len(parts),
        scope=scope,
        because="; ".join(words),
    )


def _one(scopes: set[str], usual: str) -> str:
    """The scope of all of them; of several the widest, since a module holds its GPU."""
    widest = ("node", "module", "gpu", "cpu")
    return next((scope for scope in widest if scope in scopes), usual)
