"""The factors of a site that a report needs, by themselves: most folders have no site file."""

from __future__ import annotations

from dataclasses import dataclass

from hpckit.model.rules import between, check_fields, key, matching


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergySite:
    """`[energy]`: the factors by which `hpckit report` goes from a GPU's joules to a bill."""

    pue: float | None = key(
        "Power usage effectiveness of the building (ISO/IEC 30134-2): its energy divided by that "
        "of its computers. Not said: energy and cost are those of the computers alone.",
        default=None,
        check=between(1, 10),
        minimum=1,
    )
    price_per_kwh: float | None = key(
        "Price of a kWh, in `currency`.", default=None, check=between(0, 1e6), minimum=0
    )
    currency: str | None = key(
        "What `price_per_kwh` is in, such as `EUR`.",
        default=None,
        check=matching(r"[A-Za-z€$£¥]{1,8}", "a currency such as EUR"),
    )
    co2_g_per_kwh: float | None = key(
        "Grams of CO2 equivalent that a kWh stands for (SCI, ISO/IEC 21031, factor I): the average "
        "of the grid, or what the supplier states.",
        default=None,
        check=between(0, 1e5),
        minimum=0,
    )
    node_idle_w: float | None = key(
        "Watts of a node that does nothing, without its GPUs; with `cpu_core_w` a node's energy is "
        "modelled where no meter of it can be read.",
        default=None,
        check=between(0, 1e5),
        minimum=0,
    )
    cpu_core_w: float | None = key(
        "Watts that each busy CPU adds to `node_idle_w`: (power at full load, without GPUs, less "
        "`node_idle_w`) divided by the CPUs of the node.",
        default=None,
        check=between(0, 1e4),
        minimum=0,
    )

    def __post_init__(self) -> None:
        check_fields(self)
