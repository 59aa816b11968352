"""From when to when ranks held their GPUs."""

from __future__ import annotations

from hpckit.account.gather import NodeEvidence, claims_of
from hpckit.account.ledger import EnergyReading, Moment, RankLedger, RankStart
from hpckit.account.store import FileSampleStore

LIVES = 60


def life(number: int) -> RankLedger:
    """The life that begins at that many ns, and has no end."""
    reading = EnergyReading(uuid="GPU-1", monotonic_ns=number, energy_mj=1)
    at = Moment(realtime_ns=number, monotonic_ns=number, boottime_ns=number)
    start = RankStart(
        rank=0, local_rank=0, world_size=1, node="n1", pid=number, boot_id=None, at=at,
        gpus=(reading,), claim="visible",
    )  # fmt: skip
    return RankLedger(start=start)


def test_a_life_ends_where_the_next_begins() -> None:
    """What has no end of its own ends there; the last one runs."""
    evidence = NodeEvidence(
        node="n1", restart=0, begin_ns=0, end_ns=LIVES, realtime_offset_ns=0, boot_id=None,
        lives=tuple(life(number) for number in range(LIVES)),
    )  # fmt: skip
    claims = claims_of(FileSampleStore(), evidence, is_running=True)
    assert [one.ended_ns for one in claims] == [*range(1, LIVES), LIVES]
    assert [one.ended_by for one in claims[-2:]] == ["next-life", "running"]
