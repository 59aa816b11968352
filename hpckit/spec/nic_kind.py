"""Kinds of networks."""

from __future__ import annotations

from enum import StrEnum


class NicKind(StrEnum):
    """How a NIC is spoken to."""

    INFINIBAND = "infiniband"
    ROCE = "roce"
    EFA = "efa"
    SLINGSHOT = "slingshot"
    GVNIC = "gvnic"
    ETHERNET = "ethernet"
