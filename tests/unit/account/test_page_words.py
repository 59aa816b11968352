"""Quantities of the report's page in words."""

from __future__ import annotations

import pytest

from hpckit.account.page import figures as words
from hpckit.account.values import SPLIT_GPU, Energy, EnergySource


@pytest.mark.parametrize(
    ("value_j", "half_j", "text"),
    [
        (9.1 * 3.6e6, 0.4 * 3.6e6, "9.1 ± 0.4 kWh"),
        (12.4e6, 0.12e6, "3.44 ± 0.03 kWh"),
        (500.0, None, "500 J"),
        (500.0, 20.0, "500 ± 20 J"),
        (3600.0 * 512, 3600.0 * 5, "512 ± 5 Wh"),
        (3.6e9 * 2.5, None, "2.5 MWh"),
        (0.0, None, "0 J"),
        (-1e-9, None, "0 J"),
    ],
)
def test_joules(value_j: float, half_j: float | None, text: str) -> None:
    """An energy is in Wh, kWh or MWh, and as exact as its interval."""
    assert words.joules(value_j, half_j) == text


def test_energy_not_measured() -> None:
    """An energy without a value is not measured, and its reason is told."""
    energy = Energy(value_j=None, because="no counter")

    assert words.energy_words(energy) == "not measured"
    assert words.source_words(energy) == "no counter"


def test_a_split_gpu_is_counted_whole() -> None:
    """The page names energy that other jobs' slices have a part in."""
    energy = Energy(value_j=1.0, source=EnergySource.COUNTER, scope=SPLIT_GPU)

    assert words.source_words(energy) == "counter, 0 % covered, of the whole GPU, which MIG splits"


def test_measured_zero_is_zero() -> None:
    """A measured zero is not the same as nothing measured."""
    assert words.energy_words(Energy(value_j=0.0, source=EnergySource.COUNTER)) == "0 J"
    assert words.percent(0.0) == "0 %"
    assert words.gib(0) == "0 GiB"
    assert words.transferred(0) == "0 B"
    assert words.amount(0.0, "W") == "0 W"


@pytest.mark.parametrize(
    "text",
    [
        words.percent(None),
        words.gib(None),
        words.transferred(None),
        words.amount(None, "W"),
        words.duration(None),
        words.clock_time(None),
    ],
)
def test_none_is_not_measured(text: str) -> None:
    """None is never shown as a number."""
    assert text == "not measured"


def test_source_words() -> None:
    """A source comes with its coverage, and with its scope where that is a module."""
    energy = Energy(value_j=1.0, source=EnergySource.COUNTER, coverage_frac=0.998, scope="module")

    assert words.source_words(energy) == "counter, 99.8 % covered, scope module"
    assert words.source_words(Energy(value_j=1.0)) == "source unknown, 0 % covered"
    assert words.source_words(Energy(value_j=None)) == "nothing says why"


def test_clock_time() -> None:
    """A moment is in UTC; one that no calendar holds is a number of seconds."""
    assert words.clock_time(0) == "1970-01-01 00:00:00 UTC"
    assert words.clock_time(1e30) == "1e+30 s after 1970"


def test_gpu_hours() -> None:
    """One GPU-hour is singular."""
    assert words.gpu_hours(3600) == "1 GPU-hour"
    assert words.gpu_hours(5400) == "1.5 GPU-hours"


def test_saving_words() -> None:
    """Savings are in the units that people pay in."""
    saving = {"gpu_s": 3600.0, "energy_j": 7200.0, "mem_bytes": 2.0 * 1024**3, "steps": 3.0}

    text = words.saving_words({**saving, "time_s": 1800.0})

    assert text == "1 GPU-hour, 2 Wh, 2 GiB mem, 3 steps, 0.5 hours"


def test_little_is_not_rounded_to_nothing() -> None:
    """Some megabytes are not 0 GiB, and a millisecond is not 0 s."""
    assert [words.gib(one) for one in (10_800_000, 0, 2**31)] == ["10 MiB", "0 GiB", "2 GiB"]
    assert words.gib(445 << 20) == "445 MiB"
    assert [words.duration(one) for one in (0.001, 0.0, 1.3)] == ["1 ms", "0.0 s", "1.3 s"]


def test_a_shorter_limit_is_a_duration() -> None:
    """What a limit is shorter by is not a number of an unknown unit."""
    assert words.saving_words({"limit_s": 28_200.0}) == "7:50:00 of the time limit"


def test_energies_that_are_added_up_have_one_unit() -> None:
    """A small part is written in the unit of the sum and to its digits, a sum below 1 Wh in J."""
    assert words.addends(429_980.0, 595.0, 430_575.0) == ("119.4 Wh", "0.2 Wh", "119.6 Wh")
    assert words.addends(-1e-9, 1392.0, 1392.0) == ("0 J", "1392 J", "1392 J")
    assert words.addends(5.76e6, 1.44e6, 7.2e6) == ("1.600 kWh", "0.400 kWh", "2.000 kWh")
    assert words.addends(0.0, 35_999_990.0) == ("0.00 kWh", "10.00 kWh")
    assert words.addends(0.0, 0.0) == ("0 J", "0 J")


def test_pressure_is_told_in_words() -> None:
    """Who waited for what, and whether that is of the job or of its node."""
    assert words.pressure_words("cpu_some", 0.12) == "some tasks waited for CPU 12 %"
    assert words.pressure_words("memory_full", 0.5) == "all tasks waited for memory 50 %"
    told = words.pressure_words("node_io_some", 0.034)
    assert told == "some tasks waited for IO on the whole node 3 %"
