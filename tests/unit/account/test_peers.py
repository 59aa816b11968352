"""hpckit.account.stragglers: what is odd among alike, and what is scatter."""

from __future__ import annotations

import pytest

from hpckit.account.stragglers import Ordered, above


def test_one_above_equals() -> None:
    """One value well above equal others is odd, by its distance from them."""
    assert above({"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.5}, 0.1) == {"d": pytest.approx(0.5)}


def test_one_in_wide_scatter() -> None:
    """The largest of values that lie far apart is not odd."""
    scattered = dict(enumerate((0.1, 0.3, 0.5, 0.7, 0.9, 1.2)))
    assert above(scattered, 0.1) == {}


def test_below_the_floor() -> None:
    """A value that is odd by less than the floor is let be."""
    assert above({"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.05}, 0.1) == {}


def test_downwards() -> None:
    """A value below the others is not odd upwards."""
    assert above({"a": 1.0, "b": 1.0, "c": 1.0, "d": 0.2}, 0.1) == {}


def test_half_of_them() -> None:
    """Half may be odd, as the GPUs of a slow node are beside those of a fast one."""
    assert list(above({"a": 1.0, "b": 1.0, "c": 2.0, "d": 2.0}, 0.1)) == ["c", "d"]


def test_most_of_them() -> None:
    """Where most are above the rest nobody is odd upwards."""
    assert above({"a": 1.0, "b": 2.0, "c": 2.0, "d": 2.0}, 0.1) == {}


def test_alone() -> None:
    """One value has nobody to differ from."""
    assert (above({"a": 1.0}, 0.1), Ordered([1.0]).median_without(1.0)) == ({}, None)
