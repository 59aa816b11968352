"""Sums of energies, and those that no driver told."""

from __future__ import annotations

from typing import Final

import pytest

from hpckit.account.energy import cost_of
from hpckit.account.energy_sums import Part, from_slurm, sum_of_boards, sum_of_parts
from hpckit.account.fold import node_energy, with_slurms
from hpckit.account.values import Cost, Energy, EnergyLack, EnergyReason, EnergySource, SlurmEnergy
from hpckit.spec.energy_site import EnergySite
from tests.fakes.measured_jobs import node


def energy(value_j: float | None, half_j: float | None = None, **more: object) -> Energy:
    """A counter's energy, or none."""
    fields: dict[str, object] = {"source": EnergySource.COUNTER, "coverage_frac": 1.0, **more}
    if value_j is None:
        return Energy(value_j=None, because="no driver")
    return Energy(value_j=value_j, plus_minus_j=half_j, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parts", "half_j", "unseen_j"),
    [
        ([Part(energy(10, 3), "a"), Part(energy(20, 4), "b")], 5, 0),
        # The ± of one board's times add up, those of boards as squares.
        ([Part(energy(10, 1), "a"), Part(energy(10, 2), "a"), Part(energy(20, 4), "b")], 5, 0),
        # Boards that step together hide the same: that part does not shrink in a sum.
        (
            [Part(energy(10, 5, unseen_j=2), "a"), Part(energy(20, 5, unseen_j=1), "b")],
            5 + 3,
            3,
        ),
        ([Part(energy(10, 3), "a"), Part(energy(20), "b")], None, 0),
    ],
)
def test_how_far_a_sum_may_be_off(parts: list[Part], half_j: float | None, unseen_j: float) -> None:
    """By less than its parts together; not known where one's ± is not."""
    total = sum_of_parts(parts)
    assert (total.plus_minus_j, total.unseen_j) == pytest.approx((half_j, unseen_j))
    assert total.value_j == sum(part.energy.value_j or 0 for part in parts)


@pytest.mark.parametrize(
    ("times_s", "frac"),
    [((60.0, 180.0), 0.25), ((0.0, 0.0), 0.5)],  # where no part lasted, they count alike
)
def test_coverage_is_of_the_time(times_s: tuple[float, float], frac: float) -> None:
    """A minute that was measured beside three that were not is a quarter, not a half."""
    total = sum_of_parts(
        [Part(energy(10, 3), "a", times_s[0]), Part(energy(None), "b", times_s[1])]
    )
    assert total.coverage_frac == pytest.approx(frac)


def test_notes_that_differ_in_numbers_are_counted() -> None:
    """Of a thousand coverages the first is shown; of many kinds of note six are."""
    alike = [energy(1, 1, because=f"{place} % of the time; a") for place in range(50)]
    assert sum_of_boards(alike).because == "0 % of the time (and 49 more like it); a"
    kinds = [energy(1, 1, because="abcdefghij"[place]) for place in range(10)]
    assert sum_of_boards(kinds).because.endswith("f; and 4 more notes")


def test_what_is_not_measured_lowers_the_coverage() -> None:
    """A board without a value is said, and is not 0."""
    total = sum_of_boards([energy(10, 3), energy(None)])
    assert (total.value_j, total.coverage_frac) == (10, 0.5)
    assert "1 of 2 not measured" in total.because


def test_nothing_measured_has_the_reasons_of_all_parts() -> None:
    """Each once, in their order; the words of a part without one are a reason too."""
    samples, meter = (EnergyReason(kind=kind) for kind in (EnergyLack.SAMPLES, EnergyLack.METER))
    nodes = [Energy.unknown_of_node(*each) for each in ((samples, meter), (meter,))]
    total = sum_of_boards([nodes[0], energy(None), nodes[1]])
    assert total.reasons == (samples, meter, EnergyReason(text="no driver"))


def test_sources_that_differ_are_mixed() -> None:
    """A sum of counters and integrals is mixed; a module's is wider than a GPU's."""
    other = energy(1, 1, source=EnergySource.INTEGRATED, scope="module")
    total = sum_of_boards([energy(1, 1), other])
    assert (total.source, total.scope) == (EnergySource.MIXED, "module")


def test_slurm_counts_whole_nodes() -> None:
    """A BMC's figure in Slurm's accounts is the nodes', without ±; RAPL's is the CPUs alone."""
    total = from_slurm(500.0, "acct_gather_energy/ipmi", is_exclusive=True)
    assert (total.value_j, total.plus_minus_j, total.scope) == (500.0, None, "node")
    assert "ipmi" in total.because
    assert from_slurm(500.0, "acct_gather_energy/rapl", is_exclusive=True).scope == "cpu"


@pytest.mark.parametrize(
    ("plugin", "is_exclusive"),
    [("acct_gather_energy/ipmi", False), ("acct_gather_energy/gpu", True), ("own", True)],
)
def test_slurms_figure_is_not_taken(plugin: str, is_exclusive: bool) -> None:
    """On shared nodes, and of a plugin of which it is not known what it counts, it is no figure."""
    assert from_slurm(500.0, plugin, is_exclusive=is_exclusive).value_j is None


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
    assert found.because == f"GPUs only; {lack}"
    nothing = cost(UNKNOWN, None)
    assert (nothing.is_of_gpus, nothing.because) == (False, nothing.lack)


def test_what_nobody_measured_has_no_cost() -> None:
    """Nor is a key of the site file to blame for that."""
    assert cost_of(UNKNOWN, UNKNOWN, EnergySite(pue=1.1)) == Cost()


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
    assert energy.because == "nothing to sum; Slurm records no energy here"
