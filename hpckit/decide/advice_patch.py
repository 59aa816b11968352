"""Advice as a change of the job file's text: the lines that it concerns, and no other.

The text is edited, not written anew, so that comments, order and spelling stay. Every edit that
could be right is tried and the first that TOML reads as the intended change is taken: what a line
looks like (in a string of many lines, say) is no proof of what it is.
"""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from typing import Any, Final

from hpckit.decide.advice import values_of
from hpckit.model.account import Advice

OPTION_OF: Final[Mapping[str, str]] = {
    "resources.nodes": "--nodes",
    "resources.gpus_per_node": "--gpus-per-node",
    "resources.cpus_per_task": "--cpus-per-task",
    "resources.mem": "--mem",
    "resources.time_limit": "--time",
}
"""The option of `hpckit submit` for each key that has its own; any other goes with `--set`."""
_TABLE = re.compile(r"\s*\[\s*([A-Za-z0-9_\"'-]+)\s*\]\s*(#.*)?", re.ASCII)
_ANY_HEADER = re.compile(r"\s*\[")
_VALUE = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[0-9A-Za-z_+.:-]+)"""
_MOST_TRIES = 1000


def patch_text(advice: Sequence[Advice], toml_text: str, name: str = "job.toml") -> str | None:
    """The advice as a unified diff of the job file; empty where the file says all of it already.

    None where the file cannot be edited by lines: it has stages, or spells the key in a way that
    only a person should change. `options_text` then says the same.
    """
    changed = patched(advice, toml_text)
    if changed is None:
        return None
    diff = unified_diff(
        _lines(toml_text), _lines(changed), fromfile=name, tofile=f"{name} (advised)"
    )
    ended = [
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in diff
    ]
    return "".join(ended)


def options_text(advice: Sequence[Advice]) -> str:
    """The advice as options of `hpckit submit`."""
    words = []
    for one in advice:
        option = OPTION_OF.get(one.key)
        words.append(
            f"--set {one.key}={one.proposed}" if option is None else f"{option} {one.proposed}"
        )
    return " ".join(words)


def patched(advice: Sequence[Advice], toml_text: str) -> str | None:
    """The job file's text with the advice in it, None where that takes a person."""
    text = toml_text
    for key, value in values_of(advice).items():
        edited = _with_value(text, key, value)
        if edited is None:
            return None
        text = edited
    return text


def _with_value(text: str, key: str, value: str | int) -> str | None:
    before = _read(text)
    table, _, name = key.partition(".")
    if before is None or "stages" in before or not isinstance(before.get(table, {}), dict):
        return None
    wanted = copy.deepcopy(before)
    wanted.setdefault(table, {})[name] = value
    if wanted == before:
        return text
    spelled = f'"{value}"' if isinstance(value, str) else str(value)
    for tried, edit in enumerate(_edits(text, table, name, spelled)):
        if tried > _MOST_TRIES:
            return None
        if _read(edit) == wanted:
            return edit
    return None


def _read(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def _lines(text: str) -> list[str]:
    """Lines with their ends; TOML ends them with LF or CRLF alone, unlike `splitlines`."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _edits(text: str, table: str, name: str, spelled: str) -> Iterator[str]:
    """Texts that may be the intended one, the likeliest first."""
    lines = _lines(text)
    yield from _replaced(lines, name, spelled)
    yield from _added(lines, table, name, spelled)


def _replaced(lines: Sequence[str], name: str, spelled: str) -> Iterator[str]:
    """Another value for the key, wherever a line seems to give it one."""
    given = re.compile(rf"(?<![A-Za-z0-9_-])[\"']?{name}[\"']?[ \t]*=[ \t]*({_VALUE})", re.ASCII)
    for at, line in enumerate(lines):
        for match in given.finditer(line):
            edited = line[: match.start(1)] + spelled + line[match.end(1) :]
            yield _joined(lines[:at], edited, lines[at + 1 :])


def _added(lines: Sequence[str], table: str, name: str, spelled: str) -> Iterator[str]:
    """The key where its table is: under its header, beside its dotted keys, in its braces."""
    end = _line_end(lines)
    for at, line in enumerate(lines):
        header = _TABLE.fullmatch(line.rstrip("\r\n"))
        if header is not None and header[1].strip("\"'") == table:
            last = _last_of_table(lines, at)
            indent = re.match(r"[ \t]*", lines[last])
            new = f"{indent[0] if indent and last > at else ''}{name} = {spelled}{end}"
            yield _joined(_closed(lines[: last + 1], end), new, lines[last + 1 :])
    for at, line in enumerate(lines):
        if re.match(rf"[ \t]*{table}[ \t]*\.", line):
            new = f"{table}.{name} = {spelled}{end}"
            yield _joined(_closed(lines[: at + 1], end), new, lines[at + 1 :])
        for match in re.finditer(rf"{table}[ \t]*=[ \t]*\{{[ \t]*", line):
            comma = "" if line[match.end() :].startswith("}") else ", "
            edited = f"{line[: match.end()]}{name} = {spelled}{comma}{line[match.end() :]}"
            yield _joined(lines[:at], edited, lines[at + 1 :])
    blank = [end] if lines and lines[-1].strip() else []
    yield _joined([*_closed(lines, end), *blank], f"[{table}]{end}{name} = {spelled}{end}", ())


def _last_of_table(lines: Sequence[str], header: int) -> int:
    """The last line of a table that says something: before blank lines, comments, the next one."""
    last = header
    for at in range(header + 1, len(lines)):
        if _ANY_HEADER.match(lines[at]):
            break
        if lines[at].strip() and not lines[at].lstrip().startswith("#"):
            last = at
    return last


def _closed(lines: Sequence[str], end: str) -> list[str]:
    """The lines, the last of them with an end."""
    if not lines or lines[-1].endswith("\n"):
        return list(lines)
    return [*lines[:-1], lines[-1] + end]


def _line_end(lines: Sequence[str]) -> str:
    return "\r\n" if lines and lines[0].endswith("\r\n") else "\n"


def _joined(before: Sequence[str], line: str, after: Sequence[str]) -> str:
    return "".join((*before, line, *after))
