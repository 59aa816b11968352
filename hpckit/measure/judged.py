"""Of which GPUs enough is known to say something about how they were used."""

from __future__ import annotations

from typing import Final

from hpckit.model.account import GpuAccount

JUDGED_S: Final = 10.0
"""Of a GPU that was held for less nothing is said: starting a framework takes as long."""
KNOWN_FRAC: Final = 0.5
"""… nor of one of which less of the time is known: missing data is no finding about a job
(job_defense_shield#13)."""


def known_s(gpu: GpuAccount) -> float:
    """For how long it is known what a GPU did."""
    return gpu.waste.total_gpu_s - gpu.waste.unknown_gpu_s


def is_judged(gpu: GpuAccount) -> bool:
    """Whether enough is known of it."""
    known = known_s(gpu)
    return known >= JUDGED_S and known >= KNOWN_FRAC * gpu.held_s
