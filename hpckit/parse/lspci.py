"""`lspci`: the PCI devices of a node; with -t the tree of them, with -v their links and places.

Sources: lspci(8); pciutils, lspci.c, ls-tree.c and ls-caps.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from hpckit.model.hardware import NodeTopology, Source, Unknown
from hpckit.model.pci import PciAddress, PciDevice
from hpckit.parse.excerpt import refuse_text
from hpckit.parse.lspci_devices import find_gpus, find_nics, unknown_of
from hpckit.parse.lspci_list import TOOL, Listed, has_list, read_list
from hpckit.parse.lspci_place import placed, virtual_functions, walk
from hpckit.parse.lspci_tree import has_tree, read_tree
from hpckit.parse.pasted import pasted_lines
from hpckit.parse.sysfs_devices import parse_accelerators

LSPCI_FORMAT: Final = TOOL

_FILTERED: Final = re.compile(r"\blspci\b[^\n|]{0,80}? -[a-z]{0,8}[sd]\b|\blspci\b[^\n]{0,80}\|")


def is_lspci(text: str) -> bool:
    """Whether a text holds a list or a tree of lspci, among whatever else."""
    return has_list(text) or has_tree(text)


def parse_lspci(text: str) -> NodeTopology:
    """The node whose devices a text lists; what stands around them is passed over.

    Takes `lspci` with any of -v, -vv, -vvv, -n, -nn, -k and -D, and `lspci -t` with any of these;
    what several of them in one text say is put together. Where it shows no bridges there is no
    tree. Raises ParseError.
    """
    lines = pasted_lines(text)
    listed, tree = read_list(lines), read_tree(lines)
    if not listed and not tree:
        expected = "the output of lspci, as 01:00.0 3D controller: NVIDIA Corporation …"
        raise refuse_text("there is no device", tool=TOOL, lines=lines, expected=expected)
    devices = _devices(listed, tree, is_filtered=_FILTERED.search(text) is not None)
    pci = walk(devices)
    gpus, nics = find_gpus(pci), find_nics(pci)
    return NodeTopology(
        source=Source(format=LSPCI_FORMAT),
        gpus=gpus,
        nics=nics,
        accelerators=parse_accelerators(pci),
        pci=pci,
        unknown=(*_unknown(listed, pci), *unknown_of(gpus, nics)),
    )


def _devices(
    listed: Mapping[PciAddress, Listed], tree: Mapping[PciAddress, PciDevice], *, is_filtered: bool
) -> dict[PciAddress, PciDevice]:
    """The functions of list and tree with their details; a tree knows best where they are."""
    places = placed(listed, is_filtered=is_filtered)
    physical = virtual_functions(listed)
    # The functions of a card are in one place, so what one of them is listed with holds for all.
    numa = {
        address[:-2]: one.numa_index
        for address, one in listed.items()
        if one.numa_index is not None
    }
    drawn = {
        address: replace(device, numa_index=numa.get(address[:-2]))
        for address, device in tree.items()
    }
    found: dict[PciAddress, PciDevice] = {}
    for address, one in listed.items():
        place = drawn.get(address) or places[address]
        ids = one.subsystem or (None, None)
        found[address] = replace(
            one.device,
            parent=place.parent,
            host_bridge=place.host_bridge,
            subsystem_vendor_id=ids[0],
            subsystem_device_id=ids[1],
            driver=one.driver,
            numa_index=numa.get(address[:-2]),
            link=one.link,
            physfn=physical.get(address),
        )
    return drawn | found


def _unknown(listed: Mapping[PciAddress, Listed], pci: Iterable[PciDevice]) -> Iterator[Unknown]:
    if any(device.host_bridge is None for device in pci):
        because = "the text does not show the bridges above every device: lspci -vvv does, or -tv"
        yield Unknown(subject="PCI", what="parent", because=because)
    if any(device.class_code is None for device in pci):
        because = "lspci -t prints no classes: devices are known by their names, if it prints these"
        yield Unknown(subject="PCI", what="class_code", because=because)
    if any(one.is_denied for one in listed.values()):
        because = "lspci had no access to the capabilities: it needs root"
        yield Unknown(subject="PCI", what="link", because=because)
    for address, one in listed.items():
        if one.is_dead:
            because = "the device answers every question with ones: it has fallen off the bus"
            yield Unknown(subject=address, what="link", because=because)
