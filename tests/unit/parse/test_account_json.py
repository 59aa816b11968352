"""Texts and nesting in the JSON of ledgers and of META blocks."""

from __future__ import annotations

import pytest

from hpckit.errors import ParseError
from tests.fakes.ledgers import whole_ledger
from tests.unit.parse.test_account_bounds import meta_with
from tests.unit.parse.test_ledger import START, lines


@pytest.mark.parametrize("text", ["\\ud800", "a\\udfffb", "\\uD800\\ud800"])
def test_half_a_surrogate_pair_is_replaced(text: str) -> None:
    """Every text of META can be written: as a name, a label, JSON, Parquet."""
    raw = f'"{text}"'
    meta = meta_with(raw, "node")
    assert meta.node.encode().decode() == meta.node
    assert "\ufffd" in meta.node
    assert meta_with(raw, "mood").rest["mood"] == meta.node
    with pytest.raises(ParseError, match="hz"):
        meta_with(raw, "hz")


def test_a_whole_surrogate_pair_is_a_character() -> None:
    """JSON writes characters beyond U+FFFF so."""
    assert meta_with('"\\ud83d\\ude00\\ud800"', "node").node == "\U0001f600\ufffd"


def test_half_a_surrogate_pair_in_a_ledger_is_replaced() -> None:
    """Texts of a ledger can be written, too; in place of a number they are refused."""
    (life,) = whole_ledger(lines({**START, "node": "\ud800"}))
    assert life.start.node == "\ufffd"
    with pytest.raises(ParseError, match="rank"):
        whole_ledger(lines({**START, "rank": "\ud800"}))


def test_what_is_nested_deeply_is_refused() -> None:
    """What is kept of unknown keys can be written, and given to other processes."""
    assert meta_with("[" * 31 + "]" * 31, "mood").rest
    with pytest.raises(ParseError, match="nested too deeply"):
        meta_with("[" * 32 + "]" * 32, "mood")
