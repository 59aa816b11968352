"""Ledgers of which every line must be right."""

from __future__ import annotations

from hpckit.account.ledger import RankLedger, read_ledger


def whole_ledger(text: str) -> tuple[RankLedger, ...]:
    """All lives of a rank, as `read_ledger` has them. Raises ParseError for what is no ledger."""
    lives, error = read_ledger(text)
    if error is not None:
        raise error
    return lives
