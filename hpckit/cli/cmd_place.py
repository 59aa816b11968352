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
    "--gpus-per-node", type=click.IntRange(1, 1024), metavar="N", help="Ranks on each node."
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
    help="What one of the nodes looks like (`hpckit inspect --json`): its ranks are bound too.",
)
@click.pass_context  # fmt: skip
def command(ctx: click.Context, /, **params: Any) -> None:
    """Say which node carries which ranks of JOB, and what that is worth beside other orders.

    Without JOB the options say it all. Nothing is submitted or changed: the same order is computed
    again in the job, on the nodes that it gets.
    """
    from hpckit.app.place import place_on

    typed = ctx.get_parameter_source("site") is ParameterSource.COMMANDLINE
    if typed and params["job"] is None:
        raise click.UsageError("--site is for a JOB")
    format_ = _format(params)
    question = _question(params)
    topology = fabric_of(params)
    binding = _binding(params["node"], question.ranks_per_node)
    if format_ == "cpu-bind" and binding is not None:
        from hpckit.render.cpu_bind import cpu_bind_option

        click.echo(f"--cpu-bind={cpu_bind_option(binding)}")
        return
    placement = place_on(question, topology)
    if format_ == "json":
        output.document(document(question, placement, binding))
    elif format_ == "table":
        _say(question, topology, placement, binding)
    else:
        _print(format_, question, topology, placement, params)


def _binding(node: str | None, ranks: int) -> NodeBinding | None:
    if node is None:
        return None
    from hpckit import wiring
    from hpckit.app.captured import inspect_capture
    from hpckit.decide.binding import bind_ranks

    return bind_ranks(inspect_capture(*wiring.read_capture(node))[0], ranks)


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
    from hpckit.app.place import PlaceQuestion
    from hpckit.parse.mesh import parse_mesh, parse_volumes

    if params["job"] is not None:
        from hpckit.cli.place_job import question_of_job

        return question_of_job(params)
    for option in ("mesh", "gpus_per_node"):
        if params[option] is None:
            raise click.UsageError(f"without a JOB, --{option.replace('_', '-')} is needed")
    gbits = params["node_gbits"]
    return PlaceQuestion(
        nodes=nodes_of(params["nodelist"]),
        ranks_per_node=params["gpus_per_node"],
        sizes=parse_mesh(params["mesh"]),
        volumes={} if params["volume"] is None else parse_volumes(params["volume"]),
        version=slurm_version(params),
        node_bytes_per_s=None if gbits is None else gbits * 1e9 / 8,
        oversubscription=params["oversubscription"],
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

        click.echo(svg(question, topology, placement, params["axis"]), nl=False)


def _say(
    question: PlaceQuestion,
    topology: ClusterTopology,
    placement: Placement,
    binding: NodeBinding | None,
) -> None:
    from hpckit.cli.inspect_screen import say, screen_width
    from hpckit.decide.locality import locality_of
    from hpckit.decide.mesh import mesh_of
    from hpckit.report.placement_text import placement_lines

    domain_of = locality_of(topology).domain_of
    leaves = len({domain_of[node] for node in question.nodes if node in domain_of})
    mesh = mesh_of(question.sizes, question.volumes)
    say(
        placement_lines(
            placement, mesh, leaves=leaves, source=str(topology.source), width=screen_width()
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
