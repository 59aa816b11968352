"""A JSON document that stands somewhere in a text, such as a tool's output below its warnings."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from hpckit.errors import ParseError
from hpckit.parse.excerpt import refusal

_AT_MARGIN: Final = re.compile(r"^[\[{]", re.MULTILINE)
_ANYWHERE: Final = re.compile(r"[\[{]")


def json_with(text: str, key: str, tool: str) -> Any:
    """The document that holds `key`, a piece of it as written: the last to begin before it.

    Tools begin one at the margin; what follows it is not looked at. Raises ParseError with the
    place for what is not JSON.
    """
    end = text.find(key)
    starts = [match.start() for match in _AT_MARGIN.finditer(text, 0, max(end, 0))]
    first = _ANYWHERE.search(text)
    start = starts[-1] if starts else first.start() if first else 0
    try:
        return json.JSONDecoder().raw_decode(text, start)[0]
    except json.JSONDecodeError as error:
        raise _refusal(text, error.pos, error.msg, tool) from error
    except RecursionError as error:
        raise _refusal(text, start, "is nested too deeply", tool) from error
    except ValueError as error:
        raise _refusal(text, start, "holds a number of thousands of digits", tool) from error


def refuse_document(text: str, key: str, message: str, expected: str, tool: str) -> ParseError:
    """The error that points at the first `key` of a document that is JSON, and not this tool's."""
    return _refusal(text, max(text.find(key), 0), message, tool, expected)


def _refusal(
    text: str, at: int, message: str, tool: str, expected: str = "the tool's JSON"
) -> ParseError:
    line_no = text.count("\n", 0, at) + 1
    begin = text.rfind("\n", 0, at) + 1
    line = text[begin:].split("\n", 1)[0]
    return refusal(
        message, tool=tool, line_no=line_no, line=line, column=at - begin + 1, expected=expected
    )
