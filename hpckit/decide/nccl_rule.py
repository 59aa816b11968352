"""What the rules about a run of NCCL see."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from hpckit.core.findings import Evidence, Severity
from hpckit.model.comm import NetPlugin
from hpckit.model.hostlist import natural_order
from hpckit.model.nccl_finding import ExpectedRun, GpuTransport
from hpckit.model.nccl_log import LoggedSetting, NcclLog, NicList, Seen, Transport
from hpckit.model.nccl_run import NcclRun

SOCKET: Final = "Socket"
"""NCCL's name of its network over TCP."""

OWN_NETWORKS: Final = frozenset({"IB", SOCKET})
"""Networks that are no plugin's."""

NVLINK_TYPES: Final = frozenset({"LOC", "NVL", "NVB", "C2C"})
"""NCCL's path types between GPUs that no PCIe is part of. Source: NCCL, src/graph/topo.h."""

_MOST_NAMED: Final = 6
_Value = TypeVar("_Value", bound=Hashable)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run beside what was expected of it."""

    run: NcclRun
    expected: ExpectedRun

    @property
    def log(self) -> NcclLog:
        """The log; one without facts where the file has none."""
        return self.run.log or NcclLog(lines=0)

    @property
    def is_multi_node(self) -> bool | None:
        """Whether ranks are on more than one node, as expected, else as the file says."""
        if self.expected.is_multi_node is not None:
            return self.expected.is_multi_node
        nodes = max(self.log.nodes or 0, *(test.nodes for test in self.run.tests), 0)
        if nodes:
            return nodes > 1
        over_net = any(one.what.transport is Transport.NET for one in self.log.connections)
        return True if over_net else None

    @property
    def is_by_plugin(self) -> bool:
        """Whether a plugin carries the traffic: as the log says, else as expected."""
        networks = {one.what.name for one in self.log.networks}
        if networks:
            return bool(networks - OWN_NETWORKS)
        return self.expected.plugin not in (None, NetPlugin.NONE)

    @property
    def is_nvlink(self) -> bool | None:
        """Whether NVLink joins the GPUs of a node, as expected, else as NCCL found it."""
        if self.expected.gpu_transport is not None:
            return self.expected.gpu_transport is GpuTransport.NVLINK
        types = {one.what.intra_type for one in self.log.graphs}
        if any(one.what.is_available for one in self.log.nvls) or types & {"NVL", "NVB"}:
            return True
        return False if types - NVLINK_TYPES else None

    @property
    def rdma_lists(self) -> list[Seen[NicList]]:
        """The lists of RDMA NICs that are not empty."""
        return [one for one in self.log.nic_lists if one.what.network == "IB" and one.what.nics]

    def settings(self, *names: str) -> Iterator[tuple[Seen[LoggedSetting], str]]:
        """Variables by name that were set, each value once, and a word for where."""
        groups: dict[tuple[str, str], list[Seen[LoggedSetting]]] = {}
        for one in (*self.log.settings, *self._listed_settings()):
            if one.what.name in names:
                groups.setdefault((one.what.name, one.what.value), []).append(one)
        for each in groups.values():
            yield each[0], self.where(one.what.host for one in each)

    def unwanted(self, *names: str) -> Iterator[tuple[Seen[LoggedSetting], str]]:
        """The same without the values that are set there on purpose."""
        for one, where in self.settings(*names):
            if (one.what.name, one.what.value) not in self.expected.settings:
                yield one, where

    def _listed_settings(self) -> Iterator[Seen[LoggedSetting]]:
        """What nccl-tests' JSON lists of its environment."""
        for test in self.run.tests:
            for name, value in test.environment:
                yield Seen(LoggedSetting(host=None, name=name, value=value), test.line_no)

    def where(self, hosts: Iterable[str | None]) -> str:
        """The hosts of a finding for a sentence: nothing where it is all of them."""
        found = {host for host in hosts if host is not None}
        if not found or found >= set(self.log.hosts):
            return ""
        return f" on {named(found)}"


def logged(because: str, line_no: int | None, severity: Severity | None = None) -> Evidence:
    """Return what a run's file shows in a line; a run has no other subject than itself."""
    return Evidence("", because, severity=severity, line_no=line_no)


def named(names: Iterable[str]) -> str:
    """Names in natural order for a sentence: `n1, n2 and 9 more`."""
    ordered = sorted(set(names), key=natural_order)
    more = len(ordered) - _MOST_NAMED
    shown = ", ".join(ordered[:_MOST_NAMED])
    return f"{shown} and {more} more" if more > 0 else shown


def first_line(seen: Sequence[Seen[_Value]]) -> int | None:
    """The first line that shows one of them."""
    return min((one.line_no for one in seen), default=None)
