"""All of a node's host columns, source after source."""

from __future__ import annotations

from hpckit.adapters.job_counters import JobCounters
from hpckit.model.samples import MISSING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Protocol

    from hpckit.model.samples import HostColumn

    class HostSource(Protocol):
        """Some columns and why others are not there."""

        @property
        def columns(self) -> Sequence[HostColumn]:
            """What `read` gives."""
            ...

        @property
        def refused(self) -> Mapping[str, str]:
            """Why a source is not there, by its name."""
            ...

        def read(self) -> Sequence[int | None]:
            """A number for each column, None is not measured."""
            ...


_NOT_MEASURED = MISSING[8]


class HostSources:
    """The columns of several sources side by side."""

    def __init__(self, sources: Sequence[HostSource], refused: Mapping[str, str]) -> None:
        self._sources = sources
        self._refused = refused

    def columns(self) -> Sequence[HostColumn]:
        """Their names, kinds and ranges."""
        return tuple(column for source in self._sources for column in source.columns)

    def refused(self) -> Mapping[str, str]:
        """Why a source is not there, by its name."""
        found = dict(self._refused)
        for source in self._sources:
            found.update(source.refused)
        return found

    def read(self) -> Sequence[int]:
        """A number for each column."""
        return [
            # A counter that was multiplied may need more than 64 bits, and begins again then.
            _NOT_MEASURED if value is None else value & _NOT_MEASURED
            for source in self._sources
            for value in source.read()
        ]

    def changed(self) -> bool:
        """Whether a source found out where its columns come from."""
        news = [source.changed() for source in self._sources if isinstance(source, JobCounters)]
        return any(news)
