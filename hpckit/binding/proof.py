"""Whether ranks are where they were planned: rank 0 reads what all have left, and says it once."""

from __future__ import annotations

import json
import os
import time

from hpckit.binding.verdicts import (
    AS_PLANNED,
    DIFFERS,
    LAST_POLL_S,
    NOT_ENFORCEABLE,
    SLOWER,
    Lines,
    Verdict,
    cpus_verdict,
    devices_verdicts,
    environment_verdict,
    nodes_verdict,
    ranks_verdict,
    verdict,
)
from hpckit.core.files_in_job import write_whole
from hpckit.core.talk import reason, say
from hpckit.spec.folder import HOSTS_FILE, NO_ORDER_FILE, PROOF_FILE, lines_prefix, start_of

PROOF_SCHEMA = "hpckit.proof/1"
WAIT_S = 2.0
"""How long rank 0 waits for the others before it starts its command."""
LATE_S = 60.0
"""How long it goes on to look beside its command; with HPCKIT_STRICT, before it."""
MORE_S = 10.0
"""How much longer than rank 0 the others of a strict job wait for what it found."""
_FIRST_WAIT_S = 0.1
_RANKS_A_POLL = 1000
"""Of so many ranks each asks the storage once in LAST_POLL_S at most; more ranks ask less often."""


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
        why = f"this differs: {apart}" if is_written else "the others cannot be told"
        say(f"the job ends here: --strict-placement, and {why}", log)
        raise SystemExit(1)


def await_proof(
    env: dict[str, str], world_size: int, log: int | None, limit_s: float = LATE_S + MORE_S
) -> None:
    """Wait for what rank 0 of a strict job found; this rank ends with 1 unless it is good."""
    path = proof_path(env)
    until, poll_s = time.monotonic() + limit_s, _FIRST_WAIT_S
    slowest_s = LAST_POLL_S * max(1.0, min(world_size / _RANKS_A_POLL, MORE_S / 2))
    while True:
        verdicts = _found(path)
        if verdicts is not None:
            break
        if time.monotonic() > until:
            why = f"rank 0 told nothing within {limit_s:g} s"
            say(f"the job ends here: --strict-placement, and {why}", log)
            raise SystemExit(1)
        time.sleep(poll_s)
        poll_s = min(SLOWER * poll_s, slowest_s)
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
            say(f"warning: no proof of where ranks are: {type(error).__name__}: {error}", log)

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
        ranks_verdict(seen, world_size, lines.twice, LATE_S),
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
        because = "srun took no order of nodes, so the ranks are in Slurm's own"
        return verdict("nodes", NOT_ENFORCEABLE, because)
    return found


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):
        return ""


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
        say(f"warning: {PROOF_FILE} does not lead to {name}: {reason(error)}", log)
    return True
