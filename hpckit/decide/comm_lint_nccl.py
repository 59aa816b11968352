"""Rules about NCCL itself: algorithms, protocols, channels, logs and numbers."""

from __future__ import annotations

import re
from typing import Final

from hpckit.core.findings import Severity
from hpckit.decide.comm_lint_rule import ENV_RST, LintRule, Scene, Seen, Setting
from hpckit.decide.nccl_variables import NCCL_VARIABLES
from hpckit.model.comm import CommLibrary
from hpckit.model.comm_lint import SettingForm

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
