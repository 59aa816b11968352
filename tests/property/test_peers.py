"""hpckit.account.stragglers against the definitions: medians of the others, one by one."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpckit.account.stragglers import SIGMA_OF_MAD, Ordered

VALUES = st.lists(st.floats(0, 1e6) | st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=30)


@given(VALUES)
def test_what_is_usual_among_the_others(values: list[float]) -> None:
    """Median and scatter without a value are those of the list from which it was taken."""
    ordered = Ordered(values)
    for at, value in enumerate(values):
        others = values[:at] + values[at + 1 :]
        middle = statistics.median(others)
        deviation = statistics.median(abs(one - middle) for one in others)
        assert ordered.median_without(value) == pytest.approx(middle)
        scatter = ordered.scatter_without(value, middle)
        assert scatter == pytest.approx(SIGMA_OF_MAD * deviation)


@given(VALUES)
def test_a_value_that_is_not_there_leaves_all(values: list[float]) -> None:
    """Of a GPU without the measure the others are all that have it."""
    assert Ordered(values).median_without(None) == pytest.approx(statistics.median(values))
