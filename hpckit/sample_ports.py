"""What the sampling loop needs from the world; beside `ports`, whose users are not in a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol


class Moment(NamedTuple):
    """The system's three clocks, read together."""

    realtime_ns: int
    monotonic_ns: int
    boottime_ns: int


class HostColumn(NamedTuple):
    """A column of a HOST record: `kind` is gauge or counter, `wraps_at` None is 2⁶⁴."""

    name: str
    kind: str
    wraps_at: int | None = None


class GpuCounters(Protocol):
    """GPUs of one vendor whose figures can be read again and again."""

    def describe(self) -> Sequence[Mapping[str, Any]]:
        """What `gpus` of META says of each, in the order of their records."""
        ...

    def read_into(self, buffer: bytearray, at: int, begin_ns: int) -> int:
        """Pack a GPU_RECORD for each GPU that is still there; returns where the next one goes.

        `begin_ns` is the block's CLOCK_MONOTONIC.
        """
        ...

    def events(self) -> Sequence[Mapping[str, Any]]:
        """What happened to the GPUs since this was last asked."""
        ...


class HostCounters(Protocol):
    """Figures of the node and of the job on it."""

    def columns(self) -> Sequence[HostColumn]:
        """What `read` gives, in its order."""
        ...

    def refused(self) -> Mapping[str, str]:
        """Why a source is not there, by its name."""
        ...

    def read(self) -> Sequence[int]:
        """A number for each column; 2⁶⁴ - 1 is "not measured"."""
        ...

    def changed(self) -> bool:
        """Whether columns were found or lost since this was last asked."""
        ...


class SampleSink(Protocol):
    """Where blocks go. Nothing here waits for a file system that hangs, or fails."""

    def put(self, kind: int, record_bytes: int, moment: Moment, payload: bytes) -> None:
        """Take a block; it is written with the next `flush`."""
        ...

    def flush(self) -> None:
        """Write what was put."""
        ...

    def wants_meta(self) -> bool:
        """Whether META must be said again, as the file was begun anew; asked once."""
        ...


class SampleClock(Protocol):
    """Time, and what ends waiting."""

    def now(self) -> Moment:
        """The three clocks."""
        ...

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC."""
        ...

    def wait_until(self, monotonic_ns: int) -> bool:
        """Wait until then; true as soon as somebody asks for the end."""
        ...


class JobWatch(Protocol):
    """Whether there still is something to measure."""

    def over(self) -> str | None:
        """Why sampling ends, None while it does not: cheap, asked about once a second."""
        ...

    def has_ranks(self) -> bool:
        """Whether processes of the job's other steps are alive; asked after a request to end."""
        ...


class Beat(Protocol):
    """What a watchdog is told."""

    begun_ns: int
    """When what is under way began, CLOCK_MONOTONIC; 0 while the loop waits."""
    is_asked: bool
    """Whether somebody asked for the end: what is under way has less time then."""
