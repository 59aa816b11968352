"""Words of sentences that count something."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """`1 GPU`, `2 GPUs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
