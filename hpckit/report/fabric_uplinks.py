"""What leads out of a network's leaves beside what hangs on them, in words."""

from __future__ import annotations

from collections.abc import Set

from hpckit.model.domain_words import domain_kind, names_in, up_rate
from hpckit.model.fabric import ClusterTopology, EndKind
from hpckit.model.locality import ROOT, Domain, Locality
from hpckit.model.node_words import figure


def uplink_words(topology: ClusterTopology, locality: Locality) -> tuple[str, ...]:
    """What leads out of the lowest domains together, what NICs there carry, and the ratio.

    All adapters on their switches count, whoever they are of; those on leaves that are no domain's,
    as for storage alone, do not. Nothing where nothing leads out.
    """
    lowest = [domain for domain in locality.domains if _leads_out(domain)]
    if not lowest:
        return ()
    kind = domain_kind(lowest[0], 2)
    told = [rate for one in lowest if (rate := one.uplink_bytes_per_s) is not None]
    if len(told) < len(lowest):
        return tuple(f"what leads out of {kind} is not told".split())
    up = sum(told)
    words = f"out of {kind}: {up_rate(up)}"
    nics = _carried(topology, locality, {name for one in lowest for name in names_in(one.name)})
    into = sum(rate for rate in nics if rate is not None)
    if None in nics or not nics:
        return tuple(f"{words}; what NICs carry is not told".split())
    return tuple(f"{words} for NICs of {up_rate(into)}, {_ratio(into, up)}".split())


def _carried(topology: ClusterTopology, locality: Locality, leaves: Set[str]) -> list[float | None]:
    """What each NIC on these leaves carries; each named node, where the leaves are not told."""
    if not leaves <= {switch.name for switch in topology.switches}:
        return [locality.nic_bytes_per_s.get(node) for node in locality.domain_of]
    return [
        port.bytes_per_s
        for port in topology.ports
        if port.switch in leaves and port.kind is not EndKind.AGGREGATION
    ]


def _leads_out(domain: Domain) -> bool:
    return domain.level == 1 and domain.parent != ROOT and not domain.is_nvlink


def _ratio(into: float, up: float) -> str:
    return f"{figure(into / up, 2)}:1" if up > 0 else "nothing leads out"
