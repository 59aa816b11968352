"""`hpckit fabric`: the cluster's network: show it, write it for Slurm, look for what is odd."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

import hpckit
from hpckit import wiring
from hpckit.cli import output
from hpckit.core.errors import ConfigError, ToolMissing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpckit.core.findings import Finding
    from hpckit.fabric.topology import ClusterTopology
    from hpckit.slurm.values import SlurmVersion


class BoundedFloat(click.FloatRange):
    """A number within bounds; `nan` is in none."""

    def __init__(self, least: float, most: float) -> None:
        super().__init__(least, most)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Refuse what is outside, as a usage error."""
        number = super().convert(value, param, ctx)
        if number != number:  # noqa: PLR0124  of all numbers nan alone is not itself
            self.fail("nan is no number", param, ctx)
        return float(number)


source_argument: Final = click.argument(
    "file", required=False, type=click.Path(allow_dash=True), metavar="[FILE]"
)
source_options: Final = click.option(
    "--topology",
    metavar="NAME",
    help="Topology, by its name or by a partition. [default: the cluster's]",
)


def fabric_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --fabric, --topology and --slurm-version."""
    options = (
        click.option("--fabric", type=click.Path(allow_dash=True), metavar="FILE",
                     help="Network, any FILE of hpckit fabric. [default: ask Slurm]"),
        source_options,
        click.option("--slurm-version", metavar="X.Y", help="Slurm release whose node order to"
                     " compare with. [default: ask Slurm]"),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def topologies_of(file: str | None) -> tuple[ClusterTopology, ...]:
    """Return all topologies of a file, of Slurm without one. Raises HpckitError."""
    from hpckit.fabric.file import fabric_of_slurm, read_fabric

    if file is not None:
        return read_fabric(*wiring.read_capture(file))
    try:
        return fabric_of_slurm(wiring.cluster_probe())
    except ToolMissing as error:
        hint = "run it on the cluster, or name a file: place --fabric FILE, fabric show FILE"
        raise ToolMissing(error.message, hint=hint) from error


def fabric_of(file: str | None, name: str | None) -> ClusterTopology:
    """Return the topology of this name, the default one without. Raises HpckitError."""
    from hpckit.fabric.file import choose

    source = {None: "Slurm", "-": "standard input"}.get(file, file or "")
    return choose(topologies_of(file), name, source)


def slurm_version(text: str | None, fabric: str | None) -> SlurmVersion | None:
    """Return the release whose own order is meant; None where nobody says. Raises ConfigError."""
    from hpckit.slurm.values import SlurmVersion

    if text is None:
        if fabric is not None:
            return None
        return wiring.cluster_probe().look(None, needs_partitions=False).config.version
    try:
        return SlurmVersion.of(text)
    except ValueError as error:
        raise ConfigError(str(error), key="--slurm-version") from None


def nodes_of(nodelist: str | None, option: str = "--nodelist") -> tuple[str, ...]:
    """Return the nodes of a list, each once; those of the surrounding job without a list.

    Raises ConfigError, click.UsageError.
    """
    from hpckit.slurm.text import Place

    if nodelist is None:
        nodelist = os.environ.get("SLURM_JOB_NODELIST", "")
    nodes = Place(option, 1, nodelist).hosts(nodelist)
    if not nodes:
        raise click.UsageError(f"{option} is needed, such as 'n[001-064]'")
    hidden = [name for name in nodes if not name.isprintable()]
    if hidden:
        raise ConfigError(f"got {hidden[0][:100]!r}, expected a node name", key=option)
    counts = Counter(nodes)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise ConfigError(f"{twice[0]} is listed twice", key=option)
    return nodes


@click.group("fabric")
def fabric_command() -> None:
    """Show the cluster's network: switches, leaves, rails, blocks, and what is wrong with it.

    FILE is a topology.conf, a topology.yaml, what `scontrol show topology` or ibnetdiscover
    printed, lines of SLURM_TOPOLOGY_ADDR, snapshots of `hpckit inspect --json`, a cloud's
    placement metadata as JSON, or what `hpckit fabric show --json` printed; it may be compressed
    with gzip, bzip2 or xz. Without FILE Slurm is asked. - is standard input.
    """


@fabric_command.command("show")
@source_argument
@source_options
@click.option(
    "--format",
    "format_",
    type=click.Choice(("tree", "json", "svg")),
    help="Output format. [default: tree]",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document: --format json.")
def show(file: str | None, topology: str | None, format_: str | None, *, as_json: bool) -> None:
    """Show switches as a tree, with what leads where, rails and blocks."""
    format_ = output.format_of(format_, as_json=as_json, default="tree")
    fabric = fabric_of(file, topology)
    if format_ == "json":
        output.document(document(fabric))
    elif format_ == "svg":
        from hpckit.fabric.picture import picture_of

        output.as_file(picture_of(fabric))
    else:
        from hpckit.fabric.domains import locality_of
        from hpckit.fabric.show import fabric_lines

        lines = fabric_lines(
            fabric,
            locality_of(fabric),
            width=output.screen_width(),
            file=None if file == "-" else file,
        )
        output.say(lines)


@fabric_command.command("export")
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
    from hpckit.fabric.file import export_text
    from hpckit.fabric.slurm_writer import left_out

    if format_ == "topology.yaml" and topology is None:
        fabrics = topologies_of(file)
    else:
        fabrics = (fabric_of(file, topology),)
    for phrase in (phrase for fabric in fabrics for phrase in left_out(fabric)):
        output.talk(f"left out: {phrase}")
    output.as_file(export_text(fabrics, format_))


@fabric_command.command("check")
@source_argument
@source_options
@click.option(
    "--nodes",
    "nodelist",
    metavar="LIST",
    help="The nodes that Slurm knows, such as 'n[001-064]'; with --ask-slurm it is asked.",
)
@click.option("--ask-slurm", is_flag=True, help="Compare with the nodes that Slurm knows.")
@output.fail_on_option("Exit 1 for a finding of this severity or above it.")
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
    from hpckit.fabric.rules import fabric_findings

    if ask_slurm and nodelist is not None:
        raise click.UsageError("--nodes and --ask-slurm exclude each other")
    fabric = fabric_of(file, topology)
    findings = fabric_findings(fabric, _slurm_nodes(nodelist, ask_slurm=ask_slurm))
    if as_json:
        output.document(check_document(fabric, findings))
    else:
        from hpckit.fabric.show import fabric_check_lines

        command_words = "hpckit fabric check" + (f" {shlex.quote(file)}" if file else "")
        output.say(
            fabric_check_lines(fabric, findings, width=output.screen_width(), command=command_words)
        )
    ctx.exit(output.fail_code(findings, fail_on))


def _slurm_nodes(nodelist: str | None, *, ask_slurm: bool) -> tuple[str, ...] | None:
    if nodelist is not None:
        return nodes_of(nodelist, "--nodes")
    if not ask_slurm:
        return None
    return wiring.node_names()


def document(topology: ClusterTopology) -> dict[str, object]:
    """The document of a fabric, as docs/reference/json.md describes it."""
    from hpckit.core.fields import to_tree
    from hpckit.fabric.topology import FABRIC_SCHEMA

    return {"schema": FABRIC_SCHEMA, "hpckit": hpckit.__version__, **to_tree(topology)}


def check_document(topology: ClusterTopology, findings: Sequence[Finding]) -> dict[str, object]:
    """The document of an audit, as docs/reference/json.md describes it."""
    from hpckit.core.findings import finding_trees
    from hpckit.fabric.topology import not_checked

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
