"""What holds of the CPUs that are enough, whatever was busy when."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hpckit.account.host import LONGER_FRAC, CpuNeed

_BUSY = st.lists(st.floats(0.01, 128), min_size=1, max_size=50)


@given(busy=_BUSY)
def test_the_run_is_as_much_longer_as_it_may_be(busy: list[float]) -> None:
    """On so many CPUs the run is 1 % longer at most, and on a little fewer it is more."""
    need = CpuNeed()
    values = np.cumsum([0, *(round(one * 5e6) for one in busy)]).astype(np.uint64)
    need.add(np.arange(len(values), dtype=np.int64) * 5 * 10**9, values)
    enough = need.enough()
    assert enough is not None
    assume(enough > 0.02)

    def longer(cpus: float) -> float:
        return float(np.mean([max(one / cpus - 1, 0.0) for one in busy]))

    assert longer(enough) == pytest.approx(LONGER_FRAC, rel=1e-3)
    assert longer(enough * 0.99) > LONGER_FRAC
