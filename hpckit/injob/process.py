"""How the user's command starts and how its end becomes this process's end."""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_SHELL_SIGNAL_BASE = 128


def replace(command: list[str], env: dict[str, str]) -> NoReturn:
    """Become the command, with default signal dispositions; raise OSError when it cannot run."""
    for number in _resettable_signals():
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execvpe(command[0], command, env)


def spawn(command: list[str], env: dict[str, str], out: int, err: int) -> int:
    """Start the command with `out` and `err` as its output and return its process id.

    It starts with default dispositions and an empty mask: a shell that runs this process in the
    background has INT and QUIT ignored, and Python ignores PIPE. Raises OSError.
    """
    return os.posix_spawnp(
        command[0],
        command,
        env,
        file_actions=[(os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, err, 2)],
        setsigdef=_resettable_signals(),
        setsigmask=(),
    )


def spawn_quietly(command: list[str], env: dict[str, str], out: int | None = None) -> int:
    """Start the command without input, with both outputs to `out` or as they are; raise OSError."""
    quiet = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    outputs = () if out is None else tuple((os.POSIX_SPAWN_DUP2, out, fd) for fd in (1, 2))
    return os.posix_spawnp(
        command[0],
        command,
        env,
        file_actions=[quiet, *outputs],
        setsigdef=_resettable_signals(),
        setsigmask=(),
    )


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
