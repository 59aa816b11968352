"""Questions to Slurm through its commands, each asked a bounded number of times."""

from __future__ import annotations

import os
from collections.abc import Sequence

from hpckit.adapters.clock import Clock
from hpckit.adapters.process import CommandResult, CommandRunner
from hpckit.errors import SchedulerUnreachable, ToolFailed, ToolTimeout
from hpckit.model.cluster import Partition, SlurmConfig
from hpckit.model.slurm import JobDetail, JobId, JobRecord
from hpckit.parse.sacct import (
    parse_sacct,
    parse_sacct_energy,
    sacct_argv,
    sacct_energy_argv,
    sacct_since_argv,
)
from hpckit.parse.sbatch import refusal_words
from hpckit.parse.scontrol_config import parse_scontrol_config, scontrol_config_argv
from hpckit.parse.scontrol_job import parse_scontrol_job, scontrol_job_argv
from hpckit.parse.sinfo import parse_sinfo, sinfo_argv
from hpckit.parse.slurm_text import accounting_disabled, is_unreachable
from hpckit.parse.squeue import parse_squeue, squeue_argv

_TIMEOUT_S = 30.0
_DETAIL_S = 5.0
_PAUSES_S = (1.0, 2.0)
_PATIENCE_S = 10.0
_IDS_AT_ONCE = 1000  # Linux takes 128 KiB in one argument, execve(2)
_NO_SUCH_JOB = "Invalid job id specified"
_NO_CONFIGURATION = "Could not establish a configuration source"


class SlurmCli:
    """squeue, sacct, scontrol and scancel, run by a CommandRunner.

    A command that fails to reach its daemon at once is asked again after 1 s and after 2 s; one
    that has tried for long itself (Slurm's own do for about twice SlurmctldTimeout) is not. Then
    SchedulerUnreachable is raised, and ToolFailed, ToolMissing or ParseError for what a second
    question would not mend.
    """

    def __init__(self, runner: CommandRunner, clock: Clock) -> None:
        self._runner = runner
        self._clock = clock

    def queue(self, cluster: str | None) -> Sequence[JobRecord]:
        """This user's jobs that slurmctld still holds: the living, and those that ended lately."""
        return parse_squeue(self.ask(squeue_argv(cluster)).stdout)

    def accounts(self, job_ids: Sequence[JobId], cluster: str | None) -> Sequence[JobRecord] | None:
        """What the accounts hold of these jobs, a thousand a question; None without accounts."""
        found: list[JobRecord] = []
        for at in range(0, len(job_ids), _IDS_AT_ONCE):
            records = self._accounts(sacct_argv(job_ids[at : at + _IDS_AT_ONCE], cluster))
            if records is None:
                return None
            found += records
        return found

    def accounts_since(self, since_s: float, cluster: str | None) -> Sequence[JobRecord] | None:
        """What the accounts hold of this user's jobs since then; None where none are kept."""
        return self._accounts(sacct_since_argv(str(os.getuid()), since_s, cluster))

    def energy_j(self, job_id: JobId, cluster: str | None) -> float | None:
        """Joules of a job's nodes by the accounts; None where these have none."""
        return parse_sacct_energy(self.ask(sacct_energy_argv(job_id, cluster)).stdout)

    def show(self, job_id: JobId, cluster: str | None) -> Sequence[JobRecord]:
        """What slurmctld holds of one job, also its exit code; nothing once it forgot the job."""
        argv = scontrol_job_argv(job_id, cluster)
        try:
            return parse_scontrol_job(self.ask(argv).stdout)
        except ToolFailed as error:
            if _NO_SUCH_JOB in error.stderr:
                return ()
            raise

    def config(self, cluster: str | None) -> SlurmConfig:
        """What the cluster is configured with."""
        return parse_scontrol_config(self.ask(scontrol_config_argv(cluster)).stdout)

    def partitions(self, cluster: str | None) -> Sequence[Partition]:
        """The partitions of the cluster and the kinds of nodes in them."""
        return parse_sinfo(self.ask(sinfo_argv(cluster)).stdout)

    def detail(self, job_id: JobId, cluster: str | None) -> Sequence[JobDetail]:
        """What the accounts hold of one job, with its steps; asked once, and for 5 s at most.

        Nothing where they did not answer. Raises ToolMissing, ToolTimeout, ParseError.
        """
        # Few commands ask this, and the shapes of JSON take as long to import as the rest of it.
        from hpckit.parse.sacct_json import parse_sacct_json, sacct_json_argv

        result = self._runner.run(sacct_json_argv(job_id, cluster), _DETAIL_S)
        return parse_sacct_json(result.stdout) if result.returncode == 0 else ()

    def _accounts(self, argv: Sequence[str]) -> Sequence[JobRecord] | None:
        try:
            return parse_sacct(self.ask(argv).stdout)
        except ToolFailed as error:
            if accounting_disabled(error.stderr):
                return None
            raise

    def ask(self, argv: Sequence[str]) -> CommandResult:
        """What a command answered. Raises SchedulerUnreachable, ToolFailed, ToolMissing."""
        begun_s, stderr = self._clock.now_s(), ""
        for pause_s in (0.0, *_PAUSES_S):
            if pause_s and self._clock.now_s() - begun_s > _PATIENCE_S:
                break
            self._clock.sleep(pause_s)
            try:
                result = self._runner.run(argv, _TIMEOUT_S)
            except ToolTimeout as error:
                raise SchedulerUnreachable(
                    f"{argv[0]} gave no answer within {error.timeout_s:g} s",
                    hint=_hint(argv[0], ""),
                ) from error
            stderr = result.stderr
            if result.returncode == 0:
                return result
            if not is_unreachable(stderr):
                raise ToolFailed(argv, result.returncode, stderr)
        raise SchedulerUnreachable(
            f"{argv[0]} did not reach Slurm: {refusal_words(stderr)}", hint=_hint(argv[0], stderr)
        )


def _hint(program: str, stderr: str) -> str:
    if _NO_CONFIGURATION in stderr:
        return "this host has no configuration of Slurm: work on a login node of the cluster"
    daemon = "slurmdbd" if program == "sacct" else "slurmctld"
    return f"{daemon} may be restarting: ask again in a minute, or `scontrol ping`"
