"""What a rule about a finished job is, and what its check sees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct

from hpckit.account.finding import Clause, Subject
from hpckit.account.stragglers import Straggler
from hpckit.account.usage import JUDGED_S, is_judged
from hpckit.account.values import GpuAccount, JobReport
from hpckit.core.findings import Rule


class Evidence(NamedTuple):
    """What a rule is about, such as `GPU3 on n013`, what was seen there, and what it cost.

    `remedy` stands for the rule's where what was seen calls for another.
    """

    about: Subject
    evidence: tuple[Clause, ...]
    wasted_gpu_s: float | None = None
    wasted_j: float | None = None
    remedy: str | None = None


class MeasuredJob(Struct, frozen=True, kw_only=True, dict=True):
    """A report without findings, and its stragglers."""

    report: JobReport
    stragglers: tuple[Straggler, ...] = ()

    @cached_property
    def judged(self) -> tuple[GpuAccount, ...]:
        """The GPUs of which enough is known to say something about how they were used."""
        return tuple(gpu for gpu in self.report.gpus if is_judged(gpu))

    @cached_property
    def judged_on(self) -> Mapping[tuple[int, str], Sequence[GpuAccount]]:
        """The same by incarnation and node: checks ask for each node."""
        return _by_node(self.judged)

    @property
    def long_held(self) -> tuple[GpuAccount, ...]:
        """The GPUs whose counters, which need no samples between, say something."""
        return tuple(gpu for gpu in self.report.gpus if gpu.held_s >= JUDGED_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRule(Rule[Callable[[MeasuredJob], Iterable[Evidence]]]):
    """A rule about a finished job; `threshold` says from when on it finds something, and why."""

    threshold: str


def by_node(gpus: Iterable[GpuAccount]) -> list[list[GpuAccount]]:
    """GPUs of one incarnation and node together."""
    return list(_by_node(gpus).values())


def _by_node(gpus: Iterable[GpuAccount]) -> dict[tuple[int, str], list[GpuAccount]]:
    groups: dict[tuple[int, str], list[GpuAccount]] = {}
    for gpu in gpus:
        groups.setdefault((gpu.restart, gpu.node), []).append(gpu)
    return groups
