"""Trees that no node has, made to take time or memory: they are read or refused."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from hpckit.core.errors import ParseError
from hpckit.core.file_tree import MOST_NAMES, FileTree
from hpckit.core.index_list import MOST_INDICES
from hpckit.node.capture.sysfs_files import parse_sysfs

ONLINE = {"sys/devices/system/cpu/online": "0-3\n"}
NODES = "sys/devices/system/node"
PCI = "sys/bus/pci/devices"
PLACE = "sys/devices/pci0000:00/0000:00:01.0"


def address(at: int) -> str:
    """The address of the n-th PCI function."""
    return f"{at >> 16:04x}:{at >> 8 & 255:02x}:{at >> 3 & 31:02x}.{at & 7:x}"


def deep_group() -> FileTree:
    """A control group of 131,000 levels."""
    return FileTree(texts={**ONLINE, "proc/self/cgroup": "0::" + "/a" * 131_000})


def long_events() -> FileTree:
    """Devices whose uevent is a quarter of a megabyte."""
    event = "a=b\n" * 65_536
    return FileTree(texts=ONLINE | {f"{PCI}/{address(at)}/uevent": event for at in range(2000)})


def many_members() -> FileTree:
    """Bonds of thousands of network devices."""
    net, links = "sys/class/net", {}
    for at in range(6000):
        links[f"{net}/e{at}"] = f"../../devices/pci0000:00/0000:00:01.0/net/e{at}"
        links[f"{PLACE}/net/e{at}/device"] = "../../../0000:00:01.0"
        links[f"{PLACE}/net/e{at}/master"] = "../bond0"
    for at in range(20):
        name = f"mlx5_bond_{at}"
        links[f"sys/class/infiniband/{name}"] = f"../../devices/pci0000:00/{address(8)}/x/{name}"
        links[f"sys/devices/pci0000:00/{address(8)}/x/{name}/device"] = "../.."
    return FileTree(texts={**ONLINE, f"{net}/bonding_masters": "bond0\n"}, links=links)


def many_packages() -> FileTree:
    """A package for each CPU, and a NUMA node for many."""
    cpus = "sys/devices/system/cpu"
    texts = {f"{cpus}/cpu{at}/topology/physical_package_id": f"{at}" for at in range(8000)}
    texts |= {f"{NODES}/node{at}/cpulist": f"{at}" for at in range(1024)}
    return FileTree(texts={**texts, f"{cpus}/online": "0-7999"})


def many_nodes_without_cpus() -> FileTree:
    """As many NUMA nodes as there may be, of which each may be faster than any other."""
    file = "access0/initiators/read_bandwidth"
    texts = {f"{NODES}/node{at}/{file}": "1" for at in range(1024)}
    return FileTree(texts={**ONLINE, **texts, f"{NODES}/node0/cpulist": "0-3"})


def long_links(count: int = 1000) -> FileTree:
    """Links that lead through as many names as one may."""
    way = "a/" * (MOST_NAMES - 5)
    links = {f"{PCI}/{address(at)}": f"../../../x{at}/{way}{address(at)}" for at in range(count)}
    return FileTree(texts=ONLINE, links=links)


@pytest.mark.parametrize(
    "tree",
    [deep_group, long_events, many_members, many_packages, many_nodes_without_cpus, long_links],
)
def test_absurd_trees_are_read(tree: Callable[[], FileTree]) -> None:
    """Whatever is there by the thousand."""
    given = tree()
    parse_sysfs(given)


def test_ways_through_links_are_not_all_remembered() -> None:
    """What is remembered of long ways has a limit."""
    given = long_links(3000)
    tracemalloc.start()
    parse_sysfs(given)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40 * 1024**2


def test_more_cpus_than_a_node_has_are_refused() -> None:
    """The number is said beside the largest that is taken."""
    texts = {f"{NODES}/node{at}/cpulist": f"0-{MOST_INDICES - 1}" for at in range(2)}
    with pytest.raises(ParseError, match="at most"):
        parse_sysfs(FileTree(texts={**ONLINE, **texts}))
