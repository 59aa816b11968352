"""One headless Chromium for the tests of a page; without one they are skipped and say so."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.browser.axe import ABSENT, find_axe
from tests.browser.chromium import NAMES, Chromium, find_chromium


def _lacks(because: str) -> None:
    """HPCKIT_REQUIRE_BROWSER=1 makes the want of something a failure."""
    if os.environ.get("HPCKIT_REQUIRE_BROWSER") == "1":
        pytest.fail(because)
    pytest.skip(because)


@pytest.fixture(scope="module")  # its last page is drawn until it ends
def browser() -> Iterator[Chromium]:
    """A browser."""
    program = find_chromium()
    if program is None:
        _lacks(f"none of {', '.join(NAMES)} is on PATH, and HPCKIT_CHROMIUM names none")
    else:
        with Chromium(program) as found:
            yield found


@pytest.fixture(scope="module")  # before a test hides HPCKIT_AXE
def axe() -> str:
    """The text of axe-core."""
    text = find_axe()
    if text is None:
        _lacks(ABSENT)
    return text or ""
