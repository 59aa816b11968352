"""The components of a heterogeneous job as a script shows them: a group of `#SBATCH hetjob` each.

Source: heterogeneous_jobs.html, and src/common/slurm_opt.c of Slurm for what sbatch hands down from
one group to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hpckit.core.errors import ConfigError
from hpckit.core.units import counted
from hpckit.core.values import dataclass
from hpckit.script.plan import LaunchPlan, Option
from hpckit.script.releases import SEGMENT, Dialect, takes
from hpckit.slurm.release import TopologyKind
from hpckit.spec.components import ComponentRequest
from hpckit.spec.job import JobSpec
from hpckit.spec.site import SiteSpec

OF_ONE_GROUP: Final = frozenset(
    (
        *("constraint", "contiguous", "core-spec", "cores-per-socket", "cpu-freq", "cpus-per-gpu"),
        *("cpus-per-task", "exclusive", "extra-node-info", "gpu-bind", "gpu-freq", "gpus"),
        *("gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres", "gres-flags", "hint"),
        *("licenses", "mail-type", "mail-user", "mem-bind", "mem-per-cpu", "mem-per-gpu"),
        *("mincpus", "network", "nodefile", "nodelist", "nodes", "ntasks", "ntasks-per-core"),
        *("ntasks-per-gpu", "ntasks-per-node", "ntasks-per-socket", "overcommit"),
        *("oversubscribe", "partition", "resv-ports", "segment", "sockets-per-node"),
        *("spread-job", "switches", "thread-spec", "threads-per-core", "tmp"),
        *("tres-bind", "tres-per-task", "use-min-nodes"),
    )
)
"""Options that sbatch forgets at `#SBATCH hetjob`; every other one is that of the next group too.
slurm_opt.c, `reset_each_pass`; tried with 22.05, 24.11 and 26.05."""
_OF_THE_WHOLE: Final = frozenset({"mail-type", "mail-user"})
"""Of these the first group's are enough: each component would send its own mail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentPlan:
    """A component of a script: its launch, its own directives, what `injob components` is told."""

    name: str
    plan: LaunchPlan
    directives: tuple[Option, ...]
    words: tuple[str, ...]
    says: str


def component_plans(
    parts: Sequence[tuple[ComponentRequest, LaunchPlan]],
) -> tuple[ComponentPlan, ...]:
    """Return the components of a script from what is asked of each, and its launch by itself.

    Raises ConfigError for an array, and for an option that a component would have from one before.
    """
    given: dict[str, tuple[str, Option]] = {}
    shown: set[str | None] = set()
    made: list[ComponentPlan] = []
    for group, (request, plan) in enumerate(parts):
        _refuse_alone(request.name, plan)
        step = (Option(name="het-group", value=str(group)), *plan.srun)
        made.append(
            ComponentPlan(
                name=request.name,
                plan=replace(plan, srun=step),
                directives=tuple(_own(request.name, plan.directives, given, shown)),
                words=tuple(_words(request, plan)),
                says=" · ".join(_says(request, plan)),
            )
        )
    return tuple(made)


def in_one_block(plan: LaunchPlan, spec: JobSpec, site: SiteSpec, dialect: Dialect) -> LaunchPlan:
    """Return the launch of a component that is asked for in one block, where it fits into one."""
    nodes, most = spec.resources.nodes, site.platform.domain_nodes
    is_by_block = site.slurm.topology is TopologyKind.BLOCK and most is not None
    is_said = any(option.name == "segment" for option in plan.directives)
    has_it = dialect.version is None or takes(SEGMENT, dialect.version)
    if is_said or not (is_by_block and has_it and 1 < nodes <= (most or 0)):
        return plan
    because = "the component fits in one block: keep it there"
    option = Option(name="segment", value=str(nodes), because=because)
    directives = sorted((*plan.directives, option), key=lambda one: one.name)
    return replace(plan, directives=tuple(directives))


def _refuse_alone(name: str, plan: LaunchPlan) -> None:
    """Raise ConfigError for what only a job by itself can have."""
    words, hint = plan.runner, f"hpckit submit --component {name} runs it alone"
    for is_said, key, reason in (
        (plan.array is not None, "slurm.array", "Slurm has no job arrays of heterogeneous jobs"),
        ("--idle" in words, "serve.idle_limit", f"component {name} ends with the others"),
        (
            plan.serve and not plan.serve.port,
            "serve.port",
            "needs a fixed port: the other components connect to it",
        ),
    ):
        if is_said:
            raise ConfigError(reason, key=key, hint=hint)


def _own(
    name: str,
    options: Sequence[Option],
    given: dict[str, tuple[str, Option]],
    shown: set[str | None],
) -> list[Option]:
    """Return the options that a group says itself.

    `given` is what it has from those before, `shown` the reasons that stand there.
    """
    is_first = not given
    said = {_key(option): option for option in options}
    for key, (whose, option) in given.items():
        if key not in said:
            raise ConfigError(
                f"component {name} would inherit --{option.name}={option.value} from {whose}: "
                "sbatch applies it to the components below",
                hint=f"set it for {name} too, or at the top for all, or move {name} above {whose}",
            )
    own = []
    for key, option in said.items():
        before = given.get(key)
        is_same = before is not None and before[1].value == option.value
        if is_same and before is not None and before[1].name == option.name:
            continue
        if option.name in _OF_THE_WHOLE and not is_first:
            continue
        is_said = option.because in shown
        own.append(replace(option, because=None) if is_said else option)
        shown.add(option.because)
        if option.name not in OF_ONE_GROUP:
            given[key] = name, option
    return own


def _key(option: Option) -> str:
    return option.name.removeprefix("no-")


def _words(request: ComponentRequest, plan: LaunchPlan) -> list[str]:
    words = ["--service"] if request.service else []
    words += ["--after", ",".join(request.after)] if request.after else []
    return words if plan.serve is None else [*words, "--port", str(plan.serve.port)]


def _says(request: ComponentRequest, plan: LaunchPlan) -> list[str]:
    size = f"{counted(plan.nodes, 'node')} × {counted(plan.ntasks_per_node, 'rank')}"
    says = [size]
    if request.after:
        says.append(f"starts when {', '.join(request.after)} is ready")
    if plan.serve is not None:
        how = f" to HTTP at {plan.serve.health}" if plan.serve.health else ""
        says.append(f"ready when port {plan.serve.port} answers{how}")
    if request.service:
        says.append("stopped when the others have ended")
    return says
