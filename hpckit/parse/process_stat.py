"""/proc/PID/{stat,environ} as a sampler needs them: CPU time, memory, whose step it is."""

from __future__ import annotations

from typing import NamedTuple

_LEAST_FIELDS = 22  # after the name: state is the first, rss the 22nd


class ProcessStat(NamedTuple):
    """Fields of proc_pid_stat(5); `cpu_ticks` with those of children that were waited for."""

    comm: str
    ppid: int
    cpu_ticks: int
    start_ticks: int
    rss_pages: int


def parse_process_stat(data: bytes) -> ProcessStat | None:
    """One process; None for text that is not in the format."""
    begin, end = data.find(b"("), data.rfind(b")")
    fields = data[end + 1 :].split()
    if begin < 0 or end < begin or len(fields) < _LEAST_FIELDS:
        return None
    try:
        return ProcessStat(
            comm=data[begin + 1 : end].decode("utf-8", "replace"),
            ppid=int(fields[1]),
            cpu_ticks=sum(int(field) for field in fields[11:15]),
            start_ticks=int(fields[19]),
            rss_pages=int(fields[21]),
        )
    except ValueError:
        return None


def variable_of(environ: bytes, name: bytes) -> str | None:
    """A variable of /proc/PID/environ."""
    at = 0 if environ.startswith(name + b"=") else environ.find(b"\0" + name + b"=") + 1
    if not at and not environ.startswith(name + b"="):
        return None
    value = environ[at + len(name) + 1 :].partition(b"\0")[0]
    return value.decode("utf-8", "surrogateescape")
