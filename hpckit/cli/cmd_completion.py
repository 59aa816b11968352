"""`hpckit completion`: the completion script of a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of SHELL; for bash: eval "$(hpckit completion bash)"."""
    from hpckit.cli.main import cli

    completion = get_completion_class(shell)
    if completion is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(completion(cli, {}, "hpckit", "_HPCKIT_COMPLETE").source())
