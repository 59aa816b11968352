"""Why a GPU is behind its peers, as far as throttling, links, CPUs and binding explain it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from hpckit.measure.peers import Ordered
from hpckit.model.account import GpuAccount, NodeAccount
from hpckit.model.index_list import expand_indices
from hpckit.model.report_finding import Clause, Figure, Unit, count, said, share

if TYPE_CHECKING:  # large modules, which a report without topologies does not need
    from hpckit.model.hardware import Gpu, NodeTopology
    from hpckit.model.pci import PciDevice

HEAT_FRAC: Final = 0.02
"""Time above that of the others in which heat or the power brake held the clocks."""
CAP_FRAC: Final = 0.2
"""The power limit holds clocks in any job that computes much; only far more than the others."""
LIMIT_FRAC: Final = 0.05
CLOCK_FRAC: Final = 0.05
CPU_THROTTLED_FRAC: Final = 0.02
_Measure = Callable[[GpuAccount], float | None]


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
            held = f"{words} {{}} of the time, the others {{}}"
            yield from said(held, share(frac), share(usual), rule=rule)


def _lower(gpu: GpuAccount, peers: Peers) -> Iterator[Clause]:
    limit_w = peers.usual(_limit_w, gpu)
    if gpu.power_limit_w and limit_w and gpu.power_limit_w < limit_w * (1 - LIMIT_FRAC):
        watts = Figure(gpu.power_limit_w, Unit.WATTS), Figure(limit_w, Unit.WATTS)
        yield from said("its power limit is {}, the others' {}", *watts)
    mhz = peers.usual(_sm_mhz, gpu)
    if gpu.sm_mean_mhz and mhz and gpu.sm_mean_mhz < mhz * (1 - CLOCK_FRAC):
        clocks = Figure(gpu.sm_mean_mhz, Unit.MHZ), Figure(mhz, Unit.MHZ)
        yield from said("its SM clock was {}, the others' {}", *clocks)


def _links(topology: NodeTopology, device: Gpu) -> Iterator[Clause]:
    others = [one for one in topology.gpus if one is not device and one.name == device.name]
    own, usual = _nvlinks(device), _usual(_nvlinks(one) for one in others)
    if own is not None and usual is not None and own < usual:
        yield from said("it has {} active NVLinks, the others {}", count(own), count(usual))
    lanes, others_lanes = _lanes(topology, device), _usual(_lanes(topology, one) for one in others)
    if lanes is not None and others_lanes is not None and lanes < others_lanes:
        widths = count(lanes), count(others_lanes)
        yield from said("its PCIe link has {} lanes, the others' {}", *widths)


def _binding(gpu: GpuAccount, device: Gpu, surroundings: Surroundings) -> Iterator[Clause]:
    allowed = surroundings.cpus.get((gpu.node, gpu.uuid))
    if not allowed or not device.cpus:
        return
    try:
        own, local = set(expand_indices(allowed)), set(expand_indices(device.cpus))
    except ValueError:
        return
    if own and local and not own & local:
        words = "its rank ran on CPUs {}, none of which is beside it ({} are)"
        yield from said(words, allowed, device.cpus)


def _cpu_throttling(gpu: GpuAccount, surroundings: Surroundings) -> Iterator[Clause]:
    for node in surroundings.nodes:
        if (node.node, node.restart) != (gpu.node, gpu.restart):
            continue
        frac = node.cpu_throttled_frac
        if frac is not None and frac > CPU_THROTTLED_FRAC:
            words = "the job's CPUs on its node were held back {} of their time"
            yield from said(words, share(frac))


def _device(topology: NodeTopology, gpu: GpuAccount) -> Gpu | None:
    by_uuid = (one for one in topology.gpus if one.uuid == gpu.uuid)
    by_index = (one for one in topology.gpus if one.uuid is None and one.index == gpu.index)
    return next(by_uuid, None) or next(by_index, None)


def _nvlinks(device: Gpu) -> int | None:
    if device.nvlinks is None or any(link.is_active is None for link in device.nvlinks):
        return None
    return sum(1 for link in device.nvlinks if link.is_active)


def _lanes(topology: NodeTopology, device: Gpu) -> int | None:
    found = next((one for one in topology.pci if one.address == device.pci), None)
    return None if found is None else _width(found)


def _width(device: PciDevice) -> int | None:
    link = device.effective or device.link
    return None if link is None else link.width


def _usual(values: Iterator[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _frac(seconds: float | None, gpu: GpuAccount) -> float | None:
    return None if seconds is None or gpu.held_s <= 0 else seconds / gpu.held_s


def _limit_w(gpu: GpuAccount) -> float | None:
    return gpu.power_limit_w


def _sm_mhz(gpu: GpuAccount) -> float | None:
    return gpu.sm_mean_mhz


_THROTTLING: Final[tuple[tuple[str, str, float, _Measure], ...]] = (
    (
        "heat held its clocks down", "thermal-throttling", HEAT_FRAC,
        lambda gpu: _frac(gpu.throttling.thermal_s, gpu),
    ),
    (
        "the power brake held its clocks down", "power-brake", HEAT_FRAC,
        lambda gpu: _frac(gpu.throttling.power_brake_s, gpu),
    ),
    (
        "its power limit held its clocks down", "power-cap-uneven", CAP_FRAC,
        lambda gpu: _frac(gpu.throttling.power_cap_s, gpu),
    ),
)  # fmt: skip
"""What holds clocks down, and the rule that finds it on a GPU by itself."""
