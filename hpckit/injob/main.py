"""The command line inside a job: one verb each."""

from __future__ import annotations

import gc
import os
import sys

from hpckit import __version__

USAGE = """\
usage: hpckit-injob rank --from slurm|env|mpi|NAME,NAME,NAME,NAME,NAME
                         [--tf-config | --ray | --horovod] -- COMMAND [ARGUMENT...]
       hpckit-injob run [--local [--ranks N]] [--order [--keep-numbers]] [--bind] [--strict]
                        [--container NAME,NAME...] [--component NAME]
                        [--secrets [--keep-secrets]] [--serve PORT[/PATH] [--idle SECONDS]]
                        [--measure HZ] [--kill-wait SECONDS] -- COMMAND [ARGUMENT...]
       hpckit-injob components --kill-wait SECONDS
                        {NAME PID [--service] [--after NAME,NAME] [--port PORT]}...
       hpckit-injob node -- COMMAND [ARGUMENT...]
       hpckit-injob ray -- COMMAND [ARGUMENT...]
       hpckit-injob port --job-id TEXT [--array-task N]
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
    if words == ["--version"]:
        sys.stdout.write(f"hpckit-injob {__version__}\n")
        return 0
    code = _run(words[0], words[1:], dict(os.environ)) if words else None
    if code is None:
        sys.stderr.write(USAGE)
        return 2
    return code


def _run(verb: str, rest: list[str], env: dict[str, str]) -> int | None:
    """Run a verb, which loads only its own modules: the start of a rank is on the job's clock."""
    if verb in ("rank", "node"):
        from hpckit.injob.entry import node, rank

        return (rank if verb == "rank" else node)(rest, env)
    if verb == "ray":
        from hpckit.injob.ray import ray

        return ray(rest, env)
    if verb in ("run", "components"):
        from hpckit.injob.components import components
        from hpckit.injob.runner import run

        return (run if verb == "run" else components)(rest, env)
    if verb in ("port", "order"):
        return _before_ranks(verb, rest)
    if verb == "probe":
        from hpckit.node.probe import probe

        return probe(rest, env)
    if verb in ("sample", "topology"):
        # The collector stays off: nothing that a tick makes is part of a cycle.
        from hpckit.sampler.main import sample, topology

        return (sample if verb == "sample" else topology)(rest, env)
    return None


def _before_ranks(verb: str, rest: list[str]) -> int | None:
    if verb == "port":
        from hpckit.injob.port import port

        return port(rest)
    from hpckit.placement.in_job import order

    return order(rest)
