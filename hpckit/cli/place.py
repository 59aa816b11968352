"""`hpckit place`: which node carries which ranks, and what that is worth."""

from __future__ import annotations

from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

import hpckit
from hpckit import wiring
from hpckit.cli import output
from hpckit.cli.fabric import BoundedFloat, fabric_of, fabric_options, nodes_of, slurm_version
from hpckit.cli.job_argument import complete_site, site_here

if TYPE_CHECKING:
    from hpckit.binding.bind import NodeBinding
    from hpckit.fabric.topology import ClusterTopology
    from hpckit.placement.place import PlaceQuestion
    from hpckit.placement.request import Placement
    from hpckit.placement.traffic import AxisTraffic
    from hpckit.spec.job import JobSpec


FORMATS = ("table", "json", "hostfile", "order", "cpu-bind", "svg")


class PlaceOptions(SimpleNamespace):
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
    evaluate: str | None


@click.command("place")
@click.argument("job", required=False, type=click.Path(allow_dash=True), metavar="[JOB]")
@click.option(
    "--nodelist",
    metavar="LIST",
    help="The job's nodes: 'n[001-064]'. [default: inside a job, its own]",
)
@click.option(
    "--gpus-per-node",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Ranks per node. [default: spread evenly]",
)
@click.option(
    "--mesh",
    metavar="AXIS=N,…",
    help="Parallel mesh, innermost axis first: tensor=8,pipeline=4,data=16.",
)
@click.option(
    "--volume",
    metavar="AXIS=BYTES,…",
    help="Bytes that a rank sends per step along an axis: data=4e9,pipeline=2e8.",
)
@fabric_options  # the bounds below are those of [place] in a job file
@click.option(
    "--site",
    default=wiring.user_site,
    envvar="HPCKIT_SITE",
    shell_complete=complete_site,
    help="With JOB: site whose defaults apply.",
)
@click.option(
    "--node-gbits",
    type=BoundedFloat(0.001, 1e6),
    metavar="GBITS",
    help="Bandwidth of a node's NICs together. [default: the fabric's, else 400 per GPU]",
)
@click.option(
    "--oversubscription",
    type=BoundedFloat(1, 1000),
    metavar="RATIO",
    help="Downlink to uplink bandwidth of a leaf. [default: the fabric's, else 2]",
)
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), help="Output format. [default: table]"
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document: --format json.")
@click.option("--axis", metavar="AXIS", help="With --format svg: axis whose groups are coloured.")
@click.option(
    "--evaluate",
    type=click.Path(allow_dash=True),
    metavar="FILE",
    help="Show what the order in FILE is worth: one host per line. [default: the best order]",
)
@click.option(
    "--node",
    type=click.Path(allow_dash=True),
    metavar="FILE",
    help="Inspected node (`hpckit inspect --json`): also show how its ranks are bound."
    " Without a mesh, show that only.",
)
@click.pass_context  # fmt: skip
def place_command(
    ctx: click.Context, /, *, format_: str | None, as_json: bool, **params: Any
) -> None:
    """Order the nodes of JOB by the network, and predict the communication time that saves.

    Without JOB, options describe it. Nothing is submitted or changed. A job computes its order
    when it starts, for the nodes it got and the network that Slurm knows; --fabric affects this
    table only.
    """
    from hpckit.placement.place import fabric_for, place_on

    typed = ctx.get_parameter_source("site") is ParameterSource.COMMANDLINE
    format_ = output.format_of(format_, as_json=as_json, default="table")
    options = PlaceOptions(format_=format_, **params)
    if typed and options.job is None:
        raise click.UsageError("--site needs a JOB")
    _check_together(options)
    if options.node is not None and _is_node_alone(options):
        print_binding(options.node, options.gpus_per_node, format_)
        return
    question = _question(options)
    if options.evaluate is not None:
        question = _with_order(question, options.evaluate)
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


def _with_order(question: PlaceQuestion, file: str) -> PlaceQuestion:
    """Return the question with the order that a file has. Raises ConfigError, StorageFailed."""
    from dataclasses import replace

    from hpckit.placement.place import order_of_lines

    raw, name = wiring.read_capture(file)
    text = raw.decode("utf-8", "surrogateescape")
    return replace(question, order=order_of_lines(text, question.nodes, name))


def _is_node_alone(options: PlaceOptions) -> bool:
    if options.evaluate is not None or options.job is not None or options.mesh is not None:
        return False
    if options.format_ == "cpu-bind":
        return True
    is_alone = options.nodelist is None and options.fabric is None
    if is_alone and options.format_ not in ("table", "json"):
        raise click.UsageError(f"--format {options.format_} needs --mesh")
    return is_alone


def _check_together(options: PlaceOptions) -> None:
    if [options.job, options.fabric, options.node, options.evaluate].count("-") > 1:
        raise click.UsageError(
            "only one of JOB, --fabric, --node and --evaluate can be standard input"
        )
    if options.format_ == "cpu-bind" and options.node is None:
        raise click.UsageError("--format cpu-bind needs --node FILE")
    if options.axis and options.format_ != "svg":
        raise click.UsageError("--axis is for --format svg alone")


def _question(options: PlaceOptions) -> PlaceQuestion:
    from hpckit.placement.place import PlaceQuestion, even_ranks
    from hpckit.spec.options import parse_mesh, parse_volumes

    if options.job is not None:
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
    question: PlaceQuestion,
    topology: ClusterTopology,
    placement: Placement,
    options: PlaceOptions,
) -> None:
    if options.format_ == "order":
        click.echo("\n".join(placement.orders.placed))
    elif options.format_ == "hostfile":
        from hpckit.placement.show import hostfile_text

        output.as_file(hostfile_text(placement.orders.placed, question.ranks_per_node))
    else:
        axis, file = options.axis, options.fabric
        output.as_file(svg(question, topology, placement, axis, file=file))


def _say(
    question: PlaceQuestion,
    topology: ClusterTopology,
    placement: Placement,
    binding: NodeBinding | None,
) -> None:
    from hpckit.placement.place import placed_text

    output.say(placed_text(question, topology, placement, output.screen_width()))
    if binding is not None:
        from hpckit.binding.show import binding_lines

        output.say(binding_lines(binding, width=output.screen_width()))


def document(
    question: PlaceQuestion, placement: Placement, binding: NodeBinding | None = None
) -> dict[str, object]:
    """The document of a placement, as docs/reference/json.md describes it."""
    from hpckit.core.fields import to_tree
    from hpckit.placement.request import PLACEMENT_SCHEMA, mesh_of

    tree = to_tree(placement)
    orders = tree.pop("orders")
    return {
        "schema": PLACEMENT_SCHEMA,
        "hpckit": hpckit.__version__,
        "order": orders.pop("placed"),
        "ranks_per_node": question.ranks_per_node,
        "mesh": mesh_of(question.sizes, question.volumes).axes,
        **tree,
        "orders": orders,
        "binding": binding,
    }


def question_of_job(job: str, options: PlaceOptions) -> PlaceQuestion:
    """Return the question with the job's mesh, volumes and ranks; options stand over them.

    Raises ConfigError, click.UsageError.
    """
    from hpckit.placement.place import PlaceQuestion
    from hpckit.spec.job import MeshAxis
    from hpckit.spec.options import parse_mesh, parse_volumes

    spec = _spec(job, options.site)
    gbits = options.node_gbits or spec.place.node_gbits
    nodelist = options.nodelist or spec.slurm.nodelist
    if nodelist is None:
        raise click.UsageError(
            f"--nodelist names the {spec.resources.nodes} nodes of the job, such as 'n[001-064]'"
        )
    own = dict(spec.parallel) or {MeshAxis.DATA: spec.ntasks}
    return PlaceQuestion(
        nodes=nodes_of(nodelist),
        ranks_per_node=options.gpus_per_node or spec.ntasks_per_node,
        sizes=parse_mesh(options.mesh) if options.mesh else own,
        volumes=spec.place.volume if options.volume is None else parse_volumes(options.volume),
        version=slurm_version(options.slurm_version, options.fabric),
        gpus=options.gpus_per_node or spec.resources.gpus_per_node or 1,
        node_bytes_per_s=None if gbits is None else gbits * 1e9 / 8,
        oversubscription=options.oversubscription or spec.place.oversubscription,
        is_job=True,
    )


def _spec(job: str, site: str | None) -> JobSpec:
    from hpckit.cli.job_options import read_job
    from hpckit.jobs.prepare import prepare
    from hpckit.jobs.source import JobSource

    source = JobSource(
        file_text=read_job(job),
        file_name=job,
        options={},
        option_words=(),
        command=(),
        site_name=site or site_here(),
        template=None,
        folder=wiring.workdir() if job == "-" else Path(job).resolve().parent,
    )
    return prepare(source, wiring.resources(), wiring.template_cache()).effective.spec


def binding_of(file: str, ranks: int | None) -> NodeBinding:
    """The binding of so many ranks, of as many as the node has GPUs without a number.

    Raises HpckitError, click.UsageError where the node has no GPU and no number is said.
    """
    from hpckit.binding.bind import bind_ranks
    from hpckit.node.capture.snapshot import inspect_capture

    node = inspect_capture(*wiring.read_capture(file))[0]
    ranks = ranks or len(node.gpus)
    if not ranks:
        raise click.UsageError("the node has no GPU: --gpus-per-node says how many ranks it has")
    return bind_ranks(node, ranks)


def print_binding(file: str, ranks: int | None, format_: str) -> None:
    """Print it alone, as a table, as `hpckit.binding/1` or as an option of srun."""
    from hpckit.binding.show import binding_lines, binding_tree, cpu_bind_option

    binding = binding_of(file, ranks)
    if format_ == "cpu-bind":
        click.echo(f"--cpu-bind={cpu_bind_option(binding)}")
    elif format_ == "json":
        output.document(binding_tree(binding))
    else:
        output.say(binding_lines(binding, width=output.screen_width()))


def svg(
    question: PlaceQuestion,
    topology: ClusterTopology,
    placement: Placement,
    axis: str | None,
    *,
    file: str | None = None,
) -> str:
    """The picture with the colours of the groups of an axis, or of that which the order changes.

    `file` told of the network. Raises click.UsageError for an axis that the mesh does not have, or
    whose groups stay on their nodes.
    """
    from hpckit.placement.place import placed_picture
    from hpckit.placement.request import mesh_of
    from hpckit.placement.traffic import traffic_of

    mesh = mesh_of(question.sizes, question.volumes)
    axes = {one.axis.name: one for one in traffic_of(mesh, question.ranks_per_node)}
    shown = None if axis is None else _asked(axis, axes)
    source = None if file in (None, "-") else PurePath(str(file)).name
    return placed_picture(question, topology, placement, shown, source=source)


def _asked(axis: str, axes: dict[str, AxisTraffic]) -> str:
    """The axis, where there is something of it to be seen."""
    if axis not in axes:
        raise click.UsageError(f"the mesh has no axis {axis!r}: it has {', '.join(axes)}")
    if not axes[axis].groups:
        useful = [f"--axis {name}" for name, one in axes.items() if one.groups]
        instead = " or ".join(useful) or "so do those of all others"
        raise click.UsageError(f"every group of {axis} stays on its node: {instead}")
    return axis
