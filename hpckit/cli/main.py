"""The command `hpckit`: finds the command's module, turns errors into exit codes."""

from __future__ import annotations

import errno
import gc
import importlib
import os
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

import click

import hpckit

if TYPE_CHECKING:
    from hpckit.core.errors import HpckitError

BUG_EXIT_CODE = 70
INTERRUPTED_EXIT_CODE = 130
_OUTPUT_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)

COMMANDS = {
    "inspect": "Show what a node looks like, and what is odd about it.",
    "fabric": "Show the cluster's network, and what is odd about it.",
    "place": "Say which node carries which ranks, and what that is worth.",
    "tune": "Say which communication variables a job needs, and why.",
    "plan": "Show whether a model fits on GPUs, how to split it, what it draws.",
    "render": "Print the batch script of a job, for review.",
    "check": "Say what would keep a job, or a script of yours, from running.",
    "submit": "Check, render and start a job.",
    "show": "Show what was submitted: script, effective job, folder.",
    "status": "Say how a job is.",
    "logs": "Print a job's output, merged or by rank.",
    "wait": "Wait until a job has ended.",
    "cancel": "End a job, or send it a signal.",
    "jobs": "List jobs, newest first.",
    "sample": "Record what this machine's GPUs do, into a folder.",
    "report": "Say what a job used: energy, GPUs, ranks, waste.",
    "sites": "List and show site files.",
    "doctor": "Say what this machine has and lacks.",
    "completion": "Print the completion script of a shell.",
}
"""Command → its one line of help, kept here so that `--help` loads no command."""
MODULES = {
    "render": "submit",
    **dict.fromkeys(("show", "status", "wait", "cancel"), "jobs"),
    "completion": "main",
}
"""Command → its module of hpckit.cli, where that has another name."""


ALIASES = {
    "help": "hpckit --help",
    "version": "hpckit --version",
    "ls": "hpckit jobs",
    "list": "hpckit jobs",
    "queue": "hpckit jobs",
    "run": "hpckit submit",
    "kill": "hpckit cancel",
}
"""What people type from habit → what it is called here."""


class _LazyGroup(click.Group):
    """Commands are imported when called: `<name>_command` of the module that `MODULES` says."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            self._suggest(ctx, cmd_name)
        module = importlib.import_module(f"hpckit.cli.{MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def _suggest(self, ctx: click.Context, cmd_name: str) -> NoReturn:
        import difflib

        near = difflib.get_close_matches(cmd_name, COMMANDS, n=1)
        meant = ALIASES.get(cmd_name) or (f"hpckit {near[0]}" if near else "hpckit --help")
        ctx.fail(f"there is no command {cmd_name!r}; did you mean `{meant}`?")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 yes · 1 the job failed or the answer is no · 2 usage · 3 configuration · "
    "4 unreadable text · 5 cannot be met · 6 template · 7 the outside world · 130 interrupted",
)
@click.version_option(hpckit.__version__, prog_name="hpckit")
def cli() -> None:
    """GPU jobs on Slurm: render a script to review, submit it, follow it to its end."""


def main() -> NoReturn:
    """Run the command line; the exit code is the error class's own."""
    # `hpckit jobs | head -1` ends as every other tool does when its reader has gone.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        code = _run()
    except Exception:  # noqa: BLE001  the only broad catch: a bug must say that it is one
        import traceback

        traceback.print_exc()
        _say(f"this is a bug in hpckit {hpckit.__version__}; please report the lines above")
        code = BUG_EXIT_CODE
    # All is done: a Ctrl-C from here on has nothing to interrupt.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What is left goes with the process: to look through it for cycles first takes a tenth of it.
    gc.freeze()
    sys.exit(code)


def _run() -> int:
    try:
        code = cli.main(prog_name="hpckit", standalone_mode=False, color=_color())
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.ClickException as error:
        return _misused(error)
    except (KeyboardInterrupt, RuntimeError) as interrupt:
        # click raises Abort from the KeyboardInterrupt that holds the sentence, CPython 3.11 a
        # RuntimeError from one that comes while a class is made (__set_name__).
        cause = interrupt.__cause__ or interrupt
        if not isinstance(cause, KeyboardInterrupt | click.Abort):
            return _failed(interrupt)
        _say(" ".join(["interrupted", *(f"· {word}" for word in cause.args)]))
        return INTERRUPTED_EXIT_CODE
    except Exception as error:  # noqa: BLE001  a bug is raised again
        return _failed(error)
    return code if isinstance(code, int) else 0


def _failed(error: BaseException) -> int:
    """Return the exit code of what the command could not do; raise what is a bug."""
    from hpckit.core.errors import AdapterError, HpckitError

    if isinstance(error, OSError) and error.errno in _OUTPUT_FAULTS:
        _discard_output()
        error = AdapterError(f"the output could not be written: {error.strerror}")
    if not isinstance(error, HpckitError):
        raise error
    return _refused(error)


def _misused(error: click.ClickException) -> int:
    import io

    from hpckit.cli import output
    from hpckit.spec.tokens import masked

    said = io.StringIO()
    error.show(said)
    _say(output.visible(output.shortened(masked(said.getvalue().rstrip("\n")))))
    return error.exit_code


def _refused(error: HpckitError) -> int:
    """Say why, on stdout too where one JSON document was promised."""
    from hpckit.cli import output
    from hpckit.spec.tokens import masked

    error.message = masked(error.message)
    words = sys.argv[1 : sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    if "--json" in words:
        output.document(
            {
                "schema": "hpckit.error/1",
                "error": error.message,
                "hint": error.hint,
                "exit_code": error.exit_code,
            }
        )
    error.message = output.shortened(error.message)  # the hint stays whole: it is to be typed
    _say(f"{click.style('error', fg='red')}  {output.visible(str(error))}")
    return error.exit_code


def _discard_output() -> None:
    """What is left in the buffer would fail again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(text: str) -> None:
    try:
        click.echo(text, err=True, color=_color())
    except OSError:
        return


def _color() -> bool | None:
    return False if os.environ.get("NO_COLOR") else None


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the completion script of SHELL; for bash: eval "$(hpckit completion bash)"."""
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    if completion is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(completion(cli, {}, "hpckit", "_HPCKIT_COMPLETE").source())
