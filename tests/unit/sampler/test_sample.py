"""The sampling loop, on a clock that only waiting moves."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from hpckit.sampler.guard import Beat
from hpckit.sampler.loop import SampleLoop, SamplePlan, SampleTools
from tests.fakes.sampling import (
    BEGIN_NS,
    NS,
    FakeClock,
    FakeGpus,
    FakeHost,
    FakeSink,
    FakeWatch,
)


class Bench:
    """A loop and the fakes that it runs on."""

    def __init__(self, gpus: int = 2) -> None:
        self.clock = FakeClock()
        self.gpus = FakeGpus(self.clock, gpus)
        self.host = FakeHost()
        self.sink = FakeSink()
        self.watch = FakeWatch()
        self.beat = Beat()

    def run(self, hz: float, duration_s: float | None, phase: float = 0.0) -> tuple[str, int]:
        """Run the loop to its end: why it came, and after how many ticks."""
        plan = SamplePlan(hz=hz, duration_s=duration_s, meta={"node": "n1"}, phase=phase)
        tools = SampleTools(
            gpus=[self.gpus],
            host=self.host,
            sink=self.sink,
            clock=self.clock,
            watch=self.watch,
            beat=self.beat,
        )
        loop = SampleLoop(plan, tools)
        return loop.run(), loop.ticks

    def at_tick(self, tick: int, work: Callable[[], object]) -> None:
        """Let something happen while the GPUs are read for the n-th time."""

        def before(count: int) -> None:
            if count == tick:
                work()

        self.gpus.before = before

    def stops(self, seconds: float) -> None:
        """The process stands still."""
        self.clock.monotonic += int(seconds * NS)

    def seconds(self) -> list[float]:
        """When the first GPU was sampled, since the begin."""
        return [(at - BEGIN_NS) / NS for at in self.sink.gpu_times_ns()]


@pytest.fixture
def bench() -> Bench:
    """A loop with two GPUs."""
    return Bench()


@pytest.mark.parametrize(("stop_s", "at_s"), [(0, [0, 1, 2, 3, 4, 5]), (3.5, [0, 1, 5])])
def test_ticks_come_at_multiples_of_the_period(
    bench: Bench, stop_s: float, at_s: list[int]
) -> None:
    """However long a reading takes, and at the end; those missed in a stop are left out."""
    bench.gpus.before = lambda count: bench.stops(stop_s if stop_s and count == 2 else 1 / 3)
    assert bench.run(1.0, 5.0) == ("duration", len(at_s))
    assert [(at - BEGIN_NS) / NS for at in bench.gpus.read_at] == at_s
    events = bench.sink.events()
    assert events[0]["event"] == "begin"
    assert (events[-1]["event"], events[-1]["reason"]) == ("end", "duration")


@pytest.mark.parametrize(
    ("hz", "duration_s", "least", "most"), [(50, 20, 19, 22), (1, 120, 70, 76), (0.5, 20, 11, 11)]
)
def test_host_is_read_once_a_second(
    bench: Bench, hz: float, duration_s: float, least: int, most: int
) -> None:
    """Whatever the rate of the GPUs; after a minute every five seconds, and at each slow tick."""
    bench.run(hz, duration_s)
    assert least <= bench.host.reads <= most


def test_from_10_hz_each_period_has_one_tick_at_any_moment(bench: Bench) -> None:
    """The phase is jittered over the whole period, so that no load can hide between samples."""
    bench.run(10.0, 60.0)
    periods = [int(at * 10) for at in bench.seconds()[1:-1]]
    phases = [at * 10 % 1 for at in bench.seconds()[1:-1]]
    assert periods == sorted(set(periods))
    assert len(periods) > 590
    assert min(phases) < 0.05
    assert max(phases) > 0.95
    assert sum(phases) / len(phases) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("said", "is_even"),
    [
        ({"vendor": "nvidia", "power": "average"}, True),
        ({"vendor": "nvidia", "power": None}, True),
        ({"vendor": "nvidia", "power": "usage"}, False),
        ({"vendor": "amd", "power": "average"}, False),
        ({"vendor": "amd", "power": "instant"}, False),
    ],
)
def test_power_that_is_no_mean_of_a_second_is_met_at_any_moment(
    bench: Bench, said: dict[str, str | None], *, is_even: bool
) -> None:
    """A load that repeats each second would meet even ticks at the same phase, at 1 Hz too."""
    bench.gpus.said = said
    _, ticks = bench.run(1.0, 300.0)
    seen = bench.seconds()[1:-1]
    phases = [at % 1 for at in seen]
    assert (max(phases) == 0) is is_even
    assert (sum(phases) / len(phases) > 0.4) is not is_even
    assert [int(at) for at in seen] == list(range(1, len(seen) + 1))
    assert 300 <= ticks <= 301


@pytest.mark.parametrize("power", ["average", "usage"])
@pytest.mark.parametrize("hz", [0.55, 1.0, 10.0, 100.0])
def test_no_block_is_older_than_5_s_when_written(hz: float, power: str) -> None:
    """A record reaches the sink within the flush period, however far the next tick is."""
    bench = Bench()
    bench.gpus.said = {"power": power}
    bench.run(hz, 30.0)
    assert bench.sink.flushes >= 7
    times = bench.sink.gpu_times_ns()
    blocks = [moment.monotonic_ns for kind, moment, _ in bench.sink.blocks if kind == 2]
    assert all(later - earlier <= 5 * NS for earlier, later in pairwise([*blocks, times[-1]]))


@pytest.mark.parametrize(("phase", "second_s"), [(0.0, 5), (0.5, 3.5), (1.0, 2)])
def test_nodes_write_at_different_moments(bench: Bench, phase: float, second_s: float) -> None:
    """The second write is up to 3 s earlier, by the node's phase, and the others 4 s apart."""
    bench.run(10.0, 20.0, phase)
    writes = [(at.monotonic_ns - BEGIN_NS) / NS for kind, at, _ in bench.sink.blocks if kind == 2]
    # A block begins with the first tick after a write.
    assert writes[1:4] == pytest.approx([1, second_s, second_s + 4], abs=0.5)


def test_first_samples_are_written_after_a_second(bench: Bench) -> None:
    """A job that is killed early leaves something."""
    seen: list[list[int]] = []
    bench.at_tick(4, lambda: seen.append(bench.sink.gpu_times_ns()))
    bench.run(1.0, 5.0)
    assert seen[0]


def test_meta_comes_first(bench: Bench) -> None:
    """The first block says what the others mean."""
    bench.run(1.0, 1.0)
    meta = bench.sink.metas()[0]
    assert bench.sink.blocks[0][0] == 1
    assert meta["schema"] == "hpckit.samples/1"
    assert meta["node"] == "n1"
    assert [gpu["uuid"] for gpu in meta["gpus"]] == ["GPU-0", "GPU-1"]
    assert meta["host_columns"] == [{"name": "reads", "kind": "counter", "wraps_at": None}]


def test_gpus_events_are_written(bench: Bench) -> None:
    """What the GPUs tell has the time at which it was told."""
    bench.gpus.news = [{"event": "gpu-lost", "gpu": 1, "why": "GpuIsLost"}]
    bench.run(1.0, 1.0)
    lost = next(event for event in bench.sink.events() if event["event"] == "gpu-lost")
    assert (lost["t_ns"], lost["gpu"]) == (BEGIN_NS, 1)


@pytest.mark.parametrize("is_asleep", [False, True])
def test_a_gap_is_an_event(bench: Bench, *, is_asleep: bool) -> None:
    """A process that was stopped, or a machine that slept, says from when on and how long.

    What CLOCK_BOOTTIME gains on CLOCK_MONOTONIC is the time that the machine slept.
    """

    def stop() -> None:
        bench.clock.slept_ns += 3600 * NS * is_asleep
        bench.stops(9 * (not is_asleep))

    bench.at_tick(3, stop)
    bench.run(1.0, 20.0)
    gap = next(event for event in bench.sink.events() if event["event"] == "gap")
    assert gap["from_ns"] == BEGIN_NS + 2 * NS
    assert gap["slept_ns"] == 3600 * NS * is_asleep


def test_a_gap_at_the_end_is_an_event_too(bench: Bench) -> None:
    """`scancel` of a suspended job lets it go on with TERM: the end comes before any tick."""
    bench.clock.ask_at(2.5)
    bench.clock.before_waiting = lambda: bench.stops(9 * (bench.clock.monotonic > BEGIN_NS + NS))
    bench.run(1.0, None)
    assert [event["event"] for event in bench.sink.events()] == ["begin", "gap", "end"]


def test_no_block_spans_a_gap(bench: Bench) -> None:
    """The time in a record has 32 bits of µs: 71 minutes."""
    bench.at_tick(3, lambda: setattr(bench.clock, "late_ns", 7200 * NS))
    bench.run(1.0, 7300.0)
    assert bench.seconds()[-1] == pytest.approx(7300)


@pytest.mark.parametrize("ranks_s", [0, 7, 600])
def test_ranks_are_sampled_to_their_end(bench: Bench, ranks_s: int) -> None:
    """After TERM nothing but ranks is waited for; `--signal=TERM@600` leaves them ten minutes."""
    bench.clock.ask_at(2.5)
    bench.watch.ranks = lambda: bench.clock.monotonic < BEGIN_NS + ranks_s * NS
    assert bench.run(1.0, None)[0] == "signal"
    assert bench.clock.monotonic == pytest.approx(BEGIN_NS + max(2.5, ranks_s) * NS, abs=NS)
    assert len(bench.seconds()) == pytest.approx(max(3, ranks_s), abs=2)


def test_kill_after_a_request_loses_a_second(bench: Bench) -> None:
    """In the first minute after TERM each second is written, later each flush period."""
    bench.clock.ask_at(2.5)
    bench.watch.ranks = lambda: bench.clock.monotonic < BEGIN_NS + 120 * NS
    bench.run(10.0, None)
    blocks = [moment.monotonic_ns - BEGIN_NS for kind, moment, _ in bench.sink.blocks if kind == 2]
    early = [at for at in blocks if 3 * NS < at < 62 * NS]
    assert all(later - earlier < 1.3 * NS for earlier, later in pairwise(early))
    assert len([at for at in blocks if 64 * NS < at < 119 * NS]) <= 15


@pytest.mark.parametrize(("why", "duration_s"), [("parent gone", None), ("duration", 20.0)])
def test_other_ends_hold_after_a_request(bench: Bench, why: str, duration_s: float | None) -> None:
    """Ranks that stay do not keep it beyond its duration or its parent's end."""
    bench.clock.ask_at(2.5)

    def ranks() -> bool:
        is_late = why == "parent gone" and bench.clock.monotonic > BEGIN_NS + 20 * NS
        bench.watch.why = why if is_late else None
        return True

    bench.watch.ranks = ranks
    assert bench.run(1.0, duration_s)[0] == why


def test_request_is_heard_between_slow_ticks(bench: Bench) -> None:
    """At 0.01 Hz a TERM is not heard 100 s later."""
    bench.clock.ask_at(2.5)
    bench.run(0.01, None)
    assert bench.clock.monotonic == BEGIN_NS + int(2.5 * NS)


def test_job_that_is_over_ends_it(bench: Bench) -> None:
    """The watch is asked about once a second, and its word is the reason."""
    bench.at_tick(4, lambda: setattr(bench.watch, "why", "parent gone"))
    assert bench.run(1.0, None) == ("parent gone", 4)


def test_meta_is_said_again(bench: Bench) -> None:
    """For a file that somebody removed, and for other columns: records of before come before it."""
    bench.at_tick(3, lambda: setattr(bench.sink, "anew", True))
    bench.run(1.0, 9.0)
    assert len(bench.sink.metas()) == 2
    bench = Bench()
    bench.at_tick(3, lambda: setattr(bench.host, "news", True))
    bench.run(1.0, 4.0)
    kinds = [kind for kind, _, _ in bench.sink.blocks]
    second = [at for at, kind in enumerate(kinds) if kind == 1][1]
    assert 3 in kinds[:second]
    assert 3 in kinds[second:]


def test_node_without_gpus_is_sampled() -> None:
    """Host columns are written where there is no GPU."""
    bench = Bench(gpus=0)
    bench.run(1.0, 5.0)
    assert bench.sink.gpu_times_ns() == []
    assert bench.sink.host_blocks() >= 1


def test_failure_is_written_and_passed_on(bench: Bench) -> None:
    """What a port raises ends the loop after a last write that says so."""

    def fail(count: int) -> None:
        if count == 4:
            raise ZeroDivisionError

    bench.gpus.before = fail
    with pytest.raises(ZeroDivisionError):
        bench.run(1.0, None)
    assert bench.sink.events()[-1]["reason"] == "failure"
    assert len(bench.seconds()) == 3


def test_beat_is_zero_while_waiting_alone(bench: Bench) -> None:
    """The watchdog sees when a tick or the last write began, and nothing is under way between."""
    seen: list[int] = []
    waiting: list[int] = []
    bench.gpus.before = lambda _: seen.append(bench.beat.begun_ns)
    bench.clock.before_waiting = lambda: waiting.append(bench.beat.begun_ns)
    bench.run(1.0, 2.0)
    assert (seen, waiting) == ([BEGIN_NS, BEGIN_NS + NS, BEGIN_NS + 2 * NS], [0, 0])
    assert bench.beat.begun_ns == BEGIN_NS + 2 * NS


def test_looking_for_ranks_is_under_a_beat(bench: Bench) -> None:
    """After a request to end the watchdog sees all that is done, and knows of the request."""
    seen: list[tuple[int, bool]] = []

    def look() -> bool:
        seen.append((bench.beat.begun_ns, bench.beat.is_asked))
        return len(seen) < 3

    bench.watch.ranks = look
    bench.clock.ask_at(2.5)
    bench.run(1.0, None)
    assert len(seen) == 3
    assert all(begun_ns >= BEGIN_NS + 2.5 * NS and is_asked for begun_ns, is_asked in seen)
