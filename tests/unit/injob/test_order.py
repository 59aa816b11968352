"""`order`, run from the packed archive as the batch script runs it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from hpckit.fabric.domains import locality_of
from hpckit.fabric.locality import Domain, Locality
from hpckit.fabric.slurm_files import parse_topology_conf
from hpckit.placement.order_plan import Mesh, MeshAxis, OrderPlan, Pattern, Speeds, order_tree
from hpckit.placement.place import speeds_of
from hpckit.placement.request import mesh_of
from hpckit.spec.job import MeshAxis as JobAxis
from tests.conftest import RunHpckit
from tests.unit.injob.conftest import Run

NODES = [f"n{i}" for i in range(1, 9)]
LEAVES = (["n1", "n3", "n5", "n7"], ["n2", "n4", "n6", "n8"])
PLAN = OrderPlan(
    mesh=Mesh(
        axes=(
            MeshAxis(name="tensor", size=2, pattern=Pattern.RING, bytes_per_rank=1e9),
            MeshAxis(name="data", size=8, pattern=Pattern.RING, bytes_per_rank=4e9),
        )
    ),
    ranks_per_node=2,
    locality=Locality(
        domains=(
            Domain(name="spine", level=1),
            Domain(name="leaf1", level=0, parent=0),
            Domain(name="leaf2", level=0, parent=0),
        ),
        domain_of={node: at + 1 for at, leaf in enumerate(LEAVES) for node in leaf},
        nic_bytes_per_s={},
    ),
    speeds=Speeds(nic_bytes_per_s=1e11, nvlink_bytes_per_s=9e11, oversubscription=2.0),
    source="topology.conf",
)
WARNING = b"hpckit: warning: ranks are in Slurm's own order: "


def written(folder: Path, plan: OrderPlan = PLAN) -> Path:
    """A plan as submit leaves it."""
    path = folder / "order.json"
    path.write_text(json.dumps(order_tree(plan)))
    return path


def ordered(
    run: Run, folder: Path, plan: Path, *, tasks: str = "2", nodes: list[str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """The verb with the nodes on its standard input."""
    names = folder / "nodes"
    names.write_text("".join(f"{node}\n" for node in nodes or NODES))
    with names.open() as stream:
        return run("order", str(plan), tasks, str(folder / "place" / "restart-0"), stdin=stream)


def hosts(done: subprocess.CompletedProcess[bytes]) -> list[str]:
    """The lines of the file that it names."""
    assert done.returncode == 0, done.stderr
    path = Path(done.stdout.decode().removesuffix("\n"))
    assert path.is_absolute()
    return path.read_text().splitlines()


def test_leaves_are_together(run: Run, tmp_path: Path) -> None:
    """Interleaved names become two runs of a leaf each, every node with as many lines as tasks."""
    done = ordered(run, tmp_path, written(tmp_path))
    lines = hosts(done)
    assert done.stderr == b""
    assert lines[::2] == lines[1::2]
    assert {frozenset(lines[:8]), frozenset(lines[8:])} == {frozenset(leaf) for leaf in LEAVES}
    assert sorted(lines[::2]) == NODES


MADE = """\
schema = "hpckit.job/1"
name = "x"
command = ["x"]
[resources]
nodes = 6
ntasks_per_node = 2
[parallel]
tensor = 2
pipeline = 3
data = 2
[place]
volume = { pipeline = 1e9, data = 1e9 }
"""
TREES = {
    "a first node alone": "SwitchName=a Nodes=n[02-04]\nSwitchName=b Nodes=n[05-06]\n"
    "SwitchName=c Nodes=n01\nSwitchName=s Switches=a,b,c\n",
    "leaves not by name": "SwitchName=b Nodes=n[05-06,02]\nSwitchName=a Nodes=n[01,03-04]\n"
    "SwitchName=s Switches=a,b\n",
    "one leaf": "SwitchName=a Nodes=n[01-06]\n",
    "a node that nobody knows": "SwitchName=a Nodes=n[02-03,05]\nSwitchName=b Nodes=n[04,06]\n"
    "SwitchName=s Switches=a,b\n",
}


@pytest.mark.parametrize("text", TREES.values(), ids=TREES)
def test_it_is_the_order_that_place_shows(
    run: Run, run_hpckit: RunHpckit, tmp_path: Path, text: str
) -> None:
    """Of the job's file on the same network."""
    fabric, job = tmp_path / "topology.conf", tmp_path / "job.toml"
    fabric.write_text(text)
    job.write_text(MADE)
    nodes = [f"n{i:02}" for i in range(1, 7)]
    words = ["place", str(job), "--nodelist", "n[01-06]", "--fabric", str(fabric)]
    shown = run_hpckit(*words, "--format", "order")
    assert shown.returncode == 0, shown.stderr
    plan = OrderPlan(
        mesh=mesh_of(
            {JobAxis.TENSOR: 2, JobAxis.PIPELINE: 3, JobAxis.DATA: 2},
            {JobAxis.PIPELINE: 1e9, JobAxis.DATA: 1e9},
        ),
        ranks_per_node=2,
        locality=locality_of(parse_topology_conf(text, "topology.conf")),
        speeds=speeds_of(1),
        source="topology.conf",
    )
    done = ordered(run, tmp_path, written(tmp_path, plan), tasks="1", nodes=nodes)
    assert hosts(done) == shown.stdout.split()
    assert hosts(done)[0] == "n01"


def test_nodes_that_nobody_knew_come_last(run: Run, tmp_path: Path) -> None:
    """They are named, and the others are ordered.

    A torchrun is one task a node, and has one line; the mesh counts its ranks all the same.
    """
    nodes = [*NODES[:6], "m1", "m2"]
    done = ordered(run, tmp_path, written(tmp_path), tasks="1", nodes=nodes)
    assert set(hosts(done)[-2:]) == {"m1", "m2"}
    assert sorted(hosts(done)) == sorted(nodes)
    assert (
        b"note: placed last, not in the cluster's topology at submission: m1, m2\n" in done.stderr
    )
    left = sorted(path.name for path in (tmp_path / "place" / "restart-0").iterdir())
    assert left == ["hosts", "waiting"]


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        (["x1", "x2"], b"none of these nodes was in the cluster's topology at submission"),
        (NODES[:6], b""),
    ],
    ids=["other nodes", "fewer nodes"],
)
def test_what_cannot_be_ordered_changes_nothing(
    run: Run, tmp_path: Path, nodes: list[str], why: bytes
) -> None:
    """There is no order, which is no failure; why is said, and left for the proof."""
    done = ordered(run, tmp_path, written(tmp_path), nodes=nodes)
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.startswith(WARNING + why)
    assert done.stderr.count(b"\n") == 1
    folder = tmp_path / "place" / "restart-0"
    assert [path.name for path in folder.iterdir()] == ["no-order"]
    assert done.stderr == WARNING + (folder / "no-order").read_bytes()


BAD = {
    "cut": "{",
    "newer": '{"schema":"hpckit.order/2"}',
    "bytes": "\xff",
    "missing": None,
    "no folder": json.dumps(order_tree(PLAN)),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_plan_is_one_line(run: Run, tmp_path: Path, what: str) -> None:
    """Whatever is in the file, the job goes on in Slurm's order; the system's words have a path."""
    plan, text = tmp_path / "order.json", BAD[what]
    if text is not None:
        plan.write_text(text, encoding="latin-1")
    if what == "no folder":
        (tmp_path / "place").write_text("no folder")
    done = ordered(run, tmp_path, plan)
    assert (done.returncode, done.stdout) == (1, b"")
    path = os.fsencode(tmp_path) if what in {"missing", "no folder"} else b""
    assert done.stderr.startswith(WARNING + path)
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    "words", [(), ("p",), ("p", "0", "d"), ("p", "-1", "d"), ("p", "x", "d"), ("p", "٣", "d")]
)
def test_a_wrong_command_line_is_said(run: Run, words: tuple[str, ...]) -> None:
    """Usage, and code 2."""
    done = run("order", *words, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert b"usage:" in done.stderr
