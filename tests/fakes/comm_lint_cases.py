"""A case for each rule about settings of communication: where it speaks, and a near miss.

The files are synthetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hpckit.comm.lint_rule import LintFacts
from hpckit.spec.platform import CommLibrary, CommSetting, NetPlugin, SettingOrigin

FEW: Final = ("mlx5_0", "mlx5_1", "mlx5_2")
MANY: Final = (*FEW, "mlx5_10", "mlx5_11")
NICS: Final = LintFacts(nics=FEW)
MORE_NICS: Final = LintFacts(nics=MANY)
HOSTS: Final = LintFacts(interfaces=("lo", "ens1f0", "ib0"))
DEVICES: Final = LintFacts(interfaces=("ens1f0",), nics=FEW)
ONE_NODE: Final = LintFacts(nodes=1)
MANY_NODES: Final = LintFacts(nodes=4)
BARE: Final = LintFacts(is_vm=False)
VIRTUAL: Final = LintFacts(is_vm=True)
EFA: Final = LintFacts(plugin=NetPlugin.AWS_OFI)
EFA_ONE_NODE: Final = LintFacts(plugin=NetPlugin.AWS_OFI, nodes=1)
TCPXO: Final = LintFacts(plugin=NetPlugin.TCPXO)
NO_PLUGIN: Final = LintFacts(plugin=NetPlugin.NONE)
ANYWHERE: Final = LintFacts()
DERIVED: Final = LintFacts(
    derived=(
        CommSetting(name="NCCL_NET_GDR_LEVEL", value="PHB", because="far NICs", source="a page",
                    origin=SettingOrigin.RULE, rule="slingshot-gdr"),
    )
)  # fmt: skip
SCRIPT: Final = "job.sh"
CONF: Final = "nccl.conf"
DUMP: Final = "env.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A file in which a rule speaks, and one in which it does not.

    What the near miss does not say of its own is as where the rule speaks; `nccl` "" is not known.
    """

    rule: str
    fires: str
    misses: str
    name: str = SCRIPT
    nccl: str = ""
    miss_name: str | None = None
    miss_nccl: str | None = None
    facts: LintFacts = ANYWHERE
    miss_facts: LintFacts | None = None
    library: CommLibrary | None = None
    miss_library: CommLibrary | None = None


def case(rule: str, fires: str, misses: str, *, nccl: str = "", at: LintFacts = ANYWHERE) -> Case:
    """Two exports that differ in their value."""
    return Case(rule=rule, fires=f"export {fires}\n", misses=f"export {misses}\n", nccl=nccl,
                facts=at)  # fmt: skip


def elsewhere(rule: str, fires: str, at: LintFacts, miss_at: LintFacts = ANYWHERE) -> Case:
    """One export in two places."""
    text = f"export {fires}\n"
    return Case(rule=rule, fires=text, misses=text, facts=at, miss_facts=miss_at)


def dated(rule: str, fires: str, nccl: str, miss_nccl: str) -> Case:
    """One export on two releases of NCCL."""
    text = f"export {fires}\n"
    return Case(rule=rule, fires=text, misses=text, nccl=nccl, miss_nccl=miss_nccl)


def script(rule: str, fires: str, misses: str, at: LintFacts = ANYWHERE) -> Case:
    """Two scripts as they stand."""
    return Case(rule=rule, fires=fires, misses=misses, facts=at)


NCCL_CASES: Final = (
    case("nccl-not-a-number", "NCCL_BUFFSIZE=8M", "NCCL_BUFFSIZE=8388608"),
    case("nccl-not-a-number", "NCCL_P2P_DISABLE=true", "NCCL_P2P_DISABLE=0x1"),
    case("nccl-list-blank", "NCCL_IB_HCA='=mlx5_0, mlx5_2'", "NCCL_IB_HCA==mlx5_0,mlx5_2"),
    case("nccl-algo-without-ring", "NCCL_ALGO=Tree", "NCCL_ALGO=allreduce:tree", nccl="2.24.3"),
    case("nccl-algo-without-ring", "NCCL_ALGO=^ring", "NCCL_ALGO=^nvls", nccl="2.27.3"),
    dated("nccl-algo-without-ring", "NCCL_ALGO=Tree,NVLS", "2.24.3", "2.23.4"),
    dated("nccl-algo-without-ring-early", "NCCL_ALGO=Tree", "2.23.4", "2.24.3"),
    dated("nccl-algo-without-ring-early", "NCCL_ALGO=Tree", "2.18.5", ""),
    case("nccl-algo-forced", "NCCL_ALGO=Ring", "NCCL_ALGO="),
    case("nccl-proto-ll128", "NCCL_PROTO=LL128,Simple", "NCCL_PROTO=^LL128"),
    case("nccl-proto-forced", "NCCL_PROTO=Simple", "NCCL_PROTO=^LL"),
    elsewhere("nccl-proto-forced", "NCCL_PROTO=Simple", ANYWHERE, EFA),
    case("nccl-debug-trace", "NCCL_DEBUG=TRACE", "NCCL_DEBUG=WARN"),
    case("nccl-debug-info", "NCCL_DEBUG=info", "NCCL_DEBUG=VERSION"),
    case("nccl-debug-word", "NCCL_DEBUG=DEBUG", "NCCL_DEBUG=WARN"),
    Case(rule="nccl-debug-word", fires="export NCCL_DEBUG=ERROR\n", library=CommLibrary.NCCL,
         misses="export NCCL_DEBUG=ERROR\n", miss_library=CommLibrary.RCCL),
    script("nccl-debug-file-shared", "export NCCL_DEBUG=WARN NCCL_DEBUG_FILE=/tmp/nccl.log\n",
           "export NCCL_DEBUG=WARN NCCL_DEBUG_FILE=/tmp/nccl.%h.%p.log\n"),
    script("nccl-debug-file-shared", "export NCCL_DEBUG_FILE=/tmp/nccl.%h.log\n",
           "export NCCL_DEBUG_FILE=/dev/stderr\n"),
    case("nccl-debug-file-shared", "NCCL_DEBUG_FILE=x.log", "NCCL_DEBUG_FILE=x.%p", at=ONE_NODE),
    script("nccl-debug-file-unused", "export NCCL_DEBUG_FILE=nccl.%h.%p\n",
           "export NCCL_DEBUG=WARN\nexport NCCL_DEBUG_FILE=nccl.%h.%p\n"),
    script("nccl-debug-subsys-unused", "export NCCL_DEBUG=WARN NCCL_DEBUG_SUBSYS=NET\n",
           "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=NET\n"),
    case("nccl-crossed", "NCCL_MIN_CTAS=16 NCCL_MAX_CTAS=8", "NCCL_MIN_CTAS=8 NCCL_MAX_CTAS=8"),
    script("nccl-crossed", "export NCCL_MIN_NCHANNELS=32\nexport NCCL_MAX_NCHANNELS=16\n",
           "NCCL_MIN_NCHANNELS=32 srun a\nNCCL_MAX_NCHANNELS=16 srun b\n"),
    dated("nccl-nchannels", "NCCL_MIN_NCHANNELS=16", "2.17.1", "2.16.5"),
    dated("nccl-nrings", "NCCL_MAX_NRINGS=16", "2.5.6", "2.4.8"),
    dated("nccl-check-pointers-old", "NCCL_CHECK_POINTERS=0", "2.29.7", "2.29.3"),
    case("nccl-check-pointers", "NCCL_CHECK_POINTERS=1", "NCCL_CHECK_POINTERS=0"),
    case("nccl-launch-mode", "NCCL_LAUNCH_MODE=GROUP", "NCCL_LAUNCH_MODES="),
    case("nccl-threads", "NCCL_NTHREADS=100", "NCCL_NTHREADS=256"),
    case("nccl-threads", "NCCL_NTHREADS=1024", "NCCL_NTHREADS=512"),
    case("nccl-net-mismatch", "NCCL_IGNORE_NET_MISMATCH=1", "NCCL_IGNORE_NET_MISMATCH=0",
         nccl="2.30.7"),
    dated("nccl-net-mismatch", "NCCL_IGNORE_NET_MISMATCH=1", "2.30.3", "2.29.7"),
    case("nccl-ras-port", "NCCL_RAS_ADDR=localhost:28028", "NCCL_RAS_ADDR=localhost",
         nccl="2.27.3"),
    dated("nccl-ras-port", "NCCL_RAS_ADDR=localhost:28028", "2.24.3", "2.23.4"),
    case("nccl-dump-left", "NCCL_TOPO_DUMP_FILE=/tmp/t.xml", "NCCL_TOPO_DUMP_FILE_RANK=1"),
    Case(rule="conf-quotes", name=CONF, fires='NCCL_NET="IB"\n', misses="NCCL_NET=IB\n"),
    Case(rule="conf-quotes", name=CONF, fires="NCCL_IB_SL='1'\n", misses="NCCL_IB_SL=1\n"),
    Case(rule="conf-quotes", name=CONF, fires="NCCL_IB_SL='1'\n",
         misses="export NCCL_IB_SL=\"'1'\"\n", miss_name=SCRIPT),
    Case(rule="conf-name", name=CONF, fires="--export=ALL\n", misses="srun --export=ALL a\n",
         miss_name=SCRIPT),
    Case(rule="conf-no-value", name=CONF, fires="NCCL_IB_SL\n", misses="export NCCL_IB_SL=$A\n",
         miss_name=SCRIPT),
    Case(rule="conf-name", name=CONF, fires="export NCCL_IB_SL=1\n", misses="NCCL_IB_SL=1\n"),
    Case(rule="conf-name", name=CONF, fires="NCCL_IB_SL =1\n", misses="#NCCL_IB_SL =1\n"),
    Case(rule="conf-name", name=CONF, fires=" NCCL_IB_SL=1\n", misses="NCCL_IB_SL 1\n # a=b\n"),
    Case(rule="conf-no-value", name=CONF, fires="NCCL_IB_SL 1\n", misses="NCCL_IB_SL=\n # note\n"),
)  # fmt: skip

TRANSPORT_CASES: Final = (
    case("p2p-off", "NCCL_P2P_DISABLE=1", "NCCL_P2P_DISABLE=0"),
    case("p2p-level-off", "NCCL_P2P_LEVEL=LOC", "NCCL_P2P_LEVEL=PXB"),
    script("p2p-level-idle", "export NCCL_P2P_DISABLE=1\nexport NCCL_P2P_LEVEL=SYS\n",
           "export NCCL_P2P_DISABLE=0\nexport NCCL_P2P_LEVEL=SYS\n"),
    case("level-number", "NCCL_NET_GDR_LEVEL=3", "NCCL_NET_GDR_LEVEL=PHB"),
    case("level-word", "NCCL_NET_GDR_LEVEL=NODE", "NCCL_NET_GDR_LEVEL=P2C"),
    case("level-word", "NCCL_P2P_LEVEL=nvl", "NCCL_P2P_LEVEL=NVL"),
    case("gdr-off", "NCCL_NET_GDR_LEVEL=0", "NCCL_NET_GDR_LEVEL=PIX"),
    case("gdr-sys", "NCCL_NET_GDR_LEVEL=SYS", "NCCL_NET_GDR_LEVEL=PHB"),
    case("dmabuf-off", "NCCL_DMABUF_ENABLE=0", "NCCL_DMABUF_ENABLE=1", nccl="2.20.5"),
    dated("dmabuf-off", "NCCL_DMABUF_ENABLE=0", "2.13.4", "2.12.12"),
    case("shm-off", "NCCL_SHM_DISABLE=1", "NCCL_SHM_DISABLE=0"),
    case("nvls-off", "NCCL_NVLS_ENABLE=0", "NCCL_NVLS_ENABLE=2", nccl="2.27.3"),
    dated("nvls-off", "NCCL_NVLS_ENABLE=0", "2.17.1", "2.16.5"),
    dated("nvls-forced", "NCCL_NVLS_ENABLE=1", "2.18.1", "2.17.1"),
    case("nvls-forced", "NCCL_NVLS_ENABLE=1", "NCCL_NVLS_ENABLE=2", nccl="2.27.3"),
    dated("cumem-off", "NCCL_CUMEM_ENABLE=0", "2.19.3", "2.18.5"),
    case("cumem-off", "NCCL_CUMEM_ENABLE=0", "NCCL_CUMEM_ENABLE=1", nccl="2.27.3"),
    script("mnnvl-without-cumem", "export NCCL_MNNVL_ENABLE=1 NCCL_CUMEM_ENABLE=0\n",
           "export NCCL_MNNVL_ENABLE=1 NCCL_CUMEM_ENABLE=1\n"),
    case("mnnvl-without-cumem", "NCCL_MNNVL_ENABLE=1 NCCL_CUMEM_ENABLE=0",
         "NCCL_MNNVL_ENABLE=2 NCCL_CUMEM_ENABLE=0"),
    case("mnnvl-off", "NCCL_MNNVL_ENABLE=0", "NCCL_MNNVL_ENABLE=2"),
    case("cross-nic-0", "NCCL_CROSS_NIC=0", "NCCL_CROSS_NIC=2"),
    case("cross-nic-1", "NCCL_CROSS_NIC=1", "NCCL_CROSS_NIC=2"),
    case("pxn-off", "NCCL_PXN_DISABLE=1", "NCCL_PXN_DISABLE=0"),
    case("net-ib-off", "NCCL_NET=IB NCCL_IB_DISABLE=1", "NCCL_NET=IB NCCL_IB_DISABLE=0"),
    case("net-ib-off", "NCCL_NET=IB NCCL_IB_DISABLE=1", "NCCL_NET=Socket NCCL_IB_DISABLE=1"),
    case("net-plugin-off", "NCCL_NET=gIB NCCL_NET_PLUGIN=none", "NCCL_NET=gIB"),
    case("net-plugin-off", "NCCL_NET=gIB NCCL_NET_PLUGIN=none", "NCCL_NET=IB NCCL_NET_PLUGIN=none"),
    elsewhere("net-socket", "NCCL_NET=Socket", MANY_NODES, ONE_NODE),
    case("net-socket", "NCCL_NET=Socket", "NCCL_NET=IB", at=MANY_NODES),
    elsewhere("net-on-one-node", "NCCL_NET='AWS Libfabric'", ONE_NODE, MANY_NODES),
    case("net-on-one-node", "NCCL_NET=IB", "NCCL_NET=Socket", at=ONE_NODE),
    elsewhere("plugin-off", "NCCL_NET_PLUGIN=none", EFA, NO_PLUGIN),
    elsewhere("plugin-off", "NCCL_NET_PLUGIN=none", EFA, EFA_ONE_NODE),
    case("plugin-off", "NCCL_NET_PLUGIN=none", "NCCL_NET_PLUGIN=ofi", at=EFA),
    elsewhere("plugin-checks", "NCCL_BUFFSIZE=8388608", TCPXO),
    elsewhere("topo-file-bare", "NCCL_TOPO_FILE=/opt/topo.xml", BARE, VIRTUAL),
    elsewhere("topo-file-bare", "NCCL_TOPO_FILE=/opt/topo.xml", BARE),
    elsewhere("topo-file-plugin", "NCCL_TOPO_FILE=/opt/topo.xml", EFA),
    elsewhere("affinity-ignored", "NCCL_IGNORE_CPU_AFFINITY=1", BARE, VIRTUAL),
    case("affinity-ignored", "NCCL_IGNORE_CPU_AFFINITY=1", "NCCL_IGNORE_CPU_AFFINITY=0", at=BARE),
)  # fmt: skip

IB_CASES: Final = (
    elsewhere("ib-off", "NCCL_IB_DISABLE=1", ANYWHERE, ONE_NODE),
    case("ib-off", "NCCL_IB_DISABLE=1", "NCCL_IB_DISABLE=0"),
    case("ib-off", "NCCL_IB_DISABLE=1", "NCCL_IB_DISABLE=1 FI_PROVIDER=efa"),
    elsewhere("ib-off", "NCCL_IB_DISABLE=1", NO_PLUGIN, EFA),
    script("ib-idle", "export NCCL_IB_DISABLE=1\nexport NCCL_IB_HCA==mlx5_0\n",
           "export NCCL_IB_DISABLE=1\nsrun test\nunset NCCL_IB_DISABLE\n"
           "export NCCL_IB_HCA==mlx5_0\n"),
    script("ib-idle", "NCCL_IB_DISABLE=1 NCCL_IB_TC=41 srun a\n",
           "NCCL_IB_DISABLE=1 srun a\nNCCL_IB_TC=41 srun b\n"),
    script("ib-idle-socket", "export NCCL_NET=Socket NCCL_IB_TC=41\n",
           "export NCCL_NET=Socket NCCL_IB_DISABLE=1\n"),
    script("ib-idle-socket", "export NCCL_NET=Socket NCCL_IB_TC=41\n",
           "export NCCL_NET=IB NCCL_IB_TC=41\n"),
    case("ib-hca-prefix", "NCCL_IB_HCA=mlx5_1", "NCCL_IB_HCA==mlx5_1"),
    case("ib-hca-prefix", "NCCL_IB_HCA=mlx5_1", "NCCL_IB_HCA=mlx5_0,mlx5_10"),
    elsewhere("ib-hca-prefix", "NCCL_IB_HCA=mlx5_1", MORE_NICS, NICS),
    case("ib-hca-prefix", "NCCL_IB_HCA=^mlx5_1", "NCCL_IB_HCA=mlx5", at=MORE_NICS),
    case("ib-hca-many", "NCCL_IB_HCA=" + ",".join(f"a{at:02}" for at in range(33)),
         "NCCL_IB_HCA=" + ",".join(f"a{at:02}" for at in range(32))),
    case("ib-hca-absent", "NCCL_IB_HCA==mlx4_0", "NCCL_IB_HCA==mlx5_0", at=NICS),
    elsewhere("ib-hca-absent", "NCCL_IB_HCA==mlx4_0", NICS),
    case("ib-hca-partly", "NCCL_IB_HCA==mlx5_0:1,mlx5_7:1", "NCCL_IB_HCA==mlx5_0:1,mlx5_2:1",
         at=NICS),
    case("list-sign", "NCCL_IB_HCA==mlx5_0,=mlx5_2", "NCCL_IB_HCA==mlx5_0,mlx5_2"),
    case("list-sign", "NCCL_IB_HCA==^mlx5_0", "NCCL_IB_HCA=^=mlx5_0"),
    dated("ib-gid-index", "NCCL_IB_GID_INDEX=3", "2.21.5", "2.20.5"),
    case("ib-gid-index", "NCCL_IB_GID_INDEX=3", "NCCL_IB_GID_INDEX=-1"),
    case("ib-timeout-short", "NCCL_IB_TIMEOUT=18", "NCCL_IB_TIMEOUT=22", nccl="2.23.4"),
    dated("ib-timeout-short", "NCCL_IB_TIMEOUT=18", "2.23.4", "2.22.3"),
    case("ib-range", "NCCL_IB_SL=16", "NCCL_IB_SL=15"),
    case("ib-range", "NCCL_IB_TC=256", "NCCL_IB_TC=106"),
    dated("ib-split-data", "NCCL_IB_SPLIT_DATA_ON_QPS=1", "2.20.3", "2.19.4"),
    case("ib-split-data", "NCCL_IB_SPLIT_DATA_ON_QPS=1", "NCCL_IB_SPLIT_DATA_ON_QPS=0",
         nccl="2.27.3"),
    elsewhere("ib-on-efa", "NCCL_IB_TC=41", EFA),
)  # fmt: skip

SOCKET_CASES: Final = (
    case("ifname-absent", "NCCL_SOCKET_IFNAME=eth0", "NCCL_SOCKET_IFNAME=ens", at=HOSTS),
    case("ifname-absent", "NCCL_SOCKET_IFNAME==ens1f", "NCCL_SOCKET_IFNAME=^docker", at=HOSTS),
    case("ifname-absent-exact", "GLOO_SOCKET_IFNAME=ens", "GLOO_SOCKET_IFNAME=ens1f0", at=HOSTS),
    case("ifname-sign", "GLOO_SOCKET_IFNAME=^docker", "GLOO_SOCKET_IFNAME=ens1f0"),
    case("ifname-eth0", "NCCL_SOCKET_IFNAME=eth0", "NCCL_SOCKET_IFNAME=eth"),
    elsewhere("ifname-eth0", "NCCL_SOCKET_IFNAME=eth0", ANYWHERE, LintFacts(interfaces=("eth0",))),
    case("ifname-lo", "NCCL_SOCKET_IFNAME=lo", "NCCL_SOCKET_IFNAME=local0", at=MANY_NODES),
    elsewhere("ifname-lo", "NCCL_SOCKET_IFNAME=lo", MANY_NODES, ONE_NODE),
    case("ifname-virtual", "NCCL_SOCKET_IFNAME=docker0", "NCCL_SOCKET_IFNAME=^docker0"),
    case("socket-family", "NCCL_SOCKET_FAMILY=IPv4", "NCCL_SOCKET_FAMILY=AF_INET"),
    case("socket-family", "NCCL_SOCKET_FAMILY=af_inet6", "NCCL_SOCKET_FAMILY=AF_INET6"),
    case("socket-count", "NCCL_SOCKET_NTHREADS=32", "NCCL_SOCKET_NTHREADS=16"),
    case("socket-count", "NCCL_SOCKET_NTHREADS=16 NCCL_NSOCKS_PERTHREAD=8",
         "NCCL_SOCKET_NTHREADS=8 NCCL_NSOCKS_PERTHREAD=8"),
    elsewhere("socket-idle", "NCCL_SOCKET_NTHREADS=4", EFA),
    case("socket-idle-ib", "NCCL_NET=IB NCCL_NSOCKS_PERTHREAD=4",
         "NCCL_NET=Socket NCCL_NSOCKS_PERTHREAD=4"),
)  # fmt: skip

EFA_CASES: Final = (
    case("efa-fork-safe", "FI_EFA_FORK_SAFE=1", "FI_EFA_TX_SIZE=1"),
    case("efa-rdmav-fork", "RDMAV_FORK_SAFE=1", "RDMAV_FORK_SAFE=0", at=EFA),
    case("efa-rdmav-fork", "RDMAV_FORK_SAFE=1 FI_PROVIDER=efa", "RDMAV_FORK_SAFE=1 NCCL_NET=IB"),
    case("efa-device-rdma", "FI_EFA_USE_DEVICE_RDMA=1", "FI_EFA_USE_DEVICE_RDMA=0"),
    case("efa-device-rdma-off", "FI_EFA_USE_DEVICE_RDMA=0", "FI_EFA_USE_DEVICE_RDMA=1"),
    case("efa-shm", "FI_EFA_ENABLE_SHM_TRANSFER=1", "FI_EFA_TX_SIZE=1"),
    case("efa-provider", "FI_PROVIDER=efa", "FI_PROVIDER=cxi"),
    case("fi-provider-tcp", "FI_PROVIDER=tcp", "FI_PROVIDER=cxi"),
    elsewhere("fi-provider-tcp", "FI_PROVIDER='tcp;ofi_rxm'", MANY_NODES, ONE_NODE),
    case("efa-huge-page", "FI_EFA_USE_HUGE_PAGE=0", "FI_EFA_USE_HUGE_PAGE=1"),
    elsewhere("efa-proto", "NCCL_PROTO=simple", EFA),
    case("efa-proto", "NCCL_PROTO=simple", "NCCL_PROTO=^LL", at=EFA),
    elsewhere("efa-channels", "NCCL_MIN_NCHANNELS=16", EFA),
    elsewhere("efa-buffsize", "NCCL_BUFFSIZE=2097152", EFA),
    case("fi-memhooks", "FI_MR_CACHE_MONITOR=memhooks", "FI_MR_CACHE_MONITOR=kdreg2"),
    elsewhere("ofi-net-without-plugin", "NCCL_NET='AWS Libfabric'", NO_PLUGIN, EFA),
    case("ofi-net-without-plugin", "NCCL_NET='AWS Libfabric'", "NCCL_NET=IB", at=NO_PLUGIN),
)  # fmt: skip

LAUNCH_CASES: Final = (
    script("gpus-per-task", "#SBATCH --gpus-per-task=1 --ntasks-per-node=4\nsrun a\n",
           "#SBATCH --gpus-per-task=1 --ntasks-per-node=1\nsrun a\n"),
    script("gpus-per-task", "#SBATCH -N 4 -n 32 --gpus-per-task=1\nsrun a\n",
           "#SBATCH -N 4 -n 4 --gpus-per-task=8\nsrun torchrun a\n"),
    script("gpus-per-task", "srun -n 8 --gpus-per-task=1 a\n",
           "srun -n 8 --gpus-per-task=1 --gpu-bind=none a\n"),
    script("gpus-per-task", "srun -G 8 --gpus-per-task=1 a\n", "srun --gpus-per-task=1 a\n"),
    script("gpus-per-task", "srun --ntasks-per-gpu 1 a\n", "srun --gpus-per-node 1 a\n"),
    script("tres-per-task", "srun -n 8 --tres-per-task=gres/gpu:1 a\n",
           "srun -n 8 --tres-per-task=cpu:1 a\n"),
    script("tres-per-task", "srun --tres-per-task=gres/gpu:1 -n 8 a\n",
           "srun --tres-per-task=gres/gpu:1 -n 1 a\n"),
    script("gpu-bind-single", "srun --gpu-bind=single:1 -n 8 a\n",
           "srun --gpu-bind=single:1 -n 1 a\n"),
    script("tres-bind-single", "srun --tres-bind=gres/gpu:single:1 -n 8 a\n",
           "srun --tres-bind=gres/gpu:single:1 -n 1 a\n"),
    script("gpu-bind-single", "srun -n 8 --gpu-bind=single:1 a\n",
           "srun -n 8 --gpu-bind=none a\n"),
    script("tres-bind-single", "srun -n 8 --tres-bind=gres/gpu:single:1 a\n",
           "srun -n 8 --tres-bind=gres/gpu:none a\n"),
    script("export-without-all", "export NCCL_DEBUG=WARN\nsrun --export=A=1 a\n",
           "export NCCL_DEBUG=WARN\nsrun --export=ALL,A=1 a\n"),
    script("export-without-all", "export NCCL_DEBUG=WARN\nsrun --export=NONE a\n",
           "export NCCL_DEBUG=WARN\nsrun --export=NCCL_DEBUG,PATH a\n"),
    script("option-cut", "mpirun -np 8 \\ \n -x NCCL_NET=IB a\n",
           "mpirun -np 8 \\\n -x NCCL_NET=IB a\n"),
    script("option-cut", "srun \\\n # why\n --export=ALL,NCCL_NET=IB a\n",
           "srun \\\n --export=ALL,NCCL_NET=IB a\n # why\n"),
    script("set-twice", "export NCCL_NET=IB\nexport NCCL_NET=Socket\nsrun a\n",
           "export NCCL_NET=IB\nsrun a\nexport NCCL_NET=Socket\nsrun a\n"),
    script("set-twice", "export UCX_TLS=rc UCX_TLS=all\n", "export UCX_TLS=all UCX_TLS=all\n"),
    Case(rule="set-twice", name=CONF, fires="NCCL_NET=IB\nNCCL_NET=Socket\n",
         misses="NCCL_NET=IB\nNCCL_NET=IB\n"),
    script("export-comma", "srun --export=ALL,NCCL_IB_HCA=mlx5_0,mlx5_2 a\n",
           "srun --export=ALL,NCCL_IB_HCA=mlx5_0,PATH a\n"),
    script("not-exported", "NCCL_IB_TC=41\nsrun a\n", "NCCL_IB_TC=41\nexport NCCL_IB_TC\nsrun a\n"),
    script("not-exported", "UCX_TLS=all\nsrun a\n", "UCX_TLS=all srun a\n"),
    script("not-exported", "NCCL_IB_TC=4\nmpirun a\n", "NCCL_IB_TC=4\nmpirun -x NCCL_IB_TC=4 a\n"),
    script("not-exported", "NCCL_NET=IB\nsrun a\n", "NCCL_TESTS=/opt/tests\nsrun a\n"),
    script("visible-fixed", "export CUDA_VISIBLE_DEVICES=0,1\n",
           "export CUDA_VISIBLE_DEVICES=$SLURM_LOCALID\n"),
    Case(rule="visible-fixed", fires="CUDA_VISIBLE_DEVICES=0 srun a\n", name=SCRIPT,
         misses="unset CUDA_VISIBLE_DEVICES\n"),
    Case(rule="visible-fixed", name=SCRIPT, fires="export CUDA_VISIBLE_DEVICES=0,1\n",
         misses="HOME=/h\nCUDA_VISIBLE_DEVICES=0,1\n", miss_name=DUMP),
    case("master-local", "MASTER_ADDR=localhost", "MASTER_ADDR=node1", at=MANY_NODES),
    script("visible-twice", "export ROCR_VISIBLE_DEVICES=$A HIP_VISIBLE_DEVICES=$B\n",
           "export HIP_VISIBLE_DEVICES=$B\n"),
    Case(rule="cpu-bind-leak", name=DUMP, fires="HOME=/h\nSLURM_CPU_BIND=mask_cpu:0xf\n",
         misses="export SLURM_CPU_BIND=mask_cpu:0xf\nsrun a\n", miss_name=SCRIPT),
    Case(rule="cpu-bind-leak", name=DUMP, fires="HOME=/h\nSLURM_CPU_BIND=quiet,mask_cpu:0xf\n",
         misses="HOME=/h\nSLURM_CPU_BIND=quiet,\n"),
    Case(rule="hostfile-leak", name=DUMP, fires="HOME=/h\nSLURM_HOSTFILE=./hosts\n",
         misses="export SLURM_HOSTFILE=./hosts\nsrun -m arbitrary a\n", miss_name=SCRIPT),
    case("port-fixed", "MASTER_PORT=29500", "MASTER_PORT=$((61000 + SLURM_JOB_ID % 4536))"),
    script("port-fixed", "#SBATCH --gres=gpu:2\nexport MASTER_PORT=29500\n",
           "#SBATCH --gres=gpu:a100:8\nexport MASTER_PORT=29500\n"),
    script("port-fixed", "#SBATCH -N 2\nexport MASTER_PORT=29500\nsrun --exclusive a\n",
           "#SBATCH -N 2 --exclusive\nexport MASTER_PORT=29500\nsrun a\n"),
    script("visible-fixed", "export CUDA_VISIBLE_DEVICES=0,1,2,4\n",
           "export CUDA_VISIBLE_DEVICES=3,2,1,0\n"),
    script("visible-fixed", "CUDA_VISIBLE_DEVICES=2,3 a\n",
           "export CUDA_MPS_PIPE_DIRECTORY=/tmp/mps\nCUDA_VISIBLE_DEVICES=2,3 a\n"),
    case("port-ephemeral", "MASTER_PORT=60999", "MASTER_PORT=61000"),
    elsewhere("master-local", "MASTER_ADDR=localhost", MANY_NODES, ONE_NODE),
    script("master-local", "#SBATCH -N 2\nexport MASTER_ADDR=127.0.0.1\n",
           "#SBATCH -N 1\nexport MASTER_ADDR=127.0.0.1\n"),
    case("torch-renamed", "NCCL_ASYNC_ERROR_HANDLING=1", "TORCH_NCCL_ASYNC_ERROR_HANDLING=1"),
    case("blocking-left", "CUDA_LAUNCH_BLOCKING=1", "CUDA_LAUNCH_BLOCKING=0"),
    case("torch-debug-left", "TORCH_DISTRIBUTED_DEBUG=DETAIL", "TORCH_DISTRIBUTED_DEBUG=INFO"),
)  # fmt: skip

RCCL_CASES: Final = (
    Case(rule="rccl-on-nvidia", fires="export RCCL_MSCCL_ENABLE=1\n", library=CommLibrary.NCCL,
         misses="export RCCL_MSCCL_ENABLE=1\n", miss_library=CommLibrary.RCCL),
    Case(rule="nvlink-on-amd", fires="export NCCL_NVLS_ENABLE=2\n", library=CommLibrary.RCCL,
         misses="export NCCL_NVLS_ENABLE=2\n", miss_library=CommLibrary.NCCL),
    case("hsa-fine-grain", "HSA_FORCE_FINE_GRAIN_PCIE=1", "HSA_XNACK=0"),
    case("hsa-sdma-off", "HSA_ENABLE_SDMA=0", "HSA_ENABLE_SDMA=1"),
)  # fmt: skip

MPI_CASES: Final = (
    Case(rule="ucx-no-gpu", fires="export UCX_TLS=rc,sm,self\n", library=CommLibrary.NCCL,
         misses="export UCX_TLS=rc,sm,self,cuda_copy\n"),
    Case(rule="ucx-no-gpu", fires="export UCX_TLS=rc,cuda\n", library=CommLibrary.RCCL,
         misses="export UCX_TLS=all\n"),
    case("ucx-tcp", "UCX_TLS=tcp,self,sm", "UCX_TLS=rc,tcp,self,sm"),
    elsewhere("ucx-tcp", "UCX_TLS=tcp,self,cuda", MANY_NODES, ONE_NODE),
    case("ucx-device-absent", "UCX_NET_DEVICES=mlx5_9:1", "UCX_NET_DEVICES=mlx5_9:1,ens1f0",
         at=DEVICES),
    case("ucx-device-port", "UCX_NET_DEVICES=mlx5_0", "UCX_NET_DEVICES=mlx5_0:1"),
    case("ucx-log", "UCX_LOG_LEVEL=debug", "UCX_LOG_LEVEL=warn"),
    case("ompi-openib", "OMPI_MCA_btl=openib,self", "OMPI_MCA_btl=^openib"),
    case("ompi-openib-option", "OMPI_MCA_btl_openib_allow_ib=1", "OMPI_MCA_btl_tcp_links=1"),
    script("ompi-vader", "mpirun --mca btl vader,self -np 4 a\n", "mpirun --mca btl sm,self a\n"),
    elsewhere("ompi-ob1", "OMPI_MCA_pml=ob1", ANYWHERE, ONE_NODE),
    case("ompi-ob1", "OMPI_MCA_pml=ob1", "OMPI_MCA_pml=ucx"),
    case("ompi-interface-absent", "OMPI_MCA_btl_tcp_if_include=eth0",
         "OMPI_MCA_btl_tcp_if_include=10.0.0.0/8", at=HOSTS),
    case("impi-fabrics", "I_MPI_FABRICS=shm:dapl", "I_MPI_FABRICS=shm:ofi"),
    case("mpich-gpu-old", "MPICH_RDMA_ENABLED_CUDA=1", "MPICH_GPU_SUPPORT_ENABLED=1"),
)  # fmt: skip

RELEASE_CASES: Final = (
    dated("nccl-gone", "NCCL_TREE_THRESHOLD=0", "2.27.3", "2.4.8"),
    dated("nccl-gone", "NCCL_WORK_FIFO_DEPTH=1048576", "2.22.3", "2.21.5"),
    dated("nccl-too-new", "NCCL_IB_SUBNET_AWARE_ROUTING=1", "2.27.3", "2.30.7"),
    dated("nccl-too-new", "NCCL_IB_SUBNET_AWARE_ROUTING=1", "2.30.4", "2.30"),
    case("nccl-misspelt", "NCCL_SOCKET_IFNAMES=ens", "NCCL_FASTRAK_IFNAME=ens"),
    case("nccl-misspelt", "NCLC_DEBUG=WARN", "NCCL_VERSION=2.27.3"),
    dated("nccl-default", "NCCL_IB_TIMEOUT=20", "2.23.4", "2.22.3"),
    dated("nccl-default", "NCCL_GRAPH_REGISTER=0", "2.18.5", "2.19.3"),
    case("nccl-default", "NCCL_CROSS_NIC=2", "NCCL_CROSS_NIC=3"),
    dated("nccl-default", "NCCL_CHECK_POINTERS=0", "2.29.3", "2.29.7"),
)  # fmt: skip

DERIVED_CASES: Final = (
    elsewhere("unlike-derived", "NCCL_NET_GDR_LEVEL=SYS", DERIVED),
    case("unlike-derived", "NCCL_NET_GDR_LEVEL=SYS", "NCCL_NET_GDR_LEVEL=PHB", at=DERIVED),
    case("unlike-derived", "NCCL_NET_GDR_LEVEL=4", "NCCL_NET_GDR_LEVEL=3", at=DERIVED),
)

CASES: Final = (
    *NCCL_CASES, *TRANSPORT_CASES, *IB_CASES, *SOCKET_CASES, *EFA_CASES, *LAUNCH_CASES,
    *RCCL_CASES, *MPI_CASES, *RELEASE_CASES, *DERIVED_CASES,
)  # fmt: skip
