"""The sampling loop: at each tick the GPUs, every few seconds the host and a write.

Pure of input and output, and of the heap: a tick packs into one buffer and keeps nothing.
"""

from __future__ import annotations

import json
import struct
from typing import NamedTuple

from hpckit.account.sample_format import EVENTS, GPU, GPU_RECORD, HOST, HOST_PERIOD_S, META

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Protocol

    from hpckit.account.sample_format import Moment
    from hpckit.sampler.guard import Beat, JobEnd, SignalClock
    from hpckit.sampler.job_counters import HostSources
    from hpckit.sampler.spool import SampleSpool

    class GpuCounters(Protocol):
        """GPUs of one vendor whose figures can be read again and again."""

        def describe(self) -> Sequence[Mapping[str, Any]]:
            """What `gpus` of META says of each, in the order of their records."""

        def read_into(self, buffer: bytearray, at: int, begin_ns: int) -> int:
            """Pack a GPU_RECORD for each GPU that is still there; returns where the next one goes.

            `begin_ns` is the block's CLOCK_MONOTONIC.
            """

        def events(self) -> Sequence[Mapping[str, Any]]:
            """What happened to the GPUs since this was last asked."""


FLUSH_S = 4.0
"""Between two writes: with the copy that follows it is below the 5 s that are promised."""
HOST_S = 1.0
"""How often the host is read in the first `HOST_OFTEN_S` seconds: a short job is seen too."""
HOST_OFTEN_S = 60.0
ASKED_FLUSH_S = 1.0
"""Between two writes after a request to end: KILL may follow at any moment."""
ASKED_OFTEN_S = 60.0
"""For how long after it: Slurm's KillWait is 30 s by default, a `--signal` comes long before."""
JITTER_FROM_HZ = 10.0
_NS = 1_000_000_000


class SamplePlan(NamedTuple):
    """How often and how long; `meta` is what META says beside GPUs and columns."""

    hz: float
    duration_s: float | None
    meta: Mapping[str, Any]
    flush_s: float = FLUSH_S
    phase: float = 0.0
    """From 0 to 1: how much earlier the second write comes, so that nodes do not write at once."""


class SampleTools(NamedTuple):
    """Everything that the loop asks."""

    gpus: Sequence[GpuCounters]
    host: HostSources
    sink: SampleSpool
    clock: SignalClock
    watch: JobEnd
    beat: Beat
    progress: Callable[[int, float], None] | None = None


class Schedule:
    """Ticks at begin + n periods, never drifting; those that were missed are left out.

    One that jitters comes at a random moment of its period: a sensor and a load that repeat
    themselves would otherwise be met at the same phase for ever (accounting.md 3.2: up to 63 %
    off). The generator is that of Numerical Recipes, 3rd ed., chapter 7.1: `random` costs more to
    load than all it is used for.
    """

    def __init__(self, begin_ns: int, period_ns: int, *, jitters: bool) -> None:
        self._begin_ns = begin_ns
        self._period_ns = period_ns
        self._jitters = jitters
        self._index = 0
        self._state = 1

    def next_ns(self, now_ns: int) -> int:
        """When the next tick is due, after `now_ns`."""
        self._index = max(self._index, (now_ns - self._begin_ns) // self._period_ns - 1)
        while True:
            self._index += 1
            due_ns = self._begin_ns + self._index * self._period_ns
            if self._jitters:
                self._state = (self._state * 1664525 + 1013904223) & 0xFFFFFFFF
                due_ns += (self._state * self._period_ns) >> 32
            if due_ns > now_ns:
                return due_ns


def must_jitter(hz: float, gpus: Sequence[GpuCounters]) -> bool:
    """Whether ticks must not be even: where any power that is read is no mean of one second.

    Below 10 Hz NVIDIA's is one (NVML_FI_DEV_POWER_AVERAGE) but for older drivers' (`usage`); over
    which time AMD's `power1_average` is one, the driver does not say.
    """
    has_moments = any(
        gpu.get("power") is not None and (gpu["power"] != "average" or gpu.get("vendor") == "amd")
        for counters in gpus
        for gpu in counters.describe()
    )
    return hz >= JITTER_FROM_HZ or has_moments


class SampleLoop:
    """One run of the sampler; `run` is called once."""

    def __init__(self, plan: SamplePlan, tools: SampleTools) -> None:
        self._plan = plan
        self._tools = tools
        self._buffer = _GpuBuffer(plan, tools)
        self._host = _HostBuffer(tools)
        self._events: list[str] = []
        self._gaps: _Gaps | None = None
        self.ticks = 0
        """Those that were taken."""

    def run(self) -> str:
        """Sample until the end, and say why it came, as the event `end` has it.

        What the tools raise passes through, after a last write.
        """
        clock = self._tools.clock
        begun = clock.now()
        self._tools.beat.begun_ns = begun.monotonic_ns
        self._say_meta(begun)
        self._event(begun.monotonic_ns, "begin", realtime_ns=begun.realtime_ns)
        self._flush(begun)
        ending = _Ending(self._plan, self._tools, begun.monotonic_ns)
        try:
            self._tick(begun, ending)
        finally:
            last = clock.now()
            self._tools.beat.begun_ns = last.monotonic_ns
            # `scancel` of a suspended job lets it go on with TERM: no tick comes between.
            self._look_for_gap(last)
            reason = ending.reason or "failure"
            self._event(last.monotonic_ns, "end", reason=reason)
            self._flush(last)
        return reason

    def _tick(self, begun: Moment, ending: _Ending) -> None:
        clock, hz = self._tools.clock, self._plan.hz
        period_ns = max(int(_NS / hz), 1)
        schedule = Schedule(
            begun.monotonic_ns, period_ns, jitters=must_jitter(hz, self._tools.gpus)
        )
        self._gaps = _Gaps(period_ns, begun)
        phase_ns = int(min(self._plan.phase, 1) * max(self._plan.flush_s - 1, 0) * _NS)
        # The first write comes a second after the begin.
        written_ns = begun.monotonic_ns - max(int(self._plan.flush_s * _NS) - _NS, 0)
        host_at = begun.monotonic_ns
        while True:
            moment = clock.now()
            now_ns = self._tools.beat.begun_ns = moment.monotonic_ns
            self._look_for_gap(moment)
            self._buffer.read(moment)
            self.ticks += 1
            if now_ns >= host_at:
                self._read_host(moment)
                is_early = now_ns < begun.monotonic_ns + HOST_OFTEN_S * _NS
                wait_s = HOST_S if is_early else HOST_PERIOD_S
                # At the next tick that comes.
                host_at = now_ns + int(wait_s * _NS) - period_ns // 2
                if self._tools.progress:
                    self._tools.progress(self.ticks, (now_ns - begun.monotonic_ns) / _NS)
            due_ns = schedule.next_ns(clock.monotonic_ns())
            # A tick that jitters may come two periods later: what there is must not wait for it.
            age_ns = max(now_ns, due_ns - _NS // 2) - written_ns
            if age_ns >= ending.flush_ns(now_ns) or self._buffer.is_full():
                self._flush(moment)
                written_ns = now_ns - phase_ns
                phase_ns = 0
            if ending.came(now_ns) or ending.comes_while_waiting(due_ns, self):
                return

    def _look_for_gap(self, moment: Moment) -> None:
        gap = self._gaps.at(moment) if self._gaps else None
        if gap:
            # The time in a block's records has 32 bits: none spans what may have been hours.
            self._flush(moment)
            self._event(moment.monotonic_ns, "gap", **gap)

    def keep_written(self) -> None:
        """Write what there is, as when waiting is long."""
        self._flush(self._tools.clock.now())

    def end_hung(self) -> None:
        """Say that it ends as something hangs, and write what there is."""
        self._event(self._tools.clock.monotonic_ns(), "end", reason="hung")
        self.keep_written()

    def _read_host(self, moment: Moment) -> None:
        if self._tools.host.changed():
            self._host.flush(self._tools.sink)
            self._say_meta(moment)
            self._host = _HostBuffer(self._tools)
        self._host.read(moment)
        for counters in self._tools.gpus:
            for event in counters.events():
                self._event(moment.monotonic_ns, **event)

    def _event(self, t_ns: int, event: str, **more: object) -> None:
        line = {"t_ns": t_ns, "event": event, **more}
        self._events.append(json.dumps(line, separators=(",", ":"), default=str))

    def _say_meta(self, moment: Moment) -> None:
        gpus = [gpu for counters in self._tools.gpus for gpu in counters.describe()]
        host = self._tools.host
        document = {
            "schema": "hpckit.samples/1",
            **self._plan.meta,
            "hz": self._plan.hz,
            "gpus": gpus,
            "host_columns": [column._asdict() for column in host.columns()],
            "host_refused": dict(host.refused()),
        }
        self._tools.sink.put(META, 1, moment, json.dumps(document, separators=(",", ":")).encode())

    def _flush(self, moment: Moment) -> None:
        sink = self._tools.sink
        if sink.wants_meta():
            self._say_meta(moment)
        self._buffer.flush(sink)
        self._host.flush(sink)
        if self._events:
            sink.put(EVENTS, 1, moment, "".join(f"{line}\n" for line in self._events).encode())
            self._events.clear()
        sink.flush()


class _GpuBuffer:
    """The records of one GPU block, packed into memory that is used again and again."""

    def __init__(self, plan: SamplePlan, tools: SampleTools) -> None:
        self._gpus = tools.gpus
        count = sum(len(counters.describe()) for counters in tools.gpus)
        self._tick_bytes = count * GPU_RECORD.size
        # A tick more than a flush period has, and room for those that jitter moves into it.
        self._data = bytearray(self._tick_bytes * (int(plan.hz * plan.flush_s) + 4))
        self._used = 0
        self._begun: Moment | None = None

    def read(self, moment: Moment) -> None:
        """One record for each GPU."""
        if not self._tick_bytes:
            return
        begun = self._begun
        if begun is None:
            begun = self._begun = moment
        used = self._used
        for counters in self._gpus:
            used = counters.read_into(self._data, used, begun.monotonic_ns)
        self._used = used

    def is_full(self) -> bool:
        """Whether another tick might not fit."""
        return self._used + self._tick_bytes > len(self._data)

    def flush(self, sink: SampleSpool) -> None:
        """Hand the block over, if there is one."""
        if self._begun is not None and self._used:
            payload = bytes(memoryview(self._data)[: self._used])
            sink.put(GPU, GPU_RECORD.size, self._begun, payload)
        self._used, self._begun = 0, None


class _HostBuffer:
    def __init__(self, tools: SampleTools) -> None:
        self._host = tools.host
        self._clock = tools.clock
        columns = len(tools.host.columns())
        self._record = struct.Struct(f"<I4x{columns}Q") if columns else None
        self._data = bytearray()
        self._begun: Moment | None = None

    def read(self, moment: Moment) -> None:
        """One record of the host's columns."""
        values = self._host.read()
        if self._record is None:
            return
        if self._begun is None:
            self._begun = moment
        dt_us = (self._clock.monotonic_ns() - self._begun.monotonic_ns) // 1000
        self._data += self._record.pack(max(dt_us, 0) & 0xFFFFFFFF, *values)

    def flush(self, sink: SampleSpool) -> None:
        """Hand the block over, if there is one."""
        if self._begun is not None and self._record is not None:
            sink.put(HOST, self._record.size, self._begun, bytes(self._data))
        self._data.clear()
        self._begun = None


class _Gaps:
    """Ticks that did not come: the process was stopped, or the machine slept."""

    def __init__(self, period_ns: int, last: Moment) -> None:
        self._last = last
        self._least_ns = max(2 * _NS, 3 * period_ns)

    def at(self, moment: Moment) -> dict[str, int] | None:
        """The gap before this tick, if there was one."""
        last, self._last = self._last, moment
        # CLOCK_MONOTONIC stands still while the machine sleeps, CLOCK_BOOTTIME does not.
        slept_ns = (moment.boottime_ns - last.boottime_ns) - (
            moment.monotonic_ns - last.monotonic_ns
        )
        awake_ns = moment.monotonic_ns - last.monotonic_ns
        if awake_ns + slept_ns < self._least_ns:
            return None
        return {"from_ns": last.monotonic_ns, "slept_ns": max(slept_ns, 0)}


class _Ending:
    """When it is over: by duration, by the job's end, or on request once no rank is left."""

    _WATCH_NS = _NS

    def __init__(self, plan: SamplePlan, tools: SampleTools, begun_ns: int) -> None:
        self._tools = tools
        self._flush_ns = int(plan.flush_s * _NS)
        self._until_ns = None if plan.duration_s is None else begun_ns + int(plan.duration_s * _NS)
        self._watch_at = begun_ns + self._WATCH_NS
        self._asked_at: int | None = None
        self._look_at = 0
        self.reason: str | None = None

    def came(self, now_ns: int) -> bool:
        """Whether it is over by now."""
        if self._until_ns is not None and now_ns >= self._until_ns:
            self.reason = "duration"
        elif self._asked_at is not None:
            self._look_for_ranks(now_ns, self._asked_at)
        if self.reason is None and now_ns >= self._watch_at:
            self._watch_at = now_ns + self._WATCH_NS
            self.reason = self._tools.watch.over()
        return self.reason is not None

    def flush_ns(self, now_ns: int) -> int:
        """How far apart writes are at this moment."""
        asked_at = self._asked_at
        is_near = asked_at is not None and now_ns - asked_at < ASKED_OFTEN_S * _NS
        return min(self._flush_ns, int(ASKED_FLUSH_S * _NS)) if is_near else self._flush_ns

    def comes_while_waiting(self, due_ns: int, loop: SampleLoop) -> bool:
        """Wait for the next tick, in pieces where it is far, and say whether the end came."""
        clock = self._tools.clock
        if self._until_ns is not None:
            due_ns = min(due_ns, self._until_ns)
        while (now_ns := clock.monotonic_ns()) < due_ns:
            if due_ns - now_ns > self._flush_ns:
                loop.keep_written()
            step_ns = self._WATCH_NS // 4 if self._asked_at is not None else self._WATCH_NS
            if self._waited(min(due_ns, now_ns + step_ns)) and self._asked_at is None:
                self._asked_at = clock.monotonic_ns()
                self._tools.beat.is_asked = True
                # What there is now must not be lost, whoever loses patience.
                loop.keep_written()
                return self.came(self._asked_at)
            if clock.monotonic_ns() < due_ns and self.came(clock.monotonic_ns()):
                return True
        return False

    def _waited(self, until_ns: int) -> bool:
        """Wait, which alone is no work that may hang; whether somebody asked for the end."""
        clock, beat = self._tools.clock, self._tools.beat
        beat.begun_ns = 0
        is_asked = clock.wait_until(until_ns)
        beat.begun_ns = clock.monotonic_ns()
        return is_asked

    def _look_for_ranks(self, now_ns: int, asked_ns: int) -> None:
        """Go on while there are ranks: they may have minutes (`--signal`, GraceTime), or KILL."""
        if now_ns < self._look_at:
            return
        is_early = now_ns - asked_ns < ASKED_OFTEN_S * _NS
        self._look_at = now_ns + (self._WATCH_NS // 4 if is_early else self._WATCH_NS)
        if not self._tools.watch.has_ranks():
            self.reason = "signal"
