"""One rank of timed all-reduces: every round begins with a barrier over all ranks.

Usage: fabric_ring.py gloo|mpi BYTES ROUNDS RANKS_IN_A_GROUP..., under srun. The groups are ranks
next to each other, and all of one size sum at once. Rank 0 prints one JSON object: the hosts in the
order of the ranks, and by group size the seconds of each round, from the first rank's begin to the
last one's end. The hosts are containers of one machine, so that their clocks are one.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from typing import Any, Protocol

RANK = int(os.environ["SLURM_PROCID"])
RANKS = int(os.environ["SLURM_NTASKS"])
WARM_UPS = 1
SETTLED_S = 2

Sum = Callable[[], object]


class Backend(Protocol):
    """What a library does for a rank."""

    def barrier(self) -> None:
        """Wait for every rank."""

    def summing(self, group_ranks: int) -> Sum:
        """The sum over this rank's group of so many, in place."""

    def gather(self, said: Any) -> list[Any]:
        """What each rank says."""


class Gloo:
    """PyTorch's, over GLOO_SOCKET_IFNAME."""

    def __init__(self, vector: array[float]) -> None:
        import torch  # type: ignore[import-not-found,unused-ignore]
        import torch.distributed as dist  # type: ignore[import-not-found,unused-ignore]

        torch.set_num_threads(1)
        dist.init_process_group("gloo", rank=RANK, world_size=RANKS)
        self.dist = dist
        self.tensor = torch.frombuffer(vector, dtype=torch.float32)

    def barrier(self) -> None:
        """Wait for every rank."""
        self.dist.barrier()

    def summing(self, group_ranks: int) -> Sum:
        """The sum over this rank's group of so many, in place."""
        firsts = range(0, RANKS, group_ranks)
        groups = [self.dist.new_group(list(range(one, one + group_ranks))) for one in firsts]
        return lambda: self.dist.all_reduce(self.tensor, group=groups[RANK // group_ranks])

    def gather(self, said: Any) -> list[Any]:
        """What each rank says."""
        heard: list[Any] = [None] * RANKS
        self.dist.all_gather_object(heard, said)
        return heard


class Mpi:
    """MPI's, by mpi4py."""

    def __init__(self, vector: array[float]) -> None:
        from mpi4py import MPI  # type: ignore[import-not-found,unused-ignore]

        # Open MPI 4.1 and 5.0 under srun: what comes in while a rank is still in MPI_Init ends it
        # (mca_pml_ob1_recv_frag_callback_match, signal 11), so the first ones out say nothing yet.
        time.sleep(SETTLED_S)
        self.mpi = MPI
        self.world = MPI.COMM_WORLD
        self.buffer = [vector, MPI.FLOAT]

    def barrier(self) -> None:
        """Wait for every rank."""
        self.world.Barrier()

    def summing(self, group_ranks: int) -> Sum:
        """The sum over this rank's group of so many, in place."""
        group = self.world.Split(RANK // group_ranks, RANK)
        return lambda: group.Allreduce(self.mpi.IN_PLACE, self.buffer)

    def gather(self, said: Any) -> list[Any]:
        """What each rank says."""
        return list(self.world.allgather(said))


def timed(backend: Backend, add_up: Sum, rounds: int) -> Iterator[tuple[float, float]]:
    """When this rank began and ended each round, after those that open connections."""
    for number in range(WARM_UPS + rounds):
        backend.barrier()
        begun_s = time.monotonic()
        add_up()
        if number >= WARM_UPS:
            yield begun_s, time.monotonic()


def main() -> None:
    """Run one rank."""
    how, size_bytes, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    vector = array("f", [1.0]) * (size_bytes // 4)
    backend: Backend = Gloo(vector) if how == "gloo" else Mpi(vector)
    took_s, factor = {}, 1.0
    for group_ranks in map(int, sys.argv[4:]):
        times = list(timed(backend, backend.summing(group_ranks), rounds))
        heard = backend.gather(times)
        each = [[one[number] for one in heard] for number in range(rounds)]
        took_s[group_ranks] = [max(end for _, end in one) - min(one)[0] for one in each]
        factor *= float(group_ranks) ** (WARM_UPS + rounds)
    heard = backend.gather((socket.gethostname(), vector[0], vector[-1]))
    if any(one[1:] != (factor, factor) for one in heard):
        sys.exit(f"wrong sums, {factor} expected: {heard}")
    if RANK == 0:
        print(json.dumps({"hosts": [one[0] for one in heard], "took_s": took_s}), flush=True)
    backend.barrier()
    # On a slow network gloo's own way out can wait for ever.
    if how == "gloo":
        os._exit(0)


if __name__ == "__main__":
    main()
