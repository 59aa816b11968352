"""How long placement takes by the number of nodes, and how good it is, beside a greedy grouping.

The fabrics are made up: a three-level tree, leaves of different sizes, some nodes missing, names
dealt at random; a three-axis mesh (tensor 8 on a node, pipeline, data). Each size runs in a process
of its own, which says its time from reading topology.conf to the order, and its peak memory. The
baseline groups as TreeMatch does, bottom-up by who talks most, in the same Python. Exits 1 when a
figure is over its limit: 1 s at 2,048 and 16,384 nodes, 5 s and 500 MB at 65,536, an exponent of
1.05. Then how good orders are (`place_quality`).
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpckit.core.hostlist import fold_hosts
from hpckit.fabric.domains import locality_of
from hpckit.fabric.file import parse_fabric
from hpckit.placement.instance import Loads
from hpckit.placement.order import PlacementRequest, instance_of
from hpckit.placement.packing import grown
from hpckit.placement.place import PlaceQuestion, place_on, speeds_of
from hpckit.placement.request import mesh_of
from hpckit.spec.job import MeshAxis
from tests.bench.place_quality import figures

ROOT = Path(__file__).resolve().parents[2]
SIZES = (512, 1024, 2048, 4096, 8192, 16384, 65536)
LEAF, LEAVES_OF_POD = 32, 16
GPUS = 8
LIMITS_S = {2048: 1.0, 16384: 1.0, 65536: 5.0}
MOST_MB = 500
MOST_EXPONENT = 1.05
VOLUMES = {MeshAxis.DATA: 4e9, MeshAxis.PIPELINE: 2e8}


def fabric_text(nodes: int, dice: random.Random) -> str:
    """A topology.conf with so many nodes: on each leaf up to LEAF, the rest being others'."""
    left, leaves = nodes, []
    while left:
        leaves.append(min(left, dice.randint(LEAF // 2, LEAF)))
        left -= leaves[-1]
    names = [f"n{i:05d}" for i in range(nodes)]
    dice.shuffle(names)
    lines, pods, at = [], [], 0
    for i, size in enumerate(leaves):
        lines.append(f"SwitchName=leaf{i} Nodes={fold_hosts(names[at : at + size])}")
        at += size
    for pod in range(math.ceil(len(leaves) / LEAVES_OF_POD)):
        first, last = pod * LEAVES_OF_POD, min(len(leaves), (pod + 1) * LEAVES_OF_POD) - 1
        lines.append(f"SwitchName=pod{pod} Switches=leaf[{first}-{last}]")
        pods.append(f"pod{pod}")
    return "\n".join([*lines, f"SwitchName=core Switches=pod[0-{len(pods) - 1}]", ""])


def mesh_sizes(nodes: int) -> Mapping[MeshAxis, int]:
    """Tensor on the node, sixteen pipeline stages, the rest data."""
    return {MeshAxis.TENSOR: GPUS, MeshAxis.PIPELINE: 16, MeshAxis.DATA: nodes // 16}


def one(nodes: int) -> dict[str, Any]:
    """The figures of one size, in this process: hpckit's, then the baseline's."""
    text = fabric_text(nodes, random.Random(nodes))  # noqa: S311  a made-up fabric
    begun_s = time.perf_counter()
    (topology,) = parse_fabric(text, "topology.conf")
    read_s = time.perf_counter() - begun_s
    question = PlaceQuestion(
        nodes=topology.nodes, ranks_per_node=GPUS, sizes=mesh_sizes(nodes), volumes=VOLUMES
    )
    placement = place_on(question, topology)
    total_s = time.perf_counter() - begun_s
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    time_s = placement.objectives["step_comm_time_s"]
    instance = instance_of(
        PlacementRequest(
            nodes=topology.nodes,
            ranks_per_node=GPUS,
            mesh=mesh_of(question.sizes, VOLUMES),
            locality=locality_of(topology),
            speeds=speeds_of(GPUS),
        )
    )
    begun_s = time.perf_counter()
    order = grown(instance)
    greedy_s = time.perf_counter() - begun_s
    return {
        "nodes": nodes,
        "read_s": read_s,
        "total_s": total_s,
        "peak_mb": peak_mb,
        "placed_s": time_s.placed,
        "bound_s": time_s.lower_bound,
        "hostname_s": time_s.hostname,
        "greedy_s": greedy_s,
        "greedy_placed_s": Loads(instance, order).total_s(),
    }


def exponent(rows: Sequence[Mapping[str, float]]) -> float:
    """The slope of log time over log nodes, by least squares."""
    points = [(math.log(row["nodes"]), math.log(row["total_s"])) for row in rows]
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return slope / sum((x - mean_x) ** 2 for x, _ in points)


def _measured(nodes: int) -> dict[str, Any]:
    argv = [sys.executable, "-m", "tests.bench.place", "--one", str(nodes)]
    done = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _faults(rows: Sequence[Mapping[str, Any]], slope: float) -> list[str]:
    faults = [
        f"{row['nodes']} nodes took {row['total_s']:.2f} s, over {LIMITS_S[row['nodes']]:g} s"
        for row in rows
        if row["total_s"] > LIMITS_S.get(row["nodes"], math.inf)
    ]
    faults += [
        f"{row['nodes']} nodes took {row['peak_mb']:.0f} MB, over {MOST_MB}"
        for row in rows
        if row["peak_mb"] > MOST_MB
    ]
    faults += [
        f"{row['nodes']} nodes: {row['placed_s']:.4f} s is more than the baseline's"
        for row in rows
        if row["placed_s"] > row["greedy_placed_s"] * (1 + 1e-9)
    ]
    if slope > MOST_EXPONENT:
        faults.append(f"time grows as nodes^{slope:.2f}, over {MOST_EXPONENT}")
    return faults


def main() -> int:
    """Measure, print, and return 1 when a figure is over its limit."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options.add_argument("--quick", action="store_true", help="up to 2,048 nodes")
    given = options.parse_args()
    if given.one:
        print(json.dumps(one(given.one)))
        return 0
    rows = [_measured(nodes) for nodes in SIZES if nodes <= 2048 or not given.quick]
    print(
        f"{'nodes':>6} {'GPUs':>7} {'read':>7} {'placed':>8} {'memory':>7}"
        f"  predicted: {'here':>8} {'bound':>8} {'host names':>10} {'greedy':>8} {'its time':>9}"
    )
    for row in rows:
        print(
            f"{row['nodes']:6} {row['nodes'] * GPUS:7} {row['read_s']:6.2f}s {row['total_s']:7.2f}s"
            f" {row['peak_mb']:4.0f} MB  {'':10} {row['placed_s']:7.4f}s {row['bound_s']:7.4f}s"
            f" {row['hostname_s']:9.4f}s {row['greedy_placed_s']:7.4f}s {row['greedy_s']:8.2f}s"
        )
    slope = exponent(rows)
    print(f"time grows as nodes^{slope:.2f} (limit {MOST_EXPONENT})")
    faults = _faults(rows, slope)
    for figure in figures(4 if given.quick else 16):
        goal = "" if figure.goal is None else f" (goal {figure.goal:g})"
        said = f"{figure.name}: {figure.value:.2f} {figure.unit}{goal}"
        print(said, flush=True)
        faults += [] if figure.is_reached else [said]
    for fault in faults:
        print(f"OVER: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
