"""Energies put together, and what Slurm's accounting has."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from hpckit.model.account import Energy, EnergySource


def sum_of_boards(energies: Iterable[Energy], *, because: str = "") -> Energy:
    """The energy of several boards: their gains are independent, so that ± add as squares."""
    parts = tuple(energies)
    half_j = math.sqrt(sum((part.plus_minus_j or 0.0) ** 2 for part in _known(parts)))
    return _summed(parts, half_j, because)


def sum_of_times(energies: Iterable[Energy], *, because: str = "") -> Energy:
    """The energy of one board over several times: its gain is the same, so that ± add up."""
    parts = tuple(energies)
    return _summed(parts, sum(part.plus_minus_j or 0.0 for part in _known(parts)), because)


_SLURM_SCOPES: Final = {
    "rapl": "cpu",
    "ipmi": "node",
    "xcc": "node",
    "ibmaem": "node",
    "pm_counters": "node",
}
"""What Slurm's plugins count: RAPL the CPUs and their memory, the others whole nodes."""


def from_slurm(consumed_j: float, plugin: str, *, is_exclusive: bool | None) -> Energy:
    """What Slurm's accounting says of a job's nodes: ConsumedEnergyRaw of the job, never of steps.

    `plugin` is AcctGatherEnergyType; no NVIDIA GPU is in RAPL's figure, and that of a plugin not
    known here is not taken. Slurm's figure is of whole nodes: of one that was shared it is not the
    job's. Its ± is stated by nobody. Source: sacct(1), "ConsumedEnergy"; acct_gather.conf(5).
    """
    name = plugin.rpartition("/")[2]
    scope = _SLURM_SCOPES.get(name)
    because = ""
    if scope is None:
        because = f"it is not known what Slurm's {plugin} counts"
    elif is_exclusive is False:
        because = "Slurm's figure is of whole nodes, and the job shared them"
    if because:
        return Energy(value_j=None, scope="node", because=because)
    what = "CPUs and their memory" if scope == "cpu" else "whole nodes"
    shared = "" if is_exclusive else "; other jobs may have run on them, and are counted too"
    return Energy(
        value_j=consumed_j, source=EnergySource.SLURM, coverage_frac=1.0, scope=scope or "node",
        because=f"Slurm's ConsumedEnergy by {name}: {what}; its ± is not known{shared}",
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
