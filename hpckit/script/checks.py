"""Requests that cannot be met, found before anything is written or submitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isqrt

from hpckit.core.errors import PlanError
from hpckit.core.findings import Level, Notice
from hpckit.core.units import (
    counted,
    format_slurm_time,
    parse_slurm_mem_bytes,
    parse_slurm_time_s,
    slurm_mem_mib_ceil,
)
from hpckit.script.launchers.registry import LAUNCHERS, Launchers
from hpckit.slurm.values import NodeGroup, Partition
from hpckit.spec.job import JobSpec
from hpckit.spec.merge import EffectiveJob, OriginKind
from hpckit.spec.site import SiteSpec, SubmitterKind


def check_job(spec: JobSpec, site: SiteSpec, launchers: Launchers = LAUNCHERS) -> None:
    """Raise PlanError for a job that contradicts itself or its site."""
    local = site.submitter is SubmitterKind.LOCAL
    _check_mesh(spec, local=local)
    launchers[spec.launch.kind].check(spec)
    _check_segment(spec)
    if local:
        _check_local(spec, site)


_NEEDS_SCHEDULER = ("resources.gpu", "resources.mem", "resources.exclusive", "slurm.", "place.")


def not_applied(effective: EffectiveJob, site: SiteSpec) -> tuple[str, ...]:
    """Keys that somebody said and that this site, having no scheduler, does nothing with."""
    if site.submitter is not SubmitterKind.LOCAL:
        return ()
    return tuple(
        one.key
        for one in effective.origins
        if one.origin is not OriginKind.DEFAULT and one.key.startswith(_NEEDS_SCHEDULER)
    )


def _check_mesh(spec: JobSpec, *, local: bool) -> None:
    need = spec.mesh_ranks
    if need is None or need == spec.ntasks:
        return
    mesh = " × ".join(f"{axis} {size}" for axis, size in spec.parallel.items())
    per_node = spec.ntasks_per_node
    hint = f"set the mesh so that its product is {spec.ntasks}"
    if local:
        hint = f"--ntasks-per-node {need}, or {hint}"
    elif need % per_node == 0:
        hint = f"--nodes {need // per_node}, or {hint}"
    raise PlanError(
        "parallel mesh",
        have=f"{counted(spec.ntasks, 'rank')}"
        f" ({counted(spec.resources.nodes, 'node')} × {per_node})",
        need=f"{counted(need, 'rank')} ({mesh})",
        hint=hint,
    )


def _check_segment(spec: JobSpec) -> None:
    """Source: sbatch(1), --segment; slurm_opt.c, _validate_segment_size (Slurm 26.05).

    A job smaller than a segment is the releases' affair (dialect.py).
    """
    segment, nodes = spec.slurm.segment, spec.resources.nodes
    if segment is None or nodes < segment or nodes % segment == 0:
        return
    pairs = ((size, nodes // size) for size in range(1, isqrt(nodes) + 1) if nodes % size == 0)
    fitting = max(size for pair in pairs for size in pair if size <= segment)
    full = (nodes // segment * segment, -(-nodes // segment) * segment)
    raise PlanError(
        "slurm.segment",
        have=counted(nodes, "node"),
        need=f"a multiple of {segment}",
        hint=f"--nodes {' or '.join(map(str, full))}, or slurm.segment = {fitting}",
    )


def _check_local(spec: JobSpec, site: SiteSpec) -> None:
    if spec.resources.nodes > 1:
        raise PlanError(
            f"site {site.name} is this machine alone",
            have="1 node",
            need=counted(spec.resources.nodes, "node"),
            hint="--nodes 1, or a site with Slurm",
        )
    if spec.slurm.array is not None:
        raise PlanError(
            f"site {site.name} has no scheduler for arrays",
            have="one job",
            need=f"array {spec.slurm.array}",
            hint="run one task of it without slurm.array, or use a site with Slurm",
        )


_MIB = 1024**2
_MOST_NAMES = 20


def site_partitions(site: SiteSpec) -> tuple[Partition, ...]:
    """The partitions that a site file describes."""
    return tuple(
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
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """Where a job goes: by its script, else by the variables that sbatch reads, else unknown."""

    partition: str | None = None
    qos: str | None = None


def fit_findings(
    spec: JobSpec,
    partitions: Sequence[Partition],
    aim: Aim | None = None,
    *,
    lists_all: bool = True,
    is_certain: bool = True,
) -> tuple[Notice, ...]:
    """What keeps a job out of the partitions where it goes, or out of the default one.

    One of several partitions is enough. Nothing is found where no partition is known, or none
    is the default. All is a note where no partition is named, as a site may route such jobs to
    another than the default; so is what goes by the nodes where not all are known (`is_certain`),
    and an unknown partition where not all are listed (`lists_all`).
    """
    aim = aim or Aim(partition=spec.slurm.partition, qos=spec.slurm.qos)
    known = {partition.name: partition for partition in partitions}
    if not known:
        return ()
    names = _names(partitions, aim)
    unknown = [name for name in names if name not in known]
    if unknown:
        found = tuple(_unknown(name, list(known)) for name in unknown)
        return found if lists_all else _as_notes(found)
    found = _found(spec, [known[name] for name in names], aim, is_certain=is_certain)
    return found if aim.partition is not None else _as_notes(found)


def _as_notes(findings: Sequence[Notice]) -> tuple[Notice, ...]:
    return tuple(replace(finding, level=Level.NOTE) for finding in findings)


def _names(partitions: Sequence[Partition], aim: Aim) -> Sequence[str]:
    if aim.partition is not None:
        return [name for name in aim.partition.split(",") if name]  # as Slurm reads it
    return [partition.name for partition in partitions if partition.is_default]


def _found(
    spec: JobSpec, partitions: Sequence[Partition], aim: Aim, *, is_certain: bool
) -> tuple[Notice, ...]:
    found = [
        tuple(_misfits(spec, partition, aim.qos, is_certain=is_certain)) for partition in partitions
    ]
    errors = [one for one in found if any(finding.level is Level.ERROR for finding in one)]
    if len(errors) < len(found):
        return next(one for one in found if one not in errors)
    return errors[0] if errors else ()


def _unknown(name: str, names: Sequence[str]) -> Notice:
    import difflib

    near = difflib.get_close_matches(name, names, n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    remedy = f"{meant}there are: {', '.join(names[:_MOST_NAMES])}{more}"
    return _error("partition", f"there is no partition {name!r}", remedy)


def _error(subject: str, text: str, remedy: str) -> Notice:
    return Notice(level=Level.ERROR, subject=subject, text=text, remedy=remedy)


def _misfits(
    spec: JobSpec, partition: Partition, qos: str | None, *, is_certain: bool
) -> Iterator[Notice]:
    yield from _too_long(spec, partition, qos)
    if not partition.is_up:
        yield Notice(
            level=Level.NOTE,
            subject="partition",
            text=f"{partition.name} is not up: the job waits, or is refused",
        )
    if partition.groups:
        large = tuple(_too_large(spec, partition))
        yield from large if is_certain else _as_notes(large)


def _too_long(spec: JobSpec, partition: Partition, qos: str | None) -> Iterator[Notice]:
    if spec.resources.time_limit is None or partition.time_limit_s is None:
        return
    asked_s, key = _least_time(spec, spec.resources.time_limit)
    if asked_s <= partition.time_limit_s:
        return
    limit = format_slurm_time(partition.time_limit_s)
    # A QOS may lift a partition's limit (sacctmgr(1), PartitionTimeLimit).
    yield Notice(
        level=Level.ERROR if qos is None else Level.NOTE,
        subject="time",
        text=f"{format_slurm_time(asked_s)} is over the {limit} of partition {partition.name}",
        remedy=f"{key} {limit}, or --qos with one that allows more",
    )


def _least_time(spec: JobSpec, time_limit: str) -> tuple[int, str]:
    """The least that the job can do with, in seconds, and the key that says so.

    Zero is no least: it means "no limit". Source: sbatch(1), --time-min; slurm_opt.c; job_mgr.c.
    """
    try:
        least_s = parse_slurm_time_s(str(spec.slurm.extra["time-min"]))
    except (KeyError, ValueError):
        return parse_slurm_time_s(time_limit), "--time"
    return least_s, "slurm.extra.time-min"


def _too_large(spec: JobSpec, partition: Partition) -> Iterator[Notice]:
    """Why its nodes do not do: each question is asked of the nodes that passed those before."""
    groups: Sequence[NodeGroup] = partition.groups
    for subject, fits, text, hint in _questions(spec, partition):
        passed = [group for group in groups if fits(group)]
        if not passed:
            yield _error(subject, text(groups), hint)
            return
        groups = passed
    nodes = sum(group.nodes for group in groups)
    if spec.resources.nodes > nodes:
        such = "" if len(groups) == len(partition.groups) else " such nodes"
        yield _error(
            "nodes",
            f"{spec.resources.nodes} are asked for, and partition {partition.name} has "
            f"{nodes}{such}",
            f"--nodes {nodes}, or another partition",
        )


_Question = tuple[str, Callable[[NodeGroup], bool], Callable[[Sequence[NodeGroup]], str], str]


def _questions(spec: JobSpec, partition: Partition) -> Iterator[_Question]:
    request, where = spec.resources, f"partition {partition.name}"
    kind, gpus = request.gpu_type, request.gpus_per_node or 0
    if gpus and kind is not None:
        yield (
            "GPUs",
            lambda group: not group.gpu_types or kind in group.gpu_types,
            lambda groups: f"type {kind} is asked for, and {where} has {_types(groups)}",
            "--gpu-type with one of them, or another partition",
        )
    gpus_asked = f"{gpus} of a node are asked for"
    hint = "--gpus-per-node, or another partition"
    yield _enough("GPUs", gpus, gpus_asked, lambda group: group.gpus, where=where, hint=hint)
    cpus = spec.ntasks_per_node * (request.cpus_per_task or 1)
    if "overcommit" not in spec.slurm.extra:
        ranks = f"{spec.ntasks_per_node} ranks of {request.cpus_per_task or 1}"
        asked = f"{cpus} of a node are asked for ({ranks})"
        hint = "--cpus-per-task, --ntasks-per-node, or another partition"
        yield _enough("CPUs", cpus, asked, lambda group: group.cpus, where=where, hint=hint)
    if request.mem is not None:
        mem_mib = slurm_mem_mib_ceil(parse_slurm_mem_bytes(request.mem))
        asked, hint = f"{request.mem} of a node is asked for", "--mem, or another partition"
        yield _enough(
            "memory", mem_mib, asked, lambda group: group.mem_mib, where=where, hint=hint, unit="M"
        )


def _enough(
    subject: str,
    least: int,
    asked: str,
    amount: Callable[[NodeGroup], int | None],
    *,
    where: str,
    hint: str,
    unit: str = "",
) -> _Question:
    """Whether nodes have so much of something; a node of which it is not known may have it."""
    return (
        subject,
        lambda group: (has := amount(group)) is None or has >= least,
        lambda groups: (
            f"{asked}, and a node of {where} has "
            f"{max(amount(group) or 0 for group in groups)}{unit}"
        ),
        hint,
    )


def _types(groups: Sequence[NodeGroup]) -> str:
    kinds = dict.fromkeys(kind for group in groups for kind in group.gpu_types)
    return ", ".join(kinds) or "no GPUs"
