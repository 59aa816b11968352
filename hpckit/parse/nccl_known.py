"""Lines of NCCL that are known and tell nothing of why a run is slow, by how they begin.

Source: the INFO calls of NCCL 2.18.5, 2.22.3, 2.25.1, 2.27.7 and 2.30.7, and of RCCL's INIT.
"""

from __future__ import annotations

import re
from typing import Final

_INIT: Final = (
    "cudaDriverVersion ",
    "Init timings",
    "CC On",
    "CC Off",
    "DMA-BUF is available on GPU device",
    "GDRCOPY enabled library",
    "Setting affinity for GPU",
    "threadThresholds ",
    "Trees ",
    "Tree ",
    "Ring ",
    "Connected all rings",
    "Connected all trees",
    "Connected binomial trees",
    "Connected NVLS tree",
    "Connected collnet",
    "Connected Collnet",
    "Collnet Chains",
    "Binding multicast memory",
    "Skipping bind multicast",
    "Check P2P Type",
    "P2P Chunksize set to",
    "Comm config ",
    "Communicator has ",
    "MNNVL ",
    "Local Net device counts",
    "Local CollNet device counts",
    "Local CollNet",
    "MemManager",
    "Cross-clique P2P",
    "LSA extended",
    "Symmetric ",
    "Init CE",
    "Socket handshake magic",
    "Loaded NVML",
    "Tuning P2P operations",
    "PXN Disabled as plugin",
    "Initialized NET plugin",
    "Assigned NET plugin",
    "Assigned GIN plugin",
    "Assigned RMA plugin",
    "Unloading plugin",
    "Disabling external plugins",
    "Using NCCL_NET_DEVICE_UNPACK",
    "bootstrapSplit",
    "RAS ",
    "Continuing in spite of a RAS",
    "ginForceEnable",
    "Max P2P Peers",
    "Profiler init failed",
    "Intrusive map",
    "ncclCommSuspend",
    "ncclCommResume",
    "ncclCommGrow",
    "Legacy IPC not supported",
    "ncclMaxSharedMem",
    "Profiler event mask",
    "External profiler",
    "Register ptr",
    "Cleanup buffer",
    "dlsym failed on",
    "dlvsym failed on",
    "ncclOsDl",
    "Failed to open libibverbs",
    "Failed to open libmlx5",
    "Stack size limit",
)
_NET: Final = (
    "NET/IB : Skipping makeVDevice",
    "NET/IB : Failed to open mlx5dv",
    "NET/IB : Local mergedDev",
    "NET/IB : There are mismatched",
    "NET/IB : Invalid NCCL_NET_FORCE_MERGE",
    "NET/IB: [",
    "NET/IB: Dev ",
    "NET/IB: IbDev ",
    "NET/IB: NCCL ",
    "NET/IB: nccl",
    "NET/IB: Data Direct DMA",
    "NET/IB: Ip address",
    "NET/IB: OOO RQ",
    "NET/IB: Subnet-aware routing",
    "NET/MLX5: Call to",
    "NET/Socket: Using ",
    "TOPO/NET : ",
    "Found network interface",
    "Detected a mix of single and multiple-port NICs",
    "Detected mixed local",
    "HINT: ",
    "Marking physical devices",
    "socketProgressOpt",
    "socketFinalizeAccept",
    "ncclOsSocketProgressOpt",
    "Net : Unsupported address family",
    "Could not get speed",
)
_PROXY: Final = (
    "New proxy ",
    "Connected to proxy",
    "Connection to proxy",
    "[Proxy ",
    "[Service thread]",
    "proxy listening",
    "Received and initiated operation",
    "Queuing opId",
    "UDS",
    "ProxyCall ",
    "ncclPollProxyResponse",
    "proxyProgressAsync",
    "proxyUDSRecvReq",
    "recvConnect",
    "sendConnect",
    "recvOpId",
    "resp.opId",
)
_MEMORY: Final = (
    "Allocated ",
    "Cuda Alloc",
    "Cuda Host Alloc",
    "CUMEM ",
    "MMAP ",
    "Mem Realloc",
    "MemRealloc",
    "Imported shareable",
    "Set Access for buffer",
    "Created shared memory",
    "SHM legacy",
    "IPC symmetric",
    "Inserted window",
    "fallocate: ",
    "mkstemp: ",
    "unlink shared memory",
    "Proxy rank",
)
_GRAPH: Final = (
    "=== System",
    "====",
    "Paths from ",
    "Search ",
    "Loading ",
    "Ignoring element",
    "Topology detection",
    "XML Parse",
    "KV Convert",
    "ncclTopo",
    "Initialized state",
    "Retrieving state",
    "Could not find a path for pattern",
    "Could not get device class",
    "Could not open XML topology file",
    "Unable to open ",
    "Failed to read refresh_switch",
    "latencyinter not found",
    "NVLink target",
    "No NVML device handle",
    "Disabling LL128",
    "CPUs with mixed",
    "CollNetDirect channel",
    "CollNet channel",
)
_TUNING: Final = (
    "Enabled NCCL Func/Proto/Algo Matrix",
    "Algorithm ",
    "Protocol ",
    "Max NThreads",
    "Latencies",
    "Bandwidths",
)
_SETTINGS: Final = (
    "PARAM: ",
    "ENV: ",
    "Warning: ENV ",
    "ENV/Plugin",
    "Successfully loaded external env",
    "NCCL_PROXY_CPUSET = ",
    "NCCL_NET_PLUGIN list contains",
    "NCCL_COMM_ID cannot be used",
    "NCCL_NUM_RMA_CTX=0",
    "NCCL_RMA_PLUGIN list contains",
    "NCCL_RMA_PROXY_QUEUE_SIZE is ",
    "NCCL_SOCKET_MAGIC invalid",
    "No valid CTA policies",
    "Parsed environment variable",
    "Unknown CTA policy",
    "Unable to recognize",
    "failed to decode NCCL_PROXY_CPUSET",
    "Invalid ",
    "User asked for a m",
)
_RCCL: Final = (
    "Kernel version",
    "Hipruntime version",
    "GFX9 cheap fence",
    "RCCL Unroll Factor",
    "[RINGS]",
    "[node_id = ",
    "pre-adjustment threadThreshold",
    "post-adjustment based on threadThreshold",
    "minNChannels:",
    "ROCr version",
    "Dmabuf feature",
    "HSA_FORCE_FINE_GRAIN_PCIE",
    "MSCCL",
    "mscclpp",
    "Hostname ",
    "initialized internal alternative rsmi",
    "rocm_smi_lib",
    "hipDeviceProp",
    "roctracer",
)

STARTS: Final[tuple[str, ...]] = (
    *_INIT, *_NET, *_PROXY, *_MEMORY, *_GRAPH, *_TUNING, *_SETTINGS, *_RCCL
)  # fmt: skip

_ROW: Final = re.compile(
    # A row of the tuning table; a ring or tree of a searched graph; a node, link or path of the
    # topology; a collective that was called; a setting out of its range; ranks and buffers.
    r"[A-Za-z]{4,20} \|(?:\s*[0-9.]{1,12}/\s*[0-9.]{1,12} \|){1,40}"
    r"|[0-9]{1,4} :.{0,2000}"
    r"|(?:CPU|GPU|PCI|NET|NIC|NVS|GIN|RMA)/[0-9A-F][0-9a-zA-Z-]{0,40} ?[(:].{0,4000}"
    r"|(?:CPU|GPU|PCI|NET|NIC|NVS|GIN|RMA)/[0-9A-F][0-9a-zA-Z-]{0,40}"
    r"|\+ [A-Z0-9]{2,6}\[[0-9.]{1,12}\] - .{0,400}"
    r"|[A-Z][A-Za-z]{2,20}: opCount .{0,400}"
    r"|[A-Z][A-Za-z]{2,20} \[(?:Symmetric|Copy Engine|Hierarchical CE)\]: .{0,200}"
    r"|NCCL_[A-Z0-9_]{2,40} (?:value )?-?[0-9]{1,9} is (?:too|not) .{0,100}"
    r"|[a-zA-Z]{4,20} -?[0-9]{1,9} is (?:larger than|not a valid value)\b.{0,100}"
    r"|[a-z0-9_/.]{1,80}:[0-9]{1,6} (?:Cuda|Ib|malloc|memory) .{0,200}"
    r"|[A-Za-z0-9_]{1,80}\(\) failed: .{0,200}|Call to .{0,80} (?:not supported|skipped).{0,100}"
    r"|NET/IB : \S{1,80} speed change detected: .{0,80}"
    r"|[A-Za-z]{2,30}: (?:group size used is|tuner chunk size) .{0,100}"
    r"|GPU [0-9]{1,4} / HCA [0-9a-f]{1,16} connected via C2C link"
    r"|[Rr]ank [0-9]{1,7} ?(?:-|:|Connected|has|base|failed|reuse|successfully) .{0,400}"
    r"|Peer [0-9]{1,7} Channel .{0,200}",
    re.ASCII,
)


def is_known(text: str) -> bool:
    """Whether a line is of a form that is known, though it tells nothing that is kept."""
    return text.startswith(STARTS) or _ROW.fullmatch(text) is not None
