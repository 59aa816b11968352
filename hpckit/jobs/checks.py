"""A prepared job against the cluster that is to run it, before anything is written."""

from __future__ import annotations

from collections.abc import Iterator

from hpckit.core.errors import ParseError, SchedulerUnreachable, ToolFailed, ToolMissing
from hpckit.core.findings import Level, Notice
from hpckit.fabric.ask import ClusterProbe
from hpckit.jobs.prepare import PreparedJob, without_errors
from hpckit.script.fit import Aim, fit_findings
from hpckit.script.releases import dialect_findings, is_another_cluster, live_dialect, release_note
from hpckit.slurm.values import ClusterView, SlurmVersion

_SHOWS_ALL_NODES = SlurmVersion(23, 2)
"""Until then sinfo leaves out CLOUD nodes that are powered down (slurm.conf(5), PrivateData)."""


def check_live(
    job: PreparedJob,
    probe: ClusterProbe,
    cluster: str | None,
    aim: Aim | None = None,
    *,
    refuse: bool = True,
) -> tuple[ClusterView | None, tuple[Notice, ...]]:
    """The cluster, and what does not keep the job from running there.

    What keeps it is looked at again in the present cluster before the job is refused: what is
    remembered may have changed. Without `refuse` nothing is found. A cluster that cannot be asked,
    or is not understood, holds nothing back: then it is None. Raises JobRefused, and
    SchedulerUnreachable when nobody answers.
    """
    try:
        view = probe.look(cluster, needs_partitions=refuse)
        findings = tuple(_findings(job, view, cluster, aim)) if refuse else ()
        if any(one.level is Level.ERROR for one in findings):
            view = probe.look(cluster, fresh=True)
            findings = tuple(_findings(job, view, cluster, aim))
    except (ToolFailed, ToolMissing, ParseError) as error:
        text = f"the cluster was not looked at: {error.message}"
        return None, (Notice(level=Level.NOTE, subject="checks", text=text),)
    except SchedulerUnreachable as error:
        raise SchedulerUnreachable(
            error.message, hint=f"nothing was submitted; {error.hint}"
        ) from error
    return view, without_errors(findings)


def _findings(
    job: PreparedJob, view: ClusterView, cluster: str | None, aim: Aim | None
) -> Iterator[Notice]:
    yield from _identity(job, view, cluster)
    if view.unread is not None:
        text = f"the partitions were not looked at: {view.unread}"
        yield Notice(level=Level.NOTE, subject="checks", text=text)
    yield from dialect_findings(job.plan, live_dialect(job.site, view.config))
    version = view.config.version
    shows_all = version is not None and version >= _SHOWS_ALL_NODES
    yield from fit_findings(job.effective.spec, view.partitions, aim, is_certain=shows_all)


def _identity(job: PreparedJob, view: ClusterView, cluster: str | None) -> Iterator[Notice]:
    """Whether the cluster that answers is the one that the site file describes."""
    rules, config = job.site.slurm, view.config
    if cluster is None and is_another_cluster(rules.cluster, config):
        yield Notice(
            level=Level.ERROR,
            subject="site",
            text=f"{job.site.name} is the cluster {rules.cluster}, and this host submits to "
            f"{config.cluster_name}",
            remedy="submit from a login node of that cluster, or --site with a site file of this"
            " one",
        )
        return
    note = release_note(job.site, config)
    if note is not None:
        yield note
