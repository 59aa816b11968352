"""What of a fabric its source does not tell, so that nobody takes silence for a clean answer."""

from __future__ import annotations

from hpckit.fabric.topology import ClusterTopology, FabricSource


def not_checked(topology: ClusterTopology) -> tuple[str, ...]:
    """Of `cables`, `rates` and `rails` those that a topology's source has no word of."""
    cables = [cable for link in topology.links for cable in link.cables or ()]
    knows_cables = bool(cables) or topology.source is FabricSource.IBNETDISCOVER
    rates = [cable.bytes_per_s for cable in cables]
    rates += [port.bytes_per_s for port in topology.ports]
    nics = [one.nic or one.guid for one in topology.ports]
    told = {
        "cables": knows_cables,
        "rates": any(rate is not None for rate in rates),
        "rails": any(nics),
    }
    return tuple(what for what, is_told in told.items() if not is_told)
