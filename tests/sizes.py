"""How much of a statistical suite is run: a quick size, or the whole of it in `make faults`.

The hypothesis profile says which: `dev` draws the same examples in every run, `faults`
draws new ones.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import HealthCheck, settings

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "dev")
IS_WHOLE = PROFILE == "faults"
T = TypeVar("T")

settings.register_profile(
    "dev",
    deadline=None,
    derandomize=True,
    max_examples=30,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine is no finding
)
settings.register_profile(
    "faults", settings.get_profile("dev"), derandomize=False, max_examples=1000
)


def size(*, quick: int, whole: int) -> int:
    """Return how many of something this run takes."""
    return whole if IS_WHOLE else quick


def some(values: Sequence[T], quick: int) -> Sequence[T]:
    """Return all values in a whole run, else so many of them from first to last."""
    if IS_WHOLE or quick >= len(values):
        return values
    return [values[at * (len(values) - 1) // max(1, quick - 1)] for at in range(quick)]


def costly(share: float) -> settings:
    """Return the settings of a property whose examples are slow: this share of the profile's."""
    return settings(max_examples=max(1, round(settings().max_examples * share)))
