"""The command line inside a job: one verb each."""

from __future__ import annotations

import gc
import os
import sys

from hpckit import __version__

USAGE = """\
usage: hpckit-injob rank --from slurm|env|mpi|NAME,NAME,NAME,NAME,NAME -- COMMAND [ARGUMENT...]
       hpckit-injob run [--local [--ranks N]] [--order [--keep-numbers]] [--bind] [--strict]
                        [--measure HZ] [--kill-wait SECONDS] -- COMMAND [ARGUMENT...]
       hpckit-injob node -- COMMAND [ARGUMENT...]
       hpckit-injob port --job-id TEXT [--array-task N] [--step N]
       hpckit-injob probe [SECONDS]
       hpckit-injob sample --out DIR [--hz F] [--duration SECONDS] [--parent PID]
       hpckit-injob topology DIR FILE PARENT_PID
       hpckit-injob order PLAN TASKS_PER_NODE DIR < NODES
       hpckit-injob --version
"""


def main(words: list[str]) -> int:
    """Run the verb that `words` names and return the exit code, 2 for a wrong command line."""
    # What is loaded stays: to look for garbage meanwhile takes a rank 2 ms, and there is none.
    gc.disable()
    code = _run(words)
    if code is None:
        sys.stderr.write(USAGE)
        return 2
    return code


def _run(words: list[str]) -> int | None:
    """Run a verb, which loads only its own modules: the start of a rank is on the job's clock."""
    verb, rest = (words[0], words[1:]) if words else ("", [])
    if verb == "rank":
        from hpckit.injob.entry import rank

        return rank(rest, dict(os.environ))
    if verb == "run":
        from hpckit.injob.runner import run

        return run(rest, dict(os.environ))
    if verb == "node":
        from hpckit.injob.entry import node

        return node(rest, dict(os.environ))
    return _prepare(verb, rest)


def _prepare(verb: str, rest: list[str]) -> int | None:
    """The verbs of what the runner does before the command."""
    if verb == "port":
        from hpckit.injob.port import port

        return port(rest)
    if verb == "order":
        from hpckit.placement.in_job import order

        return order(rest)
    return _look(verb, rest)


def _look(verb: str, rest: list[str]) -> int | None:
    """The verbs that look at a node."""
    if verb == "probe":
        from hpckit.node.probe import probe

        return probe(rest, dict(os.environ))
    if verb == "sample":
        # The collector stays off: nothing that a tick makes is part of a cycle.
        from hpckit.sampler.main import sample

        return sample(rest, dict(os.environ))
    if verb == "topology":
        from hpckit.sampler.topology import topology

        return topology(rest, dict(os.environ))
    if verb == "--version" and not rest:
        sys.stdout.write(f"hpckit-injob {__version__}\n")
        return 0
    return None
