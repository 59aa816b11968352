"""All that is known about one communication variable of a job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpckit.decide.comm_facts import counts_here
from hpckit.decide.comm_lint import faults_of
from hpckit.decide.comm_lint_releases import KNOWN_VARIABLES, meant_by
from hpckit.decide.comm_rule import applies, in_range
from hpckit.decide.comm_words import missing, rules_of, when_words
from hpckit.model.comm import CommEnv, SettingOrigin
from hpckit.model.comm_explained import Explained, ExplainedWord
from hpckit.model.comm_facts import CommFacts
from hpckit.model.platform import PlatformEnv
from hpckit.model.site import SiteSpec

_NOT_SET: Final = "not set: nothing here needs it"


def explain(name: str, facts: CommFacts, env: CommEnv, site: SiteSpec) -> Explained:
    """What the job has of a variable, and what rules, site and overlays have for it."""
    return Explained(
        name=name,
        here=_here(name, env),
        read=_read(name, facts),
        words=(*_of_rules(name, facts), *_of_site(name, facts, site), *_of_overlays(name, site)),
        faults=faults_of(name),
    )


def _read(name: str, facts: CommFacts) -> str | None:
    """Which releases of NCCL read a variable, and their defaults; of a wrong name the right one."""
    known = KNOWN_VARIABLES.get(name)
    if known is None:
        upper = name.upper()
        near = upper if upper in KNOWN_VARIABLES else meant_by(upper, facts.library)
        return f"nobody reads this name: did you mean {near}?" if near else None
    until = "" if known.until is None else f" to before {known.until}"
    defaults = [
        f"{'computed' if value is None else value} from {release} on"
        for release, value in known.defaults
    ]
    told = f"; by default {', '.join(defaults)}" if defaults else ""
    return f"by NCCL from {known.since}{until or ' on'}{told}"


def _here(name: str, env: CommEnv) -> str:
    for setting in env.settings:
        if setting.name == name:
            by = "" if setting.origin is SettingOrigin.JOB else f" [{setting.rule}]"
            against = f"; {setting.warning}" if setting.warning else ""
            return f"{setting.value}{by}: {setting.because}{against}"
    for left in env.left:
        if left.name == name:
            return f"not set: {left.because}"
    return _NOT_SET


def _of_rules(name: str, facts: CommFacts) -> Iterator[ExplainedWord]:
    for rule in rules_of(name):
        yield ExplainedWord(
            name=rule.name,
            value=rule.value,
            where=when_words(rule.when),
            because=rule.because,
            source=f"{rule.source} ({rule.date})",
            missing="" if applies(rule.when, facts) else missing(rule.when, facts),
        )


def _of_site(name: str, facts: CommFacts, site: SiteSpec) -> Iterator[ExplainedWord]:
    for entry in site.platform.env:
        if entry.name == name:
            is_now = facts.nodes >= entry.min_nodes and in_range(
                facts.version, entry.since, entry.before
            )
            where = _where(entry)
            yield ExplainedWord(
                name=f"site {site.name}",
                value=entry.value,
                where=where,
                because=entry.because,
                source=entry.source or site.platform.source or "",
                missing=_missing(facts, site) or ("" if is_now else where),
            )


def _missing(facts: CommFacts, site: SiteSpec) -> str:
    """Why nothing of the site's own list counts here, empty where it does."""
    if facts.contradiction:
        return f"a node of this site ({facts.contradiction})"
    if not counts_here(facts, site.platform):
        return f"plugin {site.platform.plugin}"
    return ""


def _where(entry: PlatformEnv) -> str:
    parts = []
    if entry.since is not None:
        parts.append(f"release {entry.since} or later")
    if entry.before is not None:
        parts.append(f"release before {entry.before}")
    if entry.min_nodes > 1:
        parts.append(f"{entry.min_nodes} nodes or more")
    return "; ".join(parts) or "always"


def _of_overlays(name: str, site: SiteSpec) -> Iterator[ExplainedWord]:
    for overlay_name, overlay in site.overlays.items():
        if name in overlay.env:
            yield ExplainedWord(
                name=f"overlay {overlay_name}",
                value=overlay.env[name],
                where=f"--overlay {overlay_name}",
                because=overlay.because,
                source=f"{overlay.source} ({overlay.date})",
            )
