"""The communication environment for people: each variable with its reason, then what is odd."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpckit.core.findings import SourcedFinding
from hpckit.model.comm import CommEnv, CommLeft, CommSetting, SettingOrigin
from hpckit.model.comm_facts import CommFacts
from hpckit.model.comm_sources import sources
from hpckit.report.finding_lines import SEVERITY_STYLES, SEVERITY_WORDS
from hpckit.report.line import Line, Style, wrapped

_LEAST: Final = 14
_MOST: Final = 34
_INDENT: Final = "   "
_NOTHING: Final = "nothing to set: what this machine needs is detected"
_UNWANTED: Final = "nothing is set: tune.derive = false (--no-tune) leaves a job its own variables"
_UNKNOWN: Final = "nothing is set: the nodes' network is not known (--site NAME, --topology FILE)"


def comm_lines(
    facts: CommFacts, env: CommEnv, *, title: str, width: int, is_derived: bool = True
) -> Iterator[Line]:
    """The whole screen in lines of at most `width` columns; `title` says what was looked at.

    `is_derived` is whether the job wants more than its own variables.
    """
    parts = (*title.split(), *_facts_words(facts).split())
    texts = wrapped(parts, width, first=" ", further="   ")
    yield from (Line(text=text, style=Style.TITLE) for text in texts)
    head = _head(env)
    for setting in env.settings:
        yield from _setting(setting, head, width)
    if env.profile is not None:
        yield from _row("source", env.profile.path, head, width)
        yield from _below(f"{env.profile.because} ({env.profile.source})", width)
    if not env.settings and env.profile is None:
        yield from _below(nothing_set(facts, is_derived=is_derived), width, first=" ")
    for source in sources(env.settings):
        texts = wrapped(tuple(source.split()), width, first=" ", further=_INDENT)
        yield from (Line(text=text, style=Style.FAINT) for text in texts)
    for left in env.left:
        yield from _left(left, head, width)
    for note in env.notes:
        yield from _note(note, width)


def is_known(facts: CommFacts) -> bool:
    """Whether enough is known for rules to apply: the network, where the job has one."""
    return facts.interconnect is not None or facts.nodes == 1


def nothing_set(facts: CommFacts, *, is_derived: bool = True) -> str:
    """Why there is no variable: nobody wants one, there is no need, or nobody knows."""
    if not is_derived:
        return _UNWANTED
    return _NOTHING if is_known(facts) else _UNKNOWN


def _facts_words(facts: CommFacts) -> str:
    """What the rules went by."""
    library = "NCCL" if facts.library is None else facts.library.upper()
    version = "release not known" if facts.version is None else str(facts.version)
    network = facts.interconnect or "network not known"
    plugin = "" if facts.plugin is None else f" · plugin {facts.plugin}"
    return f"· {network} · {library} {version}{plugin}"


def _head(env: CommEnv) -> int:
    names = [one.name for one in env.settings] + [one.name for one in env.left]
    return max(_LEAST, min(_MOST, max(map(len, names), default=0)))


def _setting(setting: CommSetting, head: int, width: int) -> Iterator[Line]:
    yield from _row(setting.name, setting.value, head, width)
    is_own = setting.origin is SettingOrigin.JOB
    reason = setting.because if is_own else f"{setting.because} [{setting.rule}]"
    yield from _below(reason, width)
    if setting.warning is not None:
        yield from _below(f"warning: {setting.warning}", width, Style.WARNING)


def _left(left: CommLeft, head: int, width: int) -> Iterator[Line]:
    yield from _row(left.name, f"left: {left.because}", head, width)
    yield from _below(f"hpckit would set {left.value} [{left.rule}]", width, Style.FAINT)


def _note(note: SourcedFinding, width: int) -> Iterator[Line]:
    is_named = note.because.startswith(f"{note.subject} ")
    subject = "" if is_named else f"{note.subject}: "
    first = f" {SEVERITY_WORDS[note.severity]:<8} {subject}"
    texts = wrapped(tuple(note.because.split()), width, first=first, further=" " * 10)
    yield from (Line(text=text, style=SEVERITY_STYLES[note.severity]) for text in texts)
    if note.remedy:
        texts = wrapped(tuple(note.remedy.split()), width, first=" " * 10, further=" " * 10)
        yield from (Line(text=text) for text in texts)


def _below(
    words: str, width: int, style: Style = Style.PLAIN, *, first: str = _INDENT
) -> Iterator[Line]:
    texts = wrapped(tuple(words.split()), width, first=first, further=_INDENT)
    yield from (Line(text=text, style=style) for text in texts)


def _row(
    label: str, words: str, head: int, width: int, style: Style = Style.PLAIN
) -> Iterator[Line]:
    first = f" {label:<{head}}  "
    further = " " * (head + 3)
    texts = wrapped(tuple(words.split(" ")), width, first=first, further=further)
    yield from (Line(text=text, style=style) for text in texts)
