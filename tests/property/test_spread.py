"""The intervals of a comparison cover the truth as often as they say, by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from hpckit.account.compare.compare import compared
from hpckit.account.compare.show import Verdict
from hpckit.account.compare.spread import Lack, spread_of
from tests.fakes.random_series import job_power
from tests.sizes import size, some

SEEDS = size(quick=150, whole=300)
CASES = [(4, False, 0.5), (4, True, 0.0), (8, False, 0.9), (4, False, 0.9), (4, True, 0.5),
         (8, False, 0.0), (4, False, 0.0), (8, False, 0.5), (4, True, 0.9)]  # fmt: skip


def _coverage(
    gpus: int, count: int, phi: float, *, same: bool, apart: float
) -> tuple[float, float]:
    """Shares of SEEDS whose interval holds the true difference, and that are called different."""
    covered = differs = told = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        boards = 10.0 * rng.standard_normal(gpus)
        others = boards if same else 10.0 * rng.standard_normal(gpus)
        a = spread_of(job_power(rng, boards, count, phi), same_boards=same)
        b = spread_of(job_power(rng, others, count, phi) + apart, same_boards=same)
        if isinstance(a, Lack) or isinstance(b, Lack):
            continue
        found = compared("power_w", a, b, "")
        assert found.difference is not None
        assert found.difference.low is not None
        assert found.difference.high is not None
        told += 1
        covered += found.difference.low <= apart <= found.difference.high
        differs += found.verdict is Verdict.DIFFERS
    assert told > SEEDS / 2
    return covered / told, differs / told


@pytest.mark.parametrize(("gpus", "same", "phi"), some(CASES, 2))
def test_intervals_cover_and_identical_jobs_do_not_differ(
    phi: float, gpus: int, *, same: bool
) -> None:
    """Of the pairs of identical jobs at least 93 % are covered, at most 7 % called different."""
    covered, differs = _coverage(gpus, 400, phi, same=same, apart=0.0)
    assert covered >= 0.93
    assert differs <= 0.07


def test_intervals_cover_a_real_difference() -> None:
    """Also where the jobs are 25 W apart, which is then mostly seen."""
    covered, differs = _coverage(4, 400, 0.7, same=True, apart=25.0)
    assert covered >= 0.93
    assert differs >= 0.95
