"""How long it takes to read and understand a node, beside hwloc's lstopo on the same tree.

Each pair is timed in turns, so a busy machine slows both sides alike; the figure is the median.
Exits 1 when one is over its limit. The tree is a made-up machine of 256 CPUs, 8 GPUs and 40 NICs;
where HPCKIT_CORPUS names the public captures, the trees archived there are measured too. Needs
lstopo (Debian package hwloc). Runs as a module: `inspect` is also a module that Python needs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from hpckit.adapters.sysfs import read_tree
from hpckit.parse.sysfs import parse_sysfs
from hpckit.parse.sysfs_patterns import RECORDED_PATTERNS, SYSFS_PATTERNS
from tests.bench.cli import Figure, medians_ms, table
from tests.fakes.sysfs_tree import forty_nics, write_machine

LSTOPO = ("lstopo", "--of", "xml")
MOST_TIMES = 3


def lstopo_s(root: Path) -> float:
    """Seconds that lstopo takes to write what it finds in a tree."""
    env = os.environ | {"HWLOC_FSROOT": str(root)}
    begun_s = time.perf_counter()
    subprocess.run(LSTOPO, env=env, check=True, capture_output=True)
    return time.perf_counter() - begun_s


def read_s(root: Path, patterns: tuple[str, ...]) -> float:
    """Seconds that reading a tree and understanding it takes in this process."""
    begun_s = time.perf_counter()
    parse_sysfs(read_tree(root, patterns))
    return time.perf_counter() - begun_s


def beside_lstopo(name: str, root: Path, patterns: tuple[str, ...], rounds: int) -> Figure:
    """How many times as long as lstopo hpckit takes to read a tree and to understand it."""
    base_ms, measured_ms = medians_ms(
        lambda: lstopo_s(root), lambda: read_s(root, patterns), rounds
    )
    return Figure(
        name=f"{name}: read and parse, beside lstopo",
        value=measured_ms / base_ms,
        unit="x",
        limit=MOST_TIMES,
        base_ms=base_ms,
        measured_ms=measured_ms,
    )


def archived_trees(folder: Path) -> Iterator[tuple[str, Path]]:
    """The trees of the corpus that hwloc can read, unpacked below a folder."""
    corpus = os.environ.get("HPCKIT_CORPUS")
    for path in sorted(Path(corpus).glob("hwloc-xml/*.tar.*")) if corpus else []:
        place = folder / path.name
        with tarfile.open(path) as archive:
            archive.extractall(place, filter="tar")
        for root in sorted(found.parent for found in place.glob("*/sys")):
            yield path.name.partition(".")[0], root


def measure(rounds: int) -> list[Figure]:
    """Every figure of this suite."""
    with tempfile.TemporaryDirectory(prefix="hpckit-bench-") as folder:
        root = Path(folder) / "made-up"
        write_machine(root, forty_nics())
        figures = [beside_lstopo("256 CPUs, 40 NICs (synthetic)", root, SYSFS_PATTERNS, rounds)]
        for name, tree in archived_trees(Path(folder)):
            figures.append(beside_lstopo(name, tree, RECORDED_PATTERNS, rounds))
    return figures


def main() -> int:
    """Measure, print, and return 1 when a figure is over its limit."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", action="store_true", help="print one JSON document")
    options.add_argument("--rounds", type=int, default=11, help="pairs a figure (default 11)")
    given = options.parse_args()
    if shutil.which(LSTOPO[0]) is None:
        sys.stderr.write("no lstopo here: `apt install hwloc`\n")
        return 1
    figures = measure(given.rounds)
    if given.json:
        rows = [asdict(figure) | {"kept": figure.kept} for figure in figures]
        document = {"schema": "hpckit.bench/1", "suite": "inspect", "figures": rows}
        print(json.dumps(document, indent=2))
    else:
        print(table(figures))
    return 0 if all(figure.kept for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
