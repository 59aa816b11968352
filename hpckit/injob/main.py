"""The command line inside a job: `rank`, `port`, `probe`, `sample`, `topology`, `--version`."""

from __future__ import annotations

import gc
import os
import sys

from hpckit import __version__

USAGE = """\
usage: hpckit-injob rank --from slurm|env|mpi -- COMMAND [ARGUMENT...]
       hpckit-injob port --job-id TEXT [--array-task N] [--step N]
       hpckit-injob probe [SECONDS]
       hpckit-injob sample --out DIR [--hz F] [--duration SECONDS] [--parent PID]
       hpckit-injob topology DIR FILE PARENT_PID
       hpckit-injob --version
"""


def main(words: list[str]) -> int:
    """Run the verb that `words` names and return the exit code, 2 for a wrong command line."""
    code: int | None = None
    # What is loaded stays: to look for garbage meanwhile takes a rank 2 ms, and there is none.
    gc.disable()
    if words[:1] == ["rank"]:
        # Each verb loads only its own modules: the start of a rank is on the job's clock.
        from hpckit.injob.rank import rank

        code = rank(words[1:], dict(os.environ))
    elif words[:1] == ["port"]:
        from hpckit.injob.port import port

        code = port(words[1:])
    elif words[:1] == ["probe"]:
        from hpckit.injob.probe import probe

        code = probe(words[1:], dict(os.environ))
    elif words[:1] == ["sample"]:
        # The collector stays off: nothing that a tick makes is part of a cycle.
        from hpckit.injob.sample import sample

        code = sample(words[1:], dict(os.environ))
    elif words[:1] == ["topology"]:
        from hpckit.injob.topology import topology

        code = topology(words[1:], dict(os.environ))
    elif words == ["--version"]:
        sys.stdout.write(f"hpckit-injob {__version__}\n")
        code = 0
    if code is None:
        sys.stderr.write(USAGE)
        return 2
    return code
