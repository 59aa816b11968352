"""The binding of a node's ranks, for `hpckit place --node`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hpckit.model.binding import NodeBinding


def binding_of(file: str, ranks: int | None) -> NodeBinding:
    """The binding of so many ranks, of as many as the node has GPUs without a number.

    Raises HpckitError, click.UsageError where the node has no GPU and no number is said.
    """
    from hpckit import wiring
    from hpckit.app.captured import inspect_capture
    from hpckit.decide.binding import bind_ranks

    node = inspect_capture(*wiring.read_capture(file))[0]
    ranks = ranks or len(node.gpus)
    if not ranks:
        raise click.UsageError("the node has no GPU: --gpus-per-node says how many ranks it has")
    return bind_ranks(node, ranks)


def print_binding(file: str, ranks: int | None, format_: str) -> None:
    """Print it alone, as a table, as `hpckit.binding/1` or as an option of srun."""
    from hpckit.cli import output
    from hpckit.cli.inspect_screen import say, screen_width
    from hpckit.render.cpu_bind import cpu_bind_option
    from hpckit.report.binding_text import binding_lines, binding_tree

    binding = binding_of(file, ranks)
    if format_ == "cpu-bind":
        click.echo(f"--cpu-bind={cpu_bind_option(binding)}")
    elif format_ == "json":
        output.document(binding_tree(binding))
    else:
        say(binding_lines(binding, width=screen_width()))
