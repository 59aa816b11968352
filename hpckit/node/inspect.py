"""What this node looks like.

Only the standard library and the pure core are used: the probe of other nodes runs this as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from hpckit.core.excerpt import refuse_node
from hpckit.core.fields import InvalidValue
from hpckit.node.capture.kfd import KFD_PATTERNS, KFD_ROOT, parse_kfd
from hpckit.node.capture.sysfs_files import SYSFS_PATTERNS, parse_sysfs
from hpckit.node.merge import complete, is_silent, merge
from hpckit.node.topology import GpuVendor, NodeTopology

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpckit.core.file_tree import FileTree


class SystemFiles(Protocol):
    """The small files in which a system says what it is: /sys and /proc."""

    def read(self, patterns: Sequence[str]) -> FileTree:
        """The files and links that match, by their path from the root; what is not there, not."""
        ...


class GpuDriver(Protocol):
    """NVIDIA's driver, asked for everything that it says of its GPUs."""

    def read(self) -> NodeTopology:
        """What it answered, and why not where it did not; never raises for want of a driver."""
        ...


def inspect_here(
    files: SystemFiles, driver: GpuDriver | None, *, stands_in: str | None = None
) -> NodeTopology:
    """The node whose files and GPU driver these are; None is not asked. Raises ParseError.

    `stands_in` is the name of a node that shows a machine which it is not: all of it is made up.
    """
    tree = files.read((*SYSFS_PATTERNS, *KFD_PATTERNS))
    try:
        topology = _topology(tree, driver)
    except InvalidValue as error:
        raise refuse_node(error, "/sys") from error
    if stands_in is None:
        return topology
    return replace(
        topology,
        host=replace(topology.host, name=stands_in),
        source=replace(topology.source, is_synthetic=True),
    )


def _topology(tree: FileTree, driver: GpuDriver | None) -> NodeTopology:
    topology = parse_sysfs(tree)
    if any(path.startswith(f"{KFD_ROOT}/nodes/") for path in tree.texts):
        topology = merge(topology, parse_kfd(tree))
    said = None if driver is None else driver.read()
    if said is not None and (not is_silent(said) or _may_be_nvidia(topology)):
        topology = merge(topology, said)
    source = replace(topology.source, format="live", is_live=True)
    return complete(replace(topology, source=source))


def _may_be_nvidia(topology: NodeTopology) -> bool:
    """Whether NVML's silence is worth a word: not where all GPUs are of other makers."""
    makers = {gpu.vendor for gpu in topology.gpus}
    return not makers or bool(makers & {GpuVendor.NVIDIA, None})
