"""What a job, an inspected node and a site file say together about communication."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hpckit.decide.busbw_platform import architecture_of
from hpckit.model.comm import CommLibrary
from hpckit.model.comm_facts import CommFacts, CommQuestion, SeenNode, Trait
from hpckit.model.hostlist import natural_order
from hpckit.model.nic_kind import NicKind
from hpckit.model.platform import Platform

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
    return CommFacts(
        nodes=question.nodes,
        library=question.library or node.library or platform.library or _library_of(platform),
        version=question.version,
        interconnect=interconnect,
        plugin=question.plugin or site.plugin,
        traits=_traits(question, site, seen, hcas),
        hcas=tuple(sorted(hcas, key=natural_order)),
        other_hcas=node.other_hcas,
        interfaces=_interfaces(node, interconnect),
        domain=node.domain,
        down=node.down,
        contradiction=contradiction,
    )


def _interfaces(node: SeenNode, interconnect: NicKind | None) -> str:
    return node.interfaces or (_SLINGSHOT_NET if interconnect is NicKind.SLINGSHOT else "")


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
        return f"the inspected node has {seen}, the site says {said}"
    library = _library_of(platform)
    if library is not None and node.library is not None and library is not node.library:
        return f"the inspected node's GPUs are for {node.library.upper()}, the site's are not"
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
    return f"{facts.other_hcas}; nor {names}, down on the inspected node (inspect a healthy one)"
