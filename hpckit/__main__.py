"""`python -m hpckit` is the command `hpckit`, and this is where both begin."""

import gc
import os
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
        _put_last(os.environ.get("PYTHONPATH", ""))
        from hpckit.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except SystemExit as ended:
        _end(ended)


def _end(ended: SystemExit) -> None:
    """End the process at once: to take down module after module is a twentieth of a command.

    Not where a debugger, a profiler or a thread still has something to do.
    """
    import atexit
    import contextlib
    import threading

    is_watched = sys.getprofile() or sys.gettrace() or threading.active_count() > 1
    if is_watched or not isinstance(ended.code, int):
        raise ended
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(ended.code)


def _put_last(callers: str) -> None:
    """Look into the caller's PYTHONPATH last: what stands there is for the job, such as a numpy.

    Not left out, as an hpckit of modules (Spack, EasyBuild) has its libraries there.
    """
    folders = {os.path.abspath(part) for part in callers.split(os.pathsep) if part}  # noqa: PTH100
    folders.discard(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
    last = [part for part in sys.path if part in folders]
    sys.path[:] = [part for part in sys.path if part not in folders] + last


if __name__ == "__main__":
    main()
