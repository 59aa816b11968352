"""Splits the cores of each part of a node among the ranks that have a share of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from hpckit.decide.binding_cpus import Core, Domain
from hpckit.decide.binding_places import Place
from hpckit.decide.binding_shares import apportion, chunks, dealt
from hpckit.model.words import counted

_MOST_UNEVEN: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The CPUs of a rank, the domains they are of, and why these."""

    cpus: tuple[int, ...] = ()
    domains: tuple[int, ...] = ()
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What a rank gets of one domain, in words too."""

    cpus: tuple[int, ...]
    words: str


def split(domains: Sequence[Domain], places: Sequence[Place]) -> list[Share]:
    """The share of each rank; a core is one rank's unless a domain has fewer cores than ranks."""
    parts: list[dict[int, _Part]] = [{} for _ in places]
    for at, domain in enumerate(domains):
        ranks = [rank for rank, place in enumerate(places) if at in place.weights]
        weights = [places[rank].weights[at] for rank in ranks]
        for rank, part in zip(ranks, _split(domain, weights), strict=True):
            parts[rank][at] = part
    return [
        Share(
            cpus=tuple(sorted(chain.from_iterable(part.cpus for part in of_rank.values()))),
            domains=tuple(of_rank),
            because=", ".join((*(part.words for part in of_rank.values()), place.because)),
        )
        for of_rank, place in zip(parts, places, strict=True)
    ]


def _split(domain: Domain, weights: Sequence[int]) -> list[_Part]:
    if not weights:
        return []
    where = f" of NUMA {'+'.join(map(str, domain.numa))}" if domain.numa else ""
    if len(weights) == 1:
        words = f"all {counted(len(domain.cores), 'core')}{where}"
        return [_part(domain.cores, words)]
    runs = _whole_groups(domain, weights)
    if runs is not None:
        return [
            _part(
                tuple(chain.from_iterable(run)),
                f"{len(run)} of {len(domain.groups)} L3 groups{where}",
            )
            for run in runs
        ]
    return _split_cores(domain.cores, weights, where)


def _whole_groups(
    domain: Domain, weights: Sequence[int]
) -> list[Sequence[tuple[Core, ...]]] | None:
    """Runs of whole L3 groups, None if there are too few or one run had twice another's cores."""
    if len(domain.groups) < len(weights):
        return None
    runs = chunks(domain.groups, apportion(len(domain.groups), weights))
    cores = [sum(map(len, run)) / weight for run, weight in zip(runs, weights, strict=True)]
    return runs if max(cores) <= _MOST_UNEVEN * min(cores) else None


def _split_cores(cores: Sequence[Core], weights: Sequence[int], where: str) -> list[_Part]:
    ranks = len(weights)
    if len(cores) >= ranks:
        runs = chunks(cores, apportion(len(cores), weights))
        return [_part(run, f"{len(run)} of {counted(len(cores), 'core')}{where}") for run in runs]
    cpus = tuple(chain.from_iterable(cores))
    shared = f"{where}, which has {counted(len(cores), 'core')} for {ranks} ranks"
    if len(cpus) >= ranks:
        return [
            _Part(
                cpus=cpus[run.start : run.stop],
                words=f"{len(run)} of {counted(len(cpus), 'CPU')}{shared}",
            )
            for run in dealt(len(cpus), ranks)
        ]
    return [
        _Part(cpus=(cpus[run.start],), words=f"1 of {counted(len(cpus), 'CPU')}{shared}, shared")
        for run in dealt(len(cpus), ranks)
    ]


def _part(cores: Sequence[Core], words: str) -> _Part:
    return _Part(cpus=tuple(chain.from_iterable(cores)), words=words)
