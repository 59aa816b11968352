"""When the sampler's ticks come, whatever the rate and however late each was."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hpckit.sampler.loop import Schedule

NS = 1_000_000_000


@given(
    period_ns=st.integers(NS // 100, 100 * NS),
    jitters=st.booleans(),
    late_ns=st.lists(st.integers(0, 3 * NS), min_size=1, max_size=60),
)
def test_ticks_are_in_the_future_and_one_a_period(
    period_ns: int, jitters: bool, late_ns: list[int]
) -> None:
    """Each tick is after now, in a later period than the last, and within two periods of now.

    Without jitter each is a whole number of periods after the begin.
    """
    schedule = Schedule(5 * NS, period_ns, jitters=jitters)
    now_ns = 5 * NS
    due = []
    for late in late_ns:
        due.append(schedule.next_ns(now_ns))
        assert now_ns < due[-1] <= now_ns + 2 * period_ns
        now_ns = due[-1] + late
    periods = [divmod(at_ns - 5 * NS, period_ns) for at_ns in due]
    assert all(earlier < later for (earlier, _), (later, _) in pairwise(periods))
    assert jitters or not any(rest_ns for _, rest_ns in periods)
