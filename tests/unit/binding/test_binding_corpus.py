"""Binding on every captured machine: what must hold on any, for several numbers of ranks."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

from hpckit.binding.bind import bind_ranks
from hpckit.binding.gpus import ordered_gpus
from hpckit.core.index_list import expand_indices
from hpckit.node.capture.snapshot import inspect_capture
from hpckit.node.topology import NodeTopology
from tests.corpus import corpus_files
from tests.property.bound_nodes import cpus_of, faults
from tests.unit.node.test_captured import CAPTURES


def _cpus(node: NodeTopology) -> frozenset[int]:
    """The CPUs that ranks may have, told without the code under test."""
    if node.cpu.allowed:
        return frozenset(expand_indices(node.cpu.allowed))
    if node.cpu.cpus:
        return frozenset(expand_indices(node.cpu.cpus))
    lists = [*(numa.cpus for numa in node.numa_nodes), *(gpu.cpus for gpu in node.gpus)]
    lists += [package.cpus for package in node.cpu.packages]
    return frozenset(chain.from_iterable(expand_indices(text or "") for text in lists))


def _local_cpus(node: NodeTopology, at: int) -> frozenset[int]:
    """The CPUs beside a GPU, by its own word."""
    gpu = ordered_gpus(node)[at]
    numa = {one.index: one.cpus for one in node.numa_nodes if one.cpus}
    if gpu.numa_index in numa:
        return frozenset(expand_indices(numa[gpu.numa_index] or ""))
    return frozenset(expand_indices(gpu.cpus or ""))


@pytest.mark.parametrize("path", corpus_files(*CAPTURES))
def test_every_machine_is_bound(path: Path) -> None:
    """No core is double-booked, no CPU taken that is not allowed, for a rank a GPU and others."""
    for node in inspect_capture(path.read_bytes(), "capture"):
        gpus = len(ordered_gpus(node))
        for ranks in {gpus or 4, 1, 3, 2 * gpus + 1}:
            binding = bind_ranks(node, ranks)
            assert len(binding.ranks) == ranks
            assert _cpus(node) == frozenset() or faults(node, binding, _cpus(node)) == []
            assert bind_ranks(node, ranks) == binding


@pytest.mark.parametrize("path", corpus_files(*CAPTURES))
def test_every_rank_is_beside_its_gpu(path: Path) -> None:
    """With a rank a GPU its CPUs are the GPU's own, but for those of a GPU that has none told.

    One or two ranks have the node's other CPUs too.
    """
    for node in inspect_capture(path.read_bytes(), "capture"):
        gpus = ordered_gpus(node)
        binding = bind_ranks(node, max(len(gpus), 1))
        for rank, cpus in enumerate(cpus_of(binding) if gpus else ()):
            local = _local_cpus(node, rank) & _cpus(node)
            assert cpus <= local or not local or (len(gpus) <= 2 and cpus & local)
            assert [gpu.position for gpu in binding.ranks[rank].gpus] == [rank]
