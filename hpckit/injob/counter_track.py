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


NEVER_NS = 1 << 62
WATCHED_NS = 20_000_000_000
"""A rank that is longer has no need of it: a period of 100 ms is half a percent."""
AFTER_NS = 45_000_000
"""For how long a change is waited for after the end; the whole end may take 60 ms."""
AFTER_STEP_NS = 2_000_000

_SEEN_WITHIN_NS = 4_000_000  # docs/reference/account-files.md, `updates`
# Not rarer on a busy node either: a change that is missed makes a period look twice as long, and
# of a counter that is then early little is believed (tried: a rank in 40 was known to ± 1200 %).
_COARSE_NS = 3_000_000
_FINE_NS = 1_000_000
_LOOK_NS = 250_000_000
_UNSURE_NS = 2_000_000
_UNSURE_COARSE_NS = 5_000_000
_UNCLEAR_NS = 8_000_000
# Counters are written every 20 to 100 ms; one that changes more often is never old.
_LEAST_PERIOD_NS = 8_000_000
_REST_NS = 50_000_000
_REST_PART = 10
_MISSES = 3
_FIRST_KEPT = 4
_KEPT = 8


class CounterTrack:
    """One counter from the start of a rank on; `due_ns` is when it wants to be polled.

    First each change is looked for, every 3 ms; from the third on only where it is due, every ms,
    and the more rarely the longer the rank is: there is always one in the last tenth of its time.
    """

    def __init__(self, ask: Callable[[], Reading], first: Reading) -> None:
        """Follow what `ask` reads; `first` was read before."""
        self._ask = ask
        self._begun_ns = first["monotonic_ns"]
        self._last = first
        self._changes: list[Reading] = []
        self._period_ns = 0.0
        self._base_ns = 0
        self._periods = -1
        self._misses = 0
        self._is_fine = False
        self._step_ns, self._until_ns = _COARSE_NS, NEVER_NS
        self.due_ns = NEVER_NS
        if first["energy_mj"] is not None:
            self._look(self._begun_ns)

    def changes(self) -> list[Reading]:
        """The first changes and the last that were seen within 4 ms, in their order."""
        return list(self._changes)

    def poll(self) -> None:
        """Read, and decide when to read next."""
        before, now = self._last, self._ask()
        self._last = now
        now_ns = now["monotonic_ns"]
        if now["energy_mj"] is None:
            self.due_ns = NEVER_NS
            return
        is_changed = now["energy_mj"] != before["energy_mj"]
        if is_changed and now_ns - before["monotonic_ns"] <= _SEEN_WITHIN_NS:
            self._note(now)
        elif now_ns <= self._until_ns:
            self.due_ns = now_ns + self._step_ns
        elif self._is_fine:
            self._misses += 1
            self._look(now_ns)
        else:
            self.due_ns = NEVER_NS

    def knows(self, at_ns: int) -> bool:
        """Whether it is clear how old the counter is at a moment, with nothing more read."""
        if not self._is_fine or self._periods < 1:
            return False
        since_ns = (at_ns - self._changes[-1]["monotonic_ns"]) % self._period_ns
        return min(since_ns, self._period_ns - since_ns) > _UNCLEAR_NS

    def _look(self, now_ns: int) -> None:
        """Poll in coarse steps; give up for good when that was too often in vain."""
        self._is_fine, self._periods = False, -1
        self._step_ns, self._until_ns = _COARSE_NS, now_ns + _LOOK_NS
        self.due_ns = now_ns + _COARSE_NS if self._misses <= _MISSES else NEVER_NS

    def _note(self, change: Reading) -> None:
        now_ns = change["monotonic_ns"]
        before_ns = self._changes[-1]["monotonic_ns"] if self._changes else None
        self._changes.append(change)
        if len(self._changes) > _KEPT:
            del self._changes[_FIRST_KEPT]
        if before_ns is None:
            self._look(now_ns)
            return
        self._learn(now_ns, now_ns - before_ns)
        is_over = now_ns - self._begun_ns > WATCHED_NS or self._period_ns < _LEAST_PERIOD_NS
        if is_over:
            self.due_ns = NEVER_NS
        else:
            self._plan(now_ns)

    def _learn(self, now_ns: int, span_ns: int) -> None:
        """Two changes in a row are a period; later ones, seen within a ms, tell it better."""
        if not self._period_ns:
            self._period_ns = span_ns
        if self._periods >= 0:
            self._periods += max(1, round(span_ns / self._period_ns))
            self._period_ns = (now_ns - self._base_ns) / self._periods
        elif self._is_fine:
            self._base_ns, self._periods = now_ns, 0

    def _plan(self, now_ns: int) -> None:
        """Look for the next change where it is due."""
        skipped, unsure_ns = 1, _UNSURE_COARSE_NS
        if self._periods >= 1:
            rest_ns = max(_REST_NS, (now_ns - self._begun_ns) // _REST_PART)
            skipped = max(1, int(rest_ns / self._period_ns))
            unsure_ns = _UNSURE_NS + skipped * _FINE_NS // self._periods
        next_ns = now_ns + round(skipped * self._period_ns)
        self._is_fine, self._step_ns = True, _FINE_NS
        self.due_ns, self._until_ns = next_ns - unsure_ns, next_ns + unsure_ns


class AfterEnd:
    """What a counter does after the end: changed when, or still the same when last read."""

    def __init__(self, ask: Callable[[], Reading], last: Reading) -> None:
        """`last` is the reading at the end."""
        self._ask, self._last = ask, last
        self.found: Reading | None = None
        self.is_done = last["energy_mj"] is None

    def poll(self) -> None:
        """Read once more."""
        now = self._ask()
        if now["energy_mj"] is None:
            self.is_done = True
            return
        self.found = now
        self.is_done = now["energy_mj"] != self._last["energy_mj"]
