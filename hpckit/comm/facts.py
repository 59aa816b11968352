"""What the rules of the communication environment ask of a job, its nodes and its site."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from hpckit.core.findings import Severity
from hpckit.core.hostlist import natural_order
from hpckit.core.values import dataclass
from hpckit.spec.nic_kind import NicKind
from hpckit.spec.platform import CommLibrary, NcclVersion, NetPlugin, Platform, architecture_of

if TYPE_CHECKING:
    from hpckit.fabric.topology import ClusterTopology


def are_rails_isolated(topology: ClusterTopology) -> bool | None:
    """Whether no path leads from a rail to another; None where the network shows no two rails.

    Raises nothing: `fabric.rails.with_rails` comes first, which finds rails and planes.
    """
    if len(topology.rails) <= 1:
        return None
    rail_of = {switch: rail.index for rail in topology.rails for switch in rail.switches}
    planes = topology.planes or (tuple(switch.name for switch in topology.switches),)
    return all(
        len({rail_of[switch] for switch in plane if switch in rail_of}) <= 1 for plane in planes
    )


class Trait(StrEnum):
    """Something that is so, as far as it shows; the words are those of the reference."""

    OTHER_HCAS = "the node has RDMA devices that are not for jobs"
    LISTED_HCAS = "the site file lists the devices for jobs"
    ISOLATED_RAILS = "rails are not connected to each other"
    DOMAIN_DOWN = "a GPU's NVLink domain is not ready"
    GRACE = "NVLink-C2C connects GPUs and CPU"
    PCIE_PEERS = "AMD GPUs are connected only by PCIe"
    MPI = "ranks start as MPI ranks"


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


_AMD: Final = "mi"
"""How the names of AMD's GPUs for computing begin."""
_GRACE: Final = frozenset({"gh200", "gb200", "gb300"})
_SLINGSHOT_NET: Final = "hsn"
"""How Slingshot's network interfaces are called unless a node shows other names."""


def comm_facts(question: CommQuestion, platform: Platform, seen: SeenNode | None) -> CommFacts:
    """The facts that rules ask for; what was inspected stands over what the site file says.

    Where the two contradict each other, the site's network, plugin and devices do not count.
    """
    node = seen or SeenNode()
    contradiction = _contradiction(node, platform)
    site = Platform() if contradiction else platform
    hcas = node.hcas if node.other_hcas else site.hcas
    interconnect = node.interconnect or site.interconnect
    default_net = _SLINGSHOT_NET if interconnect is NicKind.SLINGSHOT else ""
    return CommFacts(
        nodes=question.nodes,
        library=node.library or platform.library or _library_of(platform),
        version=question.version,
        interconnect=interconnect,
        plugin=question.plugin or site.plugin,
        traits=_traits(question, site, seen, hcas),
        hcas=tuple(sorted(hcas, key=natural_order)),
        other_hcas=node.other_hcas,
        interfaces=node.interfaces or default_net,
        domain=node.domain,
        down=node.down,
        contradiction=contradiction,
    )


def _traits(
    question: CommQuestion, site: Platform, seen: SeenNode | None, hcas: tuple[str, ...]
) -> tuple[Trait, ...]:
    traits = set() if seen is None else set(seen.traits)
    if hcas:
        is_seen = seen is not None and bool(seen.other_hcas)
        traits.add(Trait.OTHER_HCAS if is_seen else Trait.LISTED_HCAS)
    if site.rails_isolated:
        traits.add(Trait.ISOLATED_RAILS)
    if seen is None and site.gpu in _GRACE:
        traits.add(Trait.GRACE)
    if question.is_mpi:
        traits.add(Trait.MPI)
    return tuple(sorted(traits))


def _contradiction(node: SeenNode, platform: Platform) -> str:
    """What of the inspected node is not as the site says; empty where nothing contradicts."""
    seen, said = node.interconnect, platform.interconnect
    if seen is not None and said is not None and seen is not said:
        return f"the inspected node has {seen}, the site file names {said}"
    library = _library_of(platform)
    if library is not None and node.library is not None and library is not node.library:
        return f"the inspected node's GPUs use {node.library.upper()}, the site's do not"
    board = architecture_of(platform.gpu)
    if None not in (board, node.architecture) and board != node.architecture:
        return f"the inspected node's GPUs are {node.architecture}, the site's {platform.gpu}"
    missing = [name for name in platform.hcas if name not in node.devices]
    if node.devices and missing:
        return (
            f"the inspected node lacks {len(missing)} of the site's devices, such as {missing[0]}"
        )
    return ""


def _library_of(platform: Platform) -> CommLibrary | None:
    if platform.gpu is None:
        return None
    return CommLibrary.RCCL if platform.gpu.startswith(_AMD) else CommLibrary.NCCL


def counts_here(facts: CommFacts, platform: Platform) -> bool:
    """Whether what the site sets by itself counts: for its own nodes, and by the plugin it has.

    A site's list and file tell its plugin what it needs; a job with another one, or with none, has
    no use for them.
    """
    return not facts.contradiction and platform.plugin in (None, facts.plugin)


def words_of(facts: CommFacts) -> Mapping[str, str]:
    """What the value and the reason of a rule may name in braces."""
    return {
        "hcas": ",".join(facts.hcas),
        "ucx_devices": ",".join(one if ":" in one else f"{one}:1" for one in facts.hcas),
        "others": _others(facts),
        "interfaces": facts.interfaces,
        "domain": facts.domain,
        "nodes": str(facts.nodes),
        "version": str(facts.version),
    }


def _others(facts: CommFacts) -> str:
    """Which devices are left out of a list, and why."""
    if not facts.down:
        return facts.other_hcas
    names = ", ".join(facts.down)
    return f"{facts.other_hcas}; nor {names}: down on the inspected node (inspect a healthy one)"


# --- Whether two values of a communication variable say the same.

LEVELS: Final = ("LOC", "PIX", "PXB", "PHB", "SYS")
"""The words of NCCL's old numbers for levels: 0 is LOC, 4 and more are SYS."""
_LEVELED: Final = frozenset(("NCCL_NET_GDR_LEVEL", "NCCL_P2P_LEVEL"))
_DEVICES: Final = frozenset(("NCCL_IB_HCA", "UCX_NET_DEVICES"))
_INTERFACES: Final = frozenset(("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"))


def says_the_same(name: str, value: str, derived: str) -> bool:
    """Whether a value does what hpckit's does: a number written otherwise, a list in another order.

    Of interfaces, names that all begin as hpckit's do are a narrower list of the same network.
    """
    one, other = value.strip(), derived.strip()
    if one == other:
        return True
    if name in _INTERFACES:
        beginnings = tuple(word for word in other.split(",") if word)
        names = one.removeprefix("=").split(",")
        return not other.startswith(("^", "=")) and all(
            name.startswith(beginnings) for name in names
        )
    if name in _DEVICES:
        return _listed(one) == _listed(other)
    if name == "NCCL_NET":
        return one.casefold() == other.casefold()
    return _plain(name, one) == _plain(name, other)


def level_of(value: str) -> str | None:
    """The word of a level that is a number: digits are read from the start; None without any."""
    match = re.match(r"\d{1,4}", value.strip(), re.ASCII)
    return None if match is None else LEVELS[min(int(match[0]), len(LEVELS) - 1)]


def _listed(value: str) -> tuple[str, list[str]]:
    """What stands before a list of devices (`=`, `^`), and its names in order."""
    names = value.lstrip("^=")
    return value[: len(value) - len(names)], sorted(names.split(","))


def _plain(name: str, value: str) -> str:
    if name in _LEVELED:
        return level_of(value) or value
    return str(int(value)) if re.fullmatch(r"\d{1,18}", value, re.ASCII) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedWord:
    """What one source has for the variable: a rule, a site's list, an overlay.

    `where` is when it applies, `missing` which of that is not so here, empty where it applies.
    """

    name: str
    value: str
    where: str
    because: str
    source: str
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedFault:
    """What a rule of the lint has against settings of the variable; fields as in LintFinding."""

    rule: str
    severity: Severity
    because: str
    remedy: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """`here` says what the job has of the variable, `words` what each source has for it.

    `read` says which releases of NCCL read it and what they take by default, None where that is
    not known; `faults` are what may be wrong with a setting of it.
    """

    name: str
    here: str
    read: str | None = None
    words: tuple[ExplainedWord, ...] = ()
    faults: tuple[ExplainedFault, ...] = ()
