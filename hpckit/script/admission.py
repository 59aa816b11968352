"""What would keep a job from starting: rules of partitions, nodes, reservations, licenses, limits.

Each rule says what Slurm would: `sbatch` refuses the job, it waits for ever, or for something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Final, NamedTuple

from hpckit.core.findings import (
    Check,
    Evidence,
    Level,
    Notice,
    Rule,
    Severity,
    SourcedFinding,
    gravest_first,
    judge,
)
from hpckit.core.hostlist import HostListError, expand_hosts, named
from hpckit.core.late import regex
from hpckit.core.units import and_more, counted, format_slurm_time
from hpckit.script.limits import job_limits, size_words, tres_limits
from hpckit.script.live import Cluster, Scene, User
from hpckit.script.reservations import in_reservation, licenses, maintenance
from hpckit.slurm.request import CPU_OPTIONS, GPU_OPTIONS, MEM_OPTIONS, Request
from hpckit.slurm.values import NodeGroup, Partition, PartitionRules

_DATE: Final = "2026-11"


def find_obstacles(
    request: Request, cluster: Cluster, user: User, now_s: float
) -> tuple[SourcedFinding, ...]:
    """Return what keeps a job from starting, the gravest first.

    Of several partitions that to which least is opposed counts. Nothing is found by what the
    cluster did not tell.
    """
    by_name = {rules.name: rules for rules in cluster.partitions}
    if not by_name:
        return ()

    def opposed(name: str) -> list[SourcedFinding]:
        scene = Scene(
            request=request, partition=by_name[name], cluster=cluster, user=user, now_s=now_s
        )
        told = list(judge(RULES, scene))
        if not cluster.knows_nodes_of(name):
            told = [*_as_notes(one for one in told if one.rule == "node-kind"),
                    *(one for one in told if one.rule != "node-kind")]  # fmt: skip
        return told

    names = request.partitions or _partitions_of(request, cluster)
    unknown = [name for name in names if name not in by_name]
    if not names or unknown:
        ranked = sorted((_gravest(opposed(name)), not by_name[name].is_default, number, name)
                        for number, name in enumerate(by_name))  # fmt: skip
        fitting = [name for grave, *_, name in ranked if grave < Severity.ERROR.rank] or [*by_name]
        if not names and not cluster.may_route:
            return (_no_partition(fitting),)
        gone = tuple(_unknown_partition(name, fitting, request) for name in unknown)
        if gone:
            return gone if cluster.are_all_listed else _as_notes(gone)
        names = tuple(by_name)  # the site routes the job to one of all
    least = min(map(opposed, names), key=_gravest)
    if cluster.may_route and not request.partitions:
        return _as_notes(least)
    return tuple(gravest_first(least))


def _partitions_of(request: Request, cluster: Cluster) -> tuple[str, ...]:
    """Where a job goes that names no partition: to that of its reservation, or the default one."""
    said = request.text("reservation") or ""
    kept = [one.partition for one in cluster.reservations or () if one.name in said.split(",")]
    own = tuple(name for name in kept if name is not None)
    return own[:1] or tuple(one.name for one in cluster.partitions if one.is_default)


def _as_notes(findings: Iterable[SourcedFinding]) -> tuple[SourcedFinding, ...]:
    return tuple(replace(one, severity=Severity.NOTE) for one in findings)


def _gravest(findings: Iterable[SourcedFinding]) -> int:
    return max((one.severity.rank for one in findings), default=-1)


def _no_partition(fitting: Sequence[str]) -> SourcedFinding:
    return SourcedFinding(
        rule="partition-missing",
        severity=Severity.ERROR,
        subject="partition",
        because="no partition is named, and the cluster has no default one",
        remedy=f"--partition={fitting[0]}",
        source="slurm_errno.c, ESLURM_DEFAULT_PARTITION_NOT_SET",
    )


def _unknown_partition(name: str, fitting: Sequence[str], request: Request) -> SourcedFinding:
    """Return the finding; `fitting` are the partitions that would take the job, the best first."""
    import difflib

    near = difflib.get_close_matches(name, fitting, n=1)
    others = f", or one of {and_more(fitting[1:], 6)}" if fitting[1:] else ""
    return SourcedFinding(
        rule="partition-unknown",
        severity=Severity.ERROR,
        subject="partition",
        because=f"no such partition: {name}",
        remedy=f"--partition={near[0] if near else fitting[0]}{'' if near else others}",
        source="sbatch(1), --partition",
        line_no=request.line_no("partition"),
    )


def _state(scene: Scene) -> Iterator[Evidence]:
    name, state = scene.partition.name, scene.partition.state
    others = _others(scene, lambda rules: rules.state == "UP")
    if state in ("INACTIVE", "DRAIN"):
        yield _partition(scene, f"partition {name} accepts no jobs ({state})", others)
    elif state == "DOWN":
        because = f"partition {name} is DOWN: it queues jobs, but starts none"
        yield _partition(scene, because, others, Severity.WARNING)


def _in_service(scene: Scene) -> Iterator[Evidence]:
    """Nodes that are down or drained: the job waits until they are back."""
    name, asked = scene.partition.name, scene.request.nodes
    seen = scene.cluster.in_service.get(name)
    if seen is None or not seen.nodes < asked <= seen.total:
        return
    out = seen.total - seen.nodes
    many = counted(out, "node") if seen.nodes else f"all {counted(seen.total, 'node')}"
    verb = "is" if out == 1 else "are"
    others = _others(
        scene,
        lambda rules: (
            rules.name in scene.cluster.in_service
            and scene.cluster.in_service[rules.name].nodes >= asked
        ),
    )
    because = f"the job waits: {many} of partition {name} {verb} down or drained"
    yield _partition(scene, because, f"--nodes={seen.nodes}" if seen.nodes else others)


def _others(scene: Scene, fits: Callable[[PartitionRules], bool]) -> str:
    """The option for another partition that would take the job, as far as `fits` tells."""
    others = [
        rules.name
        for rules in scene.cluster.partitions
        if rules.name != scene.partition.name and fits(rules) and _admits(scene, rules)
    ]
    return f"--partition={others[0]}" if others else "another partition, or ask the admins"


def _admits(scene: Scene, rules: PartitionRules) -> bool:
    return not any(
        _shut_out(rules, what, names)
        for what, names in (
            ("Accounts", scene.accounts),
            ("Qos", _single(scene.qos)),
            ("Groups", scene.user.groups),
        )
    )


def _single(name: str | None) -> frozenset[str]:
    return frozenset() if name is None else frozenset((name,))


def _shut_out(rules: PartitionRules, what: str, names: frozenset[str]) -> bool:
    """Whether a partition's list keeps out somebody with these names; nobody without any."""
    if not names:
        return False
    if what in rules.allow:
        return names.isdisjoint(rules.allow[what])
    return not names.isdisjoint(rules.deny.get(what, ()))


def _partition(
    scene: Scene, because: str, remedy: str, severity: Severity | None = None
) -> Evidence:
    line_no = scene.request.line_no("partition")
    return Evidence("partition", because, remedy, severity, line_no)


def _access(scene: Scene) -> Iterator[Evidence]:
    rules, name = scene.partition, scene.partition.name
    if scene.user.name == "root":
        return
    if rules.needs_reservation and scene.request.text("reservation") is None:
        because = f"partition {name} accepts only jobs with a reservation"
        yield _partition(scene, because, _others(scene, _open))
    if rules.root_only:
        yield _partition(scene, f"only root may use partition {name}", _others(scene, _open))
    for what, option, names, mine in (
        ("Accounts", "account", scene.accounts, scene.account),
        ("Qos", "qos", _single(scene.qos), scene.qos),
        ("Groups", "partition", scene.user.groups, None),
    ):
        is_certain = what != "Accounts" or not scene.cluster.are_accounts_nested or scene.chain
        if is_certain and _shut_out(rules, what, names):
            yield _shut(scene, what, option, mine)


def _shut(scene: Scene, what: str, option: str, mine: str | None) -> Evidence:
    """A list of a partition's that keeps the job out."""
    rules, name = scene.partition, scene.partition.name
    allowed, word = rules.allow.get(what), {"account": "account", "qos": "QOS"}.get(option, "group")
    if not allowed:
        because = f"partition {name} denies {word} {named(rules.deny[what])}"
    elif mine is None:
        because = f"partition {name} allows only {word} {named(allowed)}; you are not a member"
    else:
        because = f"partition {name} allows only {word} {named(allowed)}, not {mine}"
    own = _own(scene, what) & set(allowed or ())
    remedy = f"--{option}={min(own)}" if own else _others(scene, _open)
    return Evidence(option, because, remedy, None, scene.request.line_no(option, "partition"))


def _open(rules: PartitionRules) -> bool:
    return rules.state == "UP" and not rules.root_only and not rules.needs_reservation


def _own(scene: Scene, what: str) -> set[str]:
    accounts = scene.cluster.accounts
    return (
        set() if accounts is None or what != "Accounts" else {one.account for one in accounts.own}
    )


def _account(scene: Scene) -> Iterator[Evidence]:
    accounts = scene.cluster.accounts
    if accounts is None or not scene.cluster.enforced.associations:
        return
    own = sorted({one.account for one in accounts.own})
    if scene.chain or not own:
        return
    account = scene.account
    if elsewhere := [one.partition for one in accounts.own if one.account == account]:
        because = (
            f"account {account} is valid only for partition "
            f"{named([str(one) for one in elsewhere])}"
        )
        remedy = f"--partition={elsewhere[0]}"
        yield Evidence("account", because, remedy, None, scene.request.line_no("account"))
        return
    because = (
        f"{scene.user.name} has no account {account}"
        if account
        else "no account given, and you have no default account"
    )
    remedy = " or ".join(f"--account={name}" for name in own[:4])
    yield Evidence("account", because, remedy, None, scene.request.line_no("account"))


def _qos(scene: Scene) -> Iterator[Evidence]:
    """A QOS that the association may not use."""
    said, known = scene.request.text("qos"), scene.cluster.known_qos
    own = None if known is None else known.own_qos(scene.account, scene.partition.name)
    if said is None or own is None or not scene.cluster.enforced.qos or said in own.qos:
        return
    because = f"{scene.user.name} may not use QOS {said} with account {own.account}"
    remedy = " or ".join(f"--qos={name}" for name in own.qos[:4]) or "remove --qos"
    yield Evidence("qos", because, remedy, None, scene.request.line_no("qos"))


def _size(scene: Scene) -> Iterator[Evidence]:
    """MinNodes, MaxNodes, MaxTime and the rest of a partition, which a QOS may lift."""
    rules, request = scene.partition, scene.request
    # A job that says no nodes gets the partition's fewest.
    fewest = rules.min_nodes if request.says_nodes else None
    for limit, nodes, is_over, flag in (
        # Of a range the upper end counts on both sides.
        (rules.max_nodes, request.most_nodes, int.__gt__, "PartitionMaxNodes"),
        (fewest, request.most_nodes, int.__lt__, "PartitionMinNodes"),
    ):
        lifted = scene.has_flag(flag)
        if limit is not None and is_over(nodes, limit) and lifted is not True:
            word = "at most" if is_over is int.__gt__ else "at least"
            because = f"partition {rules.name} allows {word} {counted(limit, 'node')}, not {nodes}"
            severity, line_no = _unless(lifted), request.line_no("nodes", "ntasks")
            fits = f"{request.nodes}-{limit}" if request.nodes < limit < nodes else str(limit)
            yield Evidence("nodes", because, f"--nodes={fits}", severity, line_no)
    yield from _time(scene)
    cpus = request.cpus_per_node
    if rules.max_cpus_per_node is not None and cpus > rules.max_cpus_per_node:
        because = (
            f"partition {rules.name} allows {rules.max_cpus_per_node} CPUs per node, not {cpus}"
        )
        line_no = request.line_no("cpus-per-task", "ntasks-per-node", "ntasks")
        remedy = request.cpus_word(rules.max_cpus_per_node) or _others(scene, _open)
        yield Evidence("CPUs", because, remedy, None, line_no)
    mem_mib = scene.mem_per_node_mib
    if rules.max_mem_per_node_mib and mem_mib and mem_mib > rules.max_mem_per_node_mib:
        most = rules.max_mem_per_node_mib
        because = (
            f"partition {rules.name} allows {size_words(most)} per node, not {size_words(mem_mib)}"
        )
        # Of all memory Slurm counts what nodes do not keep for themselves (MemSpecLimit).
        severity = Severity.WARNING if request.wants_all_mem else None
        yield Evidence("memory", because, f"--mem={most}M", severity, request.line_no("mem"))


def _unless(lifted: bool | None) -> Severity | None:
    """The severity of a limit of a partition; a note where its QOS may lift it."""
    return Severity.NOTE if lifted is None else None


def _time(scene: Scene) -> Iterator[Evidence]:
    rules, request, lifted = scene.partition, scene.request, scene.has_flag("PartitionTimeLimit")
    least_s = request.least_s(None)
    if least_s is None or rules.max_time_s is None or least_s <= rules.max_time_s or lifted:
        return
    limit = format_slurm_time(rules.max_time_s)
    asked = "UNLIMITED" if least_s == inf else format_slurm_time(int(least_s))
    because = f"partition {rules.name} allows a time limit of {limit}, not {asked}"
    option = "time" if least_s in (request.time_s, inf) else "time-min"
    yield Evidence("time", because, f"--{option}={limit}", _unless(lifted), request.line_no(option))


def _kind(scene: Scene) -> Iterator[Evidence]:
    """Whether nodes of the kind that is asked for exist, and enough of them."""
    partition = scene.cluster.nodes.get(scene.partition.name)
    if partition is None or not partition.groups:
        return
    groups: Sequence[NodeGroup] = partition.groups
    for question in _questions(scene, partition):
        passed = [group for group in groups if question.fits(group)]
        if not passed:
            line_no = scene.request.line_no(*question.options)
            because, remedy = question.because(groups), question.remedy(groups)
            yield Evidence(question.subject, because, remedy, None, line_no)
        groups = passed or groups
    nodes, asked = sum(group.nodes for group in groups), scene.request.nodes
    yield from _too_few(scene, groups)
    if asked > nodes:
        such = "" if len(groups) == len(partition.groups) else " such"
        because = (
            f"partition {partition.name} has {counted(nodes, f'{such} node'.strip())}, not {asked}"
        )
        line_no = scene.request.line_no("nodes", "ntasks")
        yield Evidence("nodes", because, f"--nodes={nodes}", None, line_no)


Groups = Sequence[NodeGroup]


def _too_few(scene: Scene, groups: Groups) -> Iterator[Evidence]:
    """Whether all nodes together have enough, where Slurm takes as many as it needs."""
    request, where = scene.request, f"partition {scene.partition.name}"
    if request.says_nodes:
        return
    for subject, options, asked, amounts in (
        ("GPUs", GPU_OPTIONS, request.gpus, [group.gpus * group.nodes for group in groups]),
        ("CPUs", CPU_OPTIONS, request.cpus, [(group.cpus or 0) * group.nodes for group in groups]),
    ):
        if all(amounts) and asked > sum(amounts):
            because = f"all nodes of {where} together have {sum(amounts)} {subject}, not {asked}"
            word = (
                f"--gpus={sum(amounts)}" if subject == "GPUs" else request.cpus_word(sum(amounts))
            )
            remedy = word or f"at most {sum(amounts)} {subject}"
            yield Evidence(subject, because, remedy, None, request.line_no(*options))


class _Question(NamedTuple):
    subject: str
    options: tuple[str, ...]
    fits: Callable[[NodeGroup], bool]
    because: Callable[[Groups], str]
    remedy: Callable[[Groups], str]


def _questions(scene: Scene, partition: Partition) -> Iterator[_Question]:
    request, where = scene.request, f"partition {partition.name}"
    wanted = request.features
    if wanted:
        yield _Question(
            "features",
            ("constraint",),
            lambda group: any(set(group.features).issuperset(one) for one in wanted),
            lambda groups: f"no node of {where} has the feature {_either(wanted)}",
            lambda groups: (
                f"--constraint with one of {named(_features(groups))}"
                if _features(groups)
                else "remove --constraint"
            ),
        )
    kinds = [kind for kind in request.gpus_by_type if kind]
    if kinds:
        yield _Question(
            "GPUs",
            GPU_OPTIONS,
            lambda group: not group.gpu_types or set(kinds) <= set(group.gpu_types),
            lambda groups: _no_type(where, kinds, _types(groups)),
            lambda groups: (
                request.gpus_word(request.gpus_per_node, _types(groups)[0])
                if _types(groups)
                else _others(scene, _open)
            ),
        )
    mem_mib = (scene.mem_per_node_mib or 0) if request.says_mem else 0
    for amount in (
        _Amount("GPUs", GPU_OPTIONS, request.gpus_per_node, lambda group: group.gpus),
        _Amount("CPUs", CPU_OPTIONS, request.cpus_per_node, lambda group: group.cpus),
        _Amount("memory", MEM_OPTIONS, mem_mib, lambda group: group.mem_mib),
    ):
        yield _enough(scene, amount, where)


class _Amount(NamedTuple):
    """The least of something that a node must have; `of` is what one has, None if not known."""

    subject: str
    options: tuple[str, ...]
    least: int
    of: Callable[[NodeGroup], int | None]


def _with_nodes(scene: Scene, fits: Callable[[NodeGroup], bool]) -> str:
    """The option for another partition that has nodes that fit."""
    seen = scene.cluster.nodes
    has = {name for name, partition in seen.items() if any(map(fits, partition.groups))}
    return _others(scene, lambda rules: rules.name in has).removesuffix(", or ask the admins")


def _enough(scene: Scene, amount: _Amount, where: str) -> _Question:
    request, (subject, options, least, of) = scene.request, amount

    def fits(group: NodeGroup) -> bool:
        return (has := of(group)) is None or has >= least

    def most(groups: Groups) -> int:
        return max(of(group) or 0 for group in groups)

    def words(number: int) -> str:
        return size_words(number) if subject == "memory" else str(number)

    def remedy(groups: Groups) -> str:
        less = most(groups)
        gpus = request.gpus_word(less) if less else None
        if gpus and request.says_nodes and least % less == 0:  # as many GPUs, on more nodes
            gpus = f"--nodes={request.nodes * least // less} {gpus}"
        said = {
            "GPUs": gpus,
            "CPUs": request.cpus_word(less),
            "memory": f"--mem={words(less)}",
        }[subject]
        other = _with_nodes(scene, fits)
        return f"{said}, or {other}" if said else other

    unit = "" if subject == "memory" else f" {subject}"
    return _Question(
        subject,
        options,
        fits,
        lambda groups: (
            f"nodes of {where} have at most {words(most(groups))}{unit}, not {words(least)}"
            if most(groups)
            else f"nodes of {where} have no {subject}"
        ),
        remedy,
    )


def _either(wanted: Iterable[Sequence[str]]) -> str:
    return " or ".join(" and ".join(one) for one in wanted)


def _no_type(where: str, kinds: Sequence[str], known: Sequence[str]) -> str:
    missing = [kind for kind in kinds if kind not in known]
    if missing:
        return f"{where} has no GPU of type {' and '.join(missing)}"
    return f"no node of {where} has GPUs of types {' and '.join(kinds)}"


def _features(groups: Groups) -> list[str]:
    return sorted({feature for group in groups for feature in group.features})


def _types(groups: Groups) -> list[str]:
    return sorted({kind for group in groups for kind in group.gpu_types})


def _named_nodes(scene: Scene) -> Iterator[Evidence]:
    """--nodelist and --exclude against the partition's own nodes."""
    said, own = scene.request.text("nodelist"), scene.partition.nodes
    excluded = scene.request.text("exclude")
    if own is None or (said is None and excluded is None) or "/" in f"{said}{excluded}":
        return
    try:
        asked, known = expand_hosts(said) if said else (), set(expand_hosts(own))
        left = known - set(expand_hosts(excluded) if excluded else ())
    except HostListError:
        return
    if len(left) < scene.request.nodes <= len(known):
        nodes = counted(len(left), "node")
        because = f"without {excluded}, partition {scene.partition.name} has only {nodes}"
        line_no = scene.request.line_no("exclude")
        yield Evidence("exclude", because, "remove --exclude", None, line_no)
    foreign = [name for name in asked if name not in known]
    if foreign:
        verb = "is" if len(foreign) == 1 else "are"
        because = f"{named(foreign)} {verb} not in partition {scene.partition.name}"
        remedy = f"remove --nodelist, or choose from {own}"
        yield Evidence("nodelist", because, remedy, None, scene.request.line_no("nodelist"))


def _rule(
    name: str, when: Check[Scene], because: str, source: str, severity: Severity = Severity.ERROR
) -> Rule[Check[Scene]]:
    return Rule(
        name=name,
        severity=severity,
        when=when,
        because=because,
        remedy="ask the admins",
        source=source,
        date=_DATE,
    )


RULES: Final = (
    _rule(
        "partition-state",
        _state,
        "the partition accepts no jobs, or starts none",
        "scontrol(1), State",
    ),
    _rule("nodes-out", _in_service, "the job waits", "sinfo(1), %F", Severity.WARNING),
    _rule("partition-access", _access, "sbatch refuses the job", "slurm.conf(5), AllowAccounts"),
    _rule("account-unknown", _account, "sbatch refuses the job", "sacctmgr(1), associations"),
    _rule("qos-unknown", _qos, "sbatch refuses the job", "sacctmgr(1), QOS"),
    _rule("partition-limit", _size, "the job never starts", "slurm.conf(5), MaxNodes, MaxTime"),
    _rule("node-kind", _kind, "sbatch refuses the job", "sbatch(1); slurm_errno.c"),
    _rule("nodelist-foreign", _named_nodes, "sbatch refuses the job", "sbatch(1), --nodelist"),
    _rule("tres-limit", tres_limits, "the job never starts", "resource_limits.html"),
    _rule("job-limit", job_limits, "the job waits, or is refused", "resource_limits.html"),
    _rule("reservation", in_reservation, "sbatch refuses the job", "sbatch(1), --reservation"),
    _rule("maintenance", maintenance, "the job waits", "reservations.html", Severity.WARNING),
    _rule("license", licenses, "sbatch refuses the job", "sbatch(1), --licenses"),
)
"""What may keep a job from starting, in the order in which sbatch would say it."""


_GRES = regex(r"--gres=gpu:(?:[^:\s]+:)?(\d+)")


def in_own_options(remedy: str) -> str:
    """Return a remedy of a job that hpckit renders, by hpckit's options where they differ."""
    return _GRES.sub(r"--gpus-per-node=\1", remedy)


def as_notices(findings: Iterable[SourcedFinding]) -> tuple[Notice, ...]:
    """Return findings as what a check of a job noticed."""
    return tuple(
        Notice(
            level=Level.ERROR if one.severity is Severity.ERROR else Level.NOTE,
            subject=one.subject,
            text=one.because,
            remedy=in_own_options(one.remedy),
            source=one.source,
        )
        for one in findings
    )
