"""How a Python package gets into the environment that hpckit runs in."""

from __future__ import annotations

import shlex
import sys


def pip_line(*words: str) -> str:
    """The command that installs it: the pip of this Python, as another's may come first in PATH."""
    return shlex.join([sys.executable or "python3", "-m", "pip", "install", *words])
