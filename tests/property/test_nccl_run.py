"""Logs of NCCL and tables of nccl-tests: any text gives a run or a ParseError, in linear time."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpckit.comm.run.log_lines import MOST_CHARS
from hpckit.comm.run.nccl_tests import parse_nccl_run
from hpckit.comm.run.result import NcclRun
from hpckit.comm.run.rules import shortfall_findings
from hpckit.comm.run.show import ComparedRun, nccl_run_lines
from hpckit.core.errors import ParseError
from hpckit.core.fields import to_tree
from tests.fakes.slurm_records import record_text

LOG = record_text("nccl-log-2.27.7", "synthetic-two-nodes")
TABLE = record_text("nccl-tests-2.19.6", "synthetic-two-nodes")
PIECES = [
    *("NCCL INFO ", "NCCL WARN ", "n1:1:2 [0] ", "[1,0]<stdout>:", "0: ", "NCCL version 2.18.5"),
    *("NET/IB : Using ", "[0]mlx5_0:1/IB ", "[0]={", "}", "; OOB x", "Channel 00/0 : ", "0[0] -> "),
    *("1[1] via ", "P2P/", "NET/IB/0", "Pattern 4, ", "comm 0x1 rank 1 nranks 2 ", "- Init START"),
    *(
        "# ",
        "size count type ",
        "time algbw busbw #wrong ",
        "1024 256 float sum -1 ",
        "20.5 0.1 0.1 0 ",
    ),
    *("# Avg bus bandwidth : 1", "all_reduce_perf", "set by environment to ", "NCCL_ALGO "),
    *("\n", "\r\n", "\r", "\x00", "\x1b[31m", "\ufffd", "\u0663", "\x0b", "9" * 400, "{", '"args"'),
]
LONG_S = 4.0


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_any_text_gives_a_run_or_a_parse_error(text: str) -> None:
    """No order of the pieces of these formats is anything else, to the last line of the screen."""
    with suppress(ParseError):
        run = parse_nccl_run(text)
        lines = nccl_run_lines(
            ComparedRun(run=run, findings=shortfall_findings(run), predicted={}), width=80
        )
        assert all(line.text.isprintable() for line in lines)


@given(st.text(max_size=300))
def test_any_characters_give_a_run_or_a_parse_error(text: str) -> None:
    """No characters are anything else."""
    with suppress(ParseError):
        parse_nccl_run(text)


@given(st.lists(st.tuples(st.integers(0, 2**62), st.floats(0.01, 99999)), min_size=1, max_size=9))
def test_what_was_written_is_read(rows: list[tuple[int, float]]) -> None:
    """Sizes and times in nccl-tests' form come back."""
    text = "".join(
        f"{size:12d}  {size // 4:12d}  {'float':>8}  {'sum':>6}  {-1:6d}"
        + 2 * f"  {time:7.2f}  {1.5:6.2f}  {2.5:6.2f}  {0:6g}"
        + "\n"
        for size, time in rows
    )
    (one,) = parse_nccl_run(text).tests
    assert [(row.size_bytes, row.elements) for row in one.rows] == [
        (size, size // 4) for size, _ in rows
    ]
    times = [figures.time_s for row in one.rows for figures in row.figures]
    assert times == pytest.approx([round(time, 2) / 1e6 for _, time in rows for _ in range(2)])


@given(st.integers(0, len(LOG)), st.integers(0, len(LOG)))
def test_a_log_that_is_cut_or_spliced_is_read(one: int, other: int) -> None:
    """Where lines were lost, and two halves were glued, the rest is read."""
    with suppress(ParseError):
        found = parse_nccl_run(LOG[:one] + LOG[other:]).log
        assert found is None or found.unread_lines <= found.lines


def test_what_is_left_out_of_an_endless_line_is_said() -> None:
    """Only the beginning of such a line is read, and the log says so."""
    text = "n1:1:2 [0] NCCL INFO Using network IB\n" + "x" * (MOST_CHARS + 1)
    found = parse_nccl_run(text).log
    assert found is not None
    assert found.cut_lines == 1


@pytest.mark.parametrize(
    ("tool", "case"),
    [
        ("nccl-log-2.27.7", "synthetic-two-nodes"),
        ("nccl-log-2.18.5", "synthetic-sockets"),
        ("nccl-tests-2.19.6", "synthetic-two-nodes"),
        ("nccl-tests-2.19.6", "synthetic-json"),
    ],
)
def test_a_run_written_as_json_comes_back(tool: str, case: str) -> None:
    """What was read is a value that another program can take over."""
    run = parse_nccl_run(record_text(tool, case))
    assert msgspec.json.decode(msgspec.json.encode(to_tree(run)), type=NcclRun) == run


def test_other_line_ends_change_nothing() -> None:
    """CRLF, and no newline at the end, give the same."""
    for text in (LOG, TABLE):
        plain = parse_nccl_run(text)
        assert parse_nccl_run(text.replace("\n", "\r\n")) == plain
        assert parse_nccl_run(text.rstrip("\n")) == plain


def test_bytes_that_are_no_text_change_nothing_else() -> None:
    """What a decoder put in place of a broken byte leaves the rest as it was."""
    broken = LOG.replace("Using network", "\ufffdUsing network")
    found = parse_nccl_run(broken).log
    assert found is not None
    assert found.networks == ()
