"""Power and energy of a run, from one GPU to the building, and the heat to remove.

A busy node draws 1.29 times the rated power of its GPUs, an idle one 0.43 (DGX H100: 2.4 of 5.6
kW); between them it follows the part of a step in which GPUs compute. Measured by MLPerf Training's
power submissions (v4.0 SMC, v4.1 Dell, v5.0 Lenovo), whose busy nodes took 1.20 to 1.29 times
that. PUE: Uptime Institute's survey of 2023 (1.58 on average), large operators 1.1. Heat: 1 kW is
3,412 BTU/h; air takes 1.206 kJ a cubic metre and kelvin, water 4.19 kJ a litre and kelvin.
"""

from __future__ import annotations

from typing import Final

from hpckit.core.values import dataclass

NODE_OVER_GPU: Final = (1.20, 1.29)
"""Power of a busy node over the rated power of its GPUs, least and most seen."""
PUE: Final = (1.1, 1.58)
"""Power of a building over that of its machines: a large operator's, and the world's average."""
BTU_PER_H_PER_W: Final = 3.412
AIR_J_PER_M3_K: Final = 1206.0
WATER_L_PER_MIN_PER_KW_K: Final = 14.3


FULL_OVER_GPU: Final = 1.29
IDLE_OVER_GPU: Final = 0.43
"""Node's power over its GPUs' rating, all of them computing, and none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The least and the most that a figure may be."""

    least: float
    most: float

    @property
    def middle(self) -> float:
        """Return the middle."""
        return (self.least + self.most) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Facility:
    """Power in W that GPUs, machines and building take; heat is the machines' power."""

    gpus_w: float
    it_w: Range
    facility_w: Range

    @property
    def heat_btu_per_h(self) -> Range:
        """Return the heat in the unit of cooling plants."""
        return Range(least=self.it_w.least * BTU_PER_H_PER_W, most=self.it_w.most * BTU_PER_H_PER_W)


def facility(gpus: int, gpu_w: float, pue: float | None = None) -> Facility:
    """Return what a number of GPUs of a rated power need when all are busy."""
    gpus_w = gpus * gpu_w
    it = Range(least=gpus_w * NODE_OVER_GPU[0], most=gpus_w * NODE_OVER_GPU[1])
    low, high = (pue, pue) if pue is not None else PUE
    return Facility(
        gpus_w=gpus_w, it_w=it, facility_w=Range(least=it.least * low, most=it.most * high)
    )


def air_m3_per_s(heat_w: float, rise_k: float) -> float:
    """Return the air that carries heat away at a rise of its temperature."""
    return heat_w / (AIR_J_PER_M3_K * rise_k)


def water_l_per_min(heat_w: float, rise_k: float) -> float:
    """Return the water that carries heat away at a rise of its temperature."""
    return WATER_L_PER_MIN_PER_KW_K * heat_w / 1e3 / rise_k


# --- A run: power by how busy its GPUs are, energy by how long it takes.


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """What a run draws and uses: `it_w` its nodes, `facility_w` the building for them.

    Without a duration `it_kwh` and what follows from it are those of one hour.
    """

    gpu_share_w: float
    it_w: float
    facility_w: float
    it_kwh: float
    facility_kwh: float
    rack_w: float


RACK_GPUS: Final = 32
"""Four nodes of eight: what air cooling usually allows a rack."""


def node_w_per_gpu(tdp_w: float, busy_frac: float) -> float:
    """Return a node's power for each of its GPUs, in W, when they compute so much of the time."""
    return tdp_w * (IDLE_OVER_GPU + (FULL_OVER_GPU - IDLE_OVER_GPU) * busy_frac)


def run_energy(
    gpus: int, tdp_w: float, busy_frac: float, duration_s: float, pue: float | None = None
) -> Energy:
    """Return the power of a run and its energy over its duration."""
    each = node_w_per_gpu(tdp_w, busy_frac)
    it_w = each * gpus
    building = pue if pue is not None else sum(PUE) / 2
    kwh = it_w * duration_s / 3.6e6
    return Energy(
        gpu_share_w=each,
        it_w=it_w,
        facility_w=it_w * building,
        it_kwh=kwh,
        facility_kwh=kwh * building,
        rack_w=each * min(gpus, RACK_GPUS),
    )
