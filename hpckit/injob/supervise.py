"""The command under supervision: its output copied, its signals forwarded, its end awaited."""

from __future__ import annotations

import errno
import gc
import os
import select
import stat

from hpckit.core.talk import reason, say

TYPE_CHECKING = False


if TYPE_CHECKING:
    import resource
    import signal
    from collections.abc import Callable, Iterable
    from typing import NoReturn

    from hpckit.injob.ledger import Ledger
else:
    import _signal as signal  # the module signal loads enum: 2 ms of each rank

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
READ_BYTES = 65536
# A descriptor that polls as writable takes this much without blocking: PIPE_BUF, pipe(7).
PIPE_BYTES = 4096


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
        wake = catch_signals((*FORWARDED, signal.SIGCHLD))
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if ledger is not None:
            ledger.begin()
        early = os.read(wake, 512) if _wait(wake, [], limit_ms=0) else b""
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
    code = exit_code_of(status)
    # First of all: which rank failed first is told by which file is there first.
    if status and not asked_to_end:
        failed(code)
    if ledger is not None:
        ledger.finish(code, process.usage)
    for tee in tees:
        drain(tee, wake)
    return end_as(status)


def attend(command: list[str], env: dict[str, str], failed: Callable[[int], None]) -> int:
    """Run a launcher, whose output and input are this process's, and return its exit code.

    Signals are forwarded; `failed` is called as by `supervise`. Raises OSError.
    """
    wake = catch_signals((*FORWARDED, signal.SIGCHLD))
    status, asked_to_end = _relay(_Command(_spawned(command, env), None), wake, [], b"")
    if status and not asked_to_end:
        failed(exit_code_of(status))
    return end_as(status)


def _start(command: list[str], env: dict[str, str], log: RankLog) -> tuple[int, list[Tee]]:
    out_read, out_write = os.pipe()
    tees = [Tee(out_read, 1, log)]
    err_write = out_write
    # Two pipes would lose the order of the streams where they end in one file.
    if not _is_one_file():
        err_read, err_write = os.pipe()
        tees.append(Tee(err_read, 2, log))
    outputs = ((os.POSIX_SPAWN_DUP2, out_write, 1), (os.POSIX_SPAWN_DUP2, err_write, 2))
    pid = _spawned(command, env, *outputs)
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

    def hear(self, arrived: bytes) -> int | None:
        """Forward signals; return the wait status of a command that has ended.

        For a ledger also what it used is kept.
        """
        for number in arrived:
            if number != signal.SIGCHLD and self.needs_signals:
                forward(self.pid, number)
        if self._ledger is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            return status if ended else None
        ended, status, usage = os.wait4(self.pid, os.WNOHANG)
        if not ended:
            return None
        self.usage = usage
        self._ledger.note_io()
        return status


def _relay(command: _Command, wake: int, tees: list[Tee], early: bytes) -> tuple[int, bool]:
    """Copy and forward until the command has ended; `early` came before it began.

    Returns its wait status, and whether a signal had asked it to end.
    """
    # Whoever signals all processes of a step did not reach one that was not there yet.
    for number in early:
        forward(command.pid, number)
    asked_to_end = any(number in _ENDING for number in early)
    while True:
        ready = _wait(wake, [tee for tee in tees if tee.open or tee.pending])
        if wake in ready:
            arrived = os.read(wake, 512)
            asked_to_end = asked_to_end or any(number in _ENDING for number in arrived)
            status = command.hear(arrived)
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


def _wait(wake: int, tees: list[Tee], limit_ms: int | None = None) -> set[int]:
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    for tee in tees:
        source, target = tee.source(), tee.target()
        if target is not None:
            poll.register(target, select.POLLOUT)
        elif source is not None:
            poll.register(source, select.POLLIN)
    return {fd for fd, _ in poll.poll(limit_ms)}


def forward(pid: int, number: int) -> None:
    """Send a signal to a process, if it is there and takes it."""
    try:
        os.kill(pid, number)
    except OSError:
        # A command that has changed its user cannot be signalled, and goes on.
        return


def catch_signals(numbers: Iterable[int]) -> int:
    """Turn signals into bytes of a pipe, where one that comes before the command waits for it."""
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_read, False)
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for number in numbers:
        # The byte in the wake-up pipe is the message.
        signal.signal(number, lambda _number, _frame: None)
    return wake_read


def _reserve_standard_descriptors() -> None:
    # A pipe end that landed on a closed 0, 1 or 2 would be taken for the stream itself.
    while os.open(os.devnull, os.O_RDWR) in {0, 1, 2}:
        pass


def replace(command: list[str], env: dict[str, str]) -> NoReturn:
    """Become the command, with default signal dispositions; raise OSError when it cannot run."""
    for number in _resettable_signals():
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execvpe(command[0], command, env)


def spawn_quietly(command: list[str], env: dict[str, str], out: int | None = None) -> int:
    """Start the command without input, with both outputs to `out` or as they are; raise OSError."""
    quiet = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    outputs = () if out is None else tuple((os.POSIX_SPAWN_DUP2, out, fd) for fd in (1, 2))
    return _spawned(command, env, quiet, *outputs)


def _spawned(command: list[str], env: dict[str, str], *actions: tuple[object, ...]) -> int:
    """Start a command with default dispositions and an empty mask. Raises OSError.

    A shell that runs this process in the background has INT and QUIT ignored, and Python ignores
    PIPE.
    """
    return os.posix_spawnp(
        command[0],
        command,
        env,
        file_actions=actions,
        setsigdef=_resettable_signals(),
        setsigmask=(),
    )


def exit_code_of(status: int) -> int:
    """Give the exit code of a wait status as a shell does, 128+N after signal N."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else _SHELL_SIGNAL_BASE - code


def end_as(status: int) -> int:
    """Give the exit code of a wait status, or die of the signal that it names.

    The command wrote the core file if there was to be one, so this process writes none. Where
    the signal does not kill, the result is 128 and the signal number, as in a shell.
    """
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    # Seldom needed, and an extension module to load.
    import resource

    number = os.WTERMSIG(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number in _resettable_signals():
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.kill(os.getpid(), number)
    return _SHELL_SIGNAL_BASE + number


def slurmstepd_signals_all(proc: str = "/proc") -> bool:
    """Whether slurmstepd, this process's parent, sends signals to its descendants too.

    With proctrack/linuxproc and proctrack/pgid it signals every process of the step: forwarded
    signals would reach the command twice. With proctrack/cgroup, where the step's processes are
    in a control group of its own, it signals the tasks' first processes alone, unless
    SignalChildrenProcesses is set. Source: proctrack_linuxproc.c, proctrack_cgroup.c of Slurm
    22.05 to 26.05; cgroup.conf(5).
    """
    try:
        with open(f"{proc}/{os.getppid()}/comm", encoding="utf-8", errors="replace") as stream:
            if not stream.read().startswith("slurmstepd"):
                return False
        with open(f"{proc}/self/cgroup", encoding="utf-8", errors="replace") as stream:
            return "/step_" not in stream.read()
    except OSError:
        return False


def _resettable_signals() -> set[int]:
    return {int(number) for number in signal.valid_signals()} - {signal.SIGKILL, signal.SIGSTOP}


class RankLog:
    """An open rank log, given up with one warning at the first write that fails."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd

    def write(self, data: bytes) -> None:
        """Append all of `data`, or give the log up."""
        if self._fd is None:
            return
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            say(f"the rank log stops here: {reason(error)}")
            self._fd = None


class Tee:
    """A pipe from the command, this process's own descriptor, and the log, between two events.

    It either waits to read (`pending` is empty) or waits to write, so a reader that stalls holds
    the command back, as without this process, and never holds up a signal.
    """

    __slots__ = ("_chunk_bytes", "_log", "_source", "_target", "open", "pending")

    def __init__(self, source: int, target: int, log: RankLog) -> None:
        """Copy from the pipe end `source`, made non-blocking, to the descriptor `target`."""
        os.set_blocking(source, False)
        self._source = source
        self._target: int | None = target
        self._log = log
        self._chunk_bytes = READ_BYTES if _is_file(target) else PIPE_BYTES
        self.open = True
        self.pending = memoryview(b"")

    def source(self) -> int | None:
        """Return the descriptor to read from, None while bytes wait to be written."""
        return None if self.pending else self._source

    def target(self) -> int | None:
        """Return the descriptor to write to, None while nothing waits."""
        return self._target if self.pending else None

    def read(self) -> int:
        """Take what the pipe holds, to the log at once; return the bytes, 0 for none now."""
        try:
            data = os.read(self._source, READ_BYTES)
        except BlockingIOError:
            return 0
        self.open = bool(data)
        self._log.write(data)
        if self._target is not None:
            self.pending = memoryview(data)
        return len(data)

    def write(self) -> None:
        """Write one piece of what waits; a target that is closed or broken is given up."""
        if self._target is None:
            return
        try:
            written = os.write(self._target, self.pending[: self._chunk_bytes])
        except BlockingIOError:
            return
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                say(f"the output stops here: {reason(error)}")
            self._target = None
            self.pending = memoryview(b"")
            return
        self.pending = self.pending[written:]


def _is_one_file() -> bool:
    """Whether both outputs are one file, pipe or terminal; a closed one is no file."""
    try:
        return os.path.sameopenfile(1, 2)
    except OSError:
        return False


def _is_file(fd: int) -> bool:
    try:
        return stat.S_ISREG(os.fstat(fd).st_mode)
    except OSError:
        return False
