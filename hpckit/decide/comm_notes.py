"""What no variable mends, and what is not known: beside a job's communication environment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from hpckit.core.findings import Severity, SourcedFinding, gravest_first
from hpckit.decide.comm_facts import counts_here, words_of
from hpckit.decide.comm_overlays import Contest
from hpckit.decide.comm_rule import (
    ENV_RST,
    CommAdvice,
    CommRule,
    applies,
    depends_on_release,
)
from hpckit.model.comm_facts import CommFacts
from hpckit.model.site import SiteSpec

MOST_HCAS: Final = 32
"""As many devices as NCCL opens. Source: net_ib.cc, MAX_IB_DEVS."""
RELEASE_UNKNOWN: Final = "release-unknown"
NODE_RULES: Final = frozenset(
    (
        *("nvlink-fewer", "nvlink-none", "pcie-width", "pci-hidden", "no-close-nic", "nic-down"),
        *("nic-slow", "nic-missing", "port-down", "fabric-not-completed", "fabric-unhealthy"),
    )
)
"""Findings of `hpckit inspect` that bear on collectives."""


def comm_notes(
    facts: CommFacts,
    site: SiteSpec,
    rules: Sequence[CommRule],
    advice: Sequence[CommAdvice],
    contests: Sequence[Contest],
) -> tuple[SourcedFinding, ...]:
    """What is worth saying beside the variables, the gravest first."""
    found = [
        *_contradicted(facts, site),
        *_advised(facts, advice),
        *_contested(contests),
        *_of_releases(facts, site, rules),
        *_too_many(facts),
    ]
    return tuple(gravest_first(found))


def node_notes(findings: Sequence[SourcedFinding]) -> tuple[SourcedFinding, ...]:
    """Return what `hpckit inspect` finds odd about the node and bears on collectives."""
    source = "hpckit inspect, docs/reference/findings.md"
    return tuple(replace(each, source=source) for each in findings if each.rule in NODE_RULES)


def _contradicted(facts: CommFacts, site: SiteSpec) -> Iterator[SourcedFinding]:
    if facts.contradiction:
        yield SourcedFinding(
            rule="other-machine",
            severity=Severity.WARNING,
            subject="topology",
            because=f"{facts.contradiction}: what was inspected is believed, and nothing of the"
            " site's own is set",
            source=f"site {site.name}, [platform]",
            remedy="a file of a node of this site, or another --site",
        )


def _advised(facts: CommFacts, advice: Sequence[CommAdvice]) -> Iterator[SourcedFinding]:
    words = words_of(facts)
    for one in advice:
        if applies(one.when, facts):
            yield SourcedFinding(
                rule=one.name,
                severity=one.severity,
                subject=one.subject,
                because=one.because.format(**words),
                source=one.source,
                remedy=one.remedy,
            )


def _contested(contests: Sequence[Contest]) -> Iterator[SourcedFinding]:
    groups = dict.fromkeys(one.overlays for one in contests)
    for overlays in groups:
        names = [one.name for one in contests if one.overlays == overlays]
        yield SourcedFinding(
            rule="overlay-needed",
            severity=Severity.WARNING,
            subject="overlay",
            because=f"the site's sources disagree on {', '.join(names)}: none is set",
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
            because=f"which {library} the job loads is not known; some releases need"
            f" {', '.join(needs)}",
            source=ENV_RST.format(variable=needs[0].partition("=")[0]),
            remedy="--nccl RELEASE, or [tune] nccl in the job file; hpckit tune JOB finds it",
        )


def _while(since: str | None, before: str | None) -> str:
    return f"before {before}" if since is None else f"from {since} to before {before}"


def _too_many(facts: CommFacts) -> Iterator[SourcedFinding]:
    if len(facts.hcas) > MOST_HCAS:
        yield SourcedFinding(
            rule="many-hcas",
            severity=Severity.WARNING,
            subject="NCCL_IB_HCA",
            because=f"{len(facts.hcas)} devices for jobs, and NCCL opens {MOST_HCAS}",
            source="NCCL, net_ib.cc, MAX_IB_DEVS",
            remedy="NCCL_IB_HCA under [tune] env, with those that are nearest to the GPUs",
        )
