"""What the ranks of a step have left of where they are: a line each, in a file of their node."""

from __future__ import annotations

import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

FIRST_POLL_S, LAST_POLL_S, SLOWER = 0.05, 1.0, 1.5
_TEXTS: Final = ("node", "cpus", "planned_cpus", "shared", "failed", "visible")
_LISTS: Final = ("planned_gpus", "planned_nics")
_NUMBERS: Final = ("local_rank", "local_world_size")
_LONGEST: Final = 1000


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
            record = _record(line)
            if record is not None and record["rank"] in self._all:
                self._take(name, record)

    def _take(self, name: str, record: dict[str, Any]) -> None:
        rank, each = record["rank"], record["local_world_size"]
        if rank in self.ranks:
            self.twice.setdefault(rank, []).append(record["node"] or "?")
        else:
            self.ranks[rank] = record
        of_node = self._ranks_of.setdefault(name, set())
        of_node.add(rank)
        if each and len(of_node) >= each:
            self._whole.add(name)


def _record(line: bytes) -> dict[str, Any] | None:
    """A line's fields, each of its type or None; None for what is no line of a rank."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not _is_number(found.get("rank")):
        return None
    record: dict[str, Any] = {"rank": found["rank"]}
    for name in _NUMBERS:
        record[name] = found.get(name) if _is_number(found.get(name)) else None
    for name in _TEXTS:
        record[name] = _text(found.get(name))
    for name in _LISTS:
        listed = found.get(name)
        texts = map(_text, listed if isinstance(listed, list) else ())
        record[name] = [text for text in texts if text is not None]
    env = found.get("env")
    pairs = env.items() if isinstance(env, dict) else ()
    record["env"] = {name: str(value)[:_LONGEST] for name, value in pairs}
    return record


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text(value: object) -> str | None:
    return value[:_LONGEST] if isinstance(value, str) else None
