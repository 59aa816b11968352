"""One headless Chromium for the tests of a page; without one they are skipped and say so."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.browser.chromium import NAMES, Chromium, find_chromium


@pytest.fixture(scope="module")  # its last page is drawn until it ends
def browser() -> Iterator[Chromium]:
    """A browser; HPCKIT_REQUIRE_BROWSER=1 makes the want of one a failure."""
    program = find_chromium()
    if program is None:
        because = f"none of {', '.join(NAMES)} is on PATH, and HPCKIT_CHROMIUM names none"
        if os.environ.get("HPCKIT_REQUIRE_BROWSER") == "1":
            pytest.fail(because)
        pytest.skip(because)
    with Chromium(program) as found:
        yield found
