"""A rank's GPUs and their energy counters, asked in a thread: a driver may be slow, or hang."""

from __future__ import annotations

import _thread
import signal
import time

from hpckit.injob.gpu_claim import Claim, claim, visible_devices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

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

# The counters are written every 20 to 100 ms (docs/reference/account-files.md, `updates`).
_STEP_S = 0.005
_WATCHED_S = 0.250
_CHANGES = 2
_NS_A_MS = 1e6


class Refused(Exception):
    """Why the driver tells nothing: an error of nvml.h in pynvml's spelling."""


class GpuWatch:
    """The thread that asks: once at the start, then for the first changes, and once at the end.

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
        self._first: list[dict[str, object]] = []
        self._updates: list[dict[str, object]] = []
        self._last: list[dict[str, object]] = []
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
        """What the last line says: the counters at this moment, and the changes seen before."""
        self._ending.release()
        if self._is_late and not self._started.acquire(blocking=False):
            return {"gpus": [], "updates": []}
        if not self._ended.acquire(timeout=END_LIMIT_S):
            now_ns = time.monotonic_ns()
            late = [_reading(gpu.uuid, now_ns, None, "late") for gpu in self._mine]
            return {"gpus": late, "updates": list(self._updates)}
        return {"gpus": self._last, "updates": self._updates}

    def _run(self) -> None:
        # Signals are the main thread's, which has a handler and a pipe for them.
        signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
        begun_ns = time.monotonic_ns()
        try:
            found, visible = self._find(visible_devices(self._env))
            self._init_ms = round((time.monotonic_ns() - begun_ns) / _NS_A_MS, 3)
            uuids = [gpu.uuid for gpu in found]
            self._claim = claim(uuids, visible, self._env, self._identity)
            self._mine = [found[place] for place in self._claim.places]
        except Refused as error:
            self._refused = str(error)
        self._first = [read(gpu) for gpu in self._mine]
        self._started.release()
        if not self._watch():
            self._ending.acquire()
        self._last = [read(gpu) for gpu in self._mine]
        self._ended.release()

    def _watch(self) -> bool:
        """Look for the counters' first changes; True when the end comes before that is done."""
        if self._is_late:
            self._updates.extend(self._first)
        seen = [reading["energy_mj"] for reading in self._first]
        left = [0 if value is None else _CHANGES for value in seen]
        until_s = time.monotonic() + _WATCHED_S
        while any(left) and time.monotonic() < until_s:
            if self._ending.acquire(timeout=_STEP_S):
                return True
            for place, gpu in enumerate(self._mine):
                if not left[place]:
                    continue
                reading = read(gpu)
                if reading["energy_mj"] not in {None, seen[place]}:
                    seen[place] = reading["energy_mj"]
                    left[place] -= 1
                    self._updates.append(reading)
        return False


def read(gpu: Gpu) -> dict[str, object]:
    """One reading of a counter, at the middle of the time that it took."""
    before_ns = time.monotonic_ns()
    energy_mj, refused = None, None
    try:
        energy_mj = gpu.energy_mj()
    except Refused as error:
        refused = str(error)
    except (OSError, ValueError) as error:
        refused = getattr(error, "strerror", None) or str(error)
    at_ns = (before_ns + time.monotonic_ns()) // 2
    return _reading(gpu.uuid, at_ns, energy_mj, refused)


def _reading(
    uuid: str, at_ns: int, energy_mj: int | None, refused: str | None
) -> dict[str, object]:
    return {"uuid": uuid, "monotonic_ns": at_ns, "energy_mj": energy_mj, "refused": refused}
