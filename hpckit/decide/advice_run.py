"""The measured run that advice is about: what its rules ask of a report, once."""

from __future__ import annotations

from dataclasses import dataclass

from hpckit.model.account import GpuAccount, JobReport, NodeAccount
from hpckit.model.job import JobSpec
from hpckit.units import parse_slurm_time_s

LEAST_SAVING_FRAC = 0.2
"""Below this a change is not worth a person's look: runs of one job differ as much by node
(20 to 30 % on LUMI, facts of BSC-ES/autosubmit#1455)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """A report and the effective job that it is about."""

    report: JobReport
    spec: JobSpec

    @property
    def may_shrink(self) -> bool:
        """Whether it shows what a whole run needs: it completed, and is not one task of many."""
        return self.report.job.state == "COMPLETED" and self.spec.slurm.array is None

    @property
    def has_whole_nodes(self) -> bool:
        """Whether the nodes are its own whatever it asks of them (snakemake-executor-slurm#147)."""
        return bool(self.spec.resources.exclusive)

    @property
    def elapsed_s(self) -> float:
        """The time of all incarnations: one that took over from a checkpoint needs both.

        Accounts begin after what a script does first (staging, environments) and end before what
        it does last, so the job's own start and end count where they are known: of one run both,
        of several its end, as Slurm tells the start of the last alone.
        """
        report, runs = self.report, self.report.incarnations
        measured_s = sum(run.ended_s - run.started_s for run in runs)
        if len(runs) < 2:  # noqa: PLR2004  not requeued
            return max(measured_s, report.ended_s - report.started_s)
        return measured_s + max(0.0, report.ended_s - max(run.ended_s for run in runs))

    @property
    def limit_s(self) -> float | None:
        """The time limit that it ran under."""
        said = self.spec.resources.time_limit
        return self.report.job.time_limit_s if said is None else float(parse_slurm_time_s(said))

    @property
    def last_restart(self) -> int:
        """The incarnation that ended as the job did."""
        return max(
            (
                *(one.restart for one in self.report.incarnations),
                *(one.restart for one in self.report.nodes),
                *(one.restart for one in self.report.gpus),
            ),
            default=0,
        )

    @property
    def gpus(self) -> tuple[GpuAccount, ...]:
        """The GPUs of the last incarnation."""
        last = self.last_restart
        return tuple(gpu for gpu in self.report.gpus if gpu.restart == last)

    @property
    def nodes(self) -> tuple[NodeAccount, ...]:
        """The nodes of the last incarnation that left an account."""
        last = self.last_restart
        return tuple(
            node
            for node in self.report.nodes
            if node.restart == last and node.started_s is not None
        )

    @property
    def has_all_nodes(self) -> bool:
        """Whether every node of the job left an account."""
        return len({node.node for node in self.nodes}) >= self.spec.resources.nodes


def most_memory_bytes(node: NodeAccount) -> int | None:
    """What a node's memory has never exceeded; None where samples alone tell, which miss peaks."""
    if node.mem_kernel_peak_bytes is None:
        return None
    return max(node.mem_kernel_peak_bytes, node.mem_peak_bytes or 0)


def is_worth_it(now: float, proposed: float, least_frac: float = LEAST_SAVING_FRAC) -> bool:
    """Whether so much is saved that a change is worth it."""
    return now > 0 and (now - proposed) / now >= least_frac
