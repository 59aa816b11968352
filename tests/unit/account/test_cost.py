"""What energy costs, and of what."""

from __future__ import annotations

from typing import Final

import pytest

from hpckit.account.energy import cost_of
from hpckit.account.values import Cost, Energy
from hpckit.spec.site import EnergySite

KWH_J: Final = 3.6e6
UNKNOWN: Final = Energy(value_j=None, because="no meter")


def cost(node: Energy, price: float | None, pue: float | None = None) -> Cost:
    """What a node and its GPUs, which took 1 kWh, cost without a figure for carbon."""
    gpu = Energy(value_j=KWH_J)
    return cost_of(node, gpu, EnergySite(pue=pue, price_per_kwh=price, currency="EUR"))


def test_pue_is_in_the_price() -> None:
    """Of the nodes' energy where it is known; the keys that lack are fields and words."""
    found = cost(Energy(value_j=2 * KWH_J), 0.5, pue=1.5)
    assert found.facility_j == pytest.approx(3 * KWH_J)
    assert found.price == pytest.approx(1.5)
    assert (found.is_of_gpus, found.absent) == (False, ("co2_g_per_kwh",))
    assert found.because == "the site file's [energy] has no co2_g_per_kwh"


def test_a_cost_of_the_gpus_alone_says_so() -> None:
    """Before what lacks, of a cost that has a figure at all."""
    found = cost(UNKNOWN, 0.5)
    assert found.is_of_gpus
    assert found.price == pytest.approx(0.5)
    lack = "the site file's [energy] has no pue, co2_g_per_kwh"
    assert found.because == f"of the GPUs alone; {lack}"
    nothing = cost(UNKNOWN, None)
    assert (nothing.is_of_gpus, nothing.because) == (False, nothing.lack)


def test_what_nobody_measured_has_no_cost() -> None:
    """Nor is a key of the site file to blame for that."""
    assert cost_of(UNKNOWN, UNKNOWN, EnergySite(pue=1.1)) == Cost()
