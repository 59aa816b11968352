"""Any text as one shell word or one value of an `#SBATCH` line: exactly, or refused.

A word never spreads over two physical lines, so no text of a user can begin a line of the
script. Characters that a reviewer could not see (control and format characters, such as a
right-to-left override) are written as byte escapes in `$'...'` (bash(1), QUOTING).
"""

from __future__ import annotations

import re
import unicodedata

from hpckit.core.errors import RenderError
from hpckit.core.late import regex

_SAFE_WORD = regex(r"[A-Za-z0-9_@%+=:,./-]+", re.ASCII)
_SAFE_DIRECTIVE = regex(r"[A-Za-z0-9_@%+=:,./*&|()\[\]-]+", re.ASCII)
_SEPARATOR = regex("(pack|het)(job)", re.IGNORECASE)
_INVISIBLE = {"Cc", "Cf", "Zl", "Zp", "Co", "Cn"}
_ANSI_C = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "'": "\\'"}


def sh_word(value: object) -> str:
    """One shell word that bash reads back as exactly `value`. Raises RenderError for NUL."""
    text = _text(value)
    if _SAFE_WORD.fullmatch(text):
        return text
    if any(_hidden(char) for char in text):
        return "$'" + "".join(_escaped(char) for char in text) + "'"
    return "'" + text.replace("'", "'\\''") + "'"


def sh_line(words: object) -> str:
    """Words, each quoted, on one line. Raises RenderError."""
    if not isinstance(words, (list, tuple)):
        raise RenderError(f"got {words!r}, expected a list of words")
    return " ".join(sh_word(word) for word in words)


def sh_path(value: object) -> str:
    """A path as one shell word; a leading `~/` becomes `"$HOME"/` when the script runs."""
    text = _text(value)
    if text == "~":
        return '"$HOME"'
    if text.startswith("~/"):
        return '"$HOME"/' + sh_word(text[2:])
    return sh_word(text)


def directive_value(value: object) -> str:
    """The value of an `#SBATCH --name=` line, as sbatch's own reader takes it back.

    That reader splits at blanks, ends a line at an unquoted `#`, takes both kinds of quotes,
    and a backslash escapes the next character even inside them (src/sbatch/opt.c,
    get_argument); until 20.11 it also blanks out "packjob" and "hetjob" wherever they stand. Raises
    RenderError for a character that would end the line or hide from a reviewer.
    """
    text = _text(value)
    for char in text:
        if _hidden(char):
            raise RenderError(
                f"got U+{ord(char):04X} in {text!r}, expected printable text on one line",
                variable="#SBATCH",
            )
    if _SAFE_DIRECTIVE.fullmatch(text) and not _SEPARATOR.search(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _SEPARATOR.sub(r"\1\\\2", escaped) + '"'


def comment_text(value: object) -> str:
    """Text for a comment: hidden characters and line ends shown as `?`."""
    return "".join("?" if _hidden(char) else char for char in _text(value))


def _text(value: object) -> str:
    text = str(value)
    if "\0" in text:
        raise RenderError(f"got a NUL character in {text!r}, expected text without one")
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise RenderError(f"got bytes that are not UTF-8 in {text!r}, expected UTF-8 text")
    return text


def _hidden(char: str) -> bool:
    return unicodedata.category(char) in _INVISIBLE


def _escaped(char: str) -> str:
    if char in _ANSI_C:
        return _ANSI_C[char]
    # In a locale such as GBK the last byte of a character and a backslash can be one character.
    if _hidden(char) or not char.isascii():
        return "".join(f"\\x{byte:02x}" for byte in char.encode())
    return char
