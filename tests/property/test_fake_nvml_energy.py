"""The truth that the fake NVML tells is the integral of its waveforms, to a nanojoule."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.nvml_library import build_fake_nvml
from tests.fakes.virtual_nvml import EPOCH_S, NS_PER_S, VirtualNvml, open_virtual

Points = list[tuple[int, int]]

_STEPS = st.lists(
    st.tuples(st.integers(0, 10**7), st.integers(0, 10**6)), min_size=1, max_size=12
)  # µs since the point before, mW


@st.composite
def waveforms(draw: st.DrawFn) -> Points:
    """Points in µs and mW, ascending from 0, with steps among them; the period is not 0."""
    points = [(0, draw(st.integers(0, 10**6)))]
    for after_us, milliwatts in draw(_STEPS):
        points.append((points[-1][0] + after_us, milliwatts))
    return [*points, (points[-1][0] + draw(st.integers(1, 10**7)), draw(st.integers(0, 10**6)))]


def joules(points: Points, seconds: Fraction) -> Fraction:
    """The integral from the epoch on, summed up segment by segment."""
    periods, rest_us = divmod(seconds * 10**6, points[-1][0])
    total, part = Fraction(0), Fraction(0)
    for (start, low), (end, high) in itertools.pairwise(points):
        if end == start:
            continue
        total += Fraction((low + high) * (end - start), 2)
        inside = min(max(rest_us - start, Fraction(0)), Fraction(end - start))
        part += inside * (low + Fraction(high - low, end - start) * inside / 2)
    return (periods * total + part) / 10**9


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the fake library."""
    return build_fake_nvml(tmp_path_factory.getbasetemp() / "fake-nvml")


def opened(library: Path, folder: Path, points: Points, keys: str = "") -> VirtualNvml:
    """A GPU that draws this."""
    text = " ".join(f"{us / 10**6:.6f}:{mw / 1000:.3f}" for us, mw in points)
    return open_virtual(library, folder, f'gpus = 1\n[gpu]\npower_w = "{text}"\n{keys}')


_SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@_SETTINGS
@given(
    points=waveforms(),
    start_ns=st.integers(0, 10 * 366 * 86400 * NS_PER_S),
    length_ns=st.integers(0, 86400 * NS_PER_S),
)
def test_truth_is_the_integral(
    library: Path, tmp_path: Path, points: Points, start_ns: int, length_ns: int
) -> None:
    """Between any two moments of ten years the truth is the exact sum, rounded down to nJ."""
    expected = joules(points, Fraction(start_ns + length_ns, NS_PER_S))
    expected -= joules(points, Fraction(start_ns, NS_PER_S))
    begin = EPOCH_S * NS_PER_S + start_ns
    with opened(library, tmp_path, points) as node:
        assert abs(node.true_nj(begin, begin + length_ns) - expected * NS_PER_S) <= 1


@_SETTINGS
@given(
    points=waveforms(),
    # The truth is told in 64 bits of nJ: at 1 kW these are 213 days.
    moments_ns=st.lists(st.integers(0, 200 * 86400 * NS_PER_S), min_size=2, max_size=10),
    update_ms=st.sampled_from([0, 20, 100]),
)
def test_counter_never_falls(
    library: Path, tmp_path: Path, points: Points, moments_ns: list[int], update_ms: int
) -> None:
    """Without injected faults the counter rises with time, and is the truth to an update."""
    with opened(library, tmp_path, points, f"energy_update_ms = {update_ms}\n") as node:
        counted = []
        for moment_ns in sorted(moments_ns):
            now_ns = node.set_ns(EPOCH_S * NS_PER_S + moment_ns)
            counted.append(node.gpu().energy_mj())
            late_mj = node.true_nj(EPOCH_S * NS_PER_S, now_ns) / 10**6 - counted[-1]
            assert -1 <= late_mj <= 1000 * update_ms + 1
    assert counted == sorted(counted)


@_SETTINGS
@given(
    points=waveforms(),
    moment_ns=st.integers(2 * NS_PER_S, 400 * 86400 * NS_PER_S),
    window_ms=st.integers(1, 1000),
)
def test_reading_is_the_mean_of_its_window(
    library: Path, tmp_path: Path, points: Points, moment_ns: int, window_ms: int
) -> None:
    """A reading is the energy of the window that the last update ended, by its length."""
    keys = f"power_update_ms = 100\npower_window_ms = {window_ms}\n"
    with opened(library, tmp_path, points, keys) as node:
        node.set_ns(EPOCH_S * NS_PER_S + moment_ns)
        read_mw = node.field(186)
        end = EPOCH_S * NS_PER_S + moment_ns // (NS_PER_S // 10) * (NS_PER_S // 10)
        drawn_nj = node.true_nj(end - window_ms * 10**6, end)
    assert isinstance(read_mw, int)
    assert abs(read_mw - drawn_nj / (window_ms * 1000)) <= 1.1
