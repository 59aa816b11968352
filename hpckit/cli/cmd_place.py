"""`hpckit place`: which node carries which ranks, and what that is worth."""

from __future__ import annotations

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
def command(ctx: click.Context, /, **params: Any) -> None:
    """Say which node carries which ranks of JOB, and what that is worth beside other orders.

    Without JOB the options say it all. Nothing is submitted or changed. A job computes its order
    again when it starts, on the nodes that it gets, by the network that Slurm knows: --fabric is
    for this table alone.
    """
    from hpckit.app.place import fabric_for, place_on
    from hpckit.cli.place_node import binding_of, print_binding

    typed = ctx.get_parameter_source("site") is ParameterSource.COMMANDLINE
    if typed and params["job"] is None:
        raise click.UsageError("--site is for a JOB")
    format_ = _format(params)
    if _is_node_alone(params, format_):
        print_binding(params["node"], params["gpus_per_node"], format_)
        return
    question = _question(params)
    if format_ == "cpu-bind":
        print_binding(params["node"], question.ranks_per_node, format_)
        return
    topology = fabric_for(question.nodes, fabric_of(params))
    binding = None
    if params["node"] is not None:
        binding = binding_of(params["node"], question.ranks_per_node)
    placement = place_on(question, topology)
    if format_ == "json":
        output.document(document(question, placement, binding))
    elif format_ == "table":
        _say(question, topology, placement, binding)
    else:
        _print(format_, question, topology, placement, params)


def _is_node_alone(params: dict[str, Any], format_: str) -> bool:
    """Whether a node's binding is all that is asked for."""
    if params["node"] is None or params["job"] is not None or params["mesh"] is not None:
        return False
    if format_ == "cpu-bind":
        return True
    is_alone = params["nodelist"] is None and params["fabric"] is None
    if is_alone and format_ not in ("table", "json"):
        raise click.UsageError(f"--format {format_} needs --mesh")
    return is_alone


def _format(params: dict[str, Any]) -> str:
    """What to print; refuses options that exclude each other."""
    if params["as_json"] and params["format_"] not in (None, "json"):
        raise click.UsageError(f"--json and --format {params['format_']} exclude each other")
    format_ = "json" if params["as_json"] else params["format_"] or "table"
    if [params["job"], params["fabric"], params["node"]].count("-") > 1:
        raise click.UsageError("only one of JOB, --fabric and --node can be standard input")
    if format_ == "cpu-bind" and params["node"] is None:
        raise click.UsageError("--format cpu-bind needs --node FILE")
    if params["axis"] and format_ != "svg":
        raise click.UsageError("--axis is for --format svg alone")
    return format_


def _question(params: dict[str, Any]) -> PlaceQuestion:
    from hpckit.app.place import PlaceQuestion, even_ranks
    from hpckit.parse.mesh import parse_mesh, parse_volumes

    if params["job"] is not None:
        from hpckit.cli.place_job import question_of_job

        return question_of_job(params)
    if params["mesh"] is None:
        raise click.UsageError("without a JOB, --mesh is needed")
    gbits = params["node_gbits"]
    nodes, sizes = nodes_of(params["nodelist"]), parse_mesh(params["mesh"])
    return PlaceQuestion(
        nodes=nodes,
        ranks_per_node=params["gpus_per_node"] or even_ranks(sizes, len(nodes)),
        sizes=sizes,
        volumes={} if params["volume"] is None else parse_volumes(params["volume"]),
        version=slurm_version(params),
        node_bytes_per_s=None if gbits is None else gbits * 1e9 / 8,
        oversubscription=params["oversubscription"],
        is_even=params["gpus_per_node"] is None,
    )


def _print(
    format_: str,
    question: PlaceQuestion,
    topology: ClusterTopology,
    placement: Placement,
    params: dict[str, Any],
) -> None:
    if format_ == "order":
        click.echo("\n".join(placement.orders.placed))
    elif format_ == "hostfile":
        from hpckit.report.placement_text import hostfile_text

        click.echo(hostfile_text(placement.orders.placed, question.ranks_per_node), nl=False)
    else:
        from hpckit.cli.place_svg import svg

        file = params["fabric"]
        axis = params["axis"]
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
