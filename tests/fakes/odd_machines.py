"""Machines as few see them: in a container, cut into partitions, without a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hpckit.node.pci import CLASS_ACCELERATOR
from hpckit.node.topology import Accelerator, Host, LinkKind, NodeTopology
from tests.fakes.machine_parts import (
    GEN4,
    GIB,
    all_to_all,
    bridge,
    end_point,
    lanes,
    paths_by_hand,
    two_sockets,
)
from tests.fakes.machines import (
    cpu_only,
    dgx_1v,
    dgx_h100,
    four_gpu_box,
    gb200_tray,
    many_functions,
    matrix_only,
    mi300x,
    sixteen_v100,
)


def hidden_gpus() -> NodeTopology:
    """The node of `dgx_h100` as a container with two of its GPUs shows it."""
    node = dgx_h100()
    gpus = tuple(
        replace(gpu, is_hidden=True, name=None, nvlinks=None, uuid=None)
        if gpu.index not in {0, 1}
        else gpu
        for gpu in node.gpus
    )
    links = tuple(link for link in node.gpu_links if {link.a, link.b} == {0, 1})
    return replace(node, gpus=gpus, gpu_links=links)


def partitions() -> NodeTopology:
    """The node of `mi300x` with 8 partitions a GPU (CPX), each a GPU for the driver."""
    node = mi300x()
    gpus = tuple(
        replace(gpu, index=8 * gpu.index + part, partition="CPX", memory_bytes=24 * GIB, uuid=None)
        for gpu in node.gpus
        for part in range(8)
    )
    links = all_to_all(64, None, LinkKind.XGMI, 0, is_switched=False)
    links = tuple(replace(link, bandwidth_bytes_per_s=None) for link in links)
    return paths_by_hand(replace(node, gpus=gpus, gpu_links=links))


def accelerators() -> NodeTopology:
    """8 accelerators that are no GPUs, each on its own root port."""
    node = two_sockets("Intel(R) Xeon(R) Platinum 8380", "GenuineIntel", 40, 512)
    pci = [
        one
        for at in range(8)
        for one in (
            bridge(f"0000:{at + 1:02x}:01.0", None, lanes(GEN4, 16), at // 4),
            end_point(
                f"0000:{at + 17:02x}:00.0",
                f"0000:{at + 1:02x}:01.0",
                CLASS_ACCELERATOR,
                lanes(GEN4, 16),
                at // 4,
            ),
        )
    ]
    found = (
        Accelerator(index=at, name="HL-225", pci=one.address, driver="habanalabs")
        for at, one in enumerate(pci[1::2])
    )
    return replace(node, pci=tuple(pci), accelerators=tuple(found), host=Host(name="gaudi2-5"))


MACHINES: tuple[Callable[[], NodeTopology], ...] = (
    dgx_h100,
    four_gpu_box,
    sixteen_v100,
    gb200_tray,
    mi300x,
    dgx_1v,
    matrix_only,
    cpu_only,
    many_functions,
    hidden_gpus,
    partitions,
    accelerators,
)
