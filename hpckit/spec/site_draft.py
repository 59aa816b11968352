"""A site file drafted from the cluster that answers, and where a file says otherwise than it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hpckit.core.findings import Severity, SourcedFinding
from hpckit.core.hostlist import named
from hpckit.core.units import format_slurm_time, parse_slurm_mem_bytes, parse_slurm_time_s
from hpckit.slurm.release import TopologyKind
from hpckit.slurm.values import ClusterView, NodeGroup, Partition, PartitionRules
from hpckit.spec.site import SITE_SCHEMA, SitePartition, SiteSpec

_MIB = 1024**2
_CONFIG = "scontrol show config"
_PARTITION = "scontrol show partition"
_NODES = "sinfo"


class Said(NamedTuple):
    """One line of a site file: its key, its value, and what says so."""

    key: str
    value: object
    source: str


def draft_site(
    name: str, view: ClusterView, rules: Sequence[PartitionRules], topology: TopologyKind | None
) -> str:
    """Return a site file in TOML for the cluster that answers, each line with where it came from.

    Of a partition whose nodes differ the commonest kind stands in it, the others in a comment.
    `topology` is None where Slurm's answer does not tell.
    """
    config, by_name = view.config, {one.name: one for one in view.partitions}
    lines = [
        *_lines((Said("schema", SITE_SCHEMA, ""), Said("name", name, ""))),
        "# job folders must be on a file system that all nodes share",
        *_lines((Said("job_root", "~/hpckit-jobs", "hpckit's default"),)),
        "",
        "[slurm]",
        *_lines(
            (
                Said("version", config.version and config.version.line, _CONFIG),
                Said("cluster", config.cluster_name, f"{_CONFIG}: ClusterName"),
                Said("topology", topology and str(topology), f"{_CONFIG}: TopologyPlugin"),
                Said("max_array_size", config.max_array_size, f"{_CONFIG}: MaxArraySize"),
                _mpi(config.mpi_types),
            )
        ),
    ]
    for one in rules:
        if one.root_only or not one.total_nodes:
            continue
        lines += ["", f"[partitions.{_key(one.name)}]", *_partition(one, by_name.get(one.name))]
    return "\n".join(lines) + "\n"


def _mpi(types: Sequence[str]) -> Said:
    """The plugin that most MPI libraries find their ranks by, where MpiDefault is none."""
    plugin = next((name for name in ("pmix", "cray_shasta", "pmi2") if name in types), None)
    return Said("mpi", plugin, f"MpiDefault is none; srun --mpi=list: {', '.join(types)}")


def _lines(said: Sequence[Said]) -> Iterator[str]:
    for key, value, source in said:
        if value is None or value == () or value is False:
            continue
        words = f"{key} = {_toml(value)}"
        yield f"{words:<40}  # {source}" if source else words


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # JSON's escapes of a string are among TOML's.
    return json.dumps(value)


def _key(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() else json.dumps(name)


def _partition(rules: PartitionRules, partition: Partition | None) -> Iterator[str]:
    groups = sorted(partition.groups if partition else (), key=lambda group: -group.nodes)
    nodes = min(rules.total_nodes, rules.max_nodes or rules.total_nodes)
    limit = None if rules.max_time_s is None else format_slurm_time(rules.max_time_s)
    counted = (
        "MaxNodes" if rules.max_nodes and rules.max_nodes < rules.total_nodes else "TotalNodes"
    )
    yield from _lines((Said("nodes", nodes, f"{_PARTITION}: {counted}"),))
    if groups:
        yield from _lines(tuple(_of_group(groups[0])))
    yield from _lines(
        (
            Said("time_limit", limit, f"{_PARTITION}: MaxTime"),
            Said("default", rules.is_default, f"{_PARTITION}: Default"),
        )
    )
    for group in groups[1:]:
        words = ", ".join(f"{key} {value}" for key, value, _ in _of_group(group) if value)
        yield f"# other nodes of this partition ({group.nodes}): {words}"


def _of_group(group: NodeGroup) -> Iterator[Said]:
    yield Said("cpus_per_node", group.cpus, f"{_NODES}: %c")
    yield Said("mem_per_node", group.mem_mib and f"{group.mem_mib}M", f"{_NODES}: %m")
    yield Said("gpus_per_node", group.gpus or None, f"{_NODES}: %G")
    kind = group.gpu_types[0] if len(group.gpu_types) == 1 else None
    yield Said("gpu_type", kind, f"{_NODES}: %G")
    yield Said("features", group.features, f"{_NODES}: %f")


def site_drift(
    site: SiteSpec,
    view: ClusterView,
    rules: Sequence[PartitionRules],
    topology: TopologyKind | None,
) -> tuple[SourcedFinding, ...]:
    """Return where a site file says otherwise than the cluster that answers.

    What the file leaves open is not compared; a partition that it does not have is a note.
    """
    config = view.config
    found = list(
        _differ(
            "slurm",
            {
                "version": (site.slurm.version, config.version and config.version.line),
                "cluster": (site.slurm.cluster, config.cluster_name),
                "topology": (site.slurm.topology, topology),
                "max_array_size": (site.slurm.max_array_size, config.max_array_size),
            },
            _CONFIG,
        )
    )
    live = {one.name: one for one in rules}
    by_name = {one.name: one for one in view.partitions}
    for name, said in site.partitions.items():
        if name not in live:
            because = f"the cluster has no partition {name}"
            found.append(
                _finding(
                    "partition-gone", f"partitions.{name}", because, "remove it from the site file"
                )
            )
            continue
        found += _partition_drift(name, said, live[name], by_name.get(name))
    if site.partitions:
        for name in sorted(set(live) - set(site.partitions)):
            if live[name].root_only or not live[name].total_nodes:
                continue
            because = f"the site file lacks the cluster's partition {name}"
            remedy = f"add [partitions.{name}]; `hpckit sites init` writes it"
            subject = f"partitions.{name}"
            found.append(_finding("partition-new", subject, because, remedy, Severity.NOTE))
    return tuple(found)


def _partition_drift(
    name: str, said: SitePartition, rules: PartitionRules, partition: Partition | None
) -> Iterator[SourcedFinding]:
    groups = partition.groups if partition else ()
    nodes = min(rules.total_nodes, rules.max_nodes or rules.total_nodes)
    limit_s = None if said.time_limit is None else parse_slurm_time_s(said.time_limit)
    yield from _differ(
        f"partitions.{name}",
        {
            "nodes": (said.nodes, nodes),
            "time_limit": (limit_s, rules.max_time_s or "none"),
            "default": (said.default or None, rules.is_default or None),
        },
        _PARTITION,
    )
    if groups and not any(_is_like(group, said) for group in groups):
        nearest = max(groups, key=lambda group: group.nodes)
        yield from _differ(f"partitions.{name}", _compared(nearest, said), _NODES)
    known = [group for group in groups if _is_like(group, said) and group.features == said.features]
    others = [group for group in groups if group not in known]
    if others and any(_is_like(group, said) for group in groups):
        kinds = named([" ".join(group.features) for group in others if group.features])
        words = f" ({kinds})" if kinds else ""
        count = sum(group.nodes for group in others)
        because = f"{count} of its nodes differ from the site file{words}"
        remedy = "no change needed: [partitions] holds one kind of node per partition"
        yield _finding("node-kind-new", f"partitions.{name}", because, remedy, Severity.NOTE)


def _compared(group: NodeGroup, said: SitePartition) -> dict[str, tuple[object, object]]:
    mem = None if said.mem_per_node is None else parse_slurm_mem_bytes(said.mem_per_node) // _MIB
    kind = None if said.gpu_type is None or not group.gpu_types else said.gpu_type
    return {
        "cpus_per_node": (said.cpus_per_node, group.cpus),
        "mem_per_node": (mem, group.mem_mib),
        "gpus_per_node": (said.gpus_per_node, group.gpus),
        "gpu_type": (kind, kind if kind in group.gpu_types else group.gpu_types[:1]),
        "features": (said.features or None, group.features if said.features else None),
    }


def _is_like(group: NodeGroup, said: SitePartition) -> bool:
    return not any(
        ours is not None and ours != theirs for ours, theirs in _compared(group, said).values()
    )


def _differ(
    table: str, pairs: Mapping[str, tuple[object, object]], source: str
) -> Iterator[SourcedFinding]:
    for key, (ours, theirs) in pairs.items():
        if ours is None or theirs is None or ours == theirs:
            continue
        because = f"site file: {_shown(key, ours)}, cluster: {_shown(key, theirs)}"
        remedy = f"{key} = {_shown(key, theirs)}"
        yield _finding("site-drift", f"{table}.{key}", because, remedy, source=source)


def _shown(key: str, value: object) -> str:
    if key == "time_limit" and isinstance(value, int):
        return f'"{format_slurm_time(value)}"'
    if key == "mem_per_node":
        return f'"{value}M"'
    return _toml(value if isinstance(value, int | tuple) else str(value))


def _finding(
    rule: str,
    subject: str,
    because: str,
    remedy: str,
    severity: Severity = Severity.ERROR,
    *,
    source: str = _PARTITION,
) -> SourcedFinding:
    return SourcedFinding(
        rule=rule,
        severity=severity,
        subject=subject,
        because=because,
        remedy=remedy,
        source=source,
    )
