"""What a job, an inspected node and a site file say together about communication."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hpckit.model.comm import CommLibrary
from hpckit.model.comm_facts import CommFacts, CommQuestion, SeenNode, Trait
from hpckit.model.hostlist import natural_order
from hpckit.model.platform import Platform

_AMD: Final = "mi"
"""How the names of AMD's GPUs for computing begin."""
_GRACE: Final = frozenset({"gh200", "gb200", "gb300"})
_SLINGSHOT_NET: Final = "hsn"
"""How Slingshot's network interfaces are called unless a node shows other names."""


def comm_facts(question: CommQuestion, platform: Platform, seen: SeenNode | None) -> CommFacts:
    """The facts that rules ask for; what was inspected stands over what the site file says."""
    node = seen or SeenNode()
    traits = set(node.traits)
    hcas = node.hcas if node.other_hcas else platform.hcas
    if hcas:
        traits.add(Trait.OTHER_HCAS if node.other_hcas else Trait.LISTED_HCAS)
    if platform.rails_isolated:
        traits.add(Trait.ISOLATED_RAILS)
    if seen is None and platform.gpu in _GRACE:
        traits.add(Trait.GRACE)
    if question.is_mpi:
        traits.add(Trait.MPI)
    return CommFacts(
        nodes=question.nodes,
        library=question.library or node.library or platform.library or _library_of(platform),
        version=question.version,
        interconnect=node.interconnect or platform.interconnect,
        plugin=question.plugin or platform.plugin,
        traits=tuple(sorted(traits)),
        hcas=tuple(sorted(hcas, key=natural_order)),
        other_hcas=node.other_hcas,
        interfaces=node.interfaces or _SLINGSHOT_NET,
        domain=node.domain,
        contradiction=_contradiction(node, platform),
    )


def _contradiction(node: SeenNode, platform: Platform) -> str:
    seen, said = node.interconnect, platform.interconnect
    if seen is None or said is None or seen is said:
        return ""
    return f"the inspected node has {seen}, the site says {said}"


def _library_of(platform: Platform) -> CommLibrary | None:
    if platform.gpu is None:
        return None
    return CommLibrary.RCCL if platform.gpu.startswith(_AMD) else CommLibrary.NCCL


def words_of(facts: CommFacts) -> Mapping[str, str]:
    """What the value and the reason of a rule may name in braces."""
    return {
        "hcas": ",".join(facts.hcas),
        "ucx_devices": ",".join(one if ":" in one else f"{one}:1" for one in facts.hcas),
        "others": facts.other_hcas,
        "interfaces": facts.interfaces,
        "domain": facts.domain,
        "nodes": str(facts.nodes),
        "version": str(facts.version),
    }
