"""`hpckit tune`: what communication needs on a job's nodes, and why."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

import hpckit
from hpckit.cli import output, wiring
from hpckit.cli.job_options import (
    JobCommand,
    JobOptions,
    given_source,
    options_of_a_job,
    typed_words,
)
from hpckit.core.errors import StorageFailed
from hpckit.core.units import counted

if TYPE_CHECKING:
    from hpckit.cli.tuned import Looked, Tuned
    from hpckit.comm.lint_rule import LintFacts, LintFinding
    from hpckit.comm.run.show import ComparedRun
    from hpckit.fabric.topology import ClusterTopology
    from hpckit.jobs.prepare import JobSource
    from hpckit.node.topology import NodeTopology
    from hpckit.spec.job import JobSpec


_ASK = "hpckit sites list · hpckit inspect --json > node.json (on a compute node)"


@click.command("tune", cls=JobCommand)
@click.option(
    "--lint",
    type=click.Path(allow_dash=True),
    metavar="FILE",
    help="Say what is wrong with the settings in FILE: a script, what env printed, a job file,"
    " an nccl.conf.",
)
@click.option(
    "--compare",
    type=click.Path(allow_dash=True),
    metavar="LOG",
    help="Say what a run used and lacks: output of nccl-tests, NCCL's log (NCCL_DEBUG=INFO).",
)
@output.fail_on_option(
    "With --lint or --compare: exit 1 for a finding of this severity or above it."
)
@click.option("--explain", metavar="VAR", help="Say all that is known about one variable.")
@click.option("--env", "as_env", is_flag=True, help="Print the variables alone, for a shell.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option(
    "--fabric",
    type=click.Path(allow_dash=True),
    metavar="FILE",
    help="The cluster's network (`hpckit fabric show --json`, ibnetdiscover), to see whether rails"
    " are joined.",
)
@options_of_a_job
@click.pass_context
def tune_command(ctx: click.Context, /, **params: Any) -> None:
    """Say which communication variables JOB needs on its nodes, and why: mostly none.

    Without JOB it is any job of two nodes; --site or --topology says what the nodes are. `hpckit
    render` and `submit` write the same into the script. --lint reads settings that are already
    there, --compare the log of a run.
    """
    from hpckit.cli.tuned import tune

    options = JobOptions.of(ctx, params)
    _check_together(options)
    source = given_source(options)
    resources = wiring.resources(options.site_dirs, options.template_dirs)
    is_job = source.file_text is not None or bool(source.command)
    look = _look(source) if is_job else None
    tuned = tune(source, resources, fabric=_fabric(options.fabric), look=look)
    if options.lint is not None:
        ctx.exit(lint_file(options, options.lint, tuned, source))
    if options.compare is not None:
        ctx.exit(compare_log(options, options.compare, tuned, source.topology))
    if options.explain is not None:
        _explain(tuned, options.explain, as_json=options.as_json)
    elif options.as_json:
        output.document(document(tuned))
    elif options.as_env:
        _print_env(tuned)
    else:
        _say(tuned, source, options)


def _check_together(options: JobOptions) -> None:
    asked = [name for name in ("lint", "compare", "explain", "as_env") if getattr(options, name)]
    if len(asked) > 1:
        names = [f"--{name.removeprefix('as_')}" for name in asked]
        raise click.UsageError(f"{' and '.join(names)} exclude each other")
    if options.as_env and options.as_json:
        raise click.UsageError("--env and --json exclude each other")
    if options.fail_on and not (options.lint or options.compare):
        raise click.UsageError("--fail-on is for --lint and --compare")
    files = [options.job, options.topology, options.fabric, options.lint, options.compare]
    if files.count("-") > 1:
        raise click.UsageError("only one file can be standard input")


def _look(source: JobSource) -> Callable[[JobSpec], Looked]:
    from hpckit.cli.tuned import look_for_nccl
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
    from hpckit.fabric.file import choose, read_fabric

    if file is None:
        return None
    data, name = wiring.read_capture(file)
    return choose(read_fabric(data, name), None, name)


def _explain(tuned: Tuned, name: str, *, as_json: bool) -> None:
    from hpckit.comm.explain import explain, explain_lines
    from hpckit.core.fields import to_tree

    explained = explain(name.strip(), tuned.facts, tuned.env, tuned.site)
    if as_json:
        output.document({"schema": "hpckit.tune-variable/1", **to_tree(explained)})
    else:
        output.say(explain_lines(explained, width=output.screen_width()))


def _print_env(tuned: Tuned) -> None:
    """The exports on stdout; what speaks against them, or is left out, on stderr as `render`."""
    from hpckit.comm.communication import comm_findings
    from hpckit.comm.explain import nothing_set
    from hpckit.script.render import export_only, source_line

    if tuned.env.profile is not None:
        click.echo(source_line(tuned.env.profile))
    for setting in tuned.env.settings:
        click.echo(export_only(setting))
    if not tuned.env.settings and tuned.env.profile is None:
        output.talk(f"note  {nothing_set(tuned.facts, is_derived=tuned.spec.tune.derive)}")
    output.say_notes(comm_findings(tuned.env))


def _say(tuned: Tuned, source: JobSource, options: JobOptions) -> None:
    from hpckit.comm.explain import comm_lines

    title = _title(tuned, source.topology)
    width, is_derived = output.screen_width(), tuned.spec.tune.derive
    output.say(comm_lines(tuned.facts, tuned.env, title=title, width=width, is_derived=is_derived))
    _say_predicted(tuned, width)
    if tuned.looked is not None:
        _say_looked(tuned.looked, width)
    output.result(f" next  {_next(tuned, source, options)}")


def _say_predicted(tuned: Tuned, width: int) -> None:
    """The best algorithm of each collective; where none has a figure, why."""
    from hpckit.comm.bandwidth.predict import busbw_lines

    best = [prediction for prediction in tuned.predicted if prediction.is_best]
    if not best:
        return
    nodes = counted(tuned.facts.nodes, "node")
    output.say(busbw_lines(best, where=f"large messages, {nodes}", width=width))


def _say_looked(looked: Looked, width: int) -> None:
    from hpckit.comm.library_search import already_lines, nccl_found_lines, unseen_lines

    if looked.found is not None:
        output.say(nccl_found_lines(looked.found, width=width))
    if looked.already is not None:
        output.say(already_lines(looked.already, width=width))
    failed = () if looked.failed is None else (f"NCCL was not found out: {looked.failed}",)
    output.say(unseen_lines((*failed, *looked.unseen), width=width))


def _title(tuned: Tuned, topology: NodeTopology | None) -> str:
    nodes = counted(tuned.facts.nodes, "node")
    if not tuned.are_nodes_said:
        nodes += " assumed (--nodes)"
    if topology is not None:
        from hpckit.node.title import node_title

        return " · ".join((*node_title(topology), nodes))
    node = tuned.site.platform.node_type
    return " · ".join(part for part in (f"site {tuned.site.name}", node, nodes) if part)


def _next(tuned: Tuned, source: JobSource, options: JobOptions) -> str:
    """What would tell where nothing is known; else the command that writes the same into a script.

    It has the job as it was typed, and the release that was found.
    """
    from hpckit.comm.explain import is_known

    if not is_known(tuned.facts) and options.site is None and options.topology is None:
        return _ASK
    words = ["hpckit", "render"]
    if options.job is not None or not source.command:
        words.append(options.job or "JOB")
    words += typed_words(options)
    if "tune.nccl" not in options.values and tuned.facts.version is not None:
        words += ["--nccl", str(tuned.facts.version)]
    return shlex.join([*words, *(["--", *source.command] if source.command else [])])


def document(tuned: Tuned) -> dict[str, object]:
    """`hpckit.tune/1`, as docs/reference/json.md describes it."""
    from hpckit.core.fields import to_tree
    from hpckit.core.findings import FINDING_KEYS, finding_trees
    from hpckit.spec.platform import TUNE_SCHEMA

    facts = to_tree(tuned.facts)
    version = tuned.facts.version
    facts["version"] = None if version is None else str(version)
    return {
        "schema": TUNE_SCHEMA,
        "hpckit": hpckit.__version__,
        "site": tuned.site.name,
        "nodes": facts.pop("nodes"),
        "env": to_tree(tuned.env.settings),
        "profile": to_tree(tuned.env.profile),
        "left": to_tree(tuned.env.left),
        "notes": finding_trees(tuned.env.notes, (*FINDING_KEYS, "source")),
        "facts": facts,
        "predicted": to_tree(tuned.predicted),
        **_looked_tree(tuned.looked),
    }


def _looked_tree(looked: Looked | None) -> dict[str, object]:
    """What the job will load and what is set already; null where nobody looked."""
    from hpckit.core.fields import to_tree

    if looked is None:
        return {"nccl": None, "already": None, "unseen": []}
    nccl = None if looked.found is None else to_tree(looked.found)
    for library in [] if nccl is None else [nccl["chosen"], *nccl["others"]]:
        if library is not None and library["version"] is not None:
            library["version"] = ".".join(map(str, library["version"].values()))
    already = None if looked.already is None else to_tree(looked.already)
    failed = [] if looked.failed is None else [looked.failed]
    return {"nccl": nccl, "already": already, "unseen": [*failed, *looked.unseen]}


COMPARED_SCHEMA = "hpckit.nccl-run/1"
_TOO_LARGE = "NCCL_DEBUG_FILE=nccl.%h.%p writes a file a rank; those of a few nodes tell most"


def compare_log(options: JobOptions, file: str, tuned: Tuned, topology: NodeTopology | None) -> int:
    """Print what ran, and what explains a shortfall. Raises ParseError, StorageFailed."""
    from hpckit.comm.run.show import compare_run, nccl_run_lines

    data, name = wiring.read_capture(file, size_hint=_TOO_LARGE)
    settings = tuple((setting.name, setting.value) for setting in tuned.env.settings)
    compared = compare_run(data, tuned.facts, tuned.site.platform, topology, settings)
    if options.as_json:
        output.document(_compared_document(name, compared))
    else:
        output.say(
            nccl_run_lines(
                compared.run,
                compared.findings,
                predicted=compared.predicted,
                unpredicted=compared.unpredicted,
                width=output.screen_width(),
            )
        )
    return output.fail_code(compared.findings, options.fail_on)


def _compared_document(name: str, compared: ComparedRun) -> dict[str, object]:
    from hpckit.core.fields import to_tree
    from hpckit.core.findings import finding_trees

    keys = ("rule", "severity", "because", "remedy", "source", "line_no")
    return {
        "schema": COMPARED_SCHEMA,
        "hpckit": hpckit.__version__,
        "file": name,
        "findings": finding_trees(compared.findings, keys),
        "predicted": dict(compared.predicted),
        "unpredicted": compared.unpredicted,
        "run": to_tree(compared.run),
    }


LINT_SCHEMA = "hpckit.lint/1"


def lint_file(options: JobOptions, file: str, tuned: Tuned, source: JobSource) -> int:
    """Print what is wrong; gives the exit code. Raises ParseError, StorageFailed."""
    from hpckit.comm.lint import lint_text

    data, name = wiring.read_capture(file)
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
    from hpckit.core.findings import finding_trees

    keys = ("rule", "severity", "because", "remedy", "source", "date", "since")
    version = tuned.facts.version
    return {
        "schema": LINT_SCHEMA,
        "hpckit": hpckit.__version__,
        "file": name,
        "nccl": None if version is None else str(version),
        "findings": finding_trees(findings, keys, line="line_no", name="subject"),
    }
