"""What kind of file settings of communication stand in, and what it sets.

A job file of hpckit, an nccl.conf, what `env`, `printenv` or `env -0` printed, or a shell script.
Source: NCCL's src/misc/param.cc for nccl.conf: a line is a name, `=`, and the value to its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from hpckit.errors import ParseError
from hpckit.model.comm_lint import Assignment, LostValue, SettingForm, Settings, SettingsKind
from hpckit.parse.excerpt import refusal
from hpckit.parse.settings_job import parse_job_settings
from hpckit.parse.shell_settings import parse_shell

EXPECTED: Final = "a shell script, what `env` printed, a job file or an nccl.conf"
MOST_BYTES: Final = 4 * 1024**2
_ASSIGNED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.]*|BASH_FUNC_[^=\s]+%%|_)=", re.ASCII)
_SHELL_VALUE: Final = re.compile(r"=['\"$`]|[^ ] #|;\s*$")
_NCCL_NAME: Final = re.compile(r"[NR]CCL_[A-Z0-9_]*", re.ASCII)
_NCCL_LINE: Final = re.compile(r"^\s*(export\s+)?[NR]CCL_[A-Z0-9_]+\s*=", re.MULTILINE)
_OF_ENV: Final = frozenset(("PATH", "HOME", "PWD", "USER", "SHLVL", "LOGNAME", "SHELL", "LANG"))
_SHELLS: Final = re.compile(r"#!.*\b(ba|z|k|da|c|tc|)sh\b")
_BINARY: Final = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_OTHER: Final = ("{", "<", "[{", "%PDF", "PK\x03", "---", "FROM ", "# syntax=", "apiVersion:")
_OTHER_NAMES: Final = (
    ".py", ".json", ".xml", ".yaml", ".yml", ".lua", ".md", ".rst", ".ipynb", "Dockerfile",
    ".dockerfile", "Containerfile",
)  # fmt: skip
_COMMAND: Final = re.compile(r"(export|setenv|srun|mpirun)\s|declare -x\s")


def parse_settings(data: bytes, name: str) -> Settings:
    """What a file sets; `name` is how errors call it, and its ending helps to tell what it is.

    Raises ParseError for a file that is none of these, and for one of more than 4 MiB,
    the most that Slurm takes as a script.
    """
    if len(data) > MOST_BYTES:
        raise _refusal(name, f"a file of {len(data)} bytes", f"one of {MOST_BYTES} at most")
    text = data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    if "\0" in text:
        return _parse_zero_ended(text, name)
    binary = _BINARY.search(text)
    if binary is not None:
        line_no = text.count("\n", 0, binary.start()) + 1
        raise refusal(
            "not a text",
            tool=name,
            line_no=line_no,
            line=text.split("\n")[line_no - 1],
            column=binary.start() - text.rfind("\n", 0, binary.start()),
            expected=EXPECTED,
        )
    if _is_toml(text, name):
        return parse_job_settings(text, name)
    first = text.lstrip()[:200]
    is_foreign = first.startswith("#!") and not _SHELLS.match(first)
    if first.startswith(_OTHER) or is_foreign or name.endswith(_OTHER_NAMES):
        raise _refusal(name, "another kind of file", EXPECTED, first.split("\n", 1)[0])
    kind = _kind(text, name)
    if kind is SettingsKind.SCRIPT:
        found = parse_shell(text, name)
        return _as_environment(found) if name.endswith(".env") else found
    if kind is SettingsKind.CONF:
        return Settings(kind=kind, assignments=tuple(_conf(text)))
    return Settings(kind=kind, assignments=tuple(_environment(text.split("\n"))))


def _refusal(name: str, message: str, expected: str, line: str = "") -> ParseError:
    return refusal(message, tool=name, line_no=1, line=line, expected=expected)


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
            raise _refusal(name, "another kind of configuration", EXPECTED)
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


def _conf(text: str) -> Iterable[Assignment]:
    """The lines of an nccl.conf as NCCL reads them: quotes and blanks are part of what they say.

    Of a name that stands twice the first counts (setenv without overwriting). A line without `=`
    sets nothing: it is a name without a value here.
    """
    found: dict[tuple[str, int | None], Assignment] = {}
    for line_no, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        one = Assignment(
            name=name, value=value if equals else None, line=line_no, form=SettingForm.CONF
        )
        key = (name, None if equals else line_no)
        first = found.setdefault(key, one)
        if first.value != value and equals:
            found[key] = replace(first, instead_of=LostValue(value=value, line=line_no))
    return found.values()


def _environment(lines: list[str]) -> Iterator[Assignment]:
    """What `env` printed; a line that sets nothing goes on with the value before it."""
    seen: set[str] = set()
    for line_no, line in enumerate(lines, start=1):
        match = _ASSIGNED.match(line)
        if match and match[1] not in seen:
            seen.add(match[1])
            yield Assignment(
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
        raise _refusal(name, "not a text", EXPECTED)
    return Settings(kind=SettingsKind.ENV, assignments=tuple(_environment(entries)))
