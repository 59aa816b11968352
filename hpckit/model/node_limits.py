"""What no node can be: more GPUs than there is room for, two devices of one number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from hpckit.model.index_list import check_lists
from hpckit.model.pci import PciDevice, check_tree
from hpckit.model.rules import InvalidValue

MOST_GPUS: Final = 256
"""Tables of pairs grow with its square; sixteen cards in eight partitions each are half of it."""

MOST_BYTES_PER_S: Final = 1e14
"""A hundred times what a GPU's links carry together; in Mb/s an int of C holds it, as NCCL's."""


class _Numbered(Protocol):
    @property
    def index(self) -> int: ...


class _Nic(_Numbered, Protocol):
    @property
    def rate_bytes_per_s(self) -> float | None: ...


class _Numa(_Numbered, Protocol):
    @property
    def cpus(self) -> str | None: ...


class _Link(Protocol):
    @property
    def bandwidth_bytes_per_s(self) -> float | None: ...


class _Node(Protocol):
    """What hpckit.model.hardware calls NodeTopology, as far as it is looked at here."""

    @property
    def numa_nodes(self) -> Sequence[_Numa]: ...
    @property
    def gpus(self) -> Sequence[_Numbered]: ...
    @property
    def gpu_links(self) -> Sequence[_Link]: ...
    @property
    def cpu_links(self) -> Sequence[_Link]: ...
    @property
    def nics(self) -> Sequence[_Nic]: ...
    @property
    def accelerators(self) -> Sequence[_Numbered]: ...
    @property
    def pci(self) -> Sequence[PciDevice]: ...


def check_node(node: _Node) -> None:
    """Raises InvalidValue for a node that none can be."""
    if len(node.gpus) > MOST_GPUS:
        raise InvalidValue("gpus", len(node.gpus), f"at most {MOST_GPUS} in one node")
    _check_numbers("gpus", node.gpus)
    _check_numbers("nics", node.nics)
    _check_numbers("accelerators", node.accelerators)
    _check_numbers("numa_nodes", node.numa_nodes)
    _check_rates("nics", (nic.rate_bytes_per_s for nic in node.nics))
    _check_rates("gpu_links", (link.bandwidth_bytes_per_s for link in node.gpu_links))
    _check_rates("cpu_links", (link.bandwidth_bytes_per_s for link in node.cpu_links))
    check_lists("numa_nodes", (numa.cpus for numa in node.numa_nodes))
    check_tree(node.pci)


def _check_numbers(key: str, parts: Sequence[_Numbered]) -> None:
    indices = [part.index for part in parts]
    if min(indices, default=0) < 0:
        raise InvalidValue(key, min(indices), "indices from 0 on")
    if len(set(indices)) < len(indices):
        raise InvalidValue(key, "an index twice", "an index of its own for each")


def _check_rates(key: str, rates_bytes_per_s: Iterable[float | None]) -> None:
    for rate in rates_bytes_per_s:
        if rate is not None and not 0 <= rate <= MOST_BYTES_PER_S:
            raise InvalidValue(key, rate, f"0 to {MOST_BYTES_PER_S:g} bytes per second")
