"""Ranks' shares of the energy of GPUs."""

from __future__ import annotations

import numpy as np
import pytest

from hpckit.account.energy import GpuEnergyFold
from hpckit.account.energy_sums import GpuEnergy, RankClaim, attribute, marks_of
from hpckit.account.samples import SampledGpu
from tests.fakes import sensors as fake
from tests.fakes.series import columns_of

WATTS = 100.0
WINDOW = (fake.moment_ns(0), fake.moment_ns(100))


def claim(
    rank: int, begin_s: float, end_s: float, *gpus: str, ended_by: str = "ledger"
) -> RankClaim:
    """A claim in seconds."""
    return RankClaim(
        rank=rank, gpus=gpus, started_ns=fake.moment_ns(begin_s), ended_ns=fake.moment_ns(end_s),
        ended_by=ended_by,
    )  # fmt: skip


def gpus_of(claims: list[RankClaim], *uuids: str) -> dict[str, GpuEnergy]:
    """GPUs at 100 W for 100 seconds."""
    at_s = np.arange(-5.0, 106.0)
    rows = fake.rows(None, (10**9 + 1000 * WATTS * at_s).astype(np.uint64))
    found = {}
    for uuid in uuids:
        gpu = SampledGpu(uuid=uuid, index=0, energy="counter", power="average")
        fold = GpuEnergyFold(gpu, [], marks_of(claims, WINDOW), period_s=1.0)
        fold.add(fake.times_ns(at_s), columns_of(rows))
        found[uuid] = fold.result()
    return found


def test_a_rank_has_the_energy_of_its_gpu_while_it_ran() -> None:
    """What is drawn before and behind it is the idle remainder."""
    claims = [claim(0, 20, 60, "a")]
    found = attribute(gpus_of(claims, "a"), claims, WINDOW)
    assert found.ranks[0].value_j == pytest.approx(4000, rel=1e-3)
    assert found.idle_remainder_j["a"] == pytest.approx(6000, rel=1e-3)


def test_ranks_on_one_gpu_share_the_time_that_they_share() -> None:
    """Two ranks at a time have half each, and say so."""
    claims = [claim(0, 0, 60, "a"), claim(1, 40, 100, "a")]
    found = attribute(gpus_of(claims, "a"), claims, WINDOW)
    assert [one.value_j for one in found.ranks] == pytest.approx([5000, 5000], rel=1e-3)
    assert "even share" in found.ranks[0].because


def test_a_rank_of_several_gpus_has_all_of_them() -> None:
    """The energies of a rank's GPUs add up, their ± as squares."""
    claims = [claim(0, 0, 100, "a", "b")]
    found = attribute(gpus_of(claims, "a", "b"), claims, WINDOW)
    (one,) = attribute(gpus_of(claims, "a"), [claim(0, 0, 100, "a")], WINDOW).ranks
    assert found.ranks[0].value_j == pytest.approx(20_000, rel=1e-3)
    assert found.ranks[0].plus_minus_j == pytest.approx(2**0.5 * (one.plus_minus_j or 0))


def test_a_gpu_that_nobody_measured_is_said() -> None:
    """A rank whose GPU is unknown has no value; of two its coverage is half."""
    claims = [claim(0, 0, 100, "x"), claim(1, 0, 100, "a", "x"), claim(2, 0, 100)]
    found = attribute(gpus_of(claims, "a"), claims, WINDOW).ranks
    assert found[0].value_j is None
    assert "no data on x" in found[0].because
    assert found[1].coverage_frac == pytest.approx(0.5)
    assert found[2].because == "the rank has no GPU"


def test_that_a_rank_was_killed_is_in_its_energy() -> None:
    """The reason beside the energy tells by what the end is known."""
    claims = [claim(0, 0, 50, "a", ended_by="sample")]
    assert "killed" in attribute(gpus_of(claims, "a"), claims, WINDOW).ranks[0].because
