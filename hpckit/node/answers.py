"""What two nodes that should be alike do not share, and which of many nodes are odd.

A node's facts are its parts' properties that must be the same on its twin. What must differ is
none: names of hosts, serial numbers, UUIDs, GUIDs, PCI addresses (a hypervisor chooses them), nor
what changes while a node runs: temperatures, power, error counters, the rate of an idle PCIe link.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hpckit.core.findings import Finding, Severity
from hpckit.core.late import Late
from hpckit.core.text import figure, names_shown, numbers_shown, visible
from hpckit.core.values import dataclass
from hpckit.node.path import PathKind
from hpckit.node.pci import PciAddress, PcieLink
from hpckit.node.rules.rule import gpu_name
from hpckit.node.topology import Gpu, LinkKind, Nic, NodeTopology
from hpckit.node.words import as_float, bit_rate, memory

if TYPE_CHECKING:
    import hashlib
else:
    hashlib = Late("hashlib")

_Facts = Mapping[tuple[str, str], object]

_NEAR_FRAC: Final = 0.02
_THERE: Final = "is there"
_HIDDEN: Final = "hidden"
_STATE: Final = "state"
_MEMORY: Final = "memory"
_RATE: Final = "rate"
_WORDS: Final = {None: "unknown", True: "yes", False: "no"}
_MOST_SHOWN: Final = 12


def shape(topology: NodeTopology) -> str:
    """A digest that nodes share if all that must be equal is: the same in every process.

    Nodes of different digests may still be alike: sizes of memory that are close count as equal
    for `differences`.
    """
    table = topology.paths
    paths = () if table is None else (table.devices, table.cells)
    text = repr((sorted(_facts(topology).items()), paths))
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def differences(a: NodeTopology, b: NodeTopology) -> tuple[str, ...]:
    """What is different at `b`, seen from `a`: `GPU5: active NVLinks 17, not 18`; () if nothing."""
    here, there = _facts(a), _facts(b)
    lost = {subject for subject, what in here.keys() - there.keys() if what == _THERE}
    new = {subject for subject, what in there.keys() - here.keys() if what == _THERE}
    changed: dict[tuple[str, object, object], list[str]] = {}
    for subject, what in _changed(here, there, lost | new):
        values = here.get((subject, what)), there.get((subject, what))
        changed.setdefault((what, *values), []).append(subject)
    found = [f"{_subjects(lost)} missing"] if lost else []
    found += [f"{_subjects(new)} extra"] if new else []
    found += [
        f"{_subjects(subjects)}: {what} {_shown(what, after)}, not {_shown(what, before)}"
        for (what, before, after), subjects in changed.items()
    ]
    return (*found, *_path_differences(a, b))


def _changed(here: _Facts, there: _Facts, besides: set[str]) -> list[tuple[str, str]]:
    """The facts that differ, without those that follow from another that does."""
    keys = [
        (subject, what)
        for subject, what in sorted(here.keys() | there.keys())
        if subject not in besides
        and not _is_same(what, here.get((subject, what)), there.get((subject, what)))
    ]
    hidden = {subject for subject, what in keys if what == _HIDDEN}
    stated = {subject for subject, what in keys if what == _STATE}
    return [
        (subject, what)
        for subject, what in keys
        if (subject not in hidden or what == _HIDDEN) and (subject not in stated or what != _RATE)
    ]


def _is_same(what: str, a: object, b: object) -> bool:
    if a == b or repr(a) == repr(b):  # the latter for what is no number, and so not itself
        return True
    if what != _MEMORY or not isinstance(a, int | float) or not isinstance(b, int | float):
        return False
    small, large = sorted((abs(as_float(a)), abs(as_float(b))))
    return small >= large * (1 - _NEAR_FRAC)


def _shown(what: str, value: object) -> str:
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    if isinstance(value, int | float):
        if what == _MEMORY:
            return memory(value)
        return bit_rate(value) if what == _RATE else figure(value, 1)
    return visible(str(value), 60)


def _subjects(names: set[str] | list[str]) -> str:
    if all(name.startswith(("GPU", "NUMA ")) for name in names):
        return numbers_shown(names)
    return names_shown(sorted(names))


def _facts(topology: NodeTopology) -> _Facts:
    links = {one.address: one.effective or one.link for one in topology.pci}
    facts: dict[tuple[str, str], object] = dict(_node_facts(topology))
    active = _active_links(topology)
    for gpu in topology.gpus:
        subject = gpu_name(gpu.index)
        facts[subject, _THERE] = True
        facts[subject, "active NVLinks"] = active.get(gpu.index)
        facts |= {(subject, what): value for what, value in _gpu_facts(gpu, links)}
    for nic in topology.nics:
        facts[nic.name, _THERE] = True
        facts |= {(nic.name, what): value for what, value in _nic_facts(nic, links)}
    for one in topology.accelerators:
        subject = f"accelerator {one.index}"
        facts |= {(subject, _THERE): True, (subject, "name"): one.name}
    return facts


def _node_facts(topology: NodeTopology) -> Iterator[tuple[tuple[str, str], object]]:
    host, cpu = topology.host, topology.cpu
    yield ("node", "driver"), host.driver_version
    yield ("node", "kernel"), host.os_release
    yield ("node", "product"), host.product
    yield ("CPU", "model"), cpu.model
    yield ("CPU", "packages"), len(cpu.packages)
    yield ("CPU", "cores"), cpu.cores
    yield ("CPU", "CPUs"), cpu.cpus
    for numa in topology.numa_nodes:
        subject = f"NUMA {numa.index}"
        yield (subject, _THERE), True
        yield (subject, "CPUs"), numa.cpus
        yield (subject, _MEMORY), numa.memory_bytes


_Links = Mapping[PciAddress, PcieLink | None]


def _width(links: _Links, pci: PciAddress | None) -> int | None:
    link = None if pci is None else links.get(pci)
    return None if link is None else link.width


def _gpu_facts(gpu: Gpu, links: _Links) -> Iterator[tuple[str, object]]:
    yield "name", gpu.name
    yield _MEMORY, gpu.memory_bytes
    yield "NUMA node", gpu.numa_index
    yield "PCIe width", _width(links, gpu.pci)
    yield _HIDDEN, gpu.is_hidden
    yield "MIG", gpu.is_mig
    yield "MIG devices", gpu.mig_devices
    yield "partition", gpu.partition
    yield "ECC", None if gpu.health is None else gpu.health.ecc_enabled
    yield "fabric", None if gpu.fabric is None else gpu.fabric.state


def _nic_facts(nic: Nic, links: _Links) -> Iterator[tuple[str, object]]:
    yield "kind", nic.kind
    yield _STATE, nic.state
    yield _RATE, nic.rate_bytes_per_s
    yield "NUMA node", nic.numa_index
    yield "PCIe width", _width(links, nic.pci)
    yield "firmware", nic.firmware
    yield "bond", nic.bond


def _active_links(topology: NodeTopology) -> dict[int, int]:
    """A GPU's own count; else that of its pairs: the most through a switch, all of a mesh."""
    active = {
        gpu.index: sum(link.is_active is True for link in gpu.nvlinks)
        for gpu in topology.gpus
        if gpu.nvlinks is not None
    }
    of_pairs: dict[int, int] = {}
    for link in topology.gpu_links:
        if link.kind is LinkKind.NVLINK and link.count is not None:
            for gpu in (link.a, link.b):
                held = of_pairs.get(gpu, 0)
                is_mesh = link.is_switched is False
                of_pairs[gpu] = held + link.count if is_mesh else max(held, link.count)
    return of_pairs | active


def _path_differences(a: NodeTopology, b: NodeTopology) -> tuple[str, ...]:
    """Pairs that are not as far apart as at `a`; how many NVLinks they have is told of the GPUs."""
    here, there = _cells(a), _cells(b)
    found = [
        f"{visible(one, 20)}–{visible(other, 20)}: path {there[one, other]}, not {cell}"
        for (one, other), cell in here.items()
        if (one, other) in there and there[one, other] != cell
    ]
    if len(found) > _MOST_SHOWN:
        return (*found[:2], f"{len(found) - 2} more paths differ")
    return tuple(found)


def _cells(topology: NodeTopology) -> dict[tuple[str, str], str]:
    table = topology.paths
    if table is None:
        return {}
    return {
        (one, other): PathKind.NV if cell.startswith("NV") else visible(cell, 8)
        for row, (one, cells) in enumerate(zip(table.devices, table.cells, strict=True), 1)
        for other, cell in zip(table.devices[row:], cells[row:], strict=True)
        if cell is not None
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAnswer:
    """What became of the question to a node: its topology, or `because` it gave none."""

    node: str
    topology: NodeTopology | None = None
    because: str | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlikeNodes:
    """Nodes that are alike in everything that a job meets; `topology` is that of the first.

    `differs` says what sets them apart from the largest group, nothing for that group itself.
    `findings` are those that all of them have.
    """

    nodes: tuple[str, ...]
    topology: NodeTopology
    findings: tuple[Finding, ...] = ()
    differs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeQuestion:
    """Nodes that are to say what they are, within `timeout_s` seconds.

    It goes through the allocation `job_id`, or through one of its own for a minute or two, for
    which the rest is what Slurm is told. Each is to have `expected_gpus`, None being Slurm's gres.
    """

    nodes: tuple[str, ...]
    timeout_s: float
    job_id: str | None = None
    expected_gpus: int | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    reservation: str | None = None
    gpus_per_node: int | None = None


def group_alike(answers: Sequence[NodeAnswer]) -> tuple[AlikeNodes, ...]:
    """The answers in groups that are alike and have the same findings, the largest group first.

    Among groups of one size those with fewer findings come first, then in the order of the nodes.
    Nodes whose sizes of memory are close are alike, as `differences` says.
    """
    found = [(one, one.topology) for one in answers if one.topology is not None]
    shapes: dict[object, list[tuple[NodeAnswer, NodeTopology]]] = {}
    for answer, topology in found:
        shapes.setdefault((shape(topology), answer.findings), []).append((answer, topology))
    ordered = sorted(shapes.values(), key=lambda one: (-len(one), len(one[0][0].findings)))
    groups: dict[tuple[tuple[str, ...], tuple[Finding, ...]], AlikeNodes] = {}
    for group in ordered:
        answer, topology = group[0]
        key = (_differs(*ordered[0][0], topology), answer.findings)
        first = AlikeNodes(nodes=(), topology=topology, findings=key[1], differs=key[0])
        held = groups.get(key, first)
        nodes = (*held.nodes, *(one.node for one, _ in group))
        groups[key] = replace(held, nodes=nodes)
    return tuple(sorted(groups.values(), key=lambda group: -len(group.nodes)))


def _differs(usual: NodeAnswer, as_usual: NodeTopology, topology: NodeTopology) -> tuple[str, ...]:
    """What is different, without what is odd about the usual node itself."""
    odd = tuple(f"{finding.subject}:" for finding in usual.findings)
    return tuple(one for one in differences(as_usual, topology) if not one.startswith(odd))


def silent_node(answer: NodeAnswer) -> Finding:
    """The finding that a node is, which gave no answer."""
    return Finding(
        rule="node-silent",
        severity=Severity.ERROR,
        subject=answer.node,
        because=answer.because or "no answer",
        remedy=f"scontrol show node {answer.node}",
    )
