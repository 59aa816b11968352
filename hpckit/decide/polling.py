"""How often a scheduler is asked: soon at first, seldom for what takes long."""

from __future__ import annotations

from typing import Final

_SHARE: Final = 0.2
_LONGEST_S: Final = 60.0


def pause_s(waited_s: float, poll_interval_s: float) -> float:
    """Seconds until the next question after waiting `waited_s`.

    The site's interval at first, then a fifth of the time waited so far, at most a minute (or
    the site's interval, if that is longer): ten minutes cost about thirty questions.
    """
    return min(max(poll_interval_s, _SHARE * waited_s), max(poll_interval_s, _LONGEST_S))
