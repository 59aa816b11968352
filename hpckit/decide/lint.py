"""Options of sbatch and srun against what the release of Slurm that reads them accepts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpckit.core.findings import Level, Notice
from hpckit.decide.slurm_facts import (
    OPTION_FACTS,
    PAIR_FACTS,
    OptionFact,
    PairFact,
    Program,
)
from hpckit.model.cluster import SlurmVersion, TopologyKind
from hpckit.model.plan import Option


def lint(
    options: Sequence[Option],
    program: Program,
    version: SlurmVersion | None,
    topology: TopologyKind | None = None,
) -> tuple[Notice, ...]:
    """What is wrong with these options of one command.

    With `version` None an option that some release from 22.05 to 26.05 does not take passes, and
    a pair that some release refuses does not: a job can do without the pair.
    """
    findings = [*_options(options, program, version, topology), *_pairs(options, program, version)]
    return tuple(findings)


def is_said(pattern: str, option: Option) -> bool:
    """Whether an option is the one of a fact: `gres=gpu` is each part of --gres that asks for one.

    A value is a list of parts after commas; a part goes on after a colon or an equals sign, and
    `gres/gpu` is `gpu` (24.11 and 26.05 take both).
    """
    name, equals, value = pattern.partition("=")
    if option.name != name:
        return False
    parts = [part.removeprefix("gres/") for part in (option.value or "").split(",")]
    plain = value.removeprefix("gres/")
    return not equals or any(
        part == plain or part.startswith((f"{plain}:", f"{plain}=")) for part in parts
    )


def _options(
    options: Sequence[Option],
    program: Program,
    version: SlurmVersion | None,
    topology: TopologyKind | None,
) -> Iterator[Notice]:
    for fact in OPTION_FACTS:
        if program not in fact.programs or not any(is_said(fact.option, one) for one in options):
            continue
        if version is not None and not takes(fact, version):
            level = Level.ERROR if fact.is_refused else Level.NOTE
            yield _finding(fact, f"{program} of Slurm {version} {_lacks(fact)}", level)
        elif topology is not None and fact.topologies and topology not in fact.topologies:
            where = " or ".join(f"topology/{kind}" for kind in fact.topologies)
            yield _finding(
                fact, f"has an effect with {where} alone; here is topology/{topology}", Level.NOTE
            )


def takes(fact: OptionFact, version: SlurmVersion) -> bool:
    """Whether a release takes the option; of a line without its number the newest is meant."""
    since = None if fact.since is None else SlurmVersion.of(fact.since)
    newest = since is not None and version.micro == 0 and version.line == since.line
    begun = since is None or newest or version >= since
    return begun and (fact.until is None or version < SlurmVersion.of(fact.until))


def _lacks(fact: OptionFact) -> str:
    if fact.since is not None:
        return f"does not know it: it came with {fact.since}"
    return "does not take it" if fact.is_refused else "ignores it"


def _finding(fact: OptionFact, text: str, level: Level) -> Notice:
    return Notice(
        level=level,
        subject=f"--{fact.option}",
        text=text,
        remedy=fact.instead,
        source=fact.source,
    )


def _pairs(
    options: Sequence[Option], program: Program, version: SlurmVersion | None
) -> Iterator[Notice]:
    for fact in PAIR_FACTS:
        both = all(
            any(is_said(pattern, one) for one in options) for pattern in (fact.first, fact.second)
        )
        if both and program in fact.programs and excludes(fact, version):
            since = f" from Slurm {fact.since} on" if fact.since else ""
            text = f"{program} refuses the two together{since}"
            if not fact.is_refused:
                text = f"{program} ignores --{fact.first.partition('=')[0]} beside the other"
            yield Notice(
                level=Level.ERROR if fact.is_refused else Level.NOTE,
                subject=f"--{fact.first} --{fact.second}",
                text=text,
                remedy=fact.instead,
                source=fact.source,
            )


def excludes(fact: PairFact, version: SlurmVersion | None) -> bool:
    """Whether a release excludes the pair; one that is not known does."""
    return fact.since is None or version is None or version >= SlurmVersion.of(fact.since)
