"""What communication needs on a job's nodes, before there is a script."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import click

import hpckit
from hpckit import wiring
from hpckit.cli import output
from hpckit.cli.job_options import (
    JobOptions,
    typed_words,
)
from hpckit.comm.communication import Communication, comm_findings, communication
from hpckit.comm.environment import node_notes
from hpckit.comm.explain import comm_lines, explain, explain_lines, is_known, nothing_set
from hpckit.comm.facts import CommFacts, Trait, are_rails_isolated
from hpckit.core.errors import StorageFailed
from hpckit.core.fields import to_tree
from hpckit.core.findings import (
    FINDING_KEYS,
    Severity,
    SourcedFinding,
    finding_trees,
    gravest_first,
)
from hpckit.core.units import counted
from hpckit.jobs.sites import load_site
from hpckit.jobs.source import JobSource, layers_of
from hpckit.node.rules.rules import node_findings
from hpckit.node.title import node_title
from hpckit.node.topology import NodeTopology
from hpckit.script.launchers.registry import refuse_launch
from hpckit.script.render import export_only, source_line
from hpckit.slurm.values import JobEntry
from hpckit.spec.job import JobSpec
from hpckit.spec.merge import merged_job, option_layer
from hpckit.spec.platform import TUNE_SCHEMA, CommEnv, CommSetting, NcclVersion
from hpckit.spec.site import SiteSpec

if TYPE_CHECKING:
    from hpckit.comm.bandwidth.values import BusbwPrediction
    from hpckit.comm.library_search import FoundNccl, Person
    from hpckit.comm.lint_rule import LintFacts, LintFinding
    from hpckit.comm.nccl_conf import Already
    from hpckit.comm.run.show import ComparedRun
    from hpckit.core.files import FileResources, LocalFiles
    from hpckit.fabric.topology import ClusterTopology

_RAILS_UNSAID = SourcedFinding(
    rule="rails-unsaid",
    severity=Severity.NOTE,
    subject="rails",
    because="the network shows unconnected rails; scripts take this from the site file only",
    source="docs/reference/site-file.md",
    remedy="rails_isolated = true under [platform] of the site file",
)
_LOOKED_HERE = (
    "settings are those of this machine; on the job's nodes /etc/nccl.conf and local folders may"
    " differ: run hpckit tune in a job there"
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
    spec = merged_job(layers, refuse_launch)
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
    platform = made.site.platform
    if not (platform.gpu if topology is None else topology.gpus):
        return ()
    from hpckit.comm.bandwidth.predict import predicted

    return predicted(
        platform,
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
        why = f"the container {container} was not inspected; {WHAT_TELLS}"
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
        because=f"the job loads {loaded}, but sets {said}, which the rules follow",
        source=chosen.path,
        remedy=f"--nccl {loaded}, or [tune] nccl in the job file",
    )


_ASK = "hpckit sites list · hpckit inspect --json > node.json (on a compute node)"


def answer(options: JobOptions, source: JobSource) -> int:
    """Print what the options ask for; gives the exit code. Raises HpckitError."""
    source = on_this_node(source, options, _this_node)
    resources = wiring.resources(options.site_dirs, options.template_dirs)
    is_job = source.file_text is not None or bool(source.command)
    look = _look(source) if is_job else None
    tuned = tune(source, resources, fabric=_fabric(options.fabric), look=look)
    if options.lint is not None:
        return lint_file(options, options.lint, tuned, source)
    if options.compare is not None:
        return compare_log(options, options.compare, tuned, source.topology)
    if options.explain is not None:
        _explain(tuned, options.explain, as_json=options.as_json)
    elif options.as_json:
        output.document(document(tuned))
    elif options.as_env:
        _print_env(tuned)
    else:
        _say(tuned, source, options)
    return 0


def on_this_node(
    source: JobSource, options: JobOptions, look: Callable[[], NodeTopology]
) -> JobSource:
    """The source with this node where it has GPUs, and nobody named a machine or brought a file."""
    if any((source.topology, options.site, options.lint, options.compare)):
        return source
    node = look()
    return replace(source, topology=node) if node.gpus else source


def _this_node() -> NodeTopology:
    from hpckit.node.merge import inspect_here

    files, driver, stands_in = wiring.node_probes(None)
    return inspect_here(files, driver, stands_in=stands_in)


def _look(source: JobSource) -> Callable[[JobSpec], Looked]:
    from hpckit.core.files import LocalFiles

    def look(spec: JobSpec) -> Looked:
        place = source.folder / spec.chdir if spec.chdir else wiring.workdir()
        try:
            jobs, _ = wiring.job_index().readable()
        except StorageFailed:
            jobs = ()
        return look_for_nccl(spec, wiring.person(), str(place), LocalFiles(), jobs)

    return look


def _fabric(file: str | None) -> ClusterTopology | None:
    if file is None:
        return None
    from hpckit.fabric.file import choose, read_fabric

    data, name = wiring.read_capture(file)
    return choose(read_fabric(data, name), None, name)


def _explain(tuned: Tuned, name: str, *, as_json: bool) -> None:
    explained = explain(name.strip(), tuned.facts, tuned.env, tuned.site)
    if as_json:
        output.document({"schema": "hpckit.tune-variable/1", **to_tree(explained)})
    else:
        output.say(explain_lines(explained, width=output.screen_width()))


def _print_env(tuned: Tuned) -> None:
    """The exports on stdout; what speaks against them, or is left out, on stderr as `render`."""
    if tuned.env.profile is not None:
        click.echo(source_line(tuned.env.profile))
    for setting in tuned.env.settings:
        click.echo(export_only(setting))
    if not tuned.env.settings and tuned.env.profile is None:
        output.talk(f"note  {nothing_set(tuned.facts, is_derived=tuned.spec.tune.derive)}")
    output.say_notes(comm_findings(tuned.env))


def _say(tuned: Tuned, source: JobSource, options: JobOptions) -> None:
    title = _title(tuned, source.topology)
    width, is_derived = output.screen_width(), tuned.spec.tune.derive
    output.say(comm_lines(tuned.facts, tuned.env, title=title, width=width, is_derived=is_derived))
    _say_predicted(tuned, width)
    if tuned.looked is not None:
        _say_looked(tuned.looked, width)
    output.result(f" next  {_next(tuned, source, options)}")


def _say_predicted(tuned: Tuned, width: int) -> None:
    """The best algorithm of each collective; where none has a figure, why."""
    best = [prediction for prediction in tuned.predicted if prediction.is_best]
    if not best:
        return
    from hpckit.comm.bandwidth.predict import busbw_lines

    nodes = counted(tuned.facts.nodes, "node")
    output.say(busbw_lines(best, where=f"large messages, {nodes}", width=width))


def _say_looked(looked: Looked, width: int) -> None:
    from hpckit.comm.library_search import already_lines, nccl_found_lines, unseen_lines

    if looked.found is not None:
        output.say(nccl_found_lines(looked.found, width=width))
    if looked.already is not None:
        output.say(already_lines(looked.already, width=width))
    failed = () if looked.failed is None else (f"NCCL release unknown: {looked.failed}",)
    output.say(unseen_lines((*failed, *looked.unseen), width=width))


def _title(tuned: Tuned, topology: NodeTopology | None) -> str:
    nodes = counted(tuned.facts.nodes, "node")
    if not tuned.are_nodes_said:
        nodes += " assumed (--nodes)"
    if topology is not None:
        return " · ".join((*node_title(topology), nodes))
    node = tuned.site.platform.node_type
    return " · ".join(part for part in (f"site {tuned.site.name}", node, nodes) if part)


def _next(tuned: Tuned, source: JobSource, options: JobOptions) -> str:
    """What would tell where nothing is known; else the command that writes the same into a script.

    It has the job as it was typed, and the release that was found.
    """
    if not is_known(tuned.facts) and options.site is None and source.topology is None:
        return _ASK
    is_here = source.topology is not None and options.topology is None
    words = ["hpckit", "render"]
    if options.job is not None or not source.command:
        words.append(options.job or "JOB")
    words += typed_words(options)
    if "tune.nccl" not in options.values and tuned.facts.version is not None:
        words += ["--nccl", str(tuned.facts.version)]
    words += ["--topology", "node.json"] if is_here else []
    command = shlex.join([*words, *(["--", *source.command] if source.command else [])])
    return f"hpckit inspect --json > node.json && {command}" if is_here else command


def document(tuned: Tuned) -> dict[str, object]:
    """`hpckit.tune/1`, as docs/reference/json.md describes it."""
    facts = to_tree(tuned.facts)
    version = tuned.facts.version
    facts["version"] = None if version is None else str(version)
    return {
        "schema": TUNE_SCHEMA,
        "hpckit": hpckit.__version__,
        "site": tuned.site.name,
        "nodes": facts.pop("nodes"),
        "env": tuned.env.settings,
        "profile": tuned.env.profile,
        "left": tuned.env.left,
        "notes": finding_trees(tuned.env.notes, (*FINDING_KEYS, "source")),
        "facts": facts,
        "predicted": tuned.predicted,
        **_looked_tree(tuned.looked),
    }


def _looked_tree(looked: Looked | None) -> dict[str, object]:
    """What the job will load and what is set already; null where nobody looked."""
    if looked is None:
        return {"nccl": None, "already": None, "unseen": []}
    nccl = None if looked.found is None else to_tree(looked.found)
    for library in [] if nccl is None else [nccl["chosen"], *nccl["others"]]:
        if library is not None and library["version"] is not None:
            library["version"] = ".".join(map(str, library["version"].values()))
    already = None if looked.already is None else to_tree(looked.already)
    failed = [] if looked.failed is None else [looked.failed]
    return {"nccl": nccl, "already": already, "unseen": [*failed, *looked.unseen]}


_TOO_LARGE = "NCCL_DEBUG_FILE=nccl.%h.%p writes a file per rank; a few nodes are enough"


def compare_log(options: JobOptions, file: str, tuned: Tuned, topology: NodeTopology | None) -> int:
    """Print what ran, and what explains a shortfall. Raises ParseError, StorageFailed."""
    from hpckit.comm.run.show import compare_run, nccl_run_lines

    data, name = wiring.read_capture(file, size_hint=_TOO_LARGE)
    settings = tuple((setting.name, setting.value) for setting in tuned.env.settings)
    compared = compare_run(data, tuned.facts, tuned.site.platform, topology, settings)
    if options.as_json:
        output.document(_compared_document(name, compared))
    else:
        output.say(nccl_run_lines(compared, width=output.screen_width()))
    return output.fail_code(compared.findings, options.fail_on)


def _compared_document(name: str, compared: ComparedRun) -> dict[str, object]:
    keys = ("rule", "severity", "because", "remedy", "source", "line_no")
    return {
        "schema": "hpckit.nccl-run/1",
        "hpckit": hpckit.__version__,
        "file": name,
        "findings": finding_trees(compared.findings, keys),
        "predicted": dict(compared.predicted),
        "unpredicted": compared.unpredicted,
        "run": compared.run,
    }


def lint_file(options: JobOptions, file: str, tuned: Tuned, source: JobSource) -> int:
    """Print what is wrong; gives the exit code. Raises ParseError, StorageFailed."""
    from hpckit.comm.lint import lint_text

    data, name = wiring.read_capture(file)
    if not data.startswith(b"#!") and b" NCCL INFO " in data[:4096]:
        compare = f"hpckit tune --compare {shlex.quote(file)}"
        raise click.UsageError(f"{name} is the log of a run, no script; instead: {compare}")
    facts = tuned.facts
    findings = lint_text(
        data, name, nccl=facts.version, library=facts.library, facts=_facts(tuned, source.topology)
    )
    if options.as_json:
        output.document(_linted_document(name, tuned, findings))
    else:
        _say_linted(options, name, findings)
    return output.fail_code(findings, options.fail_on)


def _facts(tuned: Tuned, topology: NodeTopology | None) -> LintFacts:
    """Where the settings are to hold; of nodes that nobody named the number is not known."""
    from hpckit.comm.lint_rule import LintFacts

    nodes = tuned.facts.nodes if tuned.are_nodes_said else None
    if topology is None:
        return LintFacts(plugin=tuned.facts.plugin, nodes=nodes, derived=tuned.derived)
    interfaces = [name for nic in topology.nics for name in nic.netdevs]
    devices = [nic.name for nic in topology.nics if nic.kind is not None]
    return LintFacts(
        interfaces=tuple(interfaces) or None,
        nics=tuple(devices) or None,
        plugin=tuned.facts.plugin,
        nodes=nodes,
        is_vm=topology.host.is_virtual_machine,
        has_nvlink=any(gpu.nvlinks for gpu in topology.gpus),
        derived=tuned.derived,
    )


def _say_linted(options: JobOptions, name: str, findings: tuple[LintFinding, ...]) -> None:
    from hpckit.comm.lint_rule import comm_lint_lines

    job = [] if options.job is None else [options.job]
    words = ["hpckit", "tune", *job, "--lint", str(options.lint), *typed_words(options)]
    words += [] if options.fabric is None else ["--fabric", options.fabric]
    words += ["--json", *(["--", *options.command] if options.command else [])]
    is_again = "-" not in (options.lint, options.job, options.topology, options.fabric)
    command = shlex.join(words) if is_again else None
    output.say(comm_lint_lines(findings, name=name, width=output.screen_width(), command=command))


def _linted_document(
    name: str, tuned: Tuned, findings: tuple[LintFinding, ...]
) -> dict[str, object]:
    keys = ("rule", "severity", "because", "remedy", "source", "date", "since")
    version = tuned.facts.version
    return {
        "schema": "hpckit.lint/1",
        "hpckit": hpckit.__version__,
        "file": name,
        "nccl": None if version is None else str(version),
        "findings": finding_trees(findings, keys, line="line_no", name="subject"),
    }
