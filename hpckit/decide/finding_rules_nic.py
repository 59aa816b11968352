"""What is odd about NICs: down, slower than their peers, or not beside the GPU that needs one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpckit.core.findings import Evidence
from hpckit.decide.finding_rule import (
    CLOSE,
    GPUS,
    InspectedNode,
    gpu_name,
    gpu_ranges,
    have,
    most_common,
    named,
)
from hpckit.decide.finding_rules_pci import pci_hidden
from hpckit.decide.nic_nearness import nic_kinds
from hpckit.decide.nic_roles import RDMA, rate_words
from hpckit.model.hardware import Nic, NicRole
from hpckit.model.nic_kind import NicKind
from hpckit.model.nic_state import ACTIVE, is_active, is_down
from hpckit.model.path import PathKind
from hpckit.model.words import counted

RAILS_FROM: Final = 4
"""GPUs from which on one without the NIC that each of the others has is no design."""


def nic_down(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `nic-down`: a NIC for jobs, as nic_roles has it."""
    for nic in node.topology.nics:
        if nic.role is NicRole.COMPUTE and is_down(nic):
            yield Evidence(nic.name, _down_words(nic) + _peers(node, nic))


def nic_unused(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `nic-unused`: down, and not known to be for jobs; plain Ethernet is left out."""
    for nic in node.topology.nics:
        is_whole = nic.kind in RDMA and not nic.is_virtual and nic.physfn is None
        if is_whole and nic.role is not NicRole.COMPUTE and is_down(nic):
            yield Evidence(nic.name, _down_words(nic))


def port_down(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `port-down`: one port of a NIC for jobs, whose other port is up."""
    for nic in node.topology.nics:
        down = [port.index for port in nic.ports if port.state and port.state.upper() != ACTIVE]
        if nic.role is NicRole.COMPUTE and is_active(nic) and down:
            ports = f"port{'' if len(down) == 1 else 's'} {named(str(index) for index in down)}"
            yield Evidence(nic.name, f"{nic.name} has no link on {ports}, another port is up")


def nic_slow(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `nic-slow`: below the rate of more than half of the NICs for jobs of its kind."""
    groups: dict[NicKind | None, list[Nic]] = {}
    for nic in node.topology.nics:
        if nic.role is NicRole.COMPUTE and not is_down(nic) and nic.rate_bytes_per_s:
            groups.setdefault(nic.kind, []).append(nic)
    for group in groups.values():
        usual = most_common(nic.rate_bytes_per_s for nic in group)
        for nic in group:
            if usual and nic.rate_bytes_per_s and nic.rate_bytes_per_s < usual:
                peers = sum(each.rate_bytes_per_s == usual for each in group)
                yield Evidence(
                    nic.name,
                    f"{nic.name} runs {rate_words(nic.rate_bytes_per_s)},"
                    f" {counted(peers, 'NIC')} like it {rate_words(usual)}",
                )


def nic_missing(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `nic-missing`: one GPU without, each of the others with as many NICs of its own."""
    close = _close(node)
    without = [index for index, each in close.items() if each == frozenset()]
    others = [each for each in close.values() if each]
    own = {len(each) for each in others}
    is_rails = sum(map(len, others)) == len(frozenset[int]().union(*others))
    if len(close) < RAILS_FROM or len(without) != 1 or len(own) != 1 or not is_rails:
        return
    name = gpu_name(without[0])
    (each_has,) = own
    yield Evidence(
        name,
        f"{name} has no NIC on its PCIe switch, each of the other {len(others)} GPUs has"
        f" {each_has} of its own",
    )


def no_close_nic(node: InspectedNode) -> Iterator[Evidence]:
    """Rule `no-close-nic`; nothing where a hypervisor hides what is close.

    A GPU of which a path to a NIC is not known may well have one that is close.
    """
    close = _close(node)
    without = [index for index, each in close.items() if each == frozenset()]
    if not without or any(pci_hidden(node)):
        return
    missing = {one.subject for one in nic_missing(node)}
    if len(without) == len(close) > 1:
        yield Evidence(GPUS, f"no GPU has a NIC on its PCIe switch{_nearest(node, without)}")
        return
    having = [index for index, each in close.items() if each]
    others = f", {gpu_ranges(having)} {have(len(having))} one" if having else ""
    for index in without:
        name = gpu_name(index)
        if name not in missing:
            nearest = _nearest(node, [index])
            yield Evidence(name, f"{name} has no NIC on the same PCIe switch{others}{nearest}")


def _nearest(node: InspectedNode, indices: list[int]) -> str:
    order = list(PathKind)
    kinds = _kinds(node)
    nearest = {min(kinds[index].values(), key=order.index) for index in indices}
    *nearer, farthest = sorted(nearest, key=order.index)
    told = f"{', '.join(nearer)} or {farthest}" if nearer else farthest
    return f"; the nearest is {told} away"


def _close(node: InspectedNode) -> dict[int, frozenset[int] | None]:
    """GPU → the NICs for jobs that are close to it, down ones too: they are in their place.

    None where none is known to be close and some path is not known.
    """
    wanted = len({nic.index for nic in _for_jobs(node)})
    found: dict[int, frozenset[int] | None] = {}
    for gpu, kinds in _kinds(node).items() if wanted else ():
        close = frozenset(nic for nic, kind in kinds.items() if kind in CLOSE)
        found[gpu] = close if close or len(kinds) == wanted else None
    return found


def _kinds(node: InspectedNode) -> dict[int, dict[int, PathKind]]:
    return nic_kinds(node.cells, node.gpus, _for_jobs(node))


def _for_jobs(node: InspectedNode) -> tuple[Nic, ...]:
    """NICs for jobs; where no role is known, all of them."""
    nics = node.topology.nics
    known = tuple(nic for nic in nics if nic.role is NicRole.COMPUTE)
    return known or tuple(nic for nic in nics if nic.role is None)


def _down_words(nic: Nic) -> str:
    physical = next((port.phys_state for port in nic.ports if port.phys_state), None)
    link = "" if physical is None else f" (physical link {physical})"
    return f"{nic.name} is {nic.state}{link}"


def _peers(node: InspectedNode, nic: Nic) -> str:
    peers = [
        each for each in node.topology.nics if each.role is NicRole.COMPUTE and each is not nic
    ]
    up = sum(is_active(each) for each in peers)
    if len(peers) > 1:
        share = f"all {up}" if up == len(peers) else f"{up} of {len(peers)}"
        return f"; {share} other NICs for jobs are up"
    return f"; the other NIC for jobs is {'' if up else 'not '}up" if peers else ""
