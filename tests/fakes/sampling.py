"""Fakes of the ports of the sampling loop: GPUs that answer a constant, a clock that is moved."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hpckit.account.sample_format import EVENTS, GPU, GPU_RECORD, HOST, META, HostColumn, Moment
from hpckit.sampler.guard import JobEnd, SignalClock
from hpckit.sampler.job_counters import HostSources
from hpckit.sampler.spool import SampleSpool

NS = 1_000_000_000
BEGIN_NS = 50 * NS


class FakeClock(SignalClock):
    """Time that passes only by waiting; the next wait ends `late_ns` late."""

    def __init__(self) -> None:
        self.monotonic = BEGIN_NS
        self.slept_ns = 0
        self.asked: list[int] = []
        self.late_ns = 0
        self.before_waiting: Callable[[], None] = lambda: None

    def now(self) -> Moment:
        """The three clocks."""
        return Moment(10**18 + self.monotonic, self.monotonic, self.monotonic + self.slept_ns)

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC."""
        return self.monotonic

    def ask_at(self, seconds: float) -> None:
        """Let a TERM come then."""
        self.asked.append(BEGIN_NS + int(seconds * NS))

    def wait_until(self, monotonic_ns: int) -> bool:
        """Go there at once, or to the TERM that comes before."""
        self.before_waiting()
        due = [at for at in self.asked if at <= monotonic_ns]
        if due:
            self.asked.remove(due[0])
            self.monotonic = max(self.monotonic, due[0])
            return True
        self.monotonic = max(self.monotonic, monotonic_ns) + self.late_ns
        self.late_ns = 0
        return False


class FakeGpus:
    """Two GPUs; `before` is called at each reading."""

    def __init__(self, clock: FakeClock, count: int = 2) -> None:
        self._clock = clock
        self.count = count
        self.read_at: list[int] = []
        self.before: Callable[[int], None] = lambda _: None
        self.news: list[dict[str, Any]] = []
        self.said: Mapping[str, Any] = {}

    def describe(self) -> Sequence[Mapping[str, Any]]:
        """Their uuids, and what `said` says of each."""
        return [{"uuid": f"GPU-{at}", **self.said} for at in range(self.count)]

    def read_into(self, buffer: bytearray, at: int, begin_ns: int) -> int:
        """The moment of the reading and the GPU, nothing else."""
        self.read_at.append(self._clock.monotonic)
        self.before(len(self.read_at))
        dt_us = (self._clock.monotonic - begin_ns) // 1000
        for gpu in range(self.count):
            GPU_RECORD.pack_into(buffer, at, dt_us, gpu, *[0] * 22)
            at += GPU_RECORD.size
        return at

    def events(self) -> Sequence[Mapping[str, Any]]:
        """What was put into `news`."""
        found, self.news = self.news, []
        return found


class FakeHost(HostSources):
    """One column that counts how often it was read."""

    def __init__(self) -> None:
        self.reads = 0
        self.news = False

    def columns(self) -> Sequence[HostColumn]:
        """The column."""
        return (HostColumn("reads", "counter"),)

    def refused(self) -> Mapping[str, str]:
        """Nothing was."""
        return {}

    def read(self) -> Sequence[int]:
        """How often so far."""
        self.reads += 1
        return (self.reads,)

    def changed(self) -> bool:
        """Once, after `news` was set."""
        news, self.news = self.news, False
        return news


class FakeWatch(JobEnd):
    """A job that goes on until it is told otherwise."""

    def __init__(self) -> None:
        self.why: str | None = None
        self.ranks: Callable[[], bool] = lambda: False

    def over(self) -> str | None:
        """`why`."""
        return self.why

    def has_ranks(self) -> bool:
        """`ranks`."""
        return self.ranks()


class FakeSink(SampleSpool):
    """Keeps what was flushed, block by block: (kind, moment, payload)."""

    def __init__(self) -> None:
        self.put_blocks: list[tuple[int, Moment, bytes]] = []
        self.blocks: list[tuple[int, Moment, bytes]] = []
        self.flushes = 0
        self.anew = False

    def put(self, kind: int, record_bytes: int, moment: Moment, payload: bytes) -> None:
        """Take a block."""
        assert len(payload) % record_bytes == 0
        self.put_blocks.append((kind, moment, payload))

    def flush(self) -> None:
        """Keep what was put."""
        self.flushes += bool(self.put_blocks)
        self.blocks += self.put_blocks
        self.put_blocks = []

    def wants_meta(self) -> bool:
        """Once, after `anew` was set."""
        anew, self.anew = self.anew, False
        return anew

    def events(self) -> list[dict[str, Any]]:
        """All events in their order."""
        return [
            json.loads(line)
            for kind, _, payload in self.blocks
            if kind == EVENTS
            for line in payload.splitlines()
        ]

    def metas(self) -> list[dict[str, Any]]:
        """All METAs."""
        return [json.loads(payload) for kind, _, payload in self.blocks if kind == META]

    def gpu_times_ns(self, gpu: int = 0) -> list[int]:
        """When the records of a GPU were taken."""
        return [
            moment.monotonic_ns + row[0] * 1000
            for kind, moment, payload in self.blocks
            if kind == GPU
            for row in GPU_RECORD.iter_unpack(payload)
            if row[1] == gpu
        ]

    def host_blocks(self) -> int:
        """How many blocks of host records there are."""
        return sum(kind == HOST for kind, _, _ in self.blocks)
