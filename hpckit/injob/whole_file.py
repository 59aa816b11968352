"""The one way to write a file whole inside a job."""

from __future__ import annotations

import os


def write_whole(path: str, data: bytes, *, keeps_first: bool = False) -> None:
    """Write a file, mode 0600, at once or not at all. Raises OSError.

    With `keeps_first` a file that is there already stays: of several writers, the first one's is
    everybody's.
    """
    folder, name = os.path.split(path)
    temporary = f"{folder}/.{name}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    handle = os.open(temporary, flags, 0o600)
    put = os.link if keeps_first else os.replace
    try:
        with open(handle, "wb") as file:
            file.write(data)
        put(temporary, path)
    except OSError as error:
        os.unlink(temporary)
        if not keeps_first or not isinstance(error, FileExistsError):
            raise
        return
    if keeps_first:
        os.unlink(temporary)
