"""Rules of the communication environment in words: when each applies, one page, one variable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpckit.decide.comm_env import RULES
from hpckit.decide.comm_rule import CommRule, When, applies
from hpckit.model.comm_facts import CommFacts


def when_words(when: When) -> str:
    """When a rule applies, in words joined by semicolons; `always` without a condition."""
    return "; ".join(_parts(when)) or "always"


def rules_of(variable: str) -> tuple[CommRule, ...]:
    """The rules about a variable."""
    return tuple(rule for rule in RULES if rule.variable == variable)


def missing(when: When, facts: CommFacts) -> str:
    """Which conditions of a rule are not so here, in words; empty where it applies."""
    return "; ".join(words for words, one in _single(when) if not applies(one, facts))


def _parts(when: When) -> Sequence[str]:
    return [words for words, _ in _single(when)]


def _single(when: When) -> Iterator[tuple[str, When]]:
    """Each condition by itself, and in words."""
    if when.library is not None:
        yield when.library.upper(), When(library=when.library)
    if when.interconnects:
        yield " or ".join(when.interconnects), When(interconnects=when.interconnects)
    if when.plugins:
        names = [plugin or "not known" for plugin in when.plugins]
        yield f"plugin {' or '.join(names)}", When(plugins=when.plugins)
    if when.since is not None:
        yield f"release {when.since} or later", When(since=when.since)
    if when.before is not None:
        yield f"release before {when.before}", When(before=when.before)
    if when.min_nodes > 1:
        yield f"{when.min_nodes} nodes or more", When(min_nodes=when.min_nodes)
    for trait in when.traits:
        yield str(trait), When(traits=(trait,))
