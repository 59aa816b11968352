"""Small questions to the file systems of this machine, each answered in bounded time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Final, TypeVar

from hpckit.adapters.regular_file import open_regular

Answer = TypeVar("Answer")

LIMIT_S: Final = 5.0
"""For one question to a file system; a cold file on Lustre takes some tens of milliseconds."""


class LocalFiles:
    """What is there under a path; what cannot be read counts as nothing, and `notes` say so.

    Each question is asked in a thread of its own, which is left behind when there is no answer
    within `limit_s`: a server that is down may never answer. After that nothing more is asked.
    """

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        self._unread: list[str] = []
        self._is_late = False

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be read, and why, a sentence each."""
        return tuple(dict.fromkeys(self._unread))

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names in a folder, in order."""

        def read() -> tuple[str, ...]:
            return tuple(sorted(entry.name for entry in Path(folder).iterdir()))

        return self._answer(folder, read, ())

    def real(self, path: str) -> str | None:
        """Return the path without links, None where nothing is."""
        return self._answer(path, lambda: os.path.realpath(path, strict=True), None)

    def text(self, path: str, most_bytes: int) -> str | None:
        """Return what a regular file of this size at most holds, None where there is none."""

        def read() -> str:
            with open_regular(Path(path)) as file:
                data = file.read(most_bytes + 1)
            if len(data) > most_bytes:
                raise OSError(f"it is over {most_bytes} bytes")
            return data.decode("utf-8", "surrogateescape")

        return self._answer(path, read, None)

    def _answer(self, path: str, ask: Callable[[], Answer], nothing: Answer) -> Answer:
        if self._is_late:
            return nothing
        answer: Future[Answer] = Future()
        threading.Thread(target=_fulfil, args=(answer, ask), daemon=True).start()
        try:
            return answer.result(self._limit_s)
        except TimeoutError:
            self._is_late = True
            late = f"{path} gave no answer within {self._limit_s:g} s"
            self._unread.append(f"{late}, and nothing more was looked at")
        except (FileNotFoundError, NotADirectoryError):
            pass
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self._unread.append(f"{path} cannot be read: {why}")
        return nothing


def _fulfil(answer: Future[Answer], ask: Callable[[], Answer]) -> None:
    try:
        answer.set_result(ask())
    except (OSError, ValueError) as error:
        answer.set_exception(error)
