"""What the rules of the communication environment ask of a job, its nodes and its site."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hpckit.model.comm import CommLibrary, NcclVersion, NetPlugin
from hpckit.model.nic_kind import NicKind


class Trait(StrEnum):
    """Something that is so, as far as it shows; the words are those of the reference."""

    OTHER_HCAS = "a node has RDMA devices that are not for jobs"
    LISTED_HCAS = "the site lists the devices for jobs"
    ISOLATED_RAILS = "no path leads from one rail to another"
    DOMAIN_DOWN = "the NVLink domain of a GPU is not ready"
    GRACE = "GPUs have NVLink-C2C to the CPU"
    PCIE_PEERS = "AMD GPUs reach each other by PCIe alone"
    MPI = "ranks are started as MPI ranks"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenNode:
    """What an inspected node shows of communication; fields as in CommFacts.

    `architecture` is that of all GPUs, such as `sm_90`; `devices` are all RDMA devices, empty where
    it does not name them, `down` those for jobs that are down.
    """

    library: CommLibrary | None = None
    architecture: str | None = None
    interconnect: NicKind | None = None
    traits: tuple[Trait, ...] = ()
    hcas: tuple[str, ...] = ()
    other_hcas: str = ""
    interfaces: str = ""
    domain: str = ""
    devices: tuple[str, ...] = ()
    down: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommQuestion:
    """What is asked: a job of `nodes` nodes, and what somebody said of its libraries."""

    nodes: int
    version: NcclVersion | None = None
    library: CommLibrary | None = None
    plugin: NetPlugin | None = None
    is_mpi: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommFacts:
    """A job, its nodes and its site, as far as they are known; None is not known.

    `hcas` are the RDMA devices for jobs that are up, as NCCL_IB_HCA takes them; `other_hcas` tells
    of those that are not for jobs. `interfaces` are a Slingshot node's network interfaces, as
    NCCL_SOCKET_IFNAME takes them. `domain` tells which GPUs' NVLink domain is not ready, and
    `contradiction` where the inspected node is not what the site says. `down` are devices for jobs
    that are down on that node.
    """

    nodes: int
    library: CommLibrary | None = None
    version: NcclVersion | None = None
    interconnect: NicKind | None = None
    plugin: NetPlugin | None = None
    traits: tuple[Trait, ...] = ()
    hcas: tuple[str, ...] = ()
    other_hcas: str = ""
    interfaces: str = ""
    domain: str = ""
    down: tuple[str, ...] = ()
    contradiction: str = ""
