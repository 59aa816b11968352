"""The command under supervision: its output copied, its signals forwarded, its end awaited."""

from __future__ import annotations

import errno
import gc
import os
import select
import signal

from hpckit.injob.process import end_as, replace, slurmstepd_signals_all, spawn
from hpckit.injob.talk import reason, say
from hpckit.injob.tee import RankLog, Tee, same_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource
    from collections.abc import Callable
    from types import FrameType

    from hpckit.injob.ledger import Ledger

FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
)
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_SHELL_SIGNAL_BASE = 128
_OWN_FAULTS = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
# The largest pipe an unprivileged process can have: /proc/sys/fs/pipe-max-size, pipe(7).
_DRAIN_BYTES = 1 << 20


def supervise(
    command: list[str],
    env: dict[str, str],
    log: int,
    failed: Callable[[int], None],
    ledger: Ledger | None = None,
) -> int:
    """Run the command with both streams copied to the descriptor `log`; return its exit code.

    `failed` is called with the exit code, 128+N after signal N, of a command that fails without
    having been asked to end. Raises OSError when the command cannot be started. A command that
    dies of a signal takes this process with it.
    """
    try:
        _reserve_standard_descriptors()
        wake = _catch_signals()
        if ledger is not None:
            ledger.begin()
        early = _arrived(wake)
        pid, tees = _start(command, env, RankLog(log))
        gc.freeze()
        gc.enable()
    except OSError as error:
        # To become the command takes no further process and no pipe. If the fault lies with the
        # command itself, this raises it again.
        if error.errno in _OWN_FAULTS:
            say(f"no rank log: {reason(error)}")
        replace(command, env)
    process = _Command(pid, ledger)
    if ledger is not None:
        ledger.watch(pid)
    status, asked_to_end = _relay(process, wake, tees, early)
    code = _shell_code(status)
    # First of all: which rank failed first is told by which file is there first.
    if status and not asked_to_end:
        failed(code)
    if ledger is not None:
        ledger.finish(code, process.usage)
    for tee in tees:
        drain(tee, wake)
    return end_as(status)


def _start(command: list[str], env: dict[str, str], log: RankLog) -> tuple[int, list[Tee]]:
    out_read, out_write = os.pipe()
    tees = [Tee(out_read, 1, log)]
    err_write = out_write
    # Two pipes would lose the order of the streams where they end in one file.
    if not same_file(1, 2):
        err_read, err_write = os.pipe()
        tees.append(Tee(err_read, 2, log))
    pid = spawn(command, env, out_write, err_write)
    # An end kept open here would hide the end of the stream.
    for fd in {out_write, err_write}:
        os.close(fd)
    return pid, tees


class _Command:
    """The command's process, and whether signals that come here do not reach it by themselves."""

    def __init__(self, pid: int, ledger: Ledger | None) -> None:
        self.pid = pid
        self.needs_signals = not slurmstepd_signals_all()
        self.usage: resource.struct_rusage | None = None
        self._ledger = ledger

    def reap(self) -> int | None:
        """The wait status of a command that has ended; for a ledger also what it used."""
        if self._ledger is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            return status if ended else None
        ended, status, usage = os.wait4(self.pid, os.WNOHANG)
        if not ended:
            return None
        self.usage = usage
        self._ledger.note_io()
        return status


def _shell_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else _SHELL_SIGNAL_BASE - code


def _relay(command: _Command, wake: int, tees: list[Tee], early: bytes) -> tuple[int, bool]:
    """Copy and forward until the command has ended; `early` came before it began.

    Returns its wait status, and whether a signal had asked it to end.
    """
    # Whoever signals all processes of a step did not reach one that was not there yet.
    for number in early:
        _forward(command.pid, number)
    asked_to_end = any(number in _ENDING for number in early)
    while True:
        ready = _wait(wake, [tee for tee in tees if tee.open or tee.pending])
        if wake in ready:
            arrived = os.read(wake, 512)
            asked_to_end = asked_to_end or any(number in _ENDING for number in arrived)
            status = _on_signals(command, arrived)
            if status is not None:
                return status, asked_to_end
        for tee in tees:
            if tee.target() in ready:
                tee.write()
            elif tee.source() in ready and tee.open:
                tee.read()


def drain(tee: Tee, wake: int) -> None:
    """Copy what the pipe still holds; a descendant that keeps it open is not waited for."""
    left = _DRAIN_BYTES
    while left > 0 or tee.pending:
        if not tee.pending:
            count = tee.read()
            if not count:
                return
            left -= count
            continue
        ready = _wait(wake, [tee])
        # The command has gone, so a request to end is now this process's own.
        if wake in ready and any(number in _ENDING for number in os.read(wake, 512)):
            return
        if tee.target() in ready:
            tee.write()


def _wait(wake: int, tees: list[Tee]) -> set[int]:
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    for tee in tees:
        source, target = tee.source(), tee.target()
        if target is not None:
            poll.register(target, select.POLLOUT)
        elif source is not None:
            poll.register(source, select.POLLIN)
    return {fd for fd, _ in poll.poll()}


def _arrived(wake: int) -> bytes:
    """The signals that have come so far."""
    try:
        return os.read(wake, 512)
    except BlockingIOError:
        return b""


def _on_signals(command: _Command, arrived: bytes) -> int | None:
    """Forward what has arrived; return the command's wait status if it has ended."""
    for number in arrived:
        if number != signal.SIGCHLD and command.needs_signals:
            _forward(command.pid, number)
    return command.reap()


def _forward(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        # A command that has changed its user cannot be signalled, and goes on.
        return


def _catch_signals() -> int:
    """Turn signals into bytes of a pipe, where one that comes before the command waits for it."""
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_read, False)
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for number in (*FORWARDED, signal.SIGCHLD):
        signal.signal(number, _noted)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return wake_read


def _noted(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the byte in the wake-up pipe is the message."""


def _reserve_standard_descriptors() -> None:
    # A pipe end that landed on a closed 0, 1 or 2 would be taken for the stream itself.
    while os.open(os.devnull, os.O_RDWR) in {0, 1, 2}:
        pass
