"""What a site says of energy; apart, so that a report reads no more of site files than this."""

from __future__ import annotations

from dataclasses import dataclass

from hpckit.core.fields import Checked, between, matching, optional


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergySite(Checked):
    """`[energy]`: the factors by which `hpckit report` goes from a GPU's joules to a bill."""

    pue: float | None = optional(
        "Power usage effectiveness of the building (ISO/IEC 30134-2): its energy divided by that "
        "of its computers. Not said: energy and cost are those of the computers alone.",
        between(1, 10),
    )
    price_per_kwh: float | None = optional("Price of a kWh, in `currency`.", between(0, 1e6))
    currency: str | None = optional(
        "What `price_per_kwh` is in, such as `EUR`.",
        matching(r"[A-Za-z€$£¥]{1,8}", "a currency such as EUR"),
    )
    co2_g_per_kwh: float | None = optional(
        "Grams of CO2 equivalent that a kWh stands for (SCI, ISO/IEC 21031, factor I): the average "
        "of the grid, or what the supplier states.",
        between(0, 1e5),
    )
    node_idle_w: float | None = optional(
        "Watts of a node that does nothing, without its GPUs; with `cpu_core_w` a node's energy is "
        "modelled where no meter of it can be read.",
        between(0, 1e5),
    )
    cpu_core_w: float | None = optional(
        "Watts that each busy CPU adds to `node_idle_w`: (power at full load, without GPUs, less "
        "`node_idle_w`) divided by the CPUs of the node.",
        between(0, 1e4),
    )
