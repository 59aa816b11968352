"""Whether ranks are where they were planned: rank 0 reads what all have left, and says it once."""

from __future__ import annotations

import json
import os
import time

from hpckit.injob.place import lines_prefix, start_of
from hpckit.injob.talk import reason, say
from hpckit.model.place_files import HOSTS_FILE, NO_ORDER_FILE, PROOF_FILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROOF_SCHEMA = "hpckit.proof/1"
WAIT_S = 2.0
"""How long rank 0 waits for the others before it starts its command."""
LATE_S = 60.0
"""How long it goes on to look beside its command; with HPCKIT_STRICT, before it."""
MORE_S = 10.0
"""How much longer than rank 0 the others of a strict job wait for what it found."""
_FIRST_POLL_S, _LAST_POLL_S, _SLOWER = 0.05, 1.0, 1.5
_FIRST_WAIT_S = 0.1
_MOST_NAMED = 4

AS_PLANNED = "as planned"
DIFFERS = "differs"
NOT_ENFORCEABLE = "not enforceable here"


def prove(env: dict[str, str], world_size: int, log: int | None) -> None:
    """Compare, say it, write proof.json; with HPCKIT_STRICT a difference ends this rank.

    Waits WAIT_S at most for ranks that are late, and then goes on beside the command.
    """
    strict = env.get("HPCKIT_STRICT") == "1"
    seen = _gathered(env, world_size, LATE_S if strict else WAIT_S)
    if len(seen) < world_size and not strict:
        _later(env, world_size, log)
        return
    verdicts = _verdicts(env, seen, world_size)
    _say(verdicts, log, whole=strict)
    is_written = _write(env, verdicts, seen, log)
    if strict and (not is_written or _differs(verdicts)):
        apart = ", ".join(one["what"] for one in verdicts if one["verdict"] == DIFFERS)
        why = f"this differs: {apart}" if is_written else "the others cannot be told"
        say(f"the job ends here: --strict-placement, and {why}", log)
        raise SystemExit(1)


def await_proof(env: dict[str, str], log: int | None, limit_s: float = LATE_S + MORE_S) -> None:
    """Wait for what rank 0 of a strict job found; this rank ends with 1 unless it is good."""
    path = proof_path(env)
    until, poll_s = time.monotonic() + limit_s, _FIRST_WAIT_S
    while True:
        verdicts = _found(path)
        if verdicts is not None:
            break
        if time.monotonic() > until:
            why = f"rank 0 told nothing within {limit_s:g} s"
            say(f"the job ends here: --strict-placement, and {why}", log)
            raise SystemExit(1)
        time.sleep(poll_s)
        poll_s = min(_SLOWER * poll_s, _LAST_POLL_S)
    if _differs(verdicts):
        raise SystemExit(1)


def proof_path(env: dict[str, str]) -> str:
    """The proof of a step's attempt; proof.json beside it leads to the latest."""
    step, attempt = start_of(env)
    stem, _, suffix = PROOF_FILE.rpartition(".")
    return f"{env['HPCKIT_PLACE']}/{stem}.step-{step}.attempt-{attempt}.{suffix}"


def _found(path: str) -> list[dict[str, str]] | None:
    try:
        # What another client of a network file system made is seen once the folder is asked anew.
        os.listdir(os.path.dirname(path))
        with open(path, "rb") as file:
            verdicts = json.load(file)["verdicts"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return verdicts if isinstance(verdicts, list) else None


def _differs(verdicts: list[dict[str, str]]) -> bool:
    return any(one["verdict"] == DIFFERS for one in verdicts)


def _later(env: dict[str, str], world_size: int, log: int | None) -> None:
    import _thread

    def look() -> None:
        seen = _gathered(env, world_size, LATE_S)
        verdicts = _verdicts(env, seen, world_size)
        _say(verdicts, log)
        _write(env, verdicts, seen, log)

    try:
        _thread.start_new_thread(look, ())
    except RuntimeError:
        return


# --- what ranks have left -------------------------------------------------------------------------


def _gathered(env: dict[str, str], world_size: int, limit_s: float) -> dict[int, dict[str, Any]]:
    """What ranks have left, by rank: of all of them, or of those that were there in time."""
    until, poll_s = time.monotonic() + limit_s, _FIRST_POLL_S
    lines = _Lines(env["HPCKIT_PLACE"], lines_prefix(start_of(env)))
    while True:
        lines.look(until)
        if len(lines.ranks) >= world_size or time.monotonic() > until:
            return lines.ranks
        time.sleep(max(0.0, min(poll_s, until - time.monotonic())))
        poll_s = min(_SLOWER * poll_s, _LAST_POLL_S)


class _Lines:
    """The files of lines of a start, each read on until it has those of all ranks of its node."""

    def __init__(self, folder: str, prefix: str) -> None:
        self.ranks: dict[int, dict[str, Any]] = {}
        self._folder, self._prefix = folder, prefix
        self._at: dict[str, int] = {}
        self._ranks_of: dict[str, set[int]] = {}
        self._whole: set[str] = set()

    def look(self, until: float) -> None:
        """Read what is new, until that time."""
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
            self._take(name, line)

    def _take(self, name: str, line: bytes) -> None:
        try:
            record = json.loads(line)
            rank, each = int(record["rank"]), int(record.get("local_world_size") or 0)
        except (ValueError, KeyError, TypeError, AttributeError):
            return
        self.ranks[rank] = record
        of_node = self._ranks_of.setdefault(name, set())
        of_node.add(rank)
        if each and len(of_node) >= each:
            self._whole.add(name)


# --- what is compared -----------------------------------------------------------------------------


def _verdicts(
    env: dict[str, str], seen: dict[int, dict[str, Any]], world_size: int
) -> list[dict[str, str]]:
    verdicts = [
        verdict
        for verdict in (
            _nodes(env, seen, world_size),
            _cpus(env, seen),
            _nics(seen),
            _environment(seen),
        )
        if verdict is not None
    ]
    if len(seen) < world_size:
        what = f"{world_size - len(seen)} of {world_size} ranks left no line within {LATE_S:g} s"
        verdicts.append({"what": "ranks", "verdict": DIFFERS, "because": what})
    return verdicts


def _say(verdicts: list[dict[str, str]], log: int | None, *, whole: bool = False) -> None:
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
    brief = {one["what"]: one["brief"] for one in verdicts if one.get("brief")}
    placed = [brief[what] for what in ("nodes", "cpus") if what in brief]
    if placed:
        same = f"; {brief['env']}" if "env" in brief else ""
        say(f"placement  {AS_PLANNED}: {', '.join(placed)}{same}", log)


def _nodes(
    env: dict[str, str], seen: dict[int, dict[str, Any]], world_size: int
) -> dict[str, str] | None:
    """Each line of the order stands for as many ranks: for one, or for those of a launcher."""
    folder = env["HPCKIT_PLACE"]
    hosts = _text(f"{folder}/{HOSTS_FILE}").split()
    if not hosts:
        why = _text(f"{folder}/{NO_ORDER_FILE}").strip()
        because = f"ranks are in Slurm's own order: {why}"
        return {"what": "nodes", "verdict": NOT_ENFORCEABLE, "because": because} if why else None
    by_line = max(1, world_size // len(hosts))
    wrong = [
        f"rank {rank} is on {one.get('node')}, planned {hosts[rank // by_line]}"
        for rank, one in sorted(seen.items())
        if rank // by_line < len(hosts) and hosts[rank // by_line] != one.get("node")
    ]
    nodes = len(set(hosts))
    if not wrong:
        because = f"{len(seen)} ranks on {nodes} nodes, in the order that was computed"
        brief = f"{len(seen)} ranks on {nodes} nodes in the computed order"
        return {"what": "nodes", "verdict": AS_PLANNED, "because": because, "brief": brief}
    if not _is_ordered(env):
        because = "srun took no order of nodes, so the ranks are in Slurm's own"
        return {"what": "nodes", "verdict": NOT_ENFORCEABLE, "because": because}
    return {"what": "nodes", "verdict": DIFFERS, "because": _some(wrong)}


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):
        return ""


def _is_ordered(env: dict[str, str]) -> bool:
    """Whether ranks have to be in the order: srun took it, or they are numbered by the map."""
    return env.get("HPCKIT_ORDERED") == "1" or bool(env.get("HPCKIT_RANK_MAP"))


def _cpus(env: dict[str, str], seen: dict[int, dict[str, Any]]) -> dict[str, str] | None:
    if env.get("HPCKIT_BIND") != "1":
        return None
    ranks = sorted(seen.items())
    failed = [f"rank {rank} is not bound: {one['failed']}" for rank, one in ranks
              if one.get("failed")]  # fmt: skip
    planned = [(rank, one) for rank, one in ranks if one.get("planned_cpus")]
    wrong = [
        f"rank {rank} may use CPUs {one.get('cpus')}, planned {one['planned_cpus']}"
        for rank, one in planned
        if one.get("cpus") != one["planned_cpus"]
    ]
    if failed or wrong:
        return {"what": "cpus", "verdict": DIFFERS, "because": _some(failed + wrong)}
    why = {str(one.get("node")): one["shared"] for _, one in ranks if one.get("shared")}
    if why:
        node, first = next(iter(why.items()))
        because = f"nothing is bound on node {node}: {first}"
        because += f"; {len(why) - 1} more nodes" if len(why) > 1 else ""
        return {"what": "cpus", "verdict": NOT_ENFORCEABLE, "because": because}
    if not planned:
        return None
    because = f"{len(planned)} ranks on the CPUs that were planned for them"
    brief = f"{len(planned)} on their CPUs"
    return {"what": "cpus", "verdict": AS_PLANNED, "because": because, "brief": brief}


def _nics(seen: dict[int, dict[str, Any]]) -> dict[str, str] | None:
    planned = sum(bool(one.get("nics")) for one in seen.values())
    if not planned:
        return None
    because = f"{planned} ranks have a NIC planned (HPCKIT_NIC); the library that talks chooses"
    return {"what": "nics", "verdict": NOT_ENFORCEABLE, "because": because}


def _environment(seen: dict[int, dict[str, Any]]) -> dict[str, str] | None:
    first = seen.get(0, {}).get("env")
    if not first:
        return None
    wrong = []
    for rank, one in sorted(seen.items()):
        other = one.get("env") or {}
        for name in sorted({*first, *other}):
            if first.get(name) != other.get(name):
                wrong.append(f"rank {rank} has {name}={other.get(name)}, rank 0 {first.get(name)}")
    if wrong:
        return {"what": "env", "verdict": DIFFERS, "because": _some(wrong)}
    because = f"{', '.join(first)}: the same on {len(seen)} ranks"
    brief = "env the same"
    return {"what": "env", "verdict": AS_PLANNED, "because": because, "brief": brief}


def _some(wrong: list[str]) -> str:
    more = f"; {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
    return "; ".join(wrong[:_MOST_NAMED]) + more


def _write(
    env: dict[str, str],
    verdicts: list[dict[str, str]],
    seen: dict[int, dict[str, Any]],
    log: int | None,
) -> bool:
    """Write the proof, whole or not at all; whether it was."""
    path = proof_path(env)
    kept = ("what", "verdict", "because")
    document = {
        "schema": PROOF_SCHEMA,
        "verdicts": [{name: one[name] for name in kept} for one in verdicts],
        "ranks": [seen[rank] for rank in sorted(seen)],
    }
    folder, name = os.path.split(path)
    temporary = f"{folder}/.{name}"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(document, file, separators=(",", ":"))
        os.replace(temporary, path)
    except OSError as error:
        say(f"warning: {name} cannot be written: {reason(error)}", log)
        return False
    try:
        os.symlink(name, temporary)
        os.replace(temporary, f"{folder}/{PROOF_FILE}")
    except OSError as error:
        say(f"warning: {PROOF_FILE} does not lead to {name}: {reason(error)}", log)
    return True
