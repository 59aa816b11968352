"""How much faster real all-reduces are in the order of `hpckit place` than in hostname order.

Eight containers on two leaves behind one shaped uplink (`docker/cluster up --fabric leaves`), one
rank a node: one ring over all, and two groups of four at once; over gloo and over MPI. Both orders
are timed in one run, as the median of several rounds, and what hpckit predicted stands beside it.
Exits 1 when a ratio is below its limit, or a prediction further from it than 30 %. Brings a cluster
of its own up, unless HPCKIT_CLUSTER names one. `--quick` takes one round, which says less.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.bench.account_figures import Figure
from tests.cluster.cluster import CHECKOUT, Cluster
from tests.cluster.leaves import HOSTNAME_ORDER, Placed, all_reduce_s, placed, rates_bytes_per_s

BYTES = 2_000_000
ROUNDS = 2
PLACED_MORE = 3
NEAR_FRAC = 0.3
BACKENDS = ("gloo", "mpi")
OWN = "hpckit-bench-leaves"
UP = ("docker/cluster", "up", "--nodes", "8", "--fabric", "leaves", "--suite", "bookworm",
      "--target", "torch", "--pip", "torch==2.13.0 numpy")  # fmt: skip
"""Debian's own PyTorch of that release was not tried; the tests of torchrun use this image too."""


class Pattern(NamedTuple):
    """Groups of so many ranks, as a mesh, and how many times faster they have to be."""

    name: str
    group_ranks: int
    mesh: str
    at_least: float


PATTERNS = (
    Pattern("one ring over 8", 8, "data=8", 3),
    Pattern("2 groups of 4", 4, "data=4,pipeline=2", 8),
)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """The cluster with the two leaves; one that is brought up here goes down again."""
    told = os.environ.get("HPCKIT_CLUSTER")
    environ = {**os.environ, "HPCKIT_CLUSTER": told or OWN}
    try:
        subprocess.run(UP, cwd=CHECKOUT, env=environ, check=True, stdout=sys.stderr)
        yield Cluster(name=told or OWN, environ=environ, nodes=HOSTNAME_ORDER)
    finally:
        if told is None:
            subprocess.run([*UP[:1], "down"], cwd=CHECKOUT, env=environ, check=False)


def compared(name: str, by_name_s: float, placed_s: float, at_least: float) -> Figure:
    """The ratio that was measured."""
    return Figure(
        name=f"{name}: hostname order / placed",
        value=by_name_s / placed_s,
        unit="x",
        limit=at_least,
        at_least=True,
        beside=f"{by_name_s:.3f} s / {placed_s:.3f} s",
    )


def predicted(name: str, measured_ratio: float, predicted_ratio: float) -> Figure:
    """How far the prediction is from it."""
    return Figure(
        name=f"{name}: prediction off by",
        value=abs(predicted_ratio - measured_ratio) / measured_ratio,
        unit="",
        limit=NEAR_FRAC,
        beside=f"predicted {predicted_ratio:.2f} x, measured {measured_ratio:.2f} x",
    )


def figures_of(on: Cluster, how: str, plans: list[Placed], rounds: int) -> Iterator[Figure]:
    """The figures of one library, every pattern in both orders."""
    sizes = [pattern.group_ranks for pattern in PATTERNS]
    by_name_s = all_reduce_s(on, how, HOSTNAME_ORDER, sizes, size_bytes=BYTES, rounds=rounds)
    for pattern, plan in zip(PATTERNS, plans, strict=True):
        size = pattern.group_ranks
        # A placed round is soon over, and two cores that eight hosts share disturb it the more.
        more = PLACED_MORE * rounds
        took_s = all_reduce_s(on, how, plan.order, [size], size_bytes=BYTES, rounds=more)
        name = f"{how}, {pattern.name}"
        ratio = compared(name, by_name_s[size], took_s[size], pattern.at_least)
        yield ratio
        yield predicted(name, by_name_s[size] / took_s[size], plan.predicted_ratio)


def measure(rounds: int, *, as_json: bool) -> list[dict[str, Any]]:
    """Every figure of this suite; a table is printed as it grows."""
    command = "make bench SUITE=fabric"
    plans = [placed(pattern.mesh, BYTES) for pattern in PATTERNS]
    rows = []
    with cluster() as on:
        for how in BACKENDS:
            for figure in figures_of(on, how, plans, rounds):
                rows.append(figure.row(how, command))
                if not as_json:
                    print(figure.line(), flush=True)
    return rows


def main() -> int:
    """Measure, print, and return 1 when a figure is over its limit."""
    options = argparse.ArgumentParser(
        prog="python -m tests.bench.fabric", description=__doc__.partition("\n\n")[0]
    )
    options.add_argument("--json", action="store_true", help="print one JSON document")
    options.add_argument("--quick", action="store_true", help="one round, which says less")
    given = options.parse_args()
    if not given.json:
        rates = ", ".join(f"{name} {8 * rate:g}" for name, rate in rates_bytes_per_s().items())
        print(f"{BYTES} bytes a rank; {rates}", flush=True)
    rows = measure(1 if given.quick else ROUNDS, as_json=given.json)
    over = [row for row in rows if row["kept"] is False]
    if given.json:
        document = {
            "schema": "hpckit.bench/1", "suite": "fabric", "quick": given.quick, "figures": rows,
        }  # fmt: skip
        print(json.dumps(document, indent=2))
    else:
        print(f"\n{len(rows)} figures, {len(over)} over")
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main())
