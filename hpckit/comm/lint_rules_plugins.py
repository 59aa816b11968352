"""Rules about paths: between the GPUs of a node, between GPUs and NICs, and which network."""

from __future__ import annotations

import re
from typing import Final

from hpckit.comm.facts import LEVELS, level_of
from hpckit.comm.lint_rule import ENV_RST, Scene, Seen, Setting, error, note, warning
from hpckit.comm.lint_rules_network import absent_name
from hpckit.core.hostlist import named
from hpckit.spec.platform import CommLibrary, NetPlugin

# --- Rules about libfabric: EFA and its plugin, Slingshot.

_SHEET: Final = "aws-ofi-nccl doc/efa-env-var.md"
_OFI: Final = (NetPlugin.AWS_OFI,)
_ANY: Final = "(1|y|yes|true|on)"


def _is_efa(_: Setting, scene: Scene) -> bool:
    """Whether EFA carries the traffic: as facts say, or the file's own settings of it."""
    is_set = any(name.startswith("FI_EFA_") for name in scene.by_name)
    providers = (one.value for one in scene.by_name.get("FI_PROVIDER", ()))
    return is_set or "efa" in providers or scene.facts.plugin is NetPlugin.AWS_OFI


EFA_RULES: Final = (
    note("efa-fork-safe", "FI_EFA_FORK_SAFE",
         because="since release 1.2 the plugin sets it where the kernel needs it (before 5.15)",
         source=_SHEET),
    warning("efa-rdmav-fork", "RDMAV_FORK_SAFE IBV_FORK_SAFE", value=_ANY, when=_is_efa,
            because="for rdma-core, not for EFA; on newer kernels it can break a working setup",
            source=_SHEET),
    note("efa-device-rdma", "FI_EFA_USE_DEVICE_RDMA", value=_ANY,
         because="the default since libfabric 1.18 and aws-ofi-nccl 1.7", source=_SHEET),
    warning("efa-device-rdma-off", "FI_EFA_USE_DEVICE_RDMA", value="(0|n|no|false|off)",
            because="turns RDMA off on EFA, so GPU data goes through host memory", source=_SHEET),
    note("efa-shm", "FI_EFA_ENABLE_SHM_TRANSFER",
         because="no effect: the plugin turns this off in libfabric anyway", source=_SHEET),
    note("efa-provider", "FI_PROVIDER", value="efa",
         because="only aws-ofi-nccl up to 1.5.0 needs it", source=_SHEET),
    warning("fi-provider-tcp", "FI_PROVIDER", value=r"(tcp|sockets|udp)(;.*)?", nodes="not one",
            when=lambda _, scene: Seen(is_sure=bool(scene.facts.nics)),
            because="libfabric uses TCP or UDP instead of the fabric",
            source="fabric(7)"),
    note("efa-huge-page", "FI_EFA_USE_HUGE_PAGE", value="0",
         because="costs some speed; needed only if fork fails with `Cannot allocate memory`",
         remedy="remove it unless data loaders fail this way", source=_SHEET),
    warning("efa-proto", "NCCL_PROTO", value="simple", plugins=_OFI,
            because="only aws-ofi-nccl up to 1.5.0 needs it; later releases choose the protocol",
            source=_SHEET),
    note("efa-channels", "NCCL_MIN_NCHANNELS NCCL_MIN_CTAS", plugins=_OFI,
         because="more channels make messages smaller, which costs bandwidth on EFA",
         source=_SHEET),
    note("efa-buffsize", "NCCL_BUFFSIZE NCCL_P2P_NET_CHUNKSIZE", plugins=_OFI,
         because="the plugin sets it by instance type", source=_SHEET),
    warning("fi-memhooks", "FI_MR_CACHE_MONITOR", value="memhooks",
          when=lambda _, scene: Seen(is_sure=scene.has_collectives),
          because="intercepts memory allocation; NCCL and RCCL on libfabric can hang with it",
          remedy="FI_MR_CACHE_MONITOR=userfaultfd, or kdreg2 where the site has it",
          source="site guides for Slingshot; fi_mr(3)"),
    error("ofi-net-without-plugin", "NCCL_NET", value="(aws )?libfabric", plugins=(NetPlugin.NONE,),
          because="the job fails: this network needs aws-ofi-nccl, which is missing here",
          remedy="load aws-ofi-nccl, or remove this", source="NCCL user guide, env.rst"),
)  # fmt: skip


# --- Rules about UCX and MPI libraries.

_UCX: Final = "UCX documentation, frequently asked questions"
_OMPI: Final = "Open MPI documentation 5.0, what is new"
_TRANSPORTS: Final = {CommLibrary.NCCL: ("cuda", "gpu"), CommLibrary.RCCL: ("rocm", "gpu")}


def _no_gpu(one: Setting, scene: Scene) -> Seen | None:
    """A list of transports without one that knows GPU memory."""
    value = (one.value or "").strip().lower()
    if not value or value.startswith("^") or scene.library is None:
        return None
    names = value.split(",")
    gpu = _TRANSPORTS[scene.library]
    has_gpu = "all" in names or any(name.strip().startswith(gpu) for name in names)
    return None if has_gpu else Seen(do=gpu[0])


def _slow(one: Setting, _: Scene) -> bool:
    names = {name.strip() for name in (one.value or "").lower().split(",")}
    fast = {"all", "ib", "rc", "dc", "ud", "rc_x", "dc_x", "ud_x", "rc_v", "ud_v", "rc_mlx5",
            "dc_mlx5", "ud_mlx5", "rc_verbs", "ud_verbs", "srd", "gdr_copy"}  # fmt: skip
    is_list = bool(names - {""}) and not any(name.startswith("^") for name in names)
    return is_list and "tcp" in names and not names & fast


def _absent(one: Setting, scene: Scene) -> Seen | None:
    """Devices of UCX, none of which is here."""
    nics, interfaces = scene.facts.nics, scene.facts.interfaces
    value = (one.value or "").strip()
    if nics is None or interfaces is None or not value or value in ("all", "^"):
        return None
    names = [part.strip().split(":", 1)[0] for part in value.split(",")]
    here = (*nics, *interfaces)
    return None if any(name in here for name in names) else Seen(named(here) or "none")


def _no_port(one: Setting, _: Scene) -> Seen | None:
    names = [part.strip() for part in (one.value or "").split(",")]
    bare = [name for name in names if re.fullmatch(r"mlx[45]_\w+", name, re.ASCII)]
    return Seen(named(bare), do=",".join(f"{name}:1" if name in bare else name for name in names)
                ) if bare else None  # fmt: skip


MPI_RULES: Final = (
    warning("ucx-no-gpu", "UCX_TLS", when=_no_gpu,
            because="without {do} UCX cannot handle GPU memory, and MPI fails on GPU buffers",
            remedy="remove it, or add {do}", source=_UCX),
    note("ucx-tcp", "UCX_TLS", when=_slow, nodes="not one",
         because="all MPI traffic between nodes goes over TCP; enough if MPI only starts NCCL",
         remedy="remove it: UCX chooses", source=_UCX),
    error("ucx-device-absent", "UCX_NET_DEVICES", when=_absent,
          because="this node has no such device; it has {seen}",
          remedy="remove it, or name devices of this node", source=_UCX),
    warning("ucx-device-port", "UCX_NET_DEVICES", when=_no_port,
            because="UCX releases before 2026 need the port of an RDMA device; for them {seen}"
            " matches nothing", remedy="UCX_NET_DEVICES={do}", source="ucx#11142"),
    warning("ucx-log", "UCX_LOG_LEVEL", value="debug|trace.*|req|data|async|func|poll",
            because="slows the job: every request writes log lines", source=_UCX),
    note("ompi-openib", "OMPI_MCA_btl", value=r"(?!\^).*\bopenib\b.*",
         because="Open MPI 5.0 has no openib; with UCX it is unused since 4.0",
         remedy="remove it: UCX (pml ucx) carries InfiniBand", source=_OMPI),
    note("ompi-openib-option", "OMPI_MCA_btl_openib_*", because="Open MPI 5.0 has no openib",
         source=_OMPI),
    note("ompi-vader", "OMPI_MCA_btl", value=r"(?!\^).*\bvader\b.*",
         because="called sm since Open MPI 5.0", source=_OMPI),
    note("ompi-ob1", "OMPI_MCA_pml", value="ob1", nodes="not one",
         because="without UCX, Open MPI 4 and later use only TCP on InfiniBand; enough if MPI only"
         " starts NCCL", remedy="remove it, or OMPI_MCA_pml=ucx", source=_OMPI),
    error("ompi-interface-absent", "OMPI_MCA_btl_tcp_if_include OMPI_MCA_oob_tcp_if_include",
          when=lambda one, scene: "/" not in (one.value or "") and absent_name(one, scene),
          because="this node has no such interface; it has {seen}",
          remedy="remove it, or give a subnet: 10.0.0.0/8",
          source="Open MPI documentation, TCP"),
    note("impi-fabrics", "I_MPI_FABRICS", value=r"(shm:)?(dapl|ofa|tmi|tcp)",
         because="no effect since Intel MPI 2019, which uses only libfabric (ofi)",
         remedy="remove it, or I_MPI_FABRICS=shm:ofi",
         source="Intel MPI Library release notes"),
    note("mpich-gpu-old", "MPICH_RDMA_ENABLED_CUDA",
         because="for Cray MPICH on older systems; on EX it is MPICH_GPU_SUPPORT_ENABLED",
         remedy="MPICH_GPU_SUPPORT_ENABLED=1", source="intro_mpi(3) of Cray MPICH"),
)  # fmt: skip


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


def _no_level(one: Setting, _: Scene) -> Seen | None:
    value = (one.value or "").strip()
    if not value or value in _KNOWN or value[0].isdigit():
        return None
    upper = value.upper()
    do = upper if upper in _KNOWN else "PHB" if upper == "NODE" else "one of them"
    return Seen(do=do)


def _p2p_off(one: Setting, scene: Scene) -> Seen:
    """Sure where GPUs have P2P, but where a command has SHM off too: that tests the network."""
    is_test = one.is_of_one_command and any(scene.beside(one, "NCCL_SHM_DISABLE"))
    return Seen(is_sure=scene.has_peers and not is_test)


def _level_idle(one: Setting, scene: Scene) -> Seen:
    """Sure where no command sees the level without what turns P2P off."""
    return Seen(is_sure=any(off.covers(one) for off in scene.beside(one, "NCCL_P2P_DISABLE")))


TRANSPORT_RULES: Final = (
    warning("p2p-off", "NCCL_P2P_DISABLE", value=_ON,
            because="turns off P2P over NVLink and PCIe between the GPUs of a node; as a workaround"
            " for a hang it hides an ACS or IOMMU problem",
            when=_p2p_off,
            remedy="remove it; if the job hangs, check ACS and the IOMMU (iommu=pt)"),
    warning("p2p-level-off", "NCCL_P2P_LEVEL", value="LOC|0+",
            when=lambda _, scene: Seen(is_sure=scene.has_peers),
            because="{value} turns off P2P between the GPUs of a node"),
    warning("p2p-level-idle", "NCCL_P2P_LEVEL", beside=("NCCL_P2P_DISABLE", "0*1"),
            when=_level_idle,
            because="no effect with {other}", remedy="remove both",
            source="NCCL src/graph/paths.cc (ncclGetLevel)"),
    note("level-number", _LEVELS,
         when=lambda one, _: (word := level_of(one.value or "")) and Seen(do=word),
         because="numbers are levels of old releases; 4 and above mean SYS",
         remedy="{name}={do}, or remove it"),
    error("level-word", _LEVELS, when=_no_level, is_mistake=True,
          because="`{value}` is not a level of NCCL (LOC NVL NVB C2C PIX PXB P2C PXN PHB SYS, in"
          " capitals), so the line has no effect; NODE is nvidia-smi's term",
          remedy="{name}={do}, or remove it", source="NCCL src/graph/paths.cc (ncclGetLevel)"),
    warning("gdr-off", "NCCL_NET_GDR_LEVEL", value="LOC|0+", nodes="not one",
            when=lambda _, scene: Seen(is_sure=bool(scene.facts.nics)),
            because="{value} turns GPUDirect RDMA off: all traffic between nodes goes through"
            " host memory"),
    note("gdr-sys", "NCCL_NET_GDR_LEVEL", value="SYS",
         because="NICs write to GPUs across the link between CPUs, often slower than through host"
         " memory", remedy="remove it; use PHB if GPU and NIC share a CPU"),
    note("dmabuf-off", "NCCL_DMABUF_ENABLE", value=_OFF, since="2.13",
         because="no GPUDirect RDMA unless nvidia_peermem is loaded"),
    note("shm-off", "NCCL_SHM_DISABLE", value=_ON,
         because="GPUs of a node without P2P communicate through the network",
         remedy="remove it; if /dev/shm is too small, enlarge it"),
    note("nvls-off", "NCCL_NVLS_ENABLE", value=_OFF, since="2.17",
         because="turns NVLink SHARP off: a 16 GiB AllReduce on 8 × H200 reached 480 GB/s bus"
         " bandwidth with it, 367 GB/s with Ring",
         remedy="remove it; use 0 only for lack of memory or a known bug",
         source=f"{ENV_RST}; ml-engineering, network benchmarks"),
    note("nvls-forced", "NCCL_NVLS_ENABLE", value="0*1", since="2.18",
         because="forces NVLink SHARP: if the fabric manager or an NVSwitch is faulty, the job"
         " fails instead of running without it; 2 detects it", source="NCCL src/transport/nvls.cc"),
    note("cumem-off", "NCCL_CUMEM_ENABLE", value=_OFF, since="2.19",
         because="an old workaround: cuMem is the default since 2.19, and without it MNNVL is off"
         " and buffers are registered the old way", source=f"{ENV_RST}; NCCL src/mnnvl.cc"),
    error("mnnvl-without-cumem", "NCCL_MNNVL_ENABLE", value="0*1",
          beside=("NCCL_CUMEM_ENABLE", _OFF),
          because="multi-node NVLink needs cuMem, which {other} turns off",
          remedy="remove NCCL_CUMEM_ENABLE", source="NCCL src/mnnvl.cc"),
    note("mnnvl-off", "NCCL_MNNVL_ENABLE", value=_OFF,
         because="on NVL72 machines the nodes use the network instead of NVLink",
         remedy="remove it: NCCL detects it"),
    note("cross-nic-0", "NCCL_CROSS_NIC", value=_OFF,
         because="only for fabrics with unconnected rails, and no guarantee there: communicators"
         " that do not match the rails still cross them; the default (2) decides by itself",
         remedy="remove it if the rails are connected", source=f"{ENV_RST}; nccl#836, nccl#2345"),
    note("cross-nic-1", "NCCL_CROSS_NIC", value="0*1",
         because="lets rings change rails: good without rails, as on Slingshot; with rails it costs"
         " hops", remedy="remove it if the fabric has rails",
         source=f"{ENV_RST}; nccl#2193"),
    note("pxn-off", "NCCL_PXN_DISABLE", value=_ON,
         because="slows all-to-all: ranks no longer reach another rail's NIC through the NVLink of"
         " a neighbour"),
    warning("net-socket", "NCCL_NET", value="socket", nodes="not one",
            when=lambda _, scene: Seen(is_sure=bool(scene.facts.nics)),
            because="all traffic between nodes goes over TCP"),
    error("net-ib-off", "NCCL_NET", value="ib", beside=("NCCL_IB_DISABLE", _ON),
          because="the job fails: {other} turns off the network requested here",
          remedy="remove both", source="NCCL src/plugin/net.cc (ncclNetInit)"),
    error("net-plugin-off", "NCCL_NET", value="(?!(ib|socket)$).+",
          beside=("NCCL_NET_PLUGIN", "none"),
          because="the job fails: `{value}` is a plugin's network, and {other} loads no plugin",
          remedy="remove NCCL_NET_PLUGIN", source="NCCL src/plugin/net.cc (ncclNetInit)"),
    note("net-on-one-node", "NCCL_NET", value="(?!socket$).+", nodes="one",
         because="not needed on one node; if the plugin cannot start there, the job fails",
         remedy="set it only for jobs of several nodes", source="site guides for Slingshot"),
    error("plugin-off", "NCCL_NET_PLUGIN", value="none", plugins=_OWN, nodes="not one",
          because="this network needs the plugin; without it all traffic goes over TCP"),
    error("plugin-checks", _CHECKED, plugins=(NetPlugin.TCPXO,),
          because="the plugin checks this against its profile and refuses other values",
          remedy="remove it, and source the plugin's nccl-env-profile.sh",
          source="GPUDirect-TCPXO guide of its vendor"),
    warning("topo-file-bare", "NCCL_TOPO_FILE", is_vm=False,
            because="on bare metal NCCL sees the PCI tree itself; another machine's file misleads"
            " it"),
    note("topo-file-plugin", "NCCL_TOPO_FILE", plugins=(NetPlugin.AWS_OFI,),
         because="the plugin sets it by instance type",
         source="aws-ofi-nccl src/platform-aws.cpp"),
    note("affinity-ignored", "NCCL_IGNORE_CPU_AFFINITY", value=_ON,
         when=lambda _, scene: not scene.facts.is_vm,
         because="NCCL's threads ignore the ranks' CPU binding; only for VMs that hide NUMA",
         remedy="remove it where ranks are bound"),
)  # fmt: skip
