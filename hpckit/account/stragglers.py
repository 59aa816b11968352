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
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from hpckit.account.finding import Clause, Figure, Subject, Unit, count, said, share
from hpckit.account.usage import is_judged, known_s
from hpckit.account.values import GpuAccount, GpuPlace, NodeAccount, RankAccount
from hpckit.core.index_list import expand_indices, index_list

if TYPE_CHECKING:
    from hpckit.node.topology import Gpu, NodeTopology


MAD_SIGMAS: Final = 5.0
"""So many standard deviations from the median of the others are odd: of normal scatter it is one
value in 1.7 million."""

SIGMA_OF_MAD: Final = 1.4826
"""The standard deviation of a normal distribution, by its median absolute deviation."""

Key = TypeVar("Key", bound=Hashable)


class Ordered:
    """Values in their order: medians of all but one, without sorting again for each."""

    def __init__(self, values: Iterable[float]) -> None:
        self._values = sorted(values)
        self._array = np.array(self._values, np.float64)

    def median_without(self, value: float | None) -> float | None:
        """The median without one such value, if there is one; None where none is left."""
        place, left = self._place(value)
        if left <= 0:
            return None
        middle = [self._values[at + (at >= place)] for at in ((left - 1) // 2, left // 2)]
        return sum(middle) / len(middle)

    def scatter_without(self, value: float, middle: float) -> float:
        """The standard deviation that the middle half of the others suggests, about `middle`."""
        others = np.delete(self._array, self._place(value)[0])
        return SIGMA_OF_MAD * float(np.median(np.abs(others - middle)))

    def _place(self, value: float | None) -> tuple[int, int]:
        count = len(self._values)
        place = count if value is None else bisect_left(self._values, value)
        is_there = place < count and self._values[place] == value
        return (place, count - 1) if is_there else (count, count)


def above(values: Mapping[Key, float], floor: float) -> dict[Key, float]:
    """Those that are odd upwards, and by how much they are above the median of the others.

    Odd is more than `floor`, and more than MAD_SIGMAS × the scatter of the others. Half of all may
    be odd, as the GPUs of a slow node beside those of a fast one; of most of them none is.
    """
    found: dict[Key, float] = {}
    ordered = Ordered(values.values())
    for key, value in values.items():
        middle = ordered.median_without(value)
        if middle is None or value - middle <= floor:
            continue
        if value - middle > MAD_SIGMAS * ordered.scatter_without(value, middle):
            found[key] = value - middle
    return found


HEAT_FRAC: Final = 0.02
"""Time above that of the others in which heat or the power brake held the clocks."""
CAP_FRAC: Final = 0.2
"""The power limit holds clocks in any job that computes much; only far more than the others."""
LIMIT_FRAC: Final = 0.05
CLOCK_FRAC: Final = 0.05
CPU_THROTTLED_FRAC: Final = 0.02
_Measure = Callable[[GpuAccount], float | None]
_LIMIT_W: Final[_Measure] = attrgetter("power_limit_w")
_SM_MHZ: Final[_Measure] = attrgetter("sm_mean_mhz")


class Surroundings(Struct, frozen=True, kw_only=True):
    """What else is known: nodes' accounts, their topologies by name, and ranks' CPUs.

    `cpus` are those that the rank of a GPU may run on, by (node, uuid), in Linux's list format.
    """

    nodes: tuple[NodeAccount, ...] = ()
    topologies: Mapping[str, NodeTopology] = field(default_factory=dict)
    cpus: Mapping[tuple[str, str], str] = field(default_factory=dict)


class Peers:
    """The GPUs that one is compared with, and itself, which is left out of what is usual."""

    def __init__(self, gpus: Sequence[GpuAccount]) -> None:
        self._gpus = gpus
        self._ordered: dict[_Measure, Ordered] = {}

    def usual(self, measure: _Measure, own: GpuAccount) -> float | None:
        """The median of the others; None where none has it."""
        if measure not in self._ordered:
            known = (value for gpu in self._gpus if (value := measure(gpu)) is not None)
            self._ordered[measure] = Ordered(known)
        return self._ordered[measure].median_without(measure(own))


def causes_of(gpu: GpuAccount, peers: Peers, surroundings: Surroundings) -> tuple[Clause, ...]:
    """What explains that a GPU is behind, the surest first."""
    found = [*_held_down(gpu, peers), *_lower(gpu, peers)]
    topology = surroundings.topologies.get(gpu.node)
    device = None if topology is None else _device(topology, gpu)
    if topology is not None and device is not None:
        found += _links(topology, device)
        found += _binding(gpu, device, surroundings)
    return (*found, *_cpu_throttling(gpu, surroundings))


def _held_down(gpu: GpuAccount, peers: Peers) -> Iterator[Clause]:
    for words, rule, floor, measure in _THROTTLING:
        frac = measure(gpu)
        if frac is None:
            continue
        usual = peers.usual(measure, gpu) or 0.0
        if frac - usual > floor:
            held = f"{words} {{}} of the time, peers {{}}"
            yield from said(held, share(frac), share(usual), rule=rule)


def _lower(gpu: GpuAccount, peers: Peers) -> Iterator[Clause]:
    limit_w = peers.usual(_LIMIT_W, gpu)
    if gpu.power_limit_w and limit_w and gpu.power_limit_w < limit_w * (1 - LIMIT_FRAC):
        watts = Figure(gpu.power_limit_w, Unit.WATTS), Figure(limit_w, Unit.WATTS)
        yield from said("power limit {}, peers {}", *watts)
    mhz = peers.usual(_SM_MHZ, gpu)
    if gpu.sm_mean_mhz and mhz and gpu.sm_mean_mhz < mhz * (1 - CLOCK_FRAC):
        clocks = Figure(gpu.sm_mean_mhz, Unit.MHZ), Figure(mhz, Unit.MHZ)
        yield from said("SM clock {}, peers {}", *clocks)


def _links(topology: NodeTopology, device: Gpu) -> Iterator[Clause]:
    others = [one for one in topology.gpus if one is not device and one.name == device.name]
    own, usual = _nvlinks(device), _usual(_nvlinks(one) for one in others)
    if own is not None and usual is not None and own < usual:
        yield from said("{} active NVLinks, peers {}", count(own), count(usual))
    lanes, others_lanes = _lanes(topology, device), _usual(_lanes(topology, one) for one in others)
    if lanes is not None and others_lanes is not None and lanes < others_lanes:
        widths = count(lanes), count(others_lanes)
        yield from said("{} PCIe lanes, peers {}", *widths)


def _binding(gpu: GpuAccount, device: Gpu, surroundings: Surroundings) -> Iterator[Clause]:
    allowed = surroundings.cpus.get((gpu.node, gpu.uuid))
    if not allowed or not device.cpus:
        return
    try:
        own, local = set(expand_indices(allowed)), set(expand_indices(device.cpus))
    except ValueError:
        return
    if own and local and not own & local:
        words = "its rank ran on CPUs {}, but the GPU is next to CPUs {}"
        yield from said(words, allowed, device.cpus)


def _cpu_throttling(gpu: GpuAccount, surroundings: Surroundings) -> Iterator[Clause]:
    for node in surroundings.nodes:
        if (node.node, node.restart) != (gpu.node, gpu.restart):
            continue
        frac = node.cpu_throttled_frac
        if frac is not None and frac > CPU_THROTTLED_FRAC:
            words = "the job's CPUs on its node were throttled {} of the time"
            yield from said(words, share(frac))


def _device(topology: NodeTopology, gpu: GpuAccount) -> Gpu | None:
    by_uuid = [device for device in topology.gpus if device.uuid == gpu.uuid]
    nameless = [device for device in topology.gpus if device.uuid is None]
    return next(iter([*by_uuid, *(one for one in nameless if one.index == gpu.index)]), None)


def _nvlinks(device: Gpu) -> int | None:
    if device.nvlinks is None or any(link.is_active is None for link in device.nvlinks):
        return None
    return sum(1 for link in device.nvlinks if link.is_active)


def _lanes(topology: NodeTopology, device: Gpu) -> int | None:
    found = next((one for one in topology.pci if one.address == device.pci), None)
    link = None if found is None else found.effective or found.link
    return None if link is None else link.width


def _usual(values: Iterator[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _frac(seconds: float | None, gpu: GpuAccount) -> float | None:
    return None if seconds is None or gpu.held_s <= 0 else seconds / gpu.held_s


_THROTTLING: Final[tuple[tuple[str, str, float, _Measure], ...]] = (
    (
        "thermal throttling", "thermal-throttling", HEAT_FRAC,
        lambda gpu: _frac(gpu.throttling.thermal_s, gpu),
    ),
    (
        "power brake active", "power-brake", HEAT_FRAC,
        lambda gpu: _frac(gpu.throttling.power_brake_s, gpu),
    ),
    (
        "at its power limit", "power-cap-uneven", CAP_FRAC,
        lambda gpu: _frac(gpu.throttling.power_cap_s, gpu),
    ),
)  # fmt: skip
"""What holds clocks down, and the rule that finds it on a GPU by itself."""


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

    A GPU of which too little is known (`hpckit.account.usage`) is neither one nor a peer.
    """
    found: list[Straggler] = []
    for peers in _compared(gpus):
        found += _of_group(peers, surroundings or Surroundings())
    return tuple(sorted(found, key=lambda one: (-one.behind_frac, one.node, one.name)))


def _compared(gpus: Iterable[GpuAccount]) -> Iterator[dict[GpuPlace, GpuAccount]]:
    groups: dict[tuple[int, str | None], list[GpuAccount]] = {}
    for gpu in gpus:
        if is_judged(gpu) and (useful_frac(gpu) or 0.0) >= LEAST_USEFUL_FRAC:
            groups.setdefault((gpu.restart, gpu.name), []).append(gpu)
    for group in groups.values():
        usual = statistics.median(map(_at_work_frac, group))
        peers = {
            gpu.place: gpu for gpu in group if abs(_at_work_frac(gpu) - usual) <= PEER_FRAC * usual
        }
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
    told = []
    for rank in ranks:
        keys = [(rank.restart, rank.node, uuid) for uuid in rank.gpus]
        is_known = not known.isdisjoint(keys)
        frac = max(behind.get(key, 0.0) for key in keys) if is_known else rank.behind_frac
        told.append(replace(rank, behind_frac=frac))
    return tuple(told)


def useful_frac(gpu: GpuAccount) -> float | None:
    """The useful part of the time of which something is known."""
    known = known_s(gpu)
    return gpu.waste.useful_gpu_s / known if known > 0 else None


def at_work_s(gpu: GpuAccount) -> float:
    """The time in which a process had it, without the long stretches in which nothing ran."""
    waste = gpu.waste
    return max(0.0, waste.useful_gpu_s + waste.spin_gpu_s + waste.idle_gpu_s - _rested_s(gpu))


def _rested_s(gpu: GpuAccount) -> float:
    return math.fsum(one.ended_s - one.started_s for one in gpu.windows if one.kind == "idle")


def _waited_s(gpu: GpuAccount) -> float:
    return max(0.0, gpu.waste.idle_gpu_s - _rested_s(gpu)) + gpu.waste.spin_gpu_s


def _at_work_frac(gpu: GpuAccount) -> float:
    known = known_s(gpu)
    return at_work_s(gpu) / known if known > 0 else 0.0


def _of_group(gpus: Mapping[GpuPlace, GpuAccount], surroundings: Surroundings) -> list[Straggler]:
    seen = _by_clock(gpus) | _by_activity(gpus) | _by_waiting(gpus)
    peers = Peers(tuple(gpus.values()))
    return [
        replace(one, causes=causes_of(gpus[key], peers, surroundings)) for key, one in seen.items()
    ]


def _by_waiting(gpus: Mapping[GpuPlace, GpuAccount]) -> dict[GpuPlace, Straggler]:
    """By less waiting. The others wait for the slowest, and for none of them twice."""
    useful = {}
    for key, gpu in gpus.items():
        work_s = at_work_s(gpu)
        useful[key] = min(1.0, gpu.waste.useful_gpu_s / work_s) if work_s > 0 else 0.0
    excesses = above(useful, BEHIND_FRAC)
    most = max(excesses.values(), default=0.0)
    waiting = [gpu for key, gpu in gpus.items() if key not in excesses]
    waited_s = math.fsum(min(most * at_work_s(gpu), _waited_s(gpu)) for gpu in waiting)
    all_excess = math.fsum(excesses.values())
    found = {}
    for key, excess in excesses.items():
        others = useful[key] - excess
        words = "it worked {} of the time, peers {} and waited"
        one = _straggler(gpus[key], excess / others, words, share(useful[key]), share(others))
        found[key] = replace(one, wasted_gpu_s=waited_s * excess / all_excess)
    return found


def _by_activity(gpus: Mapping[GpuPlace, GpuAccount]) -> dict[GpuPlace, Straggler]:
    """By busy SMs while in use, relative to those of the others."""
    active = {key: _activity(gpu) for key, gpu in gpus.items()}
    known = {key: frac for key, frac in active.items() if frac is not None and frac > 0}
    if len(known) < len(gpus):
        return {}
    middle = statistics.median(known.values())
    found, ordered = {}, Ordered(known.values())
    for key in above({key: frac / middle for key, frac in known.items()}, ACTIVITY_BEHIND_FRAC):
        others = ordered.median_without(known[key]) or middle
        words, own = "SMs busy {} of the time, peers {}", known[key]
        found[key] = _straggler(gpus[key], own / others - 1, words, share(own), share(others))
    return found


def _activity(gpu: GpuAccount) -> float | None:
    """Busy SMs in the time at work: the mean is over all of it, rest included."""
    work = _at_work_frac(gpu)
    return None if gpu.sm_active_frac is None or work <= 0 else min(1.0, gpu.sm_active_frac / work)


def _by_clock(gpus: Mapping[GpuPlace, GpuAccount]) -> dict[GpuPlace, Straggler]:
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
            words = "as busy as they are, at a lower clock"
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


def of_gpu(gpu: GpuAccount) -> Subject:
    """`GPU3 on n013`."""
    return Subject(what=gpu.label, nodes=(gpu.node,), restart=gpu.restart)


def of_gpus(gpus: Iterable[GpuAccount]) -> Subject:
    """GPUs of one node and run: `GPU0-3,7 on n013`."""
    ordered = list(gpus)
    indices = [gpu.index for gpu in ordered if gpu.index is not None]
    named = sorted(gpu.uuid for gpu in ordered if gpu.index is None)
    words = ([f"GPU{index_list(indices)}"] if indices else []) + named
    first = ordered[0]
    return Subject(what=", ".join(words), nodes=(first.node,), restart=first.restart)
