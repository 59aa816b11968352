"""Binding beside PRRTE's published maps by GPU of a node with two EPYC 9555 and four H200.

PRRTE binds a rank to one core (or a package), the first free one of the NUMA node of its device;
here a rank has all cores that are its own there. So devices are compared, and PRRTE's core with
the rank's cores. Logical core n of this machine is CPU n.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from hpckit.binding.bind import bind_ranks
from hpckit.core.index_list import expand_indices, index_list
from hpckit.node.capture.snapshot import inspect_capture
from tests.corpus import corpus_file

_LINE = re.compile(r"Process rank: (\d+) Bound: package\[\d\]\[core:L(\S+)\] Device: (\S+)")


class Bound(NamedTuple):
    """The GPUs of a rank, and its cores by the first CPU of each."""

    gpus: tuple[int, ...]
    cores: tuple[int, ...]


def theirs(case: str) -> list[Bound]:
    """What PRRTE's map of a case says, by rank."""
    text = corpus_file(f"prrte-golden/turin-4gpu-nvml__device.turin-4gpu-nvml.{case}.map.txt")
    found = _LINE.findall(text.read_text())
    assert [int(rank) for rank, _, _ in found] == list(range(len(found)))
    return [
        Bound(
            tuple(int(name.removeprefix("cuda")) for name in devices.split(",")),
            expand_indices(cores),
        )
        for _, cores, devices in found
    ]


def ours(ranks: int) -> list[Bound]:
    """The same of the binding here."""
    data = corpus_file("hwloc-xml/prrte-turin-4gpu-nvml.xml").read_bytes()
    (node,) = inspect_capture(data, "turin")
    first = {expand_indices(core)[0] for core in node.cpu.core_cpus}
    return [
        Bound(
            tuple(gpu.position for gpu in rank.gpus),
            tuple(cpu for cpu in expand_indices(rank.cpus) if cpu in first),
        )
        for rank in bind_ranks(node, ranks).ranks
    ]


def test_a_rank_a_gpu() -> None:
    """`--map-by device=gpu`: the same device, and PRRTE's core is the first of the rank's."""
    mine, its = ours(4), theirs("gpu")
    assert [one.gpus for one in mine] == [one.gpus for one in its]
    assert [one.cores[:1] for one in mine] == [one.cores for one in its]
    assert [len(one.cores) for one in mine] == [16] * 4


def test_two_ranks_a_gpu() -> None:
    """`ppr:2:device=gpu`: the same devices; each second rank differs in its core.

    PRRTE packs the two ranks of a GPU on neighbouring cores (L16, L17). Here the sixteen cores of
    the NUMA node are halved, so L17 is the first rank's, and the second begins eight later.
    """
    mine, its = ours(8), theirs("ppr2")
    assert [one.gpus for one in mine] == [one.gpus for one in its]
    first, second = slice(0, None, 2), slice(1, None, 2)
    assert [one.cores[:1] for one in mine[first]] == [one.cores for one in its[first]]
    assert [one.cores[0] - 7 for one in mine[second]] == [one.cores[0] for one in its[second]]
    for one, other in zip(mine[first], its[second], strict=True):
        assert set(other.cores) <= set(one.cores)


def test_two_gpus_a_rank() -> None:
    """`ndev=2`: the same devices, and the package's CPUs."""
    mine, its = ours(2), theirs("gpu-ndev2")
    assert [one.gpus for one in mine] == [one.gpus for one in its] == [(0, 1), (2, 3)]
    assert [index_list(one.cores) for one in mine] == ["0-63", "64-127"]
    assert [one.cores for one in mine] == [one.cores for one in its]
