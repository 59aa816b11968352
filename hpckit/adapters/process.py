"""External commands: a list, no shell, a clean environment, always a limit."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hpckit.errors import AdapterError, ToolMissing, ToolTimeout

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
        # Files, not pipes: a daemon that keeps a pipe open would hold up its reader.
        out, err = os.memfd_create("stdout"), os.memfd_create("stderr")
        try:
            env = self.clean_environment() if environment is None else environment
            code = _finish(start(argv, out, err, env), argv, timeout_s, err)
            return CommandResult(returncode=code, stdout=text_of(out), stderr=text_of(err))
        finally:
            os.close(out)
            os.close(err)

    def clean_environment(self) -> dict[str, str]:
        """The runner's environment without the variables that would change what is asked for."""
        return _scrubbed(self._environment)


def start(
    argv: Sequence[str],
    out: int,
    err: int,
    environment: Mapping[str, str],
    orphaned: signal.Signals = signal.SIGKILL,
) -> subprocess.Popen[bytes]:
    """A command that writes to these files; it gets the signal `orphaned` when this process ends.

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
            preexec_fn=_dies_with(os.getpid(), orphaned),  # noqa: PLW1509
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


def _scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in environment.items()
        if name in _KEPT or not name.startswith(_SCRUBBED_PREFIXES)
    }
    return {**kept, **_READABLE}


def _finish(
    process: subprocess.Popen[bytes], argv: Sequence[str], timeout_s: float, err: int
) -> int:
    try:
        code = process.wait(timeout_s)
    except subprocess.TimeoutExpired as error:
        raise ToolTimeout(argv, timeout_s, text_of(err)) from error
    finally:
        kill_group(process)
    return shell_code(code)


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
