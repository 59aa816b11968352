"""What a site file says of its nodes' network and of the variables that its provider sets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from hpckit.core.errors import InvalidValue
from hpckit.core.fields import (
    MAX_COUNT,
    Checked,
    between,
    both,
    check_fields,
    key,
    listed,
    mapping,
    matching,
    one_line,
    optional,
    parses,
    program_text,
    settable_name,
    table,
)
from hpckit.core.late import regex
from hpckit.core.values import dataclass
from hpckit.spec.nic_kind import NicKind

if TYPE_CHECKING:
    from hpckit.core.findings import SourcedFinding

TUNE_SCHEMA: Final = "hpckit.tune/1"

OVERLAY_PATTERN: Final = r"[a-z0-9][a-z0-9.-]*"
VERSION_EXPECTED: Final = "an NCCL or RCCL release such as 2.27 or 2.27.3"
_RELEASE: Final = regex(r"v?(\d{1,2})\.(\d{1,2})(?:\.(\d{1,3}))?([.+-]\S*)?", re.ASCII)


class CommLibrary(StrEnum):
    """Whose collectives a job's GPUs use."""

    NCCL = "nccl"
    RCCL = "rccl"


class NetPlugin(StrEnum):
    """What carries the collectives over the network in place of NCCL's own sockets and verbs."""

    AWS_OFI = "aws-ofi-nccl"
    TCPX = "tcpx"
    TCPXO = "tcpxo"
    GIB = "gib"
    HPCX = "hpcx"
    NONE = "none"


class ContainerRuntime(StrEnum):
    """What starts a container: a program, or a plugin of srun."""

    APPTAINER = "apptainer"
    SINGULARITY = "singularity"
    PYXIS = "pyxis"


@dataclass(frozen=True, slots=True, order=True)
class NcclVersion:
    """A release of NCCL, or of RCCL, which counts as NCCL does; `micro` 0 where only the line is.

    A build's own suffix (`2.18.5+cuda12.2`) is left out.
    """

    major: int
    minor: int
    micro: int = 0

    def __str__(self) -> str:
        """Give the version as NCCL prints it, such as 2.27.3; of a line alone 2.27."""
        line = f"{self.major}.{self.minor}"
        return f"{line}.{self.micro}" if self.micro else line

    @classmethod
    def of(cls, text: str) -> NcclVersion:
        """Read `2.27`, `2.27.3` or `2.27.3+cuda12.9`. Raises ValueError for anything else."""
        match = _RELEASE.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"expected {VERSION_EXPECTED}, got {text!r}")
        return cls(int(match[1]), int(match[2]), int(match[3] or 0))

    @classmethod
    def of_code(cls, code: int) -> NcclVersion:
        """Read what ncclGetVersion gives: 22703, before 2.9 with one digit less (2708).

        Source: nccl.h, NCCL_VERSION. Raises ValueError for what is no such number.
        """
        if 1000 <= code < 10000:  # noqa: PLR2004  2.8.4 is 2804
            return cls(code // 1000, code % 1000 // 100, code % 100)
        if 20000 <= code < 100000:  # noqa: PLR2004
            return cls(code // 10000, code % 10000 // 100, code % 100)
        raise ValueError(f"expected NCCL_VERSION_CODE such as 22703, got {code}")


class SettingOrigin(StrEnum):
    """Who decided a variable."""

    RULE = "rule"
    SITE = "site"
    OVERLAY = "overlay"
    JOB = "job"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommSetting:
    """One variable that the script exports.

    `because` is one sentence for the comment beside it, `source` the document that it stands on,
    `rule` the name of the rule or of the overlay. `date` is when the source was read or published
    (`2026-11`). `warning` is what speaks against a value that the user chose. In a value that
    `is_expanded`, `${SLURM_JOB_ID}` is the job's; in any other nothing is expanded. One that
    `yields` is exported where nothing else has set it by then.
    """

    name: str
    value: str
    because: str
    source: str
    origin: SettingOrigin
    rule: str
    date: str | None = None
    warning: str | None = None
    is_expanded: bool = False
    yields: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommProfile:
    """A shell file of the provider that the script sources, and the variables that it needs."""

    path: str
    because: str
    source: str
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommLeft:
    """A variable that is not exported although a rule or a source has a value for it, and why."""

    name: str
    value: str
    because: str
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommEnv:
    """The communication environment of a job on its nodes: empty is the best answer.

    `settings` are in the order in which a script exports them; `notes` say what no variable
    changes, and what is not known.
    """

    settings: tuple[CommSetting, ...] = ()
    profile: CommProfile | None = None
    left: tuple[CommLeft, ...] = ()
    notes: tuple[SourcedFinding, ...] = ()


_MOST_GBITS = 1e6
_VERSION = parses(NcclVersion.of, VERSION_EXPECTED)
_DATE = matching(r"\d{4}-\d{2}(-\d{2})?", "a month or a day such as 2026-11 or 2026-11-20")
_DEVICE = matching(r"[A-Za-z0-9][A-Za-z0-9_.:-]*", "a network device such as mlx5_0")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformEnv(Checked):
    """`[[platform.env]]`: a variable that the provider sets or asks for, and no rule derives."""

    name: str = key("Name of the variable.", check=settable_name)
    value: str = key("Value of the variable; nothing in it is expanded.", check=program_text)
    because: str = key("Reason, shown as a comment in the script.", check=one_line)
    source: str | None = optional("Source document. Default: that of `[platform]`.", one_line)
    date: str | None = optional(
        "When the source was published or read. Default: that of `[platform]`.", _DATE
    )
    since: str | None = optional("First NCCL or RCCL release that needs the variable.", _VERSION)
    before: str | None = optional(
        "First NCCL or RCCL release that no longer needs the variable. If a job's release is "
        "unknown, the variable is not set.",
        _VERSION,
    )
    min_nodes: int = key(
        "Set it only for jobs of at least this many nodes.", default=1, check=between(1, MAX_COUNT)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """`[platform]`: the hardware of the site's nodes, for jobs whose node was not inspected."""

    node_type: str | None = optional("The provider's node type, such as `p5.48xlarge`.", one_line)
    gpu: str | None = optional(
        "GPU model of the nodes, such as `h100`.", matching(r"[a-z][a-z0-9]*", "a GPU such as h100")
    )
    gpus: int | None = optional("GPUs per node.", between(1, 1024))
    nics: int | None = optional("NICs per node that jobs use.", between(1, 1024))
    nic_gbits: float | None = optional("Bandwidth of each NIC in Gb/s.", between(0.1, _MOST_GBITS))
    interconnect: NicKind | None = key("Interconnect of these NICs.", default=None)
    hcas: tuple[str, ...] = listed(
        "Names of these NICs, if a node has others too. Sets `NCCL_IB_HCA`.",
        _DEVICE,
    )
    plugin: NetPlugin | None = key(
        "NCCL network plugin, which replaces NCCL's built-in verbs and sockets. `none`: there is "
        "certainly no plugin. If a job sets another one, `env` and `profile` are ignored.",
        default=None,
    )
    library: CommLibrary | None = key(
        "Communication library of the jobs. Default: by GPU vendor.", default=None
    )
    rails_isolated: bool | None = key(
        "True if the network has no path between rails. NCCL then must not cross them.",
        default=None,
    )
    domain_nodes: int | None = optional("Nodes per NVLink domain (NVL72).", between(1, MAX_COUNT))
    profile: str | None = optional(
        "The provider's shell file that sets up its plugin. Scripts source it.",
        both(one_line, matching(r"/\S+", "an absolute path without spaces")),
    )
    profile_env: Mapping[str, str] = table(
        "Variables that `profile` itself needs, set while it is sourced.",
        mapping(settable_name, program_text),
    )
    source: str | None = optional("Source document of these values.", one_line)
    date: str | None = optional("When the source was published or read.", _DATE)
    env: tuple[PlatformEnv, ...] = key(
        "Variables that the provider sets or asks users to set.", default=()
    )

    def __post_init__(self) -> None:
        check_fields(self)
        for at, entry in enumerate(self.env):
            if not (entry.source or self.source):
                raise InvalidValue(f"env[{at}].source", None, "the source document")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay(Checked):
    """`[overlays.NAME]`: variables for jobs that choose this overlay (`--overlay NAME`).

    Where two sources contradict each other, each is one of these.
    """

    because: str = key("Purpose of the overlay.", check=one_line)
    source: str = key("Source document.", check=one_line)
    date: str = key("When the source was published or read.", check=_DATE)
    one_of: str | None = optional(
        "Overlays with the same word here conflict: a job can have at most one of them. A "
        "variable on which they disagree is not set until the job chooses one.",
        one_line,
    )
    env: Mapping[str, str] = table("Variables to set.", mapping(settable_name, program_text))


CLOSING_OPTIONS: Final = frozenset(
    {"-e", "--cleanenv", "-C", "--containall", "-ce", "-ec", "--compat"}
)
"""Options of Apptainer that let in only what begins with APPTAINERENV_. Source: Apptainer User
Guide, Environment and Metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSite(Checked):
    """`[container]`: how jobs run containers at the site."""

    runtime: ContainerRuntime | None = key("Default container runtime of jobs.", default=None)
    variables: tuple[str, ...] = listed(
        "Variables to pass into containers, besides those that the script exports.",
        matching(r"[A-Za-z_][A-Za-z0-9_]*", "a shell variable name"),
    )
    source: str | None = optional("Source document.", one_line)
    date: str | None = optional("When the source was published or read.", _DATE)


def sources(settings: Iterable[CommSetting]) -> tuple[str, ...]:
    """One line a document, with its date, behind the rules that stand on it in brackets.

    In the order of the settings; a job's own stand on no document.
    """
    by_source: dict[str, dict[str, None]] = {}
    for one in settings:
        if one.origin is not SettingOrigin.JOB:
            dated = f"{one.source} ({one.date})" if one.date else one.source
            by_source.setdefault(dated, {})[one.rule] = None
    return tuple(f"[{', '.join(rules)}] {source}" for source, rules in by_source.items())


_GPU_ARCHITECTURES: Final = (
    (r"P100", "sm_60"),
    (r"V100", "sm_70"),
    (r"T4\b", "sm_75"),
    (r"A100|A800|A30\b", "sm_80"),
    (r"A10G?\b|A16\b|A40\b|A6000|RTX 30", "sm_86"),
    (r"L4\b|L20\b|L40|RTX 40|6000 Ada", "sm_89"),
    (r"G?H[128]00|H20\b", "sm_90"),
    (r"B200", "sm_100"),
    (r"B300", "sm_103"),
)
"""Compute capability by name. Source: NVIDIA, CUDA GPU Compute Capability, developer.nvidia.com."""


def architecture_of(name: str | None) -> str | None:
    """The architecture of a GPU by its name (`H100 80GB HBM3`, `h100`); None for one not known."""
    for pattern, architecture in _GPU_ARCHITECTURES if name else ():
        if re.search(pattern, str(name), re.IGNORECASE):
            return architecture
    return None
