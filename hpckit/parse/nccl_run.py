"""What one file tells of a run: tables of nccl-tests, NCCL's log, or both mixed."""

from __future__ import annotations

from typing import Final

from hpckit.model.nccl_run import NcclRun
from hpckit.parse.nccl_line import raw_lines
from hpckit.parse.nccl_log import LogReader, refuse
from hpckit.parse.nccl_tests import TableReader
from hpckit.parse.nccl_tests_json import is_nccl_tests_json, parse_nccl_tests_json

TOOL: Final = "nccl run"
EXPECTED: Final = (
    "the table or JSON (-J) of nccl-tests, or NCCL's log (NCCL_DEBUG=INFO: lines of `NCCL INFO …`)"
)


def parse_nccl_run(text: str) -> NcclRun:
    """The tests and the log in a text, read once; each may be absent.

    Decode a file with `errors="replace"`: jobs write any bytes. Raises ParseError for a text with
    neither.
    """
    text = text.removeprefix("\ufeff")
    if is_nccl_tests_json(text):
        return NcclRun(tests=parse_nccl_tests_json(text))
    log, tests = LogReader(), TableReader()
    for line in raw_lines(text):
        if not log.take(line):
            tests.take(line)
    run = NcclRun(tests=tests.tests(), log=log.log())
    if not run.tests and run.log is None:
        raise refuse(text, "neither a table of nccl-tests nor a line of NCCL's", EXPECTED, TOOL)
    return run
