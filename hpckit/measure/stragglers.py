"""GPUs that the others of a job wait for, and what explains it.

In a job whose ranks meet at every step all of them are as fast as the slowest: that one works
while the others wait, so it is the one with more useful time, not with less. Where the waiting is
too short to be seen between samples, a straggler's SMs are busier than those of the others; where
nothing shows the waiting (no GPM), a GPU whose clock is lower at the same work is behind by that.
Waiting at steps is in short pauses: a GPU that rests for long has lost its rank, has no more to do,
or had nothing yet. That time tells nothing of its peers, and a GPU with much more or less of it
than most is no peer (`at_work_s`).
Power is not used to find stragglers: one that is held down draws less than the others, one that
has more to do draws more.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from hpckit.measure.judged import is_judged, known_s
from hpckit.measure.peers import Ordered, above
from hpckit.measure.straggler_causes import Peers, Surroundings, causes_of
from hpckit.model.account import GpuAccount, RankAccount
from hpckit.model.report_finding import Clause, Figure, said, share

BEHIND_FRAC: Final = 0.05
"""Below this share of the time a straggler is not worth a name: steps scatter by some percent."""
ACTIVITY_BEHIND_FRAC: Final = 0.1
"""SM activity also differs by what a rank has to do, as the stages of a pipeline; this much is
worth a look whatever the reason."""
CLOCK_BEHIND_FRAC: Final = 0.1
"""GPUs of one kind under one load run 8 % apart on average (Sinha et al., "Not All GPUs Are Created
Equal", arXiv 2208.11035, SC22): that is no fault."""
LEAST_USEFUL_FRAC: Final = 0.1
"""A GPU that works less than this is no peer: it is idle, and other rules name it."""
PEER_FRAC: Final = 0.25
"""Peers are in use for as long as half of the GPUs are, but for this part of it: what ran for a
tenth of the time, or alone for most of it, did not meet the others at every step."""

GpuKey = tuple[int, str, str]
"""Restart, node and uuid."""


class Straggler(Struct, frozen=True, kw_only=True):
    """A GPU behind its peers: `behind_frac` is by how much its work takes longer than theirs.

    `because` is the evidence, `causes` what explains it, the surest first; none where nothing
    does. `wasted_gpu_s` is what the others waited for it, None where waiting was not seen; what
    they waited for several is divided among these.
    """

    restart: int
    node: str
    uuid: str
    name: str
    behind_frac: float
    because: Clause
    causes: tuple[Clause, ...] = ()
    wasted_gpu_s: float | None = None


def stragglers(
    gpus: Sequence[GpuAccount], surroundings: Surroundings | None = None
) -> tuple[Straggler, ...]:
    """The stragglers of a job, by incarnation and kind of GPU; the worst first.

    A GPU of which too little is known (`hpckit.measure.judged`) is neither one nor a peer.
    """
    found: list[Straggler] = []
    for peers in _compared(gpus):
        found += _of_group(peers, surroundings or Surroundings())
    return tuple(sorted(found, key=lambda one: (-one.behind_frac, one.node, one.name)))


def _compared(gpus: Iterable[GpuAccount]) -> Iterator[dict[GpuKey, GpuAccount]]:
    """Groups of two GPUs or more of which each is measured by the others."""
    groups: dict[tuple[int, str | None], list[GpuAccount]] = {}
    for gpu in gpus:
        if is_judged(gpu) and (useful_frac(gpu) or 0.0) >= LEAST_USEFUL_FRAC:
            groups.setdefault((gpu.restart, gpu.name), []).append(gpu)
    for group in groups.values():
        peers = {key_of(gpu): gpu for gpu in _peers(group)}
        if len(peers) > 1:
            yield peers


def with_behind(
    ranks: Iterable[RankAccount], gpus: Iterable[GpuAccount], found: Iterable[Straggler]
) -> tuple[RankAccount, ...]:
    """Ranks with `behind_frac`: each is as far behind as its worst GPU.

    None where none of its GPUs was compared: too little is known of them, they did nothing, or
    there is no other that did the like.
    """
    known = {key for peers in _compared(gpus) for key in peers}
    behind = {(one.restart, one.node, one.uuid): one.behind_frac for one in found}
    return tuple(_with_behind(rank, known, behind) for rank in ranks)


def key_of(gpu: GpuAccount) -> GpuKey:
    """What tells a GPU's account from all others of the job."""
    return gpu.restart, gpu.node, gpu.uuid


def useful_frac(gpu: GpuAccount) -> float | None:
    """The useful part of the time of which something is known."""
    known = known_s(gpu)
    return gpu.waste.useful_gpu_s / known if known > 0 else None


def at_work_s(gpu: GpuAccount) -> float:
    """The time in which a process had it, without the long stretches in which nothing ran."""
    waste = gpu.waste
    rested_s = _rested_s(gpu)
    return max(0.0, waste.useful_gpu_s + waste.spin_gpu_s + waste.idle_gpu_s - rested_s)


def _rested_s(gpu: GpuAccount) -> float:
    """How long it had a process and nothing ran, in windows."""
    return math.fsum(one.ended_s - one.started_s for one in gpu.windows if one.kind == "idle")


def _waited_s(gpu: GpuAccount) -> float:
    """How long it waited in short pauses, or in kernels that do little."""
    return max(0.0, gpu.waste.idle_gpu_s - _rested_s(gpu)) + gpu.waste.spin_gpu_s


def _at_work_frac(gpu: GpuAccount) -> float:
    known = known_s(gpu)
    return at_work_s(gpu) / known if known > 0 else 0.0


def _useful_at_work(gpu: GpuAccount) -> float:
    work_s = at_work_s(gpu)
    return min(1.0, gpu.waste.useful_gpu_s / work_s) if work_s > 0 else 0.0


def _peers(gpus: Sequence[GpuAccount]) -> list[GpuAccount]:
    """Those that were in use for about as long as most."""
    usual = statistics.median(_at_work_frac(gpu) for gpu in gpus)
    return [gpu for gpu in gpus if abs(_at_work_frac(gpu) - usual) <= PEER_FRAC * usual]


def _with_behind(
    rank: RankAccount, known: Collection[GpuKey], behind: Mapping[GpuKey, float]
) -> RankAccount:
    keys = [(rank.restart, rank.node, uuid) for uuid in rank.gpus]
    if not any(key in known for key in keys):
        return rank
    return replace(rank, behind_frac=max(behind.get(key, 0.0) for key in keys))


def _of_group(gpus: Mapping[GpuKey, GpuAccount], surroundings: Surroundings) -> list[Straggler]:
    seen = _by_waiting(gpus)
    for key, one in _by_activity(gpus).items():
        seen.setdefault(key, one)
    for key, one in _by_clock(gpus).items():
        seen.setdefault(key, one)
    peers = Peers(tuple(gpus.values()))
    return [
        replace(one, causes=causes_of(gpus[key], peers, surroundings)) for key, one in seen.items()
    ]


def _by_waiting(gpus: Mapping[GpuKey, GpuAccount]) -> dict[GpuKey, Straggler]:
    """By less waiting. The others wait for the slowest, and for none of them twice."""
    useful = {key: _useful_at_work(gpu) for key, gpu in gpus.items()}
    excesses = above(useful, BEHIND_FRAC)
    most = max(excesses.values(), default=0.0)
    waiting = [gpu for key, gpu in gpus.items() if key not in excesses]
    waited_s = math.fsum(min(most * at_work_s(gpu), _waited_s(gpu)) for gpu in waiting)
    all_excess = math.fsum(excesses.values())
    found = {}
    for key, excess in excesses.items():
        others = useful[key] - excess
        words = "it worked {} of the time, the others {} and waited"
        one = _straggler(gpus[key], excess / others, words, share(useful[key]), share(others))
        found[key] = replace(one, wasted_gpu_s=waited_s * excess / all_excess)
    return found


def _by_activity(gpus: Mapping[GpuKey, GpuAccount]) -> dict[GpuKey, Straggler]:
    """By busy SMs while in use, relative to those of the others."""
    active = {key: _activity(gpu) for key, gpu in gpus.items()}
    known = {key: frac for key, frac in active.items() if frac is not None and frac > 0}
    if len(known) < len(gpus):
        return {}
    middle = statistics.median(known.values())
    found, ordered = {}, Ordered(known.values())
    for key in above({key: frac / middle for key, frac in known.items()}, ACTIVITY_BEHIND_FRAC):
        others = ordered.median_without(known[key]) or middle
        words, own = "its SMs were busy {} of the time, the others' {}", known[key]
        found[key] = _straggler(gpus[key], own / others - 1, words, share(own), share(others))
    return found


def _activity(gpu: GpuAccount) -> float | None:
    """Busy SMs in the time at work: the mean is over all of it, rest included."""
    work = _at_work_frac(gpu)
    return None if gpu.sm_active_frac is None or work <= 0 else min(1.0, gpu.sm_active_frac / work)


def _by_clock(gpus: Mapping[GpuKey, GpuAccount]) -> dict[GpuKey, Straggler]:
    """By a lower clock at no less work: a GPU that rests has a low clock as well."""
    useful = {key: useful_frac(gpu) or 0.0 for key, gpu in gpus.items()}
    clocks = {key: gpu.sm_mean_mhz for key, gpu in gpus.items()}
    known = {key: mhz for key, mhz in clocks.items() if mhz}
    if len(known) < len(gpus):
        return {}
    middle = statistics.median(useful.values())
    slowness = {key: statistics.median(known.values()) / mhz for key, mhz in known.items()}
    found, ordered = {}, Ordered(known.values())
    for key in above(slowness, CLOCK_BEHIND_FRAC):
        others = ordered.median_without(known[key]) or known[key]
        if useful[key] >= middle - BEHIND_FRAC:
            # Its cause tells both clocks: a difference of CLOCK_FRAC, which is less, is one.
            words = "it worked no less than they did, at a lower clock"
            found[key] = _straggler(gpus[key], others / known[key] - 1, words)
    return found


def _straggler(gpu: GpuAccount, behind_frac: float, words: str, *figures: Figure) -> Straggler:
    (because,) = said(f"{{}} behind its peers: {words}", share(behind_frac), *figures)
    return Straggler(
        restart=gpu.restart,
        node=gpu.node,
        uuid=gpu.uuid,
        name=gpu.label,
        behind_frac=behind_frac,
        because=because,
    )
