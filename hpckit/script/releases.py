"""What Slurm's releases accept, as data: each row with its source, each tried on a real release.

`tests/cluster/test_slurm_facts.py` asks sbatch and srun of Slurm 22.05, 24.11 and 26.05 about
every row. CL is CHANGELOG/slurm-<line>.md of that release line; slurm_opt.c is
src/common/slurm_opt.c, where the commands check their options before anything is sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from hpckit.core.findings import Level, Notice
from hpckit.core.values import dataclass
from hpckit.script.plan import LaunchPlan, Option
from hpckit.slurm.release import SlurmVersion, TopologyKind
from hpckit.spec.job import ResourceRequest
from hpckit.spec.site import GpuOption, SiteSpec

if TYPE_CHECKING:
    from hpckit.slurm.values import SlurmConfig


class Program(StrEnum):
    """The command that reads an option."""

    SBATCH = "sbatch"
    SRUN = "srun"


BOTH: Final = (Program.SBATCH, Program.SRUN)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionFact:
    """From which release to which an option is taken, None where 22.05 and 26.05 are included.

    `option` is a long option, or one with a value: `exclusive=topo`. `until` is the first release
    without it. `topologies` are those where it has an effect, none said is all. `instead` is what
    to do without it. Where `is_refused` is False, Slurm goes on without it.
    """

    option: str
    programs: tuple[Program, ...]
    since: str | None = None
    until: str | None = None
    is_refused: bool = True
    topologies: tuple[TopologyKind, ...] = ()
    instead: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFact:
    """Two options that one command cannot both be given.

    `since` is the first release that refuses them, None for every release from 22.05 on. Where
    `is_refused` is False, Slurm lets them pass and drops one of them.
    """

    first: str
    second: str
    programs: tuple[Program, ...] = BOTH
    since: str | None = None
    is_refused: bool = True
    instead: str
    source: str


_LEAVE_OUT: Final = "remove it"

SEGMENT: Final = OptionFact(
    option="segment", programs=BOTH, since="24.05", topologies=(TopologyKind.BLOCK,),
    instead="remove slurm.segment; on topology/tree, use slurm.switches",
    source="CL 24.05.0rc1; topology.shtml",
)  # fmt: skip
LARGE_SEGMENT: Final = OptionFact(
    option="segment", programs=BOTH, since="26.05", topologies=(TopologyKind.BLOCK,),
    instead="a segment no larger than the job, or none",
    source="eval_nodes_block.c of 24.05 to 26.05",
)  # fmt: skip
"""A segment larger than the job; `tests/cluster/test_blocks.py` asks 24.11 and 26.05."""
OPTION_FACTS: Final = (
    SEGMENT,
    OptionFact(option="switches", programs=BOTH, topologies=(TopologyKind.TREE,),
               instead="remove slurm.switches; on topology/block, use slurm.segment",
               source="sbatch(1), --switches; topology.shtml"),
    OptionFact(option="exclusive=topo", programs=BOTH, since="24.05",
               topologies=(TopologyKind.BLOCK,), instead="--exclusive",
               source="CL 24.05.0rc1"),
    OptionFact(option="exclusive=allocation", programs=BOTH, since="26.05",
               instead="--exclusive; a step gets what it requests",
               source="CL 26.05.0rc1"),
    OptionFact(option="spread-segments", programs=BOTH, since="25.11",
               topologies=(TopologyKind.BLOCK,), instead=_LEAVE_OUT, source="CL 25.11.0rc1"),
    OptionFact(option="consolidate-segments", programs=BOTH, since="25.11",
               topologies=(TopologyKind.BLOCK,), instead=_LEAVE_OUT, source="CL 25.11.0rc1"),
    OptionFact(option="requeue=expedite", programs=(Program.SBATCH,), since="25.11",
               instead="slurm.requeue = true (--requeue)", source="CL 25.11.0rc1"),
    OptionFact(option="tres-per-task", programs=BOTH, since="23.02",
               instead="--gpus-per-node and --cpus-per-task",
               source="CL 23.02.0rc1"),
    OptionFact(option="gres-flags=allow-task-sharing", programs=(Program.SRUN,), since="23.11.4",
               instead="remove it: with --gpus-per-node, all ranks see all GPUs of the node",
               source="CL 23.11.4"),
    OptionFact(option="wait-for-children", programs=(Program.SRUN,), since="25.05",
               instead=_LEAVE_OUT, source="CL 25.05.0rc1"),
    OptionFact(option="ignore-signals", programs=(Program.SRUN,), since="26.05",
               instead=_LEAVE_OUT, source="CL 26.05.0rc1"),
    OptionFact(option="mem-update", programs=BOTH, since="26.05", instead=_LEAVE_OUT,
               source="CL 26.05.0rc1"),
    OptionFact(option="cpu-bind=rank", programs=(Program.SRUN,), until="24.11", is_refused=False,
               instead='cpu-bind = "cores", or map_cpu with a list of CPUs',
               source="CL 24.11.0rc1"),
)  # fmt: skip
"""Options that not every release from 22.05 to 26.05 takes, or not every topology."""

_ONE_MEMORY: Final = "use only one of --mem, --mem-per-cpu and --mem-per-gpu"
_NTASKS_PER_GPU: Final = "remove --ntasks-per-gpu: --ntasks-per-node sets the ranks"
_HINT: Final = "remove --hint: Slurm ignores it with the other option"

PAIR_FACTS: Final = (
    PairFact(first="gres=gpu", second="gpus-per-node", since="26.05",
             instead="request GPUs only with --gpus-per-node",
             source="CL 26.05.0rc1; slurm_opt.c, _validate_gres_vs_gpus_per_node"),
    PairFact(first="mem", second="mem-per-cpu", instead=_ONE_MEMORY,
             source="slurm_opt.c, _validate_memory_options"),
    PairFact(first="mem", second="mem-per-gpu", instead=_ONE_MEMORY,
             source="slurm_opt.c, _validate_memory_options"),
    PairFact(first="mem-per-cpu", second="mem-per-gpu", instead=_ONE_MEMORY,
             source="slurm_opt.c, _validate_memory_options"),
    PairFact(first="exclusive", second="oversubscribe", since="23.02",
             instead="use only one of --exclusive and --oversubscribe",
             source="CL 23.02.0rc1; slurm_opt.c, _validate_share_options"),
    PairFact(first="cpus-per-gpu", second="cpus-per-task",
             instead="request CPUs only with --cpus-per-task",
             source="slurm_opt.c, _validate_cpus_per_tres; before 23.11 slurmctld refuses them"),
    PairFact(first="ntasks-per-gpu", second="gpus-per-task", instead=_NTASKS_PER_GPU,
             source="slurm_opt.c, _validate_ntasks_per_gpu"),
    PairFact(first="ntasks-per-gpu", second="gpus-per-socket", instead=_NTASKS_PER_GPU,
             source="slurm_opt.c, _validate_ntasks_per_gpu"),
    PairFact(first="ntasks-per-gpu", second="ntasks-per-node", instead=_NTASKS_PER_GPU,
             source="slurm_opt.c, _validate_ntasks_per_gpu"),
    PairFact(first="ntasks-per-gpu", second="tres-per-task", since="23.02",
             instead=_NTASKS_PER_GPU, source="slurm_opt.c, _validate_ntasks_per_gpu"),
    PairFact(first="tres-per-task=gres/gpu", second="gpus-per-task", since="23.02",
             instead="request GPUs with --gpus-per-node",
             source="slurm_opt.c, _set_tres_per_task_from_sibling_opt"),
    PairFact(first="tres-per-task=cpu", second="cpus-per-task", since="23.02",
             instead="request CPUs only with --cpus-per-task",
             source="slurm_opt.c, _set_tres_per_task_from_sibling_opt"),
    PairFact(first="core-spec", second="thread-spec", instead="use only one of them",
             source="slurm_opt.c, _validate_spec_cores_options"),
    PairFact(first="distribution=arbitrary", second="nodes", since="23.11",
             instead="remove the distribution: hpckit sets --nodes",
             source="slurm_opt.c, _validate_arbitrary"),
    PairFact(first="hint", second="ntasks-per-core", is_refused=False, instead=_HINT,
             source="slurm_opt.c, validate_hint_option"),
    PairFact(first="hint", second="threads-per-core", is_refused=False, instead=_HINT,
             source="slurm_opt.c, validate_hint_option"),
    PairFact(first="hint", second="cpu-bind", programs=(Program.SRUN,), is_refused=False,
             instead=_HINT, source="slurm_opt.c, validate_hint_option"),
)  # fmt: skip
"""Pairs of options that exclude each other."""


def lint(
    options: Sequence[Option],
    program: Program,
    version: SlurmVersion | None,
    topology: TopologyKind | None = None,
) -> tuple[Notice, ...]:
    """What is wrong with these options of one command.

    With `version` None an option that some release from 22.05 to 26.05 does not take passes, and
    a pair that some release refuses does not: a job can do without the pair.
    """
    return (
        *_options(options, program, version, topology),
        *_pairs(options, program, version),
    )


def is_said(pattern: str, option: Option) -> bool:
    """Whether an option is the one of a fact: `gres=gpu` is each part of --gres that asks for one.

    A value is a list of parts after commas; a part goes on after a colon or an equals sign, and
    `gres/gpu` is `gpu` (24.11 and 26.05 take both).
    """
    name, equals, value = pattern.partition("=")
    if option.name != name:
        return False
    parts = [part.removeprefix("gres/") for part in (option.value or "").split(",")]
    plain = value.removeprefix("gres/")
    return not equals or any(
        part == plain or part.startswith((f"{plain}:", f"{plain}=")) for part in parts
    )


def _options(
    options: Sequence[Option],
    program: Program,
    version: SlurmVersion | None,
    topology: TopologyKind | None,
) -> Iterator[Notice]:
    for fact in OPTION_FACTS:
        if program not in fact.programs or not any(is_said(fact.option, one) for one in options):
            continue
        if version is not None and not takes(fact, version):
            yield _finding(fact, f"{program} of Slurm {version} {_lacks(fact)}")
        elif topology is not None and fact.topologies and topology not in fact.topologies:
            where = " or ".join(f"topology/{kind}" for kind in fact.topologies)
            text = f"works only with {where}; this cluster has topology/{topology}"
            yield replace(_finding(fact, text), level=Level.NOTE)


def takes(fact: OptionFact, version: SlurmVersion) -> bool:
    """Whether a release takes the option; of a line without its number the newest is meant."""
    since = None if fact.since is None else SlurmVersion.of(fact.since)
    newest = since is not None and version.micro == 0 and version.line == since.line
    begun = since is None or newest or version >= since
    return begun and (fact.until is None or version < SlurmVersion.of(fact.until))


def _lacks(fact: OptionFact) -> str:
    if fact.since is not None:
        return f"does not have it (new in {fact.since})"
    return "rejects it" if fact.is_refused else "ignores it"


def _finding(fact: OptionFact | PairFact, text: str) -> Notice:
    names = [fact.option] if isinstance(fact, OptionFact) else [fact.first, fact.second]
    return Notice(
        level=Level.ERROR if fact.is_refused else Level.NOTE,
        subject=" ".join(f"--{name}" for name in names),
        text=text,
        remedy=fact.instead,
        source=fact.source,
    )


def _pairs(
    options: Sequence[Option], program: Program, version: SlurmVersion | None
) -> Iterator[Notice]:
    for fact in PAIR_FACTS:
        both = all(
            any(is_said(pattern, one) for one in options) for pattern in (fact.first, fact.second)
        )
        if both and program in fact.programs and excludes(fact, version):
            since = f" from Slurm {fact.since} on" if fact.since else ""
            text = f"{program} rejects the two together{since}"
            if not fact.is_refused:
                text = f"{program} ignores --{fact.first.partition('=')[0]} with the other option"
            yield _finding(fact, text)


def excludes(fact: PairFact, version: SlurmVersion | None) -> bool:
    """Whether a release excludes the pair; one that is not known does."""
    return fact.since is None or version is None or version >= SlurmVersion.of(fact.since)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What decides between two spellings, and whether an option can be used at all.

    `version` and `topology` are None where nobody said: then only what every release from 22.05
    to 26.05 refuses is refused.
    """

    version: SlurmVersion | None = None
    gpu_option: GpuOption = GpuOption.GPUS_PER_NODE
    topology: TopologyKind | None = None


_TOPOLOGY_YAML = SlurmVersion(25, 5)
"""From here on topology.yaml decides where there is one, and `scontrol show config` says flat where
slurm.conf names no plugin. Source: topology.c, `topology_g_init`; read_config.c."""


def site_dialect(site: SiteSpec, told: SlurmVersion | None = None) -> Dialect:
    """The dialect of a site by its file; `told` is a release named on the command line.

    What is installed here plays no part: a script for a cluster that is elsewhere is the same.
    """
    version = told
    if version is None and site.slurm.version is not None:
        version = SlurmVersion.of(site.slurm.version)
    return Dialect(version=version, gpu_option=site.slurm.gpu_option, topology=site.slurm.topology)


def live_dialect(site: SiteSpec, config: SlurmConfig) -> Dialect:
    """The dialect of the cluster that answers, in the spelling of its site."""
    topology = topology_kind(config.topology_plugin)
    if topology is TopologyKind.FLAT and config.version and config.version >= _TOPOLOGY_YAML:
        topology = site.slurm.topology
    return Dialect(version=config.version, gpu_option=site.slurm.gpu_option, topology=topology)


def is_another_cluster(named: str | None, config: SlurmConfig) -> bool:
    """Whether the cluster that answers is not the one of this name; unknown is no other."""
    answers = config.cluster_name
    return bool(named and answers and named.casefold() != answers.casefold())


def release_note(site: SiteSpec, config: SlurmConfig) -> Notice | None:
    """What to write where the cluster's release is another than its site file says."""
    if site.slurm.version is None or config.version is None:
        return None
    said = SlurmVersion.of(site.slurm.version)
    if said.line == config.version.line:
        return None
    return Notice(
        level=Level.NOTE,
        subject="site",
        text=f"the site file of {site.name} has Slurm {said.line}, but the cluster runs "
        f"{config.version}",
        remedy=f'slurm.version = "{config.version.line}" in the site file',
    )


def topology_kind(plugin: str | None) -> TopologyKind | None:
    """The kind that TopologyPlugin names, None for one that hpckit does not know.

    22.05 calls flat `topology/none`, later releases `topology/default` and `topology/flat`.
    """
    name = (plugin or "").removeprefix("topology/")
    flat = {"none": TopologyKind.FLAT, "default": TopologyKind.FLAT}
    known = {str(kind): kind for kind in TopologyKind}
    return {**known, **flat}.get(name)


def gpu_request(dialect: Dialect, request: ResourceRequest) -> Option | None:
    """The option that asks for the GPUs of each node; None for a job without GPUs."""
    if not request.gpus_per_node:
        return None
    kind = f"{request.gpu_type}:" if request.gpu_type else ""
    if dialect.gpu_option is GpuOption.GRES:
        return Option(
            name="gres",
            value=f"gpu:{kind}{request.gpus_per_node}",
            because="this site requires --gres for GPUs; --gpus-per-node with it would be an error",
        )
    return Option(
        name="gpus-per-node",
        value=f"{kind}{request.gpus_per_node}",
        because="per node, because with --gpus-per-task a rank cannot see its peers' GPUs",
    )


def dialect_findings(plan: LaunchPlan, dialect: Dialect) -> tuple[Notice, ...]:
    """What sbatch and srun of this dialect would not take of a script, or would ignore."""
    return (
        *_short_segment(plan, dialect),
        *lint(plan.directives, Program.SBATCH, dialect.version, dialect.topology),
        *lint(plan.srun, Program.SRUN, dialect.version, dialect.topology),
    )


def _short_segment(plan: LaunchPlan, dialect: Dialect) -> Iterator[Notice]:
    said = {option.name: option.value for option in plan.directives}
    segment, nodes = said.get("segment"), said.get("nodes")
    if segment is None or nodes is None or dialect.topology is not TopologyKind.BLOCK:
        return
    if dialect.version is None or takes(LARGE_SEGMENT, dialect.version):
        return
    if int(nodes) < int(segment) and takes(SEGMENT, dialect.version):
        job = "1 node" if nodes == "1" else f"{nodes} nodes"
        yield Notice(
            level=Level.ERROR,
            subject="--segment",
            text=f"Slurm {dialect.version} rejects a segment of {segment} nodes in a job of {job}",
            remedy=f"slurm.segment = {nodes}, or remove it",
            source=LARGE_SEGMENT.source,
        )
