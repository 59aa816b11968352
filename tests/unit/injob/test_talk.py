"""What the code inside a job writes."""

from __future__ import annotations

import json

from hpckit.core.talk import json_text


def test_it_is_the_json_of_the_module_json() -> None:
    """Also of surrogates that stand alone, as Python has them for bytes that are no UTF-8."""
    texts = ["", 'a"b\\\n\x00\x7f', "é€😀", "\udcff", "\ud83d"]
    scalars = [None, True, False, 0, -1, 1 << 70, 0.1, -0.0, 1e300, 5e-324, *texts]
    for value in (scalars, dict.fromkeys(texts, scalars), {"a": [{}, [], [[{"b": scalars}]]]}):
        assert json_text(value) == json.dumps(value, separators=(",", ":"))
