"""The settings of communication in a job file of hpckit, with the lines that they stand on."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Final

from hpckit.errors import ParseError
from hpckit.model.comm_lint import Assignment, LaunchOption, SettingForm, Settings, SettingsKind
from hpckit.model.job import JOB_SCHEMA
from hpckit.parse.excerpt import refusal
from hpckit.parse.shell_settings import parse_shell

_PLACE: Final = re.compile(r"at line (\d+), column (\d+)")
_KEY: Final = re.compile(
    r"(?<![A-Za-z0-9_-])(?P<quote>[\"']?)(?P<name>[A-Za-z_][A-Za-z0-9_-]*+)(?P=quote)[ \t]*+="
    r"|\"(?:[^\"\\]|\\.)*+\"|'[^']*+'|\#.*",
    re.ASCII,
)
_AHEAD: Final = 20_000
_VARIABLES: Final = (("tune", "env"), ("environment", "set"))
_OPTIONS: Final = (("extra", "sbatch"), ("srun_extra", "srun"))
_COUNTS: Final = {"nodes": "nodes", "ntasks_per_node": "ntasks-per-node"}


def parse_job_settings(text: str, name: str) -> Settings:
    """What a job file sets: `[tune] env`, `[environment] set` and `setup`, its command, options.

    Lines are those where a key stands first and was not used before. Raises ParseError for what is
    no TOML, and for another document.
    """
    try:
        tree = tomllib.loads(text)
    except RecursionError:
        raise _refusal(text, name, "is nested too deeply", 1) from None
    except ValueError as error:
        place = _PLACE.search(str(error))
        raise _refusal(text, name, str(error), int(place[1]) if place else 1) from error
    if tree.get("schema") != JOB_SCHEMA:
        raise _refusal(text, name, "another document in TOML", 1)
    lines = _Lines(text)
    stages = tree.get("stages")
    tables = [tree, *(stages if isinstance(stages, list) else [])]
    found: list[Assignment] = []
    options: list[LaunchOption] = []
    for table in tables:
        here = [*_variables(table, lines), *_setup(table, lines, name)]
        here += _command(table, lines, name)
        found += here if table is tree else _of_stage(here)
        options += _options(table, lines)
    found.sort(key=lambda one: one.line)
    return Settings(kind=SettingsKind.JOB, assignments=tuple(found), options=tuple(options))


class _Lines:
    """Where keys stand: each is given away once, in the order of the text."""

    def __init__(self, text: str) -> None:
        self._keys: dict[str, list[int]] = {}
        self._text = text
        self._lines = text.split("\n")
        self._starts = list(accumulate((len(line) + 1 for line in self._lines), initial=0))
        for line_no, line in enumerate(self._lines, start=1):
            for match in _KEY.finditer(line):
                if match["name"]:
                    self._keys.setdefault(match["name"], []).append(line_no)
        for found in self._keys.values():
            found.reverse()

    def take(self, key: str) -> int:
        """The line of a key, 1 where it cannot be told."""
        found = self._keys.get(key, [])
        return found.pop() if found else 1

    def of_text(self, text: str, start: int) -> int:
        """The first line not far from `start` that holds a line of text as it is, else `start`."""
        at = self._starts[start - 1]
        found = self._text.find(text.strip(), at, at + _AHEAD)
        return start if found < 0 else start + self._text.count("\n", at, found)

    def refusal(self, error: ParseError, line_no: int) -> ParseError:
        """The same of a text that stands on a line of the file."""
        return refusal(
            "what begins here never ends",
            tool=error.tool,
            line_no=line_no,
            line=self._lines[line_no - 1],
            expected=error.expected,
        )


def _of_stage(here: list[Assignment]) -> list[Assignment]:
    """The variables of one stage, which end with it."""
    last = max((one.line for one in here), default=1)
    return [replace(one, until_line=one.until_line or last) for one in here]


def _refusal(text: str, name: str, message: str, line_no: int) -> ParseError:
    lines = text.split("\n")
    line = lines[line_no - 1] if 0 < line_no <= len(lines) else ""
    return refusal(
        message, tool=name, line_no=line_no, line=line, expected=f"a job file `{JOB_SCHEMA}`"
    )


def _table(tree: object, name: str) -> Mapping[str, Any]:
    found = tree.get(name) if isinstance(tree, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _variables(tree: object, lines: _Lines) -> Iterator[Assignment]:
    for table, key in _VARIABLES:
        for name, value in _table(_table(tree, table), key).items():
            yield Assignment(
                name=name,
                value=value if isinstance(value, str) else _scalar(value),
                line=lines.take(name),
                form=SettingForm.JOB,
            )


def _setup(tree: object, lines: _Lines, name: str) -> Iterator[Assignment]:
    """The lines of shell under `[environment] setup`."""
    setup = _table(tree, "environment").get("setup")
    if not isinstance(setup, list) or not setup:
        return
    commands = [line for line in setup if isinstance(line, str)]
    yield from _shell("\n".join(commands), commands, lines, lines.take("setup"), name)


def _shell(
    script: str, texts: Sequence[str], lines: _Lines, start: int, name: str
) -> Iterator[Assignment]:
    """What a script sets that has, line by line, the texts that the file has from `start` on."""
    places: list[int] = []
    for line in "\n".join(texts).split("\n"):
        start = lines.of_text(line, start)
        places.append(start)
    try:
        found = parse_shell(script, name).assignments
    except ParseError as error:
        raise lines.refusal(error, places[error.line_no - 1]) from None
    for one in found:
        sign, until, lost = f"{one.name}=", one.until_line, one.instead_of
        yield replace(
            one,
            line=lines.of_text(sign, places[one.line - 1]),
            until_line=None if until is None else places[min(until, len(places)) - 1],
            instead_of=lost and replace(lost, line=lines.of_text(sign, places[lost.line - 1])),
        )


def _scalar(value: object) -> str | None:
    """What a number or a truth value would be in the environment; a job file wants it in quotes."""
    return str(value).lower() if isinstance(value, int | float) else None


def _command(tree: object, lines: _Lines, name: str) -> Iterator[Assignment]:
    """The variables that the command itself sets, as `env A=b` and `bash -c` do."""
    command = tree.get("command") if isinstance(tree, Mapping) else None
    if not isinstance(command, list):
        return
    words = [word for word in command if isinstance(word, str)]
    script = " \\\n".join(map(shlex.quote, words))
    for one in _shell(script, words, lines, lines.take("command"), name):
        yield replace(one, until_line=None)


def _options(tree: object, lines: _Lines) -> Iterator[LaunchOption]:
    for key, program in _OPTIONS:
        for name, value in _table(_table(tree, "slurm"), key).items():
            said = value if isinstance(value, str) else str(value)
            yield LaunchOption(program=program, name=name, value=said, line=lines.take(name))
    for key, name in _COUNTS.items():
        count = _table(tree, "resources").get(key)
        if isinstance(count, int):
            yield LaunchOption(program="sbatch", name=name, value=str(count), line=lines.take(key))
