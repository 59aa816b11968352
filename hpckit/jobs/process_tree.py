"""Processes named beyond doubt, and whole trees of them found and ended."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from hpckit.core.late import Late
from hpckit.core.values import dataclass

if TYPE_CHECKING:
    import ctypes

    import psutil
else:
    psutil = Late("psutil")
    ctypes = Late("ctypes")

_PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>
_SAME_START_S = 0.05
_CLOCK_STEP_S = 2.0
_UNKILLABLE_S = 60.0  # slurm.conf(5), UnkillableStepTimeout
_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMark:
    """A process of this machine, told from a later one with the same id by when it started.

    `started_s` and `booted_s` are seconds since the epoch as the clock had it then. Their
    difference is the process's start since boot, which a step of the clock does not change.
    """

    pid: int
    started_s: float
    booted_s: float


def own_start_s() -> float:
    """Return when this process started, as psutil has it: to import that takes 9 ms.

    Source: proc(5), starttime of /proc/PID/stat and btime of /proc/stat.
    """
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    booted = re.search(r"^btime (\d+)", Path("/proc/stat").read_text(), re.MULTILINE)
    return int(fields[19]) / os.sysconf("SC_CLK_TCK") + int(booted[1] if booted else 0)


def mark_of(pid: int) -> ProcessMark | None:
    """The mark of a process; None when it has gone."""
    # In this order: psutil before 7.1 adds the boot time that it read last.
    booted_s = psutil.boot_time()
    try:
        return ProcessMark(pid=pid, started_s=psutil.Process(pid).create_time(), booted_s=booted_s)
    except (psutil.Error, ValueError, OverflowError):  # the latter for what can be no id
        return None


def find_process(mark: ProcessMark) -> psutil.Process | None:
    """The living process of this user's that a mark names; None when it has ended.

    Also when its id is used again: what was written of a process is no reason to signal another.
    """
    now = mark_of(mark.pid)
    if now is None or abs(_since_boot_s(now) - _since_boot_s(mark)) > _SAME_START_S:
        return None
    return _living(mark.pid)


def is_running_since(pid: int, started_s: float) -> bool:
    """Whether this user's process with this id lives, started at `started_s`, give or take 2 s."""
    now = mark_of(pid)
    if now is None or abs(now.started_s - started_s) > _CLOCK_STEP_S:
        return False
    return _living(pid) is not None


def become_subreaper() -> None:
    """Adopt every orphan among the descendants of this process, prctl(2); elsewhere do nothing."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> list[psutil.Process]:
    """The living processes below `pid`, without it and without zombies."""
    try:
        # A fresh object: psutil compares start times, and a clock step makes a kept one wrong.
        below = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [process for process in below if not _is_zombie(process)]


def send_signal(processes: Iterable[psutil.Process], number: int) -> None:
    """Send a signal to each; one that has gone or is another user's is passed over."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)


def kill_tree(pid: int) -> None:
    """Kill a process and all below it, and none can start another meanwhile."""
    try:
        root = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return
    frozen: list[psutil.Process] = []
    while new := [p for p in [root, *descendants(pid)] if p not in frozen]:
        send_signal(new, signal.SIGSTOP)
        frozen += new
    send_signal(frozen, signal.SIGKILL)


def session_members(
    session: ProcessMark | None, variable: tuple[str, str], since_s: float
) -> list[psutil.Process]:
    """The processes of a session or with a variable in their environment, and those below them.

    `since_s` is the earliest start, in seconds since the epoch. This process is never among them.
    """
    leader = None if session is None else mark_of(session.pid)
    # An id is not given out again while a session still bears it.
    reused = session is not None and leader is not None and find_process(session) is None
    session_id = None if session is None or reused else session.pid
    found = {
        process
        for process in psutil.process_iter()
        if not _is_zombie(process) and _is_member(process, session_id, variable, since_s)
    }
    for process in tuple(found):
        found.update(descendants(process.pid))
    return [process for process in found if process.pid != os.getpid()]


def end_members(
    session: ProcessMark | None, variable: tuple[str, str], since_s: float, kill_wait_s: float
) -> int:
    """End what `session_members` finds: TERM, after `kill_wait_s` KILL. Gives how many are left."""
    left = session_members(session, variable, since_s)
    send_signal(left, signal.SIGTERM)
    send_signal(left, signal.SIGCONT)
    kill_s = time.monotonic() + kill_wait_s
    give_up_s = kill_s + _UNKILLABLE_S
    while left and time.monotonic() < give_up_s:
        time.sleep(_POLL_S)
        left = session_members(session, variable, since_s)
        if time.monotonic() >= kill_s:
            send_signal(left, signal.SIGKILL)
    return len(left)


def _since_boot_s(mark: ProcessMark) -> float:
    return mark.started_s - mark.booted_s


def _living(pid: int) -> psutil.Process | None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        is_own = process.uids().real == os.getuid()
        return process if is_own and not _is_zombie(process) else None
    return None


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD))
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False


def _is_member(
    process: psutil.Process, session_id: int | None, variable: tuple[str, str], since_s: float
) -> bool:
    name, value = variable
    try:
        if process.create_time() < since_s - _CLOCK_STEP_S:
            return False
        return os.getsid(process.pid) == session_id or process.environ().get(name) == value
    except (psutil.Error, OSError):
        return False
