"""What a whole job promises; meshes and arrays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpckit.core.errors import ConfigError, InvalidValue, PlanError
from hpckit.spec.job import JOB_SCHEMA, JobSpec, LaunchRequest, MeshAxis
from hpckit.spec.job import ResourceRequest as Resources
from hpckit.spec.options import (
    MOST_PARTS,
    ArrayShape,
    array_parts,
    array_shape,
    parse_mesh,
    parse_volumes,
)


def spec(**values: object) -> JobSpec:
    """A job with some values."""
    given = {"schema": JOB_SCHEMA, "name": "x", "command": ("x",), **values}
    return JobSpec(**given)  # type: ignore[arg-type]


def test_ranks() -> None:
    """Ranks are nodes times ranks a node, by default one a GPU where a launcher starts them."""
    resources = Resources(nodes=2, gpus_per_node=4)
    assert spec(resources=resources).ntasks == 2
    assert spec(resources=resources, launch=LaunchRequest(kind="mpi")).ntasks == 8


def test_an_invalid_value_says_all() -> None:
    """The error of a value carries the key, what was got and what was expected."""
    with pytest.raises(InvalidValue) as caught:
        Resources(nodes=0)
    assert (caught.value.key, caught.value.got) == ("nodes", 0)
    assert str(caught.value) == "got 0, expected 1 or more"


def test_axes_keep_their_order() -> None:
    """Innermost first, as the framework has them; spaces are nothing."""
    assert list(parse_mesh("tensor=8, pipeline = 4,data=16").items()) == [
        (MeshAxis.TENSOR, 8),
        (MeshAxis.PIPELINE, 4),
        (MeshAxis.DATA, 16),
    ]
    assert parse_volumes("data=4e9,pipeline=0") == {MeshAxis.DATA: 4e9, MeshAxis.PIPELINE: 0}


@pytest.mark.parametrize(
    "text", ["", ",", "data", "data=", "=8", "data=8,", "data=0", "data=-1", "data=1.5", "data=٣",
             "data=99999999999999999999", "DATA=8", "data=8=8", "data=8 8"]
)  # fmt: skip
def test_another_text_is_refused(text: str) -> None:
    """With the option and an example or the axes there are."""
    with pytest.raises(ConfigError) as caught:
        parse_mesh(text)
    assert "--mesh" in str(caught.value)


@pytest.mark.parametrize("text", ["data=nan", "data=inf", "data=-0.1", "data=x", "data=1e999"])
def test_bytes_are_finite(text: str) -> None:
    """And not below zero."""
    with pytest.raises(ConfigError):
        parse_volumes(text)


@given(text=st.text(max_size=60) | st.from_regex(r"[a-z=,0-9e.]{0,40}", fullmatch=True))
def test_any_text_is_a_mesh_or_an_error(text: str) -> None:
    """Never a traceback."""
    for parse in (parse_mesh, parse_volumes):
        try:
            parse(text)
        except ConfigError:
            continue


@given(sizes=st.dictionaries(st.sampled_from(list(MeshAxis)), st.integers(1, 1 << 20), min_size=1))
def test_what_is_written_is_read(sizes: dict[MeshAxis, int]) -> None:
    """Sizes and their order come back."""
    text = ",".join(f"{axis}={size}" for axis, size in sizes.items())
    assert list(parse_mesh(text).items()) == list(sizes.items())


@pytest.mark.parametrize(
    ("expression", "size", "parts"),
    [
        ("0-100", 101, [("0-100", 0)]),
        ("0-9:3,4%2", None, [("0-9:3,4%2", 0)]),
        ("7-4", 101, [("7-4", 0)]),
        ("0-101", 101, [("0-100", 0), ("0", 101)]),
        ("0-249", 101, [("0-100", 0), ("0-100", 101), ("0-47", 202)]),
        ("9000%8", 1001, [("992%8", 8008)]),
        ("0-20:7,25%3", 10, [("0-7:7%3", 0), ("4%3", 10), ("5%3", 20)]),
        ("3,1,12-13,11", 10, [("3,1", 0), ("2-3,1", 10)]),
        ("0-2500:2000", 1001, [("0", 0), ("999", 1001)]),
    ],
)
def test_an_array_falls_into_parts(
    expression: str, size: int | None, parts: list[tuple[str, int]]
) -> None:
    """Each part begins at a multiple of the size; what fits, or may fit, is as given."""
    assert [(part.expression, part.offset) for part in array_parts(expression, size)] == parts


@pytest.mark.parametrize("expression", ["0-1000000", "0-99999999999999"])
def test_a_vast_array_is_refused(expression: str) -> None:
    """An array of more parts than can be submitted raises PlanError at once."""
    with pytest.raises(PlanError, match=f"{MOST_PARTS} parts of at most 101 tasks"):
        array_parts(expression, 101)


@pytest.mark.parametrize(
    ("expression", "shape"),
    [
        ("5", (5, 5, 1, 1)),
        ("0-9:3", (0, 9, 4, 3)),
        ("0,4,8", (0, 8, 3, 1)),
        ("1,2-8:2%2", (1, 8, 5, 2)),
        ("0-9,5-14", (0, 14, 15, 1)),
    ],
)
def test_the_whole_of_an_array(expression: str, shape: tuple[int, int, int, int]) -> None:
    """First, last, count and step are what Slurm 24.11 tells the tasks of such an array."""
    first, last, count, step = shape
    assert array_shape(expression) == ArrayShape(first=first, last=last, count=count, step=step)


@pytest.mark.parametrize("expression", [None, "7-4"])
def test_no_tasks_have_no_shape(expression: str | None) -> None:
    """A job without an array, and an array that names no task, have none."""
    assert array_shape(expression) is None
