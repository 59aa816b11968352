"""hwloc's XML (`lstopo --of xml`) as a topology: schemas 1.x, 2.x and 3.x.

Sources: hwloc, hwloc2.dtd, topology-xml.c; the documentation of 1.11 and 2.x, "Importing and
exporting topologies from/to XML files".
"""

from __future__ import annotations

from dataclasses import replace

from hpckit.model.hardware import NodeTopology, Source
from hpckit.parse.hwloc_cpu import cpu_topology, host, package_of_nodes, said_of_machine
from hpckit.parse.hwloc_gpus import accelerators, gpus
from hpckit.parse.hwloc_links import links
from hpckit.parse.hwloc_nics import nics
from hpckit.parse.hwloc_numa import Places, numa_nodes
from hpckit.parse.hwloc_objects import HwlocTree
from hpckit.parse.hwloc_pci import pci_devices
from hpckit.parse.hwloc_unknown import unknowns
from hpckit.parse.xml_elements import XmlDocument

FORMAT = "hwloc XML"


def is_hwloc_xml(document: XmlDocument) -> bool:
    """Whether the root is hwloc's."""
    return document.root.tag == "topology"


def parse_hwloc_xml(document: XmlDocument) -> NodeTopology:
    """The node that the file describes; `paths` are not in it. Raises ParseError.

    What hwloc leaves out when it is not asked for it (bridges, CPUs that were forbidden to the
    process that wrote the file) is not in the topology either.
    """
    tree = HwlocTree(document)
    nodes = numa_nodes(tree)
    places = Places(tree, nodes)
    cpu = cpu_topology(tree)
    packages = package_of_nodes(tree, nodes, cpu.packages)
    pci = pci_devices(tree, places)
    found = gpus(tree, places, pci)
    between, to_cpus = links(tree, places, found, pci)
    topology = NodeTopology(
        source=Source(format=FORMAT, is_synthetic=said_of_machine(tree, "Backend") == "Synthetic"),
        host=host(tree),
        cpu=cpu,
        numa_nodes=tuple(replace(one, package_index=packages.get(one.index)) for one in nodes),
        gpus=tuple(one.gpu for one in found),
        gpu_links=between,
        cpu_links=to_cpus,
        nics=nics(tree, places, pci),
        accelerators=accelerators(tree, places, pci),
        pci=pci,
    )
    return replace(topology, unknown=unknowns(tree, topology, found))
