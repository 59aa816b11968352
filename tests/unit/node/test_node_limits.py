"""What no node can be."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from hpckit.core.errors import InvalidValue
from hpckit.core.index_list import IndexList
from hpckit.node.merge import complete
from hpckit.node.topology import (
    MOST_GPUS,
    CpuTopology,
    Gpu,
    GpuLink,
    L3Group,
    LinkKind,
    Nic,
    NodeTopology,
)
from tests.fakes.machines import dgx_h100


@pytest.mark.parametrize("rate", [math.inf, math.nan, 1e308, -1.0])
def test_a_rate_that_nothing_has_is_refused(rate: float) -> None:
    """Of a NIC as of a link: what is computed from it would be as odd."""
    node = dgx_h100()
    link = GpuLink(a=0, b=1, kind=LinkKind.NVLINK, count=1, bandwidth_bytes_per_s=rate)
    with pytest.raises(InvalidValue) as caught:
        replace(node, gpu_links=(link,))
    assert caught.value.key == "gpu_links"
    with pytest.raises(InvalidValue) as caught:
        replace(node, nics=(replace(node.nics[0], rate_bytes_per_s=rate),))
    assert caught.value.key == "nics"


def test_more_gpus_than_any_node_has_are_refused() -> None:
    """Twice as many as sixteen cards in eight partitions each are taken."""
    source = dgx_h100().source
    gpus = tuple(Gpu(index=index) for index in range(MOST_GPUS))
    assert len(NodeTopology(source=source, gpus=gpus).gpus) == MOST_GPUS
    with pytest.raises(InvalidValue, match="at most 256"):
        NodeTopology(source=source, gpus=(*gpus, Gpu(index=MOST_GPUS)))


def test_lists_that_all_hold_every_cpu_are_refused() -> None:
    """A few bytes each, a thousand lists of 65,536 CPUs would be 65 million numbers."""
    every = IndexList("0-65535")
    with pytest.raises(InvalidValue) as caught:
        CpuTopology(l3=(L3Group(cpus=every), L3Group(cpus=IndexList("0"))))
    assert caught.value.key == "l3"
    with pytest.raises(InvalidValue) as caught:
        CpuTopology(core_cpus=(every, IndexList("0")))
    assert caught.value.key == "core_cpus"
    with pytest.raises(InvalidValue, match="an empty list"):
        CpuTopology(core_cpus=(IndexList(""),))
    node = dgx_h100()
    numa = tuple(replace(one, cpus=every) for one in node.numa_nodes)
    with pytest.raises(InvalidValue) as caught:
        replace(node, numa_nodes=numa)
    assert caught.value.key == "numa_nodes"


def test_a_host_of_many_virtual_functions_is_a_node() -> None:
    """Sixteen ports with 127 functions each are more than two thousand NICs."""
    node = dgx_h100()
    functions = tuple(
        Nic(index=100 + at, name=f"vf{at}", is_virtual=True, physfn=node.nics[at % 8].pci)
        for at in range(16 * 127)
    )
    whole = complete(replace(node, nics=(*node.nics, *functions), paths=None))
    assert whole.paths is not None
    assert whole.paths.devices[:9] == (*(f"GPU{at}" for at in range(8)), "NIC0")
    (lacking,) = (one for one in whole.unknown if one.what == "2032 virtual functions")
    assert "a matrix has at most 576 rows" in lacking.because
    assert complete(whole) == whole
