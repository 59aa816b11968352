"""A rank's GPUs: which are its own, and when their energy counters change.

A thread asks, as a driver may be slow, or hang; often where a change is due, and hardly else.
"""

from __future__ import annotations

import _thread
import time

from hpckit.sampler.gpus import NvmlRefused, visible_places

TYPE_CHECKING = False


if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from typing import Protocol, TypedDict

    from hpckit.core.identity import Identity
    from hpckit.sampler.gpus import ParentOf

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
    Find = Callable[[], tuple[list["Gpu"], ParentOf]]
    """The GPUs that this process may open, and what tells of which a slice is one.

    It may raise NvmlRefused.
    """

    class Gpu(Protocol):
        """A GPU with a counter; NvmlRefused, OSError and ValueError say that it cannot be read."""

        uuid: str

        def energy_mj(self) -> int:
            """Millijoules of the counter."""
else:
    import _signal as signal  # the module signal loads enum: 2 ms of each rank


START_LIMIT_S = 1.0
"""How long the start of the command waits for the driver, at most."""
END_LIMIT_S = 1.0

# What watching may cost in CPU time: the first changes of a counter take some 60 questions of
# 0.1 ms (with the thread's waking), and from then on half a percent.
_CPU_PART = 200
_CPU_NS = 12_000_000
_NS_A_S = 1e9

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

_VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
_SLURMS = (
    "SLURM_STEP_GPUS",
    "SLURM_JOB_GPUS",
    "SLURM_GPUS_ON_NODE",
    "SLURM_GPUS",
    "SLURM_GPUS_PER_NODE",
    "SLURM_GPUS_PER_SOCKET",
    "SLURM_GPUS_PER_TASK",
)


class GpuWatch:
    """The thread that asks: once at the start, then for changes, and at the end.

    What a driver has not answered in time is late, and said to be.
    """

    def __init__(self, find: Find, env: dict[str, str], identity: Identity) -> None:
        self._find = find
        self._env = env
        self._identity = identity
        self._started = _thread.allocate_lock()
        self._ending = _thread.allocate_lock()
        self._ended = _thread.allocate_lock()
        for lock in (self._started, self._ending, self._ended):
            lock.acquire()
        self._claim = "none"
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
            "claim": self._claim,
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
        seen = [track.changes() for track in self._tracks] + [end.changes() for end in after]
        readings = [
            *(self._first if self._is_late else []),
            *(reading for changes in seen for reading in readings_of(changes)),
            *(reading for track in after for reading in track.still()),
        ]
        return {
            "gpus": gpus,
            "updates": [reading for changes in seen for reading in updates_of(changes)],
            "readings": [reading for reading in readings if reading not in gpus],
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
            found, parent_of = self._find()
            self._init_ms = round((time.monotonic_ns() - begun_ns) / 1e6, 3)
            uuids = [gpu.uuid for gpu in found]
            self._claim, places = claim(uuids, parent_of, self._env, self._identity)
            self._mine = [found[place] for place in places]
        except NvmlRefused as error:
            self._refused = error.reason

    def _watch(self) -> bool:
        """Look for the counters' changes; True when the end comes before that is done."""
        begun_ns, used_ns = time.monotonic_ns(), time.thread_time_ns()
        while True:
            # One at a time: the end is not to wait for as many answers as there are GPUs.
            track = min(self._tracks, key=lambda track: track.due_ns, default=None)
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
            for gpu, known, last in zip(self._mine, self._tracks, self._last, strict=True)
            if not known.knows(last["monotonic_ns"])
        ]
        until_ns = time.monotonic_ns() + AFTER_NS - AFTER_STEP_NS
        while not all(track.is_done for track in asked) and time.monotonic_ns() < until_ns:
            time.sleep(AFTER_STEP_NS / _NS_A_S)
            for track in asked:
                if not track.is_done and time.monotonic_ns() < until_ns:
                    track.poll()
        self._after = asked


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
    except NvmlRefused as error:
        refused = error.reason
    except (OSError, ValueError) as error:
        refused = getattr(error, "strerror", None) or str(error)
    took_ns = time.monotonic_ns() - before_ns
    return _reading(gpu.uuid, before_ns + took_ns // 2, energy_mj, refused), took_ns


def _reading(uuid: str, at_ns: int, energy_mj: int | None, refused: str | None) -> Reading:
    return {"uuid": uuid, "monotonic_ns": at_ns, "energy_mj": energy_mj, "refused": refused}


def visible_devices(env: dict[str, str]) -> str | None:
    """What narrows down the GPUs that a rank sees, as it stands; None where nothing does."""
    return next((env[name] for name in _VARIABLES if name in env), None)


def may_have_gpus(env: dict[str, str]) -> bool:
    """Whether GPUs that this process may open can be a rank's.

    Slurm names those of a job that was given any, in one way or another: the node's GPUs are not
    those of a job without them, though where ConstrainDevices is not set it may open them all.
    Source: srun(1) and sbatch(1), OUTPUT ENVIRONMENT VARIABLES.
    """
    if "SLURM_JOB_ID" not in env or visible_devices(env) is not None:
        return True
    return any(env.get(name) for name in _SLURMS)


def claim(
    uuids: list[str], parent_of: ParentOf, env: dict[str, str], identity: Identity
) -> tuple[str, list[int]]:
    """Which of the GPUs with these uuids, in the driver's order, are this rank's own, and why.

    The word is the ledger's: visible, local-rank, all, none. A rank that sees one has that one.
    Slurm's list of the step's GPUs tells whether the rank sees fewer than its step has, so that
    they are its own. Of GPUs that all ranks of the node see each takes an equal share in the order
    of LOCAL_RANK. Otherwise they cannot be told apart.
    """
    visible = visible_devices(env)
    seen = [*range(len(uuids))]
    if visible is not None:
        seen = visible_places(visible, uuids, parent_of)
    if not seen:
        return "none", []
    in_step = len([word for word in env.get("SLURM_STEP_GPUS", "").split(",") if word])
    if len(seen) == 1 or len(seen) < in_step:
        return "visible", seen
    ranks, local = identity.local_world_size, identity.local_rank
    if ranks and local is not None and local < ranks and len(seen) % ranks == 0:
        share = len(seen) // ranks
        return "local-rank", seen[local * share : (local + 1) * share]
    return "all", seen


class Lives:
    """How long numbers of a counter lived: a number that was seen lives one period.

    That holds however late it was read: numbers in between that nobody saw have lives of their own.
    """

    def __init__(self) -> None:
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


def kept(changes: list[Change], also: list[Change]) -> list[Change]:
    """The changes that a ledger has: the first and the last that were seen in time, or nearly."""
    found = list(also)
    for least_ns, most_ns, count in (
        (-1, _SEEN_WITHIN_NS, 4),
        (_SEEN_WITHIN_NS, _NEARLY_WITHIN_NS, 2),
    ):
        alike = [change for change in changes if least_ns < width(change) <= most_ns]
        ends = alike[:count] + alike[count:][-count:]
        found += [change for change in ends if change not in also]
    return sorted(found, key=lambda change: change[1]["monotonic_ns"])


class CounterTrack:
    """One counter from the start of a rank on; `due_ns` is when it wants to be polled.

    First each change is looked for, every 3 ms, until one number was seen from its first moment to
    its last; from then on only where a change is due, every ms, and the more rarely the longer the
    rank is: there is always one in the last tenth of its time.
    """

    def __init__(self, ask: Ask, first: Reading) -> None:
        self._ask = ask
        self._begun_ns = first["monotonic_ns"]
        self._last = first
        self._lives = Lives()
        self._changes: list[Change] = []
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
        return kept(self._changes, self._lives.best)

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
            self._changes.append((before, now))
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
        found += [read for read in change if read not in updates and read not in found]
    return found
