"""Rules about paths: between the GPUs of a node, between GPUs and NICs, and which network."""

from __future__ import annotations

from typing import Final

from hpckit.core.findings import Severity
from hpckit.decide.comm_lint_rule import ENV_RST, LintRule, Scene, Seen, Setting
from hpckit.decide.comm_same import LEVELS, level_of
from hpckit.model.comm import NetPlugin

_LEVELS: Final = ("NCCL_P2P_LEVEL", "NCCL_NET_GDR_LEVEL")
_KNOWN: Final = frozenset((*LEVELS, "NVL", "NVB", "C2C", "PXN", "P2C"))
_ON: Final = r"0*[1-9]\d*"
_OFF: Final = r"0+"
_OWN: Final = (NetPlugin.AWS_OFI, NetPlugin.TCPX, NetPlugin.TCPXO, NetPlugin.GIB)
_CHECKED: Final = (
    "NCCL_ALGO", "NCCL_PROTO", "NCCL_CROSS_NIC", "NCCL_BUFFSIZE", "NCCL_MIN_NCHANNELS",
    "NCCL_DYNAMIC_CHUNK_SIZE", "NCCL_P2P_NET_CHUNKSIZE", "NCCL_P2P_PCI_CHUNKSIZE",
    "NCCL_P2P_NVL_CHUNKSIZE", "NCCL_NVLSTREE_MAX_CHUNKSIZE", "NCCL_NET_GDR_LEVEL",
    "NCCL_PXN_DISABLE", "NCCL_P2P_PXN_LEVEL", "NCCL_TUNER_CONFIG_PATH",
)  # fmt: skip


def _word_of_number(one: Setting, _: Scene) -> Seen | None:
    """The word of an old level."""
    word = level_of(one.value or "")
    return Seen(do=word) if word else None


def _no_level(one: Setting, _: Scene) -> Seen | None:
    value = (one.value or "").strip()
    if not value or value in _KNOWN or value[0].isdigit():
        return None
    upper = value.upper()
    do = upper if upper in _KNOWN else "PHB" if upper == "NODE" else "one of them"
    return Seen(do=do)


TRANSPORT_RULES: Final = (
    LintRule(
        name="p2p-off", names=("NCCL_P2P_DISABLE",), severity=Severity.WARNING, value=_ON,
        because="the GPUs of a node no longer reach each other by NVLink or PCIe; as a cure for a"
        " hang it hides a fault of ACS or the IOMMU",
        remedy="leave it out; if it hangs, look at ACS and the IOMMU (iommu=pt)", source=ENV_RST,
    ),
    LintRule(
        name="p2p-level-off", names=("NCCL_P2P_LEVEL",), severity=Severity.WARNING,
        value="LOC|0+", because="{value} turns off P2P between the GPUs of a node",
        remedy="leave it out", source=ENV_RST,
    ),
    LintRule(
        name="p2p-level-idle", names=("NCCL_P2P_LEVEL",), severity=Severity.WARNING,
        beside=("NCCL_P2P_DISABLE", "0*1"), because="has no effect beside {other}",
        remedy="leave out both", source="NCCL src/graph/paths.cc (ncclGetLevel)",
    ),
    LintRule(
        name="level-number", names=_LEVELS, severity=Severity.NOTE, when=_word_of_number,
        because="numbers are the levels of old releases; 4 and more are SYS",
        remedy="{name}={do}, or leave it out", source=ENV_RST,
    ),
    LintRule(
        name="level-word", names=_LEVELS, severity=Severity.ERROR, when=_no_level,
        because="`{value}` is no level of NCCL (LOC NVL NVB C2C PIX PXB P2C PXN PHB SYS, in"
        " capitals), so the line has no effect; NODE is nvidia-smi's word",
        remedy="{name}={do}, or leave it out", source="NCCL src/graph/paths.cc (ncclGetLevel)",
    ),
    LintRule(
        name="gdr-off", names=("NCCL_NET_GDR_LEVEL",), severity=Severity.WARNING, value="LOC|0+",
        because="{value} turns GPUDirect RDMA off: all traffic between nodes goes through host"
        " memory",
        remedy="leave it out", source=ENV_RST,
    ),
    LintRule(
        name="gdr-sys", names=("NCCL_NET_GDR_LEVEL",), severity=Severity.NOTE, value="SYS",
        because="NICs write to GPUs across the link between CPUs, which is often slower than"
        " through host memory",
        remedy="leave it out; PHB where GPU and NIC share a CPU", source=ENV_RST,
    ),
    LintRule(
        name="dmabuf-off", names=("NCCL_DMABUF_ENABLE",), severity=Severity.NOTE, value=_OFF,
        since="2.13",
        because="without nvidia_peermem there is then no GPUDirect RDMA", remedy="leave it out",
        source=ENV_RST,
    ),
    LintRule(
        name="shm-off", names=("NCCL_SHM_DISABLE",), severity=Severity.WARNING, value=_ON,
        because="GPUs of a node that have no P2P then talk through the network",
        remedy="leave it out; where /dev/shm is too small, enlarge it", source=ENV_RST,
    ),
    LintRule(
        name="nvls-off", names=("NCCL_NVLS_ENABLE",), severity=Severity.WARNING, value=_OFF,
        since="2.17",
        because="no NVLink SHARP: an AllReduce of 16 GiB on 8 × H200 reached 480 GB/s of bus"
        " bandwidth with it, 367 with Ring",
        remedy="leave it out; 0 is for want of memory or a known defect",
        source=f"{ENV_RST}; ml-engineering, network benchmarks",
    ),
    LintRule(
        name="nvls-forced", names=("NCCL_NVLS_ENABLE",), severity=Severity.NOTE, value="0*1",
        since="2.18",
        because="forced: where the fabric manager or an NVSwitch is at fault, the job fails"
        " instead of going on without it; 2 detects it",
        remedy="leave it out", source="NCCL src/transport/nvls.cc",
    ),
    LintRule(
        name="cumem-off", names=("NCCL_CUMEM_ENABLE",), severity=Severity.NOTE, value=_OFF,
        since="2.19",
        because="a workaround from before 2.19, where cuMem became the default; buffers are"
        " registered the old way, and MNNVL is off",
        remedy="leave it out", source=f"{ENV_RST}; NCCL src/mnnvl.cc",
    ),
    LintRule(
        name="mnnvl-without-cumem", names=("NCCL_MNNVL_ENABLE",), severity=Severity.ERROR,
        value="0*1", beside=("NCCL_CUMEM_ENABLE", _OFF),
        because="multi-node NVLink needs cuMem, which {other} turns off",
        remedy="leave NCCL_CUMEM_ENABLE out", source="NCCL src/mnnvl.cc",
    ),
    LintRule(
        name="mnnvl-off", names=("NCCL_MNNVL_ENABLE",), severity=Severity.NOTE, value=_OFF,
        because="on NVL72 machines the trays then talk over the network and not by NVLink",
        remedy="leave it out: NCCL detects it", source=ENV_RST,
    ),
    LintRule(
        name="cross-nic-0", names=("NCCL_CROSS_NIC",), severity=Severity.NOTE, value=_OFF,
        because="for fabrics whose rails do not meet, and no guarantee there: communicators that"
        " do not fit the rails still cross them; the default 2 decides by itself",
        remedy="leave it out where the rails meet", source=f"{ENV_RST}; nccl#836, nccl#2345",
    ),
    LintRule(
        name="cross-nic-1", names=("NCCL_CROSS_NIC",), severity=Severity.NOTE, value="0*1",
        because="rings may change rails: for fabrics without rails, such as Slingshot; with rails"
        " it costs hops",
        remedy="leave it out where the fabric has rails", source=f"{ENV_RST}; nccl#2193",
    ),
    LintRule(
        name="pxn-off", names=("NCCL_PXN_DISABLE",), severity=Severity.NOTE, value=_ON,
        because="ranks no longer reach a NIC of another rail through the NVLink of a neighbour,"
        " which all-to-all gains from",
        remedy="leave it out", source=ENV_RST,
    ),
    LintRule(
        name="net-socket", names=("NCCL_NET",), severity=Severity.WARNING, value="socket",
        nodes="not one", because="all traffic between nodes goes over TCP",
        remedy="leave it out", source=ENV_RST,
    ),
    LintRule(
        name="net-ib-off", names=("NCCL_NET",), severity=Severity.ERROR, value="ib",
        beside=("NCCL_IB_DISABLE", _ON),
        because="the job fails: {other} takes away the network that this asks for",
        remedy="leave both out", source="NCCL src/plugin/net.cc (ncclNetInit)",
    ),
    LintRule(
        name="net-plugin-off", names=("NCCL_NET",), severity=Severity.ERROR,
        value="(?!(ib|socket)$).+", beside=("NCCL_NET_PLUGIN", "none"),
        because="the job fails: `{value}` is the network of a plugin, and {other} loads none",
        remedy="leave NCCL_NET_PLUGIN out", source="NCCL src/plugin/net.cc (ncclNetInit)",
    ),
    LintRule(
        name="net-on-one-node", names=("NCCL_NET",), severity=Severity.NOTE, nodes="one",
        value="(?!socket$).+",
        because="the job has one node; where the plugin cannot start there, the job fails",
        remedy="set it for jobs of several nodes alone", source="site guides for Slingshot",
    ),
    LintRule(
        name="plugin-off", names=("NCCL_NET_PLUGIN",), severity=Severity.ERROR, value="none",
        plugins=_OWN, nodes="not one",
        because="this network is reached through the plugin; without it all goes over TCP",
        remedy="leave it out", source=ENV_RST,
    ),
    LintRule(
        name="plugin-checks", names=_CHECKED, severity=Severity.ERROR,
        plugins=(NetPlugin.TCPXO,),
        because="the plugin compares this with its own profile, and refuses other values",
        remedy="leave it out, and source nccl-env-profile.sh of the plugin",
        source="GPUDirect-TCPXO guide of its vendor",
    ),
    LintRule(
        name="topo-file-bare", names=("NCCL_TOPO_FILE",), severity=Severity.WARNING, is_vm=False,
        because="on a machine that is not virtual NCCL sees the PCI tree itself; a file of another"
        " machine misleads it",
        remedy="leave it out", source=ENV_RST,
    ),
    LintRule(
        name="topo-file-plugin", names=("NCCL_TOPO_FILE",), severity=Severity.NOTE,
        plugins=(NetPlugin.AWS_OFI,), because="the plugin sets it by the type of the instance",
        remedy="leave it out", source="aws-ofi-nccl src/platform-aws.cpp",
    ),
    LintRule(
        name="affinity-ignored", names=("NCCL_IGNORE_CPU_AFFINITY",), severity=Severity.NOTE,
        value=_ON,
        because="NCCL's threads leave the CPUs that the ranks were bound to; meant for virtual"
        " machines that hide NUMA",
        remedy="leave it out where ranks are bound", source=ENV_RST,
        when=lambda _, scene: None if scene.facts.is_vm else Seen(),
    ),
)  # fmt: skip
