"""What Slurm's releases accept, as data: each row with its source, each tried on a real release.

`tests/cluster/test_slurm_facts.py` asks sbatch and srun of Slurm 22.05, 24.11 and 26.05 about
every row. CL is CHANGELOG/slurm-<line>.md of that release line; slurm_opt.c is
src/common/slurm_opt.c, where the commands check their options before anything is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hpckit.model.cluster import TopologyKind


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


_LEAVE_OUT: Final = "leave it out"

SEGMENT: Final = OptionFact(
    option="segment", programs=BOTH, since="24.05", topologies=(TopologyKind.BLOCK,),
    instead="leave slurm.segment out; on topology/tree slurm.switches does the like",
    source="CL 24.05.0rc1; topology.shtml",
)  # fmt: skip
LARGE_SEGMENT: Final = OptionFact(
    option="segment", programs=BOTH, since="26.05", topologies=(TopologyKind.BLOCK,),
    instead="a segment as large as the job, or none",
    source="eval_nodes_block.c of 24.05 to 26.05",
)  # fmt: skip
"""A segment larger than the job; `tests/cluster/test_blocks.py` asks 24.11 and 26.05."""
OPTION_FACTS: Final = (
    SEGMENT,
    OptionFact(option="switches", programs=BOTH, topologies=(TopologyKind.TREE,),
               instead="leave slurm.switches out; on topology/block slurm.segment does the like",
               source="sbatch(1), --switches; topology.shtml"),
    OptionFact(option="exclusive=topo", programs=BOTH, since="24.05",
               topologies=(TopologyKind.BLOCK,), instead="resources.exclusive = true",
               source="CL 24.05.0rc1"),
    OptionFact(option="exclusive=allocation", programs=BOTH, since="26.05",
               instead="resources.exclusive = true; a step gets what it asks for",
               source="CL 26.05.0rc1"),
    OptionFact(option="spread-segments", programs=BOTH, since="25.11",
               topologies=(TopologyKind.BLOCK,), instead=_LEAVE_OUT, source="CL 25.11.0rc1"),
    OptionFact(option="consolidate-segments", programs=BOTH, since="25.11",
               topologies=(TopologyKind.BLOCK,), instead=_LEAVE_OUT, source="CL 25.11.0rc1"),
    OptionFact(option="tres-per-task", programs=BOTH, since="23.02",
               instead="resources.gpus_per_node and resources.cpus_per_task",
               source="CL 23.02.0rc1"),
    OptionFact(option="gres-flags=allow-task-sharing", programs=(Program.SRUN,), since="23.11.4",
               instead="leave it out: with resources.gpus_per_node all ranks see a node's GPUs",
               source="CL 23.11.4"),
    OptionFact(option="wait-for-children", programs=(Program.SRUN,), since="25.05",
               instead=_LEAVE_OUT, source="CL 25.05.0rc1"),
    OptionFact(option="ignore-signals", programs=(Program.SRUN,), since="26.05",
               instead=_LEAVE_OUT, source="CL 26.05.0rc1"),
    OptionFact(option="mem-update", programs=BOTH, since="26.05", instead=_LEAVE_OUT,
               source="CL 26.05.0rc1"),
    OptionFact(option="cpu-bind=rank", programs=(Program.SRUN,), until="24.11", is_refused=False,
               instead="cpu-bind = \"cores\", or map_cpu with the list of CPUs",
               source="CL 24.11.0rc1"),
)  # fmt: skip
"""Options that not every release from 22.05 to 26.05 takes, or not every topology."""

_ONE_MEMORY: Final = "say one of them, by resources.mem, mem_per_cpu or mem_per_gpu"
_NTASKS_PER_GPU: Final = "leave --ntasks-per-gpu out: resources.ntasks_per_node counts the ranks"
_HINT: Final = "leave --hint out: Slurm ignores it beside the other"

PAIR_FACTS: Final = (
    PairFact(first="gres=gpu", second="gpus-per-node", since="26.05",
             instead="say GPUs by resources.gpus_per_node and resources.gpu_type alone",
             source="CL 26.05.0rc1; slurm_opt.c, _validate_gres_vs_gpus_per_node"),
    PairFact(first="mem", second="mem-per-cpu", instead=_ONE_MEMORY,
             source="slurm_opt.c, _validate_memory_options"),
    PairFact(first="mem", second="mem-per-gpu", instead=_ONE_MEMORY,
             source="slurm_opt.c, _validate_memory_options"),
    PairFact(first="mem-per-cpu", second="mem-per-gpu", instead=_ONE_MEMORY,
             source="slurm_opt.c, _validate_memory_options"),
    PairFact(first="exclusive", second="oversubscribe", since="23.02",
             instead="whole nodes, or shared ones: resources.exclusive decides",
             source="CL 23.02.0rc1; slurm_opt.c, _validate_share_options"),
    PairFact(first="cpus-per-gpu", second="cpus-per-task",
             instead="say CPUs by resources.cpus_per_task alone",
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
             instead="say GPUs by resources.gpus_per_node",
             source="slurm_opt.c, _set_tres_per_task_from_sibling_opt"),
    PairFact(first="tres-per-task=cpu", second="cpus-per-task", since="23.02",
             instead="say CPUs by resources.cpus_per_task alone",
             source="slurm_opt.c, _set_tres_per_task_from_sibling_opt"),
    PairFact(first="core-spec", second="thread-spec", instead="say one of them",
             source="slurm_opt.c, _validate_spec_cores_options"),
    PairFact(first="distribution=arbitrary", second="nodes", since="23.11",
             instead="leave the distribution as it is: hpckit states the number of nodes",
             source="slurm_opt.c, _validate_arbitrary"),
    PairFact(first="hint", second="ntasks-per-core", is_refused=False, instead=_HINT,
             source="slurm_opt.c, validate_hint_option"),
    PairFact(first="hint", second="threads-per-core", is_refused=False, instead=_HINT,
             source="slurm_opt.c, validate_hint_option"),
    PairFact(first="hint", second="cpu-bind", programs=(Program.SRUN,), is_refused=False,
             instead=_HINT, source="slurm_opt.c, validate_hint_option"),
)  # fmt: skip
"""Pairs of options that exclude each other."""
