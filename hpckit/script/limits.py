"""Limits of QOS and associations, with what is in use of them: for ever too much, or for now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Final, NamedTuple

from hpckit.core.findings import Evidence, Severity
from hpckit.core.units import counted, format_slurm_time
from hpckit.core.values import dataclass
from hpckit.script.live import Scene
from hpckit.slurm.accounts import Amount, Limits
from hpckit.slurm.request import CPU_OPTIONS, GPU_OPTIONS, MEM_OPTIONS
from hpckit.slurm.text import array_ranges

_MIB_PER_GIB: Final = 1024


def size_words(mib: int) -> str:
    """Return a size in MiB as Slurm takes it, in GiB where that is whole."""
    return f"{mib // _MIB_PER_GIB}G" if mib % _MIB_PER_GIB == 0 else f"{mib}M"


class _Source(NamedTuple):
    """Whose limits these are: `scope` is that of Slurm's reasons."""

    scope: str
    words: str
    limits: Limits


_OVERRULED: Final = {
    "MaxJobs": ("MaxJobsPU", "MaxJobsPA"),
    "MaxSubmitJobs": ("MaxSubmitJobsPU", "MaxSubmitJobsPA"),
}
"""The key of an association → those of a QOS that overrule it."""


def _sources(scene: Scene) -> Iterator[_Source]:
    """Those that bind a job, the first that has a limit counts. Source: acct_policy.c."""
    accounts = scene.cluster.accounts
    if accounts is None:
        return
    in_turn = [
        (scene.partition.qos, f"QOS {scene.partition.qos} of partition {scene.partition.name}"),
        (scene.qos, f"QOS {scene.qos}"),
    ]
    for name, words in reversed(in_turn) if scene.has_flag("OverPartQOS") else in_turn:
        if name is not None and name in accounts.qos:
            yield _Source("QOS", words, accounts.qos[name])
    for number, association in enumerate(scene.chain):
        limits = association.limits
        if number:
            # Limits of a job are handed down to the user's own association already.
            limits = Limits(
                tres={key: one for key, one in limits.tres.items() if key.startswith("Grp")},
                counts={key: one for key, one in limits.counts.items() if key.startswith("Grp")},
            )
        whose = f"account {association.account}"
        yield _Source("Assoc", whose if number else f"{scene.user.name} in {whose}", limits)


def _binding(
    scene: Scene, kind: Callable[[Limits], Mapping[str, Amount]]
) -> Iterator[tuple[_Source, str, Amount]]:
    """Yield each limit that counts: of a QOS before those of associations, each of the latter."""
    by_qos: set[str] = set()
    for source in _sources(scene):
        for key, amount in kind(source.limits).items():
            if not by_qos.isdisjoint((key, *_OVERRULED.get(key, ()))):
                continue
            if source.scope == "QOS":
                by_qos.add(key)
            yield source, key, amount


class _Kind(NamedTuple):
    """A kind of limits of TRES: Slurm's reason, and whose jobs it counts."""

    reason: str
    words: str


_BOUNDS: Final[Mapping[str, _Kind]] = {
    "MaxTRESPJ": _Kind("Max{}PerJob", "per job"),
    "MaxTRESPN": _Kind("Max{}PerNode", "per node of a job"),
    "MinTRESPJ": _Kind("Min{}", "per job"),
    "MaxTRESMinsPJ": _Kind("Max{}MinutesPerJob", "per job"),
    "MaxTRESPU": _Kind("Max{}PerUser", "for all jobs of a user"),
    "MaxTRESPA": _Kind("Max{}PerAccount", "for all jobs of an account"),
    "GrpTRES": _Kind("Grp{}", "for all jobs together"),
    "GrpTRESMins": _Kind("Grp{}Minutes", "for all jobs together"),
    "GrpTRESRunMins": _Kind("Grp{}RunMinutes", "for all running jobs together"),
}
_UNITS: Final = {"cpu": "CPUs", "mem": "of memory", "node": "nodes", "gpu": "GPUs"}
_NAMES: Final = {"cpu": "Cpu", "mem": "Memory", "node": "Node", "billing": "Billing"}


def tres_limits(scene: Scene) -> Iterator[Evidence]:
    """Yield the limits of TRES that are against a job, for ever or for now."""
    if not scene.cluster.enforced.limits:
        return
    least, most = scene.at_least, scene.at_least.at_most
    for key in _BOUNDS:

        def of_kind(limits: Limits, key: str = key) -> Mapping[str, Amount]:
            return limits.tres.get(key, {})

        scope = most if key in ("MinTRESPJ", "MaxTRESPN") else least
        for source, name, amount in _binding(scene, of_kind):
            found = list(_Bound(scope, key, source, name, amount).evidence())
            # Of nodes themselves Slurm takes no more than the limit. Source: acct_policy.c.
            if not found and most is not scope and name != "node":
                found = list(_Bound(most, key, source, name, amount).of_a_range(least))
            yield from found


@dataclass(frozen=True, slots=True)
class _Bound:
    """One limit of one TRES, and the job beside it."""

    scene: Scene
    key: str
    source: _Source
    name: str
    amount: Amount

    def asked(self) -> int | None:
        """What of the job counts here; None where nothing does."""
        counts, request = self.scene.tres(), self.scene.request
        asked = counts.get(self.name, 0)
        if self.key == "MinTRESPJ":
            # Of what a job may get more of than it asks for, Slurm counts what it gets.
            is_certain = self.name in counts and not self.scene.is_exclusive
            return asked if is_certain or self.name == "gres/gpu" else None
        if not asked:
            return None
        if self.key == "MaxTRESPN":
            if not request.says_nodes and not self.name.startswith("gres/"):
                return request.cpus_per_node if self.name == "cpu" else None
            return -(-asked // counts["node"])
        if self.is_of_minutes:
            # Without a time limit Slurm may give the job the longest that fits.
            default_s = self.scene.partition.default_time_s
            time_s = request.time_s or (default_s if request.text("time") is None else None)
            return None if time_s is None else asked * -(-time_s // 60)
        return asked

    def of_a_range(self, least: Scene) -> Iterator[Evidence]:
        """Yield what the limit is against if the job gets the upper end of its nodes."""
        said, nodes = self.scene.request.line_no("nodes"), self.scene.request.nodes
        for one in self.evidence():
            because = (
                f"on {counted(nodes, 'node')}, which the job gets if they are free: {one.because}"
            )
            remedy = f"--nodes={least.request.nodes}"
            yield one._replace(
                because=because, remedy=remedy, severity=Severity.WARNING, line_no=said
            )

    def evidence(self) -> Iterator[Evidence]:
        """Yield what the limit is against; nothing where the job keeps it."""
        asked = self.asked()
        if asked is None:
            return
        limit, used = self.amount.limit or 0, self.amount.used or 0
        if self.key == "GrpTRESMins" and not self.scene.cluster.enforced.safe:
            # Without `safe` jobs start as long as anything is left. Source: slurm.conf(5).
            asked = 1
        line_no = self.scene.request.line_no(*_OPTIONS.get(self.name.partition("/")[0], ()), "qos")
        if asked < limit if self.key == "MinTRESPJ" else asked > limit:
            verb = "requires at least" if self.key == "MinTRESPJ" else "allows"
            because = f"{self._words(verb, limit)}, not {self._amount(asked)} ({self.reason})"
            yield Evidence("limits", because, self._less(limit), None, line_no)
        elif self.key != "MinTRESPJ" and asked + used > limit:
            because = (
                f"{self._words('allows', limit)}; {self._amount(used)} in use, the job needs "
                f"{self._amount(asked)} ({self.reason})"
            )
            remedy = "wait: it starts when other jobs have ended"
            yield Evidence("limits", because, remedy, Severity.WARNING, line_no)

    @property
    def is_of_minutes(self) -> bool:
        return "Mins" in self.key

    @property
    def reason(self) -> str:
        """Slurm's word for a job that waits for it."""
        word = _BOUNDS[self.key].reason.format(_reason_word(self.name))
        word = _IRREGULAR.get(word, word)
        return word if word.endswith("PerAccount") else self.source.scope + word

    def _words(self, verb: str, limit: int) -> str:
        base, _, kind = self.name.removeprefix("gres/").removeprefix("license/").partition(":")
        unit = " ".join(filter(None, (kind, _UNITS.get(base, base))))
        if self.is_of_minutes:
            unit = f"{unit.removesuffix('s')} minutes"
        elif base == "node" and limit == 1:
            unit = base
        return f"{self.source.words} {verb} {self._amount(limit)} {unit} {_BOUNDS[self.key].words}"

    def _amount(self, number: int) -> str:
        return size_words(number) if self.name == "mem" and not self.is_of_minutes else str(number)

    def _less(self, limit: int) -> str:
        """An option that keeps the limit, where one number tells it."""
        request = self.scene.request
        nodes = 1 if self.key == "MaxTRESPN" else request.nodes
        if self.is_of_minutes:
            share = self.scene.tres().get(self.name) or 1
            return f"--time={format_slurm_time(limit // share * 60)}"
        if self.name.startswith("gres/gpu"):
            per_node = request.gpus_per_node or 1
            is_of_job = self.key not in ("MaxTRESPN", "MinTRESPJ")
            fewer = limit // per_node if is_of_job and "gpus" not in request.options else 0
            if fewer >= max(self.scene.partition.min_nodes, 1):
                return f"--nodes={fewer}"
            return request.gpus_word(
                -(-limit // nodes) if self.key == "MinTRESPJ" else limit // nodes
            )
        known = {
            "node": f"--nodes={limit}",
            "mem": f"--mem={limit // nodes}M",
            "cpu": request.cpus_word(limit // nodes),
        }
        return known.get(self.name) or "request less, or use another --qos"


_IRREGULAR: Final = {
    "GrpCpu": "GrpCpuLimit", "GrpMemory": "GrpMemLimit", "GrpNode": "GrpNodeLimit",
    "GrpCpuMinutes": "GrpCPUMinutesLimit", "GrpCpuRunMinutes": "GrpCPURunMinutesLimit",
    "MaxCpuPerJob": "MaxCpuPerJobLimit", "MaxNodePerJob": "MaxNodePerJobLimit",
    "MaxCpuPerUser": "MaxCpuPerUserLimit", "MaxNodePerUser": "MaxNodePerUserLimit",
    "MaxCpuMinutesPerJob": "MaxCpuMinutesPerJobLimit", "MinCpu": "MinCpuNotSatisfied",
}  # fmt: skip
"""Source: job_state_reason.c."""


def _reason_word(name: str) -> str:
    if name in _NAMES:
        return _NAMES[name]
    return "GRES" if name.startswith("gres/") else "License" if "license/" in name else "Unknown"


_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "cpu": (*CPU_OPTIONS, "nodes"),
    "mem": MEM_OPTIONS,
    "node": ("nodes", "ntasks"),
    "gres": (*GPU_OPTIONS, "nodes"),
    "license": ("licenses",),
}


_COUNT_WORDS: Final[Mapping[str, tuple[str, str, bool]]] = {
    "MaxJobs": ("AssocMaxJobsLimit", "running jobs", False),
    "MaxJobsPU": ("QOSMaxJobsPerUserLimit", "running jobs per user", False),
    "MaxJobsPA": ("QOSMaxJobsPerAccountLimit", "running jobs per account", False),
    "GrpJobs": ("{}GrpJobsLimit", "running jobs in total", False),
    "MaxSubmitJobs": ("AssocMaxSubmitJobLimit", "jobs in the queue", True),
    "MaxSubmitJobsPU": ("QOSMaxSubmitJobPerUserLimit", "jobs per user in the queue", True),
    "MaxSubmitJobsPA": ("QOSMaxSubmitJobPerAccount", "jobs per account in the queue", True),
    "GrpSubmitJobs": ("{}GrpSubmitJobsLimit", "jobs in total in the queue", True),
}
"""Slurm's reason, what is counted, and whether sbatch refuses what is over."""


def job_limits(scene: Scene) -> Iterator[Evidence]:
    """Yield the limits of time and of how many jobs there may be."""
    if not scene.cluster.enforced.limits:
        return
    for source, key, amount in _binding(scene, lambda limits: limits.counts):
        limit = amount.limit
        if limit is None:
            continue
        if key in ("MaxWallPJ", "GrpWall"):
            yield from _wall(scene, source, key, amount)
            continue
        reason, words, is_refused = _COUNT_WORDS[key]
        used, more = amount.used or 0, scene.request.array_size if is_refused else 1
        if used + more <= limit:
            continue
        because = (
            f"{source.words} allows {limit} {words}; there are {used}, the job adds {more} "
            f"({reason.format(source.scope)})"
        )
        hopeless = is_refused or limit == 0
        remedy = _fewer_jobs(scene, limit, limit - used if is_refused else limit)
        severity = None if hopeless else Severity.WARNING
        yield Evidence("limits", because, remedy, severity, scene.request.line_no("array", "qos"))


def longest_s(scene: Scene) -> float:
    """Return how long a job has to run, in seconds: without a limit the longest that it may."""
    said_s = scene.request.least_s(scene.partition.default_time_s)
    if said_s is not None and said_s < inf:
        return said_s
    limits_s = [inf if scene.partition.max_time_s is None else scene.partition.max_time_s]
    if scene.cluster.enforced.limits:
        for _, key, amount in _binding(scene, lambda limits: limits.counts):
            limits_s += [amount.limit * 60] if key == "MaxWallPJ" and amount.limit else []
    return min(limits_s)


def _fewer_jobs(scene: Scene, limit: int, left: int) -> str:
    """What a limit of jobs lets through, if so many more may come."""
    if limit == 0:
        known = scene.cluster.known_qos
        own = known.own_qos(scene.account, scene.partition.name) if known else None
        others = [name for name in (own.qos if own else ()) if name != scene.qos]
        default = own.default_qos if own else None
        best = default if default in others else "normal" if "normal" in others else None
        return f"--qos={best}" if best else "use another --qos or --account"
    said = scene.request.text("array")
    if said is None or left < 1:
        return "submit when other jobs have ended"
    tasks = array_ranges(said)[0][:left]
    step = f":{tasks.step}" if tasks.step > 1 else ""
    return f"--array={tasks[0]}-{tasks[-1]}{step}"


def _wall(scene: Scene, source: _Source, key: str, amount: Amount) -> Iterator[Evidence]:
    asked_s = scene.request.least_s(scene.partition.default_time_s)
    limit_s = (amount.limit or 0) * 60
    limit, line_no = format_slurm_time(limit_s), scene.request.line_no("time", "qos")
    if key == "GrpWall":
        # What all jobs have used counts; without `safe` they start as long as anything is left.
        used_s = (amount.used or 0) * 60
        more_s = (asked_s or 0) if scene.cluster.enforced.safe else 60
        if used_s + more_s > limit_s:
            because = (
                f"{source.words} allows {limit} for all jobs together; "
                f"{format_slurm_time(used_s)} is used ({source.scope}GrpWallLimit)"
            )
            remedy = "use another --qos or --account"
            yield Evidence("time", because, remedy, Severity.WARNING, line_no)
    elif asked_s is not None and asked_s > limit_s:
        asked = "UNLIMITED" if asked_s == inf else format_slurm_time(int(asked_s))
        because = (
            f"{source.words} allows a time limit of {limit}, not {asked} "
            f"({source.scope}MaxWallDurationPerJobLimit)"
        )
        yield Evidence("time", because, f"--time={limit}", None, line_no)
