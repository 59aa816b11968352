"""hpckit.account.stragglers: what is odd among alike, and what is scatter."""

from __future__ import annotations

import pytest

from hpckit.account.stragglers import Ordered, above


@pytest.mark.parametrize(
    ("values", "odd"),
    [
        ((1.0, 1.0, 1.0, 1.5), {3: 0.5}),
        ((0.1, 0.3, 0.5, 0.7, 0.9, 1.2), {}),  # the largest of values that lie far apart
        ((1.0, 1.0, 1.0, 1.05), {}),  # below the floor
        ((1.0, 1.0, 1.0, 0.2), {}),  # downwards
        ((1.0, 1.0, 2.0, 2.0), {2: 1.0, 3: 1.0}),  # as the GPUs of a slow node
        ((1.0, 2.0, 2.0, 2.0), {}),  # of most of them nobody is odd
        ((1.0,), {}),
    ],
)
def test_what_is_odd_upwards(values: tuple[float, ...], odd: dict[int, float]) -> None:
    """A value well above the others, by its distance from them; one alone has no others."""
    assert above(dict(enumerate(values)), 0.1) == pytest.approx(odd)
    assert Ordered([1.0]).median_without(1.0) is None
