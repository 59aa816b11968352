"""The thread that sees whether the loop still turns, and the clock that it listens beside."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from hpckit.sampler.guard import ASKED_LIMIT_S, Beat, Guard, SignalClock


class Hung:
    """What a guard calls."""

    def __init__(self) -> None:
        self.called = threading.Event()
        self.is_asked: bool | None = None

    def __call__(self, is_asked: bool) -> None:
        """Note it."""
        self.is_asked = is_asked
        self.called.set()


@pytest.fixture
def usr1() -> Iterator[None]:
    """USR1 is blocked in this thread and those that it starts."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    yield
    while signal.sigtimedwait({signal.SIGUSR1}, 0) is not None:
        pass
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.mark.parametrize("is_asked", [False, True])
def test_tick_that_takes_too_long_is_seen(*, is_asked: bool) -> None:
    """A tick beyond its limit hangs, which is ten seconds at most once the end was asked for.

    Between ticks there is no limit.
    """
    beat, hung = Beat(), Hung()
    beat.begun_ns, beat.is_asked = 0, is_asked
    beat.limit_s = 1000 if is_asked else 0.1
    Guard(beat, set(), hung, look_s=0.02)
    assert not hung.called.wait(0.3)
    beat.begun_ns = time.monotonic_ns() - int((ASKED_LIMIT_S + 0.1) * 1e9)
    assert hung.called.wait(20)
    assert hung.is_asked is is_asked


STOPPED = """
import threading
from hpckit.sampler.guard import Beat, Guard
called = threading.Event()
beat = Beat()
beat.limit_s = 2.5
Guard(beat, set(), lambda _: called.set(), look_s=0.1)
print("begun", flush=True)
print(called.wait(30), flush=True)
"""


def test_suspension_during_a_tick_is_no_hanging() -> None:
    """The time in which the whole process was stopped is none of the tick's."""
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGSTOP)
        time.sleep(4)
        process.send_signal(signal.SIGCONT)
        resumed = time.monotonic()
        assert process.stdout.readline() == "True\n"
        # A guard that counts the stop calls 0.1 s later.
        assert time.monotonic() - resumed > 2


UNHEARD = """
import os, signal, threading
from hpckit.sampler.guard import Beat, Guard
# In a process of its own: here another thread of the test run would take the signal.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
seen, called = [], threading.Event()
def hung(is_asked):
    seen.append(is_asked)
    called.set()
beat = Beat()
beat.limit_s = 1000
Guard(beat, {signal.SIGUSR1}, hung, look_s=0.3)
os.kill(os.getpid(), signal.SIGUSR1)
called.wait(20)
print(seen)
"""


def printed(code: str) -> str:
    """What a process of its own prints."""
    argv = [sys.executable, "-c", code]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout


def test_request_that_nobody_hears_is_seen() -> None:
    """A signal that stays pending while a tick is under way ends the waiting earlier."""
    assert printed(UNHEARD) == "[True]\n"


LISTENING = """
import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
from hpckit.sampler.guard import listen
listen(by_hand=True)
print(signal.getsignal(signal.SIGCHLD).name)
"""


def test_children_are_waited_for_also_where_their_ends_were_ignored() -> None:
    """After `trap '' CHLD` a child that has ended would be none, and to kill it an error."""
    assert printed(LISTENING) == "SIG_DFL\n"


@pytest.mark.usefixtures("usr1")
def test_signal_ends_waiting() -> None:
    """A signal that came before is heard at once, and only once; without one it ends in time."""
    clock = SignalClock({signal.SIGUSR1})
    signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
    begun = time.monotonic()
    assert clock.wait_until(clock.monotonic_ns() + 90 * 10**9)
    assert time.monotonic() - begun < 45
    due = clock.monotonic_ns() + 50_000_000
    assert not clock.wait_until(due)
    assert clock.monotonic_ns() >= due
    assert not clock.wait_until(0)
