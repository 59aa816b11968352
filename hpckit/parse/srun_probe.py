"""srun, asked to run hpckit's probe once on each of some nodes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from hpckit.model.hostlist import fold_hosts

_MOST_WORDS: Final = 20
# What the probe said last is said with the node's name: srun does not tell whose a line is. The
# newest Python is taken where the one of this host is not there: the system's own may be too old.
# On one line: it stands in the accounts as SubmitLine, whose readers take a line for a job.
_SCRIPT: Final = (
    'for p in "$0" python3.14 python3.13 python3.12 python3.11 python3; do '
    'command -v "$p" >/dev/null 2>&1 && break; done; '
    'exec 3>&1; said=$("$p" -I "$1" probe "$2" 2>&1 >&3 3>&-) && exit; code=$?; '
    "said=$(printf '%s\\n' \"$said\" | tail -n 1); "
    'echo "hpckit: $SLURMD_NODENAME: ${said:-the probe ended with $code}" >&2; exit $code'
)
# Refusals that may be those of one node among many. Source: Slurm's slurm_errno.c.
_OF_SOME_NODE: Final = re.compile(
    r"nodes are busy|node not available|node configuration is not available"
    r"|nodes? not in|execution impossible",
    re.IGNORECASE,
)


def srun_probe_argv(
    nodes: Sequence[str], python: str, archive: str, limit_s: int, options: Sequence[str]
) -> tuple[str, ...]:
    """The command: one task a node, beside whatever runs there, and none ends the others.

    `limit_s` is how long a probe may wait for a driver. Source: srun(1). Without `--wait=0` the
    tasks would be ended 60 s after the first one.
    """
    count = len(nodes)
    return (
        "srun",
        "--quiet",  # what it says else is an error
        f"--nodelist={fold_hosts(nodes)}",  # Linux takes 128 KiB in one argument, execve(2)
        f"--nodes={count}",
        f"--ntasks={count}",
        "--ntasks-per-node=1",
        "--cpus-per-task=1",
        "--overlap",
        "--no-kill",
        "--kill-on-bad-exit=0",
        "--wait=0",
        "--input=none",
        "--mpi=none",
        "--chdir=/",  # this host's folder may not be there, or hang there
        *options,
        "sh",
        "-c",
        _SCRIPT,
        python,
        archive,
        str(limit_s),
    )


def is_of_some_node(stderr: str) -> bool:
    """Whether srun started nothing for what may be true of a single one of the nodes."""
    return _OF_SOME_NODE.search(stderr) is not None


def words_about(node: str, lines: Sequence[str]) -> str | None:
    """What srun said about a node, None if nothing: `srun: error: c3: task 2: ...`."""
    named = re.compile(rf"(?<![\w.-]){re.escape(node)}(?![\w-])")
    found = [line.strip().removeprefix(f"{node}: ") for line in lines if named.search(line)]
    return "; ".join(dict.fromkeys(found[:_MOST_WORDS])) or None
