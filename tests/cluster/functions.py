"""Functions that are submitted through submitit on the cluster: a program, which prints JSON."""

from __future__ import annotations

import json
import sys
import time
from typing import Any, cast

import submitit
from submitit.slurm.slurm import SlurmJob

from hpckit import api
from hpckit.core.errors import HpckitError


def here(number: int) -> tuple[int, int, int, list[str]]:
    """The number, this rank of how many, and the job's nodes."""
    found = submitit.JobEnvironment()
    return number, found.global_rank, found.num_tasks, list(found.hostnames)


def failing() -> None:
    """A function with a bug."""
    raise ValueError("there is a bug")


class Counting:
    """Counts the seconds, and goes on where it was when it is started again."""

    def __init__(self) -> None:
        self.count, self.starts = 0, 0

    def __call__(self, until: int) -> tuple[int, int]:
        """Count, and say how often this was begun."""
        self.starts += 1
        while self.count < until:
            self.count += 1
            print("at", self.count, flush=True)
            time.sleep(0.5)
        return self.count, self.starts

    def checkpoint(self, until: int) -> submitit.helpers.DelayedSubmission:
        """What is to be called after a requeue."""
        return submitit.helpers.DelayedSubmission(self, until)


def counted(executor: submitit.AutoExecutor) -> tuple[int, int]:
    """Interrupt a job that counts, as a preemption would, and return what it counted to."""
    job = executor.submit(Counting(), 20)
    while "at 4" not in (job.stdout() or ""):
        time.sleep(0.3)
    cast(SlurmJob[Any], job)._interrupt()  # what submitit's own job on Slurm has
    result: tuple[int, int] = job.result()
    return result


def attached(job_id: str) -> list[Any]:
    """What a task is by its id, and what is said of no task and of a whole array."""
    whole = job_id.partition("_")[0]
    said: list[Any] = [api.attach(job_id).result()[0]]
    for wanted in (f"{whole}_9", whole):
        try:
            api.attach(wanted)
        except HpckitError as error:
            said.append(str(error))
    return said


def main(folder: str) -> dict[str, Any]:
    """Submit them all, and return what became of each."""
    executor = submitit.AutoExecutor(folder=folder, cluster="hpckit")
    executor.update_parameters(nodes=2, tasks_per_node=2, timeout_min=5, hpckit_partition="main")
    ranks = executor.submit(here, 7)
    executor.update_parameters(nodes=1, tasks_per_node=1)
    array = executor.map_array(here, range(4))
    failed = executor.submit(failing)
    alone = executor.map_array(time.sleep, [0, 300])
    alone[0].wait()
    alone[1].cancel()
    alone[1]._results_timeout_s = 1
    return {
        "ranks": ranks.results(),
        "array": [job.result()[0] for job in array],
        "array_ids": [job.job_id for job in array],
        "failed": str(failed.exception()),
        "attached": attached(array[2].job_id),
        "cancelled": [type(job.exception()).__name__ for job in alone],
        "counted": counted(executor),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
