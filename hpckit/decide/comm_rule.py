"""What a rule of the communication environment is, and when it applies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hpckit.core.findings import Row, Rule
from hpckit.model.comm import CommLibrary, NcclVersion, NetPlugin
from hpckit.model.comm_facts import CommFacts, Trait
from hpckit.model.nic_kind import NicKind

ENV_RST: Final = (
    "NCCL, Environment Variables, {variable},"
    " https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
)
"""NVIDIA's reference of the variables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """When a rule applies: where all of this is so. What is not said does not matter.

    `since` and `before` are releases of the library, the first with the need and the first
    without. A release that is not known is taken to be a current one: `before` then fails.
    `plugins` may hold None, for a plugin that is not known.
    """

    interconnects: tuple[NicKind, ...] = ()
    plugins: tuple[NetPlugin | None, ...] = ()
    library: CommLibrary | None = None
    since: str | None = None
    before: str | None = None
    min_nodes: int = 1
    traits: tuple[Trait, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommRule(Row):
    """A variable, and when it is set to what; it finds nothing, so it is no `Rule`.

    `value` and `because` may name `decide.comm_facts.words_of` in braces. `is_expanded` as in
    CommSetting.
    """

    variable: str
    value: str
    when: When
    is_expanded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommAdvice(Rule[When]):
    """Something that no variable changes; `because` as in CommRule."""

    subject: str


def applies(when: When, facts: CommFacts) -> bool:
    """Whether all of `when` is so."""
    return _but_for_before(when, facts) and not _is_over(when, facts)


def depends_on_release(when: When, facts: CommFacts) -> bool:
    """Whether only the release of the library, which is not known, keeps the rule away."""
    return facts.version is None and when.before is not None and _but_for_before(when, facts)


def in_range(version: NcclVersion | None, since: str | None, before: str | None) -> bool:
    """Whether a release is from `since` on and before `before`; one not known is a current one."""
    if version is None:
        return before is None
    begun = since is None or version >= NcclVersion.of(since)
    return begun and (before is None or version < NcclVersion.of(before))


def _is_over(when: When, facts: CommFacts) -> bool:
    return not in_range(facts.version, None, when.before)


def _but_for_before(when: When, facts: CommFacts) -> bool:
    return (
        (not when.interconnects or facts.interconnect in when.interconnects)
        and (not when.plugins or facts.plugin in when.plugins)
        and when.library in (None, facts.library)
        and in_range(facts.version, when.since, None)
        and facts.nodes >= when.min_nodes
        and set(when.traits) <= set(facts.traits)
    )
