"""When an energy counter changes: looked for often where a change is due, and hardly else."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypedDict

    class Reading(TypedDict):
        """A reading as the ledger has it."""

        uuid: str
        monotonic_ns: int
        energy_mj: int | None
        refused: str | None

    Ask = Callable[[], tuple[Reading, int]]
    """A reading, and how many ns the driver took for it."""
    Change = tuple[Reading, Reading]
    """The last reading with one number, and the first with another."""


NEVER_NS = 1 << 62
WATCHED_NS = 20_000_000_000
"""A rank that is longer has no need of it: a period of 100 ms is half a percent."""
AFTER_NS = 45_000_000
"""For how long a change is waited for after the end; the whole end may take 60 ms."""
AFTER_STEP_NS = 2_000_000

_SEEN_WITHIN_NS = 4_000_000  # docs/reference/account-files.md, `updates`
_NEARLY_WITHIN_NS = 30_000_000
_COARSE_NS = 3_000_000
_FINE_NS = 1_000_000
_LOOK_NS = 250_000_000
# Where other processes have the CPU, as when many ranks start at once, questions are best left:
# they come late, and take it from those.
_LATE_NS = 2_000_000
_CROWDED_NS = 25_000_000
_START_NS = 15_000_000
# What a driver took longer for may be of any moment of that time; one that does so has other work.
_SLOW_NS = 2_000_000
_SLOW_PARTS = 20
_MOST_SLOW = 5
_UNSURE_NS = 2_000_000
_UNSURE_COARSE_NS = 5_000_000
_UNCLEAR_NS = 8_000_000
# Counters are written every 20 to 100 ms; one that changes more often is never old.
_LEAST_PERIOD_NS = 8_000_000
_REST_NS = 50_000_000
_REST_PART = 10
_MISSES_IN_PHASE = 3
_MISSES = 6
_KEPT = 4
_KEPT_LOOSE = 2


class Lives:
    """How long numbers of a counter lived: a number that was seen lives one period.

    That holds however late it was read: numbers in between that nobody saw have lives of their own.
    """

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.most_ns = NEVER_NS
        self.best: list[Change] = []
        self._born: Change | None = None
        self._bounds_ns = (0, NEVER_NS)

    def add(self, change: Change) -> None:
        """One number ends, and the next one begins."""
        born, self._born = self._born, change
        if born is None:
            return
        least_ns = change[0]["monotonic_ns"] - born[1]["monotonic_ns"]
        most_ns = change[1]["monotonic_ns"] - born[0]["monotonic_ns"]
        self.most_ns = min(self.most_ns, most_ns)
        if most_ns - least_ns < self._bounds_ns[1] - self._bounds_ns[0]:
            self._bounds_ns, self.best = (least_ns, most_ns), [born, change]

    def period_ns(self) -> float:
        """The period, 0 where no life was seen well enough."""
        least_ns, most_ns = self._bounds_ns
        is_clear = most_ns - least_ns <= 2 * _SEEN_WITHIN_NS and least_ns > most_ns - least_ns
        return (least_ns + most_ns) / 2 if is_clear else 0.0


class Kept:
    """The changes that a ledger has: the first and the last that were seen in time, or nearly."""

    def __init__(self) -> None:
        """None yet."""
        self._tight: list[Change] = []
        self._loose: list[Change] = []

    def add(self, change: Change) -> None:
        """Keep it if it tells anything."""
        width_ns = width(change)
        if width_ns <= _SEEN_WITHIN_NS:
            self._tight.append(change)
            del self._tight[_KEPT:-_KEPT]
        elif width_ns <= _NEARLY_WITHIN_NS:
            self._loose.append(change)
            del self._loose[_KEPT_LOOSE:-_KEPT_LOOSE]

    def with_also(self, more: list[Change]) -> list[Change]:
        """These and others, in order of time."""
        found = [*self._tight, *self._loose]
        found += [one for one in more if one not in found]
        return sorted(found, key=_seen_ns)


class CounterTrack:
    """One counter from the start of a rank on; `due_ns` is when it wants to be polled.

    First each change is looked for, every 3 ms, until one number was seen from its first moment to
    its last; from then on only where a change is due, every ms, and the more rarely the longer the
    rank is: there is always one in the last tenth of its time.
    """

    def __init__(self, ask: Ask, first: Reading) -> None:
        """Follow what `ask` reads; `first` was read before."""
        self._ask = ask
        self._begun_ns = first["monotonic_ns"]
        self._last = first
        self._lives, self._kept = Lives(), Kept()
        self._noted_ns = 0
        self._period_ns = 0.0
        self._base_ns = 0
        self._periods = -1
        self._misses, self._slow = 0, 0
        self._is_fine = False
        self._step_ns, self._until_ns = _COARSE_NS, NEVER_NS
        self.due_ns = NEVER_NS
        if first["energy_mj"] is not None:
            self._look(self._begun_ns)
            # The command starts in these ms, and those of other ranks: the CPU is theirs.
            self.due_ns += _START_NS

    def changes(self) -> list[Change]:
        """The first ones, the last ones, and those that tell the period."""
        return self._kept.with_also(self._lives.best)

    def poll(self) -> None:
        """Read, and decide when to read next."""
        now, took_ns = self._ask()
        now_ns = now["monotonic_ns"]
        if now["energy_mj"] is None:
            self.due_ns = NEVER_NS
        elif took_ns > _SLOW_NS:
            self._leave(now_ns + took_ns // 2, took_ns)
        else:
            self._take(now)

    def _leave(self, now_ns: int, took_ns: int) -> None:
        """Ask a driver that was slow much later, and not too often."""
        self._slow += 1
        rest_ns = max(_CROWDED_NS, _SLOW_PARTS * took_ns)
        self._until_ns += took_ns + rest_ns
        self.due_ns = now_ns + rest_ns if self._slow <= _MOST_SLOW else NEVER_NS

    def _take(self, now: Reading) -> None:
        before, self._last, now_ns = self._last, now, now["monotonic_ns"]
        is_changed = now["energy_mj"] != before["energy_mj"]
        if is_changed:
            self._lives.add((before, now))
            self._kept.add((before, now))
            if not self._is_fine:
                self._until_ns = min(now_ns + _LOOK_NS, self._begun_ns + WATCHED_NS)
        if is_changed and now_ns - before["monotonic_ns"] <= _SEEN_WITHIN_NS:
            self._note(now_ns)
        elif now_ns <= self._until_ns:
            self._step(now_ns)
        elif self._is_fine:
            self._miss(now_ns)
        else:
            self.due_ns = NEVER_NS

    def knows(self, at_ns: int) -> bool:
        """Whether it is clear how old the counter is at a moment, with nothing more read."""
        if not self._is_fine or self._periods < 1:
            return False
        since_ns = (at_ns - self._noted_ns) % self._period_ns
        return min(since_ns, self._period_ns - since_ns) > _UNCLEAR_NS

    def _step(self, now_ns: int) -> None:
        """Poll again soon; where polls come late, not so soon, but as often."""
        late_ns, pause_ns = now_ns - self.due_ns, 0
        if late_ns > _LATE_NS and not self._is_fine:
            pause_ns = _CROWDED_NS
            self._until_ns += late_ns + pause_ns
        self.due_ns = now_ns + pause_ns + self._step_ns

    def _miss(self, now_ns: int) -> None:
        """A change that was due was not seen in time: look for the next, or for any."""
        self._misses += 1
        if self._periods >= 1 and self._misses <= _MISSES_IN_PHASE:
            self._plan(now_ns)
        else:
            self._look(now_ns)

    def _look(self, now_ns: int) -> None:
        """Poll in coarse steps; give up for good when that was too often in vain."""
        self._is_fine, self._periods = False, -1
        self._step_ns, self._until_ns = _COARSE_NS, now_ns + _LOOK_NS
        self.due_ns = now_ns + _COARSE_NS if self._misses <= _MISSES else NEVER_NS

    def _note(self, now_ns: int) -> None:
        """Take a change that was seen in time."""
        span_ns, self._noted_ns = now_ns - self._noted_ns, now_ns
        if self._is_fine:
            self._misses = 0
            self._learn(now_ns, span_ns)
        elif not self._period_ns:
            self._period_ns = self._lives.period_ns()
        if now_ns - self._begun_ns > WATCHED_NS or self._lives.most_ns < _LEAST_PERIOD_NS:
            self.due_ns = NEVER_NS
        elif self._period_ns:
            self._plan(now_ns)
        else:
            self._look(now_ns)

    def _learn(self, now_ns: int, span_ns: int) -> None:
        """Changes some periods apart, each seen within a ms, tell the period better."""
        if self._periods >= 0:
            self._periods += max(1, round(span_ns / self._period_ns))
            self._period_ns = (now_ns - self._base_ns) / self._periods
        else:
            self._base_ns, self._periods = now_ns, 0

    def _plan(self, now_ns: int) -> None:
        """Look for the next change where it is due."""
        skipped, unsure_ns = 1, _UNSURE_COARSE_NS
        if self._periods >= 1:
            rest_ns = max(_REST_NS, (now_ns - self._begun_ns) // _REST_PART)
            skipped = 1 if self._misses else max(1, int(rest_ns / self._period_ns))
            skipped += round((now_ns - self._noted_ns) / self._period_ns)
            unsure_ns = _UNSURE_NS + skipped * _FINE_NS // self._periods
        next_ns = self._noted_ns + round(skipped * self._period_ns)
        self._is_fine, self._step_ns = True, _FINE_NS
        self.due_ns, self._until_ns = next_ns - unsure_ns, next_ns + unsure_ns


class AfterEnd:
    """What a counter does after the end: changed when, or still the same when last read."""

    def __init__(self, ask: Ask, last: Reading) -> None:
        """`last` is the reading at the end."""
        self._ask, self._last, self._before = ask, last, last
        self._found: Reading | None = None
        self.is_done = last["energy_mj"] is None

    def poll(self) -> None:
        """Read once more; a slow driver is not asked again."""
        now, took_ns = self._ask()
        if now["energy_mj"] is None or took_ns > _SLOW_NS:
            self.is_done = True
            return
        self.is_done = now["energy_mj"] != self._before["energy_mj"]
        if self.is_done:
            self._found = now
        else:
            self._before = now

    def changes(self) -> list[Change]:
        """The first change, if it was seen."""
        return [] if self._found is None else [(self._before, self._found)]

    def still(self) -> list[Reading]:
        """What was read last with the number of the end, where no change was seen."""
        is_more = self._found is None and self._before is not self._last
        return [self._before] if is_more else []


def width(change: Change) -> int:
    """How late a change may have been seen, in ns."""
    return change[1]["monotonic_ns"] - change[0]["monotonic_ns"]


def updates_of(changes: list[Change]) -> list[Reading]:
    """The ledger's `updates` of some changes."""
    return [change[1] for change in changes if width(change) <= _SEEN_WITHIN_NS]


def readings_of(changes: list[Change]) -> list[Reading]:
    """The ledger's `readings` of some changes; none is there twice."""
    updates, found = updates_of(changes), []
    for change in changes:
        found += [one for one in change if one not in updates and one not in found]
    return found


def _seen_ns(change: Change) -> int:
    return change[1]["monotonic_ns"]
