"""Asking a driver that may be slow, refuse, or never answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from hpckit.core.identity import Identity
from hpckit.injob import counter
from hpckit.injob.counter import START_LIMIT_S, GpuWatch, read
from hpckit.sampler.gpus import NvmlRefused
from tests.fakes.running import until

if TYPE_CHECKING:
    from hpckit.injob.counter import Find, Gpu
    from hpckit.sampler.gpus import ParentOf

ONLY = Identity(0, 1, 0, 1, 0)


class ScriptedGpu:
    """A GPU whose counter goes through `values` and stays at the last; an exception is raised.

    `before` is called as often as it was asked, with that number.
    """

    def __init__(
        self,
        values: Sequence[int | Exception],
        uuid: str = "GPU-a",
        before: Callable[[int], object] = lambda _: None,
    ) -> None:
        self.uuid = uuid
        self._before, self._asked = before, 0
        self._values = list(values)

    @property
    def is_at_the_last(self) -> bool:
        """Whether the next value is the one that stays."""
        return len(self._values) == 1

    def energy_mj(self) -> int:
        """The next value."""
        self._before(self._asked)
        self._asked += 1
        value = self._values[0] if len(self._values) == 1 else self._values.pop(0)
        if isinstance(value, Exception):
            raise value
        return value


def no_slices(_uuid: str) -> None:
    """No GPU is split."""


def watching(*gpus: Gpu) -> GpuWatch:
    """A rank that watches these."""
    return GpuWatch(lambda: (list(gpus), no_slices), {}, ONLY)


def values(readings: object, field: str = "energy_mj") -> list[Any]:
    """A field of some readings."""
    assert isinstance(readings, list)
    return [reading[field] for reading in readings]


def test_the_counter_is_read_at_both_ends() -> None:
    """First and last have what the counter says then."""
    gpu = ScriptedGpu([5, 5, 5, 9])
    watch = watching(gpu)
    assert values(watch.first()["gpus"]) == [5]
    while not gpu.is_at_the_last:
        time.sleep(0.01)
    assert values(watch.last()["gpus"]) == [9]


def test_a_counter_that_stands_still_after_the_end_is_noted_so() -> None:
    """The end waits a short while; a later reading has the end's energy."""
    watch = watching(ScriptedGpu([1]))
    watch.first()
    last = watch.last()
    assert values(last["readings"]) == values(last["gpus"]) == [1]
    moments_ns = [values(last[name], "monotonic_ns")[0] for name in ("readings", "gpus")]
    assert moments_ns[0] > moments_ns[1]


def test_a_driver_that_refuses_is_quoted() -> None:
    """The error stands in the first line, and there is no GPU to read at the end."""

    def refuse() -> tuple[list[Gpu], ParentOf]:
        raise NvmlRefused("DriverNotLoaded")

    watch = GpuWatch(refuse, {}, ONLY)
    assert watch.first() == {
        "claim": "none",
        "gpus": [],
        "nvml_init_ms": None,
        "nvml_refused": "DriverNotLoaded",
    }
    assert watch.last() == {"gpus": [], "updates": [], "readings": []}


def test_a_job_without_gpus_does_not_ask_the_driver() -> None:
    """A rank that Slurm gave no GPU loads no driver, and claims nothing that it may open."""
    asked: list[bool] = []

    def find() -> tuple[list[Gpu], ParentOf]:
        asked.append(True)
        return [ScriptedGpu([5])], no_slices

    watch = GpuWatch(find, {"SLURM_JOB_ID": "7"}, ONLY)
    first = watch.first()
    assert (asked, first["claim"], first["gpus"]) == ([], "none", [])
    assert (first["nvml_init_ms"], first["nvml_refused"]) == (None, None)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NvmlRefused("NotSupported"), "NotSupported"),
        (OSError(19, "No such device"), "No such device"),
        (ValueError("no number"), "no number"),
    ],
)
def test_a_counter_that_cannot_be_read_says_why(error: Exception, reason: str) -> None:
    """Such a reading has no value, and the reason."""
    reading = read(ScriptedGpu([error]))
    assert (reading["energy_mj"], reading["refused"]) == (None, reason)


def held(gate: threading.Event) -> Find:
    """A driver that answers when the gate opens."""

    def find() -> tuple[list[Gpu], ParentOf]:
        gate.wait(30)
        return [ScriptedGpu([7])], no_slices

    return find


def test_a_driver_that_hangs_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command starts after a second, its end waits for nothing, and the line says late."""
    monkeypatch.setattr(counter, "END_LIMIT_S", 25.0)
    gate = threading.Event()
    begun_s = time.monotonic()
    watch = GpuWatch(held(gate), {}, ONLY)
    first = watch.first()
    assert START_LIMIT_S <= time.monotonic() - begun_s < START_LIMIT_S + 5
    assert (first["nvml_refused"], first["gpus"]) == ("late", [])
    begun_s = time.monotonic()
    assert watch.last() == {"gpus": [], "updates": [], "readings": []}
    assert time.monotonic() - begun_s < 20
    gate.set()


def test_a_late_answer_is_a_reading_and_no_update() -> None:
    """What comes after the command has started is not lost, and not taken for a change."""
    gate = threading.Event()
    watch = GpuWatch(held(gate), {}, ONLY)
    watch.first()
    gate.set()
    until(lambda: not watch._started.locked())
    last = watch.last()
    assert values(last["readings"])[0] == values(last["gpus"])[0] == 7
    assert last["updates"] == []


def test_what_was_read_before_a_driver_hangs_is_kept() -> None:
    """The end waits for a second: of two GPUs of which one hangs, the first has its counter."""
    gate = threading.Event()
    hanging = ScriptedGpu([3], before=lambda asked: asked and gate.wait(30))
    watch = watching(ScriptedGpu([5], "GPU-b"), hanging)
    assert values(watch.first()["gpus"]) == [5, 3]
    begun_s = time.monotonic()
    last = watch.last()
    assert time.monotonic() - begun_s < 20
    gate.set()
    assert values(last["gpus"]) == [5, None]
    assert values(last["gpus"], "uuid") == ["GPU-b", "GPU-a"]
    assert values(last["gpus"], "refused") == [None, "late"]


def test_the_end_waits_for_few_answers_of_a_slow_driver() -> None:
    """One for each GPU, one that may be under way, and one more: not one more for each."""
    asked_s: list[float] = []

    def slowly(_asked: int) -> None:
        asked_s.append(time.monotonic())
        time.sleep(0.06)

    watch = watching(*(ScriptedGpu([3], before=slowly) for _ in range(4)))
    watch.first()
    time.sleep(0.1)
    ended_s = time.monotonic()
    watch.last()
    assert sum(at_s > ended_s for at_s in asked_s) <= 4 + 2
