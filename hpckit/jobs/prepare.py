"""From a job file and options to a script: the part that `render` and `submit` share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import hpckit
from hpckit.comm.communication import Communication, comm_findings, communication
from hpckit.core.document import Tree
from hpckit.core.errors import ConfigError, JobRefused
from hpckit.core.fields import to_tree
from hpckit.core.findings import Level, Notice
from hpckit.core.values import dataclass
from hpckit.jobs.sites import load_site, load_templates
from hpckit.jobs.source import JobSource, defaults_of, layers_of, options_of
from hpckit.script.checks import check_job, notices
from hpckit.script.directives import plan_launch
from hpckit.script.launchers.launcher import Launcher
from hpckit.script.launchers.registry import (
    LAUNCHERS,
    Launchers,
    read_launchers,
    refuse_launch,
)
from hpckit.script.plan import LaunchPlan, Provenance, Script
from hpckit.script.releases import Dialect, dialect_findings, site_dialect
from hpckit.script.render import render_script
from hpckit.spec.components import ComponentRequest
from hpckit.spec.job_folder import ADVICE_FILE, EFFECTIVE_SCHEMA, TOPOLOGY_FILE
from hpckit.spec.merge import (
    EffectiveJob,
    Layer,
    OriginKind,
    effective_job,
    option_layer,
    tree_layers,
)
from hpckit.spec.pace import SubmitterKind
from hpckit.spec.site import SiteSpec
from hpckit.spec.tokens import refuse_script

if TYPE_CHECKING:
    from jinja2 import BytecodeCache

    from hpckit.core.files import FileResources
    from hpckit.spec.job import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedJob:
    """A job that is decided and rendered; nothing outside has been touched.

    `notes` are what checks found that does not keep it from running. Of a heterogeneous job
    `components` are its components, each a job of its own, and all else is the first one's but the
    script.
    """

    source: JobSource
    site: SiteSpec
    effective: EffectiveJob
    plan: LaunchPlan
    script: Script
    comm: Communication
    launcher: Launcher
    notes: tuple[Notice, ...] = ()
    components: tuple[Component, ...] = ()

    @property
    def name(self) -> str:
        """What the job is called, of a heterogeneous one the whole."""
        first = self.effective.spec.name
        return first.removesuffix(f"-{self.components[0].name}") if self.components else first

    @property
    def alone(self) -> Sequence[PreparedJob]:
        """The jobs of a heterogeneous job's components, or this one."""
        return [component.job for component in self.components] or [self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A component of a heterogeneous job: what is asked of it beside the others, and its job."""

    request: ComponentRequest
    job: PreparedJob

    @property
    def name(self) -> str:
        """What the component is called."""
        return self.request.name


def prepare(
    source: JobSource,
    resources: FileResources,
    cache: BytecodeCache | None = None,
    launchers: Launchers = LAUNCHERS,
) -> PreparedJob:
    """Merge, check, decide and render. Raises ConfigError, PlanError, RenderError."""
    site = load_site(resources, source.site_name)
    layers, effective = _effective(source, site, launchers)
    if source.advised is not None:
        from hpckit.account.advice.outcome import check_advised

        check_advised(source.advised, layers)
    check_job(effective.spec, site, launchers)
    dialect = site_dialect(site, source.slurm_version)
    comm = communication(effective.spec, site, source.topology, launchers=launchers)
    plan = plan_launch(effective.spec, site, dialect, comm.env, launchers)
    if source.advised is not None:
        from hpckit.account.advice.outcome import explained

        plan = explained(plan, source.advised, effective)
    about_model = _about_model(effective.spec, site, source.folder)
    found = (*_findings(plan, site, dialect), *notices(effective.spec))
    notes = without_errors((*found, *about_model))
    notes += comm_findings(comm.env)
    script, own = _script(plan, resources, cache, provenance_of(source, site, effective))
    said = " ".join((source.file_text or "", *source.option_words, *source.command))
    refuse_script(script.text, said)
    return PreparedJob(
        source=source,
        site=site,
        effective=effective,
        plan=plan,
        script=script,
        notes=(*notes, *own),
        comm=comm,
        launcher=launchers[effective.spec.launch.kind],
    )


def _effective(
    source: JobSource, site: SiteSpec, launchers: Launchers
) -> tuple[Sequence[Layer], EffectiveJob]:
    """Return the layers and the job. Raises ConfigError, of a file with all that is wrong."""
    refuse = partial(refuse_launch, launchers=launchers)
    try:
        layers = layers_of(source, site, launchers)
        return layers, effective_job(layers, refuse)
    except ConfigError as error:
        from hpckit.spec.job_errors import all_errors, option_meant

        text, name = source.file_text, source.file_name
        is_one_job = source.stage is None and source.component is None
        if text is None or error.source != name or not is_one_job:
            error.hint = option_meant(error, source.options) or error.hint
            raise

        options, defaults = option_layer(options_of(source)), defaults_of(source, site)

        def read(tree: Tree) -> None:
            layers = [options, *tree_layers(tree, name), *defaults]
            effective_job(read_launchers(layers, launchers), refuse)

        raise all_errors(text, name, error, read) from error


def _about_model(spec: JobSpec, site: SiteSpec, folder: Path) -> tuple[Notice, ...]:
    """Return whether the job's model fits on its GPUs, where it says one."""
    if spec.model.config is None and "--num-layers" not in " ".join(spec.command):
        return ()
    from hpckit.core.files import text_of
    from hpckit.planner.finding import model_notices

    return tuple(model_notices(spec, site, lambda name: text_of(folder / name)))


def provenance_of(source: JobSource, site: SiteSpec, effective: EffectiveJob) -> Provenance:
    """Return what a script of this job says of its making; the runner's digest is not in it."""
    return Provenance(
        version=hpckit.__version__,
        site=site.name,
        job_digest=effective.digest,
        template=source.template or site.template,
        template_digest=None,
        reproduce=_reproduce(source, site, effective),
    )


def _script(
    plan: LaunchPlan, resources: FileResources, cache: BytecodeCache | None, provenance: Provenance
) -> tuple[Script, tuple[Notice, ...]]:
    """Return the script, and whose its templates are where they are not hpckit's."""
    templates = load_templates(resources)
    provenance = replace(provenance, runner_digest=resources.runner_digest)
    script = render_script(plan, provenance, templates.texts, cache)
    digest = templates.own_digest(script.templates)
    if digest is None:
        return script, ()
    provenance = replace(provenance, template_digest=digest)
    files = [str(templates.own[name]) for name in script.templates if name in templates.own]
    text = f"custom template {', '.join(dict.fromkeys(files))}: sha256 {digest[:12]}"
    notice = Notice(level=Level.NOTE, subject="template", text=text)
    return render_script(plan, provenance, templates.texts, cache), (notice,)


def _findings(plan: LaunchPlan, site: SiteSpec, dialect: Dialect) -> Sequence[Notice]:
    """What the site file alone tells of the job; a site without Slurm has nothing to say."""
    if site.submitter is not SubmitterKind.SLURM:
        return ()
    found = tuple(dialect_findings(plan, dialect))
    if not site.partitions:
        return found
    from hpckit.script.admission import as_notices, find_obstacles
    from hpckit.script.live import NOBODY, cluster_of_site, request_of_plan

    obstacles = find_obstacles(request_of_plan(plan), cluster_of_site(site), NOBODY, 0.0)
    return (*found, *as_notices(obstacles))


def without_errors(findings: Sequence[Notice]) -> tuple[Notice, ...]:
    """The notes among these findings. Raises JobRefused for the errors."""
    errors = [(one.subject, one.text, one.remedy) for one in findings if one.level is Level.ERROR]
    if errors:
        raise JobRefused(errors)
    return tuple(findings)


def _reproduce(source: JobSource, site: SiteSpec, effective: EffectiveJob) -> tuple[str, ...]:
    """Return the command that renders the same elsewhere, where site and defaults are others."""
    version = source.slurm_version
    said = (
        ("--from-report", ADVICE_FILE if source.advised is not None else None),
        ("--topology", TOPOLOGY_FILE if source.topology is not None else None),
        ("--stage", source.stage),
        ("--component", source.component),
        ("--site", site.name),
        ("--slurm-version", None if version is None else str(version)),
        ("--template", source.template),
    )
    words = ["hpckit", "render"]
    if source.file_text is not None:
        words.append("job.toml")
    for option, value in said:
        words += [] if value is None else [option, value]
    words += source.option_words
    for origin in effective.origins:
        if origin.origin is OriginKind.USER:
            words += ["--set", f"{origin.key}={origin.value}"]
    if source.command:
        words += ["--", *source.command]
    return tuple(words)


def effective_document(effective: EffectiveJob) -> dict[str, object]:
    """The effective job and the origin of each value, as `effective.json` holds them."""
    return {
        "schema": EFFECTIVE_SCHEMA,
        "digest": effective.digest,
        "job": to_tree(effective.spec),
        "origins": [to_tree(origin) for origin in effective.origins],
    }
