"""The communication environment of a job: what its nodes and site need beyond what is detected.

The first rule is to set nothing: NCCL finds nearly everything itself. What is set comes from the
rules, then the site's own list, then the overlays that were asked for, then the user, whose word
wins.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hpckit.core.findings import Severity, SourcedFinding
from hpckit.decide.comm_facts import counts_here, words_of
from hpckit.decide.comm_notes import comm_notes
from hpckit.decide.comm_overlays import Contest, contests, overlay_settings
from hpckit.decide.comm_rule import CommAdvice, CommRule, applies, in_range
from hpckit.decide.comm_rules_efa import EFA_ADVICE, EFA_RULES
from hpckit.decide.comm_rules_gcp import GCP_RULES
from hpckit.decide.comm_rules_ib import IB_RULES
from hpckit.decide.comm_rules_mpi import MPI_RULES
from hpckit.decide.comm_rules_nccl import NCCL_ADVICE, NCCL_RULES
from hpckit.decide.comm_rules_rccl import RCCL_RULES
from hpckit.decide.comm_rules_slingshot import SLINGSHOT_ADVICE, SLINGSHOT_RULES
from hpckit.decide.comm_same import says_the_same
from hpckit.model.comm import CommEnv, CommLeft, CommProfile, CommSetting, SettingOrigin
from hpckit.model.comm_facts import CommFacts
from hpckit.model.platform import Platform
from hpckit.model.site import SiteSpec

RULES: Final = (
    *NCCL_RULES,
    *IB_RULES,
    *EFA_RULES,
    *SLINGSHOT_RULES,
    *GCP_RULES,
    *RCCL_RULES,
    *MPI_RULES,
)
ADVICE: Final = (*NCCL_ADVICE, *EFA_ADVICE, *SLINGSHOT_ADVICE)
JOB_SAID: Final = "set by the job ([tune] env)"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSetting:
    """A variable that the job sets itself; `value` None where a shell computes it.

    `where` is the key that says it, such as `[environment] setup`; `is_exported` is whether the
    communication block of the script is where it is exported.
    """

    name: str
    value: str | None
    where: str
    is_exported: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommChoice:
    """What the user decided: overlays by name, variables, and those let through (`pass`).

    `is_unread` is whether modules or files may set more, which cannot be known here: they are the
    user's word as well, so what is derived then yields to what is there.
    """

    derive: bool = True
    overlays: tuple[str, ...] = ()
    own: tuple[OwnSetting, ...] = ()
    passed: tuple[str, ...] = ()
    is_unread: bool = False


def comm_env(
    facts: CommFacts,
    site: SiteSpec,
    choice: CommChoice,
    rules: Sequence[CommRule] = RULES,
    advice: Sequence[CommAdvice] = ADVICE,
) -> CommEnv:
    """What the script of a job exports for communication, each variable with its reason.

    Raises PlanError for an overlay that the site does not have, or two that exclude each other.
    """
    if not choice.derive:
        return CommEnv(settings=tuple(_own_settings(choice, {})))
    decided = {one.name for one in choice.own}
    open_questions = [
        one for one in contests(site.overlays, choice.overlays) if one.name not in decided
    ]
    found = _derived(facts, site, choice, rules)
    left = [_contested(found.pop(one.name), one) for one in open_questions if one.name in found]
    kept, taken = _without_own(found, choice)
    return CommEnv(
        settings=(*kept, *_own_settings(choice, found)),
        profile=_profile(facts, site.platform),
        left=(*left, *taken),
        notes=comm_notes(facts, site, rules, advice, open_questions),
    )


def _derived(
    facts: CommFacts, site: SiteSpec, choice: CommChoice, rules: Sequence[CommRule]
) -> dict[str, CommSetting]:
    """Variable → what is set, of several words for it the last."""
    found = {one.name: one for one in _by_rules(facts, rules)}
    found |= {one.name: one for one in _by_site(facts, site)}
    return found | {one.name: one for one in overlay_settings(site.overlays, choice.overlays)}


def _by_rules(facts: CommFacts, rules: Sequence[CommRule]) -> Iterator[CommSetting]:
    words = words_of(facts)
    for rule in rules:
        if applies(rule.when, facts):
            yield CommSetting(
                name=rule.variable,
                value=rule.value.format(**words),
                because=rule.because.format(**words),
                source=rule.source,
                origin=SettingOrigin.RULE,
                rule=rule.name,
                date=rule.date,
                is_expanded=rule.is_expanded,
            )


def _by_site(facts: CommFacts, site: SiteSpec) -> Iterator[CommSetting]:
    platform = site.platform
    for entry in platform.env if counts_here(facts, platform) else ():
        if facts.nodes >= entry.min_nodes and in_range(facts.version, entry.since, entry.before):
            yield CommSetting(
                name=entry.name,
                value=entry.value,
                because=entry.because,
                source=entry.source or platform.source or "",
                origin=SettingOrigin.SITE,
                rule=site.name,
                date=entry.date or platform.date,
            )


def _profile(facts: CommFacts, platform: Platform) -> CommProfile | None:
    if platform.profile is None or facts.nodes == 1 or not counts_here(facts, platform):
        return None
    return CommProfile(
        path=platform.profile,
        because="the provider's own settings of its plugin",
        source=platform.source or "",
        environment=tuple(platform.profile_env.items()),
    )


def _contested(setting: CommSetting, contest: Contest) -> CommLeft:
    return CommLeft(
        name=setting.name, value=setting.value, because=contest.because, rule=setting.rule
    )


def _without_own(
    found: Mapping[str, CommSetting], choice: CommChoice
) -> tuple[list[CommSetting], list[CommLeft]]:
    """What is exported of the derived variables, and what the job sets elsewhere instead."""
    own = {one.name: one for one in sorted(choice.own, key=lambda one: one.is_exported)}
    kept: list[CommSetting] = []
    left: list[CommLeft] = []
    for name, setting in found.items():
        taken = own.get(name)
        if taken is None:
            is_passed = any(fnmatch.fnmatchcase(name, pattern) for pattern in choice.passed)
            kept.append(replace(setting, yields=is_passed or choice.is_unread))
        elif not taken.is_exported:
            told = "computed there" if taken.value is None else taken.value
            because = f"set by the job ({taken.where}) to {told}"
            left.append(
                CommLeft(name=name, value=setting.value, because=because, rule=setting.rule)
            )
    return kept, left


def _own_settings(choice: CommChoice, derived: Mapping[str, CommSetting]) -> Iterator[CommSetting]:
    for own in choice.own:
        if not own.is_exported or own.value is None:
            continue
        mine = derived.get(own.name)
        warning = None
        if mine is not None and not says_the_same(own.name, own.value, mine.value):
            warning = f"hpckit would set {mine.value}: {mine.because} [{mine.rule}]"
        yield CommSetting(
            name=own.name,
            value=own.value,
            because=JOB_SAID,
            source="the job",
            origin=SettingOrigin.JOB,
            rule="job",
            warning=warning,
        )


def with_warnings(env: CommEnv, own: Sequence[OwnSetting], warnings: Mapping[str, str]) -> CommEnv:
    """The environment with what is wrong with the job's own values, by variable.

    It stands beside those that the communication block exports, and is a note about the others.
    """
    settings = tuple(
        replace(one, warning=_joined(one.warning, warnings[one.name]))
        if one.origin is SettingOrigin.JOB and one.name in warnings
        else one
        for one in env.settings
    )
    exported = {one.name for one in settings if one.origin is SettingOrigin.JOB}
    notes = tuple(
        SourcedFinding(
            rule="own-setting",
            severity=Severity.WARNING,
            subject=one.name,
            because=f"{one.where}: {warnings[one.name]}",
            remedy="",
            source="docs/reference/lint-rules.md",
        )
        for one in own
        if one.name in warnings and one.name not in exported
    )
    return replace(env, settings=settings, notes=(*notes, *env.notes))


def _joined(first: str | None, second: str) -> str:
    return second if first is None else f"{first}; {second}"
