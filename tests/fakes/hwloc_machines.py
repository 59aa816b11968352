"""Machines as hwloc's XML: records, and small ones put together for a test."""

from __future__ import annotations

from pathlib import Path

from hpckit.core.foreign_text import parse_xml
from hpckit.node.capture.hwloc import parse_hwloc_xml
from hpckit.node.topology import NodeTopology

RECORDS = Path(__file__).resolve().parents[1] / "records"
SETS = 'cpuset="0x0000000f" allowed_cpuset="0x0000000f" nodeset="0x00000001"'
NODE = '<object type="NUMANode" os_index="0" cpuset="0x0000000f" nodeset="0x00000001"/>'


def record(tool: str) -> NodeTopology:
    """The topology of tests/records/<tool>/synthetic-two-gpus."""
    return parsed((RECORDS / tool / "synthetic-two-gpus" / "topology.xml").read_text())


def parsed(text: str) -> NodeTopology:
    """The topology of a document."""
    return parse_hwloc_xml(parse_xml(text.encode(), "hwloc"))


def machine(*within: str, after: str = "", sets: str = SETS, version: str | None = "2.0") -> str:
    """A document with one Machine; `after` stands behind it."""
    says = "" if version is None else f' version="{version}"'
    body = "\n".join(within)
    return (
        f'<topology{says}>\n<object type="Machine" {sets}>\n{body}\n</object>\n{after}\n</topology>'
    )


def info(name: str, value: str) -> str:
    """An info."""
    return f'<info name="{name}" value="{value}"/>'


def os_device(name: str, number: int, *within: str, gp: int = 0, subtype: str = "") -> str:
    """An OS device of a type."""
    kind = f' subtype="{subtype}"' if subtype else ""
    index = f' gp_index="{gp}"' if gp else ""
    body = "".join(within)
    return f'<object type="OSDev" name="{name}" osdev_type="{number}"{index}{kind}>{body}</object>'


def function(address: str, says: str, *within: str, gp: int = 0, subtype: str = "") -> str:
    """A PCI function; `says` is its class and ids, such as `0302 [10de:2330]`."""
    kind = f' subtype="{subtype}"' if subtype else ""
    index = f' gp_index="{gp}"' if gp else ""
    body = "".join(within)
    return (
        f'<object type="PCIDev" pci_busid="{address}" pci_type="{says} [0000:0000] a1"'
        f'{index}{kind} pci_link_speed="0.000000">{body}</object>'
    )


def host_bridge(buses: str, *within: str) -> str:
    """A host bridge with its buses, such as `0000:[10-14]`."""
    body = "".join(within)
    return f'<object type="Bridge" bridge_type="0-1" bridge_pci="{buses}">{body}</object>'


def bridge(address: str, buses: str, *within: str) -> str:
    """A PCI bridge with the buses below it."""
    body = "".join(within)
    return (
        f'<object type="Bridge" bridge_type="1-1" bridge_pci="{buses}" pci_busid="{address}"'
        f' pci_type="0604 [8086:352a] [0000:0000] 00">{body}</object>'
    )


def matrix(name: str, keys: str, values: str, *, tag: str = "distances2hetero") -> str:
    """A matrix of 2.x between objects."""
    count = len(keys.split())
    says = ' type="OSDev" indexing="gp"' if tag == "distances2" else ""
    return (
        f'<{tag} nbobjs="{count}" kind="9" name="{name}"{says}>'
        f"<indexes>{keys}</indexes><u64values>{values}</u64values></{tag}>"
    )
