"""Questions to Slurm through its commands, each asked a bounded number of times."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from hpckit.core.document import convert
from hpckit.core.errors import (
    AdapterError,
    ConfigError,
    ParseError,
    SchedulerUnreachable,
    StorageFailed,
    ToolFailed,
    ToolTimeout,
)
from hpckit.core.fields import to_tree
from hpckit.core.files import Clock, write_private
from hpckit.core.late import Late
from hpckit.core.process import CommandResult, CommandRunner
from hpckit.core.trust import make_private, must_be_ours
from hpckit.slurm.accounts import (
    AccountRules,
    KnownQos,
    assoc_mgr_argv,
    own_qos_argv,
    parse_assoc_mgr,
    parse_own_qos,
    parse_qos,
    qos_argv,
)
from hpckit.slurm.conf import cluster_name
from hpckit.slurm.sacct import (
    parse_sacct,
    parse_sacct_energy,
    parse_sacct_json,
    sacct_argv,
    sacct_energy_argv,
    sacct_json_argv,
    sacct_since_argv,
)
from hpckit.slurm.sbatch import ExpectedStart, parse_test_only, refusal_words
from hpckit.slurm.scontrol import (
    mpi_types_argv,
    parse_has_pyxis,
    parse_licenses,
    parse_mpi_types,
    parse_partitions,
    parse_reservations,
    parse_scontrol_config,
    parse_scontrol_job,
    scontrol_config_argv,
    scontrol_job_argv,
    show_argv,
    step_options_argv,
)
from hpckit.slurm.squeue import (
    in_service_argv,
    parse_in_service,
    parse_planned,
    parse_sinfo,
    parse_squeue,
    planned_argv,
    sinfo_argv,
    squeue_argv,
)
from hpckit.slurm.text import accounting_disabled, is_unreachable
from hpckit.slurm.values import (
    ClusterView,
    JobDetail,
    JobId,
    JobRecord,
    NodesInService,
    Partition,
    PartitionRules,
    PlannedJob,
    Reservation,
    SlurmConfig,
)

if TYPE_CHECKING:
    import hashlib
    import socket
else:
    hashlib = Late("hashlib")
    socket = Late("socket")

_TIMEOUT_S = 30.0
_DETAIL_S = 5.0
_PAUSES_S = (1.0, 2.0)
_PATIENCE_S = 10.0
_IDS_AT_ONCE = 1000  # Linux takes 128 KiB in one argument, execve(2)
_NO_SUCH_JOB = "Invalid job id specified"
_NO_CONFIGURATION = "Could not establish a configuration source"


def attempts(clock: Clock, pauses_s: Sequence[float]) -> Iterator[None]:
    """Yield once, and once after each pause unless those before took over ten seconds."""
    begun_s = clock.now_s()
    for pause_s in (0.0, *pauses_s):
        if pause_s and clock.now_s() - begun_s > _PATIENCE_S:
            return
        clock.sleep(pause_s)
        yield


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

    def mpi_types(self) -> tuple[str, ...]:
        """Return the plugins that `srun --mpi` takes here, none where it does not say them."""
        try:
            result = self._runner.run(mpi_types_argv(), _TIMEOUT_S)
        except AdapterError:
            return ()
        return parse_mpi_types(result.stdout + result.stderr)

    def has_pyxis(self) -> bool | None:
        """Return whether srun starts containers by Pyxis here, None where it does not say."""
        try:
            result = self._runner.run(step_options_argv(), _TIMEOUT_S)
        except AdapterError:
            return None
        return parse_has_pyxis(result.stdout) if result.stdout else None

    def in_service(self, cluster: str | None) -> Mapping[str, NodesInService]:
        """The nodes of each partition that may take jobs: neither down nor drained."""
        return parse_in_service(self.ask(in_service_argv(cluster)).stdout)

    def planned_jobs(self, cluster: str | None) -> Sequence[PlannedJob]:
        """The jobs that wait and for which nodes are planned, as far as they may be seen."""
        return parse_planned(self.ask(planned_argv(cluster)).stdout)

    def partition_rules(self, cluster: str | None) -> Sequence[PartitionRules]:
        """Who may use which partition, and how much of it."""
        return parse_partitions(self.ask(show_argv("partition", cluster)).stdout)

    def reservations(self, cluster: str | None) -> Sequence[Reservation]:
        """The reservations, those of maintenance too."""
        return parse_reservations(self.ask(show_argv("reservation", cluster)).stdout)

    def begun_limits(self, user: str | None, cluster: str | None) -> AbstractContextManager[None]:
        """Start the questions about partitions, nodes and reservations, to be asked in the block.

        With `user`, that about its accounts too.
        """
        return self._runner.begun(
            show_argv("partition", cluster),
            in_service_argv(cluster),
            *((assoc_mgr_argv(user, cluster),) if user is not None else ()),
            show_argv("reservation", cluster),
        )

    def licenses(self, cluster: str | None) -> Mapping[str, tuple[int, int]]:
        """The licenses by name: all there are, and how many are free."""
        return parse_licenses(self.ask(show_argv("licenses", cluster)).stdout)

    def account_rules(self, user: str, account: str | None, cluster: str | None) -> AccountRules:
        """The user's associations and the QOS, with what is in use of their limits now."""
        return parse_assoc_mgr(self.ask(assoc_mgr_argv(user, cluster)).stdout, user, account)

    def known_qos(self, user: str, cluster: str | None, seen_s: float) -> KnownQos:
        """What slurmdbd says of the user's QOS, and of QOS that the user has not used yet."""
        limits, flags = parse_qos(self.ask(qos_argv()).stdout)
        own = parse_own_qos(self.ask(own_qos_argv(user, cluster)).stdout)
        return KnownQos(seen_s=seen_s, own=own, limits=limits, flags=flags)

    def try_script(
        self, script: Path, words: Sequence[str], environment: Mapping[str, str]
    ) -> tuple[ExpectedStart | None, str]:
        """When `sbatch WORDS SCRIPT` would start its job; and without an answer Slurm's words.

        Nothing is queued. `environment` is that of the sbatch to come: its variables count.
        Raises ToolMissing, ToolTimeout.
        """
        readable = {**environment, "TZ": "UTC", "LC_ALL": "C"}
        argv = ("sbatch", "--test-only", *words, str(script))
        result = self._runner.run(argv, _TIMEOUT_S, readable)
        said = parse_test_only(result.stderr) if result.returncode == 0 else None
        return said, "" if result.returncode == 0 else refusal_words(result.stderr)

    def detail(self, job_id: JobId, cluster: str | None) -> Sequence[JobDetail]:
        """What the accounts hold of one job, with its steps; asked once, and for 5 s at most.

        Nothing where they did not answer. Raises ToolMissing, ToolTimeout, ParseError.
        """
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
        stderr = ""
        for _ in attempts(self._clock, _PAUSES_S):
            try:
                result = self._runner.run(argv, _TIMEOUT_S)
            except ToolTimeout as error:
                raise SchedulerUnreachable(
                    f"{argv[0]} did not answer within {error.timeout_s:g} s",
                    hint=_hint(argv[0], ""),
                ) from error
            stderr = result.stderr
            if result.returncode == 0:
                return result
            if not is_unreachable(stderr):
                raise ToolFailed(argv, result.returncode, stderr)
        raise SchedulerUnreachable(
            f"{argv[0]} cannot reach Slurm: {refusal_words(stderr)}", hint=_hint(argv[0], stderr)
        )


def _hint(program: str, stderr: str) -> str:
    if _NO_CONFIGURATION in stderr:
        return "this host has no Slurm configuration: use a login node of the cluster"
    daemon = "slurmdbd" if program == "sacct" else "slurmctld"
    return f"{daemon} may be restarting: try again in a minute, or check with `scontrol ping`"


_FRESH_S = 3600.0


class SeenAt(Protocol):
    """An answer of Slurm that is kept, with the time at which it was given."""

    @property
    def seen_s(self) -> float:
        """Seconds since the epoch."""


Kept = TypeVar("Kept", bound=SeenAt)


class SlurmProbe:
    """Asks scontrol for the configuration and sinfo for the partitions, at most once an hour.

    The answers lie in `folder`, one file a cluster, so that a thousand submissions ask once. A
    file that cannot be read or written costs only the questions.
    """

    def __init__(
        self, slurm: SlurmCli, folder: Path, clock: Clock, environment: Mapping[str, str]
    ) -> None:
        self._slurm = slurm
        self._folder = folder
        self._clock = clock
        # Hosts that share a home folder need not share a Slurm: without a name, each asks itself.
        self._here = (
            environment.get("SLURM_CONF", ""),
            cluster_name(environment) or socket.gethostname(),
        )

    def has_pyxis(self) -> bool | None:
        """Return whether srun starts containers by Pyxis here, None where it does not say."""
        return self._slurm.has_pyxis()

    def look(
        self, cluster: str | None, *, fresh: bool = False, needs_partitions: bool = True
    ) -> ClusterView:
        """The cluster of this name, None for the one that is here; `fresh` asks in any case.

        Unless it `needs_partitions`, nobody has to answer for them. Raises SchedulerUnreachable,
        ToolFailed, ToolMissing, ParseError.
        """
        known = None if fresh else self.remembered(cluster, "", ClusterView)
        if known is not None:
            return known
        config, unread = self._slurm.config(cluster), None
        if cluster is None and not config.has_mpi:
            config = replace(config, mpi_types=self._slurm.mpi_types())
        try:
            partitions = tuple(self._slurm.partitions(cluster))
        except (AdapterError, ParseError) as error:
            if needs_partitions and isinstance(error, SchedulerUnreachable):
                raise
            partitions, unread = (), error.message
        view = ClusterView(
            config=config,
            partitions=partitions,
            seen_s=self._clock.now_s(),
            unread=unread,
        )
        if unread is None:
            self.remember(cluster, "", view)
        return view

    def in_service(self, cluster: str | None) -> Mapping[str, NodesInService]:
        """The nodes of each partition that may take jobs, asked in any case."""
        return self._slurm.in_service(cluster)

    def remembered(self, cluster: str | None, what: str, kind: type[Kept]) -> Kept | None:
        """Return what `remember` kept of the cluster in the last hour, None without."""
        path = self._path(cluster, what)
        try:
            must_be_ours(path)
            known = convert(json.loads(path.read_bytes()), kind, str(path))
        except (OSError, StorageFailed, ConfigError, ValueError, RecursionError):
            return None
        # One from the future is of a clock that was wrong.
        return known if 0 <= self._clock.now_s() - known.seen_s < _FRESH_S else None

    def remember(self, cluster: str | None, what: str, answer: SeenAt) -> None:
        """Keep an answer about the cluster; one that cannot be written is asked again."""
        path = self._path(cluster, what)
        with contextlib.suppress(OSError, StorageFailed):
            make_private(path.parent)
            write_private(path, json.dumps(to_tree(answer)).encode())

    def _path(self, cluster: str | None, what: str) -> Path:
        key = "\0".join((*self._here, cluster or "", *([what] if what else ())))
        return (
            self._folder / f"{hashlib.sha256(key.encode(errors='replace')).hexdigest()[:16]}.json"
        )
