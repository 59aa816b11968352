"""What a node looks like, written beside its samples: a short process that the sampler starts."""

from __future__ import annotations

import json
import os
import signal

from hpckit import __version__
from hpckit.core.files_in_job import write_whole
from hpckit.core.talk import reason, sampler_on, say

TYPE_CHECKING = False

if TYPE_CHECKING:
    from hpckit.node.node_file import NodeSettings


LIMIT_S = 60
"""Then it is killed, whatever it does."""
_DRIVER_S = 30
_WORDS = 3
_PR_SET_PDEATHSIG = 1
"""Source: linux/prctl.h."""


def topology(words: list[str], env: dict[str, str]) -> int | None:
    """Write this node's topology; None for a wrong command line, else 0 whatever happens.

    The words are the job folder, the file below it, and the process that started this one, with
    which it ends. What went wrong is one line on stderr.
    """
    if len(words) != _WORDS or not (words[2].isascii() and words[2].isdigit()):
        return None
    root, target, parent = words
    signal.alarm(LIMIT_S)
    if not _ends_with(int(parent)):
        return 0
    try:
        write_topology(root, target, env.get("SLURMD_NODENAME") or os.uname().nodename)
    except OSError as error:
        say(f"{sampler_on(env)}: the topology: {error.filename or target}: {reason(error)}")
    except Exception as error:  # noqa: BLE001  whatever it is, it must not fail the job
        say(f"{sampler_on(env)}: the topology: {type(error).__name__}: {error}")
    return 0


def write_topology(root: str, target: str, node: str, settings: NodeSettings | None = None) -> None:
    """Write the document to `target` below `root`, at once or not at all, unless it is there.

    `settings` are in place of the node's own. Raises OSError, HpckitError.
    """
    path = f"{root}/{target}"
    if os.path.lexists(path):
        return
    from hpckit.node.probe import topology_tree
    from hpckit.node.topology import TOPOLOGY_SCHEMA

    head = {"schema": TOPOLOGY_SCHEMA, "hpckit": __version__}
    tree = {**head, **topology_tree(node, _DRIVER_S, settings)}
    data = json.dumps(tree, separators=(",", ":")).encode()
    # A job folder that was removed stays so; what lies in it is made.
    os.stat(root)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    write_whole(path, data)


def _ends_with(parent: int) -> bool:
    """Let the kernel end this process with `parent`; false where that is gone already."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    except (ImportError, OSError, AttributeError):
        # The time limit holds all the same.
        pass
    return os.getppid() == parent
