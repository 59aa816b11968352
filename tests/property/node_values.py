"""Any node that the model takes, its words and numbers with sense or without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from hpckit.core.findings import Finding, Severity
from hpckit.core.index_list import IndexList
from hpckit.node.path import PathTable
from hpckit.node.pci import PciAddress, PciDevice, PcieLink
from hpckit.node.topology import (
    MOST_BYTES_PER_S,
    Accelerator,
    CpuLink,
    CpuPackage,
    CpuTopology,
    Gpu,
    GpuFabric,
    GpuLink,
    Host,
    LinkKind,
    Nic,
    NicRole,
    NodeTopology,
    NumaKind,
    NumaNode,
    NvLink,
    Source,
    Unknown,
)
from hpckit.spec.nic_kind import NicKind

HOSTILE = (
    "</text><script>alert(1)</script>",
    '"><!--',
    "]]>&amp;&#x0;",
    "\x1b[2J\x1b]0;title\x07",
    "a\nb\r\tc\x00",
    "\u202egpu\u2066",
    "שלום",
    "e\u0301" * 40,
    "漢字" * 60,
    "x" * 5000,
    "9" * 4500,
    "\ud800",
    "",
)

texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=12), st.just("mlx5_3"))
maybe_text = st.one_of(st.none(), texts)
indices = st.one_of(st.integers(0, 9), st.integers(-3, 10**6), st.just(10**400))
maybe_index = st.one_of(st.none(), st.integers(0, 3), indices)
numbers = st.one_of(
    st.sampled_from((0.0, 2.5, 32.0, 5e10)),
    st.floats(),
    st.integers(-(10**3), 10**15),
    st.just(10**400),
)
maybe_number = st.one_of(st.none(), numbers)
maybe_rate = st.one_of(st.none(), st.sampled_from((0.0, 5e10)), st.floats(0, MOST_BYTES_PER_S))
maybe_integer = st.one_of(st.none(), st.integers(0, 20), indices)
maybe_bool = st.one_of(st.none(), st.booleans())
addresses = st.one_of(
    st.integers(0, 12).map(lambda at: PciAddress(f"0000:{at:02x}:00.0")), texts.map(PciAddress)
)
cpu_lists = st.sampled_from(("", "0-3", "4-7", "0-95", "8,10")).map(IndexList)
own_indices = st.one_of(st.integers(0, 9), st.integers(0, 10**6), st.just(10**400))


def _maybe(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.one_of(st.none(), strategy)


_links = st.builds(
    PcieLink,
    speed_gt_per_s=maybe_number,
    width=maybe_integer,
    max_speed_gt_per_s=maybe_number,
    max_width=maybe_integer,
)
_pci = st.builds(
    PciDevice,
    address=addresses,
    parent=_maybe(addresses),
    class_code=st.sampled_from((None, 0x0604, 0x0302, 0x0680)),
    vendor_id=st.sampled_from((None, 0x10DE)),
    numa_index=maybe_index,
    link=_maybe(_links),
    effective=_maybe(_links),
    physfn=_maybe(addresses),
)
_gpus = st.builds(
    Gpu,
    index=own_indices,
    name=maybe_text,
    pci=_maybe(addresses),
    memory_bytes=maybe_integer,
    numa_index=maybe_index,
    own_numa_index=maybe_index,
    cpus=_maybe(cpu_lists),
    is_mig=maybe_bool,
    mig_devices=maybe_integer,
    partition=maybe_text,
    nvlinks=_maybe(st.lists(st.builds(NvLink, index=indices), max_size=3).map(tuple)),
    fabric=_maybe(st.builds(GpuFabric, state=maybe_text)),
    is_hidden=st.booleans(),
)
_nics = st.builds(
    Nic,
    index=own_indices,
    name=texts,
    label=maybe_text,
    kind=_maybe(st.sampled_from(NicKind)),
    pci=_maybe(addresses),
    numa_index=maybe_index,
    state=maybe_text,
    rate_bytes_per_s=maybe_rate,
    bond=maybe_text,
    is_virtual=maybe_bool,
    physfn=_maybe(addresses),
    role=_maybe(st.sampled_from(NicRole)),
)
_gpu_links = st.builds(
    GpuLink,
    a=st.one_of(st.integers(0, 9), indices),
    b=st.one_of(st.integers(0, 9), indices),
    kind=st.sampled_from(LinkKind),
    count=maybe_integer,
    bandwidth_bytes_per_s=maybe_rate,
    is_switched=maybe_bool,
)
_numa = st.builds(
    NumaNode,
    index=own_indices,
    cpus=_maybe(cpu_lists),
    memory_bytes=maybe_integer,
    package_index=maybe_index,
    kind=_maybe(st.sampled_from(NumaKind)),
)
_cells = st.sampled_from((None, "X", "NV4", "PIX", "PXB", "NODE", "SYS"))


@st.composite
def _path_tables(draw: st.DrawFn) -> PathTable:
    names = st.one_of(st.sampled_from(("GPU0", "GPU1", "NIC0", "mlx5_3")), texts)
    devices = draw(st.lists(names, max_size=5, unique=True))
    row = st.lists(_cells, min_size=len(devices), max_size=len(devices)).map(tuple)
    rows = st.lists(row, min_size=len(devices), max_size=len(devices))
    return PathTable(devices=tuple(devices), cells=tuple(draw(rows)))


@st.composite
def _pci_trees(draw: st.DrawFn) -> tuple[PciDevice, ...]:
    found = draw(st.lists(_pci, max_size=10, unique_by=lambda one: one.address))
    later = [{other.address for other in found[at:]} for at in range(len(found))]
    return tuple(
        replace(one, parent=None) if one.parent in later[at] else one
        for at, one in enumerate(found)
    )


def _numbered(strategy: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[Any]:
    return st.lists(strategy, max_size=most, unique_by=lambda one: one.index).map(tuple)


def _some(strategy: st.SearchStrategy[object], most: int) -> st.SearchStrategy[object]:
    return st.lists(strategy, max_size=most).map(tuple)


topologies: st.SearchStrategy[NodeTopology] = st.builds(
    NodeTopology,
    source=st.builds(Source, format=texts, is_synthetic=st.booleans()),
    host=st.builds(Host, name=maybe_text, product=maybe_text, driver_version=maybe_text),
    cpu=st.builds(
        CpuTopology,
        vendor=maybe_text,
        model=maybe_text,
        packages=_some(
            st.builds(CpuPackage, index=indices, cpus=_maybe(cpu_lists), model=maybe_text), 2
        ),
    ),
    numa_nodes=_numbered(_numa, 6),
    gpus=_numbered(_gpus, 6),
    gpu_links=_some(_gpu_links, 8),
    cpu_links=_some(
        st.builds(
            CpuLink,
            gpu_index=indices,
            kind=st.sampled_from(LinkKind),
            bandwidth_bytes_per_s=maybe_rate,
        ),
        2,
    ),
    nics=_numbered(_nics, 8),
    accelerators=_numbered(
        st.builds(
            Accelerator,
            index=own_indices,
            name=texts,
            pci=_maybe(addresses),
            driver=maybe_text,
            numa_index=maybe_index,
        ),
        2,
    ),
    pci=_pci_trees(),
    paths=_maybe(_path_tables()),
    unknown=_some(st.builds(Unknown, subject=texts, what=texts, because=texts), 8),
)

findings: st.SearchStrategy[tuple[Finding, ...]] = st.lists(
    st.builds(
        Finding,
        rule=texts,
        severity=st.sampled_from(Severity),
        subject=st.one_of(st.sampled_from(("GPU0", "mlx5_3", "node")), texts),
        because=texts,
        remedy=texts,
    ),
    max_size=14,
).map(tuple)
