"""A mesh and its volumes as a command line writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpckit.core.errors import ConfigError
from hpckit.spec.job import MeshAxis
from hpckit.spec.options import parse_mesh, parse_volumes


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
