"""`hpckit fabric`: the cluster's network: show it, write it for Slurm, look for what is odd."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hpckit.cli import output
from hpckit.cli.fabric_options import fabric_of, source_argument, source_options, topologies_of
from hpckit.core.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpckit.core.findings import Finding
    from hpckit.model.fabric import ClusterTopology


@click.group("fabric")
def command() -> None:
    """Show the cluster's network: switches, leaves, rails, blocks, and what is odd about it.

    FILE is a topology.conf, a topology.yaml, what `scontrol show topology` or ibnetdiscover
    printed, lines of SLURM_TOPOLOGY_ADDR, snapshots of `hpckit inspect --json`, a cloud's
    placement metadata as JSON, or what `hpckit fabric show --json` printed; it may be compressed
    with gzip, bzip2 or xz. Without FILE Slurm is asked. - is standard input.
    """


@command.command("show")
@source_argument
@source_options
@click.option(
    "--format",
    "format_",
    type=click.Choice(("tree", "json", "svg")),
    help="What to print; tree unless said.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document: --format json.")
def show(file: str | None, topology: str | None, format_: str | None, *, as_json: bool) -> None:
    """Show switches as a tree, with what leads where, rails and blocks."""
    format_ = output.format_of(format_, as_json=as_json, default="tree")
    fabric = fabric_of(file, topology)
    if format_ == "json":
        output.document(document(fabric))
    elif format_ == "svg":
        from hpckit.decide.locality import locality_of
        from hpckit.draw.fabric import fabric_svg

        click.echo(fabric_svg(locality_of(fabric), title=str(fabric.source)), nl=False)
    else:
        from hpckit.cli.inspect_screen import say, screen_width
        from hpckit.decide.locality import locality_of
        from hpckit.report.fabric_text import fabric_lines

        lines = fabric_lines(
            fabric, locality_of(fabric), width=screen_width(), file=None if file == "-" else file
        )
        say(lines)


@command.command("export")
@source_argument
@source_options
@click.option(
    "--format",
    "format_",
    type=click.Choice(("topology.conf", "topology.yaml")),
    default="topology.conf",
    show_default=True,
    help="What to write.",
)
def export(file: str | None, topology: str | None, format_: str) -> None:
    """Write the network as Slurm takes it; several topologies need topology.yaml.

    A fat tree becomes the tree that Slurm can say: leaves of several rails are one switch, and so
    are all spines; comments say which. What has no name that Slurm can know is left out, and
    standard error says so.
    """
    from hpckit.app.fabric import export_text
    from hpckit.decide.slurm_tree import left_out

    if format_ == "topology.yaml" and topology is None:
        fabrics = topologies_of(file)
    else:
        fabrics = (fabric_of(file, topology),)
    for phrase in (phrase for fabric in fabrics for phrase in left_out(fabric)):
        output.talk(f"left out: {phrase}")
    click.echo(export_text(fabrics, format_), nl=False)


@command.command("check")
@source_argument
@source_options
@click.option(
    "--nodes",
    "nodelist",
    metavar="LIST",
    help="The nodes that Slurm knows, such as 'n[001-064]'; with --ask-slurm it is asked.",
)
@click.option("--ask-slurm", is_flag=True, help="Compare with the nodes that Slurm knows.")
@click.option(
    "--fail-on",
    type=click.Choice([str(severity.value) for severity in Severity]),
    help="Exit 1 for a finding of this severity or above it.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context  # fmt: skip
def check(
    ctx: click.Context,
    file: str | None,
    topology: str | None,
    nodelist: str | None,
    fail_on: str | None,
    *,
    ask_slurm: bool,
    as_json: bool,
) -> None:
    """Look for missing cables, uneven uplinks, slow links, swapped rails, nodes nobody knows."""
    import shlex

    from hpckit.cli.inspect_screen import fail_code, say, screen_width
    from hpckit.decide.fabric_findings import fabric_findings

    if ask_slurm and nodelist is not None:
        raise click.UsageError("--nodes and --ask-slurm exclude each other")
    fabric = fabric_of(file, topology)
    findings = fabric_findings(fabric, _slurm_nodes(nodelist, ask_slurm=ask_slurm))
    if as_json:
        output.document(check_document(fabric, findings))
    else:
        from hpckit.report.fabric_check_text import fabric_check_lines

        command_words = "hpckit fabric check" + (f" {shlex.quote(file)}" if file else "")
        say(fabric_check_lines(fabric, findings, width=screen_width(), command=command_words))
    ctx.exit(fail_code(findings, fail_on))


def _slurm_nodes(nodelist: str | None, *, ask_slurm: bool) -> tuple[str, ...] | None:
    if nodelist is not None:
        from hpckit.cli.fabric_options import nodes_of

        return nodes_of(nodelist, "--nodes")
    if not ask_slurm:
        return None
    from hpckit import wiring

    return wiring.node_names()


def document(topology: ClusterTopology) -> dict[str, object]:
    """The document of a fabric, as docs/reference/json.md describes it."""
    import hpckit
    from hpckit.model.fabric import FABRIC_SCHEMA
    from hpckit.model.tree import to_tree

    return {"schema": FABRIC_SCHEMA, "hpckit": hpckit.__version__, **to_tree(topology)}


def check_document(topology: ClusterTopology, findings: Sequence[Finding]) -> dict[str, object]:
    """The document of an audit, as docs/reference/json.md describes it."""
    import hpckit
    from hpckit.core.findings import finding_trees
    from hpckit.model.fabric_unchecked import not_checked

    return {
        "schema": "hpckit.fabric-check/1",
        "hpckit": hpckit.__version__,
        "source": str(topology.source),
        "switches": len(topology.switches),
        "nodes": len(topology.nodes),
        "rails": len(topology.rails),
        "cables": sum(len(link.cables or ()) for link in topology.links),
        "not_checked": list(not_checked(topology)),
        "findings": finding_trees(findings),
    }
