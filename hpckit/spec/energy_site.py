"""What a site says of energy; apart, so that a report reads no more of site files than this."""

from __future__ import annotations

from hpckit.core.fields import Checked, between, matching, optional
from hpckit.core.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergySite(Checked):
    """`[energy]`: factors from which `hpckit report` computes energy, cost and CO2."""

    pue: float | None = optional(
        "Power usage effectiveness (PUE, ISO/IEC 30134-2): energy of the data center divided by "
        "energy of its computers. Default: energy and cost of the computers only.",
        between(1, 10),
    )
    price_per_kwh: float | None = optional("Price of a kWh, in `currency`.", between(0, 1e6))
    currency: str | None = optional(
        "Currency of `price_per_kwh`, such as `EUR`.",
        matching(r"[A-Za-z€$£¥]{1,8}", "a currency such as EUR"),
    )
    co2_g_per_kwh: float | None = optional(
        "Carbon intensity in grams of CO2 equivalent per kWh (SCI, ISO/IEC 21031, factor I): the "
        "grid average, or the supplier's figure.",
        between(0, 1e5),
    )
    node_idle_w: float | None = optional(
        "Power of an idle node without its GPUs, in watts. With `cpu_core_w`, hpckit estimates "
        "the energy of nodes that have no readable power meter.",
        between(0, 1e5),
    )
    cpu_core_w: float | None = optional(
        "Watts that each busy CPU adds to `node_idle_w`: (power at full load without GPUs − "
        "`node_idle_w`) ÷ CPUs of the node.",
        between(0, 1e4),
    )
