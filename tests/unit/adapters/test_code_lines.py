"""Byte code without columns."""

from __future__ import annotations

import marshal
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

from hpckit.adapters.code_lines import without_columns

ROOT = Path(__file__).parents[3]
FILES = ("hpckit/injob/sample.py", "hpckit/decide/placement_packing.py", "hpckit/model/job.py")
LONG = "x = [\n" + "1,\n" * 3000 + "]\n" + "\n" * 5000 + "y = (lambda: (yield))\nraise KeyError\n"


def nested(code: CodeType) -> Iterator[CodeType]:
    """A code object and all that are in it."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from nested(one)


def lines(code: CodeType) -> list[int | None]:
    """The line of each instruction."""
    return [line for start, end, line in code.co_lines() for _ in range(start, end, 2)]


@pytest.mark.parametrize("source", [*FILES, LONG], ids=[*FILES, "long"])
def test_every_instruction_keeps_its_line(source: str) -> None:
    """All of a module's functions have the lines that they had, and no columns."""
    text = (ROOT / source).read_text(encoding="utf-8") if source in FILES else source
    whole = compile(text, "x.py", "exec", dont_inherit=True)
    small = without_columns(whole)
    assert [lines(code) for code in nested(small)] == [lines(code) for code in nested(whole)]
    columns = {at[2:] for code in nested(small) for at in code.co_positions()}
    assert columns == {(None, None)}
    assert len(marshal.dumps(small)) < len(marshal.dumps(whole))


def test_a_traceback_names_the_line() -> None:
    """What fails is told by its line, after ten thousand others and a jump back."""
    space: dict[str, object] = {}
    try:
        exec(without_columns(compile(LONG, "x.py", "exec")), space)  # noqa: S102
    except KeyError as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        assert (last.filename, last.lineno) == ("x.py", LONG.count("\n"))
    assert len(space["x"]) == 3000  # type: ignore[arg-type]
