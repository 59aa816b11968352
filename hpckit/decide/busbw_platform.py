"""What decides bus bandwidth on nodes that nobody inspected: as the site file calls them."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Final, NamedTuple

from hpckit.decide.busbw_rings import links_in_rings
from hpckit.model.busbw import CommMachine, CommNic, RingLinks
from hpckit.model.hardware import LinkKind, Unknown
from hpckit.model.platform import Platform

_BYTES_PER_GBIT: Final = 1e9 / 8


class Board(NamedTuple):
    """GPUs on one board: their architecture, and the NVLinks of each, to a switch where it has one.

    `has_nvls` is whether the switch adds up.
    """

    architecture: str
    links: int
    has_nvls: bool = True
    has_c2c: bool = False


BOARDS: Final = {
    "a100": Board("sm_80", 12, has_nvls=False),
    "h100": Board("sm_90", 18),
    "h200": Board("sm_90", 18),
    "b200": Board("sm_100", 18),
    "b300": Board("sm_103", 18),
    "gb200": Board("sm_100", 18, has_c2c=True),
    "gb300": Board("sm_103", 18, has_c2c=True),
}
"""NVIDIA's data sheets of HGX A100, H100, H200, B200, B300 and of GB200 and GB300 NVL72."""
MESHED_GPUS: Final = 4
"""A board of so many has no NVSwitch. NVIDIA, HGX A100 4-GPU and H100 4-GPU, data sheets; NERSC,
Perlmutter architecture: four NVLinks between each two of four A100. GB200's trays have one.
"""
_NAMES: Final = (
    (r"P100", "sm_60"),
    (r"V100", "sm_70"),
    (r"T4\b", "sm_75"),
    (r"A100|A800|A30\b", "sm_80"),
    (r"A10G?\b|A16\b|A40\b|A6000|RTX 30", "sm_86"),
    (r"L4\b|L20\b|L40|RTX 40|6000 Ada", "sm_89"),
    (r"G?H[128]00|H20\b", "sm_90"),
    (r"B200", "sm_100"),
    (r"B300", "sm_103"),
)
"""Compute capability by name. Source: NVIDIA, CUDA GPU Compute Capability, developer.nvidia.com."""


def architecture_of(name: str | None) -> str | None:
    """The architecture of a GPU by its name (`H100 80GB HBM3`, `h100`); None for one not known."""
    for pattern, architecture in _NAMES if name else ():
        if re.search(pattern, str(name), re.IGNORECASE):
            return architecture
    return None


def platform_machine(platform: Platform, nodes: int, gpus_per_node: int | None) -> CommMachine:
    """The machine of a site whose nodes are a known board; what is not known is in `unknown`.

    Without a number of GPUs, all of a node's are used; of fewer each has its share of the NICs, as
    NCCL takes those that are near.
    """
    board = BOARDS.get(platform.gpu or "")
    gpus = gpus_per_node or platform.gpus or 1
    nics = _nics(platform, gpus)
    unknown = [
        Unknown(subject=subject, what=what, because="the site file does not say it")
        for subject, what, is_known in (
            ("NICs", "number and rate", nics is not None or nodes <= (platform.domain_nodes or 1)),
            ("GPUs", "number", bool(gpus_per_node or platform.gpus)),
        )
        if not is_known
    ]
    if platform.gpus is not None and gpus > platform.gpus:
        because = f"{gpus} are asked for, and a node has {platform.gpus}"
        unknown.append(Unknown(subject="GPUs", what="number", because=because))
    if board is None:
        because = f"no board of {platform.gpu or 'unnamed'} GPUs is known to hpckit"
        unknown.append(Unknown(subject="GPUs", what="links", because=because))
        return CommMachine(gpus=gpus, nics=nics, unknown=tuple(unknown))
    is_meshed = platform.gpus == MESHED_GPUS and not board.has_c2c
    return CommMachine(
        gpus=gpus,
        architecture=board.architecture,
        links=_mesh(board, gpus) if is_meshed else _switch(board),
        nics=nics,
        domain_nodes=platform.domain_nodes or 1,
        has_nvls=board.has_nvls and not is_meshed,
        has_c2c=board.has_c2c,
        unknown=tuple(unknown),
    )


def _switch(board: Board) -> RingLinks:
    return RingLinks(kind=LinkKind.NVLINK, per_gpu=board.links, is_switched=True)


def _mesh(board: Board, gpus: int) -> RingLinks:
    """The links of `gpus` of a board on which each GPU shares its links out among the others."""
    used, per_pair = range(min(gpus, MESHED_GPUS)), board.links // (MESHED_GPUS - 1)
    rings = links_in_rings(used, dict.fromkeys(combinations(used, 2), per_pair))
    return RingLinks(
        kind=LinkKind.NVLINK, per_gpu=rings or per_pair, per_pair=per_pair, pairs=len(used) - 1
    )


def _nics(platform: Platform, gpus: int) -> tuple[CommNic, ...] | None:
    if platform.nics is None or platform.nic_gbits is None:
        return None
    every = platform.gpus or gpus
    used = max(1, platform.nics * min(gpus, every) // every)
    rate = platform.nic_gbits * _BYTES_PER_GBIT
    return tuple(CommNic(name=f"NIC{at}", rate_bytes_per_s=rate) for at in range(used))
