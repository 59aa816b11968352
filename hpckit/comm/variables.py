"""The variables that NCCL reads: since and until which release, and their defaults.

Source: the calls of NCCL_PARAM, DEFINE_NCCL_PARAM, getenv and ncclGetEnv under src/ of the 62
releases of github.com/NVIDIA/nccl from 2.3.5 to 2.30.7, read release by release (2026-06). A row
of 2.3 may be older; NCCL_SINGLE_RING_THRESHOLD is known from the user guide (env.rst) alone.
A default that NCCL computes from the machine is None, and so is one that is no number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from hpckit.core.values import dataclass

NCCL_SOURCE: Final = "NCCL source, releases 2.3.5 to 2.30.7"
NCCL_DATE: Final = "2026-06"


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclVariable:
    """One variable; `until` is the first release that no longer reads it, None where 2.30.7 does.

    `defaults` are (release, value from it on), in the order of the releases. `is_number` says that
    NCCL reads it with strtoll: of a word it takes 0.
    """

    name: str
    since: str
    until: str | None = None
    is_number: bool = True
    defaults: tuple[tuple[str, int | None], ...] = ()


class _Gone(NamedTuple):
    """A variable that is no longer read from a release on."""

    until: str
    value: _Value = ()


_TEXT: Final = "text"
_Default = int | tuple[str, int | None] | None
_Value = int | str | tuple[_Default, ...]


def _since(release: str, **variables: _Value | _Gone) -> Iterator[NcclVariable]:
    """Yield the variables that came with a release: text, or a number with its defaults.

    A default without a release is that of the first one; () is a number without one.
    """
    for name, said in variables.items():
        value = said.value if isinstance(said, _Gone) else said
        defaults = value if isinstance(value, tuple) else () if isinstance(value, str) else (value,)
        yield NcclVariable(
            name=name,
            since=release,
            until=said.until if isinstance(said, _Gone) else None,
            is_number=not isinstance(value, str),
            defaults=tuple(
                each if isinstance(each, tuple) else (release, each) for each in defaults
            ),
        )


NCCL_VARIABLES: Final = tuple(
    sorted((
        *_since("2.1", NCCL_SINGLE_RING_THRESHOLD=_Gone("2.3")),
        *_since("2.3", NCCL_BUFFSIZE=4194304, NCCL_CHECK_POINTERS=0, NCCL_COMM_ID=_TEXT,
                NCCL_DEBUG=_TEXT, NCCL_DEBUG_FILE=_TEXT, NCCL_DEBUG_SUBSYS=_TEXT,
                NCCL_GDR_FLUSH_DISABLE=0, NCCL_IB_CUDA_SUPPORT=_Gone("2.4"), NCCL_IB_DISABLE=0,
                NCCL_IB_GDR_LEVEL=_Gone("2.4"), NCCL_IB_GID_INDEX=(0, ("2.21", -1)),
                NCCL_IB_HCA=_TEXT, NCCL_IB_RETRY_CNT=7, NCCL_IB_SL=(0, ("2.26", -1)),
                NCCL_IB_TC=(0, ("2.26", -1)), NCCL_IB_TIMEOUT=(14, ("2.14", 18), ("2.23", 20)),
                NCCL_LAUNCH_MODE=_TEXT, NCCL_LL_THRESHOLD=_Gone("2.5"),
                NCCL_MAX_NRINGS=(0, ("2.5", None)), NCCL_MIN_NRINGS=(0, ("2.4.7", None)),
                NCCL_NET_GDR_READ=(), NCCL_NTHREADS=(), NCCL_P2P_DISABLE=0, NCCL_P2P_LEVEL=_TEXT,
                NCCL_RINGS=_Gone("2.5", _TEXT), NCCL_SHM_DISABLE=0, NCCL_SOCKET_FAMILY=_TEXT,
                NCCL_SOCKET_IFNAME=_TEXT, NCCL_THREAD_THRESHOLD=_Gone("2.5")),
        *_since("2.4", NCCL_NET_GDR_LEVEL=_TEXT, NCCL_TREE_THRESHOLD=_Gone("2.5")),
        *_since("2.4.6", NCCL_IGNORE_CPU_AFFINITY=0),
        *_since("2.4.8", NCCL_NSOCKS_PERTHREAD=(), NCCL_SOCKET_NTHREADS=()),
        *_since("2.5", NCCL_ALGO=_TEXT, NCCL_CROSS_NIC=2, NCCL_GRAPH=_Gone("2.6", _TEXT),
                NCCL_HOSTID=_TEXT, NCCL_LL128_NTHREADS=(), NCCL_MAX_NCHANNELS=(),
                NCCL_MIN_NCHANNELS=(), NCCL_PROTO=_TEXT, NCCL_THREAD_THRESHOLDS=_TEXT),
        *_since("2.6", NCCL_COLLNET_ENABLE=0, NCCL_GRAPH_DUMP_FILE=_TEXT,
                NCCL_GRAPH_DUMP_FILE_RANK=0, NCCL_GRAPH_FILE=_TEXT,
                NCCL_IB_AR_THRESHOLD=(8192, ("2.30", None)), NCCL_TOPO_DUMP_FILE=_TEXT,
                NCCL_TOPO_DUMP_FILE_RANK=0, NCCL_TOPO_FILE=_TEXT),
        *_since("2.7", NCCL_LL128_BUFFSIZE=(), NCCL_LL_BUFFSIZE=(), NCCL_MAX_P2P_NCHANNELS=(),
                NCCL_MIN_P2P_NCHANNELS=1, NCCL_P2P_READ_ENABLE=()),
        *_since("2.8", NCCL_IB_PKEY=0, NCCL_IB_USE_INLINE=0, NCCL_NET_SHARED_BUFFERS=(),
                NCCL_SHARED_BUFF_COUNT=_Gone("2.9")),
        *_since("2.9", NCCL_GDRCOPY_ENABLE=0, NCCL_GDRCOPY_FIFO_ENABLE=1,
                NCCL_GDRCOPY_FLUSH_ENABLE=0, NCCL_GDRCOPY_TAIL_ENABLE=_Gone("2.12", 1),
                NCCL_SET_STACK_SIZE=0),
        *_since("2.9.9", NCCL_COLLNET_NODE_THRESHOLD=2, NCCL_NVB_DISABLE=0, NCCL_NVB_PRECONNECT=1),
        *_since("2.10", NCCL_AGG_ALLOC_MODE=_Gone("2.13", _TEXT),
                NCCL_AGG_CHANNEL_SIZE=_Gone("2.20"), NCCL_IB_QPS_PER_CONNECTION=1, NCCL_NET=_TEXT),
        *_since("2.11", NCCL_GRAPH_HELPER_DISABLE=0, NCCL_GRAPH_REGISTER=(0, ("2.19", 1)),
                NCCL_NET_PLUGIN=_TEXT),
        *_since("2.12", NCCL_CHUNK_SIZE=0, NCCL_GDRCOPY_SYNC_ENABLE=1,
                NCCL_IB_PCI_RELAXED_ORDERING=2, NCCL_IGNORE_DISABLED_P2P=0,
                NCCL_NCHANNELS_PER_NET_PEER=(2, ("2.20", -1), ("2.28", None)),
                NCCL_NET_DISABLE_INTRA=(("2.12.10", 0),), NCCL_NET_SHARED_COMMS=1,
                NCCL_P2P_PXN_LEVEL=2, NCCL_PROXY_PROFILE=_Gone("2.23", _TEXT), NCCL_PXN_DISABLE=0,
                NCCL_SET_THREAD_NAME=(0, ("2.30.7", None))),
        *_since("2.12.10", NCCL_L1_SHARED_MEMORY_CARVEOUT=0),
        *_since("2.12.12", NCCL_P2P_DIRECT_DISABLE=0),
        *_since("2.13", NCCL_CREATE_THREAD_CONTEXT=_Gone("2.30.7", 0),
                NCCL_CUDA_PATH=_Gone("2.21", _TEXT), NCCL_DMABUF_ENABLE=1,
                NCCL_GRAPH_MIXING_SUPPORT=(1, ("2.29", None)), NCCL_P2P_USE_CUDA_MEMCPY=0,
                NCCL_SHM_LOCALITY=(), NCCL_SHM_MEMCPY_MODE=_Gone("2.30.7"),
                NCCL_SHM_USE_CUDA_MEMCPY=_Gone("2.30.7", 0),
                NCCL_WORK_FIFO_DEPTH=_Gone("2.22", 65536)),
        *_since("2.14", NCCL_ALLOC_P2P_NET_LL_BUFFERS=(("2.16.5", 0),),
                NCCL_COMM_BLOCKING=(0, ("2.17", None)), NCCL_P2P_LL_THRESHOLD=16384,
                NCCL_P2P_NET_CHUNKSIZE=131072, NCCL_PROXY_DUMP_SIGNAL=-1),
        *_since("2.15", NCCL_CGA_CLUSTER_SIZE=(0, ("2.16", None)),
                NCCL_NET_FORCE_FLUSH=(1, ("2.19", 0))),
        *_since("2.16", NCCL_IB_ADAPTIVE_ROUTING=(), NCCL_MEM_SYNC_DOMAIN=(),
                NCCL_P2P_NVL_CHUNKSIZE=524288, NCCL_P2P_PCI_CHUNKSIZE=131072,
                NCCL_PROXY_APPEND_BATCH_SIZE=16),
        *_since("2.16.5", NCCL_PROGRESS_APPENDOP_FREQ=8),
        *_since("2.17", NCCL_MAX_CTAS=(), NCCL_MIN_CTAS=(), NCCL_NVLS_ENABLE=(1, ("2.18", 2)),
                NCCL_NVLS_NCHANNELS=(16, ("2.25", None))),
        *_since("2.18", NCCL_COMM_SPLIT_SHARE_RESOURCES=(), NCCL_CUMEM_ENABLE=(0, ("2.19", None)),
                NCCL_IB_MERGE_VFS=1, NCCL_IB_SPLIT_DATA_ON_QPS=(1, ("2.20", 0)),
                NCCL_NET_OVERHEAD=()),
        *_since("2.19", NCCL_LOCAL_REGISTER=1, NCCL_TUNER_PLUGIN=_TEXT),
        *_since("2.19.4", NCCL_CONNECT_ROUND_MAX_PEERS=128, NCCL_REPORT_CONNECT_PROGRESS=0,
                NCCL_WARN_ENABLE_DEBUG_INFO=(0, ("2.22", None))),
        *_since("2.20", NCCL_IB_MERGE_NICS=1, NCCL_MNNVL=_Gone("2.21"),
                NCCL_NVLSTREE_MAX_CHUNKSIZE=()),
        *_since("2.21", NCCL_IB_ADDR_FAMILY=_TEXT, NCCL_IB_ADDR_RANGE=_TEXT,
                NCCL_IB_ROCE_VERSION_NUM=2, NCCL_MNNVL_ENABLE=2, NCCL_NVLS_CHUNKSIZE=131072),
        *_since("2.22", NCCL_IB_FIFO_TC=(0, ("2.24", -1)), NCCL_IB_ROUTABLE_FLID_GID_INDEX=1,
                NCCL_RUNTIME_CONNECT=1, NCCL_UNPACK_DOUBLE_NCHANNELS=1, NCCL_WORK_ARGS_BYTES=(),
                NCCL_WORK_FIFO_BYTES=(("2.26.5", -1), ("2.27", None))),
        *_since("2.23", NCCL_CONF_FILE=_TEXT, NCCL_CUMEM_HOST_ENABLE=(0, ("2.24", -1)),
                NCCL_IB_ECE_ENABLE=1, NCCL_IB_RETURN_ASYNC_EVENTS=1, NCCL_MNNVL_CLIQUE_ID=-1,
                NCCL_OOB_NET_ENABLE=0, NCCL_OOB_NET_IFNAME=_TEXT, NCCL_PAT_ENABLE=2,
                NCCL_PROFILER_PLUGIN=_TEXT, NCCL_UID_STAGGER_RATE=7000,
                NCCL_UID_STAGGER_THRESHOLD=256),
        *_since("2.24", NCCL_IB_MQP_RETRY_ALL=0, NCCL_IB_MQP_RETRY_CNT=34,
                NCCL_IB_MQP_RETRY_SLEEP_MSEC=100, NCCL_IB_WARN_RAIL_LOCAL=0,
                NCCL_LEGACY_CUDA_REGISTER=0, NCCL_NET_FORCE_MERGE=_TEXT, NCCL_NET_MERGE_LEVEL=_TEXT,
                NCCL_NET_OPTIONAL_RECV_COMPLETION=1, NCCL_RAS_ADDR=_TEXT, NCCL_RAS_ENABLE=1,
                NCCL_RAS_TIMEOUT_FACTOR=1, NCCL_SOCKET_RETRY_CNT=34,
                NCCL_SOCKET_RETRY_SLEEP_MSEC=100),
        *_since("2.25", NCCL_MNNVL_UUID=-1),
        *_since("2.26", NCCL_DEBUG_TIMESTAMP_FORMAT=_TEXT, NCCL_DEBUG_TIMESTAMP_LEVELS=_TEXT,
                NCCL_LAUNCH_ORDER_IMPLICIT=0, NCCL_LAUNCH_RACE_FATAL=1,
                NCCL_NET_GDR_C2C=(0, ("2.27", 1)), NCCL_NET_PLUGIN_REF_COUNT=(1, ("2.28", 0))),
        *_since("2.27", NCCL_COMM_SHRINK_SHARE_RESOURCES=(), NCCL_CTA_POLICY=_TEXT,
                NCCL_IB_DATA_DIRECT=1, NCCL_LL128_C2C=1,
                NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE=(0, ("2.28.7", None)),
                NCCL_PXN_C2C=(0, ("2.28", 1)), NCCL_SOCKET_INLINE=128,
                NCCL_SOCKET_MIN_TASKSIZE=65536, NCCL_SOCKET_RCVBUF=-1, NCCL_SOCKET_SNDBUF=-1,
                NCCL_SYM_CTAS=0, NCCL_SYM_KERNEL=_TEXT, NCCL_WIN_ENABLE=1, NCCL_WIN_STRIDE=-1),
        *_since("2.27.5", NCCL_MNNVL_SCATTER_NETS_ENABLE=1),
        *_since("2.28", NCCL_NETDEVS_POLICY=_TEXT, NCCL_NVTX_DISABLE=0, NCCL_PROXY_CPUSET=_TEXT,
                NCCL_SET_CPU_STACK_SIZE=1, NCCL_SINGLE_PROC_MEM_REG_ENABLE=0),
        *_since("2.28.7", NCCL_ENV_PLUGIN=_TEXT,
                NCCL_GIN_COUNTER_POOL_SIZE=_Gone("2.30", (65536, ("2.29.7", 524288))),
                NCCL_GIN_ENABLE=1, NCCL_GIN_ERROR_QUERY_SEC=10, NCCL_GIN_GDAKI_NIC_HANDLER=0,
                NCCL_GIN_GDAKI_QP_DEPTH=128, NCCL_GIN_NCONTEXTS=_Gone("2.30", (("2.29.7", -1),)),
                NCCL_GIN_PROXY_QUEUE_SIZE=-1,
                NCCL_GIN_SIGNAL_POOL_SIZE=_Gone("2.30", (65536, ("2.29.7", 524288))),
                NCCL_GIN_TYPE=-1, NCCL_MNNVL_RAIL_PER_HOST=0, NCCL_P2P_SCHEDULE_GROUP_SIZE=()),
        *_since("2.29", NCCL_ALLGATHERV_ENABLE=1, NCCL_ENABLE_VERSION_CHECK=1,
                NCCL_IPC_USE_ABSTRACT_SOCKET=1, NCCL_MULTI_SEGMENT_REGISTER=1, NCCL_NUM_RMA_CTX=(),
                NCCL_P2P_EPOCH_ENABLE=1, NCCL_P2P_PER_CHANNEL_NET_BW=14,
                NCCL_RMA_PROXY_DUMP_SIGNAL=-1, NCCL_RMA_PROXY_QUEUE_SIZE=-1,
                NCCL_SOCKET_POLL_TIMEOUT_MSEC=0, NCCL_SYM_CE_THRESHOLD=8388608,
                NCCL_SYM_NOWIN_ENABLE=0),
        *_since("2.29.7", NCCL_CHECK_MODE=_TEXT, NCCL_DISABLE_MEM_MANAGER=0,
                NCCL_GDAKI_USE_RELIABLE_DB=0, NCCL_GIN_EXCLUSIVE_CONTEXTS=_Gone("2.30", -1),
                NCCL_GIN_NCONNECTIONS=(), NCCL_GIN_PLUGIN=_TEXT, NCCL_GIN_PLUGIN_REF_COUNT=0,
                NCCL_IB_DEVICE_PCI_ORDER=1,
                NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS=(0, ("2.30", None)),
                NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME=(0, ("2.30", None)),
                NCCL_IB_RESILIENCY_PORT_FAILOVER=0, NCCL_IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS=1,
                NCCL_IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY=10, NCCL_LSA_TEAM_SIZE=0,
                NCCL_NO_CACHE=_TEXT, NCCL_SYM_GIN_KERNELS_ENABLE=1),
        *_since("2.30", NCCL_ELASTIC_BUFFER_REGISTER=1, NCCL_GIN_GDAKI_MAX_DEST_RD_ATOMIC=(),
                NCCL_GIN_GDAKI_MAX_QP_RD_ATOMIC=(), NCCL_IBVERBS_LIB=_TEXT, NCCL_IB_OOO_RQ=0,
                NCCL_IB_RESILIENCY_PORT_RECOVERY=0,
                NCCL_IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT=5000,
                NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL=500,
                NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE=5,
                NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE=5,
                NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT=4000,
                NCCL_IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX=5,
                NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY=200, NCCL_IGNORE_COLLNET_MISMATCH=0,
                NCCL_IGNORE_NET_MISMATCH=1, NCCL_MNNVL_CROSS_CLIQUE=0, NCCL_MULTI_RANK_GPU_ENABLE=0,
                NCCL_P2P_MAX_PEERS=(), NCCL_PARAM_DUMP_ALL=_TEXT, NCCL_SYM_TMA_ENABLE=0),
        *_since("2.30.4", NCCL_SYM_REUSE_SYSMEM_HANDLES=0),
        *_since("2.30.7", NCCL_DEV_API_JIT=0, NCCL_GIN_CONNECTION_RAIL=_TEXT, NCCL_GIN_IB_TC=-1,
                NCCL_GRAPH_STREAM_ORDERING=(), NCCL_IB_QUERY_PORT_SPEED=1,
                NCCL_IB_SUBNET_AWARE_ROUTING=0, NCCL_IB_SUBNET_PREFIX_LEN=24,
                NCCL_MLOPART_RDMA_ENABLE=0, NCCL_NET_GDR_MLOPART=0, NCCL_NET_MERGE_POLICY=_TEXT,
                NCCL_RMA_DISABLE=0, NCCL_RMA_PLUGIN=_TEXT, NCCL_RMA_PLUGIN_REF_COUNT=0,
                NCCL_SHADOW_MEMPOOL_MAX_SIZE=1073741824, NCCL_SOCKET_MAGIC=_TEXT,
                NCCL_SYM_RS_GIN_CHUNK_SIZE=-1, NCCL_TOPO_SPLIT_MLOPART=1),
    ), key=lambda variable: variable.name)
)  # fmt: skip
"""Sorted by name."""
