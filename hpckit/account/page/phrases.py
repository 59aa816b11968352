"""What each row of a job's report says of GPUs, ranks, CPUs and clocks."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from hpckit.account.values import GpuAccount, JobReport, RankAccount, Share
from hpckit.core.quantities import duration, gpu_time, number, percent, plural
from hpckit.core.text import dotted
from hpckit.core.units import format_indices

_CLASSES: Final = (
    ("useful_gpu_s", "useful"),
    ("spin_gpu_s", "spinning"),
    ("idle_gpu_s", "idle"),
    ("no_process_gpu_s", "no process"),
    ("unknown_gpu_s", "unknown"),
)
_DIFFERS_FRAC: Final = 0.10
_BEHIND_FRAC: Final = 0.05
_HELD_DOWN_FRAC: Final = 0.01
_UNKNOWN_FRAC: Final = 0.10
_MOST_NAMED: Final = 3
_LEAST_S: Final = 1e-3
_SIGNALLED: Final = 128


def gpu_parts(report: JobReport) -> list[str]:
    """How the GPU-seconds were spent, and the GPUs that did otherwise than most."""
    return dotted([*_shares(report), *gpu_remarks(report)])


def _shares(report: JobReport) -> list[str]:
    """How the GPU-seconds were spent; none where that is unknown."""
    total_s = report.waste.total_gpu_s
    if total_s < _LEAST_S or not report.waste.is_measured:
        return []
    spent = [(getattr(report.waste, key), key, word) for key, word in _CLASSES]
    shares = [
        f"{word} {percent(spent_s / total_s)}"
        for spent_s, key, word in spent
        if spent_s > 0 or key not in ("unknown_gpu_s", "no_process_gpu_s")
    ]
    return [*shares[:-1], f"{shares[-1]} of {gpu_time(total_s)}"]


def gpu_remarks(report: JobReport) -> list[str]:
    """What shares do not tell: why they are unknown, and the GPUs that did otherwise than most."""
    total_s = report.waste.total_gpu_s
    if total_s < _LEAST_S:
        return ["held for too short a time to measure"] if report.gpus else []
    if not report.waste.is_measured:
        return [f"activity unknown: {why_unknown(report.gpus, gpu_time(total_s))}"]
    boards = _boards(report.gpus)
    blind = sum("spin" in one.refused for one in boards)
    parts = [f"spinning not detectable on {plural(blind, 'GPU')}"] if blind else []
    others = _odd_ones(boards)
    if others:
        parts += [f"{_gpu_name(one)}: {_main_classes(one.waste)}" for one in others[:_MOST_NAMED]]
        if len(others) > _MOST_NAMED:
            more = len(others) - _MOST_NAMED
            parts.append(f"{more:,} more {'differs' if more == 1 else 'differ'}")
        parts.append(f"… {len(boards) - len(others):,} similar")
    return parts


def _boards(gpus: Sequence[GpuAccount]) -> list[GpuAccount]:
    """Each GPU once, with the GPU-seconds of all incarnations."""
    found: dict[tuple[str, str], GpuAccount] = {}
    for gpu in gpus:
        before = found.get((gpu.node, gpu.uuid))
        if before is not None:
            old, new = before.waste, gpu.waste
            spent = {key: getattr(old, key) + getattr(new, key) for key, _ in _CLASSES}
            refused = {**before.refused, **gpu.refused}
            found[gpu.node, gpu.uuid] = replace(gpu, waste=Share(**spent), refused=refused)
        else:
            found[gpu.node, gpu.uuid] = gpu
    return list(found.values())


def why_unknown(gpus: Sequence[GpuAccount], held: str) -> str:
    """Why it is not known what GPUs did in the time for which they were held."""
    unseen = any("spin" in one.refused for one in gpus)
    blind = f"samples of {held} cannot tell spinning from work"
    return blind if unseen else f"no samples of {held}"


def _main_classes(share: Share) -> str:
    spent = sorted(((getattr(share, key), word) for key, word in _CLASSES), reverse=True)
    total_s = share.total_gpu_s
    told = [f"{word} {percent(spent_s / total_s)}" for spent_s, word in spent[:2] if spent_s > 0]
    return ", ".join(told)


def _odd_ones(gpus: Sequence[GpuAccount]) -> list[GpuAccount]:
    """GPUs whose useful share is far from the middle one's, the farthest first."""
    measured = [
        (one, one.waste.useful_gpu_s / one.waste.total_gpu_s)
        for one in gpus
        if one.waste.total_gpu_s > 0
    ]
    if len(measured) < 2:  # noqa: PLR2004  one alone differs from nobody
        return []
    middle = statistics.median(useful for _, useful in measured)
    far = [(abs(useful - middle), one) for one, useful in measured]
    odd = [(by, one) for by, one in far if by > _DIFFERS_FRAC]
    return [one for _, one in sorted(odd, key=lambda pair: -pair[0])]


def _gpu_name(gpu: GpuAccount) -> str:
    return f"{gpu.label} on {gpu.node}"


def rank_parts(report: JobReport) -> list[str]:
    """How ranks ended and which are behind."""
    if not report.ranks:
        return []
    lives = _lives(report.ranks)
    ended = []
    for ranks, said in lives[:_MOST_NAMED]:
        first, *others = _ends(ranks)
        ended += [f"{said}{first}", *others]
    if len(lives) > _MOST_NAMED:
        ended.append(f"{plural(len(lives) - _MOST_NAMED, 'restart')} before them")
    parts = dotted(ended)
    if report.job.placement:
        parts += [f"· placed {report.job.placement}"]
    slow = [one for one in report.ranks if (one.behind_frac or 0.0) >= _BEHIND_FRAC]
    slow.sort(key=lambda one: one.behind_frac or 0.0)
    behind = list({(one.rank, one.node): one for one in slow}.values())[::-1]
    for one in behind[:_MOST_NAMED]:
        where = f"{one.node}, restart {one.restart}" if len(lives) > 1 else one.node
        parts.append(f"· rank {one.rank} is {percent(one.behind_frac or 0.0)} behind ({where})")
    if len(behind) > _MOST_NAMED:
        more = len(behind) - _MOST_NAMED
        parts.append(f"· {more:,} more {'is' if more == 1 else 'are'} behind")
    return parts


def _lives(ranks: Sequence[RankAccount]) -> list[tuple[list[RankAccount], str]]:
    """Ranks by incarnation, the last first, each with the words for it where there are several."""
    restarts = sorted({one.restart for one in ranks}, reverse=True)
    return [
        (
            [one for one in ranks if one.restart == restart],
            f"restart {restart}: " if len(restarts) > 1 else "",
        )
        for restart in restarts
    ]


def _ends(ranks: Sequence[RankAccount]) -> list[str]:
    """Who failed first, then all others by how they ended, the most of one kind first."""
    failed = [one for one in ranks if one.exit_code]
    failed.sort(key=lambda one: (one.ended_s is None, one.ended_s, one.rank))
    groups: dict[str, list[int]] = {}
    for one in ranks:
        groups.setdefault(_end_of(one), []).append(one.rank)
    if len(groups) == 1:
        end = next(iter(groups))
        if len(ranks) == 1:
            return [f"1 rank {end}"]
        own = [one for one in failed if (one.exit_code or 0) <= _SIGNALLED]
        first = [f"rank {own[0].rank} first"] if own else []
        return [f"all {_starts(ranks) or f'{len(ranks):,}'} {end}", *first]
    parts = []
    if failed:
        end = _end_of(failed[0])
        how = end.partition(" ")[2]
        parts.append(f"rank {failed[0].rank} failed{' first' * (len(failed) > 1)}, {how}")
        groups[end].remove(failed[0].rank)
    by_size = sorted(groups.items(), key=lambda group: -len(group[1]))
    return parts + [f"{_ranks(numbers)} {end}" for end, numbers in by_size if numbers]


def _ranks(numbers: Iterable[int]) -> str:
    """`rank 3`, `ranks 0-2,5`, or of many their count; one that was started anew counts once."""
    different = set(numbers)
    runs = format_indices(different)
    if len(different) == 1:
        return f"rank {runs}"
    return f"ranks {runs}" if runs.count(",") < _MOST_NAMED else f"{len(different):,} ranks"


def _starts(ranks: Sequence[RankAccount]) -> str:
    """`4 starts of 2 ranks` where some began anew, or several steps have one number."""
    different = {one.rank for one in ranks}
    again = len(different) < len(ranks)
    return f"{len(ranks):,} starts of {plural(len(different), 'rank')}" if again else ""


_CUT_OFF: Final = {
    "sample": "counted up to its node's last record",
    "processes": "counted until its GPUs went idle",
    "next-life": "counted until it was restarted",
}


def _end_of(one: RankAccount) -> str:
    if one.ended_by == "running":
        return "running"
    if one.ended_by in _CUT_OFF:
        return f"recorded no exit ({_CUT_OFF[one.ended_by]})"
    if one.exit_code is None:
        return "exited"
    if one.exit_code > _SIGNALLED:
        return f"killed by signal {one.exit_code - _SIGNALLED}"
    return f"exited with {one.exit_code}"


def cpu_parts(report: JobReport) -> list[str]:
    """What a job without GPUs computed with: CPU time of its ranks, and of which the most."""
    known = [one for one in report.ranks if one.cpu_s is not None]
    if report.gpus or not known:
        return []
    total_s = math.fsum(one.cpu_s or 0.0 for one in known)
    told = _starts(known) or plural(len(known), "rank")
    parts = [f"{duration(total_s)} CPU time in {told}"]
    if len(known) > 1:
        most = max(known, key=lambda one: one.cpu_s or 0.0)
        parts.append(f"· {duration(most.cpu_s or 0.0)} at most (rank {most.rank})")
    cpus, held_s = _cpus(report, {one.restart for one in known})
    if cpus and held_s > 0:
        parts.append(f"· {number(total_s / held_s)} of {plural(cpus, 'CPU')} used on average")
    return parts


def _cpus(report: JobReport, restarts: set[int]) -> tuple[int, float]:
    held = [
        sum(one.cpus or 0 for one in report.nodes if one.restart == restart) for restart in restarts
    ]
    runs = [one for one in report.incarnations if one.restart in restarts]
    return max(held), math.fsum(one.ended_s - one.started_s for one in runs)


def throttling_parts(report: JobReport) -> list[str]:
    """Whether heat or the power brake held clocks down; the power cap is normal under load."""
    gpus = report.gpus
    if not gpus:
        return []
    known = [one for one in gpus if one.throttling.thermal_s is not None]
    if not known:
        return ["thermal throttling unknown: no samples"]
    parts = []
    for key, what in (("thermal_s", "heat"), ("power_brake_s", "the power brake")):
        parts += _slowed(gpus, key, f"throttled by {what}")
    if not parts:
        parts = [f"no thermal throttling{_as_far_as_known(report, known)}"]
    capped = [one for one in gpus if one.throttling.power_cap_s is not None]
    cap_s = sum(one.throttling.power_cap_s or 0.0 for one in capped)
    held_s = sum(one.held_s for one in capped)
    if held_s > 0 and cap_s / held_s >= _HELD_DOWN_FRAC:
        parts.append(f"at the power limit {percent(cap_s / held_s)} of the time (normal)")
    return dotted(parts)


def _as_far_as_known(report: JobReport, known: Sequence[GpuAccount]) -> str:
    """Of how many GPUs it is known, and for how much of the time, where that is not all."""
    told_of = len(_boards(known))
    all_gpus = max(report.job.gpus, len(_boards(report.gpus)))
    which = f" (known for {told_of} of {plural(all_gpus, 'GPU')})"
    held_s = math.fsum(one.held_s for one in known)
    # Samples that do not tell a spin from work tell of clocks all the same.
    told = [one.waste for one in known if "spin" not in one.refused]
    unknown_frac = math.fsum(one.unknown_gpu_s for one in told) / held_s if held_s > 0 else 0.0
    when = f" in the sampled {percent(1 - unknown_frac)} of the time"
    return (when if unknown_frac > _UNKNOWN_FRAC else "") + (which if told_of < all_gpus else "")


def _slowed(gpus: Sequence[GpuAccount], key: str, word: str) -> list[str]:
    shares = [
        ((getattr(one.throttling, key) or 0.0) / one.held_s, one) for one in gpus if one.held_s > 0
    ]
    worst: dict[tuple[str, str], tuple[float, GpuAccount]] = {}
    for share, one in sorted(shares, key=lambda pair: -pair[0]):
        if share >= _HELD_DOWN_FRAC:
            worst.setdefault((one.node, one.uuid), (share, one))
    slow = list(worst.values())
    named = [f"{_gpu_name(one)} {word} {percent(share)} of the time" for share, one in slow[:2]]
    return [*named, f"{len(slow) - 2:,} more {word}"] if len(slow) > 2 else named  # noqa: PLR2004
