"""What is known of the machine that a run of NCCL was on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hpckit.model.comm import NetPlugin


class GpuTransport(StrEnum):
    """What joins the GPUs of a node."""

    NVLINK = "NVLink"
    PCIE = "PCIe"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRun:
    """What a caller knows of the machine; None is what nobody knows, and no rule then guesses.

    `nics` are the names of the NICs for jobs of a node, () where it has none; `nic_count` how many
    there are where their names are not known. `has_nvls` is whether
    its NVLink switch can add up. `busbw` is the bus
    bandwidth in bytes/s to be expected of each collective, as nccl-tests names it; of those in
    `bounds` it is what the links allow at most, and no model says what is reached. `settings` are
    variables that are set there on purpose; `is_profiled` is whether a file of the provider sets
    more, which nobody here reads.
    """

    nics: tuple[str, ...] | None = None
    nic_count: int | None = None
    plugin: NetPlugin | None = None
    gpu_transport: GpuTransport | None = None
    is_multi_node: bool | None = None
    has_nvls: bool | None = None
    busbw: tuple[tuple[str, float], ...] = ()
    bounds: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    is_profiled: bool = False
