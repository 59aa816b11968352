"""`hpckit place` and the options of a job that are about places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from hpckit.cli.place import svg
from hpckit.core.hostlist import expand_hosts
from hpckit.core.units import short_time
from hpckit.fabric.slurm_files import parse_topology_conf
from hpckit.fabric.topology import ClusterTopology
from hpckit.placement.place import PlaceQuestion, place_on
from hpckit.placement.request import Placement
from hpckit.placement.show import headline
from hpckit.spec.job import MeshAxis
from tests.conftest import RunHpckit

TREE = """\
SwitchName=leaf1 Nodes=n[001,003,005,007]
SwitchName=leaf2 Nodes=n[002,004,006,008]
SwitchName=spine Switches=leaf[1-2]
"""
JOB = """\
schema = "hpckit.job/1"
name = "x"
command = ["x"]

[resources]
nodes = 4
ntasks_per_node = 2

[slurm]
nodelist = "n[001-004]"

[parallel]
tensor = 2
data = 4

[place]
volume = { data = 4e9 }
"""
WORDS = ("--nodelist", "n[001-008]", "--gpus-per-node", "8")
MESH = ("--mesh", "tensor=8,pipeline=2,data=4", "--volume", "data=4e9,pipeline=2e8")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A topology.conf of two leaves whose names are interleaved."""
    path = tmp_path / "topology.conf"
    path.write_text(TREE)
    return path


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job file."""
    path = tmp_path / "job.toml"
    path.write_text(JOB)
    return path


def document(run_hpckit: RunHpckit, *words: str | Path) -> dict[str, Any]:
    """What --json prints."""
    done = run_hpckit("place", *words, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_document_has_what_others_rely_on(run_hpckit: RunHpckit, tree: Path) -> None:
    """The order, every objective and the groups of each axis, beside the other orders."""
    found = document(run_hpckit, *WORDS, *MESH, "--fabric", tree, "--slurm-version", "24.11")
    assert found["schema"] == "hpckit.placement/1"
    nodes = [f"n{i:03}" for i in range(1, 9)]
    assert sorted(found["order"]) == nodes
    assert {len({int(node[1:]) % 2 for node in found["order"][at : at + 4]}) for at in (0, 4)} == {
        1
    }
    for one in found["objectives"].values():
        assert set(one) == {"placed", "hostname", "slurm", "random", "lower_bound"}
    time = found["objectives"]["step_comm_time_s"]
    assert time["lower_bound"] <= time["placed"] <= time["hostname"] == time["slurm"]
    for axis in ("tensor", "pipeline", "data"):
        straddling = found["groups"][axis]["straddling"]
        assert {"placed", "hostname", "lower_bound"} <= set(straddling)
    pipeline = found["groups"]["pipeline"]["straddling"]
    assert (pipeline["lower_bound"], pipeline["placed"], pipeline["hostname"]) == (0, 0, 4)
    assert any("data groups split 0 (here " in note for note in found["notes"])
    assert not any("_" in note for note in found["notes"])
    assert found["orders"]["hostname"] == nodes
    assert found["ranks_per_node"] == 8
    assert [axis["name"] for axis in found["mesh"]] == ["tensor", "pipeline", "data"]


def test_without_a_release_slurms_order_is_not_known(run_hpckit: RunHpckit, tree: Path) -> None:
    """A file does not tell it; it is null, and no zero."""
    found = document(run_hpckit, *WORDS, *MESH, "--fabric", tree)
    assert found["orders"]["slurm"] is None
    assert {one["slurm"] for one in found["objectives"].values()} == {None}


def test_the_screen_shows_the_gain(run_hpckit: RunHpckit, tree: Path) -> None:
    """Beside hostname order and the lower bound, with what was assumed."""
    done = run_hpckit("place", *WORDS, "--mesh", "tensor=8,data=8", "--fabric", tree)
    assert done.returncode == 0, done.stderr
    for word in ("host names", "random", "bound", "data", "--volume"):
        assert word in done.stdout


def test_files_for_other_launchers(run_hpckit: RunHpckit, tree: Path) -> None:
    """The order a line a node, or a line a task as SLURM_HOSTFILE has it."""
    words = ("place", *WORDS, *MESH, "--fabric", tree)
    order = run_hpckit(*words, "--format", "order").stdout.splitlines()
    hosts = run_hpckit(*words, "--format", "hostfile").stdout.splitlines()
    assert hosts == [node for node in order for _ in range(8)]


def test_a_job_file_says_the_rest(run_hpckit: RunHpckit, tree: Path, job: Path) -> None:
    """Its nodes, ranks, mesh and volumes; an option stands over each."""
    found = document(run_hpckit, job, "--fabric", tree)
    assert (len(found["order"]), found["ranks_per_node"]) == (4, 2)
    assert {axis["name"]: axis["bytes_per_rank"] for axis in found["mesh"]} == {
        "tensor": 0.0,
        "data": 4e9,
    }
    over = ("--nodelist", "n[001-008]", "--gpus-per-node", "1", "--mesh", "data=8")
    found = document(run_hpckit, job, "--fabric", tree, *over)
    assert (len(found["order"]), found["ranks_per_node"]) == (8, 1)


def test_a_job_without_nodes_asks_for_them(run_hpckit: RunHpckit, tree: Path, job: Path) -> None:
    """A usage error that says how many."""
    job.write_text(JOB.replace('nodelist = "n[001-004]"', ""))
    done = run_hpckit("place", job, "--fabric", tree)
    assert done.returncode == 2
    assert "names the 4 nodes of the job" in done.stderr


def test_a_node_that_the_fabric_lacks_is_placed_last(run_hpckit: RunHpckit, tree: Path) -> None:
    """And is said."""
    words = ("--nodelist", "a1,n[001-007]", "--gpus-per-node", "8", *MESH, "--fabric", tree)
    found = document(run_hpckit, *words)
    assert found["order"][-1] == "a1"
    (note,) = [one for one in found["notes"] if "not in the fabric" in one]
    assert note == "1 of 8 nodes is not in the fabric, and last in every order shown: a1"
    shown = run_hpckit("place", *words)
    assert shown.stdout.startswith(" 124 ms communication per step: 1.03× less than host-name")
    assert " 8 nodes on 2 leaves, 1 node unknown (topology.conf)" in shown.stdout


def test_a_fabric_of_other_nodes_is_refused(run_hpckit: RunHpckit, tree: Path) -> None:
    """With what it has instead."""
    done = run_hpckit("place", "--nodelist", "x[1-64]", "--mesh", "data=64", "--fabric", tree)
    assert (done.returncode, done.stdout) == (5, "")
    assert "topology.conf has none of the job's 64 nodes: have x[1-64]" in done.stderr
    assert "fix: it has n[001-008]: " in done.stderr


def test_names_of_another_case_or_domain_are_those_of_the_fabric(
    run_hpckit: RunHpckit, tree: Path
) -> None:
    """The job's own names are in the order; a name that two nodes would have is in neither."""
    more = ("--gpus-per-node", "1", "--mesh", "data=4", "--fabric", tree)
    found = document(run_hpckit, "--nodelist", "N00[1-3].x.org,n004", *more)
    assert sorted(found["order"]) == ["N001.x.org", "N002.x.org", "N003.x.org", "n004"]
    assert not any("not in the fabric" in note for note in found["notes"])
    found = document(run_hpckit, "--nodelist", "N001.x,N001.y,n00[2-3]", *more)
    assert any("2 of 4 nodes are not in the fabric" in note for note in found["notes"])


def test_what_the_caller_told_is_shown(run_hpckit: RunHpckit, tree: Path) -> None:
    """As given, and no longer as assumed."""
    more = ("--oversubscription", "8", "--node-gbits", "400", "--fabric", tree)
    found = document(run_hpckit, *WORDS, *MESH, *more, "--slurm-version", "24.11")
    assert found["given"] == [
        "pipeline 200 MB, data 4 GB per rank and step",
        "400 Gb/s per node",
        "8:1 oversubscription at each leaf",
    ]
    assert found["assumed"] == ["no traffic on tensor (--volume)"]
    _, unknown = document(run_hpckit, *WORDS, *MESH, *more)["assumed"]
    assert unknown == "no Slurm release, so Slurm's own order is unknown (--slurm-version)"


def test_the_table_has_the_time_of_each_axis_and_fits(run_hpckit: RunHpckit, tree: Path) -> None:
    """Below the time of the step, in lines of 80 columns at most."""
    done = run_hpckit("place", *WORDS, *MESH, "--fabric", tree)
    lines = done.stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(" communication per step"))
    assert [line.split()[:2] for line in lines[at + 1 : at + 3]] == [
        ["along", "pipeline"],
        ["along", "data"],
    ]
    assert max(map(len, lines)) <= 80


def test_a_node_alone_shows_its_binding(run_hpckit: RunHpckit) -> None:
    """Of as many ranks as it has GPUs, or as are said: no network is asked for."""
    node = Path(__file__).parents[3] / "examples" / "dgx-h100.json"
    done = run_hpckit("place", "--node", node)
    assert (done.returncode, done.stderr) == (0, "")
    assert "near GPU 7" in done.stdout
    found = json.loads(run_hpckit("place", "--node", node, "--json").stdout)
    assert (found["schema"], len(found["ranks"])) == ("hpckit.binding/1", 8)
    words = ("place", "--node", node, "--gpus-per-node", "4", "--format")
    assert run_hpckit(*words, "cpu-bind").stdout.count("0x") == 4
    refused = run_hpckit(*words, "svg")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--format svg needs --mesh" in refused.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((*WORDS,), 2, "--mesh is needed"),
        (("--nodelist", "n[001-003]", "--mesh", "data=8"), 5, "for 3 nodes, need a multiple of 3"),
        (("--nodelist", "x[1-9]", "--mesh", "data=9"), 5, "has none of the job's 9 nodes"),
        (("--gpus-per-node", "8", "--mesh", "data=8"), 2, "--nodelist is needed"),
        ((*WORDS, *MESH, "--json", "--format", "order"), 2, "exclude each other"),
        ((*WORDS, *MESH, "--axis", "data"), 2, "--format svg alone"),
        ((*WORDS, "--gpus-per-node", "0", "--mesh", "data=8"), 2, "--gpus-per-node"),
        ((*WORDS, "--mesh", "data=eight"), 3, "expected a whole number"),
        ((*WORDS, "--mesh", "date=64"), 3, "expected one of: tensor"),
        ((*WORDS, "--mesh", "data=64,data=1"), 3, "given twice"),
        ((*WORDS, "--mesh", "data=64", "--volume", "data=-1"), 3, "expected a number of bytes"),
        (("--nodelist", "n1,n1", "--gpus-per-node", "8", "--mesh", "data=16"), 3, "twice"),
        ((*WORDS, *MESH, "--slurm-version", "new"), 3, "--slurm-version"),
        ((*WORDS, *MESH, "--topology", "no-such"), 3, "no topology 'no-such'"),
        (("--nodelist", "n[1-", "--gpus-per-node", "8", "--mesh", "data=8"), 4, "--nodelist"),
        ((*WORDS, "--mesh", "data=63"), 5, "63"),
        (
            (*WORDS, "--mesh", "data=64", "--volume", "tensor=1"),
            5,
            "there is a volume for axis tensor",
        ),
        ((*WORDS, "--mesh", "data=64,expert=3"), 5, "multiple of 3, the size of expert"),
    ],
)
def test_what_is_wrong_has_its_code(
    run_hpckit: RunHpckit, tree: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    """2 for the command line, 3 for a value, 4 for a text, 5 for what cannot be."""
    done = run_hpckit("place", *words, "--fabric", tree)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


def test_an_order_that_somebody_made_is_judged(
    run_hpckit: RunHpckit, tree: Path, tmp_path: Path
) -> None:
    """It has the figures of the same order among the others, blank lines and indents aside."""
    words = (*WORDS, *MESH, "--fabric", tree, "--slurm-version", "24.11")
    shown = document(run_hpckit, *words)
    order = tmp_path / "order.txt"
    order.write_text("\n\n".join(f" {node}" for node in shown["orders"]["hostname"]))
    found = document(run_hpckit, *words, "--evaluate", order)
    assert found["order"] == shown["orders"]["hostname"]
    for name, figures in found["objectives"].items():
        assert figures["placed"] == shown["objectives"][name]["hostname"]
    assert found["because"].startswith("a given order; hpckit's own takes 124 ms")
    order.write_text("\n".join(shown["order"]))
    own = document(run_hpckit, *words, "--evaluate", order)
    assert own["objectives"] == shown["objectives"]


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ("n[001-007]", "lacks nodes of the job: n008"),
        ("n[001-009]", "has hosts that are not nodes of the job: n009"),
        ("n[001-008,001]", "has hosts more than once: n001"),
    ],
)
def test_an_order_of_other_hosts_is_refused(
    run_hpckit: RunHpckit, tree: Path, tmp_path: Path, hosts: str, said: str
) -> None:
    """Each node of the job stands in it once."""
    order = tmp_path / "order.txt"
    order.write_text("".join(f"{host}\n" for host in expand_hosts(hosts)))
    done = run_hpckit("place", *WORDS, *MESH, "--fabric", tree, "--evaluate", order)
    assert (done.returncode, done.stdout) == (3, "")
    assert f"order.txt: {said}" in done.stderr.replace("\n", " ")


def test_what_to_do_about_a_mesh_of_another_size(run_hpckit: RunHpckit, tree: Path) -> None:
    """The number of nodes that fits, where a whole one does, and the product that does."""
    done = run_hpckit(
        "place", "--nodelist", "n001", "--gpus-per-node", "8", "--mesh", "data=16", "--fabric", tree
    )
    assert done.returncode == 5
    assert "have 8 ranks (1 node × 8), need 16 (data 16)" in done.stderr
    assert "fix: use 2 nodes, or change the mesh so that its sizes multiply to 8" in done.stderr


def test_a_leaf_without_a_cable_that_works_is_said(run_hpckit: RunHpckit, tmp_path: Path) -> None:
    """Nodes on both sides of it cannot reach each other, whatever their order."""
    ports = [{"node": node, "switch": node[0]} for node in ("a1", "a2", "b1", "b2")]
    dead = [{"is_active": False, "bytes_per_s": 5e10}]
    links = [
        {"lower": "a", "upper": "s", "cables": dead},
        {"lower": "b", "upper": "s", "cables": [{"bytes_per_s": 5e10}]},
    ]
    switches = [{"name": "a", "level": 0}, {"name": "b", "level": 0}, {"name": "s", "level": 1}]
    fabric = tmp_path / "fabric.json"
    fabric.write_text(
        json.dumps(
            {
                "schema": "hpckit.fabric/1",
                "source": "ibnetdiscover",
                "switches": switches,
                "links": links,
                "ports": ports,
            }
        )
    )
    more = ("--gpus-per-node", "1", "--fabric", fabric)
    notes = document(run_hpckit, "--nodelist", "a[1-2],b[1-2]", "--mesh", "data=4", *more)["notes"]
    (note,) = [one for one in notes if "working uplink" in one]
    assert note.startswith("a has no working uplink: its 2 nodes of this job cannot reach")
    notes = document(run_hpckit, "--nodelist", "a[1-2]", "--mesh", "data=2", *more)["notes"]
    assert not [one for one in notes if "working uplink" in one]


def test_the_nodes_of_the_surrounding_job(run_hpckit: RunHpckit, tree: Path) -> None:
    """Inside a job its own are meant."""
    words = ("place", "--gpus-per-node", "1", "--mesh", "data=3", "--fabric", tree)
    done = run_hpckit(*words, "--format", "order", env={"SLURM_JOB_NODELIST": "n[001-003]"})
    assert sorted(done.stdout.split()) == ["n001", "n002", "n003"]


def test_options_of_a_job_stand_over_its_file(run_hpckit: RunHpckit, job: Path) -> None:
    """--no-order, --no-bind and --strict-placement are those of [place]."""
    script = run_hpckit("render", job).stdout
    assert " run --order --bind --measure 1 --)" in script
    script = run_hpckit("render", job, "--no-order", "--strict-placement").stdout
    assert " run --bind --strict --measure 1 --)" in script
    script = run_hpckit("render", job, "--no-order", "--no-bind").stdout
    assert " run --measure 1 --)" in script


CONF = """\
SwitchName=a Nodes=n[1,3,5,7,9,11,13,15]
SwitchName=b Nodes=n[2,4,6,8,10,12,14,16]
SwitchName=top Switches=a,b
"""
SIZES = {MeshAxis.TENSOR: 8, MeshAxis.DATA: 4, MeshAxis.PIPELINE: 4}


def _placed(
    volumes: dict[MeshAxis, float],
) -> tuple[PlaceQuestion, ClusterTopology, Placement]:
    topology = parse_topology_conf(CONF, "made")
    question = PlaceQuestion(
        nodes=tuple(f"n{at}" for at in range(1, 17)),
        ranks_per_node=8,
        sizes=SIZES,
        volumes=volumes,
    )
    return question, topology, place_on(question, topology)


@pytest.mark.parametrize("axis", ["data", "pipeline"])
def test_the_axis_that_is_asked_for_has_the_colours(axis: str) -> None:
    """With the counts that the table shows for it."""
    question, topology, placement = _placed({MeshAxis.DATA: 4e9, MeshAxis.PIPELINE: 2e8})
    text = svg(question, topology, placement, axis)
    found = placement.groups[axis]
    assert f"number: {found.groups} {axis} groups of {found.nodes_per_group} nodes" in text
    for figure in (found.straddling.placed, found.straddling.hostname):
        assert f" · {figure} of {found.groups} {axis} groups split" in text


@pytest.mark.parametrize("volumes", [(4e9, 1.0), (1.0, 4e9)])
def test_the_axis_whose_time_the_order_changes_most_is_shown(
    volumes: tuple[float, float],
) -> None:
    """Where it changes none, the one whose groups are split most unlike between both orders."""
    placed = _placed(dict(zip((MeshAxis.DATA, MeshAxis.PIPELINE), volumes, strict=True)))
    changed = {
        name: (
            round(1e3 * abs(one.time_s.placed - one.time_s.hostname)),
            abs(one.straddling.placed - one.straddling.hostname),
        )
        for name, one in placed[2].groups.items()
    }
    most = max(changed, key=lambda name: changed[name])
    assert sorted(changed.values())[-1] > sorted(changed.values())[-2]
    assert f" {most} groups of " in svg(*placed, None)


def test_the_picture_begins_with_the_headline_of_the_table() -> None:
    """Each order has its predicted time; the name of the file is beside the nodes."""
    placed = _placed({MeshAxis.DATA: 4e9, MeshAxis.PIPELINE: 2e8})
    time = placed[2].objectives["step_comm_time_s"]
    text = svg(*placed, None, file="/far/away/net.conf")
    assert f"<title>{headline(time)}</title>" in text
    for seconds in (time.placed, time.hostname):
        assert f">{short_time(seconds)} · " in text
    assert "(net.conf)" in text


def test_an_axis_within_nodes_is_refused() -> None:
    """No group of it crosses nodes; the axes that do are named."""
    with pytest.raises(click.UsageError, match="stays on its node: --axis data or --axis pipeline"):
        svg(*_placed({}), "tensor")


def test_an_unknown_axis_names_the_others() -> None:
    """It is a mistake of the command line."""
    with pytest.raises(click.UsageError, match=r"no axis 'dta'.*tensor, data, pipeline"):
        svg(*_placed({}), "dta")
