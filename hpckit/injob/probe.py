"""The probe: says once what this node looks like, in lines that srun may mix with others'."""

from __future__ import annotations

import json
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpckit.parse.node_file import NodeSettings

_DRIVER_S = 30
_REST_S = 20


def probe(words: list[str], env: dict[str, str]) -> int | None:
    """Print this node's topology as `parse.probe_answer` reads it; None for a wrong command line.

    The one word is for how many seconds a driver is waited for, after which the rest is the answer.
    What hangs otherwise ends the probe a little later, so that no task is left on the node.
    """
    if len(words) > 1 or not all(word.isascii() and word.isdigit() for word in words):
        return None
    driver_s = int(words[0]) if words else _DRIVER_S
    from hpckit.errors import HpckitError
    from hpckit.parse.probe_answer import answer_lines, error_document

    signal.alarm(driver_s + _REST_S)
    node = env.get("SLURMD_NODENAME") or socket.gethostname()
    try:
        document = json.dumps(topology_tree(node, driver_s), separators=(",", ":")).encode()
    except HpckitError as error:
        document = error_document(error.message)
    sys.stdout.write("".join(f"{line}\n" for line in answer_lines(node, document)))
    sys.stdout.flush()
    return 0


def topology_tree(node: str, driver_s: int, settings: NodeSettings | None = None) -> dict[str, Any]:
    """What this node looks like, as a tree; `settings` are in place of the node's own.

    Raises HpckitError.
    """
    from pathlib import Path

    from hpckit.adapters.node_file import node_settings
    from hpckit.adapters.nvml import NvmlDriver
    from hpckit.adapters.sysfs import SysfsFiles
    from hpckit.app.inspect import inspect_here
    from hpckit.model.tree import to_tree

    settings = settings or node_settings()
    files = SysfsFiles(Path(settings.sysroot))
    stands_in = node if settings.is_synthetic else None
    tree: dict[str, Any] = to_tree(inspect_here(files, NvmlDriver(driver_s), stands_in=stands_in))
    return tree
