"""JSON of ledgers and sample files: text that can be written again, and no deep nesting."""

from __future__ import annotations

import json
from typing import Any, Final

MOST_DEPTH: Final = 32
"""What these records nest is 4 deep; Python itself gives up at some hundreds, in other places."""


def load(text: str) -> Any:
    r"""What a JSON text holds; halves of a surrogate pair (`\ud800`) in it become U+FFFD.

    Such halves are no character, and cannot be written as UTF-8. Raises ValueError, of which
    json.JSONDecodeError is one, and RecursionError.
    """
    tree = json.loads(text)
    is_odd = "\\ud" in text or "\\uD" in text
    if is_odd or text.count("[") + text.count("{") > MOST_DEPTH:
        return _checked(tree, MOST_DEPTH)
    return tree


def _checked(tree: Any, depth: int) -> Any:
    if isinstance(tree, str):
        return writable(tree)
    if not isinstance(tree, (dict, list)):
        return tree
    if not depth:
        raise ValueError(f"nested too deeply, more than {MOST_DEPTH}")
    if isinstance(tree, list):
        return [_checked(one, depth - 1) for one in tree]
    return {_checked(key, depth): _checked(value, depth - 1) for key, value in tree.items()}


def writable(text: str) -> str:
    """The text with U+FFFD for halves of a surrogate pair, which no encoding has."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
