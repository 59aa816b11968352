"""Words of sentences that count or time something."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """`1 GPU`, `2 GPUs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def time_words(value_s: float) -> str:
    """Seconds with four digits, in the unit that shows them: `80.06 ms`."""
    for unit_s, unit in ((1.0, "s"), (1e-3, "ms")):
        if value_s >= unit_s or not value_s:
            return f"{value_s / unit_s:.4g} {unit}"
    return f"{value_s / 1e-6:.4g} µs"
