"""`python -m hpckit` is the command `hpckit`, and this is where both begin."""

import gc
import sys

# Imports make many objects and no garbage: the usual threshold costs a twentieth of a command.
_GC_THRESHOLD = 50_000
_INTERRUPTED = 130


def main() -> None:
    """Run the command line and end; the exit code is the error class's own, 130 for Ctrl-C.

    Nothing else is loaded before: a Ctrl-C that comes while Python itself starts is not caught.
    """
    try:
        gc.set_threshold(_GC_THRESHOLD)
        from hpckit.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
