"""How often a scheduler is asked."""

from __future__ import annotations

import pytest

from hpckit.jobs.track import pause_s


def test_the_first_questions_come_at_the_sites_pace() -> None:
    """As long as a fifth of the time waited is less, the pause is the site's interval."""
    assert [pause_s(waited_s, 2.0) for waited_s in (0.0, 5.0, 10.0)] == [2.0, 2.0, 2.0]


def test_a_pause_grows_with_the_waiting() -> None:
    """Later the pause is a fifth of the time waited so far."""
    assert pause_s(100.0, 1.0) == pytest.approx(20.0)


def test_a_pause_is_a_minute_at_most() -> None:
    """After days of waiting the end is still noticed within a minute."""
    assert pause_s(1e6, 1.0) == 60.0


@pytest.mark.parametrize("waited_s", [0.0, 300.0, 1e6])
def test_a_site_that_wants_less_is_heeded(waited_s: float) -> None:
    """An interval of more than a minute is kept at every time."""
    assert pause_s(waited_s, 90.0) == 90.0


def test_ten_minutes_cost_about_thirty_questions() -> None:
    """Asking from the start until 600 s have passed takes at most 35 questions."""
    waited_s, questions = 0.0, 1
    while waited_s < 600.0:
        waited_s += pause_s(waited_s, 1.0)
        questions += 1
    assert 20 <= questions <= 35
