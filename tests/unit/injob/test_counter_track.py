"""Following a counter: when it is asked, and what is known of it at the end."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hpckit.injob.counter import NEVER_NS, AfterEnd, CounterTrack, readings_of, updates_of
from tests.fakes.sensors import late_by_chance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hpckit.injob.counter import Reading

MS = 1_000_000


class Ticking:
    """A counter that is renewed every `period_ms`, asked at `now_ns`."""

    def __init__(self, period_ms: int, phase_ms: int = 37, took_ms: int = 0) -> None:
        self.now_ns, self.asked = 0, 0
        self._took_ns = took_ms * MS
        self._period_ns, self._phase_ns = period_ms * MS, phase_ms * MS

    def quicken(self) -> None:
        """From now on the driver answers at once."""
        self._took_ns = 0

    def first(self) -> Reading:
        """What it says now."""
        value = (self.now_ns - self._phase_ns) // self._period_ns
        return {"uuid": "a", "monotonic_ns": self.now_ns, "energy_mj": value, "refused": None}

    def ask(self) -> tuple[Reading, int]:
        """What it says when the driver has it, stamped at the middle of the time that it took."""
        self.asked += 1
        begun_ns = self.now_ns
        self.now_ns += self._took_ns
        said = self.first()
        said["monotonic_ns"] = (begun_ns + self.now_ns) // 2
        return said, self._took_ns


def a_little(_due_ns: int) -> int:
    """How late questions are on an idle machine."""
    return 300_000


def followed(
    counter: Ticking, until_ms: int, late_ns: Callable[[int], int] = a_little
) -> CounterTrack:
    """A track that was polled when it asked to be, each time late by so much."""
    track = CounterTrack(counter.ask, counter.first())
    while (asked_ns := max(track.due_ns, counter.now_ns)) < until_ms * MS:
        counter.now_ns = asked_ns + late_ns(asked_ns)
        if counter.now_ns >= until_ms * MS:
            break
        track.poll()
    counter.now_ns = until_ms * MS
    return track


def updates(track: CounterTrack) -> list[Reading]:
    """The ledger's `updates` of a counter."""
    return updates_of(track.changes())


def moments_ms(readings: list[Reading]) -> list[int]:
    """When each was made."""
    return [reading["monotonic_ns"] // MS for reading in readings]


def by_chance(seed: int) -> Callable[[int], int]:
    """A machine on which one question in five comes late, by 15 ms in the mean."""
    rng = np.random.default_rng(seed)
    return lambda _: late_by_chance(rng)


def lives_ms(track: CounterTrack) -> list[tuple[float, float]]:
    """How long each number was read at least and at most, by what the ledger has of it."""
    read = sorted(
        (one["monotonic_ns"] / MS, one["energy_mj"] or 0)
        for one in (*updates(track), *readings_of(track.changes()))
    )
    changes = [(a[0], b[0]) for a, b in pairwise(read) if a[1] != b[1]]
    return [(end[0] - begin[1], end[1] - begin[0]) for begin, end in pairwise(changes)]


def test_the_start_of_the_command_is_left_in_peace() -> None:
    """In its first 15 ms, when ranks beside it start too, nothing is asked."""
    counter = Ticking(20)
    followed(counter, 15)
    assert counter.asked == 0


def test_changes_are_seen_soon() -> None:
    """Within 4 ms of the renewal; one is in the last tenth of a rank's time, and one look more."""
    changes = [update["monotonic_ns"] for update in updates(followed(Ticking(100), 5000))]
    assert all((at_ns - 37 * MS) % (100 * MS) <= 4 * MS for at_ns in changes)
    assert 5000 * MS - changes[-1] < 650 * MS


def test_a_counter_is_asked_rarely_once_it_is_known() -> None:
    """Twenty seconds take less than 400 questions."""
    counter = Ticking(100)
    followed(counter, 20_000)
    assert counter.asked < 400


def test_a_machine_that_is_busy_is_left_in_peace() -> None:
    """Where each question comes 3 ms late, ten a quarter of a second are asked, not forty."""
    counter = Ticking(10_000)
    followed(counter, 250, lambda _: 3 * MS)
    assert counter.asked <= 10


@pytest.mark.parametrize("period_ms", [20, 25, 100])
def test_what_is_kept_bounds_the_period_however_late_it_was_read(period_ms: int) -> None:
    """No number seems to have lived for longer or shorter than it did, and most are known well."""
    known = 0
    for seed in range(50):
        lives = lives_ms(followed(Ticking(period_ms), 2000, by_chance(seed)))
        assert all(least <= period_ms <= most for least, most in lives)
        known += any(most - least <= max(8, period_ms / 4) for least, most in lives)
    assert known >= 30


def test_what_is_kept_is_not_kept_twice() -> None:
    """A ledger has 28 updates and readings of a counter at most, each once."""
    for seed in range(20):
        track = followed(Ticking(20), 5000, by_chance(seed))
        kept = [*updates(track), *readings_of(track.changes())]
        assert len({one["monotonic_ns"] for one in kept}) == len(kept) <= 28


def test_the_age_at_the_end_is_known_between_changes_alone() -> None:
    """At a moment at which the counter may just have changed it is not."""
    track = followed(Ticking(100), 1080)
    assert track.knows(1080 * MS)
    assert not track.knows(1137 * MS)


@pytest.mark.parametrize("period_ms", [1, 10_000])
def test_a_counter_that_tells_nothing_is_given_up(period_ms: int) -> None:
    """Readings of one that always changes are never old; one that stands still is not awaited."""
    assert followed(Ticking(period_ms), 1000).due_ns == NEVER_NS


@pytest.mark.parametrize(
    ("asked_ms", "updates_ms", "readings_ms", "still_ms"),
    [
        # The first change is the one whose energy differs from the end's.
        (range(2, 40, 2), [38], [36], []),
        # One that was seen late is a reading, as is the last one before it.
        ((30, 50), [], [30, 50], []),
        # Without a change the last reading says for how long the end's number was there.
        ((10, 20), [], [], [20]),
    ],
)
def test_what_comes_after_the_end(
    asked_ms: Sequence[int], updates_ms: list[int], readings_ms: list[int], still_ms: list[int]
) -> None:
    """The counter is asked until it has changed."""
    counter = Ticking(100)
    after = AfterEnd(counter.ask, counter.first())
    for at_ms in asked_ms:
        counter.now_ns = at_ms * MS
        after.poll()
    changes = after.changes()
    assert after.is_done is bool(changes)
    found = (updates_of(changes), readings_of(changes), after.still())
    assert [moments_ms(readings) for readings in found] == [updates_ms, readings_ms, still_ms]


@pytest.mark.parametrize("took_ms", [3, 10, 100, 2000])
def test_a_slow_driver_is_left_in_peace(took_ms: int) -> None:
    """Of 20 s it is asked for little, and what it says tells no change."""
    counter = Ticking(25, took_ms=took_ms)
    track = followed(counter, 20_000)
    assert counter.asked <= 6
    assert track.changes() == []


def test_a_driver_that_was_slow_once_is_asked_again() -> None:
    """One slow answer costs the changes of a while, and makes no false ones."""
    counter = Ticking(100, took_ms=30)
    track = CounterTrack(counter.ask, counter.first())
    counter.now_ns = track.due_ns
    track.poll()
    counter.quicken()
    while track.due_ns < 3000 * MS:
        counter.now_ns = track.due_ns
        track.poll()
    assert len(updates(track)) >= 4
    assert all((one["monotonic_ns"] - 37 * MS) % (100 * MS) <= 4 * MS for one in updates(track))


def test_a_slow_driver_is_asked_once_after_the_end() -> None:
    """The end waits for one answer at most, which tells nothing."""
    counter = Ticking(25, took_ms=30)
    after = AfterEnd(counter.ask, counter.first())
    after.poll()
    assert (after.is_done, after.changes(), after.still()) == (True, [], [])
