"""The command that installs a package for hpckit."""

from __future__ import annotations

import sys

from hpckit.core.files import pip_line


def test_the_pip_is_that_of_this_python() -> None:
    """Not the first in PATH, which may belong to another; what a shell would read is quoted."""
    assert pip_line("a>=1,<2").endswith(" -m pip install 'a>=1,<2'")
    assert pip_line("a").startswith(sys.executable)
