"""`hpckit inspect`: what a node looks like: this one, a captured one, or many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hpckit.cli import output
from hpckit.cli.inspect_screen import fail_code
from hpckit.cli.job_options import complete_site
from hpckit.model.node_finding import Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpckit.model.hardware import NodeTopology
    from hpckit.model.node_finding import NodeFinding

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


@click.command("inspect")
@click.argument("file", required=False, type=click.Path(allow_dash=True), metavar="[FILE]")
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    help="What to print; tree unless said.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document: --format json.")
@click.option(
    "--vocabulary",
    type=click.Choice(VOCABULARIES),
    help="Whose words --format matrix is in; nvidia-smi's unless said.",
)
@click.option(
    "--machine",
    type=click.IntRange(1),
    metavar="N",
    help="Which machine of a FILE that holds several; the first unless said.",
)
@click.option(
    "--sysroot",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Where this node's /sys and /proc are found.",
)
@click.option(
    "--gpus",
    "expected_gpus",
    type=click.IntRange(0),
    metavar="N",
    help="How many GPUs there should be, as Slurm's gres says; fewer is a finding.",
)
@click.option(
    "--fail-on",
    type=click.Choice([str(one.value) for one in Severity]),
    help="Exit 1 for a finding of this severity or above it.",
)
@click.option(
    "--nodes",
    "nodelist",
    metavar="LIST",
    help="Ask these nodes instead, such as 'c[1-4]', through srun.",
)
@click.option("--job", "job_id", metavar="ID", help="Ask the nodes of this running job instead.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(1, 3600),
    metavar="SECONDS",
    help="With --nodes or --job: wait so long for answers; 60 unless said.",
)
@click.option("--partition", metavar="NAME", help="With --nodes: as srun takes it.")
@click.option("--account", metavar="NAME", help="With --nodes: as srun takes it.")
@click.option("--qos", metavar="NAME", help="With --nodes: as srun takes it.")
@click.option("--reservation", metavar="NAME", help="With --nodes: as srun takes it.")
@click.option(
    "--gpus-per-node",
    type=click.IntRange(1),
    metavar="N",
    help="With --nodes: ask for GPUs, where Slurm hides those that one has not got.",
)
@click.option(
    "--shared-dir",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="With --nodes or --job: a folder that nodes share; job_root of --site unless said.",
)
@click.option(
    "--site",
    envvar="HPCKIT_SITE",
    shell_complete=complete_site,
    help="With --nodes or --job: the site whose job_root that folder is.",
)
@click.pass_context  # fmt: skip
def command(ctx: click.Context, /, **params: Any) -> None:
    """Show what a node looks like: GPUs, NVLink, PCIe, NUMA, NICs, and what is odd about it.

    Without FILE it is this node. FILE is a capture of any other: a snapshot that --json printed,
    an NCCL or RCCL topology XML, an lstopo XML, the text of `nvidia-smi topo -m`,
    `rocm-smi --showtopo` or `amd-smi topology`, or a tarball of hwloc-gather-topology,
    /sys/class/kfd or /sys/class/infiniband. - is standard input.
    """
    if params["as_json"] and params["format_"] not in (None, "json"):
        raise click.UsageError(f"--json and --format {params['format_']} exclude each other")
    params["format_"] = "json" if params["as_json"] else params["format_"] or "tree"
    _check_together(params)
    if params["nodelist"] is not None or params["job_id"] is not None:
        from hpckit.cli.inspect_nodes import inspect_many

        ctx.exit(inspect_many(params))
    ctx.exit(_inspect_one(params))


def _check_together(params: dict[str, Any]) -> None:
    many = [name for name in ("nodelist", "job_id") if params[name] is not None]
    if any(not params[name].strip() for name in many):
        # As from a variable that is not set: this node is not what was asked for.
        raise click.UsageError("--nodes and --job name something")
    if len(many) + bool(params["file"]) > 1:
        raise click.UsageError("FILE, --nodes and --job exclude each other")
    stray = [name for name in (_ONE_NODE if many else _MANY_NODES) if params[name] is not None]
    if stray:
        option = "--" + stray[0].removesuffix("_s").replace("_", "-")
        which = "for one node" if many else "for --nodes and --job"
        raise click.UsageError(f"{option} is {which} alone")
    if many and params["format_"] not in ("tree", "json"):
        raise click.UsageError(f"--format {params['format_']} is for one node alone")
    if params["vocabulary"] is not None and params["format_"] != "matrix":
        raise click.UsageError("--vocabulary is for --format matrix alone")
    _check_one(params)


def _check_one(params: dict[str, Any]) -> None:
    from pathlib import Path

    sysroot = params["sysroot"]
    if sysroot is not None and params["file"]:
        raise click.UsageError("--sysroot is for this node, not for a FILE")
    if sysroot is not None and not Path(sysroot, "sys").is_dir():
        raise click.UsageError(f"--sysroot {sysroot}: no sys/ is in it, as there is in /")
    if params["machine"] is not None and not params["file"]:
        raise click.UsageError("--machine is for a FILE alone")


def _inspect_one(params: dict[str, Any]) -> int:
    from hpckit.decide.findings import node_findings

    topology = _topology(params)
    findings = node_findings(topology, expected_gpus=params["expected_gpus"])
    _print(topology, findings, params)
    return fail_code(findings, params["fail_on"])


def _topology(params: dict[str, Any]) -> NodeTopology:
    from hpckit import wiring
    from hpckit.app.captured import inspect_capture
    from hpckit.app.inspect import inspect_here

    if not params["file"]:
        files, driver, stands_in = wiring.node_probes(params["sysroot"])
        return inspect_here(files, driver, stands_in=stands_in)
    machines = inspect_capture(*wiring.read_capture(params["file"]))
    which = params["machine"] or 1
    if which > len(machines):
        raise click.UsageError(f"--machine {which}: {params['file']} holds {len(machines)}")
    if len(machines) > 1 and params["machine"] is None:
        output.talk(
            f"note  {params['file']} holds {len(machines)} machines; this is the first,"
            " --machine 2 is the next"
        )
    return machines[which - 1]


def _print(topology: NodeTopology, findings: Sequence[NodeFinding], params: dict[str, Any]) -> None:
    format_ = params["format_"]
    if format_ == "json":
        output.document(document(topology, findings))
    elif format_ == "matrix":
        from hpckit.report.matrix import matrix_text

        click.echo(matrix_text(topology, nccl=params["vocabulary"] == "nccl"), nl=False)
    elif format_ == "svg":
        from hpckit.draw.node import node_svg

        click.echo(node_svg(topology, findings), nl=False)
    else:
        from hpckit.cli.inspect_screen import say_node

        say_node(topology, findings, params["file"], params["machine"])


def document(topology: NodeTopology, findings: Sequence[NodeFinding]) -> dict[str, object]:
    """The document of one node, as docs/reference/topology.md describes it."""
    import hpckit
    from hpckit.model.hardware import TOPOLOGY_SCHEMA
    from hpckit.model.tree import to_tree

    return {
        "schema": TOPOLOGY_SCHEMA,
        "hpckit": hpckit.__version__,
        **to_tree(topology),
        "findings": to_tree(findings),
    }
