"""What commands print: the result on stdout, talk on stderr, colour for status only."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from hpckit.core.late import regex
from hpckit.core.units import format_duration

if TYPE_CHECKING:
    from hpckit.core.findings import Finding, Notice
    from hpckit.core.text import Line
    from hpckit.slurm.values import JobState, JobStatus


_SHELL_SIGNAL_BASE = 128
_LAST_SIGNAL = 64
_NARROWEST = 8
_WIDEST_PROSE = 100
# What click.style makes of colours, bold and dim, and none of what hides text.
_STYLED = regex("((?:\x1b\\[(?:[12]|[39][0-7])m)+)([^\x1b]*)(\x1b\\[0m)")
_TOO_LONG = regex(r"(?<!\w)'[^'\n]{300,}'(?!\w)|\S{301,}")
_END = 60
_STEERING = regex("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]")
_COLOURS = {"COMPLETED": "green", "RUNNING": "cyan", "PENDING": "yellow", "UNKNOWN": "yellow"}
_STYLES: dict[str, dict[str, Any]] = {
    "title": {"bold": True},
    "faint": {"dim": True},
    "warning": {"fg": "yellow"},
    "error": {"fg": "red"},
}


def result(text: str) -> None:
    """Print a line of the result; nothing in it steers the terminal."""
    click.echo(_safe(text), color=_colour())


@contextmanager
def written(fact: str) -> Iterator[None]:
    """Write what is printed meanwhile; where that fails the error tells the fact."""
    from hpckit.core.errors import AdapterError

    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise AdapterError(f"{fact}; the output could not be written: {error.strerror}") from error


def talk(text: str) -> None:
    """Print a line that is not the result; nothing in it steers the terminal."""
    click.echo(_safe(text), err=True, color=_colour())


def _safe(text: str) -> str:
    """Visible text that keeps the colours which hpckit gave to a part of it."""
    if text.isprintable():
        return text
    # Plain text, a style's beginning, the text in it, the style's end, plain text …
    pieces = enumerate(_STYLED.split(text))
    return "".join(piece if at % 2 else visible(piece) for at, piece in pieces)


def format_of(format_: str | None, *, as_json: bool, default: str) -> str:
    """Return what --format and --json name together; they may not contradict each other."""
    if as_json and format_ not in (None, "json"):
        raise click.UsageError(f"--json and --format {format_} exclude each other")
    return "json" if as_json else format_ or default


def document(value: object) -> None:
    """Print one JSON document of plain or model values; what steers a terminal is escaped.

    So is a byte of a path that is no UTF-8, which Python holds as half a surrogate pair.
    """
    from hpckit.core.fields import to_tree

    text = json.dumps(to_tree(value), ensure_ascii=False, indent=2)
    as_file(_STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n")


def as_file(text: str) -> None:
    """Print what is a file's text: in UTF-8, whatever characters the screen has."""
    click.echo(text.encode(errors="surrogateescape"), nl=False)


def labelled(rows: Sequence[tuple[str, str]]) -> None:
    """Print rows of label and text, aligned; a text's further lines are indented under it."""
    width = max((len(label) for label, _ in rows), default=0)
    for label, text in rows:
        head, *more = text.split("\n")
        result(f" {label:<{width}}  {head}".rstrip())
        for line in more:
            result(f" {'':<{width}}  {line}".rstrip())


def note(finding: Notice) -> str:
    """What a check found, and on a second line what would mend it."""
    text = f"{finding.subject}: {finding.text}"
    return text if finding.remedy is None else f"{text}\n({finding.remedy})"


def say_notes(findings: Sequence[Notice]) -> None:
    """Print what checks found beside a result that has stdout for itself."""
    for finding in findings:
        talk("\n  ".join(f"note  {note(finding)}".split("\n")))


def prose(text: str, indent: int = 9) -> str:
    """Text broken into lines that leave room for a label, at a terminal's width or 80 columns.

    Never at a hyphen: options and names are there to be copied.
    """
    import textwrap

    width = min(terminal_columns(), _WIDEST_PROSE) - indent
    room = max(width, _NARROWEST)
    lines = [textwrap.wrap(line, room, break_on_hyphens=False) for line in text.split("\n")]
    return "\n".join(part for parts in lines for part in parts)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, columns as wide as their content; an empty header prints none."""
    lines = [[_on_a_line(cell) for cell in line] for line in ([header, *rows] if header else rows)]
    widths = [max(columns(line[at]) for line in lines) for at in range(len(lines[0]))]
    widths = _fitted(widths)
    for line in lines:
        cells = [_cell(cell, widths[at]) for at, cell in enumerate(line)]
        result(" " + "  ".join(cells).rstrip())


def remarks(rows: Sequence[tuple[str, str, str]]) -> None:
    """Print rows that end in a sentence: on a terminal in as many lines as it takes, else in one.

    What to do stands at the end of such a sentence: cut, it would be lost.
    """
    labels = [max(columns(row[at]) for row in rows) for at in range(2)]
    indent = sum(labels) + 2 * len(rows[0])
    lines: list[tuple[str, str, str]] = []
    for level, subject, text in rows:
        head, *more = prose(text, indent).split("\n") if sys.stdout.isatty() else [text]
        lines += [(level, subject, head), *(("", "", line) for line in more)]
    table((), lines)


def terminal_columns() -> int:
    """Return the width of the terminal, or COLUMNS where that is set; 80 without either."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80


def _fitted(widths: list[int]) -> list[int]:
    """The widths, the widest columns narrowed to a terminal's width; unchanged elsewhere."""
    if not sys.stdout.isatty():
        return widths
    room = terminal_columns() - (2 * len(widths) - 1)
    fitted = list(widths)
    while sum(fitted) > room and max(fitted) > _NARROWEST:
        fitted[fitted.index(max(fitted))] -= 1
    return fitted


def _cell(text: str, width: int) -> str:
    bare = click.unstyle(text)
    if columns(bare) <= width:
        return text + " " * (width - columns(bare))
    while columns(bare) > width - 1:
        bare = bare[:-1]
    return bare + "…"


def columns(text: str) -> int:
    """Return the columns that a text takes on a terminal: two a wide character, none a mark."""
    bare = click.unstyle(text)
    if bare.isascii():
        return len(bare)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 1 + (east_asian_width(char) in "WF") for char in bare)


def _on_a_line(cell: str) -> str:
    return _safe(cell).replace("\n", "\\n")


def origin_row(*, key: str, value: str, origin: str, detail: str) -> tuple[str, str, str]:
    """A value of the effective job and where it comes from, as --explain and `show` list it."""
    return visible(key), visible(value), "default" if origin == "default" else visible(detail)


def visible(text: str) -> str:
    """Text in which nothing hides: what cannot be seen is written as an escape."""
    return "".join(
        char if char.isprintable() or char == "\n" else f"\\u{ord(char):04x}" for char in text
    )


def log_line(text: str) -> str:
    """A line of a log, as a terminal shows it: tabs as blanks, escapes visible."""
    return one_line(text.expandtabs())


def one_line(text: str) -> str:
    """Visible text that stays on its line, such as a name that somebody made up."""
    return visible(text).replace("\n", "\\n")


def shortened(text: str) -> str:
    """Text of which every overlong word, or quoted value, is its two ends and its length."""
    return _TOO_LONG.sub(_ends, text)


def _ends(match: re.Match[str]) -> str:
    bare = match[0].strip("\"':,;") or match[0]
    before, _, after = match[0].partition(bare)
    return f"{before}{bare[:_END]} … ({len(bare)} characters) … {bare[-_END:]}{after}"


def headline(shown_id: str, name: str, how: str) -> str:
    """The line about a job: its id, its name and how it is."""
    return f" {shown_id} {one_line(name)}   {how}"


def state_word(state: JobState) -> str:
    """A state, coloured where colour is wanted."""
    return click.style(str(state), fg=_COLOURS.get(state, "red"))


def outcome(status: JobStatus, now_s: float | None = None) -> str:
    """A status in a few words: state, duration, exit code and reason.

    How long a job has run so far is said where `now_s` is given.
    """
    parts = [state_word(status.state) + _duration(status, now_s)]
    if status.exit_code is not None:
        number = status.exit_code - _SHELL_SIGNAL_BASE
        signal = f" (signal {number})" if 0 < number <= _LAST_SIGNAL else ""
        parts.append(f"exit code {status.exit_code}{signal}")
    why = status.reason or status.slurm_reason
    if why:
        parts.append(why)
    return " · ".join(parts)


def _duration(status: JobStatus, now_s: float | None) -> str:
    if status.started_s is None or status.state == "UNKNOWN":
        return ""
    if status.ended_s is not None:
        return f" in {format_duration(status.ended_s - status.started_s)}"
    if now_s is None or status.state.is_final or status.state.is_waiting:
        return ""
    return f" for {format_duration(now_s - status.started_s)}"


class SeenPath(click.Path):
    """A path that is there; one that may not be looked at is not called missing."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises click.BadParameter."""
        try:
            os.stat(value)  # noqa: PTH116
        except (FileNotFoundError, NotADirectoryError):
            pass
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            self.fail(f"{os.fsdecode(value)!r} cannot be looked at: {why}", param, ctx)
        return super().convert(value, param, ctx)


def fail_on_option(help_: str) -> Callable[..., Any]:
    """Add --fail-on, for `fail_code`."""
    return click.option("--fail-on", type=click.Choice(["note", "warning", "error"]), help=help_)


def fail_code(findings: Sequence[Finding], fail_on: str | None) -> int:
    """Return 1 for a finding that is at least as severe as `fail_on`, else 0."""
    if fail_on is None:
        return 0
    from hpckit.core.findings import Severity

    least = Severity(fail_on).rank
    return int(any(one.severity.rank >= least for one in findings))


def screen_width(widest: int = 120) -> int:
    """Return how wide what is printed may be."""
    return min(terminal_columns(), widest)


def say(lines: Iterable[Line]) -> None:
    """Print lines, each in its style."""
    for line in lines:
        style = _STYLES.get(line.style)
        result(click.style(line.text, **style) if style and line.text else line.text)


class Progress:
    """One line on a terminal's stderr that is rewritten, and nothing elsewhere."""

    def __init__(self) -> None:
        self._shown = False
        self._on = sys.stderr.isatty()

    def show(self, text: str) -> None:
        """Replace the line."""
        if self._on:
            # A line that the terminal breaks could not be taken back.
            width = terminal_columns()
            sys.stderr.write(f"\r\x1b[K {one_line(text)}"[: width + len("\r\x1b[K") - 1])
            sys.stderr.flush()
            self._shown = True

    def clear(self) -> None:
        """Remove the line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False


def _colour() -> bool | None:
    """Return what the environment says of colours; None leaves it to --color and the terminal."""
    context = click.get_current_context(silent=True)
    if context is not None and context.color is not None:
        return context.color
    if os.environ.get("NO_COLOR"):
        return False
    return True if os.environ.get("FORCE_COLOR") else None
