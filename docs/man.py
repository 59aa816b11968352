"""Man pages from the commands' help, one a command: `make man` writes build/man/man1 (man(7))."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

import hpckit
from hpckit.cli.main import COMMANDS, cli

OUT: Final = Path(__file__).resolve().parents[1] / "build" / "man" / "man1"
_EXIT: Final = (cli.epilog or "").removeprefix("Exit codes: ").split(" · ")


def main(out: Path = OUT) -> None:
    """Write all pages."""
    out.mkdir(parents=True, exist_ok=True)
    root = click.Context(cli, info_name="hpckit", **cli.context_settings)
    _write(out / "hpckit.1", hpckit_page(root))
    for name in COMMANDS:
        if command := cli.get_command(root, name):
            _write(out / f"hpckit-{name}.1", command_page(command, root, name))
    print(f"{len(COMMANDS) + 1} pages: man -M {out.parent} hpckit", file=sys.stderr)


def _write(file: Path, lines: Iterator[str]) -> None:
    head = f'.TH {file.stem.upper()} 1 "" "hpckit {hpckit.__version__}" "hpckit manual"'
    file.write_text("\n".join([head, *lines, ""]), encoding="utf-8")


def hpckit_page(context: click.Context) -> Iterator[str]:
    """The page of hpckit itself, with its commands by what they are for."""
    yield from _name_and_usage(cli, context, "hpckit", (cli.help or "").rstrip("."))
    yield from _options(cli, context, ".SH")
    yield ".SH EXIT STATUS"
    for status in _EXIT:
        code, _, meaning = status.partition(" ")
        yield from (".TP", f".B {code}", _text(meaning))
    yield from (".SH FILES", ".TP", ".I ~/.config/hpckit/config.toml", "Your defaults.")
    yield from (".SH SEE ALSO", ", ".join(f"hpckit\\-{name}(1)" for name in COMMANDS))


def command_page(command: click.Command, parent: click.Context, name: str) -> Iterator[str]:
    """The page of a command."""
    context = click.Context(command, info_name=name, parent=parent)
    yield from _name_and_usage(command, context, f"hpckit-{name}", COMMANDS[name].rstrip("."))
    yield ".SH DESCRIPTION"
    yield from _paragraphs(command.help)
    yield from _options(command, context, ".SH")
    if isinstance(command, click.Group):
        for inner_name in command.list_commands(context):
            inner = command.commands[inner_name]
            inner_context = click.Context(inner, info_name=inner_name, parent=context)
            yield f'.SH "{_text(f"{name} {inner_name}".upper())}"'
            yield from _usage(inner, inner_context)
            yield from _paragraphs(inner.help)
            yield from _options(inner, inner_context, ".SS")
    if command.epilog:
        yield from (".SH EXAMPLES", *_paragraphs(command.epilog.replace("Examples:\n", "")))
    yield from (".SH SEE ALSO", "hpckit(1)")


def _name_and_usage(
    command: click.Command, context: click.Context, name: str, does: str
) -> Iterator[str]:
    yield from (".SH NAME", f"{_text(name)} \\- {_text(does)}", ".SH SYNOPSIS")
    yield from _usage(command, context)


def _usage(command: click.Command, context: click.Context) -> Iterator[str]:
    yield f".B {_text(context.command_path)}"
    yield _text(" ".join(command.collect_usage_pieces(context)))


def _options(command: click.Command, context: click.Context, level: str) -> Iterator[str]:
    """Yield the options under their headings, as --help has them."""
    formatter = _Options()
    command.format_options(context, formatter)
    for heading, rows in formatter.sections:
        yield f'{level} "{_text(heading.upper() if level == ".SH" else heading)}"'
        for words, meaning in rows:
            yield from (".TP", f".B {_text(words)}", _text(meaning))


class _Options(click.HelpFormatter):
    """Keeps what click would write in columns."""

    def __init__(self) -> None:
        super().__init__()
        self.sections: list[tuple[str, list[tuple[str, str]]]] = []

    def write_heading(self, heading: str) -> None:
        self.sections.append((heading, []))

    def write_dl(self, rows: object, col_max: int = 30, col_spacing: int = 2) -> None:
        self.sections[-1][1].extend(rows)  # type: ignore[arg-type]


def _paragraphs(text: str | None) -> Iterator[str]:
    parts = (text or "").replace("\b\n", "\n\n\b").split("\n\n")
    for at, part in enumerate(part.strip("\n") for part in parts if part.strip()):
        kept = part.startswith("\b")
        yield from [".PP"] if at else []
        yield from [".nf"] if kept else []
        yield from map(_text, part.removeprefix("\b").split("\n"))
        yield from [".fi"] if kept else []


def _text(text: str) -> str:
    """Return text in which nothing is a request or an escape, and a hyphen is typed as such."""
    safe = text.strip().replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe


if __name__ == "__main__":
    main()
