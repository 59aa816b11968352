"""Signals that come while something is recorded are raised after it."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from hpckit.adapters.interrupts import interrupts_held


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """SIGINT and SIGTERM both interrupt, as in `hpckit submit`, and are put back after the test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_held_and_raised_after(number: signal.Signals) -> None:
    """A signal inside the block lets it finish and interrupts at its end."""
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        signal.raise_signal(number)
        done.append("recorded")
    assert done == ["recorded"]
    assert signal.getsignal(number) is signal.default_int_handler


def test_no_signal_is_no_interrupt() -> None:
    """Without a signal the block ends as any other, and the handlers are as before."""
    with interrupts_held():
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_inside_goes_before_a_signal() -> None:
    """When the block fails after a signal, its own error is raised and the handlers are back."""
    with pytest.raises(ValueError, match="mine"), interrupts_held():
        signal.raise_signal(signal.SIGINT)
        raise ValueError("mine")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
