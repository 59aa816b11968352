"""What kind of file settings of communication stand in, and what it sets.

A job file of hpckit, an nccl.conf, what `env`, `printenv` or `env -0` printed, or a shell script.
Source: NCCL's src/misc/param.cc for nccl.conf: a line is a name, `=`, and the value to its end.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Final

from hpckit.comm.lint_rule import (
    LostValue,
    Setting,
    SettingForm,
    Settings,
    SettingsKind,
)
from hpckit.comm.shell.script import parse_shell
from hpckit.core.document import Tree
from hpckit.core.errors import ParseError
from hpckit.core.excerpt import refusal
from hpckit.core.late import regex
from hpckit.spec.job import JOB_SCHEMA

EXPECTED: Final = "a shell script, the output of `env`, a job file or an nccl.conf"
_JOB: Final = f"a job file (schema `{JOB_SCHEMA}`)"
MOST_BYTES: Final = 4 * 1024**2
_ASSIGNED: Final = regex(r"([A-Za-z_][A-Za-z0-9_.]*|BASH_FUNC_[^=\s]+%%|_)=", re.ASCII)
_SHELL_VALUE: Final = regex(r"=['\"$`]|[^ ] #|;\s*$")
_NCCL_NAME: Final = regex(r"[NR]CCL_[A-Z0-9_]*", re.ASCII)
_NCCL_LINE: Final = regex(r"^\s*(export\s+)?[NR]CCL_[A-Z0-9_]+\s*=", re.MULTILINE)
_OF_ENV: Final = frozenset(("PATH", "HOME", "PWD", "USER", "SHLVL", "LOGNAME", "SHELL", "LANG"))
_SHELLS: Final = regex(r"#!.*\b(ba|z|k|da|c|tc|)sh\b")
_BINARY: Final = regex(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_OTHER: Final = ("{", "<", "[{", "%PDF", "PK\x03", "---", "FROM ", "# syntax=", "apiVersion:")
_OTHER_NAMES: Final = (
    ".py", ".json", ".xml", ".yaml", ".yml", ".lua", ".md", ".rst", ".ipynb", "Dockerfile",
    ".dockerfile", "Containerfile",
)  # fmt: skip
_COMMAND: Final = regex(r"(export|setenv|srun|mpirun)\s|declare -x\s")
_PLACE: Final = regex(r"at line (\d+), column (\d+)")
_KEY: Final = regex(
    r"(?<![A-Za-z0-9_-])(?P<quote>[\"']?)(?P<name>[A-Za-z_][A-Za-z0-9_-]*+)(?P=quote)[ \t]*+="
    r"|\"(?:[^\"\\]|\\.)*+\"|'[^']*+'|\#.*",
    re.ASCII,
)
_AHEAD: Final = 20_000
_VARIABLES: Final = (("tune", "env"), ("environment", "set"))
_OPTIONS: Final = (("extra", "sbatch"), ("srun_extra", "srun"))
_COUNTS: Final = {"nodes": "nodes", "ntasks_per_node": "ntasks-per-node"}


def parse_settings(data: bytes, name: str) -> Settings:
    """What a file sets; `name` is how errors call it, and its ending helps to tell what it is.

    Raises ParseError for a file that is none of these, and for one of more than 4 MiB,
    the most that Slurm takes as a script.
    """
    if len(data) > MOST_BYTES:
        raise _refusal(name, f"a file of {len(data)} bytes", expected=f"at most {MOST_BYTES} bytes")
    text = data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    if "\0" in text:
        return _parse_zero_ended(text, name)
    binary = _BINARY.search(text)
    if binary is not None:
        raise _refusal(name, "not a text file", text, binary.start())
    if _is_toml(text, name):
        return _parse_job(text, name)
    first = text.lstrip()[:200]
    is_foreign = first.startswith("#!") and not _SHELLS.match(first)
    if first.startswith(_OTHER) or is_foreign or name.endswith(_OTHER_NAMES):
        raise _refusal(name, "unsupported kind of file", first)
    kind = _kind(text, name)
    if kind is SettingsKind.SCRIPT:
        found = parse_shell(text, name)
        is_sourced = name.endswith(".env") or not found.has_commands
        return _as_environment(found) if is_sourced else found
    if kind is SettingsKind.CONF:
        return Settings(kind=kind, assignments=tuple(_conf(text)))
    return Settings(kind=kind, assignments=tuple(_environment(text.split("\n"))))


def _refusal(
    name: str, message: str, text: str = "", at: int = 0, expected: str = EXPECTED
) -> ParseError:
    """Return the error at a place of a text."""
    line_no, start = text.count("\n", 0, at) + 1, text.rfind("\n", 0, at) + 1
    line = text[start:].split("\n", 1)[0]
    return refusal(
        message, tool=name, line_no=line_no, line=line, column=at - start + 1, expected=expected
    )


def _is_toml(text: str, name: str) -> bool:
    return name.endswith(".toml") or bool(
        re.search(r"^schema\s*=\s*[\"']hpckit\.", text[:4096], re.MULTILINE)
    )


def _kind(text: str, name: str) -> SettingsKind:
    """What a text is, by its name first and then by its lines."""
    lines = [line for line in text.split("\n") if line.strip()]
    said = [line for line in lines if not line.startswith("#")]
    last = name.rsplit("/", 1)[-1]
    if last.endswith(".conf"):
        if not last.endswith(("nccl.conf", "rccl.conf")) and not _NCCL_LINE.search(text):
            raise _refusal(name, "unsupported kind of configuration file")
        return SettingsKind.CONF
    is_script = any(line.startswith(("#!", "#SBATCH")) for line in lines[:1000])
    is_script = is_script or last.endswith((".sh", ".sbatch", ".slurm", ".bash", ".csh", ".job"))
    if is_script or not said or _ASSIGNED.match(said[0]) is None:
        return SettingsKind.SCRIPT
    if any(_COMMAND.match(line) for line in said):
        return SettingsKind.SCRIPT
    names = {match[1] for line in said if (match := _ASSIGNED.match(line))}
    if names & _OF_ENV:
        return SettingsKind.ENV
    if all(_ASSIGNED.match(line) and not _SHELL_VALUE.search(line) for line in said):
        is_nccl = all(_NCCL_NAME.fullmatch(one) for one in names)
        return SettingsKind.CONF if is_nccl and len(said) < len(lines) else SettingsKind.ENV
    return SettingsKind.SCRIPT


def _conf(text: str) -> Iterable[Setting]:
    """The lines of an nccl.conf as NCCL reads them: quotes and blanks are part of what they say.

    Of a name that stands twice the first counts (setenv without overwriting). A line without `=`
    sets nothing: it is a name without a value here.
    """
    found: dict[tuple[str, int | None], Setting] = {}
    for line_no, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        one = Setting(
            name=name, value=value if equals else None, line=line_no, form=SettingForm.CONF
        )
        key = (name, None if equals else line_no)
        first = found.setdefault(key, one)
        if first.value != value and equals:
            found[key] = replace(first, instead_of=LostValue(value=value, line=line_no))
    return found.values()


def _environment(lines: list[str]) -> Iterator[Setting]:
    """What `env` printed; a line that sets nothing goes on with the value before it."""
    seen: set[str] = set()
    for line_no, line in enumerate(lines, start=1):
        match = _ASSIGNED.match(line)
        if match and match[1] not in seen:
            seen.add(match[1])
            yield Setting(
                name=match[1], value=line[match.end() :], line=line_no, form=SettingForm.ENV
            )


def _as_environment(found: Settings) -> Settings:
    """A file of the shell's variables, which whoever reads it exports."""
    assignments = tuple(
        replace(one, form=SettingForm.ENV) if one.form is SettingForm.SHELL else one
        for one in found.assignments
    )
    return replace(found, assignments=assignments)


def _parse_zero_ended(text: str, name: str) -> Settings:
    """What `env -0` printed, or /proc/PID/environ; a line is the number of an entry."""
    entries = text.removesuffix("\0").split("\0")
    if not all(_ASSIGNED.match(entry) for entry in entries if entry.strip()):
        raise _refusal(name, "not a text file")
    return Settings(kind=SettingsKind.ENV, assignments=tuple(_environment(entries)))


def _parse_job(text: str, name: str) -> Settings:
    """What a job file sets: `[tune] env`, `[environment] set` and `setup`, its command, options.

    Lines are those where a key stands first and was not used before. Raises ParseError for what is
    no TOML, and for another document.
    """
    try:
        tree = tomllib.loads(text)
    except RecursionError:
        raise _refusal(name, "nested too deeply", text, expected=_JOB) from None
    except ValueError as error:
        place = _PLACE.search(str(error))
        starts = [0, *(match.end() for match in re.finditer("\n", text))]
        at = starts[int(place[1]) - 1] if place else 0
        raise _refusal(name, str(error), text, at, _JOB) from error
    if tree.get("schema") != JOB_SCHEMA:
        raise _refusal(name, "a TOML file, but not a job file", text, expected=_JOB)
    lines = _KeyLines(text)
    stages = tree.get("stages")
    stages = [one for one in stages if isinstance(one, dict)] if isinstance(stages, list) else []
    tables: list[Tree] = [tree, *stages]
    found: list[Setting] = []
    options: list[Setting] = []
    for table in tables:
        here = [*_variables(table, lines), *_setup(table, lines, name)]
        here += _command(table, lines, name)
        found += here if table is tree else _of_stage(here)
        options += _options(table, lines)
    found.sort(key=lambda one: one.line)
    return Settings(kind=SettingsKind.JOB, assignments=tuple(found), options=tuple(options))


class _KeyLines:
    """Where keys stand: each is given away once, in the order of the text."""

    def __init__(self, text: str) -> None:
        self._keys: dict[str, list[int]] = {}
        self.text = text
        lines = text.split("\n")
        self.starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
        for line_no, line in enumerate(lines, start=1):
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
        at = self.starts[start - 1]
        found = self.text.find(text.strip(), at, at + _AHEAD)
        return start if found < 0 else start + self.text.count("\n", at, found)


def _of_stage(here: list[Setting]) -> list[Setting]:
    """The variables of one stage, which end with it."""
    last = max((one.line for one in here), default=1)
    return [replace(one, until_line=one.until_line or last) for one in here]


def _table(tree: Tree, name: str) -> Tree:
    found = tree.get(name)
    return found if isinstance(found, dict) else {}


def _texts(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _variables(tree: Tree, lines: _KeyLines) -> Iterator[Setting]:
    for table, key in _VARIABLES:
        for name, value in _table(_table(tree, table), key).items():
            # What a number would be in the environment; a job file wants it in quotes.
            said = str(value).lower() if isinstance(value, int | float) else None
            yield Setting(
                name=name,
                value=value if isinstance(value, str) else said,
                line=lines.take(name),
                form=SettingForm.JOB,
            )


def _setup(tree: Tree, lines: _KeyLines, name: str) -> Iterator[Setting]:
    """The lines of shell under `[environment] setup`."""
    setup = _texts(_table(tree, "environment").get("setup"))
    if setup:
        yield from _shell("\n".join(setup), setup, lines, lines.take("setup"), name)


def _shell(
    script: str, texts: Sequence[str], lines: _KeyLines, start: int, name: str
) -> Iterator[Setting]:
    """What a script sets that has, line by line, the texts that the file has from `start` on."""
    places: list[int] = []
    for line in "\n".join(texts).split("\n"):
        start = lines.of_text(line, start)
        places.append(start)
    try:
        found = parse_shell(script, name).assignments
    except ParseError as error:
        at = lines.starts[places[error.line_no - 1] - 1]
        raise _refusal(name, error.message, lines.text, at, error.expected) from None
    for one in found:
        sign, until, lost = f"{one.name}=", one.until_line, one.instead_of
        yield replace(
            one,
            line=lines.of_text(sign, places[one.line - 1]),
            until_line=None if until is None else places[min(until, len(places)) - 1],
            instead_of=lost and replace(lost, line=lines.of_text(sign, places[lost.line - 1])),
        )


def _command(tree: Tree, lines: _KeyLines, name: str) -> Iterator[Setting]:
    """The variables that the command itself sets, as `env A=b` and `bash -c` do."""
    words = _texts(tree.get("command"))
    if not words:
        return
    script = " \\\n".join(map(shlex.quote, words))
    for one in _shell(script, words, lines, lines.take("command"), name):
        yield replace(one, until_line=None)


def _options(tree: Tree, lines: _KeyLines) -> Iterator[Setting]:
    for key, program in _OPTIONS:
        for name, value in _table(_table(tree, "slurm"), key).items():
            said = value if isinstance(value, str) else str(value)
            yield Setting(program=program, name=f"--{name}", value=said, line=lines.take(name))
    for key, name in _COUNTS.items():
        count = _table(tree, "resources").get(key)
        if isinstance(count, int):
            yield Setting(
                program="sbatch", name=f"--{name}", value=str(count), line=lines.take(key)
            )
