"""The option that rewrites golden files."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--update-golden`; it is known where tests/golden is named on the command line."""
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the expected files of tests/golden"
    )
