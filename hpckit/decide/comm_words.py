"""Rules of the communication environment in words: when each applies, one page, one variable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hpckit.decide.comm_env import ADVICE, RULES
from hpckit.decide.comm_rule import CommAdvice, CommRule, When, applies
from hpckit.model.comm_facts import CommFacts

_PAGE: Final = """\
<!-- Written by docs/generate.py. Change the code, then run `make docs`. -->
# What hpckit sets for communication, and when

The first rule is to set nothing: NCCL and RCCL find nearly everything themselves. A variable is set
where the inspected node (`--topology`) or the site file (`[platform]`) shows that a job needs it;
its reason stands beside it in the script. Words in braces are the node's. A release that is not
known is taken to be a current one; `hpckit tune` says so where an old one would need more. What a
site sets under `[[platform.env]]` stands over these rules, an overlay over that, and the job's own
word over all.

| Variable | Value | Where | Because | Rule and source |
|---|---|---|---|---|
{rules}

## What no variable mends

| Where | What | What to do | Rule and source |
|---|---|---|---|
{advice}
"""


def when_words(when: When) -> str:
    """When a rule applies, in words joined by semicolons; `always` without a condition."""
    return "; ".join(_parts(when)) or "always"


def rules_of(variable: str) -> tuple[CommRule, ...]:
    """The rules about a variable."""
    return tuple(rule for rule in RULES if rule.variable == variable)


def missing(when: When, facts: CommFacts) -> str:
    """Which conditions of a rule are not so here, in words; empty where it applies."""
    return "; ".join(words for words, one in _single(when) if not applies(one, facts))


def comm_rules_page() -> str:
    """The reference page docs/reference/tune-rules.md."""
    rules = "\n".join(_rule_row(rule) for rule in RULES)
    return _PAGE.format(rules=rules, advice="\n".join(_advice_row(one) for one in ADVICE))


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


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("{{", "{").replace("}}", "}")


def _rule_row(rule: CommRule) -> str:
    cells = (
        f"`{rule.variable}`",
        f"`{rule.value}`",
        when_words(rule.when),
        rule.because,
        f"`{rule.name}`: {rule.source} ({rule.date})",
    )
    return f"| {' | '.join(map(_cell, cells))} |"


def _advice_row(one: CommAdvice) -> str:
    where = f"`{one.name}`: {one.source}"
    cells = (when_words(one.when), one.because, one.fix or "nothing", where)
    return f"| {' | '.join(map(_cell, cells))} |"
