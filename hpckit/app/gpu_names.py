"""GPUs that two nodes claim: a UUID is one GPU's, so a name is wrong, or a file is a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpckit.model.account import GpuAccount

_MOST_TOLD: Final = 4


def twice_named(gpus: Sequence[GpuAccount]) -> list[str]:
    """A sentence for each GPU that counts on two nodes of one incarnation, of many the first."""
    nodes: dict[tuple[int, str], dict[str, None]] = {}
    for gpu in gpus:
        nodes.setdefault((gpu.restart, gpu.uuid), {})[gpu.node] = None
    found = [
        f"GPU {uuid} is named by {len(names)} nodes ({', '.join([*names][:_MOST_TOLD])}) and counts"
        f" on each: it is one GPU, or its UUID is not its own"
        for (_, uuid), names in nodes.items()
        if len(names) > 1
    ]
    rest = len(found) - _MOST_TOLD
    return [*found[:_MOST_TOLD], f"and {rest} more GPUs likewise"] if rest > 0 else found
