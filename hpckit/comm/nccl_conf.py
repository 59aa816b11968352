"""NCCL's and RCCL's configuration files, by their own grammar, and which value counts in the end.

Source: NCCL src/misc/param.cc (before 2.12 src/include/param.h), read in every release from 2.3.5
to 2.30.7; RCCL's of ROCm 4.5 to 6.2 and of 2026. A line is set with setenv(3) and never in place
of what is set: the environment comes before the user's file, that before the system's, and within
a file the first line of a name counts. Nothing is trimmed: spaces, quotes and what follows a value
are part of it, and a name with a space is another name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from hpckit.core.late import regex
from hpckit.core.values import dataclass
from hpckit.spec.platform import CommLibrary, NcclVersion

MOST_CONF_BYTES: Final = 1024**2
"""Of a configuration file; the longest one seen has 40 lines."""

SINCE_CONF_FILE: Final = NcclVersion(2, 23, 4)
SINCE_ENV_PLUGIN: Final = NcclVersion(2, 28, 7)
SINCE_HOME: Final = NcclVersion(2, 30, 3)
"""From here on `~` is HOME, and a carriage return ends a line."""
SINCE_RCCL_CONF: Final = NcclVersion(2, 12, 12)
"""RCCL read NCCL's files up to ROCm 5.2 (2.11.4), and has its own names since ROCm 5.3."""

_NAME: Final = regex(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_QUOTED: Final = regex(r"""(["']).*\1""", re.DOTALL)
ENVIRONMENT: Final = "environment"


class ConfEntry(NamedTuple):
    """A line of a configuration file that sets a variable."""

    name: str
    value: str
    line_no: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overridden:
    """A value that does not count, and who gave it."""

    value: str
    set_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadySet:
    """A variable that has its value already.

    `set_by` is the job's key (`[tune] env of the job`), `environment` for what comes from the
    shell, or a file and its line: `/etc/nccl.conf line 3`. `overrides` are the
    values that lost, in the order in which they would have counted. `remark` is what a person
    who set it so may not expect.
    """

    name: str
    value: str
    set_by: str
    overrides: tuple[Overridden, ...] = ()
    remark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Already:
    """All that is set already, by name, the files that were read, and what is to be known of them.

    `files` are those that there are, the one that counts most first.
    """

    settings: tuple[AlreadySet, ...] = ()
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class PrefixFact(NamedTuple):
    """Variables that matter for communication, and whose they are.

    `is_read_by_nccl` is whether NCCL, or a plugin that it opens, reads them once it has read its
    files; what others read before sees nothing of the files.
    """

    prefix: str
    reader: str
    is_read_by_nccl: bool = False


PREFIXES: Final = (
    PrefixFact("NCCL_", "NCCL", is_read_by_nccl=True),
    PrefixFact("RCCL_", "RCCL", is_read_by_nccl=True),
    PrefixFact("OFI_NCCL_", "aws-ofi-nccl", is_read_by_nccl=True),
    PrefixFact("TORCH_NCCL_", "PyTorch"),
    PrefixFact("FI_", "libfabric"),
    PrefixFact("UCX_", "UCX"),
    PrefixFact("SHARP_", "SHARP"),
    PrefixFact("HSA_", "the ROCm runtime"),
)
"""Sources: NCCL src/misc/param.cc, 2.30.7; aws-ofi-nccl include/nccl_ofi_param.h, 1.21; PyTorch
ProcessGroupNCCL.hpp (read before a communicator is made); fabric(7); ucx_info -f; HPC-X manual."""


def parse_nccl_conf(text: str, version: NcclVersion | None = None) -> tuple[ConfEntry, ...]:
    """The lines that set a variable, as this release reads them; None is the newest.

    Any text is one: a line without `=`, and one that begins with `#`, sets nothing. Names that no
    program can read are among them.
    """
    entries = []
    for line_no, line in enumerate(text.split("\n"), start=1):
        name, equals, value = line.partition("=")
        # Before 2.26 such a line set a variable whose name begins with #: to the same effect.
        if equals and name and not line.startswith("#"):
            is_ended = not _is_before(version, SINCE_HOME)
            entries.append(
                ConfEntry(name, value.removesuffix("\r") if is_ended else value, line_no)
            )
    return tuple(entries)


def conf_remarks(text: str, source: str) -> tuple[str, ...]:
    """A sentence for each line of a file that does not do what its author may think."""
    return tuple(
        f"{source} line {line_no} {remark}"
        for line_no, line in enumerate(text.split("\n"), start=1)
        if (remark := _remark(line.removesuffix("\r"))) is not None
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
        users: tuple[str, ...] = (given,)
    else:
        users = (f"{home}/.{name}",) if home is not None else ()
    return (*users, f"/etc/{name}")


def already_set(
    environment: Mapping[str, str],
    conf_texts: Mapping[str, str],
    version: NcclVersion | None = None,
    library: CommLibrary = CommLibrary.NCCL,
    *,
    set_by: Mapping[str, str] = MappingProxyType({}),
) -> Already:
    """What counts of each variable that matters, who set it, and what it overrides; by name.

    `conf_texts` are the files of `conf_paths` that there are, by their path, in its order.
    `set_by` says of variables of the environment who set them. Those of the prefixes in PREFIXES
    are told.
    """
    given: dict[str, list[tuple[str, str]]] = {}
    for name, value in environment.items():
        if fact_of(name) is not None:
            given.setdefault(name, []).append((value, set_by.get(name, ENVIRONMENT)))
    for path, text in conf_texts.items():
        for entry in parse_nccl_conf(text, version):
            if fact_of(entry.name) is not None:
                source = f"{path} line {entry.line_no}"
                given.setdefault(entry.name, []).append((entry.value, source))
    remarks = (remark for path, text in conf_texts.items() for remark in conf_remarks(text, path))
    return Already(
        settings=tuple(
            _setting(name, given[name], is_of_file=name not in environment)
            for name in sorted(given)
        ),
        files=tuple(conf_texts),
        notes=(*_notes(environment, conf_texts, version, library), *remarks),
    )


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
    fact = fact_of(name)
    if is_of_file and fact is not None and not fact.is_read_by_nccl:
        return f"{fact.reader} sees it only if loaded after NCCL has read its configuration files"
    if not value:
        return "empty: the default applies, and configuration files cannot set it"
    if value != value.strip():
        return "the value includes a space or line end"
    if is_of_file and _QUOTED.fullmatch(value):
        return "the value includes the quotes"
    return None


def _remark(line: str) -> str | None:
    """What is odd about a line, in words that follow its number."""
    if not line.strip() or line.startswith("#"):
        return None
    name, equals, _ = line.partition("=")
    if not equals:
        return "sets nothing: it has no ="
    if not _NAME.fullmatch(name):
        return f"sets {name!r}, which no program reads: write NAME=value"
    return None


def _notes(
    environment: Mapping[str, str],
    conf_texts: Mapping[str, str],
    version: NcclVersion | None,
    library: CommLibrary,
) -> Iterator[str]:
    given = environment.get("NCCL_CONF_FILE")
    if given and _is_before(version, SINCE_CONF_FILE):
        yield f"{library.upper()} {version} does not read NCCL_CONF_FILE; 2.23 and later do"
    elif given and given not in conf_texts:
        yield f"NCCL_CONF_FILE names a missing file, so no user file is read: {given}"
    elif given and version is None:
        yield "NCCL reads NCCL_CONF_FILE since 2.23, and the version here is unknown"
    plugin = environment.get("NCCL_ENV_PLUGIN")
    if plugin and plugin.lower() != "none" and not _is_before(version, SINCE_ENV_PLUGIN):
        yield f"NCCL_ENV_PLUGIN names {plugin}, which may override these values"


def fact_of(name: str) -> PrefixFact | None:
    """Return whose a variable is, None for one that `already_set` does not tell."""
    if not _NAME.fullmatch(name):
        return None
    return next((fact for fact in PREFIXES if name.startswith(fact.prefix)), None)


def _is_before(version: NcclVersion | None, release: NcclVersion) -> bool:
    """Whether a release is older; one that is not known counts as the newest."""
    return version is not None and version < release
