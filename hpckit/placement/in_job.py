"""The order of a job's nodes, computed where it starts, on the nodes that it was granted."""

from __future__ import annotations

import json
import os
import sys

from hpckit.core.files_in_job import make_folders, write_whole
from hpckit.core.talk import reason, say
from hpckit.spec.folder_in_job import HOSTS_FILE, NO_ORDER_FILE, WAITING_FILE

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence


_WORDS = 3
_MOST_NAMED = 8


def order(words: list[str]) -> int | None:
    """Write the order of the nodes on standard input; None for a wrong command line, else 0 or 1.

    The words are the plan (`order.json`), the tasks of each node, and the folder to write into,
    which is made. The file's path goes to standard output. Where there is no order, why is one line
    and a file; the code is 0 where the plan is not of these nodes, and 1 where anything went wrong.
    """
    if len(words) != _WORDS or not (words[1].isascii() and words[1].isdigit() and int(words[1])):
        return None
    plan_file, tasks, folder = words[0], int(words[1]), words[2]
    try:
        nodes = sys.stdin.buffer.read().decode("utf-8", "surrogateescape").split()
    except OSError as error:
        say(f"warning: ranks are in Slurm's own order: {reason(error)}")
        return 1
    path, code = order_file(plan_file, nodes, tasks, folder)
    if path is not None:
        sys.stdout.write(f"{path}\n")
    return code


def order_file(
    plan_file: str, nodes: Sequence[str], tasks: int, folder: str
) -> tuple[str | None, int]:
    """Write the order of `nodes` into `folder`; return the file, None without one, and the code.

    It never raises: what went wrong is one line, and a file for the proof.
    """
    code = 1
    try:
        ordered, why = _ordered(plan_file, nodes)
        if ordered:
            return _write(folder, ordered, tasks), 0
        code = 0
    except OSError as error:
        why = f"{error.filename or folder}: {reason(error)}"
    except Exception as error:  # noqa: BLE001  whatever it is, it must not fail the job
        why = f"{type(error).__name__}: {error}"
    say(f"warning: ranks are in Slurm's own order: {why}")
    try:
        # For the proof, which says it again beside what ranks saw.
        make_folders(folder)
        with open(f"{folder}/{NO_ORDER_FILE}", "w", encoding="utf-8", errors="replace") as file:
            file.write(f"{why}\n")
    except OSError:
        pass
    return None, code


def _ordered(plan_file: str, nodes: Sequence[str]) -> tuple[Sequence[str], str]:
    """The nodes in the order of their ranks, or none, and why."""
    from hpckit.core.errors import PlanError
    from hpckit.placement.order import PlacementRequest, order_of
    from hpckit.placement.order_plan import order_of_tree

    with open(plan_file, "rb") as file:
        plan = order_of_tree(json.load(file))
    lost = sorted(set(nodes) - set(plan.locality.domain_of))
    if len(lost) == len(set(nodes)):
        return (), "none of these nodes was in the cluster's topology at submission"
    if lost:
        more = f" and {len(lost) - _MOST_NAMED} more" if len(lost) > _MOST_NAMED else ""
        named = ", ".join(lost[:_MOST_NAMED])
        say(f"note: placed last, not in the cluster's topology at submission: {named}{more}")
    request = PlacementRequest(
        nodes=tuple(nodes),
        ranks_per_node=plan.ranks_per_node,
        mesh=plan.mesh,
        locality=plan.locality,
        speeds=plan.speeds,
        listed=tuple(nodes),
        first=nodes[0],
        segment=plan.segment,
    )
    try:
        return order_of(request), ""
    except PlanError as error:
        return (), error.message


def _write(folder: str, ordered: Sequence[str], tasks: int) -> str:
    """Write the file of hosts; return its path, which srun takes as one if it has a slash."""
    make_folders(folder)
    path = os.path.join(os.path.abspath(folder), HOSTS_FILE)
    text = "".join(f"{node}\n" * tasks for node in ordered)
    os.close(os.open(f"{folder}/{WAITING_FILE}", os.O_CREAT | os.O_WRONLY, 0o600))
    write_whole(path, text.encode("utf-8", "surrogateescape"))
    return path
