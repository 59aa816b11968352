"""Signals that come while something is recorded are raised after it."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from hpckit.core.process import interrupts_held

HELD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """All of them interrupt, as in `hpckit submit`, and are put back after the test."""
    before = {number: signal.getsignal(number) for number in HELD}
    for number in before:
        signal.signal(number, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", HELD)
def test_a_signal_is_held_and_raised_after(number: signal.Signals) -> None:
    """A signal inside the block lets it finish and interrupts at its end."""
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        signal.raise_signal(number)
        done.append("recorded")
    assert done == ["recorded"]
    assert signal.getsignal(number) is signal.default_int_handler


def test_an_error_inside_goes_before_a_signal() -> None:
    """When the block fails after a signal, its own error is raised and the handlers are back."""
    with pytest.raises(ValueError, match="mine"), interrupts_held():
        signal.raise_signal(signal.SIGINT)
        raise ValueError("mine")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_ignored_signal_stays_ignored() -> None:
    """Under nohup a closed session changes nothing, and hides no Ctrl-C that comes after it."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_the_block_is_told_of_a_signal() -> None:
    """What has many steps can end after the one in which the signal came."""
    with pytest.raises(KeyboardInterrupt), interrupts_held() as interrupted:
        assert not interrupted()
        signal.raise_signal(signal.SIGINT)
        assert interrupted()
