"""What is kept for others: reservations, maintenance and licenses, beside one job."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from hpckit.core.findings import Evidence, Severity
from hpckit.core.hostlist import HostListError, expand_hosts, named
from hpckit.core.late import regex
from hpckit.core.units import counted, format_slurm_time
from hpckit.script.limits import longest_s
from hpckit.script.live import Scene
from hpckit.slurm.values import Reservation


def in_reservation(scene: Scene) -> Iterator[Evidence]:
    """Yield what is against a job in the reservation that it names."""
    said, known = scene.request.text("reservation"), scene.cluster.reservations
    line_no = scene.request.line_no("reservation")
    if said is None or known is None:
        return
    by_name = {one.name: one for one in known}
    names = said.split(",")
    for name in names:
        one = by_name.get(name)
        if one is None:
            because = f"no such reservation: {name}"
            others = f", or use one of {named(sorted(by_name))}" if by_name else ""
            remedy = f"remove --reservation{others}"
            yield Evidence("reservation", because, remedy, None, line_no)
            continue
        yield from _admitted(scene, one, line_no)
    if len(names) == 1 and names[0] in by_name:
        yield from _room(scene, by_name[names[0]])


def _admitted(scene: Scene, one: Reservation, line_no: int | None) -> Iterator[Evidence]:
    kept_out = {name.removeprefix("-") for name in one.users if name.startswith("-")}
    users = {name for name in one.users if not name.startswith("-")}
    accounts = {name for name in one.accounts if not name.startswith("-")}
    is_in = scene.user.name in users or not scene.lineage.isdisjoint(accounts)
    is_in = is_in or not scene.user.groups.isdisjoint(one.groups)
    if scene.user.name in kept_out or ((users or accounts or one.groups) and not is_in):
        whose = named(sorted({*users, *accounts, *one.groups})) or "others"
        because = f"reservation {one.name} is for {whose}, not {scene.user.name}"
        yield Evidence("reservation", because, "remove --reservation", None, line_no)


def _room(scene: Scene, one: Reservation) -> Iterator[Evidence]:
    """The nodes and the time that a reservation has left."""
    line_no = scene.request.line_no("reservation")
    if one.end_s is not None and one.end_s <= scene.now_s:
        yield Evidence("reservation", f"reservation {one.name} has ended", None, None, line_no)
    elif "FLEX" in one.flags:
        return
    elif one.node_count and scene.request.nodes > one.node_count:
        nodes = counted(one.node_count, "node")
        because = f"reservation {one.name} has {nodes}, not {scene.request.nodes}"
        yield Evidence("nodes", because, f"--nodes={one.node_count}", None, line_no)
    elif (
        one.end_s is not None
        and (least_s := scene.request.least_time_s) is not None
        and max(scene.now_s, one.start_s or 0) + least_s > one.end_s
    ):
        rest = format_slurm_time(int(one.end_s - max(scene.now_s, one.start_s or 0)) // 60 * 60)
        because = (
            f"the job would end early: reservation {one.name} ends before the job's time limit"
        )
        line_no = scene.request.line_no("time")
        yield Evidence("time", because, f"--time={rest}", Severity.WARNING, line_no)


def maintenance(scene: Scene) -> Iterator[Evidence]:
    """Yield maintenance of so many nodes that the job would have to end before it begins."""
    time_s, own = longest_s(scene), scene.partition.nodes
    begin_s = _begin_s(scene.request.text("begin"), scene.now_s)
    if own is None or begin_s is None or scene.request.text("reservation") is not None:
        return
    try:
        for one in scene.cluster.reservations or ():
            if "MAINT" not in one.flags or one.nodes is None or one.start_s is None:
                continue
            if not begin_s < one.start_s < begin_s + time_s:
                continue
            left = set(expand_hosts(own)) - set(expand_hosts(one.nodes))
            if len(left) >= scene.request.nodes:
                continue
            rest_s = int(one.start_s - begin_s) // 60 * 60 - 60
            away = format_slurm_time(int(one.start_s - scene.now_s) // 60 * 60)
            because = (
                f"the job waits until maintenance {one.name} is over: it begins in {away}, before "
                "the job would end"
            )
            remedy = (
                f"--time={format_slurm_time(rest_s)}" if rest_s > 0 else "wait until it is over"
            )
            yield Evidence("time", because, remedy, None, scene.request.line_no("time"))
    except HostListError:
        return


_BEGIN = regex(r"now(?:\+(\d{1,9})(second|minute|hour|day|week|)s?)?", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}


def _begin_s(text: str | None, now_s: float) -> float | None:
    """Return the earliest start that `--begin` lets, None for a form that is not read here."""
    if text is None:
        return now_s
    match = _BEGIN.fullmatch(text)
    if match:
        return now_s + int(match[1] or 0) * _UNITS[(match[2] or "").lower()]
    try:
        return max(now_s, datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError):
        return None


def licenses(scene: Scene) -> Iterator[Evidence]:
    """Yield licenses that are not there, or not free."""
    known = scene.cluster.licenses
    if known is None:
        return
    line_no = scene.request.line_no("licenses")
    for name, asked in scene.request.licenses.items():
        if name not in known:
            remedy = "remove --licenses"
            remedy += f", or use one of {named(sorted(known))}" if known else ""
            yield Evidence("licenses", f"no such license: {name}", remedy, None, line_no)
            continue
        total, free = known[name]
        if asked > total:
            because = f"the cluster has {total} licenses {name}, not {asked}"
            yield Evidence("licenses", because, f"--licenses={name}:{total}", None, line_no)
        elif asked > free:
            because = f"{free} of {total} licenses {name} are free, the job needs {asked}"
            remedy = "wait: it starts when other jobs have ended"
            yield Evidence("licenses", because, remedy, Severity.WARNING, line_no)
