"""A rank's GPUs and their energy counters, asked in a thread: a driver may be slow, or hang."""

from __future__ import annotations

import _thread
import signal
import time

from hpckit.injob.counter_track import (
    AFTER_NS,
    AFTER_STEP_NS,
    NEVER_NS,
    WATCHED_NS,
    AfterEnd,
    CounterTrack,
    readings_of,
    updates_of,
)
from hpckit.injob.gpu_claim import Claim, claim, may_have_gpus, visible_devices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from hpckit.injob.counter_track import Ask, Reading
    from hpckit.injob.identity import Identity

    Find = Callable[[str | None], tuple[list["Gpu"], str | None]]

    class Gpu(Protocol):
        """A GPU whose counter can be read; Refused, OSError and ValueError say that it cannot."""

        uuid: str

        def energy_mj(self) -> int:
            """Millijoules of the counter."""
            ...


START_LIMIT_S = 1.0
"""How long the start of the command waits for the driver, at most."""
END_LIMIT_S = 1.0

# What watching may cost in CPU time: the first changes of a counter take some 60 questions of
# 0.1 ms (with the thread's waking), and from then on half a percent.
_CPU_PART = 200
_CPU_NS = 12_000_000
_NS_A_MS = 1e6
_NS_A_S = 1e9


class Refused(Exception):
    """Why the driver tells nothing: an error of nvml.h in pynvml's spelling."""


class GpuWatch:
    """The thread that asks: once at the start, then for changes, and at the end.

    What a driver has not answered in time is late, and said to be.
    """

    def __init__(self, find: Find, env: dict[str, str], identity: Identity) -> None:
        """Start to ask.

        `find` takes what narrows down the GPUs (`visible_devices`), and gives those that this
        process may open and the same text with slices as the GPUs they are of. It may raise
        Refused.
        """
        self._find = find
        self._env = env
        self._identity = identity
        self._started = _thread.allocate_lock()
        self._ending = _thread.allocate_lock()
        self._ended = _thread.allocate_lock()
        for lock in (self._started, self._ending, self._ended):
            lock.acquire()
        self._claim = Claim("none", [])
        self._mine: list[Gpu] = []
        self._is_late = False
        self._refused: str | None = None
        self._init_ms: float | None = None
        self._first: list[Reading] = []
        self._tracks: list[CounterTrack] = []
        self._last: list[Reading] = []
        self._after: list[AfterEnd] = []
        self._deadline_s = time.monotonic() + START_LIMIT_S
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:
            self._refused = "no thread"
            self._started.release()
            self._ended.release()

    def first(self) -> dict[str, object]:
        """What the ledger's first line says of GPUs; waits for the driver up to the limit."""
        left_s = max(0.0, self._deadline_s - time.monotonic())
        self._is_late = not self._started.acquire(timeout=left_s)
        if self._is_late:
            return {"claim": "none", "gpus": [], "nvml_init_ms": None, "nvml_refused": "late"}
        return {
            "claim": self._claim.why,
            "gpus": self._first,
            "nvml_init_ms": self._init_ms,
            "nvml_refused": self._refused,
        }

    def last(self) -> dict[str, object]:
        """What the last line says: the counters at this moment, and their changes around it."""
        self._ending.release()
        if self._is_late and not self._started.acquire(blocking=False):
            return {"gpus": [], "updates": [], "readings": []}
        is_late = not self._ended.acquire(timeout=END_LIMIT_S)
        gpus, now_ns = list(self._last), time.monotonic_ns()
        gpus += [_reading(gpu.uuid, now_ns, None, "late") for gpu in self._mine[len(gpus) :]]
        after = [] if is_late else self._after
        # Each asked once: a thread that is late may still find more.
        seen = [one.changes() for one in self._tracks] + [one.changes() for one in after]
        readings = [
            *(self._first if self._is_late else []),
            *(one for changes in seen for one in readings_of(changes)),
            *(one for part in after for one in part.still()),
        ]
        return {
            "gpus": gpus,
            "updates": [one for changes in seen for one in updates_of(changes)],
            "readings": [one for one in readings if one not in gpus],
        }

    def _run(self) -> None:
        # Signals are the main thread's, which has a handler and a pipe for them.
        signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
        begun_ns = time.monotonic_ns()
        if may_have_gpus(self._env):
            self._take_mine(begun_ns)
        self._first = [read(gpu) for gpu in self._mine]
        self._tracks = [
            CounterTrack(_asking(gpu), first)
            for gpu, first in zip(self._mine, self._first, strict=True)
        ]
        self._started.release()
        if not self._watch():
            self._ending.acquire()
        for gpu in self._mine:
            self._last.append(read(gpu))  # one by one: the next may never answer
        if time.monotonic_ns() - begun_ns < WATCHED_NS:
            self._look_after()
        self._ended.release()

    def _take_mine(self, begun_ns: int) -> None:
        try:
            found, visible = self._find(visible_devices(self._env))
            self._init_ms = round((time.monotonic_ns() - begun_ns) / _NS_A_MS, 3)
            uuids = [gpu.uuid for gpu in found]
            self._claim = claim(uuids, visible, self._env, self._identity)
            self._mine = [found[place] for place in self._claim.places]
        except Refused as error:
            self._refused = str(error)

    def _watch(self) -> bool:
        """Look for the counters' changes; True when the end comes before that is done."""
        begun_ns, used_ns = time.monotonic_ns(), time.thread_time_ns()
        while True:
            # One at a time: the end is not to wait for as many answers as there are GPUs.
            track = min(self._tracks, key=_due_ns, default=None)
            due_ns = NEVER_NS if track is None else track.due_ns
            now_ns = time.monotonic_ns()
            spent_ns = time.thread_time_ns() - used_ns
            is_enough = spent_ns > _CPU_NS + (now_ns - begun_ns) // _CPU_PART
            if track is None or due_ns == NEVER_NS or is_enough:
                return False
            if self._ending.acquire(timeout=max(0, due_ns - now_ns) / _NS_A_S):
                return True
            track.poll()

    def _look_after(self) -> None:
        """Where it is not clear how old the last readings are: wait for the next change."""
        asked = [
            AfterEnd(_asking(gpu), last)
            for gpu, track, last in zip(self._mine, self._tracks, self._last, strict=True)
            if not track.knows(last["monotonic_ns"])
        ]
        until_ns = time.monotonic_ns() + AFTER_NS - AFTER_STEP_NS
        while not all(one.is_done for one in asked) and time.monotonic_ns() < until_ns:
            time.sleep(AFTER_STEP_NS / _NS_A_S)
            for one in asked:
                if not one.is_done and time.monotonic_ns() < until_ns:
                    one.poll()
        self._after = asked


def _due_ns(track: CounterTrack) -> int:
    return track.due_ns


def _asking(gpu: Gpu) -> Ask:
    return lambda: _timed(gpu)


def read(gpu: Gpu) -> Reading:
    """One reading of a counter, at the middle of the time that it took."""
    return _timed(gpu)[0]


def _timed(gpu: Gpu) -> tuple[Reading, int]:
    before_ns = time.monotonic_ns()
    energy_mj, refused = None, None
    try:
        energy_mj = gpu.energy_mj()
    except Refused as error:
        refused = str(error)
    except (OSError, ValueError) as error:
        refused = getattr(error, "strerror", None) or str(error)
    took_ns = time.monotonic_ns() - before_ns
    return _reading(gpu.uuid, before_ns + took_ns // 2, energy_mj, refused), took_ns


def _reading(uuid: str, at_ns: int, energy_mj: int | None, refused: str | None) -> Reading:
    return {"uuid": uuid, "monotonic_ns": at_ns, "energy_mj": energy_mj, "refused": refused}
