"""Rules about NCCL itself: algorithms, protocols, channels, logs and numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hpckit.comm.lint_rule import (
    ENV_RST,
    Scene,
    Seen,
    Setting,
    SettingForm,
    error,
    note,
    warning,
)
from hpckit.comm.variables import NCCL_VARIABLES
from hpckit.core.hostlist import named
from hpckit.core.late import regex
from hpckit.spec.platform import CommLibrary, NetPlugin

_NUMBERS: Final = frozenset(one.name for one in NCCL_VARIABLES if one.is_number)
_INTEGER: Final = regex(r"[+-]?(0x[0-9a-f]+|\d+)", re.IGNORECASE | re.ASCII)
_CROSSED: Final = {
    "NCCL_MIN_NCHANNELS": "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_CTAS": "NCCL_MAX_CTAS",
    "NCCL_MIN_P2P_NCHANNELS": "NCCL_MAX_P2P_NCHANNELS",
    "NCCL_MIN_NRINGS": "NCCL_MAX_NRINGS",
}
_LISTS: Final = (
    "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME", "NCCL_ALGO", "NCCL_PROTO",
    "NCCL_DEBUG_SUBSYS",
)  # fmt: skip
_DEBUGGING: Final = "set it only for the run that you debug"
_TUNING: Final = "remove it: NCCL chooses by size and machine; keep it only if measured faster"


def whole_number(value: str | None) -> int | None:
    """What NCCL takes a value for, None where it is no whole number or not known."""
    if value is None or not _INTEGER.fullmatch(value.strip()) or len(value) > 20:  # noqa: PLR2004
        return None
    text = value.strip().lower()
    sign = -1 if text.startswith("-") else 1
    text = text.lstrip("+-")
    if text.startswith("0x"):
        return sign * int(text, 16)
    is_octal = text.startswith("0") and len(text) > 1
    return sign * int(text, 8) if is_octal and set(text) <= set("01234567") else sign * int(text)


def _not_a_number(one: Setting, _: Scene) -> str | None:
    """What strtoll makes of a word, or of a number with a unit."""
    if one.name not in _NUMBERS or not one.value or _INTEGER.fullmatch(one.value.strip()):
        return None
    leading = _INTEGER.match(one.value.strip())
    return leading[0] if leading else "0"


def _crossed(one: Setting, scene: Scene) -> str | None:
    least = whole_number(one.value) or 0
    others = scene.beside(one, _CROSSED[one.name])
    return next((o.text for o in others if 0 < (whole_number(o.value) or 0) < least), None)


def _lacks_ring(one: Setting, _: Scene) -> bool:
    """Whether the list for all functions leaves Ring out; those for one function may."""
    first = (one.value or "").strip().lower().split(";", 1)[0]
    names = {name.strip() for name in first.removeprefix("^").split(",")}
    is_for_all = bool(first) and ":" not in first
    return is_for_all and ("ring" in names) is first.startswith("^")


def _one_file(one: Setting, scene: Scene) -> str | None:
    """What would tell processes and hosts apart, and is not in the name of a log file."""
    marks = ("%p",) if scene.nodes == 1 else ("%h", "%p")
    if not one.value or one.value.startswith("/dev/"):
        return None
    return " and ".join(mark for mark in marks if mark not in one.value)


def _no_info(one: Setting, scene: Scene) -> bool:
    levels = [other.value for other in scene.beside(one, "NCCL_DEBUG")]
    return not any(level is None or level.strip().upper() in ("INFO", "TRACE") for level in levels)


def _bad_threads(one: Setting, _: Scene) -> bool:
    threads = whole_number(one.value) or 0
    return threads > 0 and threads not in range(64, 513, 32)


def _odd_name(one: Setting, _: Scene) -> bool:
    return one.value is not None and not re.fullmatch(r"\w+", one.name, re.ASCII)


NCCL_RULES: Final = (
    error("nccl-not-a-number", "NCCL_*", when=_not_a_number, is_mistake=True,
          because="NCCL expects a number here and reads `{value}` as {seen}",
          remedy="write a number without a unit: 1 for true, 4194304 for 4M",
          source="NCCL src/misc/param.cc (strtoll)"),
    error("nccl-list-blank", _LISTS, value=r".*,\s+\S.*", is_mistake=True,
          because="the space after a comma becomes part of the next name, which then matches"
          " nothing", remedy="remove the spaces from the list",
          source="NCCL src/misc/utils.cc (parseStringList)"),
    error("nccl-algo-without-ring", "NCCL_ALGO", when=_lacks_ring, since="2.24",
          because="collectives with none of these algorithms fail, such as Broadcast without Ring:"
          " NCCL no longer falls back to Ring",
          remedy="remove it, or name the function: NCCL_ALGO=allreduce:tree",
          source=f"{ENV_RST}; NCCL src/enqueue.cc"),
    warning("nccl-algo-without-ring-early", "NCCL_ALGO", before="2.24",
            when=lambda one, scene: scene.nccl is not None and _lacks_ring(one, scene),
            because="forces it for all sizes and collectives; since 2.24 collectives without it"
            " fail", remedy=_TUNING),
    note("nccl-algo-forced", "NCCL_ALGO",
         when=lambda one, scene: (one.value or "").strip() and not _lacks_ring(one, scene),
         because="forces it for all sizes, instead of NCCL's choice by size and machine",
         remedy=_TUNING),
    note("nccl-proto-ll128", "NCCL_PROTO", value=r"(?!\^)[^;]*\bll128\b.*",
         because="allows LL128, which corrupts data on machines without atomic 128-byte stores;"
         " NCCL turns it on itself where it is safe",
         remedy="remove it; NCCL_PROTO=^LL128 turns it off"),
    note("nccl-proto-forced", "NCCL_PROTO", value=r"(?!\^)(?!.*ll128).+", is_fallback=True,
         because="forces one protocol for all sizes: small or large messages get slower",
         remedy=_TUNING),
    note("nccl-debug-trace", "NCCL_DEBUG", value="trace",
         because="TRACE writes a line per call and slows the job",
         remedy=f"NCCL_DEBUG=WARN; {_DEBUGGING}"),
    note("nccl-debug-info", "NCCL_DEBUG", value="info",
         because="each rank writes hundreds of lines at start, which at scale hide everything else",
         remedy=f"NCCL_DEBUG=WARN; {_DEBUGGING}"),
    warning("nccl-debug-word", "NCCL_DEBUG", value=r"(?!(version|warn|info|abort|trace|none)$).+",
            when=lambda _, scene: scene.library is not CommLibrary.RCCL,
            because="`{value}` is not a level, so NCCL logs nothing",
            remedy="NCCL_DEBUG=WARN", source="NCCL src/debug.cc"),
    warning("nccl-debug-file-shared", "NCCL_DEBUG_FILE", when=_one_file,
            because="without {seen} several processes write to the same file",
            remedy="NCCL_DEBUG_FILE=nccl.%h.%p.log"),
    note("nccl-debug-file-unused", "NCCL_DEBUG_FILE", without="NCCL_DEBUG",
         because="NCCL_DEBUG is not set, so nothing is written",
         remedy="remove it, or set NCCL_DEBUG=WARN"),
    note("nccl-debug-subsys-unused", "NCCL_DEBUG_SUBSYS", when=_no_info,
         because="no effect without NCCL_DEBUG=INFO, which is not set"),
    error("nccl-crossed", tuple(_CROSSED), when=_crossed,
          because="the minimum is above the maximum: {seen}", remedy="remove both"),
    note("nccl-nchannels", "NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS", since="2.17",
         because="deprecated, use NCCL_MIN_CTAS and NCCL_MAX_CTAS; more channels take SMs from"
         " compute kernels", remedy="remove it, or use the new name"),
    note("nccl-nrings", "NCCL_MIN_NRINGS NCCL_MAX_NRINGS", since="2.5",
         because="old name of NCCL_MIN_NCHANNELS and NCCL_MAX_NCHANNELS"),
    note("nccl-check-pointers-old", "NCCL_CHECK_POINTERS", since="2.29.7",
         because="deprecated, use NCCL_CHECK_MODE", source="NCCL source 2.29.7"),
    warning("nccl-check-pointers", "NCCL_CHECK_POINTERS", value="[1-9]",
            because="slows the job: every call checks its pointers first", remedy=_DEBUGGING),
    note("nccl-launch-mode", "NCCL_LAUNCH_MODE",
         because="deprecated; it matters only for processes with several GPUs"),
    warning("nccl-threads", "NCCL_NTHREADS", when=_bad_threads,
            because="a block has 64 to 512 threads, in steps of 32; NCCL does not use {value}",
            source="NCCL src/graph/tuning.cc (getNthreads)"),
    warning("nccl-net-mismatch", "NCCL_IGNORE_NET_MISMATCH", value="[1-9]", since="2.30",
            because="ranks with different numbers of network devices go on, and may hang silently;"
            " this is the default", remedy="NCCL_IGNORE_NET_MISMATCH=0, so that NCCL reports it",
            source="NCCL src/init.cc; nccl#2428"),
    note("nccl-ras-port", "NCCL_RAS_ADDR", value=r".*:\d+", since="2.24",
         because="a second job on the node finds the port taken and has no RAS",
         remedy="remove it where jobs share nodes, or give each job its own port"),
    note("nccl-dump-left", "NCCL_TOPO_DUMP_FILE NCCL_GRAPH_DUMP_FILE",
         because="NCCL writes the file at every start",
         remedy="remove it once you have the file"),
    error("conf-quotes", "NCCL_* RCCL_*", value=r"(['\"]).*\1", forms=(SettingForm.CONF,),
          because="an nccl.conf is not a shell script: the quotes become part of the value",
          remedy="write NAME=value without quotes", source="NCCL src/misc/param.cc"),
    error("conf-name", "*", when=_odd_name, forms=(SettingForm.CONF,),
          because="an nccl.conf is not a shell script: everything before `=` is the name, and no"
          " program reads `{name}`", remedy="start the line with NAME=value",
          source="NCCL src/misc/param.cc"),
    error("conf-no-value", "*", when=lambda one, _: one.value is None,
          forms=(SettingForm.CONF,), because="the line has no `=`, so it sets nothing",
          remedy="write NAME=value", source="NCCL src/misc/param.cc"),
)  # fmt: skip


# --- Rules about InfiniBand and RoCE.

MOST_DEVICES: Final = 32
_A_ONE: Final = regex(r".*[^0-9]1", re.ASCII)


def listed(value: str) -> tuple[str, ...]:
    """The names in a list of NCCL's, without its sign, ports and planes."""
    body = value.strip().removeprefix("^").removeprefix("=")
    return tuple(part.split(":", 1)[0] for part in body.split(",") if part.split(":", 1)[0])


def is_exact(value: str) -> bool:
    """Whether a list names whole devices and not beginnings."""
    return value.strip().removeprefix("^").startswith("=")


def matched(value: str, present: Sequence[str]) -> list[str]:
    """The devices that are here and in the list, whatever its sign says of them."""
    names = listed(value)
    if is_exact(value):
        return [one for one in present if one in names]
    return [one for one in present if one.startswith(names)]


def _prefixes(one: Setting, scene: Scene) -> Seen | None:
    """Names that are the beginning of others too: `mlx5_1` of `mlx5_10`."""
    if one.value is None or is_exact(one.value):
        return None
    names, nics = listed(one.value), scene.facts.nics
    value = one.value.strip()
    do = f"{one.name}={'^' * value.startswith('^')}={value.removeprefix('^')}"
    if nics is None:
        short = next((name for name in names if _A_ONE.fullmatch(name)), None)
        words = f"{short} also matches {short}0 to {short}9"
        return Seen(words, do, is_sure=False) if short else None
    more = [
        nic for nic in nics if nic not in names and nic.startswith(names)
        and any(name in nics and nic.startswith(name) for name in names)
    ]  # fmt: skip
    return Seen(f"the list also matches {named(more)}", do) if more else None


def _too_many(one: Setting, _: Scene) -> str | None:
    count = len(listed(one.value or ""))
    return str(count) if count > MOST_DEVICES else None


def _absent(one: Setting, scene: Scene) -> str | None:
    """The node's devices, or interfaces, where a list of beginnings takes none of them."""
    present = scene.facts.nics if one.name == "NCCL_IB_HCA" else scene.facts.interfaces
    value = (one.value or "").strip()
    if present is None or not value or value.startswith("^") or matched(value, present):
        return None
    return named(present) or "none"


def _partly_absent(one: Setting, scene: Scene) -> str:
    """The names of a list that are not here, where it takes some device of the node."""
    nics, value = scene.facts.nics or (), (one.value or "").strip()
    if value.startswith("^") or not matched(value, nics):
        return ""
    return named(
        name for name in listed(value) if not matched(f"{'=' * is_exact(value)}{name}", nics)
    )


def _later_equals(one: Setting, _: Scene) -> str | None:
    first, *others = (one.value or "").strip().removeprefix("^").removeprefix("=").split(",")
    wrong = (name for name in (first, *others) if name.strip().startswith(("=", "^")))
    return next(wrong, None)


def _out_of_range(one: Setting, _: Scene) -> str | None:
    most = {"NCCL_IB_SL": 15, "NCCL_IB_TC": 255, "NCCL_IB_TIMEOUT": 31, "NCCL_IB_RETRY_CNT": 7}
    limit = most[one.name]
    return str(limit) if (whole_number(one.value) or 0) > limit else None


def _has_own_network(scene: Scene) -> bool:
    """Whether a plugin carries NCCL's traffic: the one that is known, or libfabric's settings."""
    is_plugin = scene.facts.plugin not in (None, NetPlugin.NONE)
    return is_plugin or any(name.startswith(("FI_", "OFI_NCCL_")) for name in scene.by_name)


def _rdma_off(_: Setting, scene: Scene) -> Seen | None:
    """Sure where the nodes have RDMA NICs to turn off."""
    return None if _has_own_network(scene) else Seen(is_sure=bool(scene.facts.nics))


def _ib_idle(one: Setting, scene: Scene) -> Seen | None:
    """Sure where no command sees it without what turns it off; an empty value says nothing."""
    if one.name == "NCCL_IB_DISABLE" or one.value == "":
        return None
    off = (*scene.beside(one, "NCCL_IB_DISABLE"), *scene.beside(one, "NCCL_NET"))
    return Seen(is_sure=any(other.covers(one) for other in off))


IB_RULES: Final = (
    warning("ib-off", "NCCL_IB_DISABLE", value=r"0*[1-9]\d*", nodes="not one",
            when=_rdma_off,
            because="turns InfiniBand and RoCE off, so NCCL uses TCP; often left over from"
            " debugging"),
    warning("ib-idle", "NCCL_IB_*", when=_ib_idle, beside=("NCCL_IB_DISABLE", r"0*[1-9]\d*"),
            because="no effect with {other}", remedy="remove NCCL_IB_DISABLE or this",
            source="NCCL src/transport/net_ib (ncclIbInit)"),
    warning("ib-idle-socket", "NCCL_IB_*", when=_ib_idle, beside=("NCCL_NET", "socket"),
            because="no effect with {other}", remedy="remove NCCL_NET or this"),
    warning("ib-hca-prefix", "NCCL_IB_HCA", when=_prefixes,
            because="without `=` a name is a prefix: {seen}", remedy="{do}"),
    error("ib-hca-many", "NCCL_IB_HCA", when=_too_many,
          because=f"{{seen}} names, but NCCL reads at most {MOST_DEVICES}",
          remedy="shorten the list, or list the devices to exclude (^)",
          source="NCCL src/transport/net_ib (MAX_IB_DEVS)"),
    error("ib-hca-absent", "NCCL_IB_HCA",
          when=lambda one, scene: (here := _absent(one, scene)) and f"the node has {here}",
          because="no device of this node matches, so NCCL uses TCP; {seen}",
          remedy="remove it, or name devices of this node"),
    warning("ib-hca-partly", "NCCL_IB_HCA", when=_partly_absent, because="not on this node: {seen}",
            remedy="remove it, or name devices of this node"),
    error("list-sign", "NCCL_IB_HCA NCCL_SOCKET_IFNAME NCCL_OOB_NET_IFNAME", when=_later_equals,
          is_mistake=True,
          because="`=` and `^` go once, before the whole list; `{seen}` matches nothing",
          remedy="{name}==a,b or {name}=^=a,b"),
    note("ib-gid-index", "NCCL_IB_GID_INDEX", value=r"\d+", since="2.21",
         because="NCCL chooses the GID itself (-1); a fixed index is wrong on nodes with another"
         " GID table"),
    warning("ib-timeout-short", "NCCL_IB_TIMEOUT", since="2.23",
            when=lambda one, _: whole_number(one.value) in range(1, 20),
            because="below the default of 20: jobs on large fabrics fail while routes change"),
    warning("ib-range", "NCCL_IB_SL NCCL_IB_TC NCCL_IB_TIMEOUT NCCL_IB_RETRY_CNT",
            when=_out_of_range, is_mistake=True, because="the maximum is {seen}",
            remedy="remove it, or ask your admins",
            source="InfiniBand Architecture Specification, volume 1"),
    note("ib-split-data", "NCCL_IB_SPLIT_DATA_ON_QPS", value="0*1", since="2.20",
         because="splits each message over all queue pairs, which slows small messages; the"
         " default is 0"),
    note("ib-on-efa", "NCCL_IB_*", plugins=(NetPlugin.AWS_OFI, NetPlugin.TCPX, NetPlugin.TCPXO),
         because="no effect: this network does not use NCCL's own InfiniBand transport",
         source="aws-ofi-nccl doc/efa-env-var.md"),
)  # fmt: skip


# --- Rules about RCCL and ROCm.

_ROCM: Final = "ROCm documentation, environment variables"

RCCL_RULES: Final = (
    note("rccl-on-nvidia", "RCCL_* HSA_* HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES",
         library=CommLibrary.NCCL, because="for AMD GPUs; NCCL and CUDA do not read it",
         source="RCCL documentation, environment variables"),
    note("nvlink-on-amd", "NCCL_NVLS_* NCCL_MNNVL_* NCCL_NVB_*", library=CommLibrary.RCCL,
         because="for NVLink, which AMD GPUs do not have",
         source="RCCL documentation, environment variables"),
    note("hsa-fine-grain", "HSA_FORCE_FINE_GRAIN_PCIE",
         because="only old ROCm releases need it, for P2P over PCIe",
         remedy="remove it unless the site asks for it", source=_ROCM),
    note("hsa-sdma-off", "HSA_ENABLE_SDMA", value="0",
         because="copies use compute units instead of the SDMA engines",
         remedy="remove it; it is a workaround", source=_ROCM),
)  # fmt: skip


# --- Rules about IP interfaces and sockets.

_BY_PREFIX: Final = ("NCCL_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME")
_BY_NAME: Final = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
_READERS: Final = {"NCCL": "NCCL", "GLOO": "Gloo", "TP_S": "PyTorch RPC"}
_MOST_SOCKETS: Final = 64
_MOST_THREADS: Final = 16
_VIRTUAL: Final = regex(r"=?(docker|virbr|veth)", re.ASCII)


def absent_name(one: Setting, scene: Scene) -> str | None:
    """Return the node's interfaces, where none of a list of whole names is here."""
    interfaces, value = scene.facts.interfaces, (one.value or "").strip()
    names = [name.strip() for name in value.split(",")]
    if interfaces is None or not value or any(name in interfaces for name in names):
        return None
    return named(interfaces) or "none"


def _sockets(one: Setting, scene: Scene) -> str | None:
    """More sockets or threads a connection than NCCL takes."""
    threads = whole_number(one.value) or 0
    if threads > _MOST_THREADS:
        return f"{threads} threads, but NCCL takes at most {_MOST_THREADS}"
    for other in scene.beside(one, "NCCL_NSOCKS_PERTHREAD"):
        each = whole_number(other.value) or 0
        if threads * each > _MOST_SOCKETS:
            return f"{threads} × {each} sockets, but NCCL takes at most {_MOST_SOCKETS}"
    return None


def _virtual(one: Setting, _: Scene) -> Seen | None:
    names = (one.value or "").split(",")
    hits = [name for name in names if _VIRTUAL.match(name.strip())]
    is_seen = hits and not names[0].startswith("^")
    return Seen(named(hits), is_sure=hits == names) if is_seen else None


SOCKET_RULES: Final = (
    error("ifname-absent", _BY_PREFIX, when=_absent,
          because="no interface of this node matches; it has {seen}",
          remedy="remove it, or name one that all nodes have: {name}==NAME"),
    error("ifname-absent-exact", _BY_NAME, when=absent_name,
          because="this node has no such interface; it has {seen}",
          remedy="remove it, or name one that all nodes have", source="PyTorch, distributed"),
    error("ifname-sign", _BY_NAME, value=r"[=^].*", is_mistake=True,
          because="only NCCL's variables take `=` and `^`; this one needs the plain name",
          remedy="write the name alone", source="PyTorch, distributed"),
    note("ifname-eth0", (*_BY_PREFIX, *_BY_NAME), value=r"=?eth0(,.*)?",
         when=lambda one, scene: scene.facts.interfaces is None and _READERS[one.name[:4]],
         because="most hosts name interfaces by slot (ens1f0, enp0s12) and have no eth0; without a"
         " match {seen} fails",
         remedy="check `ip -br link` on a compute node, or remove it"),
    error("ifname-lo", (*_BY_PREFIX, *_BY_NAME), value=r"=?lo(,.*)?", nodes="not one",
          because="the loopback interface reaches no other node"),
    error("ifname-virtual", (*_BY_PREFIX, *_BY_NAME), when=_virtual, nodes="not one",
          because="{seen} is a virtual interface, which reaches no other node",
          remedy="remove it: NCCL skips docker and lo by itself"),
    warning("socket-family", "NCCL_SOCKET_FAMILY", value=r"(?-i:(?!AF_INET6?$).+)",
            because="`{value}` is neither AF_INET nor AF_INET6, so the line has no effect",
            remedy="NCCL_SOCKET_FAMILY=AF_INET or AF_INET6", source="NCCL src/misc/socket.cc"),
    warning("socket-count", "NCCL_SOCKET_NTHREADS", when=_sockets, because="{seen}",
            remedy="remove both", source="NCCL src/transport/net_socket.cc"),
    note("socket-idle", "NCCL_SOCKET_NTHREADS NCCL_NSOCKS_PERTHREAD",
         plugins=(NetPlugin.AWS_OFI, NetPlugin.TCPXO, NetPlugin.GIB),
         because="no effect: traffic here does not use NCCL's sockets",
         source="aws-ofi-nccl doc/efa-env-var.md"),
    note("socket-idle-ib", "NCCL_SOCKET_NTHREADS NCCL_NSOCKS_PERTHREAD", beside=("NCCL_NET", "ib"),
         because="no effect with {other}"),
)  # fmt: skip
