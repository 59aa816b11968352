"""Rules about IP interfaces and sockets."""

from __future__ import annotations

import re
from typing import Final

from hpckit.core.findings import Severity
from hpckit.decide.comm_lint_ib import matched, some
from hpckit.decide.comm_lint_nccl import whole_number
from hpckit.decide.comm_lint_rule import ENV_RST, LintRule, Scene, Seen, Setting
from hpckit.model.comm import NetPlugin

_BY_PREFIX: Final = ("NCCL_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME")
_BY_NAME: Final = ("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
_MOST_SOCKETS: Final = 64
_MOST_THREADS: Final = 16
_VIRTUAL: Final = re.compile(r"=?(docker|virbr|veth|br-|cni|flannel)", re.ASCII)


def _absent(one: Setting, scene: Scene) -> Seen | None:
    """A list of beginnings that takes no interface of the node."""
    interfaces, value = scene.facts.interfaces, (one.value or "").strip()
    if interfaces is None or not value or value.startswith("^") or matched(value, interfaces):
        return None
    return Seen(some(interfaces) or "none")


def _absent_name(one: Setting, scene: Scene) -> Seen | None:
    """A list of whole names of which none is here."""
    interfaces, value = scene.facts.interfaces, (one.value or "").strip()
    names = [name.strip() for name in value.split(",")]
    if interfaces is None or not value or any(name in interfaces for name in names):
        return None
    return Seen(some(interfaces) or "none")


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
    return Seen(some(hit)) if hit and not names[0].startswith("^") else None


SOCKET_RULES: Final = (
    LintRule(
        name="ifname-absent", names=_BY_PREFIX, severity=Severity.ERROR, when=_absent,
        because="no interface of this node matches; it has {seen}",
        remedy="leave it out, or name one that all nodes have: {name}==NAME", source=ENV_RST,
    ),
    LintRule(
        name="ifname-absent-exact", names=_BY_NAME, severity=Severity.ERROR, when=_absent_name,
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
