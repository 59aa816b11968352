"""Where a command finds the cluster's network: a file, or Slurm itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from hpckit.model.cluster import SlurmVersion
    from hpckit.model.fabric import ClusterTopology


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


def source_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add FILE."""
    return click.argument("file", required=False, type=click.Path(allow_dash=True),
                          metavar="[FILE]")(function)  # fmt: skip


def source_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --topology."""
    return click.option(
        "--topology",
        metavar="NAME",
        help="Which of several topologies, by its name or by a partition; the default one unless"
        " said.",
    )(function)


def fabric_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --fabric, --topology and --slurm-version."""
    options = (
        click.option("--fabric", type=click.Path(allow_dash=True), metavar="FILE",
                     help="The network: a FILE as `hpckit fabric` takes it. Slurm is asked unless"
                     " said."),
        source_options,
        click.option("--slurm-version", metavar="X.Y", help="The Slurm release, for its own order;"
                     " asked unless --fabric is said."),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def topologies_of(file: str | None) -> tuple[ClusterTopology, ...]:
    """Return all topologies of a file, of Slurm without one. Raises HpckitError."""
    from hpckit import wiring
    from hpckit.app.fabric import fabric_of_slurm, read_fabric

    if file is not None:
        return read_fabric(*wiring.read_capture(file))
    return fabric_of_slurm(wiring.cluster_probe())


def fabric_of(file: str | None, name: str | None) -> ClusterTopology:
    """Return the topology of this name, the default one without. Raises HpckitError."""
    from hpckit.app.fabric import choose

    source = {None: "Slurm", "-": "standard input"}.get(file, file or "")
    return choose(topologies_of(file), name, source)


def slurm_version(text: str | None, fabric: str | None) -> SlurmVersion | None:
    """Return the release whose own order is meant; None where nobody says. Raises ConfigError."""
    from hpckit import wiring
    from hpckit.errors import ConfigError
    from hpckit.model.cluster import SlurmVersion

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
    import os

    from hpckit.errors import ConfigError
    from hpckit.parse.slurm_text import Place

    if nodelist is None:
        nodelist = os.environ.get("SLURM_JOB_NODELIST", "")
    nodes = Place(option, 1, nodelist).hosts(nodelist)
    if not nodes:
        raise click.UsageError(f"{option} names the nodes, such as 'n[001-064]'")
    hidden = [name for name in nodes if not name.isprintable()]
    if hidden:
        raise ConfigError(f"got {hidden[0][:100]!r}, expected the name of a node", key=option)
    counts = Counter(nodes)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise ConfigError(f"{twice[0]} is there twice", key=option)
    return nodes
