"""Ctrl-C and SIGTERM held back while something must be recorded whole."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_HELD = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold SIGINT and SIGTERM back inside the block; one that came is raised at its end.

    Uses handlers, not a mask: a mask would be inherited by the processes started inside. Only
    the main thread may enter.
    """
    arrived: list[int] = []

    def note(signum: int, _frame: FrameType | None) -> None:
        arrived.append(signum)

    before = {signum: signal.signal(signum, note) for signum in _HELD}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
    if arrived:
        signal.raise_signal(arrived[0])
