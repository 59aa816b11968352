"""What is odd about a GPU: its health, its fabric, its mode, and whether it is there at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from hpckit.core.findings import Evidence, Severity
from hpckit.core.index_list import index_list
from hpckit.core.units import counted
from hpckit.node.links import joined
from hpckit.node.path import link_count
from hpckit.node.pci import PciDevice
from hpckit.node.rules.rule import (
    GPUS,
    InspectedNode,
    gpu_name,
    gpu_ranges,
    have,
    most_common,
    named,
    twins,
)
from hpckit.node.topology import Gpu, GpuHealth, GpuVendor, LinkKind, NvLink, NvLinkRemote

LOST_WORDS: Final = ("gpuislost", "resetrequired", "gpunotfound", "no answer within")
"""NVML's GPU_IS_LOST, RESET_REQUIRED and GPU_NOT_FOUND in pynvml's spelling, and silence."""

FABRIC_FINE: Final = frozenset({"completed", "notsupported"})
LIBRARY_WORDS: Final = ("librarynotfound", "not installed", "no module")
UNHEALTHY: Final = ("UNHEALTHY", "LIMITED_CAPACITY")
FABRIC_SUCCESS: Final = frozenset({"success", "0"})
MOST_MISSING: Final = 64


PASSED_ON: Final = frozenset({"vfio-pci", "pci-stub", "xen-pciback"})

Check = Callable[[InspectedNode], Iterator[Evidence]]


def _of_gpu(index: int, words: str) -> Evidence:
    name = gpu_name(index)
    return Evidence(name, f"{name} {words}")


def gpu_lost(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `gpu-lost`."""
    told = dict[str, str]()
    for unknown in node.topology.unknown:
        if any(word in unknown.because.lower() for word in LOST_WORDS):
            told.setdefault(unknown.subject, unknown.because)
    for subject, because in told.items():
        yield Evidence(subject, f"{subject} is lost to the driver: {because}")


def _silence(node: InspectedNode, *, is_library: bool) -> Iterator[Evidence]:
    """That a driver could not be asked, though there are GPUs."""
    # NVML is asked on every node; of another maker's GPUs it has nothing to say.
    concerned = [gpu for gpu in node.gpus if gpu.vendor in (None, GpuVendor.NVIDIA)]
    for unknown in node.topology.unknown if concerned else ():
        is_missing = any(word in unknown.because.lower() for word in LIBRARY_WORDS)
        if unknown.what == "gpus" and is_missing is is_library:
            shown = f"{counted(len(concerned), 'GPU')} found"
            yield Evidence(GPUS, f"{shown}, details unknown: {unknown.because}")
            return


driver_silent = partial(_silence, is_library=False)
without_library = partial(_silence, is_library=True)


def gpus_fewer(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `gpus-fewer-than-gres`; a GPU in MIG mode counts as its MIG devices."""
    if node.expected_gpus is None:
        return
    counts = [gpu.mig_devices if gpu.is_mig else 1 for gpu in node.gpus]
    shown = sum(count for count in counts if count is not None)
    if None not in counts and shown < node.expected_gpus:
        found = f"{counted(shown, 'GPU')} found"
        yield Evidence(GPUS, f"{found}, {node.expected_gpus} expected")


def gpu_without_driver(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `gpu-without-driver`: its twins have one, so it is no container that hides it."""
    devices = {device.address: device for device in node.topology.pci}
    drivers = {
        gpu.index: devices[gpu.pci].driver
        for gpu in node.topology.gpus
        if gpu.pci is not None and gpu.pci in devices
    }
    for gpu in node.topology.gpus:
        others = {drivers.get(one.index) for one in node.gpus if one.vendor is gpu.vendor} - {None}
        if gpu.is_hidden and gpu.index in drivers and drivers[gpu.index] is None and others:
            theirs = f"the other GPUs have {named(one for one in others if one)}"
            yield _of_gpu(gpu.index, f"({gpu.pci}) has no kernel driver bound, {theirs}")


def gpus_hidden(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `gpus-hidden`."""
    hidden = [gpu for gpu in node.topology.gpus if gpu.is_hidden]
    if hidden:
        places = named(gpu.pci or gpu_name(gpu.index) for gpu in hidden)
        yield Evidence(
            GPUS,
            f"the PCI tree has {counted(len(node.topology.gpus), 'GPU')},"
            f" the driver shows {len(node.gpus)}; hidden: {places}{_passed_on(node, hidden)}",
        )
        return
    indices = {gpu.index for gpu in node.gpus}
    if indices and max(indices) < len(indices) + MOST_MISSING:
        missing = [at for at in range(max(indices)) if at not in indices]
        if missing:
            yield Evidence(
                GPUS, f"GPU numbers go up to {max(indices)}, missing: {index_list(missing)}"
            )


def _passed_on(node: InspectedNode, hidden: list[Gpu]) -> str:
    devices: dict[str, PciDevice] = {device.address: device for device in node.topology.pci}
    away = [
        gpu.pci for gpu in hidden if gpu.pci in devices and devices[gpu.pci].driver in PASSED_ON
    ]
    return f" ({named(each for each in away if each)} passed through to a VM)" * bool(away)


def disagreement(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `nvml-sysfs-disagree`."""
    for one in node.topology.disagreements:
        yield Evidence(
            one.subject,
            f"{one.subject} has conflicting values of {one.what}: {' · '.join(one.said)}",
        )


def _of_health(sentence: Callable[[GpuHealth], str | None]) -> Check:
    """The check that says a sentence of each GPU for whose health there is one."""

    def check(node: InspectedNode) -> Iterator[Evidence]:
        for gpu in node.gpus:
            words = None if gpu.health is None else sentence(gpu.health)
            if words:
                yield _of_gpu(gpu.index, words)

    return check


def _rows(health: GpuHealth, what: str) -> str:
    return (
        f"{what} ({_count(health.remapped_rows_uncorrectable)} after uncorrectable errors,"
        f" {_count(health.remapped_rows_correctable)} after correctable ones)"
    )


def _remapped(health: GpuHealth) -> str | None:
    count = _count(health.remapped_rows_correctable) + _count(health.remapped_rows_uncorrectable)
    return _rows(health, "has remapped memory rows") if count else None


def _errors_now(health: GpuHealth) -> str | None:
    count = _count(health.ecc_uncorrected_volatile)
    errors = counted(count, "uncorrected memory error")
    return f"had {errors} since the driver was loaded" if count else None


def _errors_past(health: GpuHealth) -> str | None:
    count = _count(health.ecc_uncorrected_aggregate)
    if not count or _count(health.ecc_uncorrected_volatile):
        return None
    errors = counted(count, "uncorrected memory error")
    return f"had {errors} in its lifetime, none since the driver was loaded"


def _remapping(field: str, words: str) -> Check:
    """The check that a field of a GPU's health about remapped rows is set."""
    return _of_health(lambda health: _rows(health, words) if getattr(health, field) else None)


remapping_failed = _remapping("remapping_failed", "has a memory row that could not be remapped")
remapping_pending = _remapping("remapping_pending", "has memory rows to remap at the next reset")
remapped_rows = _of_health(_remapped)
ecc_uncorrected = _of_health(_errors_now)
ecc_past = _of_health(_errors_past)


def ecc_uneven(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `ecc-off`: off where most of its twins have it on."""
    for group in twins(node.gpus):
        modes = {gpu.index: gpu.health.ecc_enabled for gpu in group if gpu.health is not None}
        if most_common(mode for mode in modes.values() if mode is not None):
            for index in (index for index, mode in modes.items() if mode is False):
                yield _of_gpu(index, "has ECC off, most of its peers have it on")


def _slowed(*words: str, unless: tuple[str, ...] = ()) -> Check:
    """The check that a GPU's clocks are held down for one of these reasons and none of others."""

    def sentence(health: GpuHealth) -> str | None:
        reasons = {_letters(one): one for one in health.clocks_event_reasons or ()}
        said = sorted(reasons.keys() & set(words))
        if not said or reasons.keys() & set(unless):
            return None
        at = "" if health.temperature_c is None else f" at {health.temperature_c} °C"
        drawn = "" if health.power_w is None else f", drawing {health.power_w:.0f} W"
        return f"is throttled{at}{drawn}: {reasons[said[0]]}"

    return _of_health(sentence)


_THERMAL: Final = "hwthermalslowdown"
_BRAKES: Final = ("hwpowerbrakeslowdown", "hwpowerbrake")
thermal_slowdown = _slowed(_THERMAL)
thermal_software = _slowed("swthermalslowdown", unless=(_THERMAL,))
power_brake = _slowed(*_BRAKES)
# NVML says HwSlowdown and not which of its causes.
hardware_slowdown = _slowed("hwslowdown", unless=(_THERMAL, *_BRAKES))


def _count(value: int | None) -> int:
    return max(value or 0, 0)


def _letters(word: str) -> str:
    """`HwThermalSlowdown`, `HW_THERMAL_SLOWDOWN` and `hw thermal slowdown` alike."""
    return "".join(char for char in word.lower() if char.isalnum())


def fabric_not_completed(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `fabric-not-completed`."""
    for gpu in node.gpus:
        fabric = gpu.fabric
        if fabric is None or fabric.state is None:
            continue
        if _letters(fabric.state) not in FABRIC_FINE:
            yield _of_gpu(gpu.index, f"has NVLink fabric state {fabric.state}{_of(node)}")
        elif _letters(fabric.state) == "completed" and not (
            fabric.status is None or _letters(fabric.status) in FABRIC_SUCCESS
        ):
            yield _of_gpu(gpu.index, f"has NVLink fabric status {fabric.status}")


def fabric_unhealthy(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `fabric-unhealthy`."""
    for gpu in node.gpus:
        health = None if gpu.fabric is None else gpu.fabric.health
        if health is not None and health.upper().startswith(UNHEALTHY):
            yield _of_gpu(gpu.index, f"has NVLink fabric health {health}")


def _of(node: InspectedNode) -> str:
    done = sum(
        gpu.fabric is not None and _letters(gpu.fabric.state or "") == "completed"
        for gpu in node.gpus
    )
    return f", {done} of {counted(len(node.gpus), 'GPU')} completed"


def mig_on(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `mig-on`: one finding where it is on in all GPUs."""
    on = [gpu for gpu in node.gpus if gpu.is_mig]
    devices = [gpu.mig_devices for gpu in on]
    if on and len(on) == len(node.gpus) > 1:
        told = [count for count in devices if count is not None]
        total = f", {sum(told)} MIG devices" if len(told) == len(devices) else ""
        yield Evidence(GPUS, f"MIG is enabled on all {len(on)} GPUs{total}")
        return
    for gpu, count in zip(on, devices, strict=True):
        told_of = "" if count is None else f", {counted(count, 'MIG device')}"
        yield _of_gpu(gpu.index, f"has MIG enabled{told_of}")


# There are two kinds of evidence. NVML tells each GPU's own links, so a GPU at a switch is held
# against its twins. A matrix (`nvidia-smi topo -m`) or the counts of links between GPUs tell pairs:
# a GPU with a dead link at a switch is short in its whole row, so the GPUs are named that explain
# all short pairs, and not the healthy ones at the other end.
#
# What is uneven by design is none of that: the hybrid cube mesh of 8 V100 or P100 mixes NV1 and NV2
# (DGX-1 System Architecture white paper, WP-08437), and part of one, as virtual machines get it,
# has uneven sums too; bridges join pairs of PCIe cards, and not each card needs to have one.
EVEN_FROM: Final = 4
"""Links between two GPUs from which on designs are even: Volta's cube mesh has 1 and 2."""

WHOLE_MESH: Final = 8
"""GPUs of a hybrid cube mesh; a part of one is uneven."""

PAIR: Final = 2

MOST_BRIDGED: Final = 4
"""Cards that one bridge joins at most (H200 NVL's); more are on a board with switches."""

BOARDS: Final = frozenset({8, 16})
"""GPUs of a board with switches (HGX, DGX-2), so one more GPU beside them may be a card."""

Pairs = dict[tuple[int, int], int]
"""(GPU, GPU) → links as the first one's row tells them, 0 where there are none."""


class _Group(NamedTuple):
    """GPUs that are alike and of which none is in MIG mode, and the NVLinks of their pairs.

    `linked` are the GPUs that links join, directly or through each other, `told` those of which
    some pair is told.
    """

    gpus: dict[int, Gpu]
    pairs: Pairs
    linked: list[frozenset[int]]
    told: set[int]


def _groups(node: InspectedNode) -> Iterator[_Group]:
    # The links of a GPU in MIG mode may be down by design.
    for group in twins(gpu for gpu in node.gpus if not gpu.is_mig):
        pairs = _pairs(node, group)
        linked = joined(pair for pair, count in pairs.items() if count > 0)
        gpus = {gpu.index: gpu for gpu in group}
        yield _Group(gpus, pairs, list(map(frozenset, linked)), {row for row, _ in pairs})


def fewer_nvlinks(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `nvlink-fewer`."""
    groups = list(_groups(node))
    seen = {one.subject: one for group in groups for one in _own_links(group.gpus.values())}
    yield from seen.values()
    for group in groups:
        short = [one for component in group.linked for one in _short_in(group, component)]
        for one in (*short, *_off_the_board(group)):
            if one.subject not in seen:
                yield one


def _off_the_board(group: _Group) -> Iterator[Evidence]:
    """GPUs without NVLinks where the others make up the rest of a board with switches."""
    linked = group.linked[0] if len(group.linked) == 1 else frozenset[int]()
    if len(linked) <= MOST_BRIDGED or len(group.gpus) not in BOARDS:
        return
    if max(group.pairs.values()) < EVEN_FROM or 2 * len(linked) <= len(group.gpus):
        return
    others = f"the other {len(linked)} GPUs of its board have"
    for index in sorted(group.told - linked, key=list(group.gpus).index):
        inactive = _inactive(group.gpus[index])
        yield _of_gpu(index, f"has no NVLink to another GPU, {others}{inactive}")


def no_nvlinks(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `nvlink-none`."""
    named_already = {one.subject for one in fewer_nvlinks(node)}
    for group in _groups(node):
        linked = frozenset[int]().union(*group.linked)
        for index in group.gpus if linked else ():
            if index in group.told - linked and gpu_name(index) not in named_already:
                others = f"{gpu_ranges(linked)} {have(len(linked))}"
                yield _of_gpu(index, f"has no NVLink to another GPU, {others}")


_BRIDGE_LINKS: Final = (4, 6)
"""Links of one bridge: A100 PCIe, H100 NVL; no whole number of bridges is a broken link."""


def partitions_fewer(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `partitions-fewer`: a card shows fewer partitions than most of its like."""
    for group in twins(gpu for gpu in node.gpus if gpu.partition is not None and gpu.pci):
        cards = Counter((gpu.pci or "").rpartition(".")[0] for gpu in group)
        usual = most_common(cards.values())
        for card, count in cards.items():
            if usual is not None and count < usual:
                yield Evidence(card, f"{counted(count, 'partition')}, other cards have {usual}")


def uneven_bridges(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `nvlink-bridges-uneven`: the same of both ends of a pair, so that they are one."""
    for group in _groups(node):
        pairs = group.pairs
        bridged = [tuple(sorted(one)) for one in group.linked if len(one) == PAIR]
        counts = {(a, b): min(pairs.get((a, b), 0), pairs.get((b, a), 0)) for a, b in bridged}
        most = max(counts.values(), default=0)
        for (a, b), count in counts.items():
            because = f"{gpu_ranges((a, b))} are joined by NV{count}, other pairs here by NV{most}"
            is_broken = most > _BRIDGE_LINKS[0] and all(count % links for links in _BRIDGE_LINKS)
            severity = Severity.WARNING if is_broken else None
            if count < most:
                for one in (a, b):
                    yield Evidence(gpu_name(one), because, severity=severity)


def _own_links(group: Collection[Gpu]) -> Iterator[Evidence]:
    links = {gpu.index: gpu.nvlinks for gpu in group if gpu.nvlinks is not None}
    told = {
        at: each for at, each in links.items() if all(one.is_active is not None for one in each)
    }
    active = {index: [link for link in each if link.is_active] for index, each in told.items()}
    if not any(_is_at_switch(link) for each in active.values() for link in each):
        return
    most = max(len(each) for each in active.values())
    peers = sum(len(each) == most for each in active.values())
    for gpu in group:
        if gpu.index in active and len(active[gpu.index]) < most:
            count = counted(len(active[gpu.index]), "active NVLink")
            yield _of_gpu(gpu.index, f"has {count}, {_others(peers)} {most}{_inactive(gpu)}")


def _others(peers: int) -> str:
    return "its peer has" if peers == 1 else f"its {peers} peers have"


def _is_at_switch(link: NvLink) -> bool:
    """In a virtual machine the other end has no address, and NCCL takes it for a switch."""
    return link.remote is NvLinkRemote.SWITCH or (link.remote is None and link.remote_pci is None)


def _inactive(gpu: Gpu) -> str:
    down = [str(link.index) for link in gpu.nvlinks or () if link.is_active is False]
    if not down:
        return ""
    return f" ({'link' if len(down) == 1 else 'links'} {named(down)} inactive)"


def _pairs(node: InspectedNode, group: list[Gpu]) -> Pairs:
    """What a recorded matrix says, else the counts of links; a pair that is not told is absent."""
    indices = {gpu.index for gpu in group}
    table = node.topology.paths
    if table is not None and table.is_recorded:
        found = _recorded_pairs(node, indices)
    else:
        found = _counted_pairs(node, indices)
    return found if any(found.values()) else {}


def _recorded_pairs(node: InspectedNode, indices: set[int]) -> Pairs:
    names = {gpu_name(index): index for index in indices}
    return {
        (names[row], names[column]): link_count(cell) or 0
        for (row, column), cell in node.cells.items()
        if row in names and column in names and row != column
    }


def _counted_pairs(node: InspectedNode, indices: set[int]) -> Pairs:
    pairs = {(a, b): 0 for a in indices for b in indices if a != b}
    for link in node.topology.gpu_links:
        for pair in ((link.a, link.b), (link.b, link.a)):
            if link.kind is LinkKind.NVLINK and pair in pairs:
                if link.count is None:
                    del pairs[pair]
                else:
                    pairs[pair] = max(link.count, 0)
    return pairs


def _short_in(group: _Group, component: frozenset[int]) -> Iterator[Evidence]:
    inside = {pair: count for pair, count in group.pairs.items() if component.issuperset(pair)}
    if len(component) <= PAIR or len(inside) < len(component) * (len(component) - 1):
        return
    if max(inside.values()) >= EVEN_FROM:
        for index in _explaining(inside, component):
            yield _in_even(inside, group.gpus[index])
    elif len(component) >= WHOLE_MESH:
        yield from _in_mesh(inside, component, group.gpus)


def _explaining(pairs: Pairs, component: frozenset[int]) -> list[int]:
    """The fewest GPUs that all short pairs have a part in.

    None if that were more than half, or if all GPUs are as short: then it is by design.

    Where a single pair is short either end may be at fault, so both are named.
    """
    most = max(pairs.values())
    left = {pair for pair, count in pairs.items() if count < most}
    found: set[int] = set()
    at_fault = 0
    while left:
        touched: dict[int, set[int]] = {}
        for a, b in left:
            touched.setdefault(a, set()).add(b)
            touched.setdefault(b, set()).add(a)
        degree = max(len(each) for each in touched.values())
        if degree == 1:
            ends = {a for a, _ in left}
            found |= ends
            at_fault += len({frozenset(pair) for pair in left})
            break
        worst = {index for index, each in touched.items() if len(each) == degree}
        found |= worst
        at_fault += len(worst)
        left = {(a, b) for a, b in left if a not in worst and b not in worst}
    is_design = 2 * at_fault > len(component) or found == component
    return [] if is_design else sorted(found)


def _in_even(pairs: Pairs, gpu: Gpu) -> Evidence:
    most = max(pairs.values())
    peers: dict[int, list[int]] = {}
    for (a, b), count in pairs.items():
        if a == gpu.index:
            peers.setdefault(min(count, pairs[b, a]), []).append(b)
    short = {count: others for count, others in peers.items() if count < most}
    told = "; ".join(
        f"{f'NV{count}' if count else 'no NVLink'} to {gpu_ranges(others)}"
        for count, others in sorted(short.items())
    )
    rest = (
        f"NV{most} to {gpu_ranges(peers[most])}"
        if most in peers
        else f"those have NV{most} between them"
    )
    return _of_gpu(gpu.index, f"has {told}, and {rest}{_inactive(gpu)}")


def _in_mesh(
    pairs: Pairs, component: frozenset[int], gpus: Mapping[int, Gpu]
) -> Iterator[Evidence]:
    sums = dict.fromkeys(component, 0)
    for (row, _), count in pairs.items():
        sums[row] += count
    most = max(sums.values())
    whole = sum(count == most for count in sums.values())
    if 2 * whole <= len(component):
        return
    for index in sorted(component):
        if sums[index] < most:
            links = f"{counted(sums[index], 'NVLink')} to other GPUs in total"
            rest = f"{_others(whole)} {most}{_inactive(gpus[index])}"
            yield _of_gpu(index, f"has {links}, {rest}")
