"""Quantities over time as paths, a map of all GPUs, and which of them are named."""

from __future__ import annotations

import base64
import re
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from hpckit.account.finding import Subject, finding, said
from hpckit.account.page.heat_map import heat_map
from hpckit.account.page.plots import Plot, TimeAxis, line, plots, time_axis
from hpckit.account.page.unusual import unusual_gpus
from hpckit.account.values import Curve, GpuAccount, JobReport
from hpckit.core.findings import Severity
from tests.fakes.report_values import Shape, training_report

REPORT = training_report(Shape(points=100))
AXIS = TimeAxis(last_s=3600.0)


def gpu(**changes: Any) -> GpuAccount:
    """A GPU of the report, changed."""
    return replace(REPORT.gpus[0], **changes)


def curve(
    name: str = "power", unit: str = "W", values: tuple[float | None, ...] = (1.0, 2.0)
) -> Curve:
    """A curve of one value a second."""
    return Curve(name=name, unit=unit, at_s=tuple(range(len(values))), values=values)


def drawn(*gpus: GpuAccount) -> tuple[Plot, ...]:
    """The plots of these GPUs."""
    report = replace(REPORT, gpus=gpus, ended_s=REPORT.started_s)
    return plots(report, time_axis(report), {})[0]


@pytest.mark.parametrize(
    ("name", "unit", "value", "shown"),
    [
        ("power", "W", 500.0, ("Power", "W", "500")),
        ("memory", "B", 32 * 1024.0**3, ("Memory", "GiB", "32")),
        ("sm_clock", "MHz", 1000.0, ("SM clock", "MHz", "1000")),
        ("throttled_by_power_cap", "%", 50.0, ("At the power limit", "%", "50")),
        ("flux", "quanta", 3.0, ("flux", "quanta", "3")),
    ],
)
def test_units(name: str, unit: str, value: float, shown: tuple[str, str, str]) -> None:
    """A curve of any unit is shown in that of people; an unknown one as it is."""
    (plot,) = drawn(gpu(curves=(curve(name, unit, (value, value)),)))

    assert (plot.title, plot.unit, plot.readings[0][2]) == shown


def test_all_gpus_are_in_one_plot() -> None:
    """A plot a quantity: grey lines, and the unusual GPUs in colours of their own."""
    named, more = unusual_gpus(REPORT)
    found, zeros = plots(REPORT, AXIS, named)

    titles = ["Utilization", "Power", "Memory", "Temperature", "SM clock"]
    assert [one.title for one in found] == [*titles, "Throttled by heat or power brake"]
    assert [one.curves.count('class="line quiet"') for one in found] == [5] * 6
    assert [one.curves.count('class="line n') for one in found] == [3] * 6
    assert (more, zeros) == (0, ())


def test_never_throttled_is_said_without_a_plot() -> None:
    """A share of throttling that was 0 throughout has no plot, and is named."""
    report = replace(REPORT, gpus=(gpu(curves=(curve("throttled", "%", (0.0, 0.0)),)),))
    assert plots(report, AXIS, {}) == ((), ("Throttled by heat or power brake",))


def test_many_gpus_are_a_median_and_a_range() -> None:
    """Of more than 16 ordinary GPUs no line each is drawn."""
    report = training_report(Shape(gpus=64, nodes=8, points=50))
    found, _ = plots(report, AXIS, unusual_gpus(report)[0])
    assert {one.curves.count('class="line quiet"') for one in found} == {1}
    assert all('class="band quiet"' in one.curves for one in found if one.key != "memory")


def test_axis_holds_the_limit() -> None:
    """The axis of power reaches over the power limit, which is a line of its own."""
    (plot,) = drawn(gpu(curves=(curve(),), power_limit_w=700.0))

    assert (plot.top, plot.readings[-1]) == (800.0, ("limit", "limit", "700"))
    assert '<path class="limit" d="M0 125h2000"/>' in plot.curves


def test_a_gap_is_a_gap() -> None:
    """What was not measured leaves a gap in the line; a value between two gaps is a dash."""
    gap = float("nan")
    two = line(np.asarray([1.0, 1, gap, 1, 1]), 2.0)
    assert two == "M2 500l5 0M17 500l5 0"
    assert line(np.asarray([gap, 1.0, gap]), 2.0) == "M5 500h5"


def test_a_line_that_stands_still_has_two_corners() -> None:
    """A thousand equal values take no more room than two."""
    assert line(np.ones(400), 1.0) == "M2 0l1995 0"


@pytest.mark.parametrize(
    ("last_s", "marked"),
    [
        (30, ["0:00", "0:05", "0:10", "0:15", "0:20", "0:25", "0:30"]),
        (3600, ["0:00", "10:00", "20:00", "30:00", "40:00", "50:00", "60:00"]),
        (5 * 3600, ["0:00", "1:00", "2:00", "3:00", "4:00", "5:00"]),
        (9e6, ["0:00", "432:00", "864:00", "1296:00", "1728:00", "2160:00"]),
    ],
)
def test_time_is_marked_as_on_a_clock(last_s: float, marked: list[str]) -> None:
    """In minutes and seconds up to an hour, then in hours and minutes; few marks at any length."""
    assert [told for _, told in TimeAxis(last_s=last_s).ticks()] == marked


def test_a_spike_shows_in_the_band() -> None:
    """A named GPU's band reaches to the extremes that its points stand for."""
    spiked = replace(curve(values=(50.0, 50.0)), lows=(40.0, 50.0), highs=(60.0, 50.0))
    report = replace(REPORT, gpus=(gpu(curves=(spiked,), power_limit_w=None),))
    (plot,), _ = plots(report, AXIS, unusual_gpus(report)[0])
    (band,) = re.findall(r'class="band n0" d="([^"]+)"', plot.curves)
    assert band == "M0 250l5 0 0 250-5 0z"  # 60 and 40 of an axis that ends at 80


@pytest.mark.parametrize(
    ("gpus", "title", "names"),
    [
        (REPORT.gpus, "Utilization of all GPUs", [f">GPU{at}<" for at in range(8)]),
        # Where nothing says how busy GPUs were, power is mapped.
        ([replace(one, curves=one.curves[:1]) for one in REPORT.gpus], "Power of all GPUs", []),
        # The runs of one GPU are one row.
        (
            [replace(REPORT.gpus[0], restart=0), REPORT.gpus[0]],
            "Utilization of all GPUs",
            ["of 1 GPU "],
        ),
    ],
)
def test_heat_map(gpus: Sequence[GpuAccount], title: str, names: list[str]) -> None:
    """It has a row a GPU, named."""
    found = heat_map(gpus, AXIS)
    assert found is not None
    assert (found.title, [name in found.rows or name in found.about for name in names]) == (
        title,
        [True] * len(names),
    )


def test_no_heat_map_without_curves() -> None:
    """Without utilization and power there is no map."""
    assert heat_map([replace(one, curves=()) for one in REPORT.gpus], AXIS) is None


def cells_of(*gpus: GpuAccount) -> NDArray[np.uint8]:
    """The cells of the map of these GPUs, as its picture has them: 255 is a hole."""
    found = heat_map(gpus, TimeAxis(last_s=max(one.curves[0].at_s[-1] for one in gpus)))
    assert found is not None
    data = base64.b64decode(found.image.removeprefix("data:image/png;base64,"))
    width, height = struct.unpack(">II", data[16:24])
    at = data.index(b"IDAT")
    (size,) = struct.unpack(">I", data[at - 4 : at])
    raw = zlib.decompress(data[at + 4 : at + 4 + size])
    return np.frombuffer(raw, np.uint8).reshape(height, width + 1)[:, 1:]


def mapped(at_s: Sequence[float], values: Sequence[float | None]) -> GpuAccount:
    """A GPU with this utilization over time."""
    return gpu(curves=(Curve(name="util", unit="%", at_s=tuple(at_s), values=tuple(values)),))


UNEVEN_S = np.arange(200) * 0.1 + np.random.default_rng(4).uniform(0, 0.09, 200) * (
    np.arange(200) > 0
)


@pytest.mark.parametrize(
    "at_s", [UNEVEN_S.tolist(), [*np.arange(0, 6, 0.1), *np.arange(8, 20, 0.1)]]
)
def test_heat_map_has_no_holes_in_measured_time(at_s: list[float]) -> None:
    """Uneven samples and a late one: what was measured holds until the next."""
    assert (cells_of(mapped(at_s, [50.0] * len(at_s))) != 255).all()


def test_heat_map_keeps_what_was_not_measured() -> None:
    """Where a curve has a gap the map has one of the same length."""
    before, after = np.arange(0, 5.05, 0.1), np.arange(10, 20.05, 0.1)
    values = [*[50.0] * len(before), None, *[50.0] * len(after)]
    (row,) = cells_of(mapped([*before, 7.5, *after], values)) == 255
    assert np.flatnonzero(row).tolist() == list(range(102, 200))


def test_heat_map_of_many_is_bounded() -> None:
    """A map of 1,024 GPUs is no larger than a picture, and names nodes."""
    found = heat_map(training_report(Shape(gpus=1024, nodes=128, points=20)).gpus, AXIS)

    assert found is not None
    assert len(found.image) < 300_000
    assert found.height < 600
    assert ">n001<" in found.rows


def named(report: JobReport) -> dict[str, str]:
    """The GPUs that are named, and what is unusual of each."""
    return {one.name: one.because for one in unusual_gpus(report)[0].values()}


def test_unusual_gpus_are_those_of_findings_and_those_that_differ() -> None:
    """The gravest finding first, then GPUs whose useful time is far from the median."""
    assert named(REPORT) == {
        "GPU7": "rank 7 · no process computed on it in 1:00:00",
        "GPU3": "rank 3 · 9 % behind its peers: it was slowed by heat 22 % of the time",
        "GPU5": "rank 5 · useful 40 % (median 63 %)",
    }


def test_what_most_gpus_have_is_not_unusual() -> None:
    """A finding on each GPU names none of them; of many unusual ones five are named."""
    each = tuple(
        finding("late-idle", Severity.WARNING, Subject(what=one.label, nodes=("n001",), restart=1),
                said("nothing ran"))
        for one in REPORT.gpus
    )  # fmt: skip
    even = tuple(replace(one, waste=REPORT.gpus[0].waste) for one in REPORT.gpus)
    ranks = tuple(replace(one, behind_frac=0.0) for one in REPORT.ranks)
    assert named(replace(REPORT, findings=each, gpus=even, ranks=ranks)) == {}

    many = unusual_gpus(training_report(Shape(gpus=64, nodes=8, points=20)))
    assert (len(many[0]), many[1]) == (5, 19)


def test_a_rank_behind_names_its_gpu() -> None:
    """Without a finding too."""
    ranks = tuple(replace(one, behind_frac=0.2 * (one.rank == 2)) for one in REPORT.ranks)
    assert named(replace(REPORT, findings=(), ranks=ranks))["GPU2"] == "rank 2 · 20 % behind"


def test_a_finding_of_an_earlier_attempt_names_the_gpu_of_it() -> None:
    """A GPU that the job had in two attempts has one line; what was found in either is said."""
    first = [replace(one, restart=0) for one in REPORT.gpus]
    about = Subject(what="GPU2", nodes=("n001",), restart=0)
    told = finding("late-idle", Severity.WARNING, about, said("nothing ran"))
    report = replace(REPORT, gpus=(*first, *REPORT.gpus), findings=(told,))

    found = named(report)

    assert found["GPU2"] == "rank 2 · nothing ran"
    assert {one.curves.count("<path") for one in plots(report, AXIS, {})[0]} <= {8, 9}
