"""This machine's files answer in bounded time."""

from __future__ import annotations

import threading
from pathlib import Path

from hpckit.core.files import LocalFiles


class HangingFiles(LocalFiles):
    """A file system on which a folder never answers, until the test lets it."""

    let_go = threading.Event()

    def names(self, folder: str) -> tuple[str, ...]:
        """Return no name, late."""
        return self._answer(folder, lambda: ("late",) * self.let_go.wait(60), ())


def test_a_file_system_that_hangs_is_left_behind() -> None:
    """One question takes its limit; no more is asked after it, which is said once."""
    files = HangingFiles(limit_s=0.1)
    assert [files.names("/dead") for _ in range(20)] == [()] * 20
    assert files.real("/") is None
    files.let_go.set()
    assert files.notes == ("/dead gave no answer within 0.1 s, and nothing more was looked at",)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    """A configuration of a MiB is none; what is not there is no failure."""
    (tmp_path / "a").write_bytes(bytes(11))
    files = LocalFiles()
    assert files.text(f"{tmp_path}/a", 10) is None
    assert files.text(f"{tmp_path}/b", 10) is None
    assert files.names(f"{tmp_path}/a") == files.names(f"{tmp_path}/b") == ()
    assert files.notes == (f"{tmp_path}/a cannot be read: it is over 10 bytes",)
