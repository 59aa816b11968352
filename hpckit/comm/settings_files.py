"""What kind of file settings of communication stand in, and what it sets.

A job file of hpckit, an nccl.conf, what `env`, `printenv` or `env -0` printed, or a shell script.
Source: NCCL's src/misc/param.cc for nccl.conf: a line is a name, `=`, and the value to its end.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Final

from hpckit.comm.choice import ENVIRONMENT, Already, AlreadySet, ConfEntry, Overridden
from hpckit.comm.lint_rule import (
    Assignment,
    LaunchOption,
    LostValue,
    SettingForm,
    Settings,
    SettingsKind,
)
from hpckit.comm.shell.script import parse_shell
from hpckit.core.errors import ParseError
from hpckit.core.excerpt import refusal
from hpckit.spec.job import JOB_SCHEMA
from hpckit.spec.platform import CommLibrary, NcclVersion

# --- NCCL's and RCCL's configuration files, by their own grammar, and which value counts in the
# end.
#
# Source: NCCL src/misc/param.cc (before 2.12 src/include/param.h), read in every release from
# 2.3.5
# to 2.30.7; RCCL's of ROCm 4.5 to 6.2 and of 2026. A line is set with setenv(3) and never in place
# of
# what is set: the environment comes before the user's file, that before the system's, and within a
# file the first line of a name counts. Nothing is trimmed: spaces, quotes and what follows a value
# are part of it, and a name with a space is another name.


MOST_CONF_BYTES: Final = 1024**2
"""Of a configuration file; the longest one seen has 40 lines."""

SINCE_CONF_FILE: Final = NcclVersion(2, 23, 4)
SINCE_ENV_PLUGIN: Final = NcclVersion(2, 28, 7)
SINCE_HOME: Final = NcclVersion(2, 30, 3)
"""From here on `~` is HOME, a carriage return ends a line, and a line has at most 4095 bytes."""
SINCE_RCCL_CONF: Final = NcclVersion(2, 12, 12)
"""RCCL read NCCL's files up to ROCm 5.2 (2.11.4), and has its own names since ROCm 5.3."""

_MOST_VALUE_BYTES: Final = 1023
_MOST_LINE_BYTES: Final = 4095
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_QUOTED: Final = re.compile(r"""(["']).*\1""", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixFact:
    """Variables that matter for communication, and whose they are.

    `is_read_by_nccl` is whether NCCL, or a plugin that it opens, reads them once it has read its
    files; what others read before sees nothing of the files.
    """

    prefix: str
    reader: str
    is_read_by_nccl: bool
    source: str


_PARAM_CC: Final = "src/misc/param.cc, 2.30.7"
PREFIXES: Final = (
    PrefixFact(prefix="NCCL_", reader="NCCL", is_read_by_nccl=True, source=_PARAM_CC),
    PrefixFact(prefix="RCCL_", reader="RCCL", is_read_by_nccl=True, source=_PARAM_CC),
    PrefixFact(
        prefix="OFI_NCCL_",
        reader="aws-ofi-nccl",
        is_read_by_nccl=True,
        source="aws-ofi-nccl include/nccl_ofi_param.h, 1.21",
    ),
    PrefixFact(
        prefix="TORCH_NCCL_",
        reader="PyTorch",
        is_read_by_nccl=False,
        source="PyTorch ProcessGroupNCCL.hpp: read before a communicator is made",
    ),
    PrefixFact(prefix="FI_", reader="libfabric", is_read_by_nccl=False, source="fabric(7)"),
    PrefixFact(prefix="UCX_", reader="UCX", is_read_by_nccl=False, source="ucx_info -f"),
    PrefixFact(prefix="SHARP_", reader="SHARP", is_read_by_nccl=False, source="HPC-X manual"),
    PrefixFact(
        prefix="HSA_", reader="ROCm's runtime", is_read_by_nccl=False, source="ROCR environment"
    ),
)


def parse_nccl_conf(text: str, version: NcclVersion | None = None) -> tuple[ConfEntry, ...]:
    """The lines that set a variable, as this release reads them; None is the newest.

    Any text is one: a line without `=`, and one that begins with `#`, sets nothing. Names and
    values are cut to 1023 bytes, as NCCL does. Names that no program can read are among them.
    """
    entries = []
    for line_no, line in _lines(text, version):
        raw_name, equals, raw_value = line.partition(b"=")
        # Before 2.26 such a line set a variable whose name begins with #: to the same effect.
        if not equals or not raw_name or line.startswith(b"#"):
            continue
        name, value = _text(raw_name[:_MOST_VALUE_BYTES]), _text(raw_value[:_MOST_VALUE_BYTES])
        entries.append(ConfEntry(name, value, line_no))
    return tuple(entries)


def conf_remarks(text: str, source: str, version: NcclVersion | None = None) -> tuple[str, ...]:
    """A sentence for each line of a file that does not do what its author may think."""
    return tuple(
        f"{source} line {line_no} {remark}"
        for line_no, line in enumerate(text.split("\n"), start=1)
        if (remark := _remark(line.removesuffix("\r"), version)) is not None
    )


def conf_paths(
    environment: Mapping[str, str],
    library: CommLibrary = CommLibrary.NCCL,
    version: NcclVersion | None = None,
    account_home: str | None = None,
) -> tuple[str, ...]:
    """The files that this release reads, the one that counts most first.

    NCCL_CONF_FILE is taken as it is: a `~` in it is no home folder, and a relative path is one from
    where the job runs. `account_home` is the account's home folder, which counts before 2.30.
    """
    is_rccl = library is CommLibrary.RCCL and not _is_before(version, SINCE_RCCL_CONF)
    name = "rccl.conf" if is_rccl else "nccl.conf"
    given = environment.get("NCCL_CONF_FILE")
    home = environment.get("HOME")
    if _is_before(version, SINCE_HOME):
        home = account_home or home
    if given and not _is_before(version, SINCE_CONF_FILE):
        users: tuple[str, ...] = (given[:_MOST_VALUE_BYTES],)
    else:
        users = (f"{home}/.{name}",) if home is not None else ()
    return (*users, f"/etc/{name}")


def already_set(
    environment: Mapping[str, str],
    conf_texts: Mapping[str, str],
    version: NcclVersion | None = None,
    library: CommLibrary = CommLibrary.NCCL,
    account_home: str | None = None,
    *,
    set_by: Mapping[str, str] = MappingProxyType({}),
) -> Already:
    """What counts of each variable that matters, who set it, and what it overrides; by name.

    `conf_texts` are the files of `conf_paths` that there are, by their path. `set_by` says of
    variables of the environment who set them. Those of the prefixes in PREFIXES are told.
    """
    paths = [p for p in conf_paths(environment, library, version, account_home) if p in conf_texts]
    given: dict[str, list[tuple[str, str]]] = {}
    for name, value in environment.items():
        if _fact_of(name) is not None:
            given.setdefault(name, []).append((value, set_by.get(name, ENVIRONMENT)))
    for path in paths:
        for entry in parse_nccl_conf(conf_texts[path], version):
            if _fact_of(entry.name) is not None:
                source = f"{path} line {entry.line_no}"
                given.setdefault(entry.name, []).append((entry.value, source))
    remarks = (text for path in paths for text in conf_remarks(conf_texts[path], path, version))
    return Already(
        settings=tuple(
            _setting(name, given[name], is_of_file=name not in environment)
            for name in sorted(given)
        ),
        files=tuple(paths),
        notes=(*_notes(environment, conf_texts, version, library), *remarks),
    )


def is_told(name: str) -> bool:
    """Whether a variable is of one of PREFIXES, so that `already_set` tells it."""
    return _fact_of(name) is not None


def _setting(name: str, values: list[tuple[str, str]], *, is_of_file: bool) -> AlreadySet:
    (value, set_by), *rest = values
    return AlreadySet(
        name=name,
        value=value,
        set_by=set_by,
        overrides=tuple(Overridden(value=lost, set_by=by) for lost, by in rest),
        remark=_remark_of(name, value, is_of_file=is_of_file),
    )


def _remark_of(name: str, value: str, *, is_of_file: bool) -> str | None:
    fact = _fact_of(name)
    if is_of_file and fact is not None and not fact.is_read_by_nccl:
        return f"{fact.reader} sees it only if it is loaded after NCCL has read its files"
    if not value:
        return "it is empty: the default counts, and no file is asked"
    if value != value.strip():
        return "a space or line end is part of the value"
    if is_of_file and _QUOTED.fullmatch(value):
        return "the quotes are part of the value"
    return None


def _remark(line: str, version: NcclVersion | None) -> str | None:
    """What is odd about a line, in words that follow its number."""
    if not line.strip() or line.startswith("#"):
        return None
    name, equals, value = line.partition("=")
    if not equals:
        return "sets nothing: there is no ="
    if not _NAME.fullmatch(name):
        return f"sets {name!r}, which no program reads: a name stands alone before its ="
    if len(_bytes(value)) > _MOST_VALUE_BYTES:
        return f"is cut: a value has at most {_MOST_VALUE_BYTES} bytes"
    if len(_bytes(line)) > _MOST_LINE_BYTES and not _is_before(version, SINCE_HOME):
        return f"is taken apart: a line has at most {_MOST_LINE_BYTES} bytes"
    return None


def _notes(
    environment: Mapping[str, str],
    conf_texts: Mapping[str, str],
    version: NcclVersion | None,
    library: CommLibrary,
) -> Iterator[str]:
    given = environment.get("NCCL_CONF_FILE")
    if given and _is_before(version, SINCE_CONF_FILE):
        yield f"{library.upper()} {version} does not read NCCL_CONF_FILE: that came with 2.23"
    elif given and given[:_MOST_VALUE_BYTES] not in conf_texts:
        yield f"NCCL_CONF_FILE names {given}, which is not there: no file of the user is read"
    elif given and version is None:
        yield "NCCL_CONF_FILE counts from 2.23 on, and the version is not known"
    plugin = environment.get("NCCL_ENV_PLUGIN")
    if plugin and plugin.lower() != "none" and not _is_before(version, SINCE_ENV_PLUGIN):
        yield f"NCCL_ENV_PLUGIN names {plugin}, which may give other values than these"


def _fact_of(name: str) -> PrefixFact | None:
    if not _NAME.fullmatch(name):
        return None
    return next((fact for fact in PREFIXES if name.startswith(fact.prefix)), None)


def _is_before(version: NcclVersion | None, release: NcclVersion) -> bool:
    """Whether a release is older; one that is not known counts as the newest."""
    return version is not None and version < release


def _lines(text: str, version: NcclVersion | None) -> Iterator[tuple[int, bytes]]:
    """The lines as the release's own reader gives them, up to a NUL, with their numbers."""
    is_old = _is_before(version, SINCE_HOME)
    for line_no, line in enumerate(_bytes(text).split(b"\n"), start=1):
        if is_old:
            yield line_no, line.split(b"\0", 1)[0]
            continue
        # fgets(3) hands out a long line in parts, each of which is read as a line.
        for at in range(0, max(len(line), 1), _MOST_LINE_BYTES):
            part = line[at : at + _MOST_LINE_BYTES].split(b"\0", 1)[0]
            yield line_no, part.removesuffix(b"\r")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


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


def parse_settings(data: bytes, name: str) -> Settings:
    """What a file sets; `name` is how errors call it, and its ending helps to tell what it is.

    Raises ParseError for a file that is none of these, and for one of more than 4 MiB,
    the most that Slurm takes as a script.
    """
    if len(data) > MOST_BYTES:
        raise _file_refusal(name, f"a file of {len(data)} bytes", f"one of {MOST_BYTES} at most")
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
        return _parse_job(text, name)
    first = text.lstrip()[:200]
    is_foreign = first.startswith("#!") and not _SHELLS.match(first)
    if first.startswith(_OTHER) or is_foreign or name.endswith(_OTHER_NAMES):
        raise _file_refusal(name, "another kind of file", EXPECTED, first.split("\n", 1)[0])
    kind = _kind(text, name)
    if kind is SettingsKind.SCRIPT:
        found = parse_shell(text, name)
        return _as_environment(found) if name.endswith(".env") else found
    if kind is SettingsKind.CONF:
        return Settings(kind=kind, assignments=tuple(_conf(text)))
    return Settings(kind=kind, assignments=tuple(_environment(text.split("\n"))))


def _file_refusal(name: str, message: str, expected: str, line: str = "") -> ParseError:
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
            raise _file_refusal(name, "another kind of configuration", EXPECTED)
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
        raise _file_refusal(name, "not a text", EXPECTED)
    return Settings(kind=SettingsKind.ENV, assignments=tuple(_environment(entries)))


def _parse_job(text: str, name: str) -> Settings:
    """What a job file sets: `[tune] env`, `[environment] set` and `setup`, its command, options.

    Lines are those where a key stands first and was not used before. Raises ParseError for what is
    no TOML, and for another document.
    """
    try:
        tree = tomllib.loads(text)
    except RecursionError:
        raise _job_refusal(text, name, "is nested too deeply", 1) from None
    except ValueError as error:
        place = _PLACE.search(str(error))
        raise _job_refusal(text, name, str(error), int(place[1]) if place else 1) from error
    if tree.get("schema") != JOB_SCHEMA:
        raise _job_refusal(text, name, "another document in TOML", 1)
    lines = _KeyLines(text)
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


class _KeyLines:
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


def _job_refusal(text: str, name: str, message: str, line_no: int) -> ParseError:
    lines = text.split("\n")
    line = lines[line_no - 1] if 0 < line_no <= len(lines) else ""
    return refusal(
        message, tool=name, line_no=line_no, line=line, expected=f"a job file `{JOB_SCHEMA}`"
    )


def _table(tree: object, name: str) -> Mapping[str, Any]:
    found = tree.get(name) if isinstance(tree, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _variables(tree: object, lines: _KeyLines) -> Iterator[Assignment]:
    for table, key in _VARIABLES:
        for name, value in _table(_table(tree, table), key).items():
            yield Assignment(
                name=name,
                value=value if isinstance(value, str) else _scalar(value),
                line=lines.take(name),
                form=SettingForm.JOB,
            )


def _setup(tree: object, lines: _KeyLines, name: str) -> Iterator[Assignment]:
    """The lines of shell under `[environment] setup`."""
    setup = _table(tree, "environment").get("setup")
    if not isinstance(setup, list) or not setup:
        return
    commands = [line for line in setup if isinstance(line, str)]
    yield from _shell("\n".join(commands), commands, lines, lines.take("setup"), name)


def _shell(
    script: str, texts: Sequence[str], lines: _KeyLines, start: int, name: str
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


def _command(tree: object, lines: _KeyLines, name: str) -> Iterator[Assignment]:
    """The variables that the command itself sets, as `env A=b` and `bash -c` do."""
    command = tree.get("command") if isinstance(tree, Mapping) else None
    if not isinstance(command, list):
        return
    words = [word for word in command if isinstance(word, str)]
    script = " \\\n".join(map(shlex.quote, words))
    for one in _shell(script, words, lines, lines.take("command"), name):
        yield replace(one, until_line=None)


def _options(tree: object, lines: _KeyLines) -> Iterator[LaunchOption]:
    for key, program in _OPTIONS:
        for name, value in _table(_table(tree, "slurm"), key).items():
            said = value if isinstance(value, str) else str(value)
            yield LaunchOption(program=program, name=name, value=said, line=lines.take(name))
    for key, name in _COUNTS.items():
        count = _table(tree, "resources").get(key)
        if isinstance(count, int):
            yield LaunchOption(program="sbatch", name=name, value=str(count), line=lines.take(key))
