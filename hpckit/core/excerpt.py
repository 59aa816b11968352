"""The error that shows where a capture is not in its format: a short line, and a caret below."""

from __future__ import annotations

from collections.abc import Sequence

from hpckit.core.errors import InvalidValue, ParseError

_WIDTH = 100
_BEFORE = 60


def refusal(
    message: str, *, tool: str, line_no: int, line: str, column: int = 1, expected: str
) -> ParseError:
    """A ParseError for a line of any length: what is shown lies around `column`, counted from 1.

    What cannot be printed is shown as `?`, so that the caret stands below what it means.
    """
    at = min(max(column, 1), len(line) + 1)
    start = max(0, at - 1 - _BEFORE) if len(line) > _WIDTH else 0
    shown = "".join(char if char.isprintable() else "?" for char in line[start : start + _WIDTH])
    return ParseError(
        message, tool=tool, line_no=line_no, line=shown, column=at - start, expected=expected
    )


def refuse_text(message: str, *, tool: str, lines: Sequence[str], expected: str) -> ParseError:
    """The same for a text that holds nothing of its format: its first line that is not blank."""
    line_no, line = next(
        ((at, line) for at, line in enumerate(lines, start=1) if line.strip()), (1, "")
    )
    return refusal(message, tool=tool, line_no=line_no, line=line, expected=expected)


def refuse_node(error: InvalidValue, tool: str) -> ParseError:
    """The same for what is in its format and says what no node can be; it has no line."""
    message = f"not a valid node: {error.key}: got {error.got}"
    return refusal(message, tool=tool, line_no=1, line="", expected=error.expected)
