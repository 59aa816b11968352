"""A job file with components becomes one prepared job: a heterogeneous one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hpckit.core.errors import ConfigError, PlanError
from hpckit.jobs.prepare import Component, PreparedJob, prepare, provenance_of
from hpckit.jobs.sites import load_site, load_templates
from hpckit.jobs.source import JobSource
from hpckit.script.components import component_plans, in_one_block
from hpckit.script.releases import site_dialect
from hpckit.script.render import render_components
from hpckit.spec.components import ComponentRequest, component_requests
from hpckit.spec.merge import FROM_REPORT, digest_of
from hpckit.spec.options import COMPONENT_KEY
from hpckit.spec.pace import SubmitterKind
from hpckit.spec.site import SiteSpec

if TYPE_CHECKING:
    from jinja2 import BytecodeCache

    from hpckit.core.files import FileResources

_TEMPLATE = "hpckit/components.sbatch.j2"
_BASE = "base.sbatch.j2"


def prepare_job(
    source: JobSource, resources: FileResources, cache: BytecodeCache | None = None
) -> PreparedJob:
    """Return the job that is asked for, of a file with components all of them as one.

    Raises ConfigError, PlanError, RenderError.
    """
    if source.file_text is None or source.component is not None:
        return prepare(source, resources, cache)
    requests = component_requests(source.file_text, source.file_name)
    if not requests:
        return prepare(source, resources, cache)
    return _together(source, requests, resources, cache)


def _together(
    source: JobSource,
    requests: Sequence[ComponentRequest],
    resources: FileResources,
    cache: BytecodeCache | None,
) -> PreparedJob:
    site = load_site(resources, source.site_name)
    _refuse(source, site, requests)
    jobs = [
        prepare(replace(source, component=request.name), resources, cache) for request in requests
    ]
    _refuse_differences(jobs)
    dialect = site_dialect(site, source.slurm_version)
    launches = [in_one_block(job.plan, job.effective.spec, site, dialect) for job in jobs]
    plans = component_plans(list(zip(requests, launches, strict=True)))
    digest = digest_of([job.effective.digest for job in jobs])
    provenance = replace(
        provenance_of(source, site, replace(jobs[0].effective, digest=digest)),
        template=_TEMPLATE.partition("/")[2],
        runner_digest=resources.runner_digest,
    )
    templates = load_templates(resources)
    script = render_components(
        plans,
        site.kill_wait_s,
        replace(provenance, template=_TEMPLATE),
        templates.texts,
        cache,
    )
    notes = dict.fromkeys(note for job in jobs for note in job.notes)
    components = tuple(
        Component(request=request, job=replace(job, plan=plan.plan))
        for request, job, plan in zip(requests, jobs, plans, strict=True)
    )
    first = components[0].job
    return replace(first, source=source, script=script, notes=tuple(notes), components=components)


def in_one_partition(job: PreparedJob) -> Iterator[PreparedJob]:
    """Yield for each partition that several components share a job of all their nodes.

    Components never share a node: what none of them violates, all together may.
    """
    nodes: dict[str | None, int] = {}
    of_partition: dict[str | None, list[PreparedJob]] = {}
    for component in job.components:
        spec = component.job.effective.spec
        partition = spec.slurm.partition
        nodes[partition] = nodes.get(partition, 0) + spec.resources.nodes
        of_partition.setdefault(partition, []).append(component.job)
    for partition, jobs in of_partition.items():
        if len(jobs) > 1:
            said = "" if partition is None else f"#SBATCH --partition={partition}\n"
            text = f"#!/bin/bash\n{said}#SBATCH --nodes={nodes[partition]}\n"
            yield replace(jobs[0], script=replace(jobs[0].script, text=text), notes=())


def _refuse_differences(jobs: Sequence[PreparedJob]) -> None:
    specs = [job.effective.spec for job in jobs]
    if any(spec.serve.drain_s is not None for spec in specs):
        reason = "all components end together"
        raise ConfigError(reason, key="serve.drain_s", hint="remove it")
    for key, said in (
        ("environment.inherit", [str(spec.environment.inherit) for spec in specs]),
        ("chdir", [str(spec.chdir) for spec in specs]),
        ("slurm.requeue", [str(spec.slurm.requeue) for spec in specs]),
        ("resources.time_limit", [str(spec.resources.time_limit) for spec in specs]),
    ):
        if len({*said}) > 1:
            reason = "all components start and end together: they need the same value"
            raise ConfigError(reason, key=key, hint="set it at the top of the file")


def _refuse(source: JobSource, site: SiteSpec, requests: Sequence[ComponentRequest]) -> None:
    if source.command:
        reason = "each component has its own command"
        raise ConfigError(reason, key="-- COMMAND", hint="choose one with --component")
    if source.advised is not None:
        reason = (
            f"the report of {source.advised.report_id} is for a single job, but this file has "
            "components"
        )
        names = ", ".join(request.name for request in requests)
        raise ConfigError(reason, key=FROM_REPORT, hint=f"choose one with --component: {names}")
    if site.submitter is SubmitterKind.LOCAL:
        raise PlanError(
            f"site {site.name} has no scheduler for heterogeneous jobs",
            have="one job at a time",
            need=f"{len(requests)} components at the same time",
            hint=f"run one with --component {requests[0].name}, or use a site with Slurm",
        )
    template = source.template or site.template
    if template != _BASE:
        raise ConfigError(
            f"got {template!r}, but a job with {COMPONENT_KEY}s needs hpckit's own template",
            key="template",
            hint=f"--template {_BASE}",
        )
