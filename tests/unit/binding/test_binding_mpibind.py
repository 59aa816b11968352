"""Binding beside mpibind's published answers: the same CPUs in every case, GPUs but for these."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.binding.bind import NodeBinding
from hpckit.core.index_list import expand_indices
from hpckit.node.capture.snapshot import inspect_capture
from hpckit.node.topology import NodeTopology
from tests.corpus import corpus_file, corpus_files
from tests.fakes.mpibind_golden import Case, bound, read_cases

MACHINES = {
    "coral-lassen": "coral-lassen",
    "coral-lassen.v1": "coral-lassen",
    "coral-ea": "coral-ea-hwloc1",
    "cts1-quartz": "cts1-quartz-smt1",
}
GOLDENS = corpus_files("mpibind-golden/expected.*.txt")

LASSEN_GPUS = {5: "0;1;2;3", 9: "0,1;2,3", 12: "0;0;1;1;2;2;3;3"}
"""What differs on Lassen, with the GPUs here.

A restriction to CPUs of one NUMA node makes mpibind deal the two GPUs beside it alone. Here a
restriction of CPUs is a job's cgroup, and the GPUs of a job are those that its cgroup leaves
visible, so all four are dealt, and those of the other NUMA node are told to be far.
"""

EA_GPUS = {
    **{1: "0;0;0;0;0;1;1;1;1;1;2;2;2;2;2;3;3;3;3;3", 2: "0-3", 3: "0-1;2-3", 4: "0-3"},
    **{5: "0;0;1;1;2;2;3;3", 6: "0-1;2-3", 7: "0-1;2-3", 8: "0-1;2-3", 9: "0-1;2-3"},
    **{10: "0-1;2-3", 11: "0-1;2-3", 12: "0;0;1;1;2;2;3;3"},
}
"""What differs on the early-access CORAL node: mpibind's answers have no GPU at all.

The capture is of hwloc 1 and has no CUDA devices, which mpibind counts; its four P100s are on the
PCI tree, by which they are known here.
"""


def _machine(golden: Path) -> NodeTopology:
    name = MACHINES[golden.name.removeprefix("expected.").removesuffix(".txt")]
    data = corpus_file(f"hwloc-xml/mpibind-{name}.xml").read_bytes()
    (machine,) = inspect_capture(data, name)
    return machine


def _cases(golden: Path) -> list[Case]:
    like = golden.with_name("expected.coral-lassen.txt") if ".v1" in golden.name else None
    return read_cases(golden, like)


def _cpus(binding: NodeBinding) -> tuple[tuple[int, ...], ...]:
    return tuple(expand_indices(rank.cpus) for rank in binding.ranks)


def _gpus(binding: NodeBinding) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(gpu.position for gpu in rank.gpus) for rank in binding.ranks)


def _differing(golden: Path) -> dict[int, str]:
    if "coral-lassen" in golden.name:
        return LASSEN_GPUS
    return EA_GPUS if "coral-ea" in golden.name else {}


@pytest.mark.parametrize("golden", GOLDENS)
def test_cpus_are_mpibinds(golden: Path) -> None:
    """In each of the twelve cases every rank has the CPUs that mpibind gives its task."""
    node, cases = _machine(golden), _cases(golden)
    assert [case.number for case in cases] == list(range(1, 13))
    for case in cases:
        assert (case.number, _cpus(bound(node, case))) == (case.number, case.cpus)


@pytest.mark.parametrize("golden", GOLDENS)
def test_cpus_are_mpibinds_without_gpus(golden: Path) -> None:
    """Where the machine's GPUs are taken away, its NUMA nodes are dealt as mpibind does."""
    node = replace(_machine(golden), gpus=())
    for case in _cases(golden):
        assert (case.number, _cpus(bound(node, case))) == (case.number, case.cpus)


@pytest.mark.parametrize("golden", GOLDENS)
def test_gpus_are_mpibinds(golden: Path) -> None:
    """Every rank has the GPUs of mpibind's task, but for the cases that are told above."""
    node, differing = _machine(golden), _differing(golden)
    for case in _cases(golden):
        mine = _gpus(bound(node, case))
        if case.number not in differing:
            assert (case.number, mine) == (case.number, case.gpus)
            continue
        told = tuple(expand_indices(part) for part in differing[case.number].split(";"))
        assert (case.number, mine) == (case.number, told)
        assert mine != case.gpus


def test_a_gpu_that_is_far_from_the_allowed_cpus_is_told() -> None:
    """Lassen's case 9: ranks of GPUs 2 and 3 are on the other NUMA node, and the notes say so."""
    golden = corpus_file("mpibind-golden/expected.coral-lassen.txt")
    binding = bound(_machine(golden), _cases(golden)[8])
    assert "not near its GPU: rank 1" in binding.notes
    assert binding.ranks[1].cpus_because == (
        "5 of 10 L3 groups of NUMA 0, nearest with room: no allowed CPU on NUMA 8, near GPUs 2-3"
    )
