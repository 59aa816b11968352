"""Whether a NIC is up. Source: Linux Documentation/ABI/stable/sysfs-class-infiniband, `state`."""

from __future__ import annotations

from typing import Final

from hpckit.model.hardware import Nic

ACTIVE: Final = "ACTIVE"


def is_active(nic: Nic) -> bool:
    """Whether a port of it is up."""
    return nic.state is not None and nic.state.upper() == ACTIVE


def is_down(nic: Nic) -> bool:
    """Whether it is known to have no active port."""
    return nic.state is not None and not is_active(nic)
