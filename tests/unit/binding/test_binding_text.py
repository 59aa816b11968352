"""The table of a binding, and its document."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpckit.binding.bind import NodeBinding, bind_ranks
from hpckit.binding.show import binding_lines, binding_tree, cpu_bind_option
from hpckit.core.errors import PlanError, RenderError
from hpckit.core.text import columns
from hpckit.node.merge import complete
from hpckit.node.topology import NodeTopology, Source
from tests.fakes.machines import cpu_only, dgx_h100
from tests.property.bound_nodes import Request, cpus_of, requests
from tests.property.node_values import topologies


def dgx() -> NodeBinding:
    """Eight ranks on an H100 machine."""
    return bind_ranks(complete(dgx_h100()), 8)


def test_a_rank_a_row() -> None:
    """Each rank's GPU, CPUs, NUMA node and NIC stand in a row, with the reason beside."""
    lines = [line.text for line in binding_lines(dgx())]
    assert lines[0].split() == ["rank", "GPU", "CPUs", "NUMA", "NIC", "why"]
    assert lines[7].split()[:5] == ["3", "3", "42-55,154-167", "0", "mlx5_3"]
    assert "14 of 56 cores of NUMA 0, near GPU 3;" in lines[7]
    assert lines[8].split() == ["PIX", "to", "GPU", "3"]
    assert "GPU: index = local rank, in PCI order" in lines
    assert lines[-2].startswith("note: NICs left out: mlx5_8 (200 Gb/s where")


def test_reasons_that_differ_are_said_of_their_ranks() -> None:
    """What is not so for every rank is said with the ranks that it is so for."""
    binding = bind_ranks(cpu_only(), 4)
    other = NodeBinding(ranks=(*binding.ranks[:3], dgx().ranks[3]))
    lines = [line.text for line in binding_lines(other)]
    assert "GPU of ranks 0-2: no GPU on this node" in lines
    assert "GPU of rank 3: index = local rank, in PCI order" in lines


@given(topologies, st.integers(1, 9), st.integers(40, 100))
def test_lines_of_any_node_fit(node: NodeTopology, ranks: int, width: int) -> None:
    """No line is wider than asked for, and none holds what a terminal acts on."""
    try:
        binding = bind_ranks(node, ranks)
    except PlanError:
        return
    for line in binding_lines(binding, width=width):
        assert line.text.isprintable()
        assert columns(line.text) <= width


@given(requests())
def test_a_binding_is_read_back(request: Request) -> None:
    """The document of any binding is read back as it was."""
    binding = bind_ranks(request.node, request.ranks, allowed=request.allowed)
    text = json.dumps(binding_tree(binding))
    assert msgspec.json.decode(text, type=NodeBinding) == binding


@given(requests())
def test_masks_are_the_cpus_of_ranks(request: Request) -> None:
    """The masks for srun, one a local rank in their order, are the CPUs of the binding."""
    binding = bind_ranks(request.node, request.ranks, allowed=request.allowed)
    kind, _, masks = cpu_bind_option(binding).partition(":")
    assert kind == "mask_cpu"
    assert [int(mask, 16) for mask in masks.split(",")] == [
        sum(2**cpu for cpu in cpus) for cpus in cpus_of(binding)
    ]
    assert all(mask.startswith("0x") for mask in masks.split(","))


def test_no_mask_without_cpus() -> None:
    """Ranks of a node of which no CPU is known cannot be bound by Slurm either."""
    binding = bind_ranks(NodeTopology(source=Source(format="test")), 2)
    with pytest.raises(RenderError, match="CPUs of rank 0 are unknown"):
        cpu_bind_option(binding)
