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


COUNTED = Energy(value_j=0.0, source=EnergySource.COUNTER)


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (words.energy_words(Energy(value_j=None, because="no counter")), "not measured"),
        (words.source_words(Energy(value_j=None, because="no counter")), "no counter"),
        (
            words.source_words(Energy(value_j=1.0, source=EnergySource.COUNTER, scope=SPLIT_GPU)),
            "counter, 0 % covered, whole GPU (all MIG instances)",
        ),
        # A measured zero is not the same as nothing measured.
        (words.energy_words(COUNTED), "0 J"),
        (words.percent(0.0), "0 %"),
        (words.transferred(0), "0 B"),
        (words.amount(0.0, "W"), "0 W"),
        (words.clock_time(0), "1970-01-01 00:00:00 UTC"),
        (words.clock_time(1e30), "1e+30 s since 1970"),  # no calendar holds it
        (words.gpu_hours(3600), "1 GPU-hour"),
        (words.gpu_hours(5400), "1.5 GPU-hours"),
        # Little is not rounded to nothing.
        (words.gib(10_800_000), "10 MiB"),
        (words.gib(0), "0 GiB"),
        (words.gib(2**31), "2 GiB"),
        (words.gib(445 << 20), "445 MiB"),
        (words.duration(0.001), "1 ms"),
        (words.duration(0.0), "0.0 s"),
        (words.duration(1.3), "1.3 s"),
        (words.pressure_words("cpu_some", 0.12), "some tasks waited for CPU 12 %"),
        (words.pressure_words("memory_full", 0.5), "all tasks waited for memory 50 %"),
        (
            words.pressure_words("node_io_some", 0.034),
            "some tasks waited for IO on the whole node 3 %",
        ),
        (words.saving_words({"limit_s": 28_200.0}), "7:50:00 of the time limit"),
    ],
)
def test_quantities(told: str, text: str) -> None:
    """Each as a person writes it, with its unit."""
    assert told == text


def test_source_words() -> None:
    """A source comes with its coverage, and with its scope where that is a module."""
    energy = Energy(value_j=1.0, source=EnergySource.COUNTER, coverage_frac=0.998, scope="module")

    assert words.source_words(energy) == "counter, 99.8 % covered, scope module"
    assert words.source_words(Energy(value_j=1.0)) == "source unknown, 0 % covered"
    assert words.source_words(Energy(value_j=None)) == "reason unknown"


def test_saving_words() -> None:
    """Savings are in the units that people pay in."""
    saving = {"gpu_s": 3600.0, "energy_j": 7200.0, "mem_bytes": 2.0 * 1024**3, "steps": 3.0}

    text = words.saving_words({**saving, "cpu_s": 1800.0})

    assert text == "1 GPU-hour, 2 Wh, 2 GiB mem, 3 steps, 0.5 CPU-hours"


def test_energies_that_are_added_up_have_one_unit() -> None:
    """A small part is written in the unit of the sum and to its digits, a sum below 1 Wh in J."""
    assert words.addends(429_980.0, 595.0, 430_575.0) == ("119.4 Wh", "0.2 Wh", "119.6 Wh")
    assert words.addends(-1e-9, 1392.0, 1392.0) == ("0 J", "1392 J", "1392 J")
    assert words.addends(5.76e6, 1.44e6, 7.2e6) == ("1.600 kWh", "0.400 kWh", "2.000 kWh")
    assert words.addends(0.0, 35_999_990.0) == ("0.00 kWh", "10.00 kWh")
    assert words.addends(0.0, 0.0) == ("0 J", "0 J")
