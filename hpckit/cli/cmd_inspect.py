"""`hpckit inspect`: what a node looks like: this one, a captured one, or many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hpckit.cli import output
from hpckit.cli.inspect_formats import FORMATS, Shown, print_node
from hpckit.model.node_finding import Severity

if TYPE_CHECKING:
    from hpckit.model.hardware import NodeTopology
    from hpckit.model.node_finding import NodeFinding

_SEVERITIES = list(Severity)


@click.command("inspect")
@click.argument("file", required=False, type=click.Path(allow_dash=True), metavar="[FILE]")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="tree", show_default=True,
              help="What to print.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document: `--format json`.")
@click.option("--vocabulary", type=click.Choice(["nvidia-smi", "nccl"]), default="nvidia-smi",
              show_default=True, help="The words of `--format matrix`.")
@click.option("--machine", type=click.IntRange(1), metavar="N",
              help="Which machine of a FILE that holds several; the first unless said.")
@click.option("--sysroot", type=click.Path(file_okay=False), metavar="DIR",
              help="Where /sys and /proc of this node are found.")
@click.option("--gpus", "expected_gpus", type=click.IntRange(0), metavar="N",
              help="How many GPUs there should be, as Slurm's gres says; fewer is a finding.")
@click.option("--fail-on", type=click.Choice(_SEVERITIES), metavar="SEVERITY",
              help="Exit 1 for a finding of this severity or above: note, warning, error.")
@click.option("--nodes", "nodelist", metavar="LIST",
              help="Ask these nodes, such as c[1-4], through srun.")
@click.option("--job", "job_id", metavar="ID", help="Ask the nodes of this running job.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(1, 3600), default=60.0,
              show_default=True, metavar="SECONDS", help="For --nodes and --job: wait so long.")
@click.option("--partition", metavar="NAME", help="For --nodes: as srun takes it.")
@click.option("--account", metavar="NAME", help="For --nodes: as srun takes it.")
@click.option("--reservation", metavar="NAME", help="For --nodes: as srun takes it.")
@click.option("--gpus-per-node", type=click.IntRange(1), metavar="N",
              help="For --nodes: ask Slurm for GPUs, where it hides those of others.")
@click.option("--shared-dir", type=click.Path(file_okay=False), metavar="DIR",
              help="For --nodes and --job: a folder that the nodes share with this host.")
@click.pass_context  # fmt: skip
def command(ctx: click.Context, **options: object) -> None:
    """Show what a node looks like: GPUs, NVLink, PCIe, NUMA, NICs, and what is odd about it.

    Without FILE it is this node. FILE is a capture of any other: a snapshot that `--json` printed,
    an NCCL or RCCL topology XML, an lstopo XML, the text of `nvidia-smi topo -m`,
    `rocm-smi --showtopo` or `amd-smi topology`, or a tarball of hwloc-gather-topology,
    /sys/class/kfd or /sys/class/infiniband. `-` is standard input.
    """
