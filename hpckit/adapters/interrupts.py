"""Ctrl-C, SIGTERM and SIGHUP held back while something must be recorded whole."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_HELD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_WAITING = (
    b"\ninterrupted: what was begun is finished first, so that nothing is lost"
    b" (two minutes at most)\n"
)


@contextmanager
def interrupts_held() -> Iterator[Callable[[], bool]]:
    """Hold SIGINT, SIGTERM and SIGHUP back inside the block; one that came is raised at its end.

    Gives a function that tells whether one came. The block may end early, with an exception of its
    own, which then stands in the signal's place.
    One that is ignored stays so. Uses handlers, not a mask: a mask would be inherited by the
    processes started inside. Only the main thread may enter.
    """
    arrived: list[int] = []

    def note(signum: int, _frame: FrameType | None) -> None:
        if not arrived:
            with suppress(OSError):
                os.write(2, _WAITING)
        arrived.append(signum)

    held = [signum for signum in _HELD if signal.getsignal(signum) is not signal.SIG_IGN]
    before = {signum: signal.signal(signum, note) for signum in held}
    try:
        yield lambda: bool(arrived)
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
    if arrived:
        signal.raise_signal(arrived[0])
