"""hpckit's own snapshot of a node: the document that `hpckit inspect --json` prints.

What the findings are follows from the topology and from this release's rules, so those of the
document are not read back.
"""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec

from hpckit.errors import ConfigError, ParseError
from hpckit.model.hardware import TOPOLOGY_SCHEMA, NodeTopology
from hpckit.parse.document import convert
from hpckit.parse.excerpt import refusal

TOOL = "topology snapshot"
_SHOWN_BYTES = 200
_BESIDE = ("schema", "hpckit", "findings")


def is_snapshot(text: str) -> bool:
    """Whether a text is one JSON object that names a schema of hpckit."""
    head = text.lstrip()[:400]
    return head.startswith("{") and '"hpckit.' in head and '"schema"' in head


def parse_snapshot(text: str) -> NodeTopology:
    """The topology in a snapshot, exactly as it was written.

    Raises ParseError for what is not JSON, another schema, unknown keys and wrong types.
    """
    tree = _object(text)
    if tree.get("schema") != TOPOLOGY_SCHEMA:
        raise _refuse(text, "schema", f"got {tree.get('schema')!r}", f'"{TOPOLOGY_SCHEMA}"')
    _refuse_halves(text, tree)
    body = {key: value for key, value in tree.items() if key not in _BESIDE}
    try:
        return convert(body, NodeTopology, TOOL)
    except ConfigError as error:
        reason = error.reason if error.key is None else f"{error.key}: {error.reason}"
        raise _refuse(text, error.key or "", reason, "what docs/reference/json.md lists") from error
    except RecursionError:
        raise _refuse(text, "", "nested too deeply", "a topology snapshot") from None


def _refuse_halves(text: str, tree: dict[str, Any]) -> None:
    """Refuse half a character: an escape of JSON can write one, and no output can."""
    try:
        json.dumps(tree, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise _refuse(text, half, f"{half} is half a character", "Unicode text") from None


def decode_snapshot(data: bytes) -> NodeTopology:
    """The topology in a snapshot that a probe of this release sent a moment ago.

    Raises ParseError. Ten times as fast as `parse_snapshot`, and an unknown key is not noticed.
    """
    try:
        return msgspec.json.decode(data, type=NodeTopology)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        text = data[:_SHOWN_BYTES].decode("utf-8", "replace")
        raise refusal(
            str(error), tool=TOOL, line_no=1, line=text, expected="a topology snapshot"
        ) from error


def read_snapshot(data: bytes) -> NodeTopology:
    """The topology in a snapshot that a probe of any release wrote to a file.

    Raises ParseError. As fast as `decode_snapshot`; it says which schema another document has.
    """
    try:
        schema = msgspec.json.decode(data, type=_Schema).schema
    except (msgspec.MsgspecError, ValueError, RecursionError):
        schema = None
    if schema != TOPOLOGY_SCHEMA:
        text = data[:_SHOWN_BYTES].decode("utf-8", "replace")
        raise _refuse(text, "schema", f"got schema {schema!r}", f'"{TOPOLOGY_SCHEMA}"')
    return decode_snapshot(data)


class _Schema(msgspec.Struct):
    schema: str | None = None


def _object(text: str) -> dict[str, Any]:
    try:
        tree = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except json.JSONDecodeError as error:
        lines = text.split("\n")
        line = lines[error.lineno - 1] if error.lineno <= len(lines) else ""
        raise refusal(
            error.msg, tool=TOOL, line_no=error.lineno, line=line, column=error.colno,
            expected="a JSON document",
        ) from error  # fmt: skip
    except (RecursionError, ValueError) as error:
        raise _refuse(text, "", f"not readable: {error}", "a JSON document") from None
    if not isinstance(tree, dict):
        raise _refuse(text, "", f"got {type(tree).__name__}", "a JSON object")
    return tree


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is no number that a node has")
    return number


def _refuse(text: str, path: str, message: str, expected: str) -> ParseError:
    """The error at the first place where the last key of `path` is written."""
    key = f'"{path.rpartition(".")[2].partition("[")[0]}"'
    for line_no, line in enumerate(text.split("\n"), start=1):
        at = line.find(key)
        if at >= 0:
            return refusal(
                message, tool=TOOL, line_no=line_no, line=line, column=at + 1, expected=expected
            )
    first = text.split("\n", 1)[0]
    return refusal(message, tool=TOOL, line_no=1, line=first, expected=expected)
