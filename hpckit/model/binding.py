"""Which GPUs, CPUs, memory and NICs each rank of one node gets, and why.

Positions of GPUs are those of CUDA under CUDA_DEVICE_ORDER=PCI_BUS_ID: by PCI address among the
GPUs that the job sees. Source: CUDA C++ Programming Guide, CUDA Environment Variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hpckit.model.index_list import IndexList

BINDING_SCHEMA: Final = "hpckit.binding/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundGpu:
    """A GPU of a rank: `position` by PCI address, `index` in the topology, and who it is."""

    position: int
    index: int
    uuid: str | None = None
    pci: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankBinding:
    """What one rank of a node gets; what is empty is not known, or there is none of it.

    `cpus` are the system's numbers. `memory_numa` are the NUMA nodes to take memory from. Each
    `…_because` says why it is so.
    """

    local_rank: int
    gpus: tuple[BoundGpu, ...] = ()
    gpus_because: str
    cpus: IndexList
    cpus_because: str
    memory_numa: IndexList
    memory_because: str
    nics: tuple[str, ...] = ()
    nics_because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBinding:
    """The ranks of one node in the order of their local ranks.

    `notes` say what could not be as it should: two ranks on a core, a GPU far from its CPUs.
    """

    ranks: tuple[RankBinding, ...]
    notes: tuple[str, ...] = ()
