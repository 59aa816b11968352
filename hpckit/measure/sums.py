"""Energies and times of parts added up, with what is known of the sum."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hpckit.model.account import Cost, Energy, EnergySource, Share

J_PER_KWH = 3.6e6


def energy_sum(
    parts: Sequence[Energy], weights_s: Sequence[float], *, scope: str = "gpu"
) -> Energy:
    """The energy of all parts; `weights_s` is for how long each was held.

    The errors of boards are independent of one another (arXiv 2312.02741), so they add in squares.
    A part without a value lowers the coverage.
    """
    known = [(one, held_s) for one, held_s in zip(parts, weights_s, strict=True)]
    known = [(one, held_s) for one, held_s in known if one.value_j is not None]
    if not known:
        because = next((one.because for one in parts if one.because), "nothing was measured")
        return Energy(value_j=None, scope=scope, because=because)
    total_s = sum(weights_s)
    covered_s = sum(one.coverage_frac * held_s for one, held_s in known)
    spreads = [one.plus_minus_j for one, _ in known]
    half_j = math.hypot(*(one for one in spreads if one is not None))
    return Energy(
        value_j=math.fsum(one.value_j or 0.0 for one, _ in known),
        plus_minus_j=None if None in spreads else half_j,
        source=_source([one for one, _ in known]),
        coverage_frac=min(1.0, covered_s / total_s) if total_s > 0 else 1.0,
        scope=_scope([one for one, _ in known], scope),
        because=_because([one for one, _ in known], len(parts)),
    )


def _source(parts: Sequence[Energy]) -> EnergySource | None:
    sources = {one.source for one in parts if one.source is not None}
    if len(sources) > 1:
        return EnergySource.MIXED
    return next(iter(sources), None)


def _scope(parts: Sequence[Energy], scope: str) -> str:
    """`module` where any part holds CPU and memory with it."""
    return "module" if any(one.scope == "module" for one in parts) else scope


def _because(parts: Sequence[Energy], count: int) -> str:
    if len(parts) < count:
        return f"{count - len(parts)} of {count} parts are not in it: nothing is known of them"
    reasons = list(dict.fromkeys(one.because for one in parts if one.because))
    return reasons[0] if len(reasons) == 1 else ""


def share_sum(parts: Sequence[Share]) -> Share:
    """GPU-seconds of all parts, by class."""
    return Share(
        no_process_gpu_s=math.fsum(one.no_process_gpu_s for one in parts),
        idle_gpu_s=math.fsum(one.idle_gpu_s for one in parts),
        spin_gpu_s=math.fsum(one.spin_gpu_s for one in parts),
        useful_gpu_s=math.fsum(one.useful_gpu_s for one in parts),
        unknown_gpu_s=math.fsum(one.unknown_gpu_s for one in parts),
    )


def cost_of(
    node: Energy,
    gpu: Energy,
    *,
    pue: float | None,
    price_per_kwh: float | None,
    currency: str | None,
    co2_g_per_kwh: float | None,
) -> Cost:
    """What the energy costs: of the nodes, or of the GPUs alone where only theirs is known.

    PUE counts once, here. Without a factor the sentence names the key of the site file.
    """
    base = node if node.value_j is not None else gpu
    if base.value_j is None:
        return Cost(because="")
    keys = {"pue": pue, "price_per_kwh": price_per_kwh, "co2_g_per_kwh": co2_g_per_kwh}
    absent = [f"energy.{name}" for name, value in keys.items() if value is None]
    facility_j = None if pue is None else base.value_j * pue
    billed_kwh = (base.value_j if facility_j is None else facility_j) / J_PER_KWH
    of_gpus = "of the GPUs alone" if base is gpu and len(absent) < len(keys) else ""
    wanted = f"the site file has no {', '.join(absent)}" if absent else ""
    return Cost(
        facility_j=facility_j,
        pue=pue,
        price=None if price_per_kwh is None else billed_kwh * price_per_kwh,
        currency=currency,
        co2_g=None if co2_g_per_kwh is None else billed_kwh * co2_g_per_kwh,
        because="; ".join(part for part in (of_gpus, wanted) if part),
    )
