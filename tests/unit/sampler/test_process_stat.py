"""/proc/PID/stat and environ."""

from __future__ import annotations

from hpckit.sampler.job_processes import parse_process_stat, variable_of

STAT = (
    b"4711 (a (b) c) S 17 1 1 0 -1 4194560 1 2 3 4 10 5 30 7 39 19 1 0 987 123456 25 "
    b"18446744073709551615 1 1 0\n"
)


def test_name_may_hold_brackets() -> None:
    """The name ends at the last bracket."""
    stat = parse_process_stat(STAT)
    assert stat is not None
    assert stat.comm == "a (b) c"


def test_cpu_time_has_that_of_children() -> None:
    """User and system time of the process and of children that were waited for are one sum."""
    stat = parse_process_stat(STAT)
    assert stat is not None
    assert (stat.ppid, stat.cpu_ticks, stat.start_ticks, stat.rss_pages) == (17, 52, 987, 25)


def test_other_text_is_no_process() -> None:
    """Half a line, or none, is not read."""
    assert parse_process_stat(b"4711 (a) S 17") is None
    assert parse_process_stat(b"") is None


def test_variable_by_its_whole_name() -> None:
    """SLURM_JOB_ID is not taken for OLD_SLURM_JOB_ID, and may come first."""
    environ = b"OLD_SLURM_JOB_ID=1\0SLURM_JOB_ID=2\0EMPTY=\0"
    assert variable_of(environ, b"SLURM_JOB_ID") == "2"
    assert variable_of(environ, b"OLD_SLURM_JOB_ID") == "1"
    assert variable_of(environ, b"EMPTY") == ""
    assert variable_of(environ, b"JOB_ID") is None
