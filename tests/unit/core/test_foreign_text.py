"""Texts and archives of others: what is odd in them is read or refused, and in time."""

from __future__ import annotations

import tarfile

import pytest

from hpckit.core.archives import tar_members
from hpckit.core.errors import ParseError
from hpckit.core.foreign_text import json_objects


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'{"a": "C:\\udata"}', r"C:\udata"),
        (r'{"a": "\\ud83d\\ude00"}', r"\ud83d\ude00"),
        (r'{"a": "\ud83d\ude00"}', "\U0001f600"),
        (r'{"a": "\\ud83d\ude00"}', None),
        (r'{"a": "\\\ud83d"}', None),
    ],
)
def test_half_a_character_is_refused_and_a_backslash_is_not(text: str, value: str | None) -> None:
    """What an escaped backslash stands before is no escape."""
    if value is None:
        with pytest.raises(ParseError, match="half a surrogate pair"):
            json_objects(text, "file")
    else:
        assert json_objects(text, "file")[0].tree == {"a": value}


def test_long_extended_headers_are_refused() -> None:
    """Python before 3.11.10 takes the square of their length to read them."""
    header = tarfile.TarInfo("long")
    header.type, header.size = tarfile.XHDTYPE, 100_000
    data = header.tobuf(tarfile.USTAR_FORMAT) + b"1" * 100_352
    with pytest.raises(ParseError, match="headers are too long"):
        list(tar_members(data, lambda _: 0))
