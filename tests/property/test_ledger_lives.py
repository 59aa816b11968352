"""Ledgers of ranks that run at once: every life comes out whole, however the lines fell."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.ledgers import whole_ledger

AT = {"realtime_ns": 3, "monotonic_ns": 2, "boottime_ns": 2}


@given(st.permutations([pid for pid in range(5) for _ in range(2)]), st.sets(st.integers(0, 4)))
def test_every_end_is_that_of_its_start(order: list[int], killed: set[int]) -> None:
    """Lives of distinct processes keep their own ends; those that were killed have none."""
    lines, begun = [], []
    for pid in order:
        if pid not in begun:
            begun.append(pid)
            lines.append({"schema": "hpckit.ledger/1", "record": "start", "rank": 0, "node": "n",
                          "local_rank": 0, "world_size": 1, "pid": pid, "boot_id": None,
                          "at": AT})  # fmt: skip
        elif pid not in killed:
            lines.append({"record": "end", "pid": pid, "at": AT, "exit_code": pid})
    lives = whole_ledger("".join(json.dumps(line) + "\n" for line in lines))
    assert [life.start.pid for life in lives] == begun
    assert [life.end and life.end.exit_code for life in lives] == [
        None if pid in killed else pid for pid in begun
    ]
