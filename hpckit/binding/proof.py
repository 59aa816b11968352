"""Whether ranks are where they were planned: rank 0 reads what all have left, and says it once.

Each part of what they say is a verdict with its reason.
"""

from __future__ import annotations

import json
import os
import time

from hpckit.core.files_in_job import MOST_BYTES, read_bytes, write_whole
from hpckit.core.talk import reason, say
from hpckit.spec.folder_in_job import (
    HOSTS_FILE,
    NO_ORDER_FILE,
    PLAN_FILE,
    PROOF_FILE,
    lines_prefix,
    start_of,
)

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, Final

    Records = Mapping[int, Mapping[str, Any]]


PROOF_SCHEMA = "hpckit.proof/1"
WAIT_S = 2.0
"""How long rank 0 waits for the others before it starts its command."""
LATE_S = 60.0
"""How long it goes on to look beside its command; with HPCKIT_STRICT, before it."""
MORE_S = 10.0
"""How much longer than rank 0 the others of a strict job wait for what it found."""
_RANKS_A_POLL = 1000
"""Of so many ranks each asks the storage once in _LAST_POLL_S; more ranks ask less often."""
_FIRST_POLL_S, _LAST_POLL_S, _SLOWER = 0.05, 1.0, 1.5


def prove(env: dict[str, str], world_size: int, log: int | None) -> None:
    """Compare, say it, write proof.json; with HPCKIT_STRICT a difference ends this rank.

    Waits WAIT_S at most for ranks that are late, and then goes on beside the command.
    """
    strict = env.get("HPCKIT_STRICT") == "1"
    lines = Lines(env["HPCKIT_PLACE"], lines_prefix(start_of(env)), world_size)
    lines.gather(LATE_S if strict else WAIT_S)
    if len(lines.ranks) < world_size and not strict:
        _later(env, world_size, lines, log)
        return
    verdicts = _verdicts(env, world_size, lines)
    _say(verdicts, log, whole=strict)
    is_written = _write(env, verdicts, lines, log)
    if strict and (not is_written or _differs(verdicts)):
        apart = ", ".join(one["what"] for one in verdicts if one["verdict"] == DIFFERS)
        why = f"not as planned: {apart}" if is_written else "the other ranks get no report"
        say(f"--strict-placement ends the job: {why}", log)
        raise SystemExit(1)


def await_proof(
    env: dict[str, str], world_size: int, log: int | None, limit_s: float = LATE_S + MORE_S
) -> None:
    """Wait for what rank 0 of a strict job found; this rank ends with 1 unless it is good."""
    path = proof_path(env)
    until, poll_s = time.monotonic() + limit_s, 0.1
    slowest_s = _LAST_POLL_S * max(1.0, min(world_size / _RANKS_A_POLL, MORE_S / 2))
    while True:
        verdicts = _found(path)
        if verdicts is not None:
            break
        if time.monotonic() > until:
            why = f"no report from rank 0 within {limit_s:g} s"
            say(f"--strict-placement ends the job: {why}", log)
            raise SystemExit(1)
        time.sleep(poll_s)
        poll_s = min(_SLOWER * poll_s, slowest_s)
    if _differs(verdicts):
        raise SystemExit(1)


def proof_path(env: dict[str, str]) -> str:
    """The proof of a step's attempt; proof.json beside it leads to the latest."""
    step, attempt = start_of(env)
    stem, _, suffix = PROOF_FILE.rpartition(".")
    return f"{env['HPCKIT_PLACE']}/{stem}.step-{step}.attempt-{attempt}.{suffix}"


def _found(path: str) -> list[Verdict] | None:
    """The verdicts of a proof; None while there is none, or one that cannot be read."""
    try:
        # What another client of a network file system made is seen once the folder is asked anew.
        os.listdir(os.path.dirname(path))
        with open(path, "rb") as file:
            document: dict[str, list[Verdict]] = json.load(file)
    except (OSError, ValueError):
        return None
    return document["verdicts"]


def _differs(verdicts: list[Verdict]) -> bool:
    return any(one["verdict"] == DIFFERS for one in verdicts)


def _later(env: dict[str, str], world_size: int, lines: Lines, log: int | None) -> None:
    import _thread

    def look() -> None:
        try:
            lines.gather(LATE_S)
            verdicts = _verdicts(env, world_size, lines)
            _say(verdicts, log)
            _write(env, verdicts, lines, log)
        except Exception as error:  # noqa: BLE001  its traceback would be among the command's words
            say(f"warning: cannot verify the placement: {type(error).__name__}: {error}", log)

    try:
        _thread.start_new_thread(look, ())
    except RuntimeError:
        return


def _verdicts(env: dict[str, str], world_size: int, lines: Lines) -> list[Verdict]:
    seen = lines.ranks
    found = [
        _nodes(env, world_size, lines),
        cpus_verdict(seen) if env.get("HPCKIT_BIND") == "1" else None,
        *devices_verdicts(seen),
        environment_verdict(seen),
        container_verdict(seen),
        ranks_verdict(seen, world_size, lines.twice, LATE_S),
        _world(env, seen),
    ]
    return [one for one in found if one is not None]


def _nodes(env: dict[str, str], world_size: int, lines: Lines) -> Verdict | None:
    folder = env["HPCKIT_PLACE"]
    hosts = _text(f"{folder}/{HOSTS_FILE}").split()
    # Ranks have to be in the order where srun took it, or where they are numbered by the map.
    is_ordered = env.get("HPCKIT_ORDERED") == "1" or bool(env.get("HPCKIT_RANK_MAP"))
    if not hosts and not is_ordered:
        why = _text(f"{folder}/{NO_ORDER_FILE}").strip()
        because = f"ranks are in Slurm's own order: {why}"
        return verdict("nodes", NOT_ENFORCEABLE, because) if why else None
    found = nodes_verdict(lines.ranks, world_size, hosts)
    if found["verdict"] == DIFFERS and not is_ordered:
        because = "srun rejected the node order; ranks are in Slurm's own order"
        return verdict("nodes", NOT_ENFORCEABLE, because)
    return found


def _world(env: dict[str, str], seen: Records) -> Verdict | None:
    try:
        plan = json.loads(_text(f"{env.get('HPCKIT_JOB_FOLDER', '')}/{PLAN_FILE}"))
    except ValueError:
        return None
    return world_verdict(seen, plan["ntasks"], is_mpi=plan["rank_source"] == "mpi")


def _text(path: str) -> str:
    return read_bytes(path, MOST_BYTES).decode("utf-8", "surrogateescape")


def _say(verdicts: list[Verdict], log: int | None, *, whole: bool = False) -> None:
    """A table where something is not as planned, or is wanted; else one line, or none."""
    notable = [
        one
        for one in verdicts
        if one["verdict"] == DIFFERS
        or (one["verdict"] == NOT_ENFORCEABLE and one["what"] in {"nodes", "cpus"})
    ]
    if whole or notable:
        for one in verdicts:
            say(f"placement  {one['what']:<5}  {one['verdict']:<20}  {one['because']}", log)
        return
    brief = {one["what"]: one["brief"] for one in verdicts if one["brief"]}
    placed = [brief[what] for what in ("nodes", "cpus") if what in brief]
    if placed:
        same = f"; {brief['env']}" if "env" in brief else ""
        say(f"placement  {AS_PLANNED}: {', '.join(placed)}{same}", log)


def _write(
    env: dict[str, str],
    verdicts: list[Verdict],
    lines: Lines,
    log: int | None,
) -> bool:
    """Write the proof whole, and return whether it was."""
    path = proof_path(env)
    kept = ("what", "verdict", "because")
    document = {
        "schema": PROOF_SCHEMA,
        "verdicts": [{name: one[name] for name in kept} for one in verdicts],
        "ranks": [lines.ranks[rank] for rank in sorted(lines.ranks)],
    }
    folder, name = os.path.split(path)
    try:
        write_whole(path, json.dumps(document, separators=(",", ":")).encode())
    except OSError as error:
        say(f"warning: {name} cannot be written: {reason(error)}", log)
        return False
    temporary = f"{folder}/.{name}"
    try:
        os.symlink(name, temporary)
        os.replace(temporary, f"{folder}/{PROOF_FILE}")
    except OSError as error:
        say(f"warning: cannot link {PROOF_FILE} to {name}: {reason(error)}", log)
    return True


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
        until, poll_s = time.monotonic() + limit_s, _FIRST_POLL_S
        while True:
            self._look(until)
            if len(self.ranks) >= len(self._all) or time.monotonic() > until:
                return
            time.sleep(max(0.0, min(poll_s, until - time.monotonic())))
            poll_s = min(_SLOWER * poll_s, _LAST_POLL_S)

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


def proof_words(verdicts: Sequence[Verdict]) -> str:
    """What a proof says, in a line: where it differs; else what was enforced, and what was not."""
    for found in (DIFFERS, NOT_ENFORCEABLE, AS_PLANNED):
        reasons = [
            one["because"]
            for one in verdicts
            if one["verdict"] == found and (found == DIFFERS or one["what"] in {"nodes", "cpus"})
        ]
        if reasons:
            return f"{found}: {'; '.join(reasons)}"
    return ""


def nodes_verdict(seen: Records, world_size: int, hosts: Sequence[str]) -> Verdict:
    """Whether ranks are on the nodes of an order, a line of which is one rank's or a launcher's."""
    if not hosts or world_size % len(hosts):
        because = f"the node order has {len(hosts)} lines, which do not fit {world_size} ranks"
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
    because = f"{len(seen)} ranks on {nodes} nodes, in the computed order"
    brief = f"{len(seen)} ranks on {nodes} nodes in the computed order"
    return verdict("nodes", AS_PLANNED, because, brief)


def ranks_verdict(
    seen: Records, world_size: int, twice: Mapping[int, Sequence[str]], waited_s: float
) -> Verdict | None:
    """Ranks of which there is no line, or more than one; None where each has one."""
    wrong = []
    for rank, others in sorted(twice.items()):
        nodes = ", ".join(sorted([seen[rank]["node"], *others]))
        wrong.append(f"{1 + len(others)} processes have rank {rank}: on {nodes}")
    lacking = world_size - len(seen)
    if lacking:
        wrong.append(f"no report from {lacking} of {world_size} ranks within {waited_s:g} s")
    return verdict("ranks", DIFFERS, some(wrong)) if wrong else None


def world_verdict(seen: Records, planned: int, *, is_mpi: bool) -> Verdict:
    """Whether each rank finds as many ranks as were planned, by its library's own variables."""
    wrong = []
    for rank, one in sorted(seen.items()):
        mpi_rank, mpi_size = one["mpi"] if is_mpi else (rank, None)
        size = one["world_size"] if mpi_size is None else mpi_size
        if mpi_rank is None:
            wrong.append(f"rank {rank} finds neither PMIx nor PMI: MPI sees it as rank 0 of 1")
        elif size != planned:
            wrong.append(f"rank {rank} sees a world size of {size}, planned {planned}")
    if wrong:
        return verdict("world", DIFFERS, some(wrong))
    return verdict("world", AS_PLANNED, f"world size {planned} on each rank")


def cpus_verdict(seen: Records) -> Verdict | None:
    """Whether ranks are on the cores of the plan of their node; None where nothing was planned."""
    ranks = sorted(seen.items())
    failed = [f"rank {rank} is not bound: {one['failed']}" for rank, one in ranks if one["failed"]]
    planned = [(rank, one) for rank, one in ranks if one["planned_cpus"]]
    wrong = [
        f"rank {rank} has CPUs {one['cpus']}, planned {one['planned_cpus']}"
        for rank, one in planned
        if one["cpus"] != one["planned_cpus"]
    ]
    if failed or wrong:
        return verdict("cpus", DIFFERS, some(failed + wrong))
    why = {one["node"]: one["shared"] for _, one in ranks if one["shared"]}
    if why:
        node, first = next(iter(why.items()))
        because = f"no rank is bound on node {node}: {first}"
        because += f"; {len(why) - 1} more nodes" if len(why) > 1 else ""
        return verdict("cpus", NOT_ENFORCEABLE, because)
    if not planned:
        return None
    because = f"{len(planned)} ranks on their planned CPUs"
    return verdict("cpus", AS_PLANNED, because, f"{len(planned)} on their CPUs")


def devices_verdicts(seen: Records) -> Iterable[Verdict]:
    """GPUs and NICs: what the program takes is its own choice, which nobody sees beforehand."""
    gpus = sum(bool(one["planned_gpus"]) for one in seen.values())
    if gpus:
        because = f"{gpus} ranks have a planned GPU; the program selects from its visible GPUs"
        yield verdict("gpus", NOT_ENFORCEABLE, because)
    nics = sum(bool(one["planned_nics"]) for one in seen.values())
    if nics:
        because = f"{nics} ranks have a planned NIC (HPCKIT_NIC); the communication library selects"
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
                f"rank {rank} has {name}={env.get(name)}, rank {other} has {theirs.get(name)}"
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
        because = f"{because}, or per local rank"
    return verdict("env", AS_PLANNED, because, "env the same")


def container_verdict(seen: Records) -> Verdict | None:
    """Whether each variable reached the ranks inside; None where they run in no container."""
    inside = {rank: one["lost"] for rank, one in seen.items() if one.get("lost") is not None}
    if not inside:
        return None
    wrong = [f"rank {rank} has {text}" for rank, lost in sorted(inside.items()) for text in lost]
    if wrong:
        return verdict("container", DIFFERS, some(wrong))
    because = f"the job's variables are the same in the container on {len(inside)} ranks"
    return verdict("container", AS_PLANNED, because, "all inside")


def some(wrong: Sequence[str]) -> str:
    """The first of many."""
    more = f"; {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
    return "; ".join(wrong[:_MOST_NAMED]) + more
