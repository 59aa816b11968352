"""What the torchrun tests run: eight ranks add up their numbers over gloo, and one may fail first.

Usage: torch_sum.py [RANK (raise | CODE)]. The others then wait for it in the all-reduce.
"""

from __future__ import annotations

import os
import sys
import time

import torch.distributed as dist  # type: ignore[import-not-found,unused-ignore]
from torch import tensor  # type: ignore[import-not-found,unused-ignore]

# How long the others stay when a rank has gone: over NCCL they would not notice for minutes.
NOTICED_S = 5


def main(words: list[str]) -> None:
    """Run one rank."""
    dist.init_process_group("gloo")
    if words and dist.get_rank() == int(words[0]):
        if words[1] == "raise":
            raise ValueError("one of the ranks gives up")
        sys.exit(int(words[1]))
    total = tensor([dist.get_rank() + 1])
    try:
        dist.all_reduce(total)
    except RuntimeError:
        # gloo tells at once of a rank that left, while that one's process is still ending.
        time.sleep(NOTICED_S)
        raise
    seen = [os.environ[name] for name in ("SLURM_PROCID", "GROUP_RANK", "LOCAL_RANK")]
    print(dist.get_rank(), *seen, os.uname().nodename, total.item(), flush=True)
    # A rank that leaves early takes its connections with it.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
