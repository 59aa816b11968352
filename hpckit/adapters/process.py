"""External commands: a list, no shell, a clean environment, always a limit."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

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
_KEPT = frozenset({"SLURM_CONF"})
_SHELL_SIGNAL_BASE = 128


class ProcessRunner:
    """Runs commands as processes of this machine.

    `environment` is the caller's, by default this process's; LC_ALL=C is added, and the variables
    of Slurm and PMI are taken away, except SLURM_CONF.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment

    def run(self, argv: Sequence[str], timeout_s: float) -> CommandResult:
        """What `argv` printed, and its code: 128+N when it was ended by signal N.

        Output is decoded as UTF-8, wrong bytes replaced. After `timeout_s` seconds its whole
        process group is killed. Raises ToolMissing, ToolTimeout, AdapterError.
        """
        # Files, not pipes: a daemon that keeps a pipe open would hold up its reader.
        out, err = os.memfd_create("stdout"), os.memfd_create("stderr")
        try:
            code = _finish(self._start(argv, out, err), argv, timeout_s)
            return CommandResult(returncode=code, stdout=_text(out), stderr=_text(err))
        finally:
            os.close(out)
            os.close(err)

    def _start(self, argv: Sequence[str], out: int, err: int) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=_scrubbed(self._environment),
                start_new_session=True,
            )
        except OSError as error:
            raise _not_started(argv[0], error) from error


def _scrubbed(environment: Mapping[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in environment.items()
        if name in _KEPT or not name.startswith(_SCRUBBED_PREFIXES)
    }
    return {**kept, "LC_ALL": "C"}


def _finish(process: subprocess.Popen[bytes], argv: Sequence[str], timeout_s: float) -> int:
    try:
        code = process.wait(timeout_s)
    except subprocess.TimeoutExpired as error:
        _kill_group(process)
        raise ToolTimeout(argv, timeout_s) from error
    except BaseException:
        _kill_group(process)
        raise
    return code if code >= 0 else _SHELL_SIGNAL_BASE - code


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    # The process has not been waited for, so neither its id nor its group's can be another's.
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
