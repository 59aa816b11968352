"""Energies put together, and what Slurm's accounting has."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from hpckit.model.account import SPLIT_GPU, Energy, EnergySource, GpuAccount
from hpckit.model.energy_reason import EnergyReason

_MOST_NOTES: Final = 6
_NUMBER: Final = re.compile(r"\d[\d.,]*")


class Part(NamedTuple):
    """A part of a sum: `meter` is what measured it, a board or a node, and `time_s` for how long.

    What a meter is off by is the same each time, so that its ± add up; those of meters add as
    squares, but for what sensors of boards in step do not see.
    """

    energy: Energy
    meter: str
    time_s: float = 1.0


def sum_of_boards(energies: Iterable[Energy], *, because: str = "") -> Energy:
    """The energy of several boards over the same time: their gains are independent."""
    parts = [Part(energy, str(place)) for place, energy in enumerate(energies)]
    return sum_of_parts(parts, because=because)


def sum_of_gpus(gpus: Iterable[GpuAccount]) -> Energy:
    """The energy of GPUs in one incarnation or in several: a board that comes again is one."""
    return sum_of_parts([Part(one.energy, one.uuid, one.held_s) for one in gpus])


def sum_of_parts(parts: Sequence[Part], *, because: str = "") -> Energy:
    """All that is known of the parts; no ± where one of these has none."""
    energies = [part.energy for part in parts]
    known = [one for one in energies if one.value_j is not None]
    scope = _one({one.scope for one in energies}, "gpu")
    if not known:
        words = list(dict.fromkeys(one.because for one in energies if one.because))
        return Energy(
            value_j=None,
            scope=scope,
            because="; ".join(words) or "nothing to sum",
            reasons=_reasons(energies),
        )
    words = [because] if because else _notes(known)
    if len(known) < len(parts):
        words.append(f"{len(parts) - len(known)} of {len(parts)} are not measured")
    sources = {one.source for one in known}
    return Energy(
        value_j=math.fsum(one.value_j or 0.0 for one in known),
        plus_minus_j=_half_width(parts),
        unseen_j=math.fsum(one.unseen_j for one in known),
        source=next(iter(sources)) if len(sources) == 1 else EnergySource.MIXED,
        coverage_frac=_coverage(parts),
        scope=scope,
        because="; ".join(words),
    )


def reasons_of(energy: Energy) -> tuple[EnergyReason, ...]:
    """Why an energy is not known; its words are the reason where it has no other."""
    if energy.reasons or not energy.because:
        return energy.reasons
    return (EnergyReason(text=energy.because),)


def _reasons(energies: Sequence[Energy]) -> tuple[EnergyReason, ...]:
    """Those of all, each once; none where the parts have words alone, as those of GPUs do."""
    if not any(one.reasons for one in energies):
        return ()
    return tuple(dict.fromkeys(reason for one in energies for reason in reasons_of(one)))


def _half_width(parts: Sequence[Part]) -> float | None:
    by_meter: dict[str, float] = {}
    unseen_j = 0.0
    for energy, meter, _ in parts:
        if energy.value_j is None:
            continue
        if energy.plus_minus_j is None:
            return None
        unseen_j += energy.unseen_j
        own_j = max(0.0, energy.plus_minus_j - energy.unseen_j)
        by_meter[meter] = by_meter.get(meter, 0.0) + own_j
    return math.hypot(*by_meter.values()) + unseen_j


def _coverage(parts: Sequence[Part]) -> float:
    """The share of all the time that was measured."""
    time_s = math.fsum(part.time_s for part in parts)
    if time_s <= 0:
        return sum(part.energy.coverage_frac for part in parts) / len(parts)
    return math.fsum(part.energy.coverage_frac * part.time_s for part in parts) / time_s


def _notes(energies: Iterable[Energy]) -> list[str]:
    """What the parts say of themselves, each kind of note once: some differ in numbers alone."""
    kinds: dict[str, dict[str, None]] = {}
    for energy in energies:
        for note in filter(None, energy.because.split("; ")):
            kinds.setdefault(_NUMBER.sub("#", note), {})[note] = None
    told = [
        next(iter(alike)) + (f" (and {len(alike) - 1} more like it)" if len(alike) > 1 else "")
        for alike in kinds.values()
    ]
    more = len(told) - _MOST_NOTES
    return told if more <= 0 else [*told[:_MOST_NOTES], f"and {more} more notes"]


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
        return Energy.unknown_of_node(EnergyReason(text=because))
    what = "CPUs and their memory" if scope == "cpu" else "whole nodes"
    shared = "" if is_exclusive else "; other jobs may have run on them, and are counted too"
    return Energy(
        value_j=consumed_j, source=EnergySource.SLURM, coverage_frac=1.0, scope=scope or "node",
        because=f"Slurm's ConsumedEnergy by {name}: {what}; its ± is not known{shared}",
    )  # fmt: skip


def _one(scopes: set[str], usual: str) -> str:
    """The scope of all of them; of several the widest: a module holds its GPU."""
    widest = ("node", "module", SPLIT_GPU, "gpu", "cpu")
    return next((scope for scope in widest if scope in scopes), usual)
