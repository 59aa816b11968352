"""How long it takes to read and understand a node, beside hwloc's lstopo on the same tree; what
hpckit's own code takes in a container with 8 fake H100 and 40 NICs; what 512 answers take.

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
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

from hpckit.core.fields import to_tree
from hpckit.node.answers import NodeAnswer, group_alike
from hpckit.node.capture.snapshot import decode_snapshot
from hpckit.node.capture.sysfs import SysfsFiles
from hpckit.node.capture.sysfs_files import RECORDED_PATTERNS, SYSFS_PATTERNS, parse_sysfs
from hpckit.node.merge import complete
from hpckit.node.probe import AnswerReader, answer_lines
from hpckit.node.rules.rules import node_findings
from tests.bench.cli import ASK, ROOT, Figure, medians_ms, table
from tests.fakes.machines import dgx_h100
from tests.fakes.sysfs_tree import forty_nics, write_machine

LSTOPO = ("lstopo", "--of", "xml")
MOST_TIMES = 3
OWN_MS = 50
MERGE_MS = 2000
NODES = 512
IMAGE = "hpckit-cluster:trixie-mpi"
MACHINE = "/opt/hpckit/machines/forty-nics"
PROFILE = "/opt/hpckit/nvml-profiles/dgx-h100.toml"

OWN = """
import gc, json, sys, time
gc.set_threshold(50_000)  # as the command line does
begun_s = time.perf_counter()
from pathlib import Path
import pynvml
from hpckit.node.capture.nvml import NvmlDriver
from hpckit.node.capture.sysfs import SysfsFiles
from hpckit.node.merge import inspect_here
from hpckit.node.rules.rules import node_findings
from hpckit.node.show import node_lines
imported_s = time.perf_counter()
node = inspect_here(SysfsFiles(Path(sys.argv[1])), NvmlDriver(), stands_in="c1")
lines = node_lines(node, node_findings(node))
done_s = time.perf_counter()
assert (len(node.gpus), len(node.nics)) == (8, 40), (len(node.gpus), len(node.nics))
print(json.dumps([1000 * (imported_s - begun_s), 1000 * (done_s - imported_s)]))
"""
"""One inspection in a fresh process: milliseconds of the imports, and of everything after them."""

ROUNDS = """
import json, shutil, statistics, subprocess, sys
# Like /sys itself the made-up one lies in memory, not in a layer of the image.
root = shutil.copytree(sys.argv[2], "/dev/shm/machine", symlinks=True)
each = [sys.executable, "-c", sys.argv[1], root]
runs = [json.loads(subprocess.check_output(each)) for _ in range(2 + int(sys.argv[3]))][2:]
print(json.dumps([statistics.median(one) for one in zip(*runs)]))
"""


def lstopo_s(root: Path) -> float:
    """Seconds that lstopo takes to write what it finds in a tree."""
    env = os.environ | {"HWLOC_FSROOT": str(root)}
    begun_s = time.perf_counter()
    subprocess.run(LSTOPO, env=env, check=True, capture_output=True)
    return time.perf_counter() - begun_s


def read_s(root: Path, patterns: tuple[str, ...]) -> float:
    """Seconds that reading a tree and understanding it takes in this process."""
    begun_s = time.perf_counter()
    parse_sysfs(SysfsFiles(root).read(patterns))
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


def own_code(rounds: int) -> Figure | None:
    """Milliseconds of hpckit's own code for a whole inspection; None where no engine answers."""
    docker = shutil.which("docker")
    if docker is None or subprocess.run(ASK, capture_output=True, check=False).returncode:
        return None
    subprocess.run([ROOT / "docker" / "cluster", "build"], check=True, capture_output=True)
    inside = [docker, "run", "--rm", "--network=none", f"--env=HPCKIT_FAKE_NVML={PROFILE}",
              "--entrypoint=/opt/hpckit/bin/python", IMAGE, "-c", ROUNDS, OWN, MACHINE,
              str(rounds)]  # fmt: skip
    done = subprocess.run(inside, check=True, capture_output=True, text=True)
    imports_ms, own_ms = json.loads(done.stdout)
    return Figure(
        name="inspect: own code in a container (base: imports)",
        value=own_ms,
        unit="ms",
        limit=OWN_MS,
        base_ms=imports_ms,
        measured_ms=own_ms,
    )


def decoded(lines: list[str]) -> list[NodeAnswer]:
    """The answers of many nodes as they come in."""
    reader = AnswerReader(f"n{index}" for index in range(NODES))
    found = [one for line in lines if (one := reader.read(line)) is not None]
    return [
        NodeAnswer(node=node, topology=decode_snapshot(document))
        for node, document in found
        if document is not None
    ]


def merged(lines: list[str]) -> None:
    """What becomes of them: findings, and groups of nodes that are alike."""
    answers = [
        replace(one, findings=node_findings(one.topology, expected_gpus=8))
        for one in decoded(lines)
        if one.topology is not None
    ]
    (group,) = group_alike(answers)
    if len(group.nodes) != NODES:
        raise SystemExit(f"{len(group.nodes)} of {NODES} nodes are alike")


def timed_s(run: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    begun_s = time.perf_counter()
    run()
    return time.perf_counter() - begun_s


def lines_of_nodes() -> Iterator[str]:
    """What the probes of many nodes print."""
    node = complete(dgx_h100())
    for index in range(NODES):
        numa = tuple(
            replace(one, memory_bytes=(one.memory_bytes or 0) + 4096 * index)
            for one in node.numa_nodes
        )
        document = json.dumps(to_tree(replace(node, numa_nodes=numa))).encode()
        yield from answer_lines(f"n{index}", document)


def merging(rounds: int) -> Figure:
    """Milliseconds from the lines of 512 probes to their groups, beside decoding alone."""
    lines = list(lines_of_nodes())
    base_ms, measured_ms = medians_ms(
        lambda: timed_s(lambda: decoded(lines)), lambda: timed_s(lambda: merged(lines)), rounds
    )
    return Figure(
        name=f"{NODES} answers merged (base: decoded)",
        value=measured_ms,
        unit="ms",
        limit=MERGE_MS,
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
    inside = own_code(rounds)
    return [*figures, merging(min(rounds, 3)), *([] if inside is None else [inside])]


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
