"""A job on a site becomes directives, a launch, and the reason for each.

Version facts behind the reasons: sbatch(1), srun(1) and the change logs of Slurm 22.05 to 26.05.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import ceil
from typing import Final

from hpckit.core.errors import ConfigError
from hpckit.core.late import regex
from hpckit.core.units import (
    format_slurm_mem,
    format_slurm_time,
    parse_slurm_mem_bytes,
    parse_slurm_time_s,
)
from hpckit.script.container import plan_container, step_options
from hpckit.script.launchers.launcher import Launcher
from hpckit.script.launchers.registry import LAUNCHERS, Launchers
from hpckit.script.plan import (
    AccountPlan,
    EnvironmentPlan,
    EnvSetting,
    LaunchPlan,
    Option,
    PlacePlan,
    ServePlan,
)
from hpckit.script.releases import SEGMENT, Dialect, gpu_request, is_said, takes
from hpckit.script.segment import derived_segment
from hpckit.spec.job import JobSpec, ResourceRequest
from hpckit.spec.options import array_shape
from hpckit.spec.pace import SubmitterKind
from hpckit.spec.platform import CommEnv
from hpckit.spec.site import SiteSpec
from hpckit.spec.slurm_options import (
    OWNED_BY_SBATCH,
    OWNED_BY_SRUN,
    TEXT_OPTIONS,
    Requeue,
    SlurmOptions,
    instead,
)

_OWN_NODES: Final = frozenset({"nodelist", "exclude", "relative", "nodefile"})
"""Options of srun by which a job chooses among its nodes itself."""


def plan_place(spec: JobSpec, launcher: Launcher, *, local: bool) -> PlacePlan | None:
    """Return what is to be done, None where nothing is.

    Nodes are ordered where there are several, and the job wants its ranks node by node; ranks are
    bound where a node has several, and only by the rank entry of a job that Slurm started.
    """
    order = not local and _is_ordered(spec)
    bind = not local and _is_bound(spec)
    if not (order or bind):
        return None
    return PlacePlan(
        order=order, bind=bind, strict=spec.place.strict, renumber=launcher.can_renumber
    )


def _is_bound(spec: JobSpec) -> bool:
    """Whether ranks choose their cores, which they do unless the job has srun do it."""
    by_srun = spec.slurm.srun_extra.get("cpu-bind", "none") not in {"none", "quiet,none", False}
    return spec.place.bind and spec.ntasks_per_node > 1 and not by_srun


def _is_ordered(spec: JobSpec) -> bool:
    first = spec.launch.distribution.partition(":")[0].partition(",")[0]
    chosen = _OWN_NODES & set(spec.slurm.srun_extra)
    wanted = spec.place.order and spec.resources.nodes > 1
    return wanted and first in {"block", "*"} and not chosen


_MAY_TRAP: Final = regex(r"(^|[^\w-])(trap|source|eval|\.)\s", re.ASCII)
"""What sets a trap, or reads a file that may."""


def plan_launch(
    spec: JobSpec,
    site: SiteSpec,
    dialect: Dialect,
    comm: CommEnv,
    launchers: Launchers = LAUNCHERS,
) -> LaunchPlan:
    """Return everything that the script of `spec` at `site` shows, said in the site's dialect.

    `comm` is its communication environment. Raises ConfigError for an option in an open table that
    hpckit writes itself.
    """
    local = site.submitter is SubmitterKind.LOCAL
    launcher = launchers[spec.launch.kind]
    place = plan_place(spec, launcher, local=local)
    account = AccountPlan(hz=f"{spec.account.hz:g}") if spec.account.enabled else None
    plan = LaunchPlan(
        name=spec.name,
        kind=spec.launch.kind,
        directives=_directives(spec, site, dialect, launcher),
        srun=step_options(_srun_options(spec, launcher, site), spec, comm, site),
        environment=_environment(spec),
        communication=comm.settings,
        profile=comm.profile,
        left=comm.left,
        container=plan_container(spec, site, comm),
        command=spec.command,
        nodes=spec.resources.nodes,
        ntasks=spec.ntasks,
        ntasks_per_node=spec.ntasks_per_node,
        rank_source=launcher.local_identity if local else launcher.identity,
        rank_options=launcher.rank_options,
        rank_shell=launcher.rank_shell(spec),
        needs_runner=launcher.needs_runner,
        starter=launcher.local_words(spec) if local else launcher.words(spec),
        local_ranks=launcher.local_ranks(spec) if local else None,
        keeps_shell=any(map(_MAY_TRAP.search, spec.environment.setup)),
        kill_on_bad_exit=spec.launch.kill_on_bad_exit,
        chdir=spec.chdir,
        array=array_shape(spec.slurm.array),
        account=account,
        place=place,
        serve=_serve(spec),
    )
    return replace(plan, runner=tuple(_runner_words(spec, site, plan)))


def _serve(spec: JobSpec) -> ServePlan | None:
    port = spec.serve.port
    return None if port is None else ServePlan(port=port, health=spec.serve.health)


def _runner_words(spec: JobSpec, site: SiteSpec, plan: LaunchPlan) -> Iterator[str]:
    local, place, container = site.submitter is SubmitterKind.LOCAL, plan.place, plan.container
    ends_others = local and spec.launch.kill_on_bad_exit
    flags = {
        "--local": local,
        "--ranks": plan.local_ranks,
        "--kill-wait": ceil(site.kill_wait_s) if ends_others or spec.serve.idle_limit else None,
        "--order": place and place.order,
        "--keep-numbers": place and place.order and not place.renumber,
        "--bind": place and place.bind,
        "--strict": place and place.strict,
        "--container": container and container.image and ",".join(container.variables),
        "--serve": plan.serve and f"{plan.serve.port}{plan.serve.health or ''}",
        "--idle": spec.serve.idle_limit and ceil(parse_slurm_time_s(spec.serve.idle_limit) or 0),
        "--measure": plan.account and plan.account.hz,
        "--secrets": spec.environment.has_secrets,
        "--keep-secrets": spec.environment.has_secrets and spec.slurm.requeue,
    }
    for option, value in flags.items():
        if value is not None and value is not False:
            yield from (option,) if value is True else (option, str(value))


def _directives(
    spec: JobSpec, site: SiteSpec, dialect: Dialect, launcher: Launcher
) -> tuple[Option, ...]:
    options = [
        Option(name="job-name", value=spec.name),
        Option(
            name="open-mode",
            value="append",
            because="keep the log of the first run if Slurm requeues the job",
        ),
        *_resource_options(spec.resources, dialect),
        *_task_options(spec, launcher),
        *_slurm_options(spec.slurm),
        *_drain(spec),
        *_segment(spec, site, dialect),
    ]
    for extra in extra_options(spec.slurm.extra, OWNED_BY_SBATCH, "slurm.extra"):
        options = _with_extra(options, extra)
    return tuple(sorted(options, key=lambda option: option.name))


def _with_extra(options: list[Option], extra: Option) -> list[Option]:
    """The options and one of the user's; of two --gres Slurm would take the last alone."""
    for at, option in enumerate(options):
        if option.name == extra.name and extra.value is not None:
            both = replace(option, value=f"{option.value},{extra.value}")
            return [*options[:at], both, *options[at + 1 :]]
    return [*options, extra]


def _resource_options(request: ResourceRequest, dialect: Dialect) -> Iterator[Option]:
    yield Option(name="nodes", value=str(request.nodes))
    gpus = gpu_request(dialect, request)
    if gpus is not None:
        yield gpus
    if request.time_limit is not None:
        yield Option(name="time", value=format_slurm_time(parse_slurm_time_s(request.time_limit)))
    if request.exclusive:
        yield Option(name="exclusive")
    yield from _memory_options(request)


def _memory_options(request: ResourceRequest) -> Iterator[Option]:
    said = {
        "mem": request.mem,
        "mem-per-cpu": request.mem_per_cpu,
        "mem-per-gpu": request.mem_per_gpu,
    }
    for name, size in said.items():
        if size is not None:
            yield Option(name=name, value=format_slurm_mem(parse_slurm_mem_bytes(size)))
    if request.exclusive and not any(said.values()):
        yield Option(name="mem", value="0", because="--exclusive does not grant memory by itself")


def _task_options(spec: JobSpec, launcher: Launcher) -> Iterator[Option]:
    request = spec.resources
    if launcher.starts_ranks:
        yield Option(
            name="ntasks-per-node",
            value="1",
            because=f"one {launcher.kind} per node starts {spec.ntasks_per_node} ranks",
        )
        yield from _launcher_cpus(spec)
        return
    yield Option(name="ntasks-per-node", value=str(spec.ntasks_per_node))
    if request.cpus_per_task is not None:
        yield Option(name="cpus-per-task", value=str(request.cpus_per_task))


def _launcher_cpus(spec: JobSpec) -> Iterator[Option]:
    """One CPU a rank at least; a whole node is not narrowed, as srun's -c implies --exact."""
    if spec.resources.cpus_per_task is None and spec.resources.exclusive:
        return
    cpus_per_task = spec.resources.cpus_per_task or 1
    yield Option(
        name="cpus-per-task",
        value=str(cpus_per_task * spec.ntasks_per_node),
        because=f"{cpus_per_task} per rank of each {spec.launch.kind}",
    )


def _slurm_options(slurm: SlurmOptions) -> Iterator[Option]:
    for name in TEXT_OPTIONS:
        value = getattr(slurm, name)
        if value is not None:
            yield Option(name=name.replace("_", "-"), value=value)
    if slurm.segment is not None:
        size = slurm.segment
        way = f"keep each {size} nodes in one block" if size > 1 else "let any block take each node"
        because = f"{way} (topology/block, Slurm 24.05 or later)"
        yield Option(name="segment", value=str(size), because=because)
    if slurm.mail_type:
        yield Option(name="mail-type", value=",".join(slurm.mail_type))
    if slurm.requeue is Requeue.EXPEDITE:
        because = "after a node failure, restart ahead of all other jobs (Slurm 25.11 or later)"
        yield Option(name="requeue", value="expedite", because=because)
        return
    requeue = "requeue" if slurm.requeue else "no-requeue"
    yield Option(name=requeue, because="explicit, because the cluster's JobRequeue is the default")


def _drain(spec: JobSpec) -> Iterator[Option]:
    """The signal on which the runner asks a server to end, before Slurm does."""
    if spec.serve.drain_s is not None:
        because = "hpckit stops the server this many seconds before the time limit"
        yield Option(name="signal", value=f"B:TERM@{spec.serve.drain_s}", because=because)


def _segment(spec: JobSpec, site: SiteSpec, dialect: Dialect) -> Iterator[Option]:
    """The segment that follows from the mesh, where the release has that option."""
    group = derived_segment(spec, site)
    has_it = dialect.version is None or takes(SEGMENT, dialect.version)
    if group is not None and has_it:
        because = f"keep the nodes of each {group.axis} group in one block"
        yield Option(name="segment", value=str(group.nodes), because=because)


def _srun_options(spec: JobSpec, launcher: Launcher, site: SiteSpec) -> tuple[Option, ...]:
    launch = spec.launch
    mpi = launch.mpi or (site.slurm.mpi if launcher.is_mpi else None)
    options = [
        Option(name="nodes", value=str(spec.resources.nodes)),
        *_step_tasks(spec, launcher),
        Option(name="distribution", value=launch.distribution),
        Option(name="export", value="ALL"),
        # Both answers are stated: the cluster's KillOnBadExit would decide where none is.
        Option(name="kill-on-bad-exit", value="1" if launch.kill_on_bad_exit else "0"),
        Option(name="wait", value=str(launch.wait_s)),
    ]
    if mpi is not None:
        options.append(Option(name="mpi", value=mpi))
    options += extra_options(spec.slurm.srun_extra, OWNED_BY_SRUN, "slurm.srun_extra")
    return tuple(options)


def _step_tasks(spec: JobSpec, launcher: Launcher) -> Iterator[Option]:
    per_node = 1 if launcher.starts_ranks else spec.ntasks_per_node
    yield Option(name="ntasks", value=str(spec.resources.nodes * per_node))
    yield Option(name="ntasks-per-node", value=str(per_node))
    if launcher.starts_ranks:
        yield from (replace(option, because=None) for option in _launcher_cpus(spec))
    elif spec.resources.cpus_per_task is not None:
        yield Option(name="cpus-per-task", value=str(spec.resources.cpus_per_task))


def _environment(spec: JobSpec) -> EnvironmentPlan:
    request = spec.environment
    return EnvironmentPlan(
        modules_purge=request.modules_purge,
        modules=request.modules,
        venv=request.venv,
        conda=request.conda,
        exports=tuple(EnvSetting(name=name, value=value) for name, value in request.set.items()),
        setup=request.setup,
    )


def extra_options(
    extra: Mapping[str, str | int | bool], owned: Mapping[str, str], key: str
) -> tuple[Option, ...]:
    """The options of an open table (`slurm.extra`, `slurm.srun_extra`).

    Raises ConfigError for one that hpckit writes itself, naming the key that says it.
    """
    options = []
    for name, value in extra.items():
        # getopt takes any unambiguous beginning of an option for the option itself.
        meant = next((full for full in owned if full.startswith(name)), None)
        if meant is not None:
            raise ConfigError(
                f"hpckit itself sets --{meant}",
                key=f"{key}.{name}",
                hint=instead(owned[meant]),
            )
        if is_said("gres=gpu", Option(name=name, value=str(value))):
            raise ConfigError(
                "--gres=gpu with --gpus-per-node is an error from Slurm 26.05 on",
                key=f"{key}.{name}",
                hint="use resources.gpus_per_node and resources.gpu_type",
            )
        if value is False:
            continue
        options.append(Option(name=name, value=None if value is True else str(value)))
    return tuple(options)
