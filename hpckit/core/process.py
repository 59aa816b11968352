"""External commands: a list, no shell, a clean environment, always a limit."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from io import FileIO
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from hpckit.core.errors import AdapterError, StorageFailed, ToolMissing, ToolTimeout
from hpckit.core.files import Clock
from hpckit.core.late import Late
from hpckit.core.values import dataclass

if TYPE_CHECKING:
    import subprocess
    from concurrent.futures import Future
else:
    subprocess = Late("subprocess")

# Input and filter variables of sbatch, srun, squeue, sinfo, sacct and scancel (their man pages,
# "ENVIRONMENT VARIABLES"), and what a surrounding job or MPI launcher left: each would change
# what is asked for, unseen. PMI covers PMI_, PMI2_ and PMIX_. Then what would have a shell, git,
# Python or the loader run something else than what is called (bash(1), git(1), ld.so(8)).
_SCRUBBED_PREFIXES = (
    "SBATCH_",
    "SLURM_",
    "SRUN_",
    "SQUEUE_",
    "SINFO_",
    "SACCT_",
    "SCANCEL_",
    "PMI",
    "BASH_",
    "GIT_",
    "PYTHON",
)
_SLOW_S: Final = 2.0
_SCRUBBED = frozenset({"ENV", "LD_AUDIT", "LD_PRELOAD"})
_KEPT = frozenset({"SLURM_CONF", "SLURM_JWT"})  # where Slurm is, and who asks
# English and UTC, and job arrays of any length whole (squeue(1), SLURM_BITSTR_LEN).
_READABLE = {"LC_ALL": "C", "TZ": "UTC", "SLURM_BITSTR_LEN": "0"}
_SHELL_SIGNAL_BASE = 128
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What an external command printed, decoded leniently, and its code."""

    returncode: int
    stdout: str
    stderr: str


class CommandRunner(Protocol):
    """Runs external commands: a list, never a shell, always with a limit."""

    def run(
        self, argv: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> CommandResult:
        """The result of `argv`, in this environment or, None, in a clean one.

        Raises ToolMissing, ToolTimeout.
        """
        ...

    def begun(self, *commands: Sequence[str]) -> AbstractContextManager[None]:
        """Start commands: the next `run` of one, in a clean environment, returns its answer.

        What was not asked for is killed at the end of the block.
        """
        ...


class ProcessRunner:
    """Runs commands as processes of this machine, which are killed when this one ends.

    Those that were `begun` are not when this one is killed: they end with their answer. Nor is what
    a command has started itself: a site's wrapper of sbatch, for one.

    `environment` is the caller's, by default this process's; those of _READABLE are set, and
    the variables of Slurm and PMI are taken away, except those of _KEPT, and those by which a
    program runs something that was not called. `slow` hears of the first command that has not
    answered after two seconds.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        slow: Callable[[str], None] | None = None,
    ) -> None:
        self._environment = os.environ if environment is None else environment
        self._slow = slow
        self._begun: dict[tuple[str, ...], _Started] = {}

    @contextmanager
    def begun(self, *commands: Sequence[str]) -> Iterator[None]:
        """Start commands; what was not asked for is killed at the end of the block."""
        try:
            for argv in dict.fromkeys(map(tuple, commands)):
                with suppress(AdapterError):  # `run` says why it cannot be started
                    self._begun[argv] = _started(argv, self.clean_environment(), None)
            yield
        finally:
            while self._begun:
                process, out, err = self._begun.popitem()[1]
                with suppress(OSError):
                    kill_group(process)
                os.close(out)
                os.close(err)

    def run(
        self, argv: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> CommandResult:
        """What `argv` printed, and its code: 128+N when it was ended by signal N.

        `environment` is taken as it is; None is the runner's own, cleaned. Output is decoded as
        UTF-8, wrong bytes replaced. After `timeout_s` seconds its whole process group is killed.
        Raises ToolMissing, ToolTimeout, AdapterError.
        """
        started = self._begun.pop(tuple(argv), None) if environment is None else None
        environment = self.clean_environment() if environment is None else environment
        process, out, err = started or _started(argv, environment)
        try:
            try:
                code = shell_code(self._wait(process, argv[0], timeout_s))
            finally:
                kill_group(process)
            return CommandResult(returncode=code, stdout=text_of(out), stderr=text_of(err))
        except subprocess.TimeoutExpired as error:
            raise ToolTimeout(argv, timeout_s, text_of(err)) from error
        finally:
            os.close(out)
            os.close(err)

    def _wait(self, process: subprocess.Popen[bytes], program: str, timeout_s: float) -> int:
        """Return the code of a process. Raises subprocess.TimeoutExpired."""
        if self._slow is None or timeout_s <= _SLOW_S:
            return code_of(process, timeout_s)
        try:
            return code_of(process, _SLOW_S)
        except subprocess.TimeoutExpired:
            self._slow(program)
            self._slow = None
            return code_of(process, timeout_s - _SLOW_S)

    def clean_environment(self) -> dict[str, str]:
        """The runner's environment without the variables that would change what is asked for."""
        return {**scrubbed(self._environment), **_READABLE}


def scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what would change what a command does, or run beside it."""
    return {
        name: value
        for name, value in environment.items()
        if name in _KEPT or not (name in _SCRUBBED or name.startswith(_SCRUBBED_PREFIXES))
    }


class _Started(NamedTuple):
    """A command that runs, and the files with what it prints."""

    process: subprocess.Popen[bytes]
    out: int
    err: int


def _started(
    argv: Sequence[str],
    environment: Mapping[str, str],
    orphaned: signal.Signals | None = signal.SIGKILL,
) -> _Started:
    """Start a command. Raises ToolMissing, AdapterError."""
    # Files, not pipes: a daemon that keeps a pipe open would hold up its reader.
    out, err = os.memfd_create("stdout"), os.memfd_create("stderr")
    try:
        return _Started(start(argv, out, err, environment, orphaned), out, err)
    except BaseException:
        os.close(out)
        os.close(err)
        raise


def start(
    argv: Sequence[str],
    out: int,
    err: int,
    environment: Mapping[str, str],
    orphaned: signal.Signals | None = signal.SIGKILL,
) -> subprocess.Popen[bytes]:
    """A command that writes to these files; it gets the signal `orphaned` when this process ends.

    With None it does not, and starts five times as fast, as this process is not copied then.
    Raises ToolMissing, AdapterError.
    """
    try:
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environment,
            start_new_session=True,
            # One thread runs commands, so that nothing is half-done in another when it forks.
            preexec_fn=None if orphaned is None else _dies_with(os.getpid(), orphaned),
        )
    except OSError as error:
        raise _not_started(argv[0], error) from error


def _dies_with(parent: int, number: signal.Signals) -> Callable[[], None]:
    """Have the kernel signal the command when this process ends, however that comes about."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(_SHELL_SIGNAL_BASE + signal.SIGKILL)

    return ask


_MOST_POLL_S = 2e6


def code_of(process: subprocess.Popen[bytes], timeout_s: float) -> int:
    """Return the code of a process when it ends. Raises subprocess.TimeoutExpired.

    Popen.wait with a limit looks every few hundredths of a second; the kernel tells at once.
    """
    try:
        told = os.pidfd_open(process.pid)
    except (OSError, AttributeError):  # Linux before 5.3, or a Python built for such
        return process.wait(timeout_s)
    try:
        poll = select.poll()
        poll.register(told, select.POLLIN)
        ended = poll.poll(1000 * min(max(timeout_s, 0), _MOST_POLL_S))
    finally:
        os.close(told)
    return process.wait(None if ended else 0)


def shell_code(code: int) -> int:
    """A process's code as a shell has it: 128+N when it was ended by signal N."""
    return code if code >= 0 else _SHELL_SIGNAL_BASE - code


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End the process and what it started, unless it has ended."""
    # Popen.wait may have reaped it before an interrupt came through; until then neither its id
    # nor its group's can be another's.
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def text_of(fd: int) -> str:
    """What is in a file so far, wrong bytes replaced."""
    return os.pread(fd, os.fstat(fd).st_size, 0).decode("utf-8", errors="replace")


def _not_started(program: str, error: OSError) -> AdapterError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return ToolMissing(
            f"{program} was not found",
            hint=f"install {program}, load its module, or add its folder to PATH",
        )
    if isinstance(error, PermissionError):
        return ToolMissing(
            f"{program} cannot be executed: {error.strerror}",
            hint=f"check the permissions of {program}, and of the folders in PATH",
        )
    return AdapterError(f"{program} could not be started: {error.strerror}")


_TICK_S = 0.05
_AT_ONCE = 32
_GRACE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeardCommand:
    """A command that was listened to; `is_late` is one that was ended for taking too long."""

    stderr: str
    returncode: int | None = None

    @property
    def is_late(self) -> bool:
        """Whether it was ended, or not even begun, when the time was up."""
        return self.returncode is None


class CommandListener(Protocol):
    """Runs external commands whose output counts while they run."""

    def listen(
        self, commands: Sequence[Sequence[str]], timeout_s: float, heard: Callable[[str], None]
    ) -> Sequence[HeardCommand]:
        """What became of each command, in their order; all share the time and run side by side.

        They run in a clean environment. `heard` gets each line of their stdout, without its end,
        soon after it was printed. Raises ToolMissing.
        """
        ...


class ListeningRunner(ProcessRunner):
    """A ProcessRunner that also listens; 32 commands run at once, the others follow.

    One that is given up gets SIGTERM, and SIGKILL after two seconds: srun gives its allocation
    back, or ends its step, when it is asked to end. So it does when this process is killed.
    """

    def listen(
        self, commands: Sequence[Sequence[str]], timeout_s: float, heard: Callable[[str], None]
    ) -> Sequence[HeardCommand]:
        """What became of each command. Raises ToolMissing, AdapterError."""
        end_s = time.monotonic() + timeout_s
        ended = [HeardCommand(stderr="") for _ in commands]
        running: dict[int, _Running] = {}
        waiting = list(enumerate(commands))
        try:
            while (waiting or running) and time.monotonic() < end_s:
                while waiting and len(running) < _AT_ONCE:
                    index, argv = waiting.pop(0)
                    running[index] = _Running(argv, self.clean_environment(), heard)
                for index in [index for index, command in running.items() if command.has_ended()]:
                    ended[index] = running.pop(index).result()
                time.sleep(_TICK_S if running else 0.0)
            _ask_to_end(list(running.values()))
            for index in list(running):
                ended[index] = running.pop(index).result(is_late=True)
        finally:
            _ask_to_end(list(running.values()))
            for command in running.values():
                command.close()
        return ended


def _ask_to_end(commands: Sequence[_Running]) -> None:
    """Send SIGTERM, and give them all together a moment for it."""
    for command in commands:
        command.process.terminate()
    end_s = time.monotonic() + _GRACE_S
    while time.monotonic() < end_s and any(command.process.poll() is None for command in commands):
        time.sleep(_TICK_S)


class _Running:
    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], heard: Callable[[str], None]
    ) -> None:
        self._heard = heard
        self._offset = 0
        self._out, self._err = os.memfd_create("stdout"), os.memfd_create("stderr")
        try:
            self.process = start(argv, self._out, self._err, environment, signal.SIGTERM)
        except BaseException:
            self._close_files()
            raise

    def has_ended(self) -> bool:
        """Hand on the lines that have come, and tell whether there will be more."""
        is_over = self.process.poll() is not None
        self._hear(is_end=is_over)
        return is_over

    def result(self, *, is_late: bool = False) -> HeardCommand:
        """How it ended, or what it has said until it is ended."""
        self._hear(is_end=True)
        code = None if is_late else shell_code(self.process.wait())
        ended = HeardCommand(stderr=text_of(self._err), returncode=code)
        self.close()
        return ended

    def close(self) -> None:
        """End what still runs, and close the files."""
        kill_group(self.process)
        self._close_files()

    def _close_files(self) -> None:
        os.close(self._out)
        os.close(self._err)

    def _hear(self, *, is_end: bool) -> None:
        new = os.pread(self._out, os.fstat(self._out).st_size - self._offset, self._offset)
        if not is_end:
            new = new[: new.rfind(b"\n") + 1]
        self._offset += len(new)
        for line in new.decode("utf-8", errors="replace").splitlines():
            self._heard(line)


SCHEMA = "hpckit.command/1"


class Runner(CommandRunner, CommandListener, Protocol):
    """What runs commands either way."""


class LoggedRunner:
    """Runs commands through another runner, and appends a JSON line to a file for each."""

    def __init__(self, runner: Runner, path: Path, clock: Clock) -> None:
        self._runner = runner
        self._path = path
        self._clock = clock

    def run(
        self, argv: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> CommandResult:
        """The result of `argv`, on record. Raises StorageFailed, and what that runner raises."""
        with self._recorded([argv]) as codes:
            result = self._runner.run(argv, timeout_s, environment)
            codes[:] = [result.returncode]
        return result

    def begun(self, *_commands: Sequence[str]) -> AbstractContextManager[None]:
        """Start nothing: one after the other, the record has how long each takes."""
        return nullcontext()

    def listen(
        self, commands: Sequence[Sequence[str]], timeout_s: float, heard: Callable[[str], None]
    ) -> Sequence[HeardCommand]:
        """What became of each command, on record once all have ended."""
        with self._recorded(commands) as codes:
            ended = self._runner.listen(commands, timeout_s, heard)
            codes[:] = [command.returncode for command in ended]
        return ended

    @contextmanager
    def _recorded(self, commands: Sequence[Sequence[str]]) -> Iterator[list[int | None]]:
        """Write a line for each command, with the codes that the block has put in their place."""
        begun_s = self._clock.now_s()
        codes: list[int | None] = [None] * len(commands)
        with self._open() as file:
            try:
                yield codes
            finally:
                # The commands were run: a full disk must not make it look as if they were not.
                with suppress(OSError):
                    for argv, code in zip(commands, codes, strict=True):
                        file.write(self._line(argv, begun_s, code))

    def _open(self) -> FileIO:
        try:
            # Its owner's alone: the words of a command name accounts, jobs and folders.
            # Not to wait either for whoever reads a FIFO.
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK
            handle = os.open(self._path, flags, 0o600)
            # Unbuffered: what could not be written is not tried again when the file is closed.
            return FileIO(handle, "ab")
        except OSError as error:
            raise StorageFailed(
                f"the command log {self._path} cannot be written: {error.strerror}",
                hint="unset HPCKIT_COMMAND_LOG, or name another file",
            ) from error

    def _line(self, argv: Sequence[str], begun_s: float, returncode: int | None) -> bytes:
        line = {
            "schema": SCHEMA,
            "begun_s": begun_s,
            "duration_s": round(self._clock.now_s() - begun_s, 6),
            "argv": list(argv),
            "returncode": returncode,
        }
        return f"{json.dumps(line)}\n".encode()


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
    processes started inside. In another thread than the main one nothing is held: Python has
    signals in that alone.
    """
    arrived: list[int] = []

    def note(signum: int, _frame: FrameType | None) -> None:
        if not arrived:
            with suppress(OSError):
                os.write(2, _WAITING)
        arrived.append(signum)

    is_main = threading.current_thread() is threading.main_thread()
    held = [one for one in _HELD if is_main and signal.getsignal(one) is not signal.SIG_IGN]
    before = {signum: signal.signal(signum, note) for signum in held}
    try:
        yield lambda: bool(arrived)
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
    if arrived:
        signal.raise_signal(arrived[0])


Given = TypeVar("Given")
Made = TypeVar("Made")
MOST_WORKERS = 8
"""A report's memory is that of so many nodes at once."""
_GC_THRESHOLD = 100_000
"""Arrays and numbers are in no cycles: looking for them took a fifth of a worker's time."""


def in_processes(function: Callable[[Given], Made], given: Sequence[Given]) -> Iterator[Made]:
    """`function` of each, in their order; a result that nobody has taken yet is kept to a few.

    Raises AdapterError where a process was ended before it was done.
    """
    import gc
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    workers = min(MOST_WORKERS, len(os.sched_getaffinity(0)), len(given))
    if workers < 2:  # noqa: PLR2004  another process for one alone gains nothing
        yield from map(function, given)
        return
    # Not forked: numpy's threads would be missing in a copy of this process.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        workers, mp_context=context, initializer=gc.set_threshold, initargs=(_GC_THRESHOLD,)
    ) as pool:
        waiting: list[Future[Made]] = []
        try:
            for value in given:
                waiting.append(pool.submit(function, value))
                if len(waiting) >= 2 * workers:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
        except BrokenProcessPool:
            raise AdapterError(
                "a worker process was killed before it finished",
                hint="usually out of memory: free some memory, or use fewer CPUs and thus fewer "
                "processes: taskset -c 0 hpckit …",
            ) from None
        finally:
            for future in waiting:
                future.cancel()
