"""External commands: a list, no shell, a clean environment, always a limit."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

from hpckit.errors import AdapterError, ToolMissing, ToolTimeout
from hpckit.ports import CommandResult

# Input and filter variables of sbatch, srun, squeue, sinfo, sacct and scancel (their man pages,
# "ENVIRONMENT VARIABLES"), and what a surrounding job or MPI launcher left: each would change
# what is asked for, unseen. PMI covers PMI_, PMI2_ and PMIX_.
_SCRUBBED_PREFIXES = (
    "SBATCH_",
    "SLURM_",
    "SRUN_",
    "SQUEUE_",
    "SINFO_",
    "SACCT_",
    "SCANCEL_",
    "PMI",
)
_KEPT = frozenset({"SLURM_CONF", "SLURM_JWT"})  # where Slurm is, and who asks
# English and UTC, and job arrays of any length whole (squeue(1), SLURM_BITSTR_LEN).
_READABLE = {"LC_ALL": "C", "TZ": "UTC", "SLURM_BITSTR_LEN": "0"}
_SHELL_SIGNAL_BASE = 128
_LISTEN_S = 0.1
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class ProcessRunner:
    """Runs commands as processes of this machine, which are killed when this one ends.

    What such a command has started itself is not: a site's wrapper of sbatch, for one.

    `environment` is the caller's, by default this process's; those of _READABLE are set, and
    the variables of Slurm and PMI are taken away, except those of _KEPT.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment

    def run(
        self, argv: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> CommandResult:
        """What `argv` printed, and its code: 128+N when it was ended by signal N.

        `environment` is taken as it is; None is the runner's own, cleaned. Output is decoded as
        UTF-8, wrong bytes replaced. After `timeout_s` seconds its whole process group is killed.
        Raises ToolMissing, ToolTimeout, AdapterError.
        """
        env = _scrubbed(self._environment) if environment is None else environment
        return _ran(argv, timeout_s, env, None)

    def listen(
        self, argv: Sequence[str], timeout_s: float, heard: Callable[[str], None]
    ) -> CommandResult:
        """The same, in the cleaned environment; `heard` gets the lines of stdout meanwhile."""
        return _ran(argv, timeout_s, _scrubbed(self._environment), heard)


def _ran(
    argv: Sequence[str],
    timeout_s: float,
    env: Mapping[str, str],
    heard: Callable[[str], None] | None,
) -> CommandResult:
    # Files, not pipes: a daemon that keeps a pipe open would hold up its reader.
    out, err = os.memfd_create("stdout"), os.memfd_create("stderr")
    try:
        listener = None if heard is None else _Listener(out, heard)
        code = _finish(_start(argv, out, err, env), argv, timeout_s, err, listener)
        return CommandResult(returncode=code, stdout=_text(out), stderr=_text(err))
    finally:
        os.close(out)
        os.close(err)


def _start(
    argv: Sequence[str], out: int, err: int, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environment,
            start_new_session=True,
            # One thread runs commands, so that nothing is half-done in another when it forks.
            preexec_fn=_dies_with(os.getpid()),  # noqa: PLW1509
        )
    except OSError as error:
        raise _not_started(argv[0], error) from error


def _dies_with(parent: int) -> Callable[[], None]:
    """Have the kernel kill the command when this process ends, however that comes about."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(_SHELL_SIGNAL_BASE + signal.SIGKILL)

    return ask


def _scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in environment.items()
        if name in _KEPT or not name.startswith(_SCRUBBED_PREFIXES)
    }
    return {**kept, **_READABLE}


class _Listener:
    """Hands on the whole lines of a growing file, each once."""

    def __init__(self, fd: int, heard: Callable[[str], None]) -> None:
        self._fd = fd
        self._heard = heard
        self._at = 0

    def listen(self, *, is_end: bool = False) -> None:
        """Hand on what has come; at the end also a last line without its end."""
        new = os.pread(self._fd, os.fstat(self._fd).st_size - self._at, self._at)
        if not is_end:
            new = new[: new.rfind(b"\n") + 1]
        self._at += len(new)
        for line in new.decode("utf-8", errors="replace").splitlines():
            self._heard(line)


def _finish(
    process: subprocess.Popen[bytes],
    argv: Sequence[str],
    timeout_s: float,
    err: int,
    listener: _Listener | None,
) -> int:
    try:
        code = process.wait(timeout_s) if listener is None else _hear(process, timeout_s, listener)
    except subprocess.TimeoutExpired as error:
        raise ToolTimeout(argv, timeout_s, _text(err)) from error
    finally:
        _kill_group(process)
    return code if code >= 0 else _SHELL_SIGNAL_BASE - code


def _hear(process: subprocess.Popen[bytes], timeout_s: float, listener: _Listener) -> int:
    end_s = time.monotonic() + timeout_s
    while True:
        left_s = end_s - time.monotonic()
        try:
            code = process.wait(max(0.0, min(_LISTEN_S, left_s)))
        except subprocess.TimeoutExpired:
            listener.listen(is_end=left_s <= _LISTEN_S)
            if left_s <= _LISTEN_S:
                raise
        else:
            listener.listen(is_end=True)
            return code


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End the process and what it started, unless it has ended."""
    # Popen.wait may have reaped it before an interrupt came through; until then neither its id
    # nor its group's can be another's.
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _text(fd: int) -> str:
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
