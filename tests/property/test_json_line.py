"""JSON as a rank writes it."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from hpckit.injob.json_line import json_text

# All code points, surrogates that stand alone among them: such are in an environment's bytes.
TEXTS = st.text(st.characters())
SCALARS = st.none() | st.booleans() | st.integers() | TEXTS
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    SCALARS | FLOATS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=20,
)


@given(VALUES)
def test_json_is_read_back(value: object) -> None:
    """What json reads is the value that was written."""
    assert json.loads(json_text(value)) == value


@given(VALUES)
def test_a_value_is_one_line_of_ascii(value: object) -> None:
    """No value has a line end in it, nor a byte that a reader could take for another character."""
    line = json_text(value)
    assert line.isascii()
    assert line.isprintable()


def test_characters_outside_the_basic_plane_are_pairs_of_surrogates() -> None:
    """As in RFC 8259, section 7."""
    assert json_text("\U0001d11e") == '"\\ud834\\udd1e"'
