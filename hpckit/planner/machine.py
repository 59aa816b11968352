"""The machine that a plan is for: its cards, how many a node has, and what joins them."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Final

from hpckit.core.errors import ConfigError
from hpckit.core.values import dataclass
from hpckit.node.topology import NicRole, NodeTopology
from hpckit.planner.accelerators import Accelerator, accelerator_named
from hpckit.planner.calibration import Constants

LINK_FRAC: Final = {"NVLink2": 0.81, "NVLink3": 0.77, "NVLink4": 0.82, "NVLink5": 0.77}
"""Bus bandwidth of a large all-reduce in a node over its links' rate of one direction.

Source: NVIDIA GTC24 s62129, GTC25 s72583: 122 GB/s of 150, 232 of 300, 370 of 450, 700 of 900.
"""
XGMI_FRAC: Final = 0.70
"""313 GB/s of 448 on eight MI300X (stas00/ml-engineering, network chapter)."""
OTHER_LINK_FRAC: Final = 0.7
NIC_FRAC: Final = 0.8
"""Of a NIC's rate; chosen by us. Two idle nodes reach 0.96 (GTC24 s62129)."""
PCIE_BYTES_PER_S: Final = 24e9
"""Bus bandwidth of an all-reduce over PCIe 4 (GTC24 s62129)."""
DEFAULT_NIC_BYTES_PER_S: Final = 12.5e9
"""A card's share of the network where neither its usual node nor the user says it: 100 Gb/s."""
OTHER_MATMUL_FRAC: Final = 0.8
"""Measured matrix product rate over the data sheet's, where nobody measured: H100 0.80."""


class Level(StrEnum):
    """The slowest link that a group of ranks talks over."""

    LINK = "node"
    NETWORK = "network"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Cards of one kind: a node has `node_gpus`, links join `link_gpus` (72 of an NVL72).

    `nic_bytes_per_s` is a card's share of the network in one direction; `step_scale` what steps
    take here over their prediction; `peak_flops` the card's where its power is capped.
    """

    accelerator: Accelerator
    node_gpus: int
    link_gpus: int
    nic_bytes_per_s: float
    step_scale: float = 1.0
    peak_flops: float | None = None

    @property
    def link_bytes_per_s(self) -> float:
        """Return the bus bandwidth that a card reaches within its node."""
        card = self.accelerator
        if card.link_bytes_per_s is None:
            return PCIE_BYTES_PER_S
        frac = LINK_FRAC.get(card.link, XGMI_FRAC if "xGMI" in card.link else OTHER_LINK_FRAC)
        return card.link_bytes_per_s * frac

    @property
    def network_bytes_per_s(self) -> float:
        """Return what a card reaches through the network."""
        return self.nic_bytes_per_s * NIC_FRAC

    @property
    def is_recent(self) -> bool:
        """Return whether the card has fp8: H100, MI300X and later, with software of their time."""
        return self.accelerator.flops_fp8 is not None

    def matmul_flops(self, constants: Constants, *, fp8: bool) -> float:
        """Return the rate of large matrix products in a training step."""
        card = self.accelerator
        measured = card.matmul_flops or OTHER_MATMUL_FRAC * card.flops
        frac = constants.matmul_hopper if self.is_recent else constants.matmul_ampere
        scale = card.peak_flops(fp8=True) / card.flops if fp8 else 1.0
        return measured * frac * (1 + FP8_GAIN * (scale - 1))

    @property
    def is_calibrated(self) -> bool:
        """Return whether the constants were fitted on cards of this generation."""
        return self.accelerator.name.startswith(("A100", "H100", "H200", "H800", "GH200"))


FP8_GAIN: Final = 0.55
"""Part of the peak's gain that fp8 gives products: of ×2, 1.2 to 1.57 is published (dgxc)."""


def machine_of(
    accelerator: Accelerator, *, node_gpus: int | None = None, nic_gbits: float | None = None
) -> Machine:
    """Return the usual machine of a card; `nic_gbits` is what a node's NICs carry together."""
    gpus = node_gpus or accelerator.node_gpus
    # PCIe joins the cards of a node as well, only slower.
    joined = gpus if accelerator.scale_up_gpus == 1 else accelerator.scale_up_gpus
    is_rack = accelerator.scale_up_gpus > accelerator.node_gpus
    nic = accelerator.nic_bytes_per_s or DEFAULT_NIC_BYTES_PER_S
    if nic_gbits is not None:
        nic = nic_gbits * 1e9 / 8 / gpus
    return Machine(
        accelerator=accelerator,
        node_gpus=gpus,
        link_gpus=joined if is_rack else gpus,
        nic_bytes_per_s=nic,
    )


def machine_of_node(node: NodeTopology, accelerator: Accelerator | None = None) -> Machine:
    """Return the machine of an inspected node: its GPUs, and the NICs that jobs may use.

    Raises ConfigError for a node without GPUs, or with a kind that is unknown.
    """
    gpus = [gpu for gpu in node.gpus if not gpu.is_hidden]
    if not gpus:
        raise ConfigError("the node has no GPU", hint="give the job's GPU type: --gpu NAME")
    card = accelerator or accelerator_named(gpus[0].name or "")
    rates = [nic.rate_bytes_per_s for nic in node.nics if nic.role is NicRole.COMPUTE]
    known = sum(rate for rate in rates if rate is not None)
    if gpus[0].memory_bytes:
        card = replace(card, memory_bytes=gpus[0].memory_bytes)
    usual = machine_of(card, node_gpus=len(gpus))
    return replace(usual, nic_bytes_per_s=known / len(gpus)) if known else usual


def capped(machine: Machine, gpu_w: float) -> Machine:
    """Return the machine with cards that may draw less: rates fall with the cube root of power.

    Dynamic power goes with frequency and the square of voltage, which falls with it; chosen by us.
    """
    card = machine.accelerator
    if card.tdp_w is None or gpu_w >= card.tdp_w:
        return machine
    slower = (gpu_w / card.tdp_w) ** (1 / 3)
    return replace(
        machine,
        peak_flops=card.flops,
        accelerator=replace(
            card,
            tdp_w=gpu_w,
            flops=card.flops * slower,
            flops_fp8=card.flops_fp8 and card.flops_fp8 * slower,
            matmul_flops=card.matmul_flops and card.matmul_flops * slower,
        ),
    )
