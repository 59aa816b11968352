"""GPUs that two nodes claim: a UUID is one GPU's, so a name is wrong, or a file is a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpckit.model.account import GpuAccount

_MOST_TOLD: Final = 4


def twice_named(gpus: Sequence[GpuAccount]) -> list[str]:
    """A sentence for the GPUs that count on the same nodes of one incarnation, of many the first.

    A node under two names has all of its GPUs twice: that is one thing to say, not eight.
    """
    nodes: dict[tuple[int, str], dict[str, None]] = {}
    for gpu in gpus:
        nodes.setdefault((gpu.restart, gpu.uuid), {})[gpu.node] = None
    alike: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    for (restart, uuid), names in nodes.items():
        if len(names) > 1:
            alike.setdefault((restart, tuple(names)), []).append(uuid)
    found = [_sentence(uuids, names, restart) for (restart, names), uuids in alike.items()]
    rest = sum(len(uuids) for uuids in [*alike.values()][_MOST_TOLD:])
    return [*found[:_MOST_TOLD], f"and {rest} more GPUs likewise"] if rest else found


def _sentence(uuids: Sequence[str], names: Sequence[str], restart: int) -> str:
    where = f"named by {len(names)} nodes ({', '.join(names[:_MOST_TOLD])})"
    where += f" of restart {restart}" if restart else ""
    if len(uuids) == 1:
        return (
            f"GPU {uuids[0]} is {where} and counts on each: it is one GPU, or its UUID is not its"
            " own"
        )
    return (
        f"{len(uuids)} GPUs ({uuids[0]}, …) are {where} and count on each: each is one GPU, or its"
        " UUID is not its own"
    )
