"""What ranks say of where they are beside the plan: each part is a verdict with its reason."""

from __future__ import annotations

import json
import os
import time

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, Final

    Records = Mapping[int, Mapping[str, Any]]


FIRST_POLL_S, LAST_POLL_S, SLOWER = 0.05, 1.0, 1.5


class Lines:
    """The files of lines of a start, each read on until it has those of all ranks of its node.

    `ranks` has the first line of each rank, `twice` the nodes of further ones. A line that is cut,
    or of no rank of the step, counts for nothing.
    """

    def __init__(self, folder: str, prefix: str, world_size: int) -> None:
        self.ranks: dict[int, dict[str, Any]] = {}
        self.twice: dict[int, list[str]] = {}
        self._folder, self._prefix, self._all = folder, prefix, range(world_size)
        self._at: dict[str, int] = {}
        self._ranks_of: dict[str, set[int]] = {}
        self._whole: set[str] = set()

    def gather(self, limit_s: float) -> None:
        """Read until all ranks have left theirs, or so many seconds are over."""
        until, poll_s = time.monotonic() + limit_s, FIRST_POLL_S
        while True:
            self._look(until)
            if len(self.ranks) >= len(self._all) or time.monotonic() > until:
                return
            time.sleep(max(0.0, min(poll_s, until - time.monotonic())))
            poll_s = min(SLOWER * poll_s, LAST_POLL_S)

    def _look(self, until: float) -> None:
        try:
            names = os.listdir(self._folder)
        except OSError:
            return
        for name in names:
            if name in self._whole or not name.startswith(self._prefix):
                continue
            if time.monotonic() > until:
                return
            if name.endswith(".jsonl"):
                self._read(name)

    def _read(self, name: str) -> None:
        try:
            with open(f"{self._folder}/{name}", "rb") as file:
                file.seek(self._at.get(name, 0))
                data = file.read()
        except OSError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._at[name] = self._at.get(name, 0) + len(whole)
        for line in whole.splitlines():
            record = _record(line)
            if record is not None and record["rank"] in self._all:
                self._take(name, record)

    def _take(self, name: str, record: dict[str, Any]) -> None:
        rank, each = record["rank"], record["local_world_size"]
        if rank in self.ranks:
            self.twice.setdefault(rank, []).append(record["node"])
        else:
            self.ranks[rank] = record
        of_node = self._ranks_of.setdefault(name, set())
        of_node.add(rank)
        if each and len(of_node) >= each:
            self._whole.add(name)


def _record(line: bytes) -> dict[str, Any] | None:
    """The fields of a line; None for what is no line of a rank."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and {"rank", "env"} <= record.keys() else None


AS_PLANNED: Final = "as planned"
DIFFERS: Final = "differs"
NOT_ENFORCEABLE: Final = "not enforceable here"
_MOST_NAMED: Final = 4
_OF_ALL: Final = ("MASTER_ADDR", "MASTER_PORT")
"""Variables that are one on all ranks. Others, such as UCX_NET_DEVICES, may follow the local rank:
those are one on all ranks of the same local rank."""

Verdict = dict[str, str]


def verdict(what: str, found: str, because: str, brief: str = "") -> Verdict:
    """One part: what it is of, one of the three verdicts, why, and in a word or two for a line."""
    return {"what": what, "verdict": found, "because": because, "brief": brief}


def nodes_verdict(seen: Records, world_size: int, hosts: Sequence[str]) -> Verdict:
    """Whether ranks are on the nodes of an order, a line of which is one rank's or a launcher's."""
    if not hosts or world_size % len(hosts):
        because = f"the order has {len(hosts)} lines, which {world_size} ranks cannot be on"
        return verdict("nodes", DIFFERS, because)
    by_line = world_size // len(hosts)
    wrong = [
        f"rank {rank} is on {one['node']}, planned {hosts[rank // by_line]}"
        for rank, one in sorted(seen.items())
        if hosts[rank // by_line] != one["node"]
    ]
    if wrong:
        return verdict("nodes", DIFFERS, some(wrong))
    nodes = len(set(hosts))
    because = f"{len(seen)} ranks on {nodes} nodes, in the order that was computed"
    brief = f"{len(seen)} ranks on {nodes} nodes in the computed order"
    return verdict("nodes", AS_PLANNED, because, brief)


def ranks_verdict(
    seen: Records, world_size: int, twice: Mapping[int, Sequence[str]], waited_s: float
) -> Verdict | None:
    """Ranks of which there is no line, or more than one; None where each has one."""
    wrong = []
    for rank, others in sorted(twice.items()):
        nodes = ", ".join(sorted([seen[rank]["node"], *others]))
        wrong.append(f"{1 + len(others)} processes are rank {rank}: on {nodes}")
    lacking = world_size - len(seen)
    if lacking:
        wrong.append(f"{lacking} of {world_size} ranks left no line within {waited_s:g} s")
    return verdict("ranks", DIFFERS, some(wrong)) if wrong else None


def cpus_verdict(seen: Records) -> Verdict | None:
    """Whether ranks are on the cores of the plan of their node; None where nothing was planned."""
    ranks = sorted(seen.items())
    failed = [f"rank {rank} is not bound: {one['failed']}" for rank, one in ranks if one["failed"]]
    planned = [(rank, one) for rank, one in ranks if one["planned_cpus"]]
    wrong = [
        f"rank {rank} may use CPUs {one['cpus']}, planned {one['planned_cpus']}"
        for rank, one in planned
        if one["cpus"] != one["planned_cpus"]
    ]
    if failed or wrong:
        return verdict("cpus", DIFFERS, some(failed + wrong))
    why = {one["node"]: one["shared"] for _, one in ranks if one["shared"]}
    if why:
        node, first = next(iter(why.items()))
        because = f"nothing is bound on node {node}: {first}"
        because += f"; {len(why) - 1} more nodes" if len(why) > 1 else ""
        return verdict("cpus", NOT_ENFORCEABLE, because)
    if not planned:
        return None
    because = f"{len(planned)} ranks on the CPUs that were planned for them"
    return verdict("cpus", AS_PLANNED, because, f"{len(planned)} on their CPUs")


def devices_verdicts(seen: Records) -> Iterable[Verdict]:
    """GPUs and NICs: what the program takes is its own choice, which nobody sees beforehand."""
    gpus = sum(bool(one["planned_gpus"]) for one in seen.values())
    if gpus:
        because = f"{gpus} ranks have a GPU planned; the program chooses among those that it sees"
        yield verdict("gpus", NOT_ENFORCEABLE, because)
    nics = sum(bool(one["planned_nics"]) for one in seen.values())
    if nics:
        because = f"{nics} ranks have a NIC planned (HPCKIT_NIC); the library that talks chooses"
        yield verdict("nics", NOT_ENFORCEABLE, because)


def environment_verdict(seen: Records) -> Verdict | None:
    """Whether the variables of communication are alike; None where no rank has any."""
    wrong: list[str] = []
    of_local: dict[int | None, tuple[int, Mapping[str, str]]] = {}
    first = min(seen, default=0)
    for rank, one in sorted(seen.items()):
        env = one["env"]
        alike, its = of_local.setdefault(one["local_rank"], (rank, env))
        for other, theirs, is_of_all in ((first, seen[first]["env"], True), (alike, its, False)):
            names = sorted(name for name in {*env, *theirs} if (name in _OF_ALL) == is_of_all)
            wrong += [
                f"rank {rank} has {name}={env.get(name)}, rank {other} {theirs.get(name)}"
                for name in names
                if env.get(name) != theirs.get(name)
            ]
    if wrong:
        return verdict("env", DIFFERS, some(wrong))
    there = dict.fromkeys(name for one in seen.values() for name in one["env"])
    if not there:
        return None
    because = f"{', '.join(there)}: the same on {len(seen)} ranks"
    if any(its != seen[first]["env"] for _, its in of_local.values()):
        because = f"{because}, or on those of one local rank"
    return verdict("env", AS_PLANNED, because, "env the same")


def some(wrong: Sequence[str]) -> str:
    """The first of many."""
    more = f"; {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
    return "; ".join(wrong[:_MOST_NAMED]) + more
