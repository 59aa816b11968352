"""Rules about NCCL itself: algorithms, protocols, channels, logs and numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hpckit.comm.lint_rule import ENV_RST, LintRule, Scene, Seen, Setting, SettingForm
from hpckit.comm.variables import NCCL_VARIABLES
from hpckit.core.findings import Severity
from hpckit.core.hostlist import named
from hpckit.spec.platform import CommLibrary, NetPlugin

_NUMBERS: Final = frozenset(one.name for one in NCCL_VARIABLES if one.is_number)
_INTEGER: Final = re.compile(r"[+-]?(0x[0-9a-f]+|\d+)", re.IGNORECASE | re.ASCII)
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
_DEBUGGING: Final = "set it by hand for the run that you look into"
_TUNING: Final = "leave it out: NCCL chooses by size and machine; keep it only with measurements"
_SINCE_CTAS: Final = "2.17"


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


def _not_a_number(one: Setting, _: Scene) -> Seen | None:
    """A word, or a number with a unit, where NCCL calls strtoll."""
    if one.name not in _NUMBERS or not one.value or _INTEGER.fullmatch(one.value.strip()):
        return None
    leading = _INTEGER.match(one.value.strip())
    return Seen(leading[0] if leading else "0")


def _crossed(one: Setting, scene: Scene) -> Seen | None:
    least = whole_number(one.value)
    for other in scene.beside(one, _CROSSED[one.name]):
        most = whole_number(other.value)
        if least is not None and most is not None and 0 < most < least:
            return Seen(other.text)
    return None


def _lacks_ring(one: Setting, _: Scene) -> Seen | None:
    """Whether the list for all functions leaves Ring out; those for one function may."""
    first = (one.value or "").strip().lower().split(";", 1)[0]
    if not first or ":" in first:
        return None
    is_exclusion = first.startswith("^")
    names = {name.strip() for name in first.removeprefix("^").split(",")}
    return Seen() if ("ring" in names) is is_exclusion else None


def _lacks_ring_early(one: Setting, scene: Scene) -> Seen | None:
    """The same where the release is known to be early; else the other rule speaks."""
    return None if scene.nccl is None else _lacks_ring(one, scene)


def _forces_ring(one: Setting, scene: Scene) -> Seen | None:
    is_list = one.value is not None and bool(one.value.strip())
    return Seen() if is_list and _lacks_ring(one, scene) is None else None


def _one_file(one: Setting, scene: Scene) -> Seen | None:
    """A log file whose name does not tell processes and hosts apart."""
    value = one.value
    if not value or value.startswith("/dev/"):
        return None
    missing = [mark for mark in ("%h", "%p") if mark not in value]
    if scene.nodes == 1 and "%h" in missing:
        missing.remove("%h")
    return Seen(" and ".join(missing)) if missing else None


def _no_info(one: Setting, scene: Scene) -> Seen | None:
    levels = [other.value for other in scene.beside(one, "NCCL_DEBUG")]
    chatty = {None, "INFO", "TRACE"}
    is_info = any(level is None or level.strip().upper() in chatty for level in levels)
    return None if is_info else Seen()


def _bad_threads(one: Setting, _: Scene) -> Seen | None:
    threads = whole_number(one.value)
    if threads is None or threads <= 0:
        return None
    return Seen() if threads % 32 or not 64 <= threads <= 512 else None  # noqa: PLR2004


def _not_on_amd(_: Setting, scene: Scene) -> Seen | None:
    """RCCL has levels of its own."""
    return None if scene.library is CommLibrary.RCCL else Seen()


def _odd_name(one: Setting, _: Scene) -> Seen | None:
    is_name = one.value is None or re.fullmatch(r"\w+", one.name, re.ASCII)
    return None if is_name else Seen()


NCCL_RULES: Final = (
    LintRule(
        name="nccl-not-a-number", names=("NCCL_*",), severity=Severity.ERROR,
        because="NCCL reads a number here and takes `{value}` for {seen}",
        remedy="write the number, without a unit: 1 for true, 4194304 for 4M",
        source="NCCL src/misc/param.cc (strtoll)", when=_not_a_number,
    ),
    LintRule(
        name="nccl-list-blank", names=_LISTS, severity=Severity.ERROR, value=r".*,\s+\S.*",
        because="the blank behind a comma becomes part of the next name, which then matches"
        " nothing",
        remedy="no blanks in the list", source="NCCL src/misc/utils.cc (parseStringList)",
    ),
    LintRule(
        name="nccl-algo-without-ring", names=("NCCL_ALGO",), severity=Severity.ERROR,
        since="2.24", when=_lacks_ring,
        because="collectives for which none of these algorithms exists fail, as Broadcast does"
        " without Ring: it no longer steps in",
        remedy="leave it out, or name the function: NCCL_ALGO=allreduce:tree",
        source=f"{ENV_RST}; NCCL src/enqueue.cc",
    ),
    LintRule(
        name="nccl-algo-without-ring-early", names=("NCCL_ALGO",), severity=Severity.WARNING,
        before="2.24", when=_lacks_ring_early,
        because="one choice for all sizes and collectives; from 2.24 on those that lack it fail",
        remedy=_TUNING, source=ENV_RST,
    ),
    LintRule(
        name="nccl-algo-forced", names=("NCCL_ALGO",), severity=Severity.NOTE, when=_forces_ring,
        because="one choice for all sizes, in place of NCCL's own by size and machine",
        remedy=_TUNING, source=ENV_RST,
    ),
    LintRule(
        name="nccl-proto-ll128", names=("NCCL_PROTO",), severity=Severity.WARNING,
        value=r"(?!\^)[^;]*\bll128\b.*",
        because="LL128 is forced: where the machine does not keep 128-byte stores whole, it"
        " corrupts data; NCCL turns it on itself where it is safe",
        remedy="leave it out; NCCL_PROTO=^LL128 turns it off", source=ENV_RST,
    ),
    LintRule(
        name="nccl-proto-forced", names=("NCCL_PROTO",), severity=Severity.NOTE,
        value=r"(?!\^)(?!.*ll128).+", is_fallback=True,
        because="one protocol for all sizes; small messages or large ones get slower",
        remedy=_TUNING, source=ENV_RST,
    ),
    LintRule(
        name="nccl-debug-trace", names=("NCCL_DEBUG",), severity=Severity.WARNING,
        value="trace", because="TRACE writes a line for each call and slows the job",
        remedy=f"NCCL_DEBUG=WARN; {_DEBUGGING}", source=ENV_RST,
    ),
    LintRule(
        name="nccl-debug-info", names=("NCCL_DEBUG",), severity=Severity.NOTE, value="info",
        because="each rank writes hundreds of lines at its start, which at scale hide the rest",
        remedy=f"NCCL_DEBUG=WARN; {_DEBUGGING}", source=ENV_RST,
    ),
    LintRule(
        name="nccl-debug-word", names=("NCCL_DEBUG",), severity=Severity.WARNING,
        value=r"(?!(version|warn|info|abort|trace|none)$).+",
        because="`{value}` is no level, so NCCL is silent", remedy="NCCL_DEBUG=WARN",
        source="NCCL src/debug.cc", when=_not_on_amd,
    ),
    LintRule(
        name="nccl-debug-file-shared", names=("NCCL_DEBUG_FILE",), severity=Severity.WARNING,
        when=_one_file, because="without {seen} several processes write to the same file",
        remedy="NCCL_DEBUG_FILE=nccl.%h.%p.log", source=ENV_RST,
    ),
    LintRule(
        name="nccl-debug-file-unused", names=("NCCL_DEBUG_FILE",), severity=Severity.NOTE,
        without="NCCL_DEBUG", because="NCCL_DEBUG is not set, so nothing is written",
        remedy="leave it out, or set NCCL_DEBUG=WARN", source=ENV_RST,
    ),
    LintRule(
        name="nccl-debug-subsys-unused", names=("NCCL_DEBUG_SUBSYS",), severity=Severity.NOTE,
        when=_no_info, because="it chooses among the lines of NCCL_DEBUG=INFO, which is not set",
        remedy="leave it out", source=ENV_RST,
    ),
    LintRule(
        name="nccl-crossed", names=tuple(_CROSSED), severity=Severity.ERROR, when=_crossed,
        because="the least is more than the most: {seen}", remedy="leave both out",
        source=ENV_RST,
    ),
    LintRule(
        name="nccl-nchannels", names=("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"),
        severity=Severity.NOTE, since=_SINCE_CTAS,
        because="deprecated for NCCL_MIN_CTAS and NCCL_MAX_CTAS; more channels take more SMs from"
        " the kernels that compute",
        remedy="leave it out, or use the new name", source=ENV_RST,
    ),
    LintRule(
        name="nccl-nrings", names=("NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS"), severity=Severity.NOTE,
        since="2.5", because="the old name of NCCL_MIN_NCHANNELS and NCCL_MAX_NCHANNELS",
        remedy="leave it out", source=ENV_RST,
    ),
    LintRule(
        name="nccl-check-pointers-old", names=("NCCL_CHECK_POINTERS",), severity=Severity.NOTE,
        since="2.29.7", because="deprecated for NCCL_CHECK_MODE", remedy="leave it out",
        source="NCCL source 2.29.7",
    ),
    LintRule(
        name="nccl-check-pointers", names=("NCCL_CHECK_POINTERS",), severity=Severity.WARNING,
        value="[1-9]", because="each call checks its pointers first", remedy=_DEBUGGING,
        source=ENV_RST,
    ),
    LintRule(
        name="nccl-launch-mode", names=("NCCL_LAUNCH_MODE",), severity=Severity.NOTE,
        because="deprecated; it is about launching kernels for several GPUs of one process",
        remedy="leave it out", source=ENV_RST,
    ),
    LintRule(
        name="nccl-threads", names=("NCCL_NTHREADS",), severity=Severity.WARNING,
        when=_bad_threads, because="a block has 64 to 512 threads, in steps of 32; NCCL takes"
        " another number than {value}",
        remedy="leave it out", source="NCCL src/graph/tuning.cc (getNthreads)",
    ),
    LintRule(
        name="nccl-net-mismatch", names=("NCCL_IGNORE_NET_MISMATCH",), severity=Severity.WARNING,
        value="[1-9]", since="2.30",
        because="ranks with different numbers of network devices go on, and may hang in silence;"
        " it is the default",
        remedy="NCCL_IGNORE_NET_MISMATCH=0, to be told", source="NCCL src/init.cc; nccl#2428",
    ),
    LintRule(
        name="nccl-ras-port", names=("NCCL_RAS_ADDR",), severity=Severity.NOTE, since="2.24",
        value=r".*:\d+",
        because="a second job on the node finds the port taken and has no RAS",
        remedy="leave it out where jobs share nodes, or give each job a port of its own",
        source=ENV_RST,
    ),
    LintRule(
        name="nccl-dump-left", names=("NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE"),
        severity=Severity.NOTE, because="writes a file at each start",
        remedy="once is enough: leave it out when you have the file", source=ENV_RST,
    ),
    LintRule(
        name="conf-quotes", names=("NCCL_*", "RCCL_*"), severity=Severity.ERROR,
        forms=(SettingForm.CONF,), value=r"(['\"]).*\1",
        because="an nccl.conf is no shell: the quotes become part of the value",
        remedy="NAME=value, without quotes", source="NCCL src/misc/param.cc",
    ),
    LintRule(
        name="conf-name", names=("*",), severity=Severity.ERROR, forms=(SettingForm.CONF,),
        when=_odd_name,
        because="an nccl.conf is no shell: all before the `=` is the name, so nobody reads"
        " `{name}`",
        remedy="NAME=value at the beginning of the line", source="NCCL src/misc/param.cc",
    ),
    LintRule(
        name="conf-no-value", names=("*",), severity=Severity.ERROR, forms=(SettingForm.CONF,),
        when=lambda one, _: Seen() if one.value is None else None,
        because="there is no `=` in the line, so it sets nothing", remedy="NAME=value",
        source="NCCL src/misc/param.cc",
    ),
)  # fmt: skip


# --- Rules about InfiniBand and RoCE.

MOST_DEVICES: Final = 32
_LEAST_TIMEOUT: Final = 20
_A_ONE: Final = re.compile(r".*[^0-9]1", re.ASCII)


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
    if nics is None:
        short = next((name for name in names if _A_ONE.fullmatch(name)), None)
        seen = Seen(f"{short} is also that of {short}0 to {short}9", is_sure=False)
        return None if short is None else seen
    more = [
        nic for nic in nics if nic not in names and nic.startswith(names)
        and any(name in nics and nic.startswith(name) for name in names)
    ]  # fmt: skip
    return Seen(f"the list takes {named(more)} too") if more else None


def _do_exact(one: Setting, scene: Scene) -> Seen | None:
    seen = _prefixes(one, scene)
    value = (one.value or "").strip()
    sign = "^" if value.startswith("^") else ""
    return seen and seen._replace(do=f"{one.name}={sign}={value.removeprefix('^')}")


def _too_many(one: Setting, _: Scene) -> Seen | None:
    count = len(listed(one.value or ""))
    return Seen(str(count)) if count > MOST_DEVICES else None


def _absent(one: Setting, scene: Scene) -> Seen | None:
    """A list that takes no device of the node."""
    nics, value = scene.facts.nics, one.value
    if nics is None or not value or value.strip().startswith("^") or matched(value, nics):
        return None
    return Seen(f"the node has {named(nics) or 'none'}")


def _partly_absent(one: Setting, scene: Scene) -> Seen | None:
    """A list that takes some device of the node, and names others that are not here."""
    nics, value = scene.facts.nics, one.value
    if nics is None or not value or value.strip().startswith("^") or not matched(value, nics):
        return None
    lacking = [
        name
        for name in listed(value)
        if not (name in nics if is_exact(value) else any(nic.startswith(name) for nic in nics))
    ]
    return Seen(named(lacking)) if lacking else None


def _later_equals(one: Setting, _: Scene) -> Seen | None:
    first, *others = (one.value or "").strip().removeprefix("^").removeprefix("=").split(",")
    wrong = (name for name in (first, *others) if name.strip().startswith(("=", "^")))
    return next(map(Seen, wrong), None)


def _short_timeout(one: Setting, _: Scene) -> Seen | None:
    timeout = whole_number(one.value)
    return Seen() if timeout is not None and 0 < timeout < _LEAST_TIMEOUT else None


def _out_of_range(one: Setting, _: Scene) -> Seen | None:
    most = {"NCCL_IB_SL": 15, "NCCL_IB_TC": 255, "NCCL_IB_TIMEOUT": 31, "NCCL_IB_RETRY_CNT": 7}
    number = whole_number(one.value)
    limit = most[one.name]
    return Seen(str(limit)) if number is not None and number > limit else None


def _not_the_switch(one: Setting, _: Scene) -> Seen | None:
    return None if one.name == "NCCL_IB_DISABLE" else Seen()


IB_RULES: Final = (
    LintRule(
        name="ib-off", names=("NCCL_IB_DISABLE",), severity=Severity.WARNING, value=r"0*[1-9]\d*",
        nodes="not one",
        because="NCCL does without InfiniBand and RoCE, and goes over TCP; often left from"
        " debugging",
        remedy="leave it out", source=ENV_RST,
    ),
    LintRule(
        name="ib-idle", names=("NCCL_IB_*",), severity=Severity.WARNING,
        beside=("NCCL_IB_DISABLE", r"0*[1-9]\d*"), because="has no effect beside {other}",
        remedy="leave NCCL_IB_DISABLE out, or this",
        source="NCCL src/transport/net_ib (ncclIbInit)",
        when=_not_the_switch,
    ),
    LintRule(
        name="ib-idle-socket", names=("NCCL_IB_*",), severity=Severity.WARNING,
        beside=("NCCL_NET", "socket"), because="has no effect beside {other}",
        remedy="leave NCCL_NET out, or this", source=ENV_RST,
        when=_not_the_switch,
    ),
    LintRule(
        name="ib-hca-prefix", names=("NCCL_IB_HCA",), severity=Severity.WARNING, when=_do_exact,
        because="without `=` a name is a beginning: {seen}", remedy="{do}", source=ENV_RST,
    ),
    LintRule(
        name="ib-hca-many", names=("NCCL_IB_HCA",), severity=Severity.ERROR, when=_too_many,
        because=f"{{seen}} names, and NCCL reads {MOST_DEVICES} at most",
        remedy="a shorter list, or one of those to leave out (^)",
        source="NCCL src/transport/net_ib (MAX_IB_DEVS)",
    ),
    LintRule(
        name="ib-hca-absent", names=("NCCL_IB_HCA",), severity=Severity.ERROR, when=_absent,
        because="no device here matches, so NCCL goes over TCP; {seen}",
        remedy="leave it out, or name devices that are here", source=ENV_RST,
    ),
    LintRule(
        name="ib-hca-partly", names=("NCCL_IB_HCA",), severity=Severity.WARNING,
        when=_partly_absent, because="not on this node: {seen}",
        remedy="leave it out, or name devices that are here", source=ENV_RST,
    ),
    LintRule(
        name="list-sign", names=("NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME"),
        severity=Severity.ERROR, when=_later_equals,
        because="`=` and `^` stand once, before the whole list; `{seen}` matches nothing",
        remedy="{name}==a,b or {name}=^=a,b", source=ENV_RST,
    ),
    LintRule(
        name="ib-gid-index", names=("NCCL_IB_GID_INDEX",), severity=Severity.NOTE,
        value=r"\d+", since="2.21",
        because="NCCL chooses the GID by itself (-1); a fixed one is wrong on a node whose table"
        " differs",
        remedy="leave it out", source=ENV_RST,
    ),
    LintRule(
        name="ib-timeout-short", names=("NCCL_IB_TIMEOUT",), severity=Severity.WARNING,
        since="2.23", when=_short_timeout,
        because="shorter than the default of 20: large fabrics then fail while routes change",
        remedy="leave it out", source=ENV_RST,
    ),
    LintRule(
        name="ib-range", names=("NCCL_IB_SL", "NCCL_IB_TC", "NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT"),
        severity=Severity.ERROR, when=_out_of_range, because="{seen} is the most that it can be",
        remedy="leave it out, or ask who runs the fabric",
        source="InfiniBand Architecture Specification, volume 1",
    ),
    LintRule(
        name="ib-split-data", names=("NCCL_IB_SPLIT_DATA_ON_QPS",), severity=Severity.NOTE,
        value="0*1", since="2.20",
        because="each message goes over all queue pairs in pieces; 0 is the default because small"
        " messages suffer",
        remedy="leave it out", source=ENV_RST,
    ),
    LintRule(
        name="ib-on-efa", names=("NCCL_IB_*",), severity=Severity.NOTE,
        plugins=(NetPlugin.AWS_OFI, NetPlugin.TCPX, NetPlugin.TCPXO),
        because="this network is not reached through NCCL's own InfiniBand code",
        remedy="leave it out", source="aws-ofi-nccl doc/efa-env-var.md",
    ),
)  # fmt: skip


# --- Rules about RCCL and ROCm.

_ROCM: Final = "ROCm documentation, environment variables"

RCCL_RULES: Final = (
    LintRule(
        name="rccl-on-nvidia",
        names=("RCCL_*", "HSA_*", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
        severity=Severity.NOTE, library=CommLibrary.NCCL,
        because="for GPUs of AMD; NCCL and CUDA do not read it", remedy="leave it out",
        source="RCCL documentation, environment variables",
    ),
    LintRule(
        name="nvlink-on-amd", names=("NCCL_NVLS_*", "NCCL_MNNVL_*", "NCCL_NVB_*"),
        severity=Severity.NOTE, library=CommLibrary.RCCL,
        because="about NVLink; GPUs of AMD have none", remedy="leave it out",
        source="RCCL documentation, environment variables",
    ),
    LintRule(
        name="hsa-fine-grain", names=("HSA_FORCE_FINE_GRAIN_PCIE",), severity=Severity.NOTE,
        because="of old ROCm releases, where P2P over PCIe needed it",
        remedy="leave it out unless the site asks for it", source=_ROCM,
    ),
    LintRule(
        name="hsa-sdma-off", names=("HSA_ENABLE_SDMA",), severity=Severity.NOTE, value="0",
        because="copies take compute units in place of the copy engines",
        remedy="leave it out; it is a workaround", source=_ROCM,
    ),
)  # fmt: skip


# --- Rules about IP interfaces and sockets.

_BY_PREFIX: Final = ("NCCL_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME")
_BY_NAME: Final = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
_MOST_SOCKETS: Final = 64
_MOST_THREADS: Final = 16
_VIRTUAL: Final = re.compile(r"=?(docker|virbr|veth|br-|cni|flannel)", re.ASCII)


def _absent_interfaces(one: Setting, scene: Scene) -> Seen | None:
    """A list of beginnings that takes no interface of the node."""
    interfaces, value = scene.facts.interfaces, (one.value or "").strip()
    if interfaces is None or not value or value.startswith("^") or matched(value, interfaces):
        return None
    return Seen(named(interfaces) or "none")


def absent_name(one: Setting, scene: Scene) -> Seen | None:
    """Return the node's interfaces, where none of a list of whole names is here."""
    interfaces, value = scene.facts.interfaces, (one.value or "").strip()
    names = [name.strip() for name in value.split(",")]
    if interfaces is None or not value or any(name in interfaces for name in names):
        return None
    return Seen(named(interfaces) or "none")


def _unknown_eth(one: Setting, scene: Scene) -> Seen | None:
    return Seen() if scene.facts.interfaces is None else None


def _sockets(one: Setting, scene: Scene) -> Seen | None:
    """More sockets or threads a connection than NCCL takes."""
    threads = whole_number(one.value)
    if threads is None:
        return None
    if one.name == "NCCL_SOCKET_NTHREADS" and threads > _MOST_THREADS:
        return Seen(f"{threads} threads, and NCCL takes {_MOST_THREADS} at most")
    for other in scene.beside(one, "NCCL_NSOCKS_PERTHREAD"):
        each = whole_number(other.value)
        if one.name == "NCCL_SOCKET_NTHREADS" and each and threads * each > _MOST_SOCKETS:
            return Seen(f"{threads} × {each} sockets, and NCCL takes {_MOST_SOCKETS} at most")
    return None


def _virtual(one: Setting, _: Scene) -> Seen | None:
    names = (one.value or "").split(",")
    hit = [name for name in names if _VIRTUAL.match(name.strip())]
    return Seen(named(hit)) if hit and not names[0].startswith("^") else None


SOCKET_RULES: Final = (
    LintRule(
        name="ifname-absent", names=_BY_PREFIX, severity=Severity.ERROR, when=_absent_interfaces,
        because="no interface of this node matches; it has {seen}",
        remedy="leave it out, or name one that all nodes have: {name}==NAME", source=ENV_RST,
    ),
    LintRule(
        name="ifname-absent-exact", names=_BY_NAME, severity=Severity.ERROR, when=absent_name,
        because="this node has no such interface; it has {seen}",
        remedy="leave it out, or name one that all nodes have", source="PyTorch, distributed",
    ),
    LintRule(
        name="ifname-sign", names=_BY_NAME, severity=Severity.ERROR, value=r"[=^].*",
        because="`=` and `^` are NCCL's; here the name must be written as it is",
        remedy="the name alone", source="PyTorch, distributed",
    ),
    LintRule(
        name="ifname-eth0", names=(*_BY_PREFIX, *_BY_NAME), severity=Severity.NOTE,
        value=r"=?eth0(,.*)?", when=_unknown_eth,
        because="most hosts name interfaces by their place (ens1f0, enp0s12) and have no eth0;"
        " without one NCCL fails",
        remedy="look at `ip -br link` on a compute node, or leave it out", source=ENV_RST,
    ),
    LintRule(
        name="ifname-lo", names=(*_BY_PREFIX, *_BY_NAME), severity=Severity.ERROR,
        value=r"=?lo(,.*)?", nodes="not one",
        because="the loopback interface reaches no other node", remedy="leave it out",
        source=ENV_RST,
    ),
    LintRule(
        name="ifname-virtual", names=(*_BY_PREFIX, *_BY_NAME), severity=Severity.ERROR,
        when=_virtual, because="{seen} is a bridge inside the node, and reaches no other",
        remedy="leave it out: NCCL passes over docker and lo by itself", source=ENV_RST,
    ),
    LintRule(
        name="socket-family", names=("NCCL_SOCKET_FAMILY",), severity=Severity.WARNING,
        value=r"(?-i:(?!AF_INET6?$).+)",
        because="`{value}` is none of AF_INET and AF_INET6, so the line has no effect",
        remedy="NCCL_SOCKET_FAMILY=AF_INET or AF_INET6", source="NCCL src/misc/socket.cc",
    ),
    LintRule(
        name="socket-count", names=("NCCL_SOCKET_NTHREADS",), severity=Severity.WARNING,
        when=_sockets, because="{seen}", remedy="leave both out",
        source="NCCL src/transport/net_socket.cc",
    ),
    LintRule(
        name="socket-idle", names=("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"),
        severity=Severity.NOTE, plugins=(NetPlugin.AWS_OFI, NetPlugin.TCPXO, NetPlugin.GIB),
        because="traffic does not go over NCCL's sockets here", remedy="leave it out",
        source="aws-ofi-nccl doc/efa-env-var.md",
    ),
    LintRule(
        name="socket-idle-ib", names=("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"),
        severity=Severity.NOTE, beside=("NCCL_NET", "ib"),
        because="has no effect beside {other}", remedy="leave it out", source=ENV_RST,
    ),
)  # fmt: skip
