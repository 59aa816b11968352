"""Rules about InfiniBand and RoCE."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hpckit.core.findings import Severity
from hpckit.decide.comm_lint_nccl import whole_number
from hpckit.decide.comm_lint_rule import ENV_RST, LintRule, Scene, Seen, Setting
from hpckit.model.comm import NetPlugin
from hpckit.model.hostlist import natural_order

MOST_DEVICES: Final = 32
_LEAST_TIMEOUT: Final = 20
_A_ONE: Final = re.compile(r".*[^0-9]1", re.ASCII)
_MOST_NAMED: Final = 6


def listed(value: str) -> tuple[str, ...]:
    """The names in a list of NCCL's, without its sign, ports and planes."""
    body = value.strip().removeprefix("^").removeprefix("=")
    return tuple(part.split(":", 1)[0] for part in body.split(",") if part.split(":", 1)[0])


def is_exact(value: str) -> bool:
    """Whether a list names whole devices and not beginnings."""
    return value.strip().removeprefix("^").startswith("=")


def some(names: Sequence[str]) -> str:
    """Names for a sentence, in natural order, not too many."""
    ordered = sorted(set(names), key=natural_order)
    more = len(ordered) - _MOST_NAMED
    return ", ".join(ordered[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


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
    return Seen(f"the list takes {some(more)} too") if more else None


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
    return Seen(f"the node has {some(nics) or 'none'}")


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
    return Seen(some(lacking)) if lacking else None


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
