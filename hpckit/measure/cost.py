"""What the energy of a job costs by its site's factors, and its GPU-seconds added up."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from hpckit.model.account import Energy, Share
from hpckit.model.cost import GPUS_ALONE, Cost

J_PER_KWH = 3.6e6


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
        return Cost()
    keys = {"pue": pue, "price_per_kwh": price_per_kwh, "co2_g_per_kwh": co2_g_per_kwh}
    absent = tuple(name for name, value in keys.items() if value is None)
    facility_j = None if pue is None else base.value_j * pue
    billed_kwh = (base.value_j if facility_j is None else facility_j) / J_PER_KWH
    cost = Cost(
        facility_j=facility_j,
        pue=pue,
        price=None if price_per_kwh is None else billed_kwh * price_per_kwh,
        currency=currency,
        co2_g=None if co2_g_per_kwh is None else billed_kwh * co2_g_per_kwh,
        is_of_gpus=base is gpu and len(absent) < len(keys),
        absent=absent,
    )
    words = (GPUS_ALONE if cost.is_of_gpus else "", cost.lack)
    return replace(cost, because="; ".join(part for part in words if part))
