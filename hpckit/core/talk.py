"""What the code inside a job says: to who reads the job's error output, and in its files."""

from __future__ import annotations

import os

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping


def say(text: str, log: int | None = None) -> None:
    """Write one line to standard error, and to the descriptor `log`.

    What would steer a terminal, in a name from some file, becomes `?`. An output that is closed or
    full is no fault.
    """
    plain = "".join(map(_harmless, text))
    line = f"hpckit: {plain}\n".encode("utf-8", "surrogateescape")
    for fd in (2,) if log is None else (2, log):
        try:
            os.write(fd, line)
        except OSError:
            continue


def restart_words(env: Mapping[str, str]) -> str:
    """Return the line about a requeue before what this run of the job prints; else nothing."""
    count = env.get("SLURM_RESTART_COUNT", "0")
    return "" if count in {"", "0"} else f"requeued by Slurm: restart {count} begins here"


def _harmless(char: str) -> str:
    # Bytes of a path that are no UTF-8 go out as they came.
    is_raw_byte = "\udc80" <= char <= "\udcff"
    return char if char.isprintable() or char == "\n" or is_raw_byte else "?"


def reason(error: OSError) -> str:
    """Give the operating system's own words for an error."""
    return error.strerror or str(error)


def json_text(value: object) -> str:
    """Return a value as JSON, as json.dumps writes it.

    The module json loads `re`, and both take 4 ms of each rank: this is its encoder alone.
    """
    try:
        from _json import encode_basestring_ascii as text
        from _json import make_encoder

        encode = make_encoder(None, str, text, None, ":", ",", False, False, True)
    except (ImportError, TypeError):
        # Of a Python that has another encoder.
        import json

        return json.dumps(value, separators=(",", ":"))
    return "".join(encode(value, 0))


def sampler_on(env: Mapping[str, str]) -> str:
    """Who speaks: the samplers of all nodes and array tasks write one file, logs/sampler.log."""
    node = env.get("SLURMD_NODENAME") or os.uname().nodename
    task = env.get("SLURM_ARRAY_TASK_ID")
    return f"sampler on {node}, array task {task}" if task else f"sampler on {node}"
