"""A sum over the nodes of a Ray cluster: one task on each, and the driver adds up.

`python3 train.py --fail` shows what a task that dies looks like.
"""

import os
import sys

import ray

ray.init()  # RAY_ADDRESS says where
nodes = [node for node in ray.nodes() if node["Alive"]]
fails = sys.argv[1:] == ["--fail"]


@ray.remote(num_cpus=1)
def part(number: int) -> tuple[str, int]:
    """Return where this ran, and its part of the sum."""
    if fails:
        raise RuntimeError("this task gives up, as asked")
    return os.uname().nodename, number


tasks = [
    part.options(
        scheduling_strategy=ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            node["NodeID"], soft=False
        )
    ).remote(number + 1)
    for number, node in enumerate(nodes)
]
parts = ray.get(tasks)
total, expected = sum(number for _, number in parts), len(nodes) * (len(nodes) + 1) // 2
hosts = " ".join(sorted({host for host, _ in parts}))
print(f"{len(nodes)} nodes ({hosts}): sum {total}, expected {expected}")
world = int(os.environ["WORLD_SIZE"])
sys.exit(0 if total == expected and len(nodes) == world else 1)
