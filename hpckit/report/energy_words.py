"""Energy of a job with its provenance, and what it costs, as a row of its report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hpckit.model.account import SPLIT_GPU, Energy, JobReport
from hpckit.model.cost import GPUS_ALONE, Cost
from hpckit.model.energy_reason import EnergyLack
from hpckit.report.quantities import energy, energy_sum, mass, number, percent

_SCOPES: Final = {
    "module": " module (CPU and memory with it)",
    SPLIT_GPU: ", whole GPUs though MIG splits them",
}
_ROUNDING_FRAC: Final = 0.001
_BRIEF: Final[Mapping[EnergyLack, str]] = {
    EnergyLack.METER: "no meter",
    EnergyLack.SAMPLES: "not sampled",
    EnergyLack.OWN_METER: "other jobs may run on it too",
    EnergyLack.SLURM_PLUGIN: "",
}
"""Reasons that are told in fewer words, or not at all, than in --json."""
_SITE_FILE: Final = "set [energy] in the site file"


def energy_parts(report: JobReport) -> list[str]:
    """Energy of the GPUs and nodes with its provenance, then what it costs."""
    gpu, node = report.energy.gpu, report.energy.node
    if not is_about_gpus(report):
        first, *rest = _node_and_cost(node, report.cost)
        return [first, *(f"· {part}" for part in rest)]
    parts = [_provenance(gpu, "GPU"), *_held_by_ranks(report)]
    return [*parts, *(f"· {part}" for part in _node_and_cost(node, report.cost))]


def is_about_gpus(report: JobReport) -> bool:
    """Whether the job had GPUs, or wanted some of which none was seen."""
    return bool(report.gpus or report.job.gpus or report.job.gpus_because)


def _node_and_cost(node: Energy, cost: Cost) -> list[str]:
    """What the nodes took and what it cost; what both lack for want of one table is said once."""
    if node.value_j is not None:
        return [_provenance(node, "node"), *_cost(cost)]
    why, costs = _briefly(node), _cost(cost)
    if any(one.is_all_keys for one in node.reasons) and costs == [f"cost not known: {_SITE_FILE}"]:
        return [f"node, cost not known: {why}"]
    return [f"node not known: {why}", *costs]


def _briefly(node: Energy) -> str:
    """Why a node's energy is not known, on a line: what to do ends it, --json names the keys."""
    kinds = {one.kind for one in node.reasons}
    words: list[str] = []
    for reason in node.reasons:
        if reason.is_all_keys:
            return "; ".join([*words, _SITE_FILE])
        is_said = reason.kind is EnergyLack.OWN_SHARE and EnergyLack.OWN_METER in kinds
        if not is_said and (brief := _BRIEF.get(reason.kind, str(reason))):
            words.append(brief)
    return "; ".join(words) or node.because or "nothing was measured"


def _held_by_ranks(report: JobReport) -> list[str]:
    """How the GPUs' energy adds up; it is said where rounding does not explain a difference."""
    held = report.energy.conservation
    if held is None or not report.ranks or report.energy.gpu.value_j is None:
        return []
    gpu = report.energy.gpu
    all_j = (held.ranks_j, held.idle_remainder_j, held.error_j)
    ranks, rest, error = energy_sum(all_j, report.energy.gpu.value_j, gpu.plus_minus_j)
    parts = [f"= ranks {ranks} + {rest} outside of them"]
    if abs(held.error_j) > _ROUNDING_FRAC * max(held.gpus_j, 1.0):
        parts.append(f"(which differs by {error})")
    return parts


def _provenance(one: Energy, what: str) -> str:
    if one.value_j is None:
        return f"{what} not known: {one.because or 'nothing was measured'}"
    source = str(one.source) if one.source is not None else "source not known"
    covered = f", {percent(one.coverage_frac)} covered" if one.scope != "node" else ""
    scope = _SCOPES.get(one.scope, "")
    return f"{energy(one.value_j, one.plus_minus_j)} {what}{scope} ({source}{covered})"


def _cost(cost: Cost) -> list[str]:
    """Energy with cooling, carbon and price; first what of, where that is not all of the job."""
    parts = []
    if cost.facility_j is not None and cost.pue is not None:
        parts.append(f"{energy(cost.facility_j)} at PUE {cost.pue:g}")
    if cost.co2_g is not None:
        parts.append(f"{mass(cost.co2_g)} CO2e")
    if cost.price is not None:
        parts.append(f"{number(cost.price)} {cost.currency or '(no currency)'}")
    if not parts:
        return [f"cost not known: {_SITE_FILE}"] if cost.absent else []
    if cost.is_of_gpus:
        parts[0] = f"{GPUS_ALONE}: {parts[0]}"
    return [*parts, cost.lack] if cost.lack else parts
