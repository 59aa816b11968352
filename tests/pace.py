"""How slow this machine is just now, so that a test of what something costs holds on any."""

from __future__ import annotations

import time

ROUNDS = 200_000
USUAL_S = 0.010
"""CPU time of `ROUNDS` on the two cores of 2.5 GHz where the tests' limits were measured."""


def _spent_s() -> float:
    begun_s = time.process_time()
    total = 0
    for number in range(ROUNDS):
        total += number
    return time.process_time() - begun_s


def slowness() -> float:
    """How many times its usual time a fixed piece of work takes, at least 1.

    A neighbour on the same core, a lower clock or a heavy tracer make both it and what is tested
    slower; what grows faster than its input does not.
    """
    return max(1.0, sorted(_spent_s() for _ in range(5))[2] / USUAL_S)
