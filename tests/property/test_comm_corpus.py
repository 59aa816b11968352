"""What the machines of the public captures need for communication: nearly nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hpckit.comm.environment import CommChoice, comm_env
from hpckit.comm.facts import CommQuestion, comm_facts
from hpckit.comm.seen import seen_node
from hpckit.core.errors import ParseError
from hpckit.node.capture.snapshot import inspect_capture
from hpckit.node.nics import close_nics
from hpckit.node.rules.rule import path_cells
from hpckit.node.topology import GpuVendor, NodeTopology
from hpckit.spec.nic_kind import NicKind
from hpckit.spec.platform import CommSetting, NcclVersion, Platform
from hpckit.spec.site import generic_site
from tests.corpus import corpus_file, corpus_files

MACHINES = corpus_files(
    "hwloc-xml/*",
    "kfd-sysfs/*",
    "lspci/*.md",
    "ib-fabric/*.tar.xz",
    "nccl-topo-xml/**/*.xml",
    "nvidia-smi-topo/**/*.txt",
    "rocm/**/*.txt",
)
DO_NOT_SET = frozenset(
    (
        *("NCCL_IB_CUDA_SUPPORT", "NCCL_LL_THRESHOLD", "NCCL_TREE_THRESHOLD"),
        *("NCCL_SINGLE_RING_THRESHOLD", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"),
        *("NCCL_CHECK_POINTERS", "NCCL_LAUNCH_MODE", "NCCL_P2P_DISABLE", "NCCL_PROTO", "NCCL_ALGO"),
        *("NCCL_IGNORE_NET_MISMATCH", "NCCL_IB_IGNORE_NET_MISMATCH", "NCCL_DEBUG"),
        *("NCCL_IB_DISABLE", "NCCL_NVLS_ENABLE", "NCCL_CUMEM_ENABLE", "NCCL_RAS_ADDR"),
        *("FI_EFA_FORK_SAFE", "FI_EFA_USE_DEVICE_RDMA", "FI_PROVIDER", "RDMAV_FORK_SAFE"),
        *("NCCL_TOPO_FILE", "NCCL_SHM_DISABLE", "NCCL_BUFFSIZE", "NCCL_P2P_NET_CHUNKSIZE"),
    )
)
"""Variables that no inspected machine is a reason for: removed, deprecated, dangerous, left over
from debugging, or a plugin's own."""
TEXTBOOK_GPUS = 8


def machines(path: Path) -> tuple[NodeTopology, ...]:
    """The machines of a capture; none where it is no capture of a machine."""
    try:
        return inspect_capture(path.read_bytes(), path.name)
    except ParseError:
        return ()


def needs(machine: NodeTopology, nodes: int, nccl: str | None) -> tuple[CommSetting, ...]:
    """What a job on such nodes needs."""
    version = None if nccl is None else NcclVersion.of(nccl)
    question = CommQuestion(nodes=nodes, version=version)
    facts = comm_facts(question, Platform(), seen_node(machine))
    return comm_env(facts, generic_site(), CommChoice()).settings


def is_textbook(machine: NodeTopology) -> bool:
    """Eight GPUs of NVIDIA's, each with exactly one NIC below its PCIe switch; no EFA.

    EFA is a platform's own network, for which there is a rule.
    """
    if any(nic.kind is NicKind.EFA for nic in machine.nics):
        return False
    close = close_nics(machine, path_cells(machine.paths))
    makers = {gpu.vendor for gpu in machine.gpus}
    each = [len(nics) for nics in close.values()]
    return makers == {GpuVendor.NVIDIA} and each == [1] * TEXTBOOK_GPUS


def everything() -> Iterator[NodeTopology]:
    """Every machine of the corpus."""
    for parameter in MACHINES:
        path = parameter.values[0]  # type: ignore[attr-defined]
        if isinstance(path, Path):
            yield from machines(path)


@pytest.mark.parametrize("path", MACHINES)
def test_nothing_harmful_is_set(path: Path) -> None:
    """No machine is given a variable of the do-not-set list, by any release and size of job."""
    for machine in machines(path):
        for nccl in (None, "2.18.5", "2.20.5", "2.26.2", "2.27.3", "2.30.7"):
            for nodes in (1, 2, 512):
                names = {one.name for one in needs(machine, nodes, nccl)}
                assert not names & DO_NOT_SET


@pytest.mark.parametrize("path", MACHINES)
def test_a_reason_and_a_source_stand_beside_everything(path: Path) -> None:
    """Each variable that a machine needs has both, without a blank left in the reason."""
    for machine in machines(path):
        for one in needs(machine, 512, "2.18.5"):
            assert one.because
            assert "{" not in one.because + one.value
            assert "https://" in one.source


@pytest.mark.parametrize("path", MACHINES)
def test_one_node_needs_no_network(path: Path) -> None:
    """A job of one node is given nothing about NICs."""
    for machine in machines(path):
        names = {one.name for one in needs(machine, 1, "2.27.3")}
        assert names <= {"HSA_FORCE_FINE_GRAIN_PCIE"}


def test_textbook_machines_need_nothing() -> None:
    """Eight GPUs with a NIC each and a current NCCL: nothing is set; there are such machines."""
    corpus_file("INDEX.md")
    textbook = [machine for machine in everything() if is_textbook(machine)]
    assert textbook
    for machine in textbook:
        assert needs(machine, 16, "2.27.3") == ()
