"""The communication environment of a job: what its nodes and site need beyond what is detected.

The first rule is to set nothing: NCCL finds nearly everything itself. What is set comes from the
rules, then the site's own list, then the overlays that were asked for, then the user, whose word
wins.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hpckit.comm.facts import CommFacts, counts_here, says_the_same, words_of
from hpckit.comm.rules import (
    ADVICE,
    ENV_RST,
    RULES,
    CommRule,
    applies,
    depends_on_release,
    when_of,
)
from hpckit.core.errors import PlanError
from hpckit.core.findings import Severity, SourcedFinding, gravest_first
from hpckit.core.values import dataclass
from hpckit.spec.platform import (
    CommEnv,
    CommLeft,
    CommProfile,
    CommSetting,
    Overlay,
    Platform,
    SettingOrigin,
)
from hpckit.spec.site import SiteSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """A variable on which `overlays`, of which none was chosen, disagree."""

    name: str
    because: str
    overlays: tuple[str, ...]


def overlay_settings(
    overlays: Mapping[str, Overlay], wanted: Sequence[str]
) -> Iterator[CommSetting]:
    """The variables of the overlays that were asked for, in that order."""
    for name in wanted:
        overlay = overlays[name]
        for variable, value in overlay.env.items():
            yield CommSetting(
                name=variable,
                value=value,
                because=overlay.because,
                source=overlay.source,
                origin=SettingOrigin.OVERLAY,
                rule=name,
                date=overlay.date,
            )


def contests(overlays: Mapping[str, Overlay], wanted: Sequence[str]) -> tuple[Contest, ...]:
    """The variables that nothing sets until one of the overlays that disagree is chosen.

    Raises PlanError for an overlay that is not there, or two that exclude each other.
    """
    _check(overlays, wanted)
    groups: dict[str, list[str]] = {}
    for name, overlay in overlays.items():
        if overlay.one_of is not None:
            groups.setdefault(overlay.one_of, []).append(name)
    return tuple(
        contest
        for names in groups.values()
        if not set(names) & set(wanted)
        for contest in _disagreements({name: overlays[name] for name in names})
    )


def _disagreements(group: Mapping[str, Overlay]) -> Iterator[Contest]:
    variables = dict.fromkeys(name for overlay in group.values() for name in overlay.env)
    for variable in variables:
        said = {name: one.env[variable] for name, one in group.items() if variable in one.env}
        if len(set(said.values())) > 1:
            told = ", ".join(
                f"{value} by {name} ({group[name].date})" for name, value in said.items()
            )
            yield Contest(name=variable, because=f"sources disagree: {told}", overlays=tuple(group))


def _check(overlays: Mapping[str, Overlay], wanted: Sequence[str]) -> None:
    chosen: dict[str, str] = {}
    for name in wanted:
        if name not in overlays:
            import difflib

            near = difflib.get_close_matches(name, overlays, n=1, cutoff=0.0)
            raise PlanError(
                f"the site has no overlay {name!r}",
                have=", ".join(overlays) or "none",
                need=name,
                hint=f"--overlay {near[0]}" if near else "remove --overlay",
            )
        group = overlays[name].one_of
        if group is not None and chosen.setdefault(group, name) != name:
            raise PlanError(
                f"only one overlay of the group {group!r}",
                have=f"{chosen[group]} and {name}",
                need="one of them",
                hint=f"--overlay {name}",
            )


MOST_HCAS: Final = 32
"""As many devices as NCCL opens. Source: net_ib.cc, MAX_IB_DEVS."""
RELEASE_UNKNOWN: Final = "release-unknown"
NODE_RULES: Final = (
    *("nvlink-fewer", "nvlink-none", "pcie-width", "pci-hidden", "no-close-nic", "nic-down"),
    *("nic-slow", "nic-missing", "port-down", "fabric-not-completed", "fabric-unhealthy"),
)
"""Findings of `hpckit inspect` that bear on collectives."""


def comm_notes(
    facts: CommFacts,
    site: SiteSpec,
    rules: Sequence[CommRule],
    contests: Sequence[Contest],
) -> tuple[SourcedFinding, ...]:
    """What is worth saying beside the variables, the gravest first."""
    found = []
    if facts.contradiction:
        because = "hpckit follows the inspected node, and sets nothing from the site file"
        found.append(
            SourcedFinding(
                rule="other-machine",
                severity=Severity.WARNING,
                subject="topology",
                because=f"{facts.contradiction}: {because}",
                source=f"site {site.name}, [platform]",
                remedy="give a file of a node of this site, or another --site",
            )
        )
    found += [*_advised(facts), *_contested_notes(contests)]
    found += _of_releases(facts, site, rules)
    if len(facts.hcas) > MOST_HCAS:
        found.append(
            SourcedFinding(
                rule="many-hcas",
                severity=Severity.WARNING,
                subject="NCCL_IB_HCA",
                because=f"{len(facts.hcas)} devices for jobs, but NCCL opens at most {MOST_HCAS}",
                source="NCCL, net_ib.cc, MAX_IB_DEVS",
                remedy="set NCCL_IB_HCA under [tune] env to the devices nearest to the GPUs",
            )
        )
    return tuple(gravest_first(found))


def node_notes(findings: Sequence[SourcedFinding]) -> tuple[SourcedFinding, ...]:
    """Return what `hpckit inspect` finds odd about the node and bears on collectives."""
    source = "hpckit inspect, docs/reference/findings.md"
    return tuple(replace(each, source=source) for each in findings if each.rule in NODE_RULES)


def _advised(facts: CommFacts) -> Iterator[SourcedFinding]:
    words = words_of(facts)
    for one in ADVICE:
        if applies(one.when, facts):
            yield SourcedFinding(
                rule=one.name,
                severity=one.severity,
                subject=one.subject,
                because=one.because.format(**words),
                source=one.source,
                remedy=one.remedy,
            )


def _contested_notes(contests: Sequence[Contest]) -> Iterator[SourcedFinding]:
    groups = dict.fromkeys(one.overlays for one in contests)
    for overlays in groups:
        names = [one.name for one in contests if one.overlays == overlays]
        yield SourcedFinding(
            rule="overlay-needed",
            severity=Severity.WARNING,
            subject="overlay",
            because=f"the site's sources disagree on {', '.join(names)}: left unset",
            source="the site file, [overlays]",
            remedy=" or ".join(f"--overlay {name}" for name in overlays),
        )


def _of_releases(
    facts: CommFacts, site: SiteSpec, rules: Sequence[CommRule]
) -> Iterator[SourcedFinding]:
    """Which variables an older release would need, where the release is not known."""
    if facts.version is not None:
        return
    needs = [
        f"{rule.variable}={rule.value.format(**words_of(facts))}"
        f" {_while(rule.when.since, rule.when.before)}"
        for rule in rules
        if depends_on_release(rule.when, facts)
    ]
    needs += [
        f"{one.name}={one.value} {_while(one.since, one.before)}"
        for one in (site.platform.env if counts_here(facts, site.platform) else ())
        if one.before is not None and facts.nodes >= one.min_nodes
    ]
    if needs:
        library = facts.library.upper() if facts.library else "NCCL"
        yield SourcedFinding(
            rule=RELEASE_UNKNOWN,
            severity=Severity.NOTE,
            subject=library,
            because=f"{library} release unknown; some releases need {', '.join(needs)}",
            source=ENV_RST.format(variable=needs[0].partition("=")[0]),
            remedy="--nccl RELEASE, or nccl under [tune] in the job file; hpckit tune JOB finds it",
        )


def _while(since: str | None, before: str | None) -> str:
    return f"(before {before})" if since is None else f"(from {since}, before {before})"


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
    left = [_left(found.pop(one.name), one.because) for one in open_questions if one.name in found]
    kept, taken = _without_own(found, choice)
    return CommEnv(
        settings=(*kept, *_own_settings(choice, found)),
        profile=_profile(facts, site.platform),
        left=(*left, *taken),
        notes=comm_notes(facts, site, rules, open_questions),
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
        if applies(when_of(entry), facts):
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
        because="the provider's settings for its plugin",
        source=platform.source or "",
        environment=tuple(platform.profile_env.items()),
    )


def _left(setting: CommSetting, because: str) -> CommLeft:
    return CommLeft(name=setting.name, value=setting.value, because=because, rule=setting.rule)


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
            told = "a computed value" if taken.value is None else taken.value
            left.append(_left(setting, f"set by the job ({taken.where}) to {told}"))
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
        replace(one, warning="; ".join(filter(None, (one.warning, warnings[one.name]))))
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
