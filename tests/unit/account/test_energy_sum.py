"""Sums of energies, and those that no driver told."""

from __future__ import annotations

import pytest

from hpckit.account.gpu_energy import Part, from_slurm, sum_of_boards, sum_of_parts
from hpckit.account.values import Energy, EnergyLack, EnergyReason, EnergySource


def energy(value_j: float | None, half_j: float | None = None, **more: object) -> Energy:
    """A counter's energy, or none."""
    fields: dict[str, object] = {"source": EnergySource.COUNTER, "coverage_frac": 1.0, **more}
    if value_j is None:
        return Energy(value_j=None, because="no driver")
    return Energy(value_j=value_j, plus_minus_j=half_j, **fields)  # type: ignore[arg-type]


def test_boards_are_independent() -> None:
    """The ± of different boards add as squares."""
    total = sum_of_boards([energy(10, 3), energy(20, 4)])
    assert [total.value_j, total.plus_minus_j] == pytest.approx([30, 5])


def test_a_board_that_comes_again_is_off_by_the_same() -> None:
    """The ± of one board's times add up, those of boards as squares."""
    parts = [Part(energy(10, 1), "a"), Part(energy(10, 2), "a"), Part(energy(20, 4), "b")]
    assert sum_of_parts(parts).plus_minus_j == pytest.approx(5)


def test_what_no_sensor_sees_adds_up_over_boards() -> None:
    """Boards that step together hide the same: that part of ± does not shrink in a sum."""
    total = sum_of_boards([energy(10, 3 + 2, unseen_j=2), energy(20, 4 + 1, unseen_j=1)])
    assert (total.plus_minus_j, total.unseen_j) == pytest.approx((5 + 3, 3))


def test_a_sum_of_what_is_not_known_how_well_has_no_interval() -> None:
    """A part that has a value and no ± leaves the sum without one."""
    assert sum_of_boards([energy(10, 3), energy(20)]).plus_minus_j is None


def test_coverage_is_of_the_time() -> None:
    """A minute that was measured beside three that were not is a quarter, not a half."""
    total = sum_of_parts([Part(energy(10, 3), "a", 60.0), Part(energy(None), "a", 180.0)])
    assert total.coverage_frac == pytest.approx(0.25)


def test_coverage_of_no_time_is_that_of_the_parts() -> None:
    """Where no part lasted, they count alike."""
    total = sum_of_parts([Part(energy(10, 3), "a", 0.0), Part(energy(None), "b", 0.0)])
    assert total.coverage_frac == 0.5


def test_notes_of_all_parts_are_kept() -> None:
    """What a later part says of itself is said of the sum, once."""
    notes = ("the counter", "the counter; 1 reset", "the counter; of the whole GPU")
    total = sum_of_boards([energy(1, 1, because=note) for note in notes])
    assert total.because == "the counter; 1 reset; of the whole GPU"


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
    assert "1 of 2 are not measured" in total.because


def test_nothing_measured_has_no_value() -> None:
    """A sum of nothing is None with the parts' reason."""
    assert sum_of_boards([energy(None)]).value_j is None
    assert sum_of_boards([energy(None)]).because == "no driver"
    assert sum_of_boards([]).because


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
    """A BMC's figure in Slurm's accounts is the nodes', by the plugin that it names, without ±."""
    total = from_slurm(500.0, "acct_gather_energy/ipmi", is_exclusive=True)
    assert (total.value_j, total.plus_minus_j, total.scope) == (500.0, None, "node")
    assert "ipmi" in total.because


def test_slurms_rapl_is_the_cpus_alone() -> None:
    """RAPL's figure in Slurm's accounts has no GPU in it."""
    assert from_slurm(500.0, "acct_gather_energy/rapl", is_exclusive=True).scope == "cpu"


@pytest.mark.parametrize(
    ("plugin", "is_exclusive"),
    [("acct_gather_energy/ipmi", False), ("acct_gather_energy/gpu", True), ("own", True)],
)
def test_slurms_figure_is_not_taken(plugin: str, is_exclusive: bool) -> None:
    """On shared nodes, and of a plugin of which it is not known what it counts, it is no figure."""
    assert from_slurm(500.0, plugin, is_exclusive=is_exclusive).value_j is None
