"""What the code inside a job says to the person who reads the job's error output."""

from __future__ import annotations

import os


def say(text: str) -> None:
    """Write one line to standard error; an error output that is closed or full is no fault."""
    try:
        os.write(2, f"hpckit: {text}\n".encode("utf-8", "surrogateescape"))
    except OSError:
        return


def reason(error: OSError) -> str:
    """Give the operating system's own words for an error."""
    return error.strerror or str(error)
