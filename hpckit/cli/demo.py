"""`hpckit demo`: a job here, a made-up node and network, and the report of a recorded job."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
import sysconfig
import textwrap
from collections.abc import Iterator
from typing import Final, NamedTuple

import click

from hpckit import wiring
from hpckit.cli import output


class Step(NamedTuple):
    """A command that is shown with the first lines of its result, and what that answers."""

    title: str
    words: tuple[str, ...]
    lines: int
    answer: str
    """A regular expression of the sentence that the summary repeats."""


_PLACE: Final = (
    "place", "--nodelist", "gpu-[9-12,36-39,71-77,101-108,113-121]", "--gpus-per-node", "8",
    "--mesh", "tensor=8,data=4,pipeline=8", "--volume", "data=4e9,pipeline=2e8",
    "--fabric", "fabric/topology.conf", "--slurm-version", "24.11", "--oversubscription", "4",
)  # fmt: skip
STEPS: Final = {
    "job": Step("A job of four ranks, on this machine, without Slurm",
                ("submit", "--local", "allreduce/job.toml", "--wait"), 12,
                r"COMPLETED .*?exit code 0"),
    "node": Step("A node (made up): its GPUs and NICs, and what is wrong with it",
                 ("inspect", "dgx-h100.json"), 24, r"GPU5 has .*?\)"),
    "place": Step("A network (made up): which nodes take which ranks, and what that saves",
                  _PLACE, 12, r"[\d.]+ ms communication .*?\)"),
    "report": Step("A job of eight GPUs (recorded, with synthetic GPUs): what it used",
                   ("report", "--from", "recorded-run", "--html", "report.html"), 11,
                   r"[\d.]+ % of GPU time useful · \S+ of \S+ GPU-hours wasted"),
}  # fmt: skip
_PICTURES: Final = {
    "node.svg": ("inspect", "dgx-h100.json", "--format", "svg"),
    "placement.svg": (*_PLACE, "--format", "svg"),
}


@click.command("demo")
@click.argument("folder", required=False, metavar="[DIR]", type=click.Path(file_okay=False))
@click.pass_context
def demo_command(ctx: click.Context, folder: str | None) -> None:
    """Show what hpckit does: a job of four ranks, a node, a placement, and a report.

    Needs no Slurm and no GPU. The examples are copied to a new folder DIR (default: hpckit-demo),
    so that you can run each command again and change it; pictures and the report's page are written
    there.
    """
    target = folder or "hpckit-demo"
    wiring.copy_examples(target)
    answers = []
    with contextlib.chdir(target):
        for name, step in STEPS.items():
            output.result(click.style(f"# {step.title}", bold=True))
            output.result("\n".join(_wrapped(step.words)))
            code, text = _run(ctx, step.words)
            _show(text.splitlines(), step.lines)
            if code:
                ctx.exit(code)
            found = re.search(step.answer, " ".join(click.unstyle(text).split()))
            answers += [(name, found[0])] if found else []
        for file, words in _PICTURES.items():
            wiring.write_whole(file, _run(ctx, words)[1])
    output.result(click.style(f"# Seen, and left in {target}", bold=True))
    pictures = " · ".join([*_PICTURES, "report.html"])
    commands = f"cd {shlex.quote(target)} · hpckit init -- python3 train.py · hpckit doctor"
    if not wiring.is_on_path("hpckit"):
        commands = f"export PATH={shlex.quote(sysconfig.get_path('scripts'))}:$PATH\n{commands}"
    output.labelled([*answers, ("files", pictures), ("next", commands)])


def _wrapped(words: tuple[str, ...]) -> Iterator[str]:
    """Yield a command line as one types it, within the screen."""
    line = f"$ {shlex.join(['hpckit', *words])}"
    *lines, last = textwrap.wrap(
        line,
        output.screen_width() - 2,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    yield from (f"{part} \\" for part in lines)
    yield last


def _show(lines: list[str], most: int) -> None:
    """Print the first lines, none of a row that would be cut, and how many are left."""
    while most < len(lines) and lines[most].startswith("   "):
        most -= 1
    output.result("\n".join(lines[:most]))
    if (left := len(lines) - most) > 0:
        output.result(click.style(f" … {left} more lines: the command prints them", dim=True))
    output.result("")


def _run(ctx: click.Context, words: tuple[str, ...]) -> tuple[int, str]:
    """Run a command of hpckit as if it were typed; return its exit code and what it prints."""
    from hpckit.cli.main import cli

    color = ctx.color if ctx.color is not None else sys.stdout.isatty()
    written = io.BytesIO()  # what are files is printed as bytes
    with contextlib.redirect_stdout(io.TextIOWrapper(written, encoding="utf-8")) as printed:
        code = cli.main(list(words), prog_name="hpckit", standalone_mode=False, color=color)
        printed.flush()
    return code if isinstance(code, int) else 0, written.getvalue().decode()
