from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from hpckit.core.findings import Severity
from hpckit.node.merge import merge
from hpckit.node.nics import with_nic_roles
from hpckit.node.path import PathTable
from hpckit.node.pci import PciAddress, PciDevice, PcieLink
from hpckit.node.rules.rules import node_findings
from hpckit.node.topology import (
    MOST_BYTES_PER_S,
    Disagreement,
    Gpu,
    GpuFabric,
    GpuHealth,
    GpuLink,
    GpuVendor,
    Host,
    LinkKind,
    Nic,
    NicPort,
    NodeTopology,
    NvLink,
    NvLinkRemote,
    Source,
    Unknown,
)
from hpckit.spec.nic_kind import NicKind
from tests.fakes.node import healthy_node

NAMES = ("GPU0", "GPU1", "GPU2", "GPU3", "GPU9", "NIC0", "NIC1", "mlx5_0", "GPUs", "", "x{9}")
CELLS = ("X", "NV1", "NV17", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS", "XGMI", "NV", None)
ADDRESSES = (*(PciAddress(f"0000:0{at}:00.0") for at in range(5)), PciAddress("odd"))

indices = st.integers(0, 9)
counts = st.one_of(st.none(), st.integers(-1, 20))
ids = st.one_of(st.none(), st.integers(0, 20))
flags = st.one_of(st.none(), st.booleans())
addresses = st.one_of(st.none(), st.sampled_from(ADDRESSES))
words = st.one_of(
    st.none(), st.sampled_from(("ACTIVE", "DOWN", "COMPLETED", "", "HwSlowdown", "{"))
)
rates = st.one_of(st.none(), st.sampled_from((0.0, 25e9, 50e9)), st.floats(0, MOST_BYTES_PER_S))
powers = st.one_of(st.none(), st.sampled_from((0.0, 700.0, -1.0)), st.floats())


def few(each: st.SearchStrategy[object], most: int = 4) -> st.SearchStrategy[tuple[object, ...]]:
    """A tuple of a few of them."""
    return st.lists(each, max_size=most).map(tuple)


def unlike(each: st.SearchStrategy[object], key: str) -> st.SearchStrategy[tuple[object, ...]]:
    """A tuple of some, no two with the same value of one field."""
    return st.lists(each, max_size=6, unique_by=lambda one: getattr(one, key)).map(tuple)


def tree(found: Iterable[object]) -> tuple[PciDevice, ...]:
    """The devices, each below one that comes before it or below one that is not there."""
    devices = [one for one in found if isinstance(one, PciDevice)]
    places = [one.address for one in devices]
    return tuple(
        dataclasses.replace(one, parent=None) if one.parent in places[at:] else one
        for at, one in enumerate(devices)
    )


def within(node: NodeTopology, bridges: Iterable[PciDevice] | None = None) -> NodeTopology:
    """The node with each device below one of these, by default of its own, or below none."""
    places = {one.address for one in (node.pci if bridges is None else bridges)}
    pci = tuple(
        one if one.parent in places else dataclasses.replace(one, parent=None) for one in node.pci
    )
    return dataclasses.replace(node, pci=pci)


@st.composite
def tables(draw: st.DrawFn) -> PathTable:
    """What lies between a few devices, known or not."""
    names = draw(st.lists(st.sampled_from(NAMES), max_size=6, unique=True))
    row = st.tuples(*[st.sampled_from(CELLS)] * len(names))
    return PathTable(
        devices=tuple(names),
        cells=tuple(draw(row) for _ in names),
        is_recorded=draw(st.booleans()),
    )


links = st.builds(
    NvLink,
    index=indices,
    is_active=flags,
    remote=st.one_of(st.none(), st.sampled_from(NvLinkRemote)),
    remote_pci=addresses,
)
health = st.builds(
    GpuHealth,
    clocks_event_reasons=st.one_of(st.none(), few(st.sampled_from(("HwSlowdown", "GpuIdle", "?")))),
    remapped_rows_correctable=counts,
    remapped_rows_uncorrectable=counts,
    remapping_pending=flags,
    remapping_failed=flags,
    ecc_enabled=flags,
    ecc_uncorrected_volatile=counts,
    ecc_uncorrected_aggregate=counts,
    temperature_c=counts,
    power_w=powers,
)
gpus = st.builds(
    Gpu,
    index=indices,
    name=words,
    vendor=st.one_of(st.none(), st.sampled_from(GpuVendor)),
    pci=addresses,
    numa_index=counts,
    is_mig=flags,
    mig_devices=counts,
    nvlinks=st.one_of(st.none(), few(links)),
    fabric=st.one_of(st.none(), st.builds(GpuFabric, state=words, status=words, health=words)),
    health=st.one_of(st.none(), health),
    is_hidden=st.booleans(),
)
gpu_links = st.builds(GpuLink, a=indices, b=indices, kind=st.sampled_from(LinkKind), count=counts)
nics = st.builds(
    Nic,
    index=indices,
    name=st.sampled_from(NAMES),
    label=st.one_of(st.none(), st.sampled_from(NAMES)),
    kind=st.one_of(st.none(), st.sampled_from(NicKind)),
    pci=addresses,
    state=words,
    rate_bytes_per_s=rates,
    link_layer=words,
    ports=few(st.builds(NicPort, index=indices, state=words, phys_state=words)),
    bond=st.one_of(st.none(), st.sampled_from(NAMES)),
    is_virtual=flags,
    physfn=addresses,
)
devices = st.builds(
    PciDevice,
    address=st.sampled_from(ADDRESSES),
    parent=addresses,
    device_id=ids,
    driver=words,
    numa_index=counts,
    link=st.one_of(st.none(), st.builds(PcieLink, width=counts, max_width=counts)),
)
nodes = st.builds(
    NodeTopology,
    source=st.builds(Source, format=st.sampled_from(("nvml", "sysfs", "kfd"))),
    host=st.builds(Host, is_virtual_machine=flags),
    gpus=unlike(gpus, "index"),
    gpu_links=few(gpu_links, 6),
    nics=unlike(nics, "index"),
    pci=unlike(devices, "address").map(tree),
    paths=st.one_of(st.none(), tables()),
    unknown=few(
        st.builds(
            Unknown,
            subject=st.sampled_from(NAMES),
            what=st.sampled_from(("name", "gpus", "odd what")),
            because=st.sampled_from(("NVML: GpuIsLost", "NVML: NoPermission")),
        )
    ),
    disagreements=few(
        st.builds(
            Disagreement, subject=st.sampled_from(NAMES), what=words, said=st.just(("a", "b"))
        )
    ),
)


@given(node=nodes, expected=counts)
def test_any_node_has_findings(node: NodeTopology, expected: int | None) -> None:
    """Any value of the model has findings, in order, and none raises."""
    findings = node_findings(with_nic_roles(node), expected_gpus=expected)
    worst = [Severity.ERROR, Severity.WARNING, Severity.NOTE]
    ranks = [worst.index(one.severity) for one in findings]
    assert ranks == sorted(ranks)
    assert all(one.because and one.remedy for one in findings)


@given(first=nodes, second=nodes)
def test_any_nodes_merge(first: NodeTopology, second: NodeTopology) -> None:
    """Any two nodes merge; every address of either is there, and the driver's GPUs come first.

    A kernel's tree has the bridges above each device, a driver tells devices and no tree.
    """
    first, second = within(first), within(second, ())
    merged = merge(first, second)
    assert {one.address for one in merged.pci} == {one.address for one in (*first.pci, *second.pci)}
    assert [gpu.index for gpu in merged.gpus[: len(second.gpus)]] == [
        gpu.index for gpu in second.gpus
    ]
    added = [gpu.index for gpu in merged.gpus[len(second.gpus) :]]
    if len({gpu.index for gpu in first.gpus}) == len(first.gpus):
        assert not set(added) & {gpu.index for gpu in second.gpus}
        assert len(set(added)) == len(added)


def renumbered(node: NodeTopology, order: Sequence[int]) -> NodeTopology:
    """The same node with GPU `i` called GPU `order[i]`."""
    table = node.paths
    names = {f"GPU{old}": f"GPU{new}" for old, new in enumerate(order)}
    return dataclasses.replace(
        node,
        gpus=tuple(dataclasses.replace(gpu, index=order[gpu.index]) for gpu in node.gpus),
        gpu_links=tuple(
            dataclasses.replace(link, a=order[link.a], b=order[link.b]) for link in node.gpu_links
        ),
        paths=None
        if table is None
        else dataclasses.replace(
            table, devices=tuple(names.get(name, name) for name in table.devices)
        ),
    )


@st.composite
def matrices(draw: st.DrawFn) -> NodeTopology:
    """GPUs with a word between each two, mostly one word; with NVML's own links or without."""
    count = draw(st.integers(1, 9))
    usual = draw(st.sampled_from(("NV18", "NV4", "NV2", "SYS")))
    odd = st.sampled_from(("NV17", "NV3", "NV1", "PIX", "PHB"))
    cells = [["X" if row == at else usual for at in range(count)] for row in range(count)]
    for _ in range(draw(st.integers(0, 6))):
        row, at = draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1))
        if row != at:
            cells[row][at] = draw(odd)
            cells[at][row] = draw(st.sampled_from((cells[row][at], usual)))
    own = draw(st.booleans())
    switch = NvLink(index=0, is_active=True, remote=NvLinkRemote.SWITCH)
    return NodeTopology(
        source=Source(format="synthetic"),
        gpus=tuple(
            Gpu(
                index=index,
                nvlinks=(switch,) * draw(st.integers(16, 18)) if own else None,
                is_hidden=draw(st.integers(0, 9)) == 0,
            )
            for index in range(count)
        ),
        paths=PathTable(
            devices=tuple(f"GPU{index}" for index in range(count)),
            cells=tuple(tuple(row) for row in cells),
            is_recorded=True,
        ),
    )


@given(data=st.data(), node=matrices())
def test_other_numbers(data: st.DataObject, node: NodeTopology) -> None:
    """GPUs that are called by other numbers have the same findings under those."""
    order = data.draw(st.permutations(range(len(node.gpus))))
    names = {f"GPU{old}": f"GPU{new}" for old, new in enumerate(order)}
    here = {(one.rule, names.get(one.subject, one.subject)) for one in node_findings(node)}
    there = {(one.rule, one.subject) for one in node_findings(renumbered(node, order))}
    assert here == there


@given(data=st.data())
def test_part_of_a_healthy_board(data: st.DataObject) -> None:
    """Whatever part of a healthy board is shown, nothing of it is a warning."""
    whole = healthy_node()
    hidden = data.draw(st.sets(st.integers(0, 7)))
    node = dataclasses.replace(
        whole,
        gpus=tuple(dataclasses.replace(gpu, is_hidden=gpu.index in hidden) for gpu in whole.gpus),
    )
    assert {one.severity for one in node_findings(with_nic_roles(node))} <= {Severity.NOTE}
