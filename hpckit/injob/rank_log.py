"""The log file of one rank in the job folder."""

from __future__ import annotations

import os

from hpckit.injob.talk import reason, say


def rank_log_path(job_folder: str, rank: int, array_task: str) -> str:
    """Give the path of a rank's log; `array_task` is empty outside a job array."""
    logs = os.path.join(job_folder, "logs")
    if array_task.isascii() and array_task.isdigit():
        logs = os.path.join(logs, f"array-{array_task}")
    return os.path.join(logs, f"rank-{rank}.log")


def open_rank_log(path: str) -> int | None:
    """Open a rank's log for appending, for its owner alone, and return the descriptor.

    An array task's folder is made; any other folder that is missing, or a file that cannot be
    opened, gives one warning and None, since the job matters more than its log.
    """
    folder = os.path.dirname(path)
    try:
        if os.path.basename(folder).startswith("array-"):
            _make_folder(folder)
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        say(f"no rank log, {path} cannot be opened: {reason(error)}")
        return None


def record_failure(log_path: str, restart: str, rank: int, code: int) -> None:
    """Write `failed-<restart>` beside a rank's log, unless another rank has: its code and rank.

    The batch script returns this code: launchers report how the ranks ended that the first
    failing one took with it.
    """
    name = f"failed-{restart if restart.isascii() and restart.isdigit() else 0}"
    path = os.path.join(os.path.dirname(log_path), name)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.write(fd, f"{code} {rank}\n".encode())
        os.close(fd)
    except OSError:
        return


def _make_folder(folder: str) -> None:
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        return
