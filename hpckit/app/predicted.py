"""What bus bandwidth collectives should reach on a job's nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hpckit.decide.busbw import predict
from hpckit.decide.busbw_forced import forced_off
from hpckit.decide.busbw_machine import comm_machine
from hpckit.decide.busbw_platform import architecture_of, platform_machine
from hpckit.model.busbw import BusbwPrediction, CommMachine
from hpckit.model.comm import NcclVersion
from hpckit.model.hardware import NodeTopology
from hpckit.model.platform import Platform


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """How many nodes, and how many GPUs of each; None is all of a node's."""

    nodes: int
    gpus_per_node: int | None = None


def predicted(
    allocation: Allocation,
    platform: Platform,
    topology: NodeTopology | None,
    nccl: NcclVersion | None,
    settings: Iterable[tuple[str, str]] = (),
) -> tuple[BusbwPrediction, ...]:
    """The plateau of each collective; none where nothing is known of the nodes.

    `settings` are variables of the job, of which some turn algorithms off.
    """
    machine = _machine(allocation, platform, topology)
    if machine is None:
        return ()
    return predict(machine, allocation.nodes, nccl=nccl, off=forced_off(settings))


def _machine(
    allocation: Allocation, platform: Platform, topology: NodeTopology | None
) -> CommMachine | None:
    asked = allocation.gpus_per_node
    if topology is None:
        known = platform.gpu is not None
        return platform_machine(platform, allocation.nodes, asked) if known else None
    shown = [gpu for gpu in topology.gpus if not gpu.is_hidden]
    if not shown:
        return None
    return comm_machine(
        topology,
        nodes=allocation.nodes,
        gpus_per_node=asked or len(shown),
        domain_nodes=platform.domain_nodes,
        architecture=architecture_of(shown[0].name) or architecture_of(platform.gpu),
    )
