"""A node as it was seen: CPUs, memory, GPUs, network, and what lies between them.

None is "unknown"; `NodeTopology.unknown` says why where the source can tell. Words are those of
hwloc, NVML, NCCL and Linux.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NewType

from hpckit.core.errors import InvalidValue
from hpckit.core.index_list import (
    IndexList,
    check_cores,
    check_indices,
    check_lists,
    expand_indices,
)
from hpckit.core.values import dataclass
from hpckit.node.path import PathTable
from hpckit.node.pci import PciAddress, PciDevice, check_tree
from hpckit.spec.nic_kind import NicKind

MOST_GPUS: Final = 256
"""Tables of pairs grow with its square; sixteen cards in eight partitions each are half of it."""

MOST_BYTES_PER_S: Final = 1e14
"""A hundred times what a GPU's links carry together; in Mb/s an int of C holds it, as NCCL's."""


def _check_numbers(key: str, parts: Sequence[Gpu | Nic | Accelerator | NumaNode]) -> None:
    indices = [part.index for part in parts]
    if min(indices, default=0) < 0:
        raise InvalidValue(key, min(indices), "indices from 0")
    if len(set(indices)) < len(indices):
        raise InvalidValue(key, "a duplicate index", "unique indices")


def _check_rates(key: str, rates_bytes_per_s: Iterable[float | None]) -> None:
    for rate in rates_bytes_per_s:
        if rate is not None and not 0 <= rate <= MOST_BYTES_PER_S:
            raise InvalidValue(key, rate, f"0 to {MOST_BYTES_PER_S:g} bytes per second")


TOPOLOGY_SCHEMA: Final = "hpckit.topology/1"

GpuUuid = NewType("GpuUuid", str)


class NumaKind(StrEnum):
    """What memory a NUMA node holds."""

    DRAM = "dram"
    HBM = "hbm"
    GPU = "gpu"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaNode:
    """A NUMA node; `cpus` is empty for one without CPUs (HBM, GPU memory).

    `distances` are the firmware's (SLIT), to the nodes in the order of `NodeTopology.numa_nodes`.
    """

    index: int
    cpus: IndexList | None = None
    memory_bytes: int | None = None
    package_index: int | None = None
    kind: NumaKind | None = None
    distances: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_indices("cpus", self.cpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuPackage:
    """A CPU socket."""

    index: int
    cpus: IndexList | None = None
    model: str | None = None
    cores: int | None = None

    def __post_init__(self) -> None:
        check_indices("cpus", self.cpus)


class PackagesOfCpus:
    """Finds the package that CPUs are in."""

    def __init__(self, packages: Iterable[CpuPackage]) -> None:
        self._of_cpu: dict[int, set[int]] = {}
        for package in packages:
            for cpu in expand_indices(package.cpus or ""):
                self._of_cpu.setdefault(cpu, set()).add(package.index)

    def of(self, cpus: str) -> int | None:
        """Return the one package that holds any of these CPUs; None for several, or none."""
        found = set[int]().union(*(self._of_cpu.get(cpu, ()) for cpu in expand_indices(cpus)))
        return found.pop() if len(found) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class L3Group:
    """The CPUs that share one L3 cache."""

    cpus: IndexList
    size_bytes: int | None = None

    def __post_init__(self) -> None:
        check_indices("cpus", self.cpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTopology:
    """The CPUs of a node; `cpus` are all of them, `allowed` those that this process may use.

    `core_cpus` are the CPUs (SMT siblings) of each core, empty where that is unknown. `family`
    and `model_number` are CPUID's, as lscpu prints them; NCCL's files write 25 as 175.
    """

    arch: str | None = None
    vendor: str | None = None
    model: str | None = None
    family: int | None = None
    model_number: int | None = None
    packages: tuple[CpuPackage, ...] = ()
    l3: tuple[L3Group, ...] = ()
    cores: int | None = None
    core_cpus: tuple[IndexList, ...] = ()
    cpus: IndexList | None = None
    allowed: IndexList | None = None

    def __post_init__(self) -> None:
        check_indices("cpus", self.cpus)
        check_indices("allowed", self.allowed)
        check_lists("packages", (package.cpus for package in self.packages))
        check_lists("l3", (group.cpus for group in self.l3))
        check_cores("core_cpus", self.core_cpus)


class GpuVendor(StrEnum):
    """Who made a GPU."""

    NVIDIA = "nvidia"
    AMD = "amd"
    INTEL = "intel"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFabric:
    """A GPU's place in an NVLink fabric. Source: NVML, nvmlGpuFabricInfoV_t.

    `state` is NOT_SUPPORTED, NOT_STARTED, IN_PROGRESS or COMPLETED. GPUs of one
    `cluster_uuid`.`clique_id` reach each other by NVLink, also across nodes.
    """

    state: str | None = None
    cluster_uuid: str | None = None
    clique_id: int | None = None
    status: str | None = None
    health: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPlatform:
    """Where a GPU sits. Source: NVML, nvmlPlatformInfo_v2_t."""

    chassis_serial: str | None = None
    slot_number: int | None = None
    tray_index: int | None = None
    host_id: int | None = None
    module_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHealth:
    """How a GPU was when it was asked; every field None where NVML or the driver does not say.

    `clocks_event_reasons` are NVML's names without their prefix, such as `HwThermalSlowdown`.
    """

    clocks_event_reasons: tuple[str, ...] | None = None
    remapped_rows_correctable: int | None = None
    remapped_rows_uncorrectable: int | None = None
    remapping_pending: bool | None = None
    remapping_failed: bool | None = None
    ecc_enabled: bool | None = None
    ecc_uncorrected_volatile: int | None = None
    ecc_uncorrected_aggregate: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    pcie_replays: int | None = None


class NvLinkRemote(StrEnum):
    """What is at the other end of an NVLink. Source: NVML, nvmlIntNvLinkDeviceType_t."""

    GPU = "gpu"
    NPU = "npu"
    SWITCH = "switch"


@dataclass(frozen=True, slots=True, kw_only=True)
class NvLink:
    """One NVLink of a GPU."""

    index: int
    is_active: bool | None = None
    remote: NvLinkRemote | None = None
    remote_pci: PciAddress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU as the driver counts it: a partition of one (MI300 in CPX mode, a GCD) is one too.

    `numa_index` is the NUMA node of the CPUs beside it, `own_numa_index` that of the GPU's memory
    where it is a node of the system (Grace). `cpus` and `memory_numa` are the CPU and NUMA
    affinity. `architecture` is `sm_90` or `gfx942`. `partition` is AMD's compute partition, or an
    index within the package. `is_hidden` says that the PCI tree has it and the driver does not
    show it here.
    """

    index: int
    name: str | None = None
    vendor: GpuVendor | None = None
    pci: PciAddress | None = None
    uuid: GpuUuid | None = None
    serial: str | None = None
    architecture: str | None = None
    memory_bytes: int | None = None
    numa_index: int | None = None
    own_numa_index: int | None = None
    cpus: IndexList | None = None
    memory_numa: IndexList | None = None
    is_mig: bool | None = None
    mig_devices: int | None = None
    partition: str | None = None
    nvlinks: tuple[NvLink, ...] | None = None
    nvlink_version: str | None = None
    fabric: GpuFabric | None = None
    platform: GpuPlatform | None = None
    health: GpuHealth | None = None
    is_gdr: bool | None = None
    is_hidden: bool = False

    def __post_init__(self) -> None:
        check_indices("cpus", self.cpus)
        check_indices("memory_numa", self.memory_numa)


class LinkKind(StrEnum):
    """Links that bypass PCIe."""

    NVLINK = "NVLink"
    C2C = "NVLink-C2C"
    XGMI = "XGMI"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLink:
    """The links between two GPUs, `a` before `b`, by their indices; a pair without is not there.

    `count` is how many of them carry data between the two; through a switch it is what each has
    to it, the smaller of the two. `bandwidth_bytes_per_s` is that of all of them in one direction.
    `is_p2p` is whether a GPU may use the other's memory through it. `weight` and `hops` are as
    AMD's tools give them.
    """

    a: int
    b: int
    kind: LinkKind
    count: int | None = None
    bandwidth_bytes_per_s: float | None = None
    is_switched: bool | None = None
    is_p2p: bool | None = None
    weight: int | None = None
    hops: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuLink:
    """A link other than PCIe between a GPU and a CPU: NVLink on POWER, C2C on Grace."""

    gpu_index: int
    kind: LinkKind
    numa_index: int | None = None
    count: int | None = None
    bandwidth_bytes_per_s: float | None = None


class NicRole(StrEnum):
    """What a NIC is for, as far as it shows."""

    COMPUTE = "compute"
    STORAGE = "storage"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class NicPort:
    """A port of a NIC; `state` is Linux's word, such as `ACTIVE` or `DOWN`."""

    index: int
    state: str | None = None
    rate_bytes_per_s: float | None = None
    link_layer: str | None = None
    phys_state: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Nic:
    """A network device; `label` is what a matrix calls it (`NIC0`) where that is not its name.

    `state` is ACTIVE if a port is, else that of the first; `rate_bytes_per_s` is in one direction,
    of the fastest active port. `bond` is the bond that it belongs to or is. `physfn` is the
    physical function of a virtual one.
    """

    index: int
    name: str
    label: str | None = None
    kind: NicKind | None = None
    pci: PciAddress | None = None
    numa_index: int | None = None
    state: str | None = None
    rate_bytes_per_s: float | None = None
    link_layer: str | None = None
    ports: tuple[NicPort, ...] = ()
    netdevs: tuple[str, ...] = ()
    guid: str | None = None
    driver: str | None = None
    firmware: str | None = None
    bond: str | None = None
    is_virtual: bool | None = None
    physfn: PciAddress | None = None
    is_gdr: bool | None = None
    role: NicRole | None = None
    role_because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """A device for computing that is no GPU (Gaudi, TPU, Trainium), known by PCI ids and driver."""

    index: int
    name: str
    pci: PciAddress | None = None
    driver: str | None = None
    numa_index: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a topology was read from; `format` is the tool's or file's name."""

    format: str
    is_synthetic: bool = False
    is_live: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine as a whole."""

    name: str | None = None
    product: str | None = None
    os_release: str | None = None
    driver_version: str | None = None
    nvml_version: str | None = None
    is_virtual_machine: bool | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something that is None, and why: `numa_index` of `GPU0`; subject `GPUs` is all of them."""

    subject: str
    what: str
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Two sources that contradict each other: `numa_index` of `GPU3`, and what each of them said.

    The value in the topology is that of the first in `said`.
    """

    subject: str
    what: str
    said: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTopology:
    """A node: what is in it and what lies between. Indices are unique in each tuple.

    `pci` is in the order of a walk through the tree, each parent before its children. Raises
    InvalidValue where that is not so, and for more of anything than a node can have.
    """

    source: Source
    host: Host = Host()
    cpu: CpuTopology = CpuTopology()
    numa_nodes: tuple[NumaNode, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    gpu_links: tuple[GpuLink, ...] = ()
    cpu_links: tuple[CpuLink, ...] = ()
    nics: tuple[Nic, ...] = ()
    accelerators: tuple[Accelerator, ...] = ()
    pci: tuple[PciDevice, ...] = ()
    paths: PathTable | None = None
    unknown: tuple[Unknown, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()

    def __post_init__(self) -> None:
        if len(self.gpus) > MOST_GPUS:
            raise InvalidValue("gpus", len(self.gpus), f"at most {MOST_GPUS} in one node")
        _check_numbers("gpus", self.gpus)
        _check_numbers("nics", self.nics)
        _check_numbers("accelerators", self.accelerators)
        _check_numbers("numa_nodes", self.numa_nodes)
        _check_rates("nics", (nic.rate_bytes_per_s for nic in self.nics))
        _check_rates("gpu_links", (link.bandwidth_bytes_per_s for link in self.gpu_links))
        _check_rates("cpu_links", (link.bandwidth_bytes_per_s for link in self.cpu_links))
        check_lists("numa_nodes", (numa.cpus for numa in self.numa_nodes))
        check_tree(self.pci)


# Whether a NIC is up. Source: Linux Documentation/ABI/stable/sysfs-class-infiniband, `state`.
ACTIVE: Final = "ACTIVE"


def port_state(ports: Iterable[NicPort]) -> str | None:
    """The state of a NIC by its ports: ACTIVE if one is, else that of the first."""
    states = [port.state for port in ports]
    return ACTIVE if ACTIVE in states else next(iter(states), None)


def is_active(nic: Nic) -> bool:
    """Whether a port of it is up."""
    return nic.state is not None and nic.state.upper() == ACTIVE


def is_down(nic: Nic) -> bool:
    """Whether it is known to have no active port."""
    return nic.state is not None and not is_active(nic)
