"""What was asked of a cluster before a submission, and one job in one of its partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from hpckit.slurm.accounts import AccountRules, Association, KnownQos
from hpckit.slurm.release import SlurmVersion
from hpckit.slurm.request import Request
from hpckit.slurm.values import ClusterView, NodesInService, Partition, PartitionRules, Reservation


@dataclass(frozen=True, slots=True, kw_only=True)
class Enforced:
    """What the cluster holds jobs to: `AccountingStorageEnforce` of slurm.conf."""

    associations: bool = False
    limits: bool = False
    qos: bool = False
    safe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What was asked of a cluster before a submission; None is what it did not tell.

    `are_all_listed`: no other partition is there; `are_nodes_certain`: nor are other nodes.
    `may_route`: a job that names no partition may go elsewhere than to the default one.
    `nodes` are the kinds of nodes by partition, `in_service` how many of them are neither down nor
    drained, `licenses` by name all there are and those that
    are free, `known_qos` what slurmdbd says of QOS.
    """

    partitions: Sequence[PartitionRules] = ()
    nodes: Mapping[str, Partition] = field(default_factory=dict)
    in_service: Mapping[str, NodesInService] = field(default_factory=dict)
    accounts: AccountRules | None = None
    enforced: Enforced = field(default_factory=Enforced)
    reservations: Sequence[Reservation] | None = None
    licenses: Mapping[str, tuple[int, int]] | None = None
    known_qos: KnownQos | None = None
    are_all_listed: bool = True
    are_nodes_certain: bool = True
    may_route: bool = False

    def knows_nodes_of(self, partition: str) -> bool:
        """Return whether all nodes of a partition are known."""
        seen = self.nodes.get(partition)
        rules = next((one for one in self.partitions if one.name == partition), None)
        if self.are_nodes_certain or seen is None or rules is None:
            return self.are_nodes_certain
        return 0 < rules.total_nodes == sum(group.nodes for group in seen.groups)


def cluster_of(partitions: Sequence[Partition]) -> Cluster:
    """Return a cluster of which the partitions and their nodes are known alone."""
    rules = (
        PartitionRules(
            name=one.name,
            is_default=one.is_default,
            state="UP" if one.is_up else "DOWN",
            max_time_s=one.time_limit_s,
        )
        for one in partitions
    )
    return Cluster(partitions=tuple(rules), nodes={one.name: one for one in partitions})


_SHOWS_ALL_NODES: Final = SlurmVersion(23, 2)
"""Until then sinfo leaves out CLOUD nodes that are powered down (slurm.conf(5), PrivateData)."""


def cluster_seen(view: ClusterView) -> Cluster:
    """Return a cluster of which a look at it is known alone."""
    config = view.config
    return replace(
        cluster_of(view.partitions),
        are_nodes_certain=config.version is not None and config.version >= _SHOWS_ALL_NODES,
        may_route=config.job_submit_plugins is not None,
        enforced=Enforced(
            associations="associations" in config.enforces,
            limits="limits" in config.enforces or "safe" in config.enforces,
            qos="qos" in config.enforces,
            safe="safe" in config.enforces,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Who submits: the name, and those of the groups."""

    name: str
    groups: frozenset[str] = frozenset()


NOBODY = User(name="")
"""Who is not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One job in one partition, as the rules see it."""

    request: Request
    partition: PartitionRules
    cluster: Cluster
    user: User
    now_s: float

    @property
    def account(self) -> str | None:
        """The account that pays."""
        said, accounts = self.request.text("account"), self.cluster.accounts
        return said if said or accounts is None else accounts.default_account

    @property
    def qos(self) -> str | None:
        """The job's QOS, None where it is not known."""
        said, known = self.request.text("qos"), self.cluster.known_qos
        if said is not None or known is None:
            return said
        own = known.own_qos(self.account, self.partition.name)
        if own is None:
            return None
        # Without a default of its own an association has that of slurmdbd.
        return own.default_qos or ("normal" if "normal" in own.qos else None)

    @property
    def time_s(self) -> int | None:
        """How long the job runs at most; None without a limit."""
        return self.request.time_s or self.partition.default_time_s or self.partition.max_time_s

    @property
    def chain(self) -> tuple[Association, ...]:
        """The user's association and the accounts above it."""
        accounts = self.cluster.accounts
        return accounts.chain(self.account, self.partition.name) if accounts else ()

    def tres(self) -> dict[str, int]:
        """What Slurm counts, with the partition's default memory and its whole nodes."""
        counts = self.request.tres()
        rules = self.partition
        if "mem" not in counts and self.request.text("mem") is None:
            if rules.default_mem_per_node_mib:
                counts["mem"] = rules.default_mem_per_node_mib * counts["node"]
            elif rules.default_mem_per_cpu_mib:
                counts["mem"] = rules.default_mem_per_cpu_mib * counts["cpu"]
        return counts
