"""Changes of a request that may start a job earlier, to be tried by `sbatch --test-only`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, zip_longest
from math import inf
from typing import Final

from hpckit.core.findings import Severity
from hpckit.core.hostlist import HostListError, expand_hosts
from hpckit.core.units import format_slurm_time
from hpckit.core.values import dataclass
from hpckit.script.admission import find_obstacles
from hpckit.script.live import Cluster, User
from hpckit.slurm.request import Asked, Request
from hpckit.slurm.sbatch import ExpectedStart
from hpckit.slurm.values import PartitionRules, PlannedJob

_LEAST_TIME_S: Final = 600
_LEAST_GAIN_S: Final = 60.0
_MOST: Final = 3
_SHARES: Final = (2, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """A change that starts a job earlier: options for the command line, and when it starts then."""

    words: tuple[str, ...]
    start_s: float


def changes(
    request: Request, cluster: Cluster, user: User, now_s: float
) -> Iterator[tuple[str, ...]]:
    """Yield options that ask for less, or for elsewhere, and that no limit is against.

    In turn a shorter time (until maintenance, half, a quarter), another partition, another QOS,
    half of the nodes.
    """
    kinds: tuple[Iterable[str], ...] = (
        [f"--time={format_slurm_time(time_s)}" for time_s in _shorter_s(request, cluster, now_s)],
        (f"--partition={name}" for name in _other_partitions(request, cluster)),
        [f"--qos={name}" for name in _other_qos(request, cluster)],
        [f"--nodes={request.nodes // 2}"] if _can_halve(request) else [],
    )
    passed = (
        (word for word in words if _is_free(with_words(request, (word,)), cluster, user, now_s))
        for words in kinds
    )
    for turn in zip_longest(*passed):
        yield from ((word,) for word in turn if word is not None)


def _is_free(request: Request, cluster: Cluster, user: User, now_s: float) -> bool:
    found = find_obstacles(request, cluster, user, now_s)
    return all(one.severity is Severity.NOTE for one in found)


def _can_halve(request: Request) -> bool:
    return request.nodes > 1 and "ntasks" not in request.options


def _named(request: Request, cluster: Cluster) -> Sequence[str]:
    return request.partitions or [one.name for one in cluster.partitions if one.is_default]


def _other_partitions(request: Request, cluster: Cluster) -> Iterator[str]:
    """Yield those that have a node that the present ones lack."""
    names, mine = _named(request, cluster), own_hosts(request, cluster)
    for one in cluster.partitions:
        if one.name not in names and not mine.issuperset(_hosts(one)):
            yield one.name


def own_hosts(request: Request, cluster: Cluster) -> frozenset[str]:
    """Return the nodes of the partitions of a job.

    On nodes of these another partition starts it no earlier: `sbatch --test-only` puts a job behind
    those that wait in its partition, where backfill would not.
    """
    names = _named(request, cluster)
    return frozenset(
        host for one in cluster.partitions if one.name in names for host in _hosts(one)
    )


def _hosts(rules: PartitionRules) -> Sequence[str]:
    try:
        return expand_hosts(rules.nodes or "")
    except HostListError:
        return ()


def _other_qos(request: Request, cluster: Cluster) -> Sequence[str]:
    known, accounts, named = cluster.known_qos, cluster.accounts, _named(request, cluster)
    account = request.text("account") or (None if accounts is None else accounts.default_account)
    own = known.own_qos(account, named[0]) if known is not None and named else None
    said = None if own is None else request.text("qos") or own.default_qos
    return [] if own is None else [qos for qos in own.qos if qos != said]


def _shorter_s(request: Request, cluster: Cluster, now_s: float) -> Sequence[int]:
    time_s = request.time_s
    if time_s is None:
        return []
    starts = [one.start_s for one in cluster.reservations or () if "MAINT" in one.flags]
    times = [int(start - now_s) // 60 * 60 - 60 for start in starts if start is not None]
    times += [time_s // share // 60 * 60 for share in _SHARES]
    return [shorter_s for shorter_s in times if _LEAST_TIME_S <= shorter_s < time_s]


def with_words(request: Request, words: tuple[str, ...]) -> Request:
    """Return the request with these options over its own."""
    options: Mapping[str, Asked] = {
        **request.options,
        **{
            word.removeprefix("--").partition("=")[0]: Asked(value=word.partition("=")[2])
            for word in words
        },
    }
    return replace(request, options=options)


def is_taken(start: ExpectedStart, time_s: int | None, planned: Iterable[PlannedJob]) -> bool:
    """Return whether a job that waits is planned on one of the nodes before this one would end.

    `sbatch --test-only` does not see those that wait in other partitions; they come first.
    """
    nodes = set(expand_hosts(start.nodes))
    end_s = inf if time_s is None else start.start_s + time_s
    return any(
        one.start_s < end_s
        and (one.time_s is None or start.start_s < one.start_s + one.time_s)
        and not nodes.isdisjoint(expand_hosts(one.nodes))
        for one in planned
    )


def earlier(
    expected_s: Callable[[tuple[str, ...]], float | None],
    tried: Iterable[tuple[str, ...]],
    now_s: float,
    most_questions: int,
) -> tuple[float | None, tuple[Earlier, ...]]:
    """Return when a job starts as it is, and up to three of the changes that start it earlier.

    `expected_s` asks Slurm when it would start with these options, None where it will not say;
    it is asked `most_questions` times at most. A job that starts now is not improved upon.
    """
    start_s = expected_s(())
    if start_s is None or start_s <= now_s + _LEAST_GAIN_S:
        return start_s, ()
    found: list[Earlier] = []
    for words in islice(tried, most_questions - 1):
        changed_s = expected_s(words)
        if changed_s is not None and changed_s <= start_s - _LEAST_GAIN_S:
            found.append(Earlier(words=words, start_s=changed_s))
    found.sort(key=lambda one: one.start_s)
    return start_s, tuple(found[:_MOST])
