"""What is asked of a cluster before a submission, beside its kinds of nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import NamedTuple, TypeVar

from hpckit.core.errors import AdapterError, ParseError, SchedulerUnreachable
from hpckit.core.files import Clock
from hpckit.core.findings import Level, Notice
from hpckit.core.values import dataclass
from hpckit.script.live import NOBODY, Cluster, User, cluster_seen
from hpckit.slurm.accounts import AccountRules, KnownQos, with_unused
from hpckit.slurm.ask import SlurmCli, SlurmProbe
from hpckit.slurm.request import Request
from hpckit.slurm.values import ClusterView, SlurmConfig

Answer = TypeVar("Answer")


class Known(NamedTuple):
    """What a cluster said before a submission, of whom and when, and what it did not say."""

    cluster: Cluster
    user: User
    now_s: float
    unsaid: tuple[Notice, ...] = ()


class Told(NamedTuple):
    """What the cluster of a request says of it, and its configuration; None where none answered."""

    known: Known | None
    config: SlurmConfig | None
    notes: tuple[Notice, ...]


AskLimits = Callable[[ClusterView, Request, str | None], Known]


def known_by_partitions(view: ClusterView, _request: Request, _cluster: str | None) -> Known:
    """Return what a look at a cluster tells of its partitions."""
    return Known(cluster_seen(view), NOBODY, view.seen_s)


@dataclass(slots=True, kw_only=True)
class LimitsProbe:
    """Asks a cluster for what may keep a job of a user from starting.

    The partitions and their nodes, the accounts and the reservations are asked of slurmctld, which
    has them in memory, and the licenses where the job wants some; slurmdbd is asked twice an hour.
    """

    slurm: SlurmCli
    probe: SlurmProbe
    clock: Clock
    user: User

    def ask(self, view: ClusterView, request: Request, cluster: str | None) -> Known:
        """Return what the cluster says. Raises SchedulerUnreachable."""
        asking = _Asking(self.slurm, self.probe, self.clock.now_s(), self.user, cluster)
        known = asking.cluster_for(view, request)
        return Known(known, self.user, asking.now_s, tuple(asking.unsaid))

    def told(self, request: Request, *, fresh: bool = False) -> Told:
        """Return what the request's own cluster says; `fresh` asks for what is remembered too."""
        cluster = request.text("clusters")
        if cluster and ("," in cluster or cluster == "all"):
            return _unasked(f"with --clusters={cluster}, sbatch chooses the cluster")
        try:
            view = self.probe.look(cluster, fresh=fresh)
            known = self.ask(view, request, cluster)
        except (AdapterError, ParseError) as error:
            return _unasked(error.message)
        return Told(known, view.config, known.unsaid)


def _unasked(why: str) -> Told:
    text = f"cluster limits not checked: {why}"
    return Told(None, None, (Notice(level=Level.NOTE, subject="checks", text=text),))


@dataclass(slots=True)
class _Asking:
    slurm: SlurmCli
    probe: SlurmProbe
    now_s: float
    user: User
    cluster: str | None
    unsaid: list[Notice] = field(default_factory=list)

    def cluster_for(self, view: ClusterView, request: Request) -> Cluster:
        slurm, cluster, seen = self.slurm, self.cluster, cluster_seen(view)
        is_held = seen.enforced.associations
        with slurm.begun_limits(self.user.name if is_held else None, cluster):
            known = self._known_qos(view) if is_held else None
            licenses = None
            if request.licenses:
                licenses = self._told("licenses", lambda: slurm.licenses(cluster))
            rules = self._told("partitions", lambda: slurm.partition_rules(cluster))
            return replace(
                seen,
                partitions=seen.partitions if rules is None else rules,
                in_service=self._told("nodes", lambda: slurm.in_service(cluster)) or {},
                accounts=self._accounts(request, known) if is_held else None,
                reservations=self._told("reservations", lambda: slurm.reservations(cluster)),
                licenses=licenses,
                known_qos=known,
            )

    def _accounts(self, request: Request, known: KnownQos | None) -> AccountRules | None:
        account = request.text("account")
        rules = self._told(
            "limits", lambda: self.slurm.account_rules(self.user.name, account, self.cluster)
        )
        return rules if rules is None or known is None else with_unused(rules, known)

    def _known_qos(self, view: ClusterView) -> KnownQos | None:
        what = f"qos {self.user.name}"
        known = self.probe.remembered(self.cluster, what, KnownQos)
        # Whoever looks at the cluster afresh wants this afresh too.
        if known is None or known.seen_s < view.seen_s:
            cluster = self.cluster or view.config.cluster_name
            known = self._told(
                "QOS", lambda: self.slurm.known_qos(self.user.name, cluster, self.now_s)
            )
            if known is not None:
                self.probe.remember(self.cluster, what, known)
        return known

    def _told(self, what: str, question: Callable[[], Answer]) -> Answer | None:
        try:
            return question()
        except SchedulerUnreachable:
            raise
        except (AdapterError, ParseError) as error:
            text = f"{what} not checked: {error.message}"
            self.unsaid.append(Notice(level=Level.NOTE, subject="checks", text=text))
            return None
