"""A comparison on one screen."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from hpckit.account.compare.show import (
    ComparedJob,
    ComparedQuantity,
    Comparison,
    Interval,
    Verdict,
    comparison_document,
    comparison_lines,
)


def job(job_id: str, *, synthetic: bool = False) -> ComparedJob:
    """A job of an hour."""
    return ComparedJob(
        job_id=job_id,
        name="train",
        state="COMPLETED",
        nodes=2,
        gpus=8,
        elapsed_s=3600.0,
        synthetic=synthetic,
    )


POWER = ComparedQuantity(
    name="power_w",
    a=500.0,
    b=530.0,
    difference=Interval(value=30.0, low=27.0, high=33.0),
    ratio=Interval(value=1.06, low=1.05, high=1.07),
    smallest_seen=4.3,
    verdict=Verdict.DIFFERS,
    method="blocks of time",
)
CLOCK = ComparedQuantity(
    name="sm_mhz",
    a=1980.0,
    b=1981.0,
    difference=Interval(value=1.0, low=-2.0, high=4.0),
    smallest_seen=4.3,
    verdict=Verdict.NOT_SEEN,
)
TENSOR = ComparedQuantity(name="tensor_active_frac", a=None, b=None, because="not measured in A")


def made(recipe: tuple[str, ...] | None = (), *, synthetic: bool = False) -> Comparison:
    """A comparison of two jobs."""
    return Comparison(
        a=job("1"),
        b=job("2", synthetic=synthetic),
        recipe=recipe,
        quantities=(CLOCK, POWER, TENSOR),
        notes=("each job is one run",),
    )


def row(lines: list[str], title: str) -> str:
    """The line of one quantity, its blanks folded."""
    (found,) = (line for line in lines if line.strip().startswith(title))
    return " ".join(found.split())


LONG = ComparedQuantity(name="cpu_s", a=0.00133, b=0.00121, difference=Interval(value=-0.00012))
USEFUL = ComparedQuantity(name="useful_frac", a=0.75, b=0.5)


@pytest.mark.parametrize(
    ("quantity", "title", "told"),
    [
        (POWER, "power", "power, W 500 530 +30.0 ± 3.00 differs +6.00 %"),
        (LONG, "CPU time", "CPU time, s 0.00133 0.00121 −0.00012"),  # two numbers, apart
        (USEFUL, "useful", "useful (known time), % 75.0 50.0"),  # as a report's is of all the time
        # No difference has the smallest that such samples show.
        (CLOCK, "SM clock", "SM clock, MHz 1980 1981 +1.00 ± 3.00 no change seen (4.30)"),
        (TENSOR, "unknown", "unknown tensor active: not measured in A"),
    ],
)
def test_a_row(quantity: ComparedQuantity, title: str, told: str) -> None:
    """Both values, the difference with half of its interval, the ratio, or why there is none."""
    lines = comparison_lines(replace(made(), quantities=(quantity,)))
    assert row(lines, title).startswith(told)


def test_long_reasons_stand_below_the_rows_once() -> None:
    """A reason is never cut: quantities that share one are named together."""
    because = "A and B are too short for such slow changes: add about 6 min each"
    names = ("power_w", "temperature_c")
    slow = [ComparedQuantity(name=name, a=60.0, b=60.0, because=because) for name in names]
    heat = ComparedQuantity(name="power_at_equal_temperature_w", a=None, b=None, because=because)
    lines = comparison_lines(replace(made(), quantities=(*slow, heat)))
    assert row(lines, "power, W") == "power, W 60.0 60.0 unknown"
    text = " ".join(" ".join(lines).split())
    assert f"unknown power, power at equal temp., temperature: {because}" in text
    assert "…" not in text


def test_the_legend_is_of_what_is_shown() -> None:
    """Without a row that says "none seen" nothing explains the word."""
    assert "no change seen (x)" in "\n".join(comparison_lines(made()))
    lines = comparison_lines(replace(made(), quantities=(POWER,)))
    assert "no change seen (x)" not in "\n".join(lines)


def test_recipes_are_compared_in_words() -> None:
    """The same, another, or unknown."""
    assert row(comparison_lines(made()), "recipe") == "recipe the same"
    assert row(comparison_lines(made(None)), "recipe").startswith("recipe unknown")
    many = tuple(f"key{number}: 1 → 2" for number in range(5))
    assert "and 2 more in --json" in "\n".join(comparison_lines(made(many)))


def test_synthetic_samples_are_said() -> None:
    """A comparison with what a made-up driver measured says so."""
    assert row(comparison_lines(made(synthetic=True), width=80), "B  train").endswith(" synthetic")
    made_up = made(synthetic=True)
    without = replace(made_up, b=replace(made_up.b, gpus=0))
    assert "synthetic" not in row(comparison_lines(without, width=120), "B  train")


def test_a_comparison_fits_a_screen() -> None:
    """24 lines of 80 columns."""
    lines = comparison_lines(made(("resources.nodes: 1 → 2",)))
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_the_document_has_its_schema() -> None:
    """And is JSON, with the words of its verdicts."""
    document = json.loads(json.dumps(comparison_document(made(), "1.0"), allow_nan=False))
    assert document["schema"] == "hpckit.comparison/1"
    assert document["quantities"][1]["verdict"] == "differs"
    assert document["quantities"][1]["difference"] == {"value": 30.0, "low": 27.0, "high": 33.0}


def test_one_node_is_one_node() -> None:
    """A size is in the singular where it is one, and a reason fits beside the values."""
    short = ComparedQuantity(name="temperature_c", a=60.2, b=60.2, because="not measured in A")
    one = replace(job("1"), nodes=1, gpus=1)
    lines = comparison_lines(replace(made(), a=one, quantities=(short,)))
    assert "1 GPU on 1 node" in lines[0]
    assert "8 GPUs on 2 nodes" in lines[1]
    (row,) = (line for line in lines if "temperature" in line)
    assert row.endswith("not measured in A")
