"""What a site file says of its nodes' network and of the variables that its provider sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hpckit.model.comm import VERSION_EXPECTED, CommLibrary, NcclVersion, NetPlugin
from hpckit.model.nic_kind import NicKind
from hpckit.model.rules import (
    MAX_COUNT,
    InvalidValue,
    between,
    both,
    check_fields,
    every,
    key,
    mapping,
    matching,
    one_line,
    parses,
    program_text,
)
from hpckit.model.variable_name import settable_name

_MOST_GBITS = 1e6
_VERSION = parses(NcclVersion.of, VERSION_EXPECTED)
_DATE = matching(r"\d{4}-\d{2}(-\d{2})?", "a month or a day such as 2026-11 or 2026-11-20")
_DEVICE = matching(r"[A-Za-z0-9][A-Za-z0-9_.:-]*", "a network device such as mlx5_0")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformEnv:
    """`[[platform.env]]`: a variable that the provider sets or asks to set, and no rule derives."""

    name: str = key("The variable.", check=settable_name)
    value: str = key("Its value; nothing in it is expanded.", check=program_text)
    because: str = key("Why, for the comment beside it in the script.", check=one_line)
    source: str | None = key(
        "The document that says so; not said: that of `[platform]`.", default=None, check=one_line
    )
    date: str | None = key(
        "When that was published or read; not said: as in `[platform]`.",
        default=None,
        check=_DATE,
    )
    since: str | None = key(
        "The first release of NCCL or RCCL that needs it.", default=None, check=_VERSION
    )
    before: str | None = key(
        "The first release of NCCL or RCCL that does not need it any more. Where a job's release "
        "is not known, the variable is left out.",
        default=None,
        check=_VERSION,
    )
    min_nodes: int = key(
        "Only for jobs of so many nodes.", default=1, check=between(1, MAX_COUNT), minimum=1
    )

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """`[platform]`: what the nodes of a site are, for jobs whose node was not inspected."""

    node_type: str | None = key(
        "The provider's name of a node, such as `p5.48xlarge`.", default=None, check=one_line
    )
    gpu: str | None = key(
        "Its GPUs, such as `h100`.",
        default=None,
        check=matching(r"[a-z][a-z0-9]*", "a GPU such as h100"),
    )
    gpus: int | None = key("GPUs of a node.", default=None, check=between(1, 1024), minimum=1)
    nics: int | None = key(
        "Network devices of a node that jobs use.", default=None, check=between(1, 1024), minimum=1
    )
    nic_gbits: float | None = key(
        "What each of them carries, in Gb/s.",
        default=None,
        check=between(0.1, _MOST_GBITS),
        minimum=0.1,
    )
    interconnect: NicKind | None = key("How they are spoken to.", default=None)
    hcas: tuple[str, ...] = key(
        "Their names, where the provider lists them and a node has others too: NCCL is told these.",
        default=(),
        check=every(_DEVICE),
    )
    plugin: NetPlugin | None = key(
        "What carries collectives over them in place of NCCL's own verbs and sockets; `none` where "
        "there is certainly no plugin. Where a job says another, `env` and `profile` do not count.",
        default=None,
    )
    library: CommLibrary | None = key(
        "Whose collectives jobs use; not said: as the GPU's maker.", default=None
    )
    rails_isolated: bool | None = key(
        "Whether no path leads from a rail to another: NCCL then must not cross them.",
        default=None,
    )
    domain_nodes: int | None = key(
        "Nodes of one NVLink domain (NVL72).", default=None, check=between(1, MAX_COUNT), minimum=1
    )
    profile: str | None = key(
        "A shell file of the provider that sets what its plugin needs; scripts source it.",
        default=None,
        check=both(one_line, matching(r"/\S+", "an absolute path without spaces")),
    )
    profile_env: Mapping[str, str] = key(
        "Variables that this file itself needs to find.",
        factory=dict,
        check=mapping(settable_name, program_text),
    )
    source: str | None = key("The document that says all this.", default=None, check=one_line)
    date: str | None = key("When that was published or read.", default=None, check=_DATE)
    env: tuple[PlatformEnv, ...] = key(
        "Variables that the provider sets or asks to set.", default=()
    )

    def __post_init__(self) -> None:
        check_fields(self)
        for at, entry in enumerate(self.env):
            if not (entry.source or self.source):
                raise InvalidValue(f"env[{at}].source", None, "the document that says so")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """`[overlays.NAME]`: variables that are set for a user who asks for them (`--overlay NAME`).

    Where two sources contradict each other, each is one of these.
    """

    because: str = key("What it is for.", check=one_line)
    source: str = key("The document that says so.", check=one_line)
    date: str = key("When that was published or read.", check=_DATE)
    one_of: str | None = key(
        "Overlays with the same word here contradict each other: a job has one of them at most, "
        "and of a variable on which they disagree nothing is set until one is chosen.",
        default=None,
        check=one_line,
    )
    env: Mapping[str, str] = key(
        "The variables.", factory=dict, check=mapping(settable_name, program_text)
    )

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSite:
    """`[container]`: how jobs run containers there."""

    runtime: str | None = key(
        "`pyxis` or `apptainer`.",
        default=None,
        check=matching(r"pyxis|apptainer", "pyxis or apptainer"),
    )
    variables: tuple[str, ...] = key(
        "Variables that must be let into a container besides those that the script exports.",
        default=(),
        check=every(matching(r"[A-Za-z_][A-Za-z0-9_]*", "a shell variable name")),
    )
    source: str | None = key("The document that says so.", default=None, check=one_line)
    date: str | None = key("When that was published or read.", default=None, check=_DATE)

    def __post_init__(self) -> None:
        check_fields(self)
