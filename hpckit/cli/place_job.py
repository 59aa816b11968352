"""What a job file says about places, for `hpckit place JOB`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hpckit.app.place import PlaceQuestion
    from hpckit.cli.cmd_place import PlaceOptions
    from hpckit.model.job import JobSpec


def question_of_job(job: str, options: PlaceOptions) -> PlaceQuestion:
    """Return the question with the job's mesh, volumes and ranks; options stand over them.

    Raises ConfigError, click.UsageError.
    """
    from hpckit.app.place import PlaceQuestion
    from hpckit.cli.fabric_options import nodes_of, slurm_version
    from hpckit.model.job import MeshAxis
    from hpckit.parse.mesh import parse_mesh, parse_volumes

    spec = _spec(job, options.site)
    gbits = options.node_gbits or spec.place.node_gbits
    nodelist = options.nodelist or spec.slurm.nodelist
    if nodelist is None:
        raise click.UsageError(
            f"--nodelist names the {spec.resources.nodes} nodes of the job, such as 'n[001-064]'"
        )
    own = dict(spec.parallel) or {MeshAxis.DATA: spec.ntasks}
    return PlaceQuestion(
        nodes=nodes_of(nodelist),
        ranks_per_node=options.gpus_per_node or spec.ntasks_per_node,
        sizes=parse_mesh(options.mesh) if options.mesh else own,
        volumes=spec.place.volume if options.volume is None else parse_volumes(options.volume),
        version=slurm_version(options.slurm_version, options.fabric),
        gpus=options.gpus_per_node or spec.resources.gpus_per_node or 1,
        node_bytes_per_s=None if gbits is None else gbits * 1e9 / 8,
        oversubscription=options.oversubscription or spec.place.oversubscription,
        is_job=True,
    )


def _spec(job: str, site: str | None) -> JobSpec:
    """Return the effective job, as `hpckit render JOB` has it."""
    from hpckit import wiring
    from hpckit.app.prepare import JobSource, prepare
    from hpckit.cli.job_options import read_job

    source = JobSource(
        file_text=read_job(job),
        file_name=job,
        options={},
        option_words=(),
        command=(),
        site_name=site,
        template=None,
        folder=wiring.workdir() if job == "-" else Path(job).resolve().parent,
    )
    return prepare(source, wiring.resources(), wiring.template_cache()).effective.spec
