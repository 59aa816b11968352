"""Following a counter: when it is asked, and what is known of it at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpckit.injob.counter_track import NEVER_NS, AfterEnd, CounterTrack

if TYPE_CHECKING:
    from hpckit.injob.counter_track import Reading

MS = 1_000_000


class Ticking:
    """A counter that is renewed every `period_ms`, asked at `now_ns`."""

    def __init__(self, period_ms: int, phase_ms: int = 37) -> None:
        self.now_ns, self.asked = 0, 0
        self._period_ns, self._phase_ns = period_ms * MS, phase_ms * MS

    def ask(self) -> Reading:
        """What it says now."""
        self.asked += 1
        value = (self.now_ns - self._phase_ns) // self._period_ns
        return {"uuid": "a", "monotonic_ns": self.now_ns, "energy_mj": value, "refused": None}


def followed(counter: Ticking, until_ms: int, late_ns: int = 300_000) -> CounterTrack:
    """A track that was polled when it asked to be, each time a little late."""
    track = CounterTrack(counter.ask, counter.ask())
    while track.due_ns + late_ns < until_ms * MS:
        counter.now_ns = max(track.due_ns, counter.now_ns) + late_ns
        track.poll()
    counter.now_ns = until_ms * MS
    return track


def test_changes_are_seen_soon() -> None:
    """Each change is noted within 4 ms of the renewal."""
    changes = followed(Ticking(100), 5000).changes()
    assert all((one["monotonic_ns"] - 37 * MS) % (100 * MS) <= 4 * MS for one in changes)


def test_the_last_change_is_not_long_ago() -> None:
    """In the last tenth of a rank's time, and one look more, there is a change that was seen."""
    track = followed(Ticking(100), 5000)
    assert 5000 * MS - track.changes()[-1]["monotonic_ns"] < 650 * MS


def test_a_counter_is_asked_rarely_once_it_is_known() -> None:
    """Twenty seconds take less than 400 questions."""
    counter = Ticking(100)
    followed(counter, 20_000)
    assert counter.asked < 400


def test_the_age_at_the_end_is_known_between_changes_alone() -> None:
    """At a moment at which the counter may just have changed it is not."""
    track = followed(Ticking(100), 1080)
    assert track.knows(1080 * MS)
    assert not track.knows(1137 * MS)


def test_a_counter_that_stands_still_is_given_up() -> None:
    """After a quarter of a second it is not asked any more."""
    assert followed(Ticking(10_000), 1000).due_ns == NEVER_NS


def test_a_counter_that_always_changes_is_given_up() -> None:
    """Its readings are never old."""
    assert followed(Ticking(1), 1000).due_ns == NEVER_NS


def test_the_first_change_after_the_end_is_found() -> None:
    """It is the one whose energy differs from the end's."""
    counter = Ticking(100)
    after = AfterEnd(counter.ask, counter.ask())
    while not after.is_done:
        counter.now_ns += 2 * MS
        after.poll()
    assert after.found is not None
    assert after.found["monotonic_ns"] == 38 * MS
