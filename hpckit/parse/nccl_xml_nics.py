"""The NICs of NCCL's topology files: <net> in <nic>, or in a preset a PCI device by its class."""

from __future__ import annotations

import re
from typing import Final

from hpckit.model.hardware import Nic, NicPort
from hpckit.model.nic_ids import is_efa
from hpckit.model.nic_kind import NicKind
from hpckit.model.pci import CLASS_ETHERNET, CLASS_INFINIBAND, PciDevice
from hpckit.parse.nccl_xml_values import NcclAttributes
from hpckit.parse.xml_elements import Element

_BYTES_PER_S_OF_MBIT: Final = 1e6 / 8
_MOST_MBIT_PER_S: Final = 10_000_000
"""More than a NIC of 2026 carries by an order; some plugins have written kbit/s."""

_ROCE_NAMES: Final = ("mlx", "bnxt_re", "irdma", "rocep", "ionic", "hns", "erdma", "mana")
_NAMES: Final = (
    (re.compile(r"cxi\d"), NicKind.SLINGSHOT),
    (re.compile(r"(efa|rdmap)"), NicKind.EFA),
    (re.compile("|".join(_ROCE_NAMES)), NicKind.ROCE),
)
_BOND: Final = re.compile(r"(?:\w*_)?bond_?\d+")


def nic_of_net(element: Element, attributes: NcclAttributes, class_code: int | None) -> Nic:
    """The NIC of a <net>, without index and place; its class tells InfiniBand. Raises ParseError.

    `guid` is as NCCL writes it: the number of the system image, its bytes reversed.
    """
    name = attributes.needed(element, "name")
    speed = attributes.integer(element, "speed", least=-(1 << 31))
    port = attributes.integer(element, "port", least=-1, most=255)
    is_rate = speed is not None and 0 < speed <= _MOST_MBIT_PER_S
    rate = speed * _BYTES_PER_S_OF_MBIT if speed is not None and is_rate else None
    return Nic(
        index=0,
        name=name,
        kind=_kind(name, class_code),
        rate_bytes_per_s=rate,
        ports=(NicPort(index=port, rate_bytes_per_s=rate),)
        if port is not None and port > 0
        else (),
        guid=(element.get("guid") or "").strip() or None,
        bond=name if _BOND.fullmatch(name) else None,
        is_gdr=attributes.flag(element, "gdr"),
    )


def nic_of_pci(device: PciDevice) -> Nic:
    """The NIC of a preset, named by its address."""
    kind = None
    if is_efa(device):
        kind = NicKind.EFA
    elif device.class_code == CLASS_INFINIBAND:
        kind = NicKind.INFINIBAND
    return Nic(index=0, name=device.address, kind=kind, pci=device.address)


def _kind(name: str, class_code: int | None) -> NicKind | None:
    found = next((kind for pattern, kind in _NAMES if pattern.match(name)), None)
    if class_code == CLASS_INFINIBAND and found in {None, NicKind.ROCE}:
        return NicKind.INFINIBAND
    if found is NicKind.ROCE and class_code != CLASS_ETHERNET:
        return None
    return found
