"""The thread between a sampler and the job folder, at the end of both."""

from __future__ import annotations

import time
from pathlib import Path

from hpckit.sampler.spool import Copier


class _LateStore:
    """Once it is empty the sampler ends, and what came last is there a moment later."""

    def __init__(self, target: Path) -> None:
        self.copier: Copier | None = None
        self._target = target
        self._data = [b"first", b"", b"last"]

    def next_bytes(self) -> bytes:
        """What comes next; the end comes, and the file is moved aside, when there is nothing."""
        data = self._data[0] if self._data else b""
        if not data and self._data:
            assert self.copier is not None
            del self._data[0]
            self._target.rename(self._target.with_name("aside"))
            self.copier.finish(0)
        return data

    def copied(self, count: int) -> None:
        """All of it was."""
        assert count == len(self._data.pop(0))


def test_the_file_stays_open_until_the_rest_is_copied(tmp_path: Path) -> None:
    """An end that comes while something is copied does not have the file opened once more."""
    store = _LateStore(tmp_path / "samples")
    store.copier = copier = Copier(str(tmp_path), "samples", store, print)
    copier.wake()
    aside, end_s = tmp_path / "aside", time.monotonic() + 60
    while not aside.exists() or aside.read_bytes() != b"firstlast":
        assert time.monotonic() < end_s
        time.sleep(0.005)


class _SickStore:
    """A disk of this node that gives an error once, and then what it has."""

    def __init__(self) -> None:
        self._data: list[bytes | OSError] = [b"first", OSError(5, "Input/output error"), b"last"]

    def next_bytes(self) -> bytes:
        """What comes next. Raises OSError, twice at once as long as nothing was copied."""
        data = self._data[0] if self._data else b""
        if isinstance(data, OSError):
            raise data
        return data

    def copied(self, count: int) -> None:
        """All of it was."""
        del self._data[0]

    def heal(self) -> None:
        """The error goes away."""
        del self._data[0]


def test_an_error_of_this_nodes_disk_ends_no_copying(tmp_path: Path) -> None:
    """What the disk gives later is copied too."""
    store = _SickStore()
    said: list[str] = []
    copier = Copier(str(tmp_path), "samples", store, said.append)
    copier.wake()
    end_s = time.monotonic() + 60
    while not said:
        assert time.monotonic() < end_s
        time.sleep(0.005)
    assert "Input/output error; samples stay on this node until it works" in said[0]
    store.heal()
    assert copier.finish(60)
    assert (tmp_path / "samples").read_bytes() == b"firstlast"
