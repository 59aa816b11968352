"""A thread that sees whether the sampling loop still turns.

A driver's call that never returns keeps the loop's thread in the kernel: it would neither sample
the other GPUs nor hear a TERM, and a step that does not end makes Slurm drain the node.
"""

from __future__ import annotations

import signal
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Set

LIMIT_S = 20.0
"""How long one tick may take: a driver that resets a GPU stops all callers for some seconds."""
BEGIN_LIMIT_S = 90.0
"""The same for the beginning: without persistence mode the driver wakes each GPU first."""
ASKED_LIMIT_S = 10.0
"""The same once the end was asked for: Slurm's KillWait is 30 s unless the site says less."""
PATIENCE_S = 1.0
"""How long a request to end may stay unheard."""
_LOOK_S = 1.0


class Beat:
    """What is under way: since when, and with which GPU."""

    def __init__(self) -> None:
        self.begun_ns = time.monotonic_ns()
        """When it began, 0 while the loop waits."""
        self.limit_s = BEGIN_LIMIT_S
        self.is_asked = False
        """Whether the end was asked for, and heard."""
        self.gpu: str | None = None
        """The GPU whose driver was called, by uuid, or `nvidia` for the driver itself."""


class Guard:
    """Looks once a second; `hung` is called in its thread, once, and does not return."""

    def __init__(
        self, beat: Beat, ends: Set[int], hung: Callable[[bool], None], look_s: float = _LOOK_S
    ) -> None:
        """`hung` is told whether the end was asked for."""
        self._beat = beat
        self._ends = ends
        self._hung = hung
        self._look_s = look_s
        threading.Thread(target=self._run, name="hpckit-guard", daemon=True).start()

    def _run(self) -> None:
        unheard_s = 0.0
        stopped_ns = 0
        while True:
            slept_ns = -time.monotonic_ns()
            time.sleep(self._look_s)
            now_ns = time.monotonic_ns()
            slept_ns += now_ns
            if slept_ns > (self._look_s + _LOOK_S) * 1e9:
                # The whole process was stopped: what is under way had no time either.
                stopped_ns, unheard_s = now_ns, 0.0
            begun_ns = self._beat.begun_ns
            late_s = (now_ns - max(begun_ns, stopped_ns)) / 1e9 if begun_ns else 0.0
            # The loop takes a signal as soon as it waits: one that is still pending is unheard.
            pending = late_s > self._look_s / 2 and bool(signal.sigpending() & self._ends)
            unheard_s = unheard_s + self._look_s if pending else 0.0
            is_asked = self._beat.is_asked
            limit_s = min(self._beat.limit_s, ASKED_LIMIT_S if is_asked else BEGIN_LIMIT_S)
            if late_s > limit_s or unheard_s > PATIENCE_S:
                self._hung(pending or is_asked)
                return
