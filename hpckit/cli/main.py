"""The command `hpckit`: finds the command's module, turns errors into exit codes."""

from __future__ import annotations

import errno
import importlib
import io
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

GROUPS = {
    "Look": {
        "doctor": "Check that this machine is ready to run and submit jobs.",
        "inspect": "Show a node's GPUs, NVLink, PCIe, NUMA and NICs, and their faults.",
        "fabric": "Show the cluster's network, and its faults.",
        "sites": "List, show, draft and check site files.",
    },
    "Plan": {
        "plan": "Show whether a model fits, how to split it, its time and power.",
        "place": "Order nodes by the network, and predict the time that saves.",
        "tune": "Choose NCCL variables with reasons; lint scripts, read logs.",
    },
    "Run": {
        "init": "Write a job file, also from an old batch script.",
        "check": "Check a job or a batch script against the cluster's limits.",
        "render": "Print the batch script of a job, for review.",
        "submit": "Check, render and submit a job.",
    },
    "Follow": {
        "status": "Show a job's state, and why it is pending.",
        "logs": "Print a job's output, merged or by rank.",
        "jobs": "List jobs, newest first.",
        "wait": "Wait until jobs have ended.",
        "cancel": "Cancel a job, or send it a signal.",
        "show": "Show what was submitted: script, effective job, folder.",
    },
    "Account": {
        "report": "Report GPU time, energy, stragglers and waste of a job.",
        "sample": "Record the GPUs of this machine into a folder.",
    },
    "Set up": {
        "demo": "Show what hpckit does: a minute, no Slurm and no GPU needed.",
        "schema": "Print the JSON Schema of job files, site files or reports.",
        "completion": "Print the completion script of a shell.",
    },
}
"""Heading → command → its one line of help, kept here so that `--help` loads no command."""
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}
MODULES = {
    "render": "submit",
    **dict.fromkeys(("status", "wait", "cancel"), "jobs"),
    "schema": "init",
    "completion": "main",
}
"""Command → its module of hpckit.cli, where that has another name."""


_PROGRAMS = ("torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "python", "python3")
ALIASES = {
    "help": "hpckit --help",
    "version": "hpckit --version",
    **dict.fromkeys(("ls", "list", "queue", "squeue", "get", "ps", "top"), "hpckit jobs"),
    **dict.fromkeys(
        ("run", "srun", "apply", "create", "start", "launch", "exec", "qsub", "bsub", "sub"),
        "hpckit submit",
    ),
    **dict.fromkeys(
        ("kill", "stop", "delete", "rm", "abort", "scancel", "qdel", "bkill"), "hpckit cancel"
    ),
    **dict.fromkeys(("describe", "info", "stat", "qstat", "scontrol", "explain"), "hpckit status"),
    **dict.fromkeys(("sacct", "seff", "stats", "usage", "account", "summary"), "hpckit report"),
    **dict.fromkeys(("sinfo", "site", "clusters"), "hpckit sites list"),
    **dict.fromkeys(("log", "tail", "output", "cat", "attach"), "hpckit logs"),
    **dict.fromkeys(("validate", "lint", "verify"), "hpckit check"),
    **dict.fromkeys(("resubmit", "retry", "requeue", "restart"), "hpckit submit --again"),
    **dict.fromkeys(("new", "convert", "sbatch"), "hpckit init --from SCRIPT"),
    **dict.fromkeys(("topology", "topo", "gpus", "nvidia-smi"), "hpckit inspect"),
    **{
        name: f"hpckit submit -- {name} …"
        for name in (
            "torchrun",
            "accelerate",
            "deepspeed",
            "mpirun",
            "mpiexec",
            "horovodrun",
            "python",
            "python3",
        )
    },
    "template": "hpckit init",
    "watch": "hpckit wait",
    "diff": "hpckit render JOB --diff JOB_ID",
    "dry-run": "hpckit submit --dry-run",
    "network": "hpckit fabric",
}
"""What people type from habit → what it is called here."""
_FILES = {
    ".toml": "submit",
    ".py": "submit -- python3",
    **dict.fromkeys((".sbatch", ".slurm", ".sh", ".batch", ".job"), "init --from"),
}
"""How the name of a file ends → what goes between `hpckit` and the file."""


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
        import shlex

        near = difflib.get_close_matches(cmd_name.lower(), COMMANDS, n=1, cutoff=0.7)
        is_job = any(word.endswith(".toml") for word in sys.argv[2:])
        meant = "hpckit submit" if cmd_name == "sbatch" and is_job else ALIASES.get(cmd_name)
        way = _FILES.get(cmd_name[cmd_name.rfind(".") :].lower())
        meant = meant or (way and f"hpckit {way} {shlex.quote(cmd_name)}")
        meant = meant or (f"hpckit {near[0]}" if near else "hpckit --help")
        ctx.fail(f"there is no command {cmd_name!r}; did you mean `{meant}`?")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, text in commands.items()])


OVERVIEW = (
    ("begin", "hpckit demo                      without Slurm, without a GPU"),
    ("", "hpckit init --from old.sbatch    a job file from a batch script"),
    ("", "hpckit submit -N 2 --gpus-per-node 8 -- torchrun train.py"),
    ("", "hpckit report                    what the last job used"),
    *((heading.lower(), "  ".join(commands)) for heading, commands in GROUPS.items()),
    ("help", "hpckit --help · hpckit COMMAND --help"),
)
"""Label → words of the screen that `hpckit` alone shows."""


@click.group(
    cls=_LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 success · 1 job failed, or not found · 2 usage · 3 invalid configuration"
    " · 4 unparsable input · 5 request cannot be satisfied · 6 template error · 7 Slurm or system "
    "error · 130 interrupted",
)
@click.version_option(hpckit.__version__, prog_name="hpckit")
@click.option(
    "--color",
    type=click.Choice(("auto", "always", "never")),
    default="auto",
    show_default=True,
    help="Colour the output (also NO_COLOR, FORCE_COLOR).",
)
@click.pass_context
def cli(ctx: click.Context, *, color: str) -> None:
    """GPU jobs on Slurm: a script to review, one submission, and what it cost."""
    if color != "auto":
        ctx.color = color == "always"
        if ctx.obj is not None:
            ctx.obj.color = ctx.color
    if ctx.invoked_subcommand is None:
        click.echo(f" hpckit {hpckit.__version__}\n {cli.help}\n")
        for label, words in OVERVIEW:
            click.echo(f" {label:<8} {words}")


def main() -> NoReturn:
    """Run the command line; the exit code is the error class's own."""
    # `hpckit jobs | head -1` ends as every other tool does when its reader has gone.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    _open_streams()
    try:
        code = _run()
    except Exception:  # noqa: BLE001  the only broad catch: a bug must say that it is one
        import traceback

        traceback.print_exc()
        _say(f"this is a bug in hpckit {hpckit.__version__}; please report the lines above")
        code = BUG_EXIT_CODE
    # All is done: a Ctrl-C from here on has nothing to interrupt.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


_PLAIN = {ord(drawn): plain for drawn, plain in zip("─│├└┬┤┐┘█▊▌▎×·→↔≤≥±…²₂", [
    *"-|+++++", "+", "#", "#", "|", "|", "x", "-", "->", "<->", "<=", ">=", "+-", "...", "2", "2",
], strict=True)}  # fmt: skip
"""What a terminal that has no Unicode shows in place of hpckit's characters."""


_UTF_8 = ("utf-8", "utf8")


def _open_streams() -> None:
    """Have somewhere to write to, in an encoding that takes every character.

    A closed descriptor (`2>&-`) would else be the next file that is opened.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            if name != "stdin":
                opened = open(descriptor, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
                setattr(sys, name, opened)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() not in _UTF_8:
            import codecs

            codecs.register_error("plain", _plain)
            stream.reconfigure(errors="plain")


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Return what stands in for characters that an encoding has not."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_PLAIN)
    return text.encode("ascii", "replace").decode(), error.end


class _Said:
    """What was said of colours, which errors keep to: by the environment, or --color."""

    color: bool | None


def _run() -> int:
    said = _Said()
    said.color = _color()
    try:
        code = cli.main(prog_name="hpckit", standalone_mode=False, color=said.color, obj=said)
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.ClickException as error:
        return _misused(error, said.color)
    except (KeyboardInterrupt, RuntimeError) as interrupt:
        # click raises Abort from the KeyboardInterrupt that holds the sentence, CPython 3.11 a
        # RuntimeError from one that comes while a class is made (__set_name__).
        cause = interrupt.__cause__ or interrupt
        if not isinstance(cause, KeyboardInterrupt | click.Abort):
            return _failed(interrupt, said.color)
        _say(" ".join(["interrupted", *(f"· {word}" for word in cause.args)]), said.color)
        return INTERRUPTED_EXIT_CODE
    except Exception as error:  # noqa: BLE001  a bug is raised again
        return _failed(error, said.color)
    return code if isinstance(code, int) else 0


def _failed(error: BaseException, color: bool | None) -> int:
    """Return the exit code of what the command could not do; raise what is a bug."""
    from hpckit.core.errors import AdapterError, HpckitError

    if isinstance(error, OSError) and error.errno in _OUTPUT_FAULTS:
        _discard_output()
        error = AdapterError(f"the output could not be written: {error.strerror}")
    if not isinstance(error, HpckitError):
        raise error
    return _refused(error, color)


def _misused(error: click.ClickException, color: bool | None) -> int:
    import io

    from hpckit.cli import output
    from hpckit.spec.tokens import masked

    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        from hpckit.cli.sbatch_words import unknown_option

        error = unknown_option(error, error.ctx)
    elif isinstance(error, click.UsageError):
        from hpckit.cli.sbatch_words import misused

        error = misused(error, error.ctx or _context())
    said = io.StringIO()
    error.show(said)
    _say(output.visible(output.shortened(masked(said.getvalue().rstrip("\n")))), color)
    return error.exit_code


def _context() -> click.Context:
    """Return the context of the command that was typed, which some errors of click lack."""
    whole = click.Context(cli, info_name="hpckit")
    name = next((word for word in sys.argv[1:] if word in COMMANDS), None)
    command = None if name is None else cli.get_command(whole, name)
    return whole if command is None else click.Context(command, whole, name)


def _refused(error: HpckitError, color: bool | None) -> int:
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
    _say(f"{click.style('error', fg='red')}  {output.visible(str(error))}", color)
    return error.exit_code


def _discard_output() -> None:
    """What is left in the buffer would fail again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(text: str, color: bool | None = None) -> None:
    try:
        click.echo(text, err=True, color=color)
    except OSError:
        return


def _color() -> bool | None:
    if os.environ.get("NO_COLOR"):
        return False
    return True if os.environ.get("FORCE_COLOR") else None


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the completion script of SHELL; for bash: eval "$(hpckit completion bash)"."""
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    if completion is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(completion(cli, {}, "hpckit", "_HPCKIT_COMPLETE").source())
