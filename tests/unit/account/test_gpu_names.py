"""GPUs that two nodes claim."""

from __future__ import annotations

from hpckit.account.fold import twice_named
from hpckit.account.values import GpuAccount
from tests.fakes.measured import gpu as measured


def gpu(uuid: str, node: str) -> GpuAccount:
    """A GPU of which only who claims it matters."""
    return measured(0, uuid=uuid, node=node)


def test_the_gpus_of_a_node_under_two_names_are_one_sentence() -> None:
    """GPUs that the same nodes name are counted in one sentence."""
    pairs = [("GPU-a", "n1"), ("GPU-b", "n1"), ("GPU-a", "n2"), ("GPU-b", "n2"), ("GPU-c", "n3")]
    assert twice_named([gpu(*pair) for pair in pairs]) == [
        "2 GPUs (GPU-a, …) are reported by 2 nodes (n1, n2) and counted on each: one GPU seen"
        " twice, or a UUID that is not unique"
    ]


def test_gpus_beyond_the_sentences_are_counted() -> None:
    """Of more groups than are told the GPUs are counted, not the groups."""
    claims = [
        gpu(f"GPU-{pair}{number}", f"{side}{pair}")
        for pair in range(6)
        for number in range(2)
        for side in ("n", "m")
    ]
    told = twice_named(claims)
    assert [one[:6] for one in told[:-1]] == ["2 GPUs"] * 4
    assert told[-1] == "and 4 more GPUs likewise"


def test_a_later_run_of_the_job_is_told_apart() -> None:
    """Of GPUs that two nodes name in two runs of a job the second sentence says of which it is."""
    runs = [
        measured(0, uuid="GPU-a", node=node, restart=restart)
        for restart in range(2)
        for node in ("n1", "n2")
    ]
    first, second = twice_named(runs)
    assert "(n1, n2) and counted" in first
    assert "(n1, n2) in restart 1 and counted" in second
