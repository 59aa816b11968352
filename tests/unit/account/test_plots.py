"""Curves of the report as panels, and panels as SVG and as numbers for a script."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from hpckit.account.finding import Subject, finding, said
from hpckit.account.page.heat_map import chosen_gpus, heat_map
from hpckit.account.page.plots import (
    PlotGroup,
    gpu_group,
    gpu_panels,
    group_svg,
    plot_data,
    rank_groups,
    thinned,
    time_ticks,
)
from hpckit.account.values import Curve, GpuAccount, Window
from hpckit.core.findings import Severity
from tests.fakes.report_values import Shape, training_report
from tests.fakes.reports import STARTED_S

REPORT = training_report(Shape(points=100))


def gpu(**changes: Any) -> GpuAccount:
    """A GPU of the report, changed."""
    return replace(REPORT.gpus[0], **changes)


def curve(
    name: str = "power", unit: str = "W", values: tuple[float | None, ...] = (1.0, 2.0)
) -> Curve:
    """A curve of one value a second."""
    return Curve(name=name, unit=unit, at_s=tuple(range(len(values))), values=values)


def group(of: GpuAccount) -> PlotGroup:
    """The panels of a GPU."""
    return gpu_group(of, "gpu-0", STARTED_S, ("GPU0 on n001", "rank 0"))


@pytest.mark.parametrize(
    ("name", "unit", "value", "shown"),
    [
        ("power", "W", 500.0, ("Power", "W", 500.0)),
        ("memory", "B", 1024.0**3, ("Memory", "GiB", 1.0)),
        ("sm_clock", "MHz", 1000.0, ("SM clock", "MHz", 1000.0)),
        ("throttled_by_power_cap", "%", 50.0, ("At the power limit", "%", 50.0)),
        ("flux", "quanta", 3.0, ("flux", "quanta", 3.0)),
    ],
)
def test_units(name: str, unit: str, value: float, shown: tuple[str, str, float]) -> None:
    """A curve of any unit is shown in that of people; an unknown one as it is."""
    (panel,) = gpu_panels(gpu(curves=(curve(name, unit, (value,)),)))

    assert (panel.title, panel.unit, round(float(panel.values[0]), 9)) == shown


@pytest.mark.parametrize(
    ("drawn", "caption"),
    [
        (curve(values=(None, None)), "Power, W · not measured"),
        (
            replace(curve(values=(1.0, 3.0)), lows=(0.0, 2.0), highs=(2.0, 9.0)),
            "Power, W · mean 2 · max 9",
        ),
    ],
)
def test_caption(drawn: Curve, caption: str) -> None:
    """Nothing measured is no zero; the highest is that of what the points stand for."""
    (panel,) = gpu_panels(gpu(curves=(drawn,)))
    assert panel.caption == caption


def test_axis_holds_the_limit() -> None:
    """The axis of power reaches over the power limit."""
    (panel,) = gpu_panels(gpu(curves=(curve(values=(1.0,)),), power_limit_w=700.0))

    assert panel.limit == 700.0
    assert panel.top == 800.0


def test_windows_are_shaded() -> None:
    """A window of idle is a rectangle, and its length stands in words beside."""
    idle = Window(kind="idle", started_s=STARTED_S + 3000, ended_s=STARTED_S + 3600)
    outside = Window(kind="no-process", started_s=STARTED_S - 50, ended_s=STARTED_S - 40)

    found = group(gpu(windows=(idle, outside)))

    assert group_svg(found).count('class="shade idle"') == len(found.panels)
    assert found.about == "rank 0 · idle 10:00"


def test_svg_has_a_gap() -> None:
    """What was not measured leaves a gap in the line; a value between two gaps is a dash."""
    found = group(gpu(curves=(curve(values=(1.0, 1.0, None, 1.0, 1.0)),)))

    line = ET.fromstring(group_svg(found)).find(".//path[@class='line power']")  # noqa: S314
    assert line is not None
    assert line.attrib["d"].count("M") == 2
    assert "h1" in group_svg(group(gpu(curves=(curve(values=(None, 1.0, None)),))))


def test_svg_is_told_in_words() -> None:
    """A picture has a role and says what it shows."""
    picture = ET.fromstring(group_svg(group(gpu())))  # noqa: S314

    assert picture.attrib["role"] == "img"
    assert "GPU0 on n001: Power, W" in picture.attrib["aria-label"]


def test_band_where_extremes_differ() -> None:
    """A band is drawn only where a point stands for more than one value."""
    assert 'class="band memory"' not in group_svg(group(gpu()))
    assert 'class="band power"' in group_svg(group(gpu()))


def test_thinned_keeps_extremes() -> None:
    """Fewer points keep the lowest, the highest and the mean."""
    (panel,) = gpu_panels(gpu(curves=(curve(values=tuple(float(at) for at in range(1000))),)))

    thin = thinned(panel, 10)

    assert thin.values.size == 10
    assert (thin.lows.min(), thin.highs.max()) == (0.0, 999.0)
    assert thin.values.mean() == pytest.approx(499.5)


def test_time_ticks() -> None:
    """An axis of an hour is marked every ten minutes, one of months has few marks too."""
    assert time_ticks(0, 3600) == ([0, 600, 1200, 1800, 2400, 3000, 3600], "minutes", 60.0)
    assert time_ticks(0, 60)[1] == "seconds"
    months = time_ticks(0, 9e7)
    assert len(months[0]) <= 8
    assert months[1] == "hours"


def test_plot_data_round_trip() -> None:
    """What the script unpacks is what was measured, to 1/65534 of its range, gaps as gaps."""
    values = (0.0, 350.0, None, 700.0)
    tree = json.loads(plot_data([group(gpu(curves=(curve(values=values),)))]))

    (panel,) = tree["groups"][0]["panels"]
    codes = np.frombuffer(base64.b64decode(panel["values"]), dtype="<u2")
    times = np.frombuffer(base64.b64decode(tree["axes"][panel["axis"]]), dtype="<f4")
    found = panel["low"] + codes / 65534 * (panel["high"] - panel["low"])
    assert list(times) == [0, 1, 2, 3]
    assert codes[2] == 65535
    assert found[[0, 1, 3]] == pytest.approx([0, 350, 700], abs=0.02)
    assert "lows" not in panel


def test_plots_of_nothing() -> None:
    """Times are held once, a curve of gaps alone is gaps, one without a point has an axis."""
    assert len(json.loads(plot_data([group(gpu())]))["axes"]) == 1
    tree = json.loads(plot_data([group(gpu(curves=(curve(values=(None,)),)))]))
    assert base64.b64decode(tree["groups"][0]["panels"][0]["values"]) == b"\xff\xff"
    found = group(gpu(curves=(curve(values=()),), windows=()))
    assert found.last_s > found.first_s
    assert "not measured" in group_svg(found)


@pytest.mark.parametrize(
    ("gpus", "title", "names"),
    [
        (REPORT.gpus, "Utilization of all GPUs", [f">GPU{at}<" for at in range(8)]),
        # Where nothing says how busy GPUs were, power is mapped.
        ([replace(one, curves=one.curves[:1]) for one in REPORT.gpus], "Power of all GPUs", []),
        # The runs of one GPU are one row.
        ([replace(REPORT.gpus[0], restart=0), REPORT.gpus[0]], "Utilization of all GPUs", ["of 1"]),
    ],
)
def test_heat_map(gpus: Sequence[GpuAccount], title: str, names: list[str]) -> None:
    """It has a row a GPU, named."""
    found = heat_map(gpus)
    assert found is not None
    assert (found.title, [name in found.svg for name in names]) == (title, [True] * len(names))


def test_no_heat_map_without_curves() -> None:
    """Without utilization and power there is no map."""
    assert heat_map([replace(one, curves=()) for one in REPORT.gpus]) is None


def cells_of(*gpus: GpuAccount) -> NDArray[np.uint8]:
    """The cells of the map of these GPUs, as its picture has them: 255 is a hole."""
    found = heat_map(gpus)
    assert found is not None
    data = base64.b64decode(found.svg.split("data:image/png;base64,")[1].split('"')[0])
    width, height = struct.unpack(">II", data[16:24])
    at = data.index(b"IDAT")
    (size,) = struct.unpack(">I", data[at - 4 : at])
    raw = zlib.decompress(data[at + 4 : at + 4 + size])
    return np.frombuffer(raw, np.uint8).reshape(height, width + 1)[:, 1:]


def mapped(at_s: Sequence[float], values: Sequence[float | None]) -> GpuAccount:
    """A GPU with this utilization over time."""
    return gpu(curves=(Curve(name="util", unit="%", at_s=tuple(at_s), values=tuple(values)),))


UNEVEN_S = np.arange(200) * 0.1 + np.random.default_rng(4).uniform(-0.045, 0.045, 200)


@pytest.mark.parametrize(
    "at_s", [UNEVEN_S.tolist(), [*np.arange(0, 6, 0.1), *np.arange(8, 20, 0.1)], [3.0]]
)
def test_heat_map_has_no_holes_in_measured_time(at_s: list[float]) -> None:
    """Uneven samples, a late one and a lone one: what was measured holds until the next."""
    assert (cells_of(mapped(at_s, [50.0] * len(at_s))) != 255).all()


def test_heat_map_keeps_what_was_not_measured() -> None:
    """Where a curve has a gap the map has one of the same length."""
    before, after = np.arange(0, 5.05, 0.1), np.arange(10, 20.05, 0.1)
    values = [*[50.0] * len(before), None, *[50.0] * len(after)]
    (row,) = cells_of(mapped([*before, 7.5, *after], values)) == 255
    assert np.flatnonzero(row).tolist() == list(range(92, 180))


def test_heat_map_of_many_is_bounded() -> None:
    """A map of 1,024 GPUs is no larger than a picture, and names nodes."""
    found = heat_map(training_report(Shape(gpus=1024, nodes=128, points=20)).gpus)

    assert found is not None
    assert len(found.svg) < 200_000
    assert ">n001<" in found.svg


def test_few_of_many_gpus() -> None:
    """Of few GPUs all are drawn; of many those of findings and the extremes, with the reason."""
    assert [reason for _, reason in chosen_gpus(REPORT)] == [""] * 8
    many = training_report(Shape(gpus=64, nodes=8, points=20))

    chosen = {f"{one.node} {one.index}": reason for one, reason in chosen_gpus(many)}

    assert len(chosen) <= 12
    assert chosen["n001 7"] == "finding gpu-unused"
    assert chosen["n001 3"] == "finding straggler"
    assert "least covered by samples" in chosen.values()


def test_finding_of_a_run_after_a_requeue() -> None:
    """Of a GPU that the job had in two runs the one is plotted that the finding is about."""
    first = [replace(one, restart=0) for one in training_report(Shape(gpus=32, points=20)).gpus]
    again = [replace(one, restart=1) for one in first]
    about = Subject(what=again[20].label, nodes=(again[20].node,), restart=1)
    named = finding("late-idle", Severity.WARNING, about, said("nothing ran"))

    chosen = chosen_gpus(replace(REPORT, gpus=(*first, *again), findings=(named,)))

    assert [one for one, why in chosen if why == "finding late-idle"] == [again[20]]


def test_rank_of_several_gpus() -> None:
    """The power of a rank of two GPUs is their sum, its utilization their mean."""
    pair = REPORT.gpus[0], REPORT.gpus[1]
    rank = replace(REPORT.ranks[0], gpus=tuple(one.uuid for one in pair))

    (found,) = rank_groups(replace(REPORT, ranks=(rank, rank, *REPORT.ranks[2:])))

    powers = [one.values for gpu in pair for one in gpu_panels(gpu, "Power")]
    busy = [one.values for gpu in pair for one in gpu_panels(gpu, "Utilization")]
    panels = {panel.title: panel for panel in found.panels}
    assert found.title == "rank 0"
    assert panels["Power"].values == pytest.approx(powers[0] + powers[1])
    assert panels["Power"].limit == 1400.0
    assert panels["Utilization"].values == pytest.approx((busy[0] + busy[1]) / 2)
    assert panels["Utilization"].top == 100.0


def test_rank_of_gpus_sampled_at_other_times() -> None:
    """GPUs that were sampled at different times are added at the times of the first."""
    early, late = gpu(curves=(curve(values=(1.0, 2.0, 3.0)),)), REPORT.gpus[1]
    late = replace(late, curves=(replace(curve(values=(10.0, 20.0)), at_s=(0.5, 1.5)),))
    rank = replace(REPORT.ranks[0], gpus=(early.uuid, late.uuid))

    (found,) = rank_groups(replace(REPORT, gpus=(early, late), ranks=(rank,)))

    assert found.panels[0].values == pytest.approx([11.0, 17.0, 23.0])


def test_few_of_many_ranks() -> None:
    """A rank of one GPU has that GPU's plot; of many others the farthest behind are drawn."""
    assert rank_groups(REPORT) == []
    many = training_report(Shape(gpus=40, nodes=5, points=20))
    pairs = zip(many.gpus[::2], many.gpus[1::2], strict=True)
    ranks = tuple(
        replace(rank, node=a.node, gpus=(a.uuid, b.uuid))
        for rank, (a, b) in zip(many.ranks, pairs, strict=False)
    )

    found = [group.title for group in rank_groups(replace(many, ranks=ranks))]

    assert len(found) == 8
    assert {"rank 3", "rank 11", "rank 19"} <= set(found)
