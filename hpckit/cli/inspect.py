"""`hpckit inspect`: what a node looks like: this one, a captured one, or many."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

import hpckit
from hpckit import wiring
from hpckit.cli import output
from hpckit.cli.job_argument import complete_site, site_here
from hpckit.core.errors import HpckitError

if TYPE_CHECKING:
    from hpckit.core.findings import Finding
    from hpckit.node.answers import NodeQuestion
    from hpckit.node.remote import NodesSeen
    from hpckit.node.topology import NodeTopology


FORMATS = ("tree", "matrix", "json", "svg")
VOCABULARIES = ("nvidia-smi", "nccl")
_ONE_NODE = ("machine", "sysroot")
_MANY_NODES = (
    "timeout_s",
    "partition",
    "account",
    "qos",
    "reservation",
    "gpus_per_node",
    "shared_dir",
)


class InspectOptions(SimpleNamespace):
    """What `hpckit inspect` is asked; `format_` is chosen already."""

    file: str | None
    format_: str
    vocabulary: str | None
    machine: int | None
    sysroot: str | None
    expected_gpus: int | None
    fail_on: str | None
    nodelist: str | None
    job_id: str | None
    timeout_s: float | None
    partition: str | None
    account: str | None
    qos: str | None
    reservation: str | None
    gpus_per_node: int | None
    shared_dir: str | None
    site: str | None


@click.command("inspect")
@click.argument("file", required=False, type=click.Path(allow_dash=True), metavar="[FILE]")
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), help="Output format. [default: tree]"
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document: --format json.")
@click.option(
    "--vocabulary",
    type=click.Choice(VOCABULARIES),
    help="Link names of --format matrix. [default: nvidia-smi]",
)
@click.option(
    "--machine",
    type=click.IntRange(1),
    metavar="N",
    help="Machine of a FILE that holds several. [default: 1]",
)
@click.option(
    "--sysroot",
    type=output.SeenPath(exists=True, file_okay=False),
    metavar="DIR",
    help="Read /sys and /proc below DIR. [default: /]",
)
@click.option(
    "--gpus",
    "expected_gpus",
    type=click.IntRange(0),
    metavar="N",
    help="Expected number of GPUs (Slurm Gres=); warn if fewer are found.",
)
@output.fail_on_option("Exit 1 for a finding of this severity or above.")
@click.option(
    "--nodes",
    "nodelist",
    metavar="LIST",
    help="Inspect these nodes through srun: 'c[1-4]'.",
)
@click.option("--job", "job_id", metavar="ID", help="Inspect the nodes of this running job.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(1, 3600),
    metavar="SECONDS",
    help="With --nodes or --job: wait for answers. [default: 60]",
)
@click.option("--partition", metavar="NAME", help="With --nodes: passed to srun.")
@click.option("--account", metavar="NAME", help="With --nodes: passed to srun.")
@click.option("--qos", metavar="NAME", help="With --nodes: passed to srun.")
@click.option("--reservation", metavar="NAME", help="With --nodes: passed to srun.")
@click.option(
    "--gpus-per-node",
    type=click.IntRange(1),
    metavar="N",
    help="With --nodes: request N GPUs, where Slurm hides GPUs that were not requested.",
)
@click.option(
    "--shared-dir",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="With --nodes or --job: folder that all nodes share. [default: job_root of --site]",
)
@click.option(
    "--site",
    default=wiring.user_site,
    envvar="HPCKIT_SITE",
    shell_complete=complete_site,
    help="With --nodes or --job: site whose job_root is used.",
)
@click.pass_context  # fmt: skip
def inspect_command(
    ctx: click.Context, /, *, format_: str | None, as_json: bool, **params: Any
) -> None:
    """Show a node's GPUs, NVLink, PCIe, NUMA and NICs, and what is wrong with them.

    Without FILE: this node. FILE is a capture of another one: the output of --json, an NCCL or
    RCCL topology XML, an lstopo XML, the text of `nvidia-smi topo -m`, `rocm-smi --showtopo`
    or `amd-smi topology`, or a tarball of hwloc-gather-topology, /sys/class/kfd or
    /sys/class/infiniband. - is standard input.
    """
    format_ = output.format_of(format_, as_json=as_json, default="tree")
    options = InspectOptions(format_=format_, **params)
    _check_together(options)
    if options.nodelist is not None or options.job_id is not None:
        ctx.exit(inspect_many(options))
    ctx.exit(_inspect_node(options))


def _check_together(options: InspectOptions) -> None:
    many = [name for name in (options.nodelist, options.job_id) if name is not None]
    if not all(name.strip() for name in many):
        # As from a variable that is not set: this node is not what was asked for.
        raise click.UsageError("--nodes and --job need a value")
    if len(many) + bool(options.file) > 1:
        raise click.UsageError("FILE, --nodes and --job exclude each other")
    unfit = _ONE_NODE if many else _MANY_NODES
    stray = [name for name in unfit if getattr(options, name) is not None]
    if stray:
        option = "--" + stray[0].removesuffix("_s").replace("_", "-")
        which = "for one node only" if many else "for --nodes and --job only"
        raise click.UsageError(f"{option} is {which}")
    if many and options.format_ not in ("tree", "json"):
        raise click.UsageError(f"--format {options.format_} is for one node only")
    if options.vocabulary is not None and options.format_ != "matrix":
        raise click.UsageError("--vocabulary is for --format matrix only")
    _check_node(options)


def _check_node(options: InspectOptions) -> None:
    sysroot = options.sysroot
    if sysroot is not None and options.file:
        raise click.UsageError("--sysroot is for this node, not for a FILE")
    if sysroot is not None and not Path(sysroot, "sys").is_dir():
        raise click.UsageError(f"--sysroot {sysroot}: there is no sys/ below it")
    if options.machine is not None and not options.file:
        raise click.UsageError("--machine is for a FILE only")


def _inspect_node(options: InspectOptions) -> int:
    from hpckit.node.rules.rules import node_findings

    topology = _topology(options)
    findings = node_findings(topology, expected_gpus=options.expected_gpus)
    _print(topology, findings, options)
    return output.fail_code(findings, options.fail_on)


def _topology(options: InspectOptions) -> NodeTopology:
    from hpckit.node.capture.snapshot import inspect_capture
    from hpckit.node.merge import inspect_here

    if not options.file:
        files, driver, stands_in = wiring.node_probes(options.sysroot)
        return inspect_here(files, driver, stands_in=stands_in)
    is_name = options.file.replace("-", "").isalnum()
    node = f"for a node: hpckit inspect --nodes {options.file}" if is_name else None
    machines = inspect_capture(*wiring.read_capture(options.file, missing_hint=node))
    which = options.machine or 1
    if which > len(machines):
        raise click.UsageError(f"--machine {which}: {options.file} holds {len(machines)}")
    if len(machines) > 1 and options.machine is None:
        output.talk(
            f"note  {options.file} holds {len(machines)} machines; this is the first,"
            " --machine 2 is the next"
        )
    return machines[which - 1]


def _print(topology: NodeTopology, findings: Sequence[Finding], options: InspectOptions) -> None:
    format_ = options.format_
    if format_ == "json":
        output.document(document(topology, findings))
    elif format_ == "matrix":
        from hpckit.node.tree_text import matrix_text

        output.as_file(matrix_text(topology, nccl=options.vocabulary == "nccl"))
    elif format_ == "svg":
        from hpckit.node.picture.picture import node_svg

        output.as_file(node_svg(topology, findings))
    else:
        from hpckit.node.show import COMMAND, node_lines

        file, machine = options.file, options.machine
        words = [COMMAND, *([shlex.quote(file)] if file else [])]
        words += [] if machine is None else [f"--machine {machine}"]
        # Standard input cannot be asked once more.
        command = None if file == "-" else " ".join(words)
        output.say(node_lines(topology, findings, width=output.screen_width(), command=command))


def document(topology: NodeTopology, findings: Sequence[Finding]) -> dict[str, object]:
    """Return the document of one node, as docs/reference/topology.md describes it."""
    from hpckit.core.fields import to_tree
    from hpckit.core.findings import finding_trees
    from hpckit.node.topology import TOPOLOGY_SCHEMA

    return {
        "schema": TOPOLOGY_SCHEMA,
        "hpckit": hpckit.__version__,
        **to_tree(topology),
        "findings": finding_trees(findings),
    }


_TIMEOUT_S = 60.0


def inspect_many(options: InspectOptions) -> int:
    """Ask the nodes, print what they are, and give the exit code."""
    from hpckit.node.remote import inspect_nodes
    from hpckit.node.show import group_lines

    wiring.interrupt_on_signals()
    line = output.Progress()

    def progress(answered: int, asked: int) -> None:
        line.show(f"{_bar(answered, asked)} {answered} of {asked} nodes have answered")

    try:
        seen = inspect_nodes(
            wiring.node_probe(_shared_dir(options)), _question(options), options.nodelist, progress
        )
    finally:
        line.clear()
    if options.format_ == "json":
        output.document(_document(seen))
    else:
        output.say(group_lines(seen.groups, seen.silent, width=output.screen_width()))
    if not seen.groups:
        return _nobody(is_json=options.format_ == "json")
    findings = [finding for group in seen.groups for finding in group.findings]
    return output.fail_code([*findings, *seen.silent], options.fail_on)


def _nobody(*, is_json: bool) -> int:
    error = HpckitError("no node answered", hint="scontrol show node NAME says how Slurm sees it")
    if not is_json:
        raise error
    # The one document is printed; an error would print another.
    output.talk(str(error))
    return error.exit_code


def _bar(done: int, total: int, width: int = 20) -> str:
    filled = width * done // total if total else width
    return "█" * filled + "░" * (width - filled)


_ASKED = ("expected_gpus", "partition", "account", "qos", "reservation", "gpus_per_node")


def _question(options: InspectOptions) -> NodeQuestion:
    from hpckit.node.answers import NodeQuestion

    return NodeQuestion(
        nodes=(),
        timeout_s=options.timeout_s or _TIMEOUT_S,
        job_id=options.job_id or (options.nodelist and os.environ.get("SLURM_JOB_ID")),
        **{name: getattr(options, name) for name in _ASKED},
    )


def _shared_dir(options: InspectOptions) -> Path:
    from hpckit.jobs.sites import load_site
    from hpckit.jobs.submit import expand_job_root

    if options.shared_dir is not None:
        return Path(options.shared_dir).absolute()
    site = load_site(wiring.resources(), options.site or site_here())
    return expand_job_root(site.job_root, wiring.caller())


def _document(seen: NodesSeen) -> dict[str, object]:
    from hpckit.core.findings import finding_trees
    from hpckit.core.hostlist import fold_hosts

    return {
        "schema": "hpckit.nodes/1",
        "hpckit": hpckit.__version__,
        "groups": [
            {
                "nodes": group.nodes,
                "nodelist": fold_hosts(group.nodes),
                "differs": group.differs,
                "findings": finding_trees(group.findings),
                "topology": group.topology,
            }
            for group in seen.groups
        ],
        "silent": finding_trees(seen.silent),
        "words": seen.words,
    }
