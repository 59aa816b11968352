"""srun, asked to run hpckit's probe once on each of some nodes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_MOST_WORDS: Final = 20


def srun_probe_argv(
    nodes: Sequence[str], python: str, archive: str, options: Sequence[str]
) -> tuple[str, ...]:
    """The command: one task a node, beside whatever runs there, and none ends the others.

    Source: srun(1). Without `--wait=0` the tasks would be ended 60 s after the first one.
    """
    count = len(nodes)
    return (
        "srun",
        f"--nodelist={','.join(nodes)}",
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
        *options,
        "sh",
        "-c",
        'p=$0; command -v "$p" >/dev/null || p=python3; exec "$p" -I "$1" probe',
        python,
        archive,
    )


def words_about(node: str, lines: Sequence[str]) -> str | None:
    """What srun said about a node, None if nothing: `srun: error: c3: task 2: ...`."""
    named = re.compile(rf"(?<![\w.-]){re.escape(node)}(?![\w-])")
    found = [line.strip() for line in lines if named.search(line)]
    return "; ".join(dict.fromkeys(found[:_MOST_WORDS])) or None
