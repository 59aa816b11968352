"""The communication environment for people: each variable with its reason, then what is odd."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpckit.comm.facts import CommFacts, Explained, ExplainedWord, counts_here, words_of
from hpckit.comm.rules import RULES, When, applies, when_of
from hpckit.core.finding_lines import SEVERITY_STYLES, SEVERITY_WORDS
from hpckit.core.findings import SourcedFinding
from hpckit.core.text import Line, Style, wrapped, wrapped_lines
from hpckit.spec.platform import CommEnv, CommSetting, SettingOrigin, sources
from hpckit.spec.site import SiteSpec

NO_NETWORK: Final = "the nodes' network is unknown (give --site NAME or --topology FILE)"


def when_words(when: When) -> str:
    """Return when a rule applies, in words joined by semicolons; `always` without a condition."""
    return "; ".join(words for words, _ in _single(when)) or "always"


def _single(when: When) -> Iterator[tuple[str, When]]:
    """Each condition by itself, and in words."""
    if when.library is not None:
        yield when.library.upper(), When(library=when.library)
    if when.interconnects:
        yield " or ".join(when.interconnects), When(interconnects=when.interconnects)
    if when.plugins:
        names = [plugin or "unknown" for plugin in when.plugins]
        yield f"plugin {' or '.join(names)}", When(plugins=when.plugins)
    if when.since is not None:
        yield f"release {when.since} or later", When(since=when.since)
    if when.before is not None:
        yield f"release before {when.before}", When(before=when.before)
    if when.min_nodes > 1:
        yield f"{when.min_nodes} or more nodes", When(min_nodes=when.min_nodes)
    for trait in when.traits:
        yield str(trait), When(traits=(trait,))


def explain(name: str, facts: CommFacts, env: CommEnv, site: SiteSpec) -> Explained:
    """What the job has of a variable, and what rules, site and overlays have for it."""
    from hpckit.comm.lint import faults_of

    return Explained(
        name=name,
        here=_here(name, env, facts),
        read=_read(name, facts),
        words=(*_of_rules(name, facts), *_of_site(name, facts, site), *_of_overlays(name, site)),
        faults=faults_of(name),
    )


def _read(name: str, facts: CommFacts) -> str | None:
    """Which releases of NCCL read a variable, and their defaults; of a wrong name the right one."""
    from hpckit.comm.lint import KNOWN_VARIABLES, meant_by

    known = KNOWN_VARIABLES.get(name)
    if known is None:
        upper = name.upper()
        near = upper if upper in KNOWN_VARIABLES else meant_by(upper, facts.library)
        return f"no program reads this name; did you mean {near}?" if near else None
    until = " and later" if known.until is None else f" and later, before {known.until}"
    defaults = [
        f"{'computed' if value is None else value} since {release}"
        for release, value in known.defaults
    ]
    told = f"; default: {', '.join(defaults)}" if defaults else ""
    return f"by NCCL {known.since}{until}{told}"


def _here(name: str, env: CommEnv, facts: CommFacts) -> str:
    for setting in env.settings:
        if setting.name == name:
            by = "" if setting.origin is SettingOrigin.JOB else f" [{setting.rule}]"
            against = f"; {setting.warning}" if setting.warning else ""
            return f"{setting.value}{by}: {setting.because}{against}"
    for left in env.left:
        if left.name == name:
            return f"not set by hpckit: {left.because}"
    if not is_known(facts) and any(rule.variable == name for rule in RULES):
        return f"unknown: {NO_NETWORK}"
    return "not set: nothing here needs it"


_IN_GENERAL: Final = {
    "hcas": "NIC,…",
    "ucx_devices": "NIC:1,…",
    "others": "those for storage",
    "interfaces": "INTERFACE,…",
    "domain": "one NVLink domain over several nodes",
    "version": "of that release",
}
"""What a rule names in braces, where no machine tells."""


def _of_rules(name: str, facts: CommFacts) -> Iterator[ExplainedWord]:
    known = {key: value for key, value in words_of(facts).items() if value not in {"", "None"}}
    words = {**_IN_GENERAL, **known}
    for rule in RULES:
        if rule.variable == name:
            missing = [words for words, when in _single(rule.when) if not applies(when, facts)]
            yield ExplainedWord(
                name=rule.name,
                value=rule.value.format(**words),
                where=when_words(rule.when),
                because=rule.because.format(**words),
                source=rule.dated_source,
                missing="; ".join(missing),
            )


def _of_site(name: str, facts: CommFacts, site: SiteSpec) -> Iterator[ExplainedWord]:
    for entry in site.platform.env:
        if entry.name == name:
            when = when_of(entry)
            where = when_words(when)
            yield ExplainedWord(
                name=f"site {site.name}",
                value=entry.value,
                where=where,
                because=entry.because,
                source=entry.source or site.platform.source or "",
                missing=_missing(facts, site) or ("" if applies(when, facts) else where),
            )


def _missing(facts: CommFacts, site: SiteSpec) -> str:
    """Why nothing of the site's own list counts here, empty where it does."""
    if facts.contradiction:
        return f"a node of this site ({facts.contradiction})"
    if not counts_here(facts, site.platform):
        return f"plugin {site.platform.plugin}"
    return ""


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


# --- One communication variable for people: what the job has of it, and what could have set it.


def explain_lines(explained: Explained, *, width: int) -> Iterator[Line]:
    """The whole screen in lines of at most `width` columns."""
    yield Line(text=f" {explained.name}", style=Style.TITLE)
    yield from _explain_row("here", explained.here, width)
    if explained.read is not None:
        yield from _explain_row("read", explained.read, width)
    if not explained.words:
        yield from _explain_row("rules", "no rule of hpckit or of the site sets it", width)
    for word in explained.words:
        yield from _explain_row("rule", f"{word.name}: {word.value}", width)
        yield from _explain_row("", f"when: {word.where}", width)
        if word.missing:
            yield from _explain_row("", f"not met here: {word.missing}", width)
        yield from _explain_row("", word.because, width)
        yield from _explain_row("", word.source, width, Style.FAINT)
    for fault in explained.faults:
        yield from _explain_row("lint", f"{fault.rule} ({fault.severity}): {fault.because}", width)
        if fault.remedy:
            yield from _explain_row("", f"fix: {fault.remedy}", width)
        yield from _explain_row("", fault.source, width, Style.FAINT)


def _explain_row(label: str, words: str, width: int, style: Style = Style.PLAIN) -> list[Line]:
    return wrapped_lines(words, width, first=f" {label:<8} ", further=" " * 10, style=style)


_LEAST: Final = 14
_MOST: Final = 34
_INDENT: Final = "   "


def comm_lines(
    facts: CommFacts, env: CommEnv, *, title: str, width: int, is_derived: bool = True
) -> Iterator[Line]:
    """The whole screen in lines of at most `width` columns; `title` says what was looked at.

    `is_derived` is whether the job wants more than its own variables.
    """
    words = f"{title} {_facts_words(facts)}"
    yield from wrapped_lines(words, width, first=" ", further=_INDENT, style=Style.TITLE)
    names = [one.name for one in env.settings] + [one.name for one in env.left]
    head = max(_LEAST, min(_MOST, max(map(len, names), default=0)))
    for setting in env.settings:
        yield from _setting(setting, head, width)
    if env.profile is not None:
        yield from _row("source", env.profile.path, head, width)
        yield from _below(f"{env.profile.because} ({env.profile.source})", width)
    if not env.settings and env.profile is None:
        yield from _below(nothing_set(facts, is_derived=is_derived), width, first=" ")
    for source in sources(env.settings):
        yield from wrapped_lines(source, width, first=" ", further=_INDENT, style=Style.FAINT)
    for left in env.left:
        yield from _row(left.name, f"skipped: {left.because}", head, width)
        yield from _below(f"hpckit would set {left.value} [{left.rule}]", width, Style.FAINT)
    for note in env.notes:
        yield from _note(note, width)


def is_known(facts: CommFacts) -> bool:
    """Whether enough is known for rules to apply: the network, where the job has one."""
    return facts.interconnect is not None or facts.nodes == 1


def nothing_set(facts: CommFacts, *, is_derived: bool = True) -> str:
    """Why there is no variable: nobody wants one, there is no need, or nobody knows."""
    if not is_derived:
        return "nothing set: tune.derive = false (--no-tune) keeps only the job's own variables"
    if is_known(facts):
        return "nothing to set: the defaults suit this machine"
    return f"nothing set: {NO_NETWORK}"


def _facts_words(facts: CommFacts) -> str:
    """What the rules went by."""
    library = "NCCL" if facts.library is None else facts.library.upper()
    version = "release unknown" if facts.version is None else str(facts.version)
    network = facts.interconnect or "network unknown"
    plugin = "" if facts.plugin is None else f" · plugin {facts.plugin}"
    return f"· {network} · {library} {version}{plugin}"


def _setting(setting: CommSetting, head: int, width: int) -> Iterator[Line]:
    yield from _row(setting.name, setting.value, head, width)
    is_own = setting.origin is SettingOrigin.JOB
    reason = setting.because if is_own else f"{setting.because} [{setting.rule}]"
    yield from _below(reason, width)
    if setting.warning is not None:
        yield from _below(f"warning: {setting.warning}", width, Style.WARNING)


def _note(note: SourcedFinding, width: int) -> Iterator[Line]:
    is_named = note.because.startswith(f"{note.subject} ")
    subject = "" if is_named else f"{note.subject}: "
    first = f" {SEVERITY_WORDS[note.severity]:<8} {subject}"
    indent, style = " " * 10, SEVERITY_STYLES[note.severity]
    yield from wrapped_lines(note.because, width, first=first, further=indent, style=style)
    if note.remedy:
        yield from wrapped_lines(note.remedy, width, first=indent, further=indent)


def _below(
    words: str, width: int, style: Style = Style.PLAIN, *, first: str = _INDENT
) -> list[Line]:
    return wrapped_lines(words, width, first=first, further=_INDENT, style=style)


def _row(label: str, words: str, head: int, width: int) -> Iterator[Line]:
    first, further = f" {label:<{head}}  ", " " * (head + 3)
    texts = wrapped(tuple(words.split(" ")), width, first=first, further=further)
    yield from (Line(text=text) for text in texts)
