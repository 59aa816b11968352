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
    """A command, and what its result answers; the whole result is left in a file."""

    title: str
    words: tuple[str, ...]
    answer: str
    """A regular expression of the sentence that the summary shows."""
    shown: str | None = None
    """What lines begin with that are printed at once."""


_PLACE: Final = (
    "place", "--nodelist", "gpu-[9-12,36-39,71-77,101-108,113-121]", "--gpus-per-node", "8",
    "--mesh", "tensor=8,data=4,pipeline=8", "--volume", "data=4e9,pipeline=2e8",
    "--fabric", "fabric/topology.conf", "--slurm-version", "24.11", "--oversubscription", "4",
)  # fmt: skip
STEPS: Final = {
    "job": Step("A job of four ranks, on this machine, without Slurm",
                ("submit", "--local", "allreduce/job.toml", "--wait"),
                r"COMPLETED .*?exit code 0"),
    "node": Step("A node (made up): its GPUs and NICs, and what is wrong with it",
                 ("inspect", "dgx-h100.json"), r"GPU5 has .*?\)", "package|├|└"),
    "place": Step("A network (made up): which nodes take which ranks, and what that saves",
                  _PLACE, r"[\d.]+ ms communication .*?\)"),
    "report": Step("A job of eight GPUs (recorded, with synthetic GPUs): what it used",
                   ("report", "--from", "recorded-run", "--html", "report.html"),
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
    so that you can run each command again and change it; what each printed, pictures and the
    report's page are written there.
    """
    target = folder or "hpckit-demo"
    wiring.copy_examples(target)
    answers = []
    with contextlib.chdir(target):
        for name, step in STEPS.items():
            output.result(click.style(f"# {step.title}", bold=True))
            code, text = _run(ctx, step.words)
            bare = click.unstyle(text)
            wiring.write_whole(f"{name}.txt", "\n".join([*_wrapped(step.words), bare]))
            for line in text.splitlines():
                if code or (step.shown and re.match(step.shown, click.unstyle(line))):
                    output.result(line)
            if code:
                ctx.exit(code)
            found = re.search(step.answer, " ".join(bare.split()))
            answers += [(name, found[0])] if found else []
        for file, words in _PICTURES.items():
            wiring.write_whole(file, _run(ctx, words)[1])
    output.result(click.style(f"# Seen, and left in {target}", bold=True))
    files = " · ".join(["*.txt (what each printed)", *_PICTURES, "report.html"])
    commands = f"cd {shlex.quote(target)} · hpckit doctor · hpckit init"
    if not wiring.is_on_path("hpckit"):
        commands = f"export PATH={shlex.quote(sysconfig.get_path('scripts'))}:$PATH\n{commands}"
    output.labelled([*answers, ("files", files), ("next", commands)])


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


def _run(ctx: click.Context, words: tuple[str, ...]) -> tuple[int, str]:
    """Run a command of hpckit as if it were typed; return its exit code and what it prints."""
    from hpckit.cli.main import cli

    color = ctx.color if ctx.color is not None else sys.stdout.isatty()
    written = io.BytesIO()  # what are files is printed as bytes
    with (
        contextlib.redirect_stdout(io.TextIOWrapper(written, encoding="utf-8")) as printed,
        contextlib.redirect_stderr(io.StringIO()),  # which file was written: the summary says it
    ):
        code = cli.main(list(words), prog_name="hpckit", standalone_mode=False, color=color)
        printed.flush()
    return code if isinstance(code, int) else 0, written.getvalue().decode()
