"""What communication needs on a job's nodes, before there is a script."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hpckit.comm.bandwidth.predict import predicted
from hpckit.comm.bandwidth.values import BusbwPrediction
from hpckit.comm.communication import Communication, communication
from hpckit.comm.environment import node_notes
from hpckit.comm.facts import CommFacts, Trait, are_rails_isolated
from hpckit.core.errors import StorageFailed
from hpckit.core.findings import Severity, SourcedFinding, gravest_first
from hpckit.jobs.prepare import JobSource, layers_of
from hpckit.jobs.sites import load_site
from hpckit.node.rules.rules import node_findings
from hpckit.node.topology import NodeTopology
from hpckit.script.launchers.registry import refuse_launch
from hpckit.slurm.values import JobEntry
from hpckit.spec.files import effective_job, option_layer
from hpckit.spec.job import JobSpec
from hpckit.spec.platform import CommEnv, CommSetting, NcclVersion
from hpckit.spec.site import SiteSpec

if TYPE_CHECKING:
    from hpckit.comm.library_search import FoundNccl, Person
    from hpckit.comm.nccl_conf import Already
    from hpckit.core.files import FileResources, LocalFiles
    from hpckit.fabric.topology import ClusterTopology

_RAILS_UNSAID = SourcedFinding(
    rule="rails-unsaid",
    severity=Severity.NOTE,
    subject="rails",
    because="the network shows that they are islands; a script knows it from the site file alone",
    source="docs/reference/site-file.md",
    remedy="rails_isolated = true under [platform] of the site file",
)
_LOOKED_HERE = (
    "this machine was looked at: /etc/nccl.conf and local folders of the job's nodes may differ,"
    " which hpckit tune tells in a job there"
)
PROBE_NODES = 2
"""Nodes of a job that nobody described: from two on there is a network."""
_PROBE = {
    "name": ("tune", "no job"),
    "command": (["true"], "no job"),
    "resources.nodes": (PROBE_NODES, "no job"),
}


class Looked(NamedTuple):
    """What was found where the job will run: its NCCL, and what is set already.

    `unseen` says what was not looked at; `failed` is why nothing was found out, None if all was.
    """

    found: FoundNccl | None
    already: Already | None
    unseen: tuple[str, ...] = ()
    failed: str | None = None


class Tuned(NamedTuple):
    """The communication environment of a job, and what it follows from.

    `derived` is what would be set without the job's own word. `is_of_job` is whether somebody
    described the job: else its nodes are a guess. `looked` is None where nobody asked what the job
    will load.
    """

    spec: JobSpec
    site: SiteSpec
    facts: CommFacts
    env: CommEnv
    derived: tuple[CommSetting, ...]
    is_of_job: bool
    are_nodes_said: bool
    looked: Looked | None = None
    predicted: tuple[BusbwPrediction, ...] = ()


def tune(
    source: JobSource,
    resources: FileResources,
    fabric: ClusterTopology | None = None,
    look: Callable[[JobSpec], Looked] | None = None,
) -> Tuned:
    """What `render` would set, with what is odd about the inspected node.

    `fabric` is the cluster's network, which may show what the site file does not say. `look` finds
    what the job will load; its release is used where the job names none. Raises ConfigError,
    PlanError.
    """
    said = load_site(resources, source.site_name)
    site = with_fabric(said, fabric)
    layers = layers_of(source, site)
    is_of_job = source.file_text is not None or bool(source.command)
    are_nodes_said = is_of_job or "resources.nodes" in source.options
    if not is_of_job:
        layers.append(option_layer(_PROBE))
    spec = effective_job(layers, refuse_launch).spec
    looked = None if look is None else look(spec)
    found = None if looked is None else looked.found
    made = communication(spec, site, source.topology, None if found is None else found.version)
    return Tuned(
        spec=spec,
        site=made.site,
        facts=made.facts,
        env=_with_notes(made, source, found, is_site_silent=site is not said),
        derived=made.derived,
        is_of_job=is_of_job,
        are_nodes_said=are_nodes_said,
        looked=looked,
        predicted=_predicted(spec, made, source.topology),
    )


def _predicted(
    spec: JobSpec, made: Communication, topology: NodeTopology | None
) -> tuple[BusbwPrediction, ...]:
    return predicted(
        made.site.platform,
        topology,
        made.facts.version,
        [
            *spec.environment.set.items(),
            *((setting.name, setting.value) for setting in made.env.settings),
        ],
        nodes=made.facts.nodes,
        gpus_per_node=spec.resources.gpus_per_node,
    )


def look_for_nccl(
    spec: JobSpec, person: Person, workdir: str, files: LocalFiles, jobs: Sequence[JobEntry]
) -> Looked:
    """What the job will load, and what is set already; what is not known is said.

    What a container holds is not looked at, and this machine's libraries do not count there. What
    is not known here, the last of `jobs` (newest first) of this name may have reported.
    """
    from hpckit.comm.library import WHAT_TELLS, last_loaded, look_at_nccl
    from hpckit.comm.library_search import FoundNccl, container_of, job_place, unseen

    container, not_seen = container_of(spec), unseen(spec, person)
    if container is not None:
        last = last_loaded(spec.name, jobs, files)
        found = None if last is None else FoundNccl(chosen=last, because=last.how)
        why = f"the container {container} is not looked into; {WHAT_TELLS}"
        return Looked(found=found, already=None, unseen=not_seen, failed=None if last else why)
    try:
        found, already = look_at_nccl(job_place(spec, person, workdir), files)
    except StorageFailed as error:
        why = f"{error.message} ({error.hint})"
        return Looked(found=None, already=None, unseen=not_seen, failed=why)
    if found.version is None and (last := last_loaded(spec.name, jobs, files)) is not None:
        found = FoundNccl(chosen=last, because=last.how, notes=found.notes)
    here = () if person.environment.get("SLURM_JOB_ID") else (_LOOKED_HERE,)
    return Looked(found=found, already=already, unseen=(*not_seen, *here))


def with_fabric(site: SiteSpec, fabric: ClusterTopology | None) -> SiteSpec:
    """The site with what its network shows, where the file does not say it."""
    if fabric is None or site.platform.rails_isolated is not None:
        return site
    isolated = are_rails_isolated(fabric)
    return replace(site, platform=replace(site.platform, rails_isolated=isolated))


def _with_notes(
    made: Communication, source: JobSource, found: FoundNccl | None, *, is_site_silent: bool
) -> CommEnv:
    """The environment with what is odd about the node, and what a script would not know."""
    notes = [*made.env.notes, *_other_release(made.facts, found)]
    if source.topology is not None:
        notes += node_notes(node_findings(source.topology))
    if is_site_silent and Trait.ISOLATED_RAILS in made.facts.traits:
        notes.append(_RAILS_UNSAID)
    return replace(made.env, notes=tuple(gravest_first(notes)))


def _other_release(facts: CommFacts, found: FoundNccl | None) -> Iterator[SourcedFinding]:
    """Whether the job says another release than the one it loads: the rules go by its word."""
    chosen = None if found is None else found.chosen
    loaded, said = None if chosen is None else chosen.version, facts.version
    if chosen is None or loaded is None or said is None:
        return
    if said in (loaded, NcclVersion(loaded.major, loaded.minor)):
        return
    yield SourcedFinding(
        rule="release-differs",
        severity=Severity.WARNING,
        subject=chosen.library.upper(),
        because=f"{loaded} is what the job loads, and the rules go by {said}, which it says",
        source=chosen.path,
        remedy=f"--nccl {loaded}, or [tune] nccl in the job file",
    )
