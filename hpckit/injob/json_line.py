"""JSON for a rank: to load the module json costs each of them 14 ms."""

from __future__ import annotations

_LAST_ASCII = 0x7E
_FIRST_PRINTABLE = 0x20
_LAST_BASIC = 0xFFFF


def json_text(value: object) -> str:
    """A value of None, bool, int, finite float, str, list, tuple and dict as JSON, ASCII alone.

    A surrogate that stands alone, as Python has it for a byte that is no UTF-8, is written as such.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, dict):
        pairs = (f"{_string(name)}:{json_text(item)}" for name, item in value.items())
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(json_text, value)) + "]"
    return repr(value)


def _string(text: str) -> str:
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_char, text)) + '"'


def _char(char: str) -> str:
    code = ord(char)
    if char in '"\\':
        return "\\" + char
    if _FIRST_PRINTABLE <= code <= _LAST_ASCII:
        return char
    if code <= _LAST_BASIC:
        return f"\\u{code:04x}"
    code -= _LAST_BASIC + 1
    # RFC 8259, section 7: a pair of surrogates.
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
