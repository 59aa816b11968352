"""How long a person waits: all figures that hpckit is held to, in one table.

Beside each stands its goal and what the previous release had (`tests/bench/waits.json`, written by
`--save`). A figure that starts processes is the CPU time of the whole process, by that of what it
is compared with, in turns. Figures of other suites are taken from these. Nothing fails: what is
over its goal is marked. `--runs 3` measures three times and prints the medians, `--json` one
document; `--only TEXT` shows the figures whose name holds the text. Peers are run by the Python
that HPCKIT_PEERS_PYTHON names: ClusterShell, torchx, polars, duckdb, zeus, codecarbon and
prometheus-client; without it their rows are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from hpckit.core.hostlist import fold_hosts
from hpckit.fabric.ibnetdiscover import parse_ibnetdiscover
from hpckit.slurm.sacct import parse_sacct
from hpckit.slurm.text import SEPARATOR
from tests.bench.place_quality import of_few_nodes, of_kind
from tests.fakes.account_files import MadeJob, write_accounts
from tests.fakes.sysfs_tree import forty_nics, write_machine

ROOT: Final = Path(__file__).resolve().parents[2]
SAVED: Final = Path(__file__).with_suffix(".json")
TURNS: Final = 9
PEERS: Final = "HPCKIT_PEERS_PYTHON"
MAIN: Final = "from hpckit.__main__ import main; main()"
SUBMITIT: Final = """
import submitit
executor = submitit.AutoExecutor("logs", cluster="local")
executor.update_parameters(timeout_min=1)
executor.submit(submitit.helpers.CommandFunction(["true"]))
"""
COMMANDS: Final = {
    "status": 1.7,
    "jobs": 1.7,
    "show": 1.7,
    "sites list": 1.7,
    "render job.toml": 2.5,
    "tune": 2.5,
    "place --nodelist n[1-64] --fabric topology.conf --gpus-per-node 8"
    " --mesh tensor=8,data=64": 2.5,
    "inspect node.json": 2.5,
    "report": 3.0,
}
"""Command → at most so many times as long as `import click`."""
QUESTION: Final = """
SELECT node, gpu_index, avg(power_mw), max(power_mw), avg(util_pct), max(mem_used_mib),
max(energy_mj) - min(energy_mj) FROM self GROUP BY node, gpu_index
"""
TABLES: Final = {
    "polars": "import polars as p, sys; p.scan_parquet('job.parquet').sql(sys.argv[1]).collect()",
    "duckdb": "import duckdb as d, sys; self = d.read_parquet('job.parquet');"
    " d.sql(sys.argv[1]).fetchall()",
}
"""What reads some of a report's figures from the same Parquet file."""


class Figure(NamedTuple):
    """What was measured; `goal` is the most, or the least where `is_least`."""

    name: str
    value: float
    goal: float | None
    unit: str
    is_least: bool = False

    @property
    def is_reached(self) -> bool:
        """Whether the value is within its goal, where it has one."""
        if self.goal is None:
            return True
        return self.value >= self.goal if self.is_least else self.value <= self.goal


def cpu_s(
    argv: Sequence[str], folder: Path, program: str = sys.executable, **variables: str
) -> float:
    """Return the CPU seconds of a process and of all that it waited for."""
    env = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), **variables}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, *argv], cwd=folder, env=env, check=True,
                   stdin=subprocess.DEVNULL, capture_output=True)  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def wall_s(argv: Sequence[str], folder: Path) -> float:
    """Return the seconds that a process takes."""
    begun_s = time.perf_counter()
    cpu_s(argv, folder)
    return time.perf_counter() - begun_s


def times(measured: Callable[[], float], base: Callable[[], float], turns: int = TURNS) -> float:
    """Return how many times as long one takes as the other: medians of both, in turns."""
    measured(), base()
    pairs = [(measured(), base()) for _ in range(turns)]
    first, second = (float(statistics.median(one)) for one in zip(*pairs, strict=True))
    return float(first / second)


def starts(folder: Path) -> Iterator[Figure]:
    """Yield what each command takes by what importing click takes."""
    (folder / "job.toml").write_text('schema = "hpckit.job/1"\nname = "x"\ncommand = ["true"]\n')
    (folder / "node.json").write_text((ROOT / "examples" / "dgx-h100.json").read_text())
    leaves = "".join(f"SwitchName=l{i} Nodes=n[{8 * i + 1}-{8 * i + 8}]\n" for i in range(8))
    (folder / "topology.conf").write_text(f"{leaves}SwitchName=s Switches=l[0-7]\n")
    local = ["-c", MAIN, "submit", "--local", "--quiet", "--", "true"]
    took = times(lambda: wall_s(local, folder), lambda: wall_s(["-c", SUBMITIT], folder))
    yield Figure("submit --local over submitit's local submit", took, 1.2, "x")
    cpu_s(["-c", MAIN, "wait"], folder)
    for command, goal in COMMANDS.items():
        argv = ["-c", MAIN, *command.split()]
        took = times(lambda argv=argv: cpu_s(argv, folder),  # type: ignore[misc]
                     lambda: cpu_s(["-c", "import click"], folder))  # fmt: skip
        name = command.split(" --")[0].split(" ")
        yield Figure(f"{' '.join(name)} over import click", took, goal, "x")


def beside_lstopo(folder: Path) -> Iterator[Figure]:
    """Yield what a whole `inspect` takes by what lstopo takes on the same made-up tree."""
    if shutil.which("lstopo") is None:
        return
    tree = folder / "node"
    write_machine(tree, forty_nics())
    argv = ["-c", MAIN, "inspect", "--sysroot", str(tree)]
    lstopo = ["--of", "xml"]
    took = times(lambda: cpu_s(argv, folder),
                 lambda: cpu_s(lstopo, folder, "lstopo", HWLOC_FSROOT=str(tree)))  # fmt: skip
    yield Figure("inspect, 256 CPUs and 40 NICs (synthetic), over lstopo", took, 6.0, "x")


def per_s(count: int, read: Callable[[], object]) -> float:
    """Return how many of `count` are read a second of CPU, the best of five times."""
    spent_s = []
    for _ in range(5):
        begun_s = time.process_time()
        read()
        spent_s.append(time.process_time() - begun_s)
    return count / min(spent_s)


def parsers(folder: Path) -> Iterator[Figure]:
    """Yield how fast answers are read. All of them are synthetic."""
    count = 50_000
    rows = "\n".join(
        SEPARATOR.join((f"{4000 + i}", "COMPLETED", "0:0", "2026-11-21T06:49:14",
                        f"2026-11-21T08:49:{i % 60:02}", f"n{i % 500:04}", "None", f"job{i}.sh"))
        for i in range(count)
    )  # fmt: skip
    yield Figure("sacct rows", per_s(count, lambda: parse_sacct(rows)), 250e3, "/s", is_least=True)
    fabric = ibnetdiscover(2000)
    lines = fabric.count("\n")
    speed = per_s(lines, lambda: parse_ibnetdiscover(fabric, "fabric"))
    yield Figure("ibnetdiscover lines", speed, 1.5e6, "/s", is_least=True)
    names = [f"node{i:06}" for i in range(100_000)]
    random.Random(1).shuffle(names)  # noqa: S311  made up
    (folder / "names").write_text("\n".join(names))
    peer = os.environ.get(PEERS)
    if peer:
        code = ("import time; from ClusterShell.NodeSet import NodeSet\n"
                "names = open('names').read().split(); begun = time.process_time()\n"
                "str(NodeSet.fromlist(names)); print(time.process_time() - begun)")  # fmt: skip
        run = [peer, "-c", code]
        theirs = min(float(subprocess.check_output(run, cwd=folder)) for _ in range(3))
        ours = 100_000 / per_s(100_000, lambda: fold_hosts(names))
        yield Figure("fold of 100k host names over ClusterShell's", ours / theirs, 0.2, "x")


def ibnetdiscover(nodes: int) -> str:
    """Return what ibnetdiscover prints of so many nodes on leaves of 32, with 16 spines."""
    ports: dict[str, list[str]] = {}
    for node in range(nodes):
        leaf, port = f"S-{0x100 + node // 32:016x}", node % 32 + 1
        ports.setdefault(leaf, []).append(
            f'[{port}]\t"H-{0x10000 + node:016x}"[1](1) \t\t# "n{node} mlx5_0" lid 1 4xNDR'
        )
    text = []
    for index, leaf in enumerate(list(ports)):
        for spine in range(16):
            name = f"S-{0x900 + spine:016x}"
            ports[leaf].append(f'[{33 + spine}]\t"{name}"[{index + 1}]\t\t# "spine{spine}" lid 2 '
                               "4xNDR")  # fmt: skip
            ports.setdefault(name, []).append(
                f'[{index + 1}]\t"{leaf}"[{33 + spine}]\t\t# "leaf{index}" lid 3 4xNDR'
            )
    for number, (switch, lines) in enumerate(ports.items()):
        text += ["", "vendid=0x2c9", "devid=0xd2f2", f"switchguid=0x{switch[2:]}({switch[2:]})",
                 f'Switch\t128 "{switch}"\t\t# "switch{number}" enhanced port 0 lid 3 lmc 0',
                 *lines]  # fmt: skip
    for node in range(nodes):
        leaf = f"S-{0x100 + node // 32:016x}"
        guid = f"{0x10000 + node:016x}"
        text += ["", "vendid=0x2c9", "devid=0x1021", f"caguid=0x{guid}",
                 f'Ca\t1 "H-{guid}"\t\t# "n{node} mlx5_0"',
                 f'[1](1) \t"{leaf}"[{node % 32 + 1}]\t\t# lid 1 lmc 0 "leaf{node // 32}" lid 3 '
                 "4xNDR"]  # fmt: skip
    return "\n".join(text) + "\n"


def peers(folder: Path) -> Iterator[Figure]:
    """Yield how long commands take by what others need for less; the job is synthetic."""
    python = os.environ.get(PEERS)
    if not python:
        return
    torchx = [str(Path(python).with_name("torchx")), "run", "--dryrun", "-s", "slurm"]
    render = ["-c", MAIN, "render", "job.toml"]
    took = times(lambda: cpu_s(render, folder),
                 lambda: cpu_s([*torchx, "utils.sh", "true"], folder, python))  # fmt: skip
    yield Figure("render over torchx's dry run", took, 1.0, "x")
    write_accounts(folder / "made", MadeJob(nodes=4, hz=1.0, duration_s=6 * 3600.0))
    report = ["-c", MAIN, "report", "--from"]
    cpu_s([*report, "made", "--parquet", "job.parquet"], folder)
    shutil.rmtree(folder / "made")
    for name, code in TABLES.items():
        took = times(lambda: cpu_s([*report, "job.parquet"], folder),
                     lambda code=code: cpu_s(["-c", code, QUESTION], folder, python))  # type: ignore[misc]  # fmt: skip
        yield Figure(f"report of a Parquet file over one question to {name}", took, None, "x")


def placements(_folder: Path) -> Iterator[Figure]:
    """Yield how long placement takes on three axes."""
    for nodes, goal_s in ((16_384, 1.0), (65_536, 5.0)):
        argv = [sys.executable, "-m", "tests.bench.place", "--one", str(nodes)]
        found = json.loads(subprocess.check_output(argv, cwd=ROOT))
        name = f"place, {8 * nodes:,} GPUs, 3 axes"
        yield Figure(name, found["total_s"], goal_s, "s")
        yield Figure(f"{name}: memory", found["peak_mb"], 500, "MB")


def placed_well(_folder: Path) -> Iterator[Figure]:
    """Yield how good orders on three axes are, and how near the bound of few nodes is."""
    for one in (*of_kind("3 axes", 16), *of_few_nodes(16)):
        if one.goal is not None:
            yield Figure(one.name, one.value, one.goal, one.unit)


PICKED: Final = {
    ("cli", ""): {"hpckit submit, added to sbatch": 120.0},
    ("account", "--only cost:1hz,cost:10hz,cost:100hz"): {
        "sampler, 8 GPUs at 1 Hz: CPU, of a core": 0.05,
        "sampler, 8 GPUs at 10 Hz: CPU, of a core": 0.25,
        "sampler, 8 GPUs at 100 Hz: CPU, of a core": 2.5,
        **{f"{hz} Hz: CPU beside {peer}": 1.0 for hz in (1, 10, 100)
           for peer in ("zeus", "codecarbon")},
    },
    ("account", "--only speed:scale"): {
        "1,024 GPUs, 24 h at 1 Hz": 6.0,
        "1,024 GPUs, 24 h at 1 Hz: memory": 300.0,
    },
}  # fmt: skip
"""Suite and its options → figures that are taken from it, each with its goal."""


def picked(_folder: Path) -> Iterator[Figure]:
    """Yield the figures of other suites."""
    for (suite, options), goals in PICKED.items():
        argv = [sys.executable, "-m", f"tests.bench.{suite}", "--json", *options.split()]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
        for figure in json.loads(done.stdout)["figures"]:
            if figure["name"] in goals and figure["value"] is not None:
                goal = goals[figure["name"]]
                yield Figure(figure["name"], figure["value"], goal, figure["unit"])


def line(figure: Figure, previous: dict[str, float], width: int) -> str:
    """Return one line of the table."""
    before = previous.get(figure.name)
    goal = "" if figure.goal is None else f"{'>=' if figure.is_least else '<='} {figure.goal:g}"
    was = "" if before is None else f"{before:12,.5g}"
    mark = "" if figure.is_reached else "  over" if not figure.is_least else "  below"
    return (f"{figure.name:{width}} {figure.value:12,.5g} {goal:14} "
            f"{figure.unit:3} {was:>12}{mark}")  # fmt: skip


def main() -> int:
    """Measure, and print each figure as soon as it is known."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", action="store_true", help="print one JSON document")
    options.add_argument("--save", action="store_true", help="keep the figures as a release's")
    options.add_argument("--only", default="", help="figures whose name holds this text")
    options.add_argument("--runs", type=int, default=1, metavar="N", help="measure N times")
    given = options.parse_args()
    previous = json.loads(SAVED.read_text())["figures"] if SAVED.exists() else {}
    out = None if given.json else sys.stdout
    runs = [shown("", measured(given.only), previous, out) for _ in range(given.runs)]
    figures = medians(runs)
    if given.runs > 1:
        shown(f"median of {given.runs} runs", figures, previous, out)
    values: dict[str, Any] = {figure.name: figure.value for figure in figures}
    if given.save:
        SAVED.write_text(json.dumps({"schema": "hpckit.bench/1", "figures": values}, indent=1))
    if given.json:
        print(json.dumps({"schema": "hpckit.bench/1", "suite": "waits", "figures": [
            {**one._asdict(), "previous": previous.get(one.name), "kept": one.is_reached}
            for one in figures]}, indent=2))  # fmt: skip
    return 0


def shown(
    title: str, figures: Iterable[Figure], previous: dict[str, float], out: TextIO | None
) -> list[Figure]:
    """Print figures as they come, to `out` where there is one; return them."""
    width = 66
    seen = []
    if out:
        print(f"{title:{width}} {'now':>12}    {'goal':15} {'previous':>12}", file=out)
    for figure in figures:
        seen.append(figure)
        if out:
            print(line(figure, previous, width), file=out, flush=True)
    return seen


def measured(only: str) -> Iterator[Figure]:
    """Yield the figures whose name holds a text."""
    with tempfile.TemporaryDirectory(prefix="hpckit-bench-") as folder:
        for part in (starts, beside_lstopo, parsers, peers, placements, placed_well, picked):
            yield from (one for one in part(Path(folder)) if only in one.name)


def medians(runs: Sequence[Sequence[Figure]]) -> list[Figure]:
    """Return each figure with the median of its values."""
    by_name: dict[str, list[Figure]] = {}
    for figure in (one for run in runs for one in run):
        by_name.setdefault(figure.name, []).append(figure)
    return [
        ones[0]._replace(value=statistics.median(one.value for one in ones))
        for ones in by_name.values()
    ]


if __name__ == "__main__":
    sys.exit(main())
