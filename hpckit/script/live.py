"""What is known of a cluster before a submission, and one job in one of its partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from hpckit.core.units import parse_slurm_mem_bytes, parse_slurm_time_s
from hpckit.core.values import dataclass
from hpckit.script.plan import LaunchPlan
from hpckit.slurm.accounts import AccountRules, Association, KnownQos
from hpckit.slurm.release import SlurmVersion
from hpckit.slurm.request import Asked, Request
from hpckit.slurm.values import (
    ClusterView,
    NodeGroup,
    NodesInService,
    Partition,
    PartitionRules,
    Reservation,
)
from hpckit.spec.site import SiteSpec


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
    `are_accounts_nested`: a partition for an account is for those below it (from 23.11 on).
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
    are_accounts_nested: bool = False
    default_mem_per_cpu_mib: int | None = None
    default_mem_per_node_mib: int | None = None

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


_MIB: Final = 1024**2


def cluster_of_site(site: SiteSpec) -> Cluster:
    """Return what a site file says of its cluster: there may be other partitions."""
    partitions = [
        Partition(
            name=name,
            is_default=one.default,
            is_up=True,
            time_limit_s=None if one.time_limit is None else parse_slurm_time_s(one.time_limit),
            groups=(
                NodeGroup(
                    nodes=one.nodes,
                    cpus=one.cpus_per_node,
                    mem_mib=None
                    if one.mem_per_node is None
                    else parse_slurm_mem_bytes(one.mem_per_node) // _MIB,
                    gpus=one.gpus_per_node,
                    gpu_types=() if one.gpu_type is None else (one.gpu_type,),
                    features=one.features,
                ),
            ),
        )
        for name, one in site.partitions.items()
    ]
    return replace(cluster_of(partitions), are_all_listed=False, may_route=True)


_NESTS_ACCOUNTS: Final = SlurmVersion(23, 11)
_SHOWS_ALL_NODES: Final = SlurmVersion(23, 2)
"""Until then sinfo leaves out CLOUD nodes that are powered down (slurm.conf(5), PrivateData)."""


def cluster_seen(view: ClusterView) -> Cluster:
    """Return a cluster of which a look at it is known alone."""
    config = view.config
    version = config.version
    return replace(
        cluster_of(view.partitions),
        are_nodes_certain=version is not None and version >= _SHOWS_ALL_NODES,
        are_accounts_nested=version is None or version >= _NESTS_ACCOUNTS,
        default_mem_per_cpu_mib=config.default_mem_per_cpu_mib,
        default_mem_per_node_mib=config.default_mem_per_node_mib,
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
    def lineage(self) -> frozenset[str]:
        """The account that pays, and those above it."""
        account, rules = self.account, self.cluster.accounts
        if account is None:
            return frozenset()
        return frozenset((account,) if rules is None else rules.lineage(account))

    @property
    def accounts(self) -> frozenset[str]:
        """The accounts of which one lets the job into a partition."""
        account = self.account
        is_alone = account is not None and not self.cluster.are_accounts_nested
        return frozenset((account,)) if is_alone and account else self.lineage

    def has_flag(self, flag: str) -> bool | None:
        """Return whether the job's QOS has a flag; None where that is not known."""
        known, qos = self.cluster.known_qos, self.qos
        if known is None:
            return None if self.request.text("qos") else False
        return flag in known.flags.get(qos or "", ())

    @property
    def chain(self) -> tuple[Association, ...]:
        """The user's association and the accounts above it."""
        accounts = self.cluster.accounts
        return accounts.chain(self.account, self.partition.name) if accounts else ()

    @property
    def is_exclusive(self) -> bool:
        """Whether the job gets whole nodes."""
        return self.request.is_exclusive or self.partition.is_exclusive

    @property
    def at_least(self) -> Scene:
        """The job on the fewest nodes that it gets: one that names none, the partition's fewest."""
        fewest = self.partition.min_nodes or 1
        is_raised = fewest > self.request.nodes and not self.request.says_nodes
        if not is_raised or self.has_flag("PartitionMinNodes") is not False:
            return self
        return replace(self, request=self.request.on(fewest))

    @property
    def at_most(self) -> Scene:
        """The job on as many nodes as it may get of a range; Slurm counts them where it can."""
        most = min(
            self.request.most_nodes,
            self.partition.max_nodes or self.request.most_nodes,
            self.partition.total_nodes or self.request.most_nodes,
        )
        return replace(self, request=self.request.on(most)) if most > self.request.nodes else self

    @property
    def mem_per_node_mib(self) -> int | None:
        """The memory of a node in MiB, as asked for or by default; None where nothing says it."""
        request = self.request
        if not request.says_mem:
            return self._default_mem_mib(1, self._node_cpus)
        if request.wants_all_mem:
            return self._of_a_node(lambda group: group.mem_mib) or None
        of_a_cpu = request.mem_per_cpu_mib if self.is_exclusive else None
        return of_a_cpu * self._node_cpus if of_a_cpu else request.mem_per_node_mib

    def tres(self) -> dict[str, int]:
        """What Slurm counts, with whole nodes where the job gets them, and the default memory."""
        counts, nodes = self.request.tres(), self.request.nodes
        if self.is_exclusive:
            counts["cpu"] = max(counts["cpu"], self._node_cpus * nodes)
            gpus = self._of_a_node(lambda group: group.gpus)
            if gpus:
                counts["gres/gpu"] = max(counts.get("gres/gpu", 0), gpus * nodes)
        of_a_cpu = self.request.mem_per_cpu_mib
        mem_mib = of_a_cpu * counts["cpu"] if of_a_cpu else None
        if not self.request.says_mem:
            mem_mib = self._default_mem_mib(nodes, counts["cpu"])
        counts.update({} if mem_mib is None else {"mem": mem_mib})
        return counts

    def _default_mem_mib(self, nodes: int, cpus: int) -> int | None:
        rules, cluster = self.partition, self.cluster
        of_a_node, of_a_cpu = rules.default_mem_per_node_mib, rules.default_mem_per_cpu_mib
        if of_a_node is None and of_a_cpu is None:
            of_a_node = cluster.default_mem_per_node_mib
            of_a_cpu = cluster.default_mem_per_cpu_mib
        if of_a_node:
            return of_a_node * nodes
        return of_a_cpu * cpus if of_a_cpu else None

    @property
    def _node_cpus(self) -> int:
        """The CPUs of a node that the job gets, the fewest that do."""
        least = self.request.cpus_per_node
        return max(least, self._of_a_node(lambda group: group.cpus)) if self.is_exclusive else least

    def _of_a_node(self, amount: Callable[[NodeGroup], int | None]) -> int:
        """The least amount that a node of the partition has, 0 where it is not known."""
        partition = self.cluster.nodes.get(self.partition.name)
        return min((amount(one) or 0 for one in partition.groups), default=0) if partition else 0


def request_of_plan(plan: LaunchPlan) -> Request:
    """Return what sbatch is asked for by a plan's directives."""
    options = {option.name: Asked(value=option.value) for option in plan.directives}
    return Request(options=options)
