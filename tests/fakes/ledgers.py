"""Ledgers of which every line must be right."""

from __future__ import annotations

from hpckit.model.ledger import RankLedger
from hpckit.parse.ledger import read_ledger


def whole_ledger(text: str) -> tuple[RankLedger, ...]:
    """All lives of a rank, as `read_ledger` has them. Raises ParseError for what is no ledger."""
    lives, error = read_ledger(text)
    if error is not None:
        raise error
    return lives
