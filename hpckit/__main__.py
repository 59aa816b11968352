"""`python -m hpckit` is the command `hpckit`, and this is where both begin."""

from __future__ import annotations

import gc
import sys
from typing import NoReturn

# Imports make many objects and no garbage: the usual threshold costs a twentieth of a command.
_GC_THRESHOLD = 50_000
_INTERRUPTED = 130


def main() -> NoReturn:
    """Run the command line; the exit code is the error class's own, 130 for Ctrl-C."""
    gc.set_threshold(_GC_THRESHOLD)
    try:
        from hpckit.cli.main import main as run  # noqa: PLC0415  click is a third of these objects
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    run()


if __name__ == "__main__":
    main()
