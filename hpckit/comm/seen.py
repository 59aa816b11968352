"""What an inspected node shows that bears on communication between nodes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from hpckit.comm.facts import SeenNode, Trait
from hpckit.core.late import regex
from hpckit.node.nics import RDMA
from hpckit.node.rules.gpu import fabric_not_completed
from hpckit.node.rules.rule import InspectedNode, named
from hpckit.node.topology import GpuVendor, LinkKind, Nic, NicRole, NodeTopology, is_down
from hpckit.spec.nic_kind import NicKind
from hpckit.spec.platform import CommLibrary, architecture_of

VERBS: Final = frozenset({NicKind.INFINIBAND, NicKind.ROCE})
"""What the IB transport of NCCL opens."""
_NUMBERED: Final = regex(r"(?P<stem>[a-z]+)\d+", re.ASCII)
_UNNAMED: Final = regex(r"NIC\d+|.*:.*", re.ASCII)
"""A NIC of nvidia-smi's matrix, whose device stands in the legend, and one by its PCI address."""
_DEVICE_STEM: Final = "cxi"


def seen_node(topology: NodeTopology) -> SeenNode:
    """What the rules of communication ask of a node; the roles of its NICs are used."""
    others = _other_hcas(topology.nics)
    # Empty where a source tells of one without its name.
    devices = [nic.name for nic in topology.nics if nic.kind in VERBS or nic.kind is None]
    architectures = {gpu.architecture or architecture_of(gpu.name) for gpu in topology.gpus}
    return SeenNode(
        library=_library(topology),
        architecture=next(iter(architectures)) if len(architectures) == 1 else None,
        interconnect=_interconnect(topology.nics),
        traits=tuple(_seen_traits(topology)),
        hcas=_hcas(topology.nics),
        other_hcas=others,
        interfaces=_seen_interfaces(topology.nics),
        domain=_domain(topology),
        devices=() if any(map(_UNNAMED.fullmatch, devices)) else tuple(devices),
        down=tuple(
            nic.name
            for nic in topology.nics
            if nic.kind in VERBS and nic.role is NicRole.COMPUTE and is_down(nic)
        ),
    )


def job_nics(topology: NodeTopology) -> tuple[str, ...]:
    """The names of the NICs for jobs, as far as their roles are known."""
    return tuple(nic.name for nic in topology.nics if nic.role is NicRole.COMPUTE)


def _seen_traits(topology: NodeTopology) -> Iterable[Trait]:
    if _domain(topology):
        yield Trait.DOMAIN_DOWN
    if any(link.kind is LinkKind.C2C for link in topology.cpu_links):
        yield Trait.GRACE
    if _are_pcie_peers(topology):
        yield Trait.PCIE_PEERS


def _library(topology: NodeTopology) -> CommLibrary | None:
    makers = {gpu.vendor for gpu in topology.gpus}
    if makers == {GpuVendor.AMD}:
        return CommLibrary.RCCL
    return CommLibrary.NCCL if makers == {GpuVendor.NVIDIA} else None


def _interconnect(nics: Iterable[Nic]) -> NicKind | None:
    """The kind of most NICs for jobs; without a role the kind that all RDMA devices have."""
    kinds = Counter(
        nic.kind for nic in nics if nic.role is NicRole.COMPUTE and nic.kind is not None
    )
    if kinds:
        return kinds.most_common(1)[0][0]
    rest = {nic.kind for nic in nics if nic.kind in RDMA and nic.role is None}
    return rest.pop() if len(rest) == 1 else None


def _hcas(nics: Iterable[Nic]) -> tuple[str, ...]:
    """The devices for jobs that NCCL can open; one that is down is opened by nobody."""
    return tuple(
        name
        for nic in nics
        if nic.kind in VERBS and nic.role is NicRole.COMPUTE and not is_down(nic)
        for name in _with_ports(nic)
    )


def _with_ports(nic: Nic) -> tuple[str, ...]:
    """A device as NCCL_IB_HCA takes it: with its port where it has several."""
    if len(nic.ports) < 2:  # noqa: PLR2004  one port needs no number
        return (nic.name,)
    up = [port for port in nic.ports if port.state is None or port.state.upper() == "ACTIVE"]
    return tuple(f"{nic.name}:{port.index}" for port in up)


def _other_hcas(nics: Iterable[Nic]) -> str:
    """The devices that NCCL would open and that are not for jobs, with why; empty if none."""
    reasons: dict[str, list[str]] = {}
    for nic in nics:
        is_other = nic.role in (NicRole.STORAGE, NicRole.OTHER)
        if nic.kind in VERBS and is_other and not is_down(nic):
            reasons.setdefault(nic.role_because or "not for jobs", []).append(nic.name)
    return "; ".join(f"{named(names)}: {because}" for because, names in reasons.items())


def _seen_interfaces(nics: Iterable[Nic]) -> str:
    """How a Slingshot node's interfaces begin, such as `hsn`; empty if none is known."""
    names = [
        name for nic in nics if nic.kind is NicKind.SLINGSHOT for name in (*nic.netdevs, nic.name)
    ]
    stems = {match["stem"] for name in names if (match := _NUMBERED.fullmatch(name))}
    return ",".join(sorted(stems - {_DEVICE_STEM}))


def _domain(topology: NodeTopology) -> str:
    """Which GPU's NVLink domain is not ready, and its state; empty if none is known to be."""
    found = list(fabric_not_completed(InspectedNode(topology=topology, cells={})))
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{found[0].because}{more}" if found else ""


def _are_pcie_peers(topology: NodeTopology) -> bool:
    """Whether a source that tells of links shows several AMD GPUs and none between them."""
    shown = [gpu for gpu in topology.gpus if not gpu.is_hidden]
    is_told = all(one.what != "gpu_links" for one in topology.unknown)
    is_amd = _library(topology) is CommLibrary.RCCL
    return is_told and is_amd and len(shown) > 1 and not topology.gpu_links
