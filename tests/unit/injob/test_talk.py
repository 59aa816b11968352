"""What the code inside a job writes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from hpckit.core.talk import json_text

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=[]))
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@given(VALUES)
def test_it_is_the_json_of_the_module_json(value: object) -> None:
    """Also of surrogates that stand alone, as Python has them for bytes that are no UTF-8."""
    assert json_text(value) == json.dumps(value, separators=(",", ":"))
