"""The energies of a job's nodes put together."""

from __future__ import annotations

import pytest

from hpckit.account.fold import node_energy, with_slurms
from hpckit.account.values import Energy, EnergyLack, EnergyReason, EnergySource, SlurmEnergy
from tests.fakes.measured_jobs import node


def metered(value_j: float) -> Energy:
    """A node's meter, which is off by 10 % at most."""
    return Energy(
        value_j=value_j,
        plus_minus_j=value_j / 10,
        source=EnergySource.COUNTER,
        coverage_frac=1.0,
        scope="node",
    )


def test_a_nodes_meter_is_off_by_the_same_in_every_incarnation() -> None:
    """The ± of a node that comes again add up, those of nodes as squares."""
    again = [node("n1", energy=metered(100.0)), node("n1", energy=metered(200.0), restart=1)]
    other = node("n2", energy=metered(400.0), restart=1)
    total = node_energy([*again, other])
    assert total.value_j == pytest.approx(700.0)
    assert total.plus_minus_j == pytest.approx(50.0)


def test_the_coverage_of_nodes_is_of_their_time() -> None:
    """A node that was held for nine times as long weighs nine times as much."""
    half = Energy(value_j=1.0, source=EnergySource.MODELLED, coverage_frac=0.5, scope="node")
    total = node_energy([node("n1", 900.0, energy=half), node("n2", 100.0, energy=metered(1.0))])
    assert total.coverage_frac == pytest.approx(0.55)


def test_slurms_reasons_stand_behind_words_alone() -> None:
    """Why nothing of hpckit's told it is kept, of an energy without reasons by kind too."""
    slurms = EnergyReason(kind=EnergyLack.SLURM_PLUGIN)
    energy = with_slurms(node_energy([]), None, SlurmEnergy(reasons=(slurms,)), [])
    assert energy.reasons == (EnergyReason(text="nothing to sum"), slurms)
    assert energy.because == "nothing to sum; Slurm gathers none here"
