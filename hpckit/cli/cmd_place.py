"""`hpckit place`: which node carries which ranks, and what that is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from hpckit.cli import output
from hpckit.cli.fabric_options import (
    BoundedFloat,
    fabric_of,
    fabric_options,
    nodes_of,
    slurm_version,
)
from hpckit.cli.job_options import complete_site
from hpckit.model.job import LEAST_NODE_GBITS, MOST_NODE_GBITS, MOST_OVERSUBSCRIPTION

if TYPE_CHECKING:
    from hpckit.app.place import PlaceQuestion
    from hpckit.model.binding import NodeBinding
    from hpckit.model.fabric import ClusterTopology
    from hpckit.model.placement import Placement

FORMATS = ("table", "json", "hostfile", "order", "cpu-bind", "svg")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOptions:
    """What `hpckit place` is asked; `format_` is chosen already."""

    job: str | None
    nodelist: str | None
    gpus_per_node: int | None
    mesh: str | None
    volume: str | None
    fabric: str | None
    topology: str | None
    slurm_version: str | None
    site: str | None
    node_gbits: float | None
    oversubscription: float | None
    format_: str
    axis: str | None
    node: str | None


@click.command("place")
@click.argument("job", required=False, type=click.Path(allow_dash=True), metavar="[JOB]")
@click.option(
    "--nodelist",
    metavar="LIST",
    help="The job's nodes, such as 'n[001-064]'; inside a job its own.",
)
@click.option(
    "--gpus-per-node",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Ranks on each node; dealt evenly unless said.",
)
@click.option(
    "--mesh",
    metavar="AXIS=N,…",
    help="The mesh, innermost axis first, such as tensor=8,pipeline=4,data=16.",
)
@click.option(
    "--volume",
    metavar="AXIS=BYTES,…",
    help="Bytes that each rank gives to an axis in one step, such as data=4e9,pipeline=2e8.",
)
@fabric_options
@click.option(
    "--site",
    envvar="HPCKIT_SITE",
    shell_complete=complete_site,
    help="With JOB: the site whose defaults it has.",
)
@click.option(
    "--node-gbits",
    type=BoundedFloat(LEAST_NODE_GBITS, MOST_NODE_GBITS),
    metavar="GBITS",
    help="What a node's NICs carry together, where the fabric does not tell.",
)
@click.option(
    "--oversubscription",
    type=BoundedFloat(1, MOST_OVERSUBSCRIPTION),
    metavar="RATIO",
    help="How much less leads out of a leaf than into it, where the fabric does not"
    " tell; 2 unless said.",
)
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), help="What to print; table unless said."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document: --format json.")
@click.option("--axis", metavar="AXIS", help="With --format svg: whose groups have the colours.")
@click.option(
    "--node",
    type=click.Path(allow_dash=True),
    metavar="FILE",
    help="What one of the nodes looks like (`hpckit inspect --json`): its ranks are bound too."
    " Without a mesh that alone is shown.",
)
@click.pass_context  # fmt: skip
def command(ctx: click.Context, /, *, format_: str | None, as_json: bool, **params: Any) -> None:
    """Say which node carries which ranks of JOB, and what that is worth beside other orders.

    Without JOB the options say it all. Nothing is submitted or changed. A job computes its order
    again when it starts, on the nodes that it gets, by the network that Slurm knows: --fabric is
    for this table alone.
    """
    from hpckit.app.place import fabric_for, place_on
    from hpckit.cli.place_node import binding_of, print_binding

    typed = ctx.get_parameter_source("site") is ParameterSource.COMMANDLINE
    format_ = output.format_of(format_, as_json=as_json, default="table")
    options = PlaceOptions(format_=format_, **params)
    if typed and options.job is None:
        raise click.UsageError("--site is for a JOB")
    _check_together(options)
    if options.node is not None and _is_node_alone(options):
        print_binding(options.node, options.gpus_per_node, format_)
        return
    question = _question(options)
    if options.node is not None and format_ == "cpu-bind":
        print_binding(options.node, question.ranks_per_node, format_)
        return
    topology = fabric_for(question.nodes, fabric_of(options.fabric, options.topology))
    node = options.node
    binding = None if node is None else binding_of(node, question.ranks_per_node)
    placement = place_on(question, topology)
    if format_ == "json":
        output.document(document(question, placement, binding))
    elif format_ == "table":
        _say(question, topology, placement, binding)
    else:
        _print(question, topology, placement, options)


def _is_node_alone(options: PlaceOptions) -> bool:
    """Return whether the binding of `--node` is all that is asked for."""
    if options.job is not None or options.mesh is not None:
        return False
    if options.format_ == "cpu-bind":
        return True
    is_alone = options.nodelist is None and options.fabric is None
    if is_alone and options.format_ not in ("table", "json"):
        raise click.UsageError(f"--format {options.format_} needs --mesh")
    return is_alone


def _check_together(options: PlaceOptions) -> None:
    """Refuse options that exclude each other."""
    if [options.job, options.fabric, options.node].count("-") > 1:
        raise click.UsageError("only one of JOB, --fabric and --node can be standard input")
    if options.format_ == "cpu-bind" and options.node is None:
        raise click.UsageError("--format cpu-bind needs --node FILE")
    if options.axis and options.format_ != "svg":
        raise click.UsageError("--axis is for --format svg alone")


def _question(options: PlaceOptions) -> PlaceQuestion:
    from hpckit.app.place import PlaceQuestion, even_ranks
    from hpckit.parse.mesh import parse_mesh, parse_volumes

    if options.job is not None:
        from hpckit.cli.place_job import question_of_job

        return question_of_job(options.job, options)
    if options.mesh is None:
        raise click.UsageError("without a JOB, --mesh is needed")
    gbits = options.node_gbits
    nodes, sizes = nodes_of(options.nodelist), parse_mesh(options.mesh)
    return PlaceQuestion(
        nodes=nodes,
        ranks_per_node=options.gpus_per_node or even_ranks(sizes, len(nodes)),
        sizes=sizes,
        volumes={} if options.volume is None else parse_volumes(options.volume),
        version=slurm_version(options.slurm_version, options.fabric),
        node_bytes_per_s=None if gbits is None else gbits * 1e9 / 8,
        oversubscription=options.oversubscription,
        is_even=options.gpus_per_node is None,
    )


def _print(
    question: PlaceQuestion, topology: ClusterTopology, placement: Placement, options: PlaceOptions
) -> None:
    if options.format_ == "order":
        click.echo("\n".join(placement.orders.placed))
    elif options.format_ == "hostfile":
        from hpckit.report.placement_text import hostfile_text

        click.echo(hostfile_text(placement.orders.placed, question.ranks_per_node), nl=False)
    else:
        from hpckit.cli.place_svg import svg

        axis, file = options.axis, options.fabric
        click.echo(svg(question, topology, placement, axis, file=file), nl=False)


def _say(
    question: PlaceQuestion,
    topology: ClusterTopology,
    placement: Placement,
    binding: NodeBinding | None,
) -> None:
    from hpckit.cli.inspect_screen import say, screen_width
    from hpckit.decide.locality import locality_of
    from hpckit.decide.mesh import mesh_of
    from hpckit.model.domain_words import where_words
    from hpckit.report.placement_text import placement_lines

    where = where_words(locality_of(topology), question.nodes)
    mesh = mesh_of(question.sizes, question.volumes)
    say(
        placement_lines(
            placement, mesh, where=where, source=str(topology.source), width=screen_width()
        )
    )
    if binding is not None:
        from hpckit.report.binding_text import binding_lines

        say(binding_lines(binding, width=screen_width()))


def document(
    question: PlaceQuestion, placement: Placement, binding: NodeBinding | None = None
) -> dict[str, object]:
    """The document of a placement, as docs/reference/json.md describes it."""
    import hpckit
    from hpckit.decide.mesh import mesh_of
    from hpckit.model.placement import PLACEMENT_SCHEMA
    from hpckit.model.tree import to_tree

    tree = to_tree(placement)
    orders = tree.pop("orders")
    return {
        "schema": PLACEMENT_SCHEMA,
        "hpckit": hpckit.__version__,
        "order": orders.pop("placed"),
        "ranks_per_node": question.ranks_per_node,
        "mesh": to_tree(mesh_of(question.sizes, question.volumes).axes),
        **tree,
        "orders": orders,
        "binding": None if binding is None else to_tree(binding),
    }
